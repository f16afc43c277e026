"""From a hint to what the gateway's own records say of it, and from there to the application.

Law: the application is told only what a look-up showed that began after it was told of the same
payment before, one at a time for each payment, and is told the same only once, unless it failed.
How notifications arrive, and how they are answered, is not known here.
"""

import asyncio
import hashlib
import inspect
import itertools
import logging
from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs
import orjson

from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.notifications.reading import plain_fields
from gateway_async.signing import SIGNATURE_FIELD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gateway_async.batching.results import Outcome
    from gateway_async.coalescer import Coalescer
    from gateway_async.models.records import TransactionRecord
    from gateway_async.notifications.reading import Notification

    Handler = Callable[[Any], Awaitable[object] | object]

_MOST_LOOKS = 5
_log = logging.getLogger("gateway_async.notifications")


class Fate(Enum):
    """What became of a notification."""

    TAKEN = "the application has it, now or since before"
    ABSENT = "the gateway has no such payment"
    UNANSWERED = "the gateway could not be asked"
    FAILED = "the application's handler raised"
    UNREADABLE = "it names what cannot be looked up"
    OUTDATED = "the application was told since it was asked"


class Memory:
    """What the application was told last of each payment, as far back as there is room.

    Args:
        size: Names that are remembered; the longest unheard of is forgotten first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[str, tuple[bytes, int]] = OrderedDict()
        self._moments = itertools.count()

    def moment(self) -> int:
        """Return a number for now; a later one is larger."""
        return next(self._moments)

    def holds(self, name: str, news: bytes) -> bool:
        """Say whether this is what the application was told last."""
        return self._known.get(name, (b"", 0))[0] == news

    def is_newer(self, name: str, moment: int) -> bool:
        """Say whether the application was told of a payment after this moment."""
        return self._known.get(name, (b"", -1))[1] > moment

    def keep(self, name: str, news: bytes) -> None:
        """Note that the application was told."""
        self._known[name] = news, self.moment()
        self._known.move_to_end(name)
        if len(self._known) > self._size:
            self._known.popitem(last=False)


@attrs.define(eq=False)
class Confirmer:
    """Asks the gateway, and tells the application.

    Attributes:
        single: By which the gateway is asked.
        on_payment: The application, for payments.
        on_payout: The application, for payouts.
        memory: What it was told.
    """

    single: "Coalescer"
    on_payment: "Handler"
    on_payout: "Handler | None"
    memory: Memory
    _turns: "WeakValueDictionary[str, asyncio.Lock]" = attrs.field(
        factory=WeakValueDictionary, init=False
    )

    async def confirm(self, notification: "Notification") -> Fate:
        """Hand on what the gateway's records say of a payment that somebody names."""
        for _ in range(_MOST_LOOKS):
            fate = await self._look_up(notification)
            if fate is not Fate.OUTDATED:
                return fate
        return Fate.UNANSWERED

    async def pass_on(self, notification: "Notification") -> Fate:
        """Hand on a payout that is verified, and cannot be looked up."""
        if self.on_payout is None:
            return Fate.ABSENT
        name = f"payout {notification.request_id}"
        fields = plain_fields(notification)
        news = _digest({n: text for n, text in fields.items() if n != SIGNATURE_FIELD})
        told = f"{name} {news.hex()}"  # each by itself: a late repeat of an earlier one is no news
        async with self._turn(name):
            if self.memory.holds(told, news):
                return Fate.TAKEN
            return await self._call(self.on_payout, notification, told, news)

    def _turn(self, name: str) -> asyncio.Lock:
        """Return what is held while the application is told of one payment."""
        return self._turns.setdefault(name, asyncio.Lock())

    async def _look_up(self, notification: "Notification") -> Fate:
        """Look a payment up, and tell the application of each record of it."""
        asked_at = self.memory.moment()
        try:
            outcome = await self.single.query(notification.ref)
        except InvalidOrderError:  # such as a reference with the dialect's separator in it
            return Fate.UNREADABLE
        if outcome.status is OutcomeStatus.ABSENT:
            return Fate.ABSENT
        if outcome.status is not OutcomeStatus.SUCCEEDED:
            return _unanswered(outcome)
        for record, item in zip(outcome.record or (), outcome.items, strict=True):
            name = record.transaction_id or record.order_no or notification.ref.value
            async with self._turn(name):
                fate = await self._tell(name, record, _digest(item), asked_at)
            if fate is not Fate.TAKEN:
                return fate
        return Fate.TAKEN

    async def _tell(
        self, name: str, record: "TransactionRecord", news: bytes, asked_at: int
    ) -> Fate:
        """Tell the application of one record, unless it knows."""
        if self.memory.holds(name, news):
            return Fate.TAKEN
        if self.memory.is_newer(name, asked_at):  # it may know what came later than this
            return Fate.OUTDATED
        return await self._call(self.on_payment, record, name, news)

    async def _call(self, handler: "Handler", subject: object, name: str, news: bytes) -> Fate:
        try:
            told = handler(subject)
            if inspect.isawaitable(told):
                await told
        except Exception:  # noqa: BLE001  # the application's code: the gateway is to repeat it
            _log.exception("the handler of notifications raised; the gateway is to repeat it")
            return Fate.FAILED
        self.memory.keep(name, news)
        return Fate.TAKEN


def _unanswered(outcome: "Outcome[Any, Any]") -> Fate:
    _log.warning("a notification could not be confirmed: %s", outcome.error or outcome.status)
    return Fate.UNANSWERED


def _digest(fields: "Mapping[str, Any]") -> bytes:
    """Return a few bytes that stand for the fields, whatever their order."""
    written = orjson.dumps(dict(fields), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(written, digest_size=16).digest()
