"""The session layer: signs and encodes requests, sends them, repeats some, and decodes replies.

The texts that are signed are the texts that go out. A request that moves money is repeated only on
proof that nothing was sent; a look-up also if no readable reply came, and so is a payout that the
gateway deduplicates (`Dialect.payout_deduplicates`). Only a reply with HTTP status 200 is decoded,
unless the signer finds its signature wrong; another status proves nothing, unless the dialect gives
it a meaning. This module does not know an order or a batch.
"""

import asyncio
import math
import random
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs

from gateway_async.errors import (
    NOTHING_SENT,
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    JournalError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
    ReplyStatusError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    name_and_place,
)
from gateway_async.models.values import MASK, is_encodable
from gateway_async.operations import BodyFormat, Operation
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.telemetry import Attempt, Log
from gateway_async.transport import HttpRequest, HttpResponse, SendTracker
from gateway_async.wire.decode import identifier, in_utf8, reply_fields, shown
from gateway_async.wire.encode import JsonText, bracketed_fields, encode_form, encode_json
from gateway_async.wire.glance import Glance

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractAsyncContextManager

    from gateway_async.dialect import Dialect
    from gateway_async.settings import RecoveryPolicy, RetryPolicy, Timeouts
    from gateway_async.signing import Credentials
    from gateway_async.telemetry import Instrumentation
    from gateway_async.transport import AiohttpTransport

T = TypeVar("T")

_log = Log("requests")

CALL_CANCELLED = "the call was cancelled"
DEADLINE_PASSED = "the deadline had passed"

HTTP_OK = 200
_REDIRECTS = range(300, 400)
_MOST_DOUBLINGS = 60
_SURELY_LISTED = 10
_SHORTEST_SIGNATURE = 16
"""A shorter signature may be part of any text; it is masked only in a field of its name."""

_BEGAN = time.time() - time.monotonic()
"""The wall-clock time at which the monotonic clock stood at 0, as computed at import."""


def steady_time() -> float:
    """Return seconds since the epoch; it does not run ahead when the wall clock is set forward.

    So no refund counts as settled too early. It may lag behind the wall clock.
    """
    return min(time.time(), _BEGAN + time.monotonic())


async def wait_out(
    tasks: "Collection[asyncio.Task[Any]]",
    seconds: float,
    abandon: "Callable[[], object]",
    *,
    again_seconds: float | None = None,
) -> asyncio.CancelledError | None:
    """Wait up to so many seconds for tasks; then call `abandon`, which cancels what is left.

    Args:
        tasks: What is waited for.
        seconds: How long; at a cancellation, no longer.
        abandon: Cancels them.
        again_seconds: After how long it is called again; None where once is enough.

    Returns:
        The cancellation that cut the waiting short, if one did.
    """
    interruption, is_late = None, seconds <= 0
    while pending := [task for task in tasks if not task.done()]:
        if is_late:
            abandon()
        try:
            await asyncio.wait(pending, timeout=again_seconds if is_late else seconds)
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        is_late = True
    return interruption


