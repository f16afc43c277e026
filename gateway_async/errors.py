"""Every error that leaves this library.

::

    GatewayError
    ├── ConfigurationError            a setting is wrong; nothing was sent
    ├── InvalidOrderError             an order or payment is wrong; nothing was sent (a ValueError)
    │   └── DuplicateOrderError       the same order twice in one batch
    ├── NotSentError                  proved: not one byte of the body was written
    │   ├── AlikeRefundError          the gateway lists a refund like it already: look first
    │   ├── CertificateError          the gateway's TLS certificate is not valid
    │   └── NotDoneError              it may have been sent, and recovery proved it was not done
    ├── OutcomeUnknownError           it may have happened: never resend blindly
    │   ├── ReplyUnreadableError      a reply came that is unreadable or unclear
    │   ├── ReplyTooLargeError        a reply came that is larger than `max_reply_bytes`
    │   ├── ReplyStatusError          a reply came with an HTTP status other than 200
    │   └── EvidenceError             a reply to a request that was never written: a defect
    ├── RejectedError                 the gateway refused; `code` and `text` give the reason
    ├── NotificationError             a notification cannot be read, or names no order
    ├── JournalError                  a journal read or write failed; nothing more is sent
    │   ├── JobNotFoundError          no job of this name
    │   ├── JobConflictError          the job exists already, with other orders
    │   ├── JobBusyError              another process has the job; its lease runs `seconds_left`
    │   └── LeaseLostError            the job is no longer ours: nothing was changed
    └── BatchIncompleteError          some orders did not succeed; `result` has every one

Each takes its message as the only positional argument and everything else by keyword, so that it
survives pickling. Messages hold no card data, secret or signature, and `hide_arguments` keeps what
a class or function is called with out of tracebacks.
"""

import contextlib
import functools
import traceback
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

