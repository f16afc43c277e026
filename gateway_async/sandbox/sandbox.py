"""The sandbox as a user of the library meets it."""

import math
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

import attrs

from gateway_async.dialect import Dialect, PaymentState
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox.app import Server
from gateway_async.sandbox.checkout import to_location
from gateway_async.sandbox.faults import Faults
from gateway_async.sandbox.ledger import Ledger, PaymentStatus, to_amount
from gateway_async.sandbox.notifier import WRITERS, Notifier
from gateway_async.sandbox.records import DONE, REFUSED
from gateway_async.sandbox.service import Service
from gateway_async.signing import HmacSigner

if TYPE_CHECKING:
    from collections import deque

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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_pauses(value: object) -> bool:
    numbers = value if isinstance(value, tuple | list) else (None,)
    return all(type(one) in (int, float) and 0 <= one < math.inf for one in numbers)


# What settings must be, and how that is said; the value is not: one of them is the secret.
_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "merchant_id account_id secret": (_is_text, "a non-empty str"),
    "random_seed": (lambda value: value is None or isinstance(value, int), "an int"),
    "deduplicate_payouts notify_signed": (lambda value: isinstance(value, bool), "True or False"),
    "clock": (callable, "a function that returns a datetime"),
    "return_url cancel_url": (lambda url: url == "" or bool(to_location(url)), "a web address"),
    "notify_format": (WRITERS.__contains__, f"one of {', '.join(WRITERS)}"),
    "notify_pauses": (_are_pauses, "a tuple of numbers of seconds, 0 or more"),
}


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

    merchant_id: str = "M1"
    account_id: str = "A1"
    secret: str = attrs.field(default="sandbox-secret", repr=False)
    host: str = LOOPBACK
    port: int = 0
    random_seed: int | None = None
    deduplicate_payouts: bool = False
    clock: "Callable[[], datetime]" = _utc_now
    return_url: str = ""
    cancel_url: str = ""
    notify_format: str = "form"
    notify_signed: bool = True
    notify_pauses: tuple[float, ...] = (0.0, 0.2, 1.0)
    faults: Faults = attrs.field(init=False)
    ledger: Ledger = attrs.field(init=False, factory=Ledger)
    _signer: HmacSigner = attrs.field(init=False)
    _notifier: Notifier = attrs.field(init=False)
    _server: Server | None = attrs.field(init=False, default=None)
    _base_url: str = attrs.field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        for names, (is_right, expected) in _CHECKS.items():
            for name in names.split():
                value = getattr(self, name)
                if not is_right(value):
                    got = type(value).__name__
                    raise ConfigurationError(f"Sandbox.{name}: expected {expected}, got {got}")
        self.faults = Faults(random_seed=self.random_seed)
        self._signer = HmacSigner(self.secret)
        self._notifier = Notifier(
            signer=self._signer if self.notify_signed else None,
            written_as=self.notify_format,
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
        chosen = PaymentStatus.__members__.get(status.upper())
        text = f"{amount:f}" if isinstance(amount, Decimal) else str(amount)
        paid = to_amount(text) if type(amount) in (Decimal, str, int) else None
        if type(count) is not int or count < 0:
            raise ConfigurationError(f"Sandbox.seed: {count!r} is no count; write 0 or more")
        if chosen is None:
            known = ", ".join(name.lower() for name in PaymentStatus.__members__)
            raise ConfigurationError(f"Sandbox.seed: {status!r} is no status; there are {known}")
        if paid is None:
            raise ConfigurationError(
                f"Sandbox.seed: {amount!r} is no amount; write a Decimal or its text, as '10.00'"
            )
        now, first = self.clock(), len(self.ledger) + 1
        opened = [
            self.ledger.open(
                order_no=f"S{number:08d}", currency=currency, amount=paid, now=now, status=chosen
            )
            for number in range(first, first + count)
        ]
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
        service = Service(
            identity={"merchant_id": self.merchant_id, "account_id": self.account_id},
            signer=self._signer,
            ledger=self.ledger,
            deduplicate_payouts=self.deduplicate_payouts,
            base_url=self._base_url,
            return_url=self.return_url,
            cancel_url=self.cancel_url,
        )
        self._server = Server(service, self.faults, clock=self.clock, notifier=self._notifier)
        await self._server.start(listening)
        return self

    async def __aexit__(self, *failure: object) -> None:
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