class Gate:
    """Whether requests may leave now: pauses the gateway asked for, a deadline, a stop.

    A gate that was stopped never opens again. The stop cancels the tasks of requests that have
    written nothing. `Attempts.run` takes that cancellation back: it ends the request, and not what
    the task does next. A gate is made while its event loop runs.

    Attributes:
        now: The clock of the loop.
        deadline: Loop time after which no request leaves.
        drain_seconds: How long a request that has left may take beyond the deadline.
        paused_until: Loop time before which no request leaves.
        running: The requests under way, by the task that makes each.
    """

    def __init__(self, *, deadline: float = math.inf, drain_seconds: float = math.inf) -> None:
        self.now: Callable[[], float] = asyncio.get_running_loop().time
        self.deadline = deadline
        self.drain_seconds = drain_seconds
        self.paused_until: float = -math.inf
        self.running: dict[asyncio.Task[Any], Attempts[Any]] = {}
        self._stopped_because: str | None = None

    @property
    def is_too_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline < math.inf and self.now() >= self.deadline

    @property
    def stop_reason(self) -> str | None:
        """Why no request may leave any more; None while requests may leave."""
        if self._stopped_because is None and self.is_too_late:
            return DEADLINE_PASSED
        return self._stopped_because

    def stop(self, reason: str) -> None:
        """Let no request leave any more, and end those not yet sent; the first reason stays."""
        self._stopped_because = self._stopped_because or reason
        for task, attempts in list(self.running.items()):
            if task is not asyncio.current_task() and attempts.withdraw():
                task.cancel()

    def pause(self, seconds: float) -> None:
        """Let no request leave for so long."""
        self.paused_until = max(self.paused_until, self.now() + seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long, at most until the deadline; a stop cancels the sleeping request."""
        await asyncio.sleep(min(seconds, self.deadline - self.now()))

    async def wait_open(self) -> None:
        """Wait while the gate is paused.

        Raises:
            NotSentError: If no request may leave any more.
        """
        while (seconds := self.paused_until - self.now()) > 0 and self.stop_reason is None:
            await self.sleep(seconds)
        if (reason := self.stop_reason) is not None:
            raise NotSentError(f"nothing was sent: {reason}")


@attrs.define(kw_only=True, eq=False)
class Request(Generic[T]):
    """One request to make, of any operation; its repr shows no content.

    Attributes:
        operation: The operation.
        fields: The fields without identity and signature, as text, ready for the wire.
        decode: Reads the body of a reply with HTTP status 200, or raises `ReplyUnreadableError` or
            `RejectedError`.
        find_refusal: Returns the error of a reply that refuses it, or may do so by a status without
            a meaning; else None. Called if an earlier attempt was sent: that one may have
            succeeded, and this one been refused for that reason.
        is_verbatim: Whether its reply is passed on as it came: a page repeats the signature.
    """

    operation: Operation
    fields: "Mapping[str, str]" = attrs.field(repr=False)
    decode: "Callable[[HttpResponse], T]" = attrs.field(repr=False)
    find_refusal: "Callable[[T], RejectedError | None] | None" = attrs.field(
        default=None, repr=False
    )
    is_verbatim: bool = False


@attrs.frozen(kw_only=True, eq=False)
class Session:
    """All that the requests of a client share.

    Attributes:
        transport: Sends HTTP requests.
        credentials: The merchant and its signer.
        dialect: What the interface leaves open.
        timeouts: The time limits of one call.
        retry: How often, and with which pauses, a request is repeated.
        recovery: How an unknown outcome is settled, and what is recorded for that before.
        limiter: Entered around every attempt, if there is one.
        instrumentation: Logs requests, and reports them to the telemetry.
        resending: Operation and transaction of each order that a recovery may be sending again.
        gateway: The gateway, as `checked_base_url` writes it.
    """

    transport: "AiohttpTransport"
    credentials: "Credentials"
    dialect: "Dialect"
    timeouts: "Timeouts"
    retry: "RetryPolicy"
    recovery: "RecoveryPolicy"
    limiter: "AbstractAsyncContextManager[object] | None"
    instrumentation: "Instrumentation"
    gateway: str
    resending: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    _glances: dict[str, Glance] = attrs.field(factory=dict, init=False)
    _longest_lists: dict[str, int] = attrs.field(factory=dict)  # a copy shares it

    def glance(self, operation: Operation) -> Glance | None:
        """Return what was learnt of the usual replies to an operation.

        None where a reply need not repeat the text that was sent: the dialect has other names for
        it, or orders are only looked up.
        """
        if operation.is_look_up or self.dialect.wire_names:
            return None
        return self._glances.setdefault(operation.name, Glance(operation))

    def may_be_cut(self, look_up: Operation, listed: int) -> bool:
        """Return whether a list may be cut short: it has ten records or more, and none had more.

        A gateway may list fewer than 100 records; one that lists fewer than ten is not expected.
        """
        longest = self._longest_lists.get(look_up.name, _SURELY_LISTED)
        self._longest_lists[look_up.name] = max(longest, listed)
        return listed >= longest

    def compose(self, request: Request[T]) -> HttpRequest:
        """Sign the fields as they go out, and write the body from the same texts."""
        operation, credentials, dialect = request.operation, self.credentials, self.dialect
        body_format = dialect.body_formats.get(operation.name, operation.body)
        is_json = body_format is BodyFormat.JSON
        fields = {
            "merchant_id": credentials.merchant_id,
            "account_id": credentials.account_id,
            **request.fields,
        }
        if dialect.form_nesting == "brackets" and not is_json:
            fields = bracketed_fields(fields)
        signature = self._sign(operation, {**fields})  # a signer may add its key to what it signs
        fields[SIGNATURE_FIELD] = signature
        if is_json:
            content_type, body = dialect.json_content_type, encode_json(fields)
        else:
            content_type, body = str(body_format), encode_form(fields)
        return HttpRequest(operation.path, content_type, body, signature)

    def decode(self, request: Request[T], raw: HttpResponse, signature: str) -> T:
        """Read a reply, with the signature of its request masked.

        Raises:
            RejectedError: For a status by which the dialect says that nothing was done.
            OutcomeUnknownError: For any other status than 200, and for what cannot be read.
        """
        if raw.status != HTTP_OK:
            raise self._status_error(request.operation, raw)
        body = in_utf8(raw.body, raw.headers.get("Content-Type", ""))
        self._verify(request, body)
        if not request.is_verbatim:
            body = _masked(request, signature, body)
        raw.body = body
        return request.decode(raw)

    def check_owner(self, fields: "Mapping[str, Any]") -> None:
        """Refuse a decoded reply that names another merchant or account than ours.

        Raises:
            ReplyUnreadableError: If it does; what is missing or empty names none.
        """
        for name in ("merchant_id", "account_id"):
            said, ours = fields.get(name), getattr(self.credentials, name)
            is_empty = said in (None, [], {}) or (isinstance(said, str) and not said.strip())
            if not is_empty and identifier(said) != ours.strip():
                raise ReplyUnreadableError(
                    f"the reply is for another {name}: expected {ours!r}, got {shown(said)!r}"
                )

    def _sign(self, operation: Operation, fields: "Mapping[str, str]") -> str:
        try:
            signature = self.credentials.signer.sign(operation, fields)
        except Exception as error:  # noqa: BLE001  # the caller's code: its frames know the fields
            problem = f"nothing was sent: the signer raised {name_and_place(error)}"
            raise ConfigurationError(problem) from None
        is_text = isinstance(signature, str) and is_encodable(signature)  # type: ignore[redundant-expr]  # anything may be returned
        if not (is_text and signature.strip()):
            kind = "an empty one" if is_text else type(signature).__name__
            raise ConfigurationError(
                f"nothing was sent: the signer must return text that UTF-8 can carry, not {kind}"
            )
        return signature

    def _status_error(self, operation: Operation, raw: HttpResponse) -> GatewayError:
        trusted = raw.status in self.dialect.nothing_done_http_statuses
        if trusted and not operation.is_look_up:
            return RejectedError(
                f"the gateway answered HTTP {raw.status}, which the dialect lists as "
                '"nothing was done"',
                code=str(raw.status),
            )
        followed = "; redirects are not followed" if raw.status in _REDIRECTS else ""
        return ReplyStatusError(
            f"the gateway answered HTTP {raw.status}{followed}",
            status=raw.status,
            retry_after_seconds=retry_after(raw.headers),
        )

    def _verify(self, request: Request[Any], body: bytes) -> None:
        """Let the signer check a reply that carries a signature, if it can."""
        verify = getattr(self.credentials.signer, "verify", None)
        if verify is None:
            return
        try:
            fields = reply_fields(body)
        except ReplyUnreadableError:
            if request.is_verbatim:  # a page or a text carries no signature
                return
            raise  # decoding might read it all the same, and its signature would go unchecked
        signature = fields.pop(SIGNATURE_FIELD, "")
        if not signature or (isinstance(signature, JsonText) and signature == "null"):
            return
        try:
            right = verify(request.operation, fields, signature)
        except Exception as error:  # noqa: BLE001  # the caller's code: its frames know the fields
            problem = f"the signer raised {name_and_place(error)} over the reply"
            raise ReplyUnreadableError(problem) from None
        if not right:
            raise ReplyUnreadableError("the reply's signature is not right")


class Intent(Protocol):
    """The intent to send a request."""

    async def record(self) -> None:
        """Record the intent, unless that was done; if that raises, nothing is sent.

        Called before each attempt.
        """

    async def retract(self) -> None:
        """Record that nothing was sent; the next attempt records the intent again."""

    def check(self) -> None:
        """Raise if nothing may be sent any more."""


def _unshown(_: type, fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """Keep fields from tools that show the attrs fields of local variables: one holds the reply."""
    return [field.evolve(repr=False) for field in fields]


@attrs.define(eq=False, field_transformer=_unshown)
class Attempts(Generic[T]):
    """The attempts of one request: as many as are allowed, and how it ended.

    A cancellation of the task that runs it is not raised but ends the request, and `error` says
    what the tracker proves. Nothing happens before it is run.

    Attributes:
        session: What it shares with the other requests of its client.
        gate: Whether it may leave.
        intent: Recorded when it is the request's turn, and checked right before the first byte.
            Retracted before a request of which nothing was sent waits for its next attempt. None if
            nothing is recorded.
        value: The decoded reply; None if there is an error.
        tries: Attempts made.
        sent: How many of them may have sent something.
        ended_at: When the last one ended, in seconds since the epoch; 0 before.
    """

    _session: Session
    _gate: Gate
    _intent: Intent | None = None
    _request: Request[T] = attrs.field(init=False)
    value: T | None = attrs.field(default=None, init=False)
    _error: GatewayError | None = attrs.field(default=None, init=False)
    tries: int = attrs.field(default=0, init=False)
    sent: int = attrs.field(default=0, init=False)
    ended_at: float = attrs.field(default=0.0, init=False)
    _ended: list[tuple[float, int | None, str | None]] = attrs.field(factory=list, init=False)
    _withdrawals: int = attrs.field(default=0, init=False)
    _tracker: SendTracker | None = attrs.field(default=None, init=False)
    # In loop time: when the attempt's turn came, and when the time for all attempts is over.
    _turn_came_at: float | None = attrs.field(default=None, init=False)
    _gives_up_at: float = attrs.field(default=math.inf, init=False)

    @property
    def error(self) -> GatewayError | None:
        """The error; None if there is a value. Before it is run, nothing was sent."""
        if self._error is None and not self.tries:
            return _given_up(sent=False)
        return self._error

    @property
    def history(self) -> tuple[Attempt, ...]:
        """The attempts whose turn came, the first one first."""
        return tuple(
            Attempt(seconds=seconds, http_status=http_status, error=name)
            for seconds, http_status, name in self._ended
        )

    async def run(self, write: "Callable[[], Request[T]]") -> None:
        """Write the request, and send it, repeated where that is allowed."""
        task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment]  # never none: aiohttp, too, needs a task
        try:
            self._request = write()
            message = self._session.compose(self._request)
        except GatewayError as error:
            self._error = _bare(error)
            return
        except BaseException as error:  # noqa: BLE001  # such as Ctrl-C: its frames hold secrets
            raise error.with_traceback(None) from None
        self._gate.running[task] = self
        try:
            await self._attempt(message)
            while self._error and self._may_repeat() and await self._wait_for_next():
                _log.warning("%s is tried again: %s", self._request.operation, self._error)
                await self._attempt(message)
        finally:
            del self._gate.running[task]
            for _ in range(self._withdrawals):
                task.uncancel()

    def withdraw(self) -> bool:
        """Return whether sending could still be prevented; then the gate cancels its task."""
        if self._tracker is not None and self._tracker.revoke():
            return False
        self._withdrawals += 1
        return True

    async def _attempt(self, message: HttpRequest) -> None:
        """Send the request once, when it may leave, and note how the attempt ended."""
        response: HttpResponse | None = None
        problem: GatewayError | None = None
        check = None if self._intent is None else self._intent.check
        tracker = self._tracker = SendTracker(check)
        limiter = self._session.limiter
        self._turn_came_at = None
        try:
            if limiter is None:
                response = await self._send(message, tracker)
            else:
                await self._gate.wait_open()  # not while it has a place in the limiter
                async with limiter:
                    response = await self._send(message, tracker)
        except JournalError as error:  # the intent's: it ends the whole job
            problem = error
            raise
        except GatewayError as error:
            problem = _bare(error)
        except asyncio.CancelledError:
            self._gate.stop(CALL_CANCELLED)
        finally:  # also if a collaborator raised
            self._conclude(message, tracker, response, problem)

    async def _send(self, message: HttpRequest, tracker: SendTracker) -> HttpResponse:
        """Record the intent when the request may leave, and send it in the time that is left."""
        session, gate = self._session, self._gate
        await gate.wait_open()
        if self._intent is not None:
            await self._intent.record()
        self._turn_came_at = now = gate.now()
        if self._gives_up_at == math.inf:  # the time runs from the turn of the first attempt
            self._gives_up_at = now + session.timeouts.total_seconds
        seconds = min(self._gives_up_at, gate.deadline + gate.drain_seconds) - now
        if seconds <= 0:
            raise NotSentError("nothing was sent: the time for this call was over")
        try:
            return await session.transport.send(message, tracker=tracker, seconds=seconds)
        except GatewayError as error:  # a limiter may raise now, with this error as its context
            raise _bare(error) from error.__cause__

    def _conclude(
        self,
        message: HttpRequest,
        tracker: SendTracker,
        response: HttpResponse | None,
        error: GatewayError | None,
    ) -> None:
        """Note how an attempt ended: with a response, an error, or, with neither, a cancellation.

        Whether an error means `not sent` is decided by the tracker, not by its class.
        """
        is_sent, had_sent = tracker.revoke(), self.sent > 0
        self._tracker = None  # this attempt is counted; the next has a tracker of its own
        self.tries += 1
        self.sent += is_sent
        self.value, self.ended_at = None, time.time()
        ending: GatewayError | None = None
        try:
            if response is not None:  # a reply counts, whatever the limiter raised
                ending = self._read(response, message, had_sent=had_sent)
            elif error is not None:
                ending = _proved(error, sent=is_sent)
            else:
                ending = _given_up(sent=is_sent, reason=self._gate.stop_reason)
        except BaseException:  # raised again: the judge has a defect
            ending = _given_up(sent=is_sent)
            raise
        finally:
            if self._turn_came_at is not None:
                seconds = self._gate.now() - self._turn_came_at
                http_status = None if response is None else response.status
                name = None if ending is None else type(ending).__name__
                self._ended.append((seconds, http_status, name))
            if ending is None or not had_sent or self._says_more(ending, is_sent=is_sent):
                self._error = ending

    def _read(
        self, response: HttpResponse, message: HttpRequest, *, had_sent: bool
    ) -> GatewayError | None:
        """Set `value` from a response, or return why there is none."""
        session, find_refusal = self._session, self._request.find_refusal
        if response.status != HTTP_OK and (asked := retry_after(response.headers)) is not None:
            self._gate.pause(min(asked, session.retry.max_pause_seconds))
        try:
            value = session.decode(self._request, response, message.signature)
            refusal = find_refusal(value) if had_sent and find_refusal is not None else None
        except GatewayError as problem:
            return _bare(problem)
        except BaseException as problem:  # noqa: BLE001  # such as Ctrl-C: its frames hold the reply
            problem.add_note(f"raised by {name_and_place(problem)}")
            raise problem.with_traceback(None) from None
        if refusal is not None:  # it may be refused because the attempt before it was done
            return OutcomeUnknownError(
                f"an earlier attempt was sent and its reply lost; sent again, {refusal}",
                code=refusal.code,
                text=refusal.text,
            )
        self.value = value
        return None

    def _says_more(self, error: GatewayError, *, is_sent: bool) -> bool:
        """Return whether an error says more than that of an earlier attempt, which was sent.

        The earlier attempt may have done it. That stands if this one sent nothing, and if it was
        refused: perhaps for the very reason that the earlier one was done.
        """
        is_refusal = isinstance(error, RejectedError) and not self._request.operation.is_look_up
        return is_sent and not is_refusal

    async def _wait_for_next(self) -> bool:
        """Wait before the next attempt; return whether there is to be one.

        The gate lets it wait for what is left of a pause that the gateway asked for.
        """
        retry, gate = self._session.retry, self._gate
        limit = retry.first_pause_seconds * 2 ** min(self.tries - 1, _MOST_DOUBLINGS)
        pause = random.uniform(0, min(limit, retry.max_pause_seconds))  # noqa: S311  # jitter
        wakes = max(gate.now() + pause, gate.paused_until)
        is_last = self.tries >= retry.attempts or gate.stop_reason is not None
        if is_last or wakes >= min(self._gives_up_at, gate.deadline):
            return False
        try:
            if self._intent is not None and not self.sent:
                await self._intent.retract()  # a process that dies while it waits has begun nothing
            await gate.sleep(pause)
        except asyncio.CancelledError:  # the last attempt's result still holds
            gate.stop(CALL_CANCELLED)
            return False
        return True

    def _may_repeat(self) -> bool:
        """Return whether another attempt is allowed after this error."""
        error, operation = self._error, self._request.operation
        if isinstance(error, NotSentError):
            return not isinstance(error, CertificateError)
        is_deduplicated = operation.is_keyed and self._session.dialect.payout_deduplicates
        is_safe = operation.is_look_up or is_deduplicated
        return (
            is_safe
            and isinstance(error, OutcomeUnknownError)
            and not isinstance(error, ReplyTooLargeError)
        )


def retry_after(headers: "Mapping[str, str]") -> float | None:
    """Read a Retry-After header: seconds, or a date."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)  # dates in HTTP are in UTC
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _masked(request: Request[Any], signature: str, body: bytes) -> bytes:
    """Mask the signature of a request in its reply.

    A signature that also occurs in the signed fields, such as an order number, is no secret.
    """
    if len(signature) < _SHORTEST_SIGNATURE:
        return body
    variants = {signature.encode(), signature.upper().encode()}  # some write hex in upper case
    found = [each for each in variants if body.rfind(each) >= 0]  # quicker than from the left
    if found and not any(signature in text for text in request.fields.values()):
        for each in found:
            body = body.replace(each, MASK.encode())
    return body


def _bare(error: GatewayError) -> GatewayError:
    """Return the error without its frames, which hold the request."""
    error.__context__ = None
    return error.with_traceback(None)


def _proved(error: GatewayError, *, sent: bool) -> GatewayError:
    """Return the error of an attempt as the tracker proves it: its class proves nothing."""
    name = type(error).__name__
    if sent:
        if isinstance(error, OutcomeUnknownError):
            return error
        return OutcomeUnknownError(f"the request was sent, and then {name} was raised: {error}")
    if isinstance(error, (*NOTHING_SENT, EvidenceError)):
        return error
    return NotSentError(f"nothing was sent: {name} was raised before: {error}")


def _given_up(*, sent: bool, reason: str | None = None) -> GatewayError:
    if sent:
        return OutcomeUnknownError("the request was sent and given up before its reply was read")
    return NotSentError(f"nothing was sent: {reason or 'the call was given up before'}")
