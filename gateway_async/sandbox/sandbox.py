"""The sandbox as a user of the library meets it."""

import math
import os
import socket
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

import attrs

from gateway_async.dialect import Dialect, PaymentState
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox.app import Server
from gateway_async.sandbox.checkout import Checkout, to_location
from gateway_async.sandbox.faults import Faults
from gateway_async.sandbox.ledger import Ledger, PaymentStatus, to_amount
from gateway_async.sandbox.messages import Merchant
from gateway_async.sandbox.notifier import WRITERS, Notifier
from gateway_async.sandbox.records import DONE, REFUSED
from gateway_async.sandbox.service import Service

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from types import TracebackType

    from gateway_async.sandbox.app import RequestLog
    from gateway_async.sandbox.notifier import Notification

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  # recognised, not bound to


@attrs.frozen(kw_only=True)
class SeededOrder:
    """An order that the sandbox made without a payment request.

    Attributes:
        transaction_id: The gateway's identifier.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency.
    """

    transaction_id: str
    order_no: str
    currency: str
    amount: Decimal


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _expect(is_right: "Callable[[Any], bool]", expected: str) -> Any:  # noqa: ANN401  # a validator
    def check(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        if not is_right(value):  # the value is not shown: one of them is the secret
            raise ConfigurationError(
                f"Sandbox.{attribute.name}: expected {expected}, got {type(value).__name__}"
            )

    return check


def _are_pauses(value: object) -> bool:
    numbers = value if isinstance(value, tuple | list) else (None,)
    return all(type(one) in (int, float) and 0 <= one < math.inf for one in numbers)


def _web_address(_: object, attribute: "attrs.Attribute[Any]", url: str) -> None:
    if url and not to_location(url):
        raise ConfigurationError(f"Sandbox.{attribute.name}: {url!r} is no http or https address")


_TEXT = _expect(lambda value: isinstance(value, str) and bool(value.strip()), "a non-empty str")
_FLAG = _expect(lambda value: isinstance(value, bool), "True or False")
_SEED = _expect(lambda value: value is None or isinstance(value, int), "an int")
_CLOCK = _expect(callable, "a function that returns a datetime")
_PAUSES = _expect(_are_pauses, "a tuple of numbers of seconds, 0 or more")


@attrs.define(kw_only=True, eq=False, repr=False)
class Sandbox:
    """A gateway on this machine, over real HTTP, to develop and test against.

    .. code-block:: python

        from gateway_async.sandbox import Sandbox
        from gateway_async.sandbox.faults import DropReply

        async with Sandbox() as sandbox:
            payments = sandbox.seed(3, status="captured")
            sandbox.faults.add("refund", DropReply(times=1))
            gateway = GatewayClient(sandbox.base_url, credentials, dialect=sandbox.dialect)

    When the block ends every connection is closed, held ones too, and late effects that are still
    out never land. A sandbox is entered once; its ledger and logs stay readable afterwards.

    Attributes:
        merchant_id: The one merchant that it knows.
        account_id: The merchant's account.
        secret: What messages are signed with, as `HmacSigner(secret)` does it.
        host: The address to listen on; other machines reach it only if you say so here.
        port: The port; 0 is a free one.
        random_seed: Makes faults with a probability repeatable.
        deduplicate_payouts: Whether a `request_id` is paid once only.
        clock: What time it is, with a time zone.
        return_url: Where shoppers go once they have chosen on the payment page, where the payment
            has no `return_url` of its own (a redirect payment has none); `{order_no}` in it stands
            for the order number. For a real gateway it is set in its portal.
        cancel_url: Where they go when they leave that page without a choice, likewise; without
            one, to the `return_url`.
        notify_format: How notifications are written: "form", "json" or "xml".
        notify_signed: Whether notifications carry an `encryption_data`, made as a request's is.
        notify_pauses: Seconds before each attempt to notify a merchant, one number an attempt.
        faults: What goes wrong; add to them at any time.
        ledger: What was really done.

    Raises:
        ConfigurationError: A setting is wrong.
    """

    merchant_id: str = attrs.field(default="M1", validator=_TEXT)
    account_id: str = attrs.field(default="A1", validator=_TEXT)
    secret: str = attrs.field(default="sandbox-secret", validator=_TEXT, repr=False)
    host: str = LOOPBACK
    port: int = 0
    random_seed: int | None = attrs.field(default=None, validator=_SEED)
    deduplicate_payouts: bool = attrs.field(default=False, validator=_FLAG)
    clock: "Callable[[], datetime]" = attrs.field(default=_utc_now, validator=_CLOCK)
    return_url: str = attrs.field(default="", validator=_web_address)
    cancel_url: str = attrs.field(default="", validator=_web_address)
    notify_format: str = "form"
    notify_signed: bool = attrs.field(default=True, validator=_FLAG)
    notify_pauses: tuple[float, ...] = attrs.field(default=(0.0, 0.2, 1.0), validator=_PAUSES)
    faults: Faults = attrs.field(init=False)
    ledger: Ledger = attrs.field(init=False, factory=Ledger)
    _notifier: Notifier = attrs.field(init=False)
    _server: Server | None = attrs.field(init=False, default=None)
    _base_url: str = attrs.field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        if self.notify_format not in WRITERS:
            known = ", ".join(map(repr, WRITERS))
            raise ConfigurationError(
                f"Sandbox.notify_format: {self.notify_format!r} is no format; there are {known}"
            )
        self.faults = Faults(random_seed=self.random_seed)
        merchant = Merchant(
            merchant_id=self.merchant_id, account_id=self.account_id, secret=self.secret
        )
        self._notifier = Notifier(
            merchant=merchant,
            written_as=self.notify_format,
            signed=self.notify_signed,
            pauses=self.notify_pauses,
        )

    def __repr__(self) -> str:
        return f"<Sandbox {self._base_url or 'not started'}: {self.ledger!r}>"

    @property
    def base_url(self) -> str:
        """Where it listens, without a slash at the end."""
        self._started()
        return self._base_url

    @property
    def requests(self) -> "RequestLog":
        """The requests that came, by operation."""
        return self._started().requests

    @property
    def notifications(self) -> "deque[Notification]":
        """The last 1,000 results that were sent to a `notify_url`, or given up."""
        return self._notifier.sent

    @property
    def dialect(self) -> Dialect:
        """What a client must know of this gateway, which the interface does not show.

        A real gateway has a dialect of its own: ask its operator.
        """
        return Dialect(
            done_statuses={DONE},
            declined_statuses={REFUSED},
            payout_declined_statuses={"FAILED"},
            payment_states={
                PaymentStatus.AUTHORISED.value: PaymentState.AUTHORISED,
                PaymentStatus.CAPTURED.value: PaymentState.CAPTURED,
                PaymentStatus.CANCELLED.value: PaymentState.CANCELLED,
            },
            payout_deduplicates=self.deduplicate_payouts,
        )

    def _started(self) -> Server:
        if self._server is None:
            raise ConfigurationError("Sandbox: not started; use `async with Sandbox() as sandbox:`")
        return self._server

    def seed(
        self,
        count: int,
        *,
        status: str = "authorised",
        amount: Decimal | str = Decimal("10.00"),
        currency: str = "EUR",
    ) -> list[SeededOrder]:
        """Make orders as if they had been paid before; no effect is counted for it.

        Args:
            count: How many.
            status: "authorised" or "captured", or another name of `PaymentStatus`.
            amount: The amount of each, in units of the currency.
            currency: Currency code.

        Raises:
            ConfigurationError: There is no such status, or the count or amount is none.
        """
        if type(count) is not int or count < 0:
            raise ConfigurationError(f"Sandbox.seed: {count!r} is no count; write 0 or more")
        chosen = PaymentStatus.__members__.get(status.upper())
        if chosen is None:
            known = ", ".join(name.lower() for name in PaymentStatus.__members__)
            raise ConfigurationError(f"Sandbox.seed: {status!r} is no status; there are {known}")
        text = f"{amount:f}" if isinstance(amount, Decimal) else str(amount)
        paid = to_amount(text) if type(amount) in (Decimal, str, int) else None
        if paid is None:
            raise ConfigurationError(
                f"Sandbox.seed: {amount!r} is no amount; write a Decimal or its text, such as "
                "'10.00'"
            )
        now = self.clock()
        first = len(self.ledger) + 1
        opened = (
            self.ledger.open(
                order_no=f"S{number:08d}", currency=currency, amount=paid, now=now, status=chosen
            )
            for number in range(first, first + count)
        )
        names = [field.name for field in attrs.fields(SeededOrder)]
        return [SeededOrder(**{name: getattr(one, name) for name in names}) for one in opened]

    def land_late_effects(self) -> int:
        """Let every late effect that is still out land now; return how many there were."""
        return self._started().land_late_effects()

    async def deliver_notifications(self) -> int:
        """Let late notifications go now, and wait until all are sent or given up.

        Returns:
            How many were under way; afterwards they are the last of `notifications`.
        """
        return await self._notifier.deliver_all()

    async def __aenter__(self) -> Self:
        if self._server is not None:
            raise ConfigurationError("Sandbox: entered twice; make a new one")
        listening = _bind(self.host, self.port)
        self._base_url = _base_url(listening)
        merchant, ledger = self._notifier.merchant, self.ledger
        pages = Checkout(
            merchant=merchant,
            ledger=ledger,
            base_url=self._base_url,
            return_url=self.return_url,
            cancel_url=self.cancel_url,
        )
        service = Service(
            merchant=merchant,
            ledger=ledger,
            pages=pages,
            deduplicate_payouts=self.deduplicate_payouts,
        )
        self._server = Server(service, self.faults, clock=self.clock, notifier=self._notifier)
        await self._server.start(listening)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        await self._started().stop()
        await self._notifier.stop()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows it would let two servers have one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:  # the others: what is no port at all
        listening.close()
        raise ConfigurationError(f"Sandbox: cannot listen on {host} port {port}: {error}") from None
    return listening


def _base_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = LOOPBACK if host in _EVERYWHERE else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