_Model = TypeVar("_Model", bound=type)
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class GatewayError(Exception):
    """The base class of every error of this library."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class ConfigurationError(GatewayError):
    """A setting is wrong; the message names it and what is expected."""


class InvalidOrderError(GatewayError, ValueError):
    """An order, payment or payout is wrong; nothing of it was sent.

    Attributes:
        problems: Where several orders of a sequence are wrong, the error of each by its position.
    """

    def __init__(
        self, message: str = "", *, problems: "Mapping[int, InvalidOrderError] | None" = None
    ) -> None:
        super().__init__(message)
        self.problems: dict[int, InvalidOrderError] = dict(problems or {})


class DuplicateOrderError(InvalidOrderError):
    """The same order stands twice in one batch, or is under way in a coalescer."""


class _OnePaymentError(GatewayError):
    """What errors share that may be about a single payment or payout.

    Attributes:
        order_no: The order number of the payment it is about, if it is about one.
        request_id: The request id of the payout it is about, if it is about one.
    """

    order_no: str | None = None
    request_id: str | None = None


class _CodedError(GatewayError):
    """What errors share that may quote the gateway.

    Attributes:
        code: The gateway's code, or else its status; empty where it gave none.
        text: The gateway's text there.
    """

    def __init__(self, message: str = "", *, code: str = "", text: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.text = text


class NotSentError(_OnePaymentError):
    """Nothing was sent, and that is proved; it may be tried again.

    `AlikeRefundError` and `NotDoneError` are of this class, too, and say what is proved instead.
    """


class AlikeRefundError(NotSentError):
    """The gateway lists a refund of the same transaction and amount already; this one was not sent.

    `RecoveryPolicy.hold_alike_hours` says how far back.

    Attributes:
        reference: The `refund_reference_id` of the one that is listed; empty where it has none.
        refund_date: Its date, as the gateway gave it; None where it cannot be read.
    """

    def __init__(
        self, message: str = "", *, reference: str = "", refund_date: "datetime | None" = None
    ) -> None:
        super().__init__(message)
        self.reference = reference
        self.refund_date = refund_date


class CertificateError(NotSentError):
    """The TLS certificate of the gateway or its proxy is not valid.

    Nothing was sent, and nothing is retried.
    """


class NotDoneError(_CodedError, NotSentError):
    """It may have been sent, and the gateway's own records prove that it was not done.

    A job holds such an order rather than send it again, unless `RecoveryPolicy.resend_absent` says
    to.

    Attributes:
        code: The gateway's code in the reply to the order, as in `OutcomeUnknownError`.
        text: The gateway's text there.
    """


class OutcomeUnknownError(_CodedError, _OnePaymentError):
    """It may have happened. Look it up; never resend it blindly.

    Attributes:
        code: The gateway's code, or else its status, where a reply lists the order as neither done
            nor declined; else empty.
        text: The gateway's text there.
        is_pending: Whether the gateway accepted it and may still do it, by one of
            `Dialect.pending_statuses` or HTTP status 202: then no look-up proves that it was not
            done.
    """

    is_pending: bool = False


class ReplyUnreadableError(OutcomeUnknownError):
    """A reply came that cannot be read, contradicts itself or the request, or leaves it open."""


class ReplyTooLargeError(OutcomeUnknownError):
    """A reply came that is larger, decompressed, than `max_reply_bytes`."""


class ReplyStatusError(OutcomeUnknownError):
    """A reply came with an HTTP status other than 200.

    Attributes:
        status: The HTTP status.
        retry_after_seconds: What the reply's Retry-After header asks for, if it has one.
    """

    def __init__(
        self, message: str = "", *, status: int = 0, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.is_pending: bool = status == HTTPStatus.ACCEPTED
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class EvidenceError(OutcomeUnknownError):
    """A reply came to a request whose body was never written: the evidence cannot be trusted."""


class RejectedError(_CodedError):
    """The gateway answered that it did not do it.

    Attributes:
        code: The gateway's code, as it came.
        text: The gateway's text, as it came.
    """


NOTHING_SENT = (NotSentError, ConfigurationError, InvalidOrderError)
"""What an order that was not sent may have as its error."""


class NotificationError(GatewayError):
    """A notification cannot be read, or names no order; the message quotes nothing of it."""


class JournalError(GatewayError):
    """A journal read or write failed.

    Attributes:
        job: The name of the job it is about, if it is about one.
        is_in_doubt: Whether a write may have been kept all the same: its commit was under way when
            the connection broke.
    """

    def __init__(
        self, message: str = "", *, job: str | None = None, is_in_doubt: bool = False
    ) -> None:
        super().__init__(message)
        self.job = job
        self.is_in_doubt = is_in_doubt


class JobNotFoundError(JournalError):
    """The journal has no job of this name."""


class JobConflictError(JournalError):
    """The job has other orders, or is of another operation, merchant, account or gateway."""


class JobBusyError(JournalError):
    """Another process has the job.

    Attributes:
        seconds_left: How long its lease still runs, unless it renews it.
    """

    def __init__(
        self, message: str = "", *, job: str | None = None, seconds_left: float = 0.0
    ) -> None:
        super().__init__(message, job=job)
        self.seconds_left = seconds_left


class LeaseLostError(JournalError):
    """The job is no longer ours: the lease ran out or another process took it. Nothing changed."""


class BatchIncompleteError(GatewayError):
    """Some order of a batch did not succeed, or something unexpected came back.

    Attributes:
        result: The `BatchResult`, with the outcome of every order.
    """

    def __init__(self, message: str = "", *, result: Any = None) -> None:  # noqa: ANN401  # a layer above
        super().__init__(message)
        self.result = result


def hide_arguments(model: _Model) -> _Model:
    """Keep what a class is called with out of the tracebacks of its own errors.

    A traceback holds the local variables of its frames, and those of `__init__` would be the
    secrets before they are wrapped, and an instance that is too unfinished for its `repr`.
    """
    model.__init__ = hide_given(model.__init__)  # type: ignore[misc]  # of the class, not an instance
    return model


def hide_given(function: "Callable[_Given, _Made]") -> "Callable[_Given, _Made]":
    """Keep what a function is called with out of the tracebacks of its own errors."""

    @functools.wraps(function)
    def hiding(*values: _Given.args, **fields: _Given.kwargs) -> _Made:
        problem: Exception | None = None
        try:
            return function(*values, **fields)
        except Exception as error:  # noqa: BLE001  # raised below; the caller's own iterables may raise any
            problem = error.with_traceback(None)
        del values, fields
        raise problem

    return hiding


def name_and_place(error: BaseException) -> str:
    """Name the class of an exception, and where it was raised: its text may hold a secret."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}"


@contextlib.contextmanager
def require_extra(by: str, *packages: str, install: str) -> "Iterator[None]":
    """Import within this what an extra brings.

    Args:
        by: The name of the module that cannot do without.
        packages: What is imported, by its top-level names.
        install: What brings it, as an argument of pip.

    Raises:
        ModuleNotFoundError: If one of them is missing, saying how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in packages:
            raise
        raise ModuleNotFoundError(
            f"{by} needs {package}: pip install {install}", name=error.name
        ) from None
