"""Notifications: what a merchant hears at its `notify_url`, and how that gets there.

The interface shows neither the payload of a notification, nor its signature, nor which operation
emits one, nor whether it comes again. All of it is the sandbox's own choice: a payment of any kind
and a payout are notified once they are decided.

Nothing leaves this machine: no other address than its own is called, and no redirect is followed.
"""

import asyncio
import contextlib
from collections import deque
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
import attrs
from yarl import URL

from gateway_async.operations import BodyFormat, Operation
from gateway_async.sandbox.faults import (
    Faults,
    LateNotification,
    LostNotification,
    Plan,
    RepeatedNotification,
)
from gateway_async.sandbox.messages import Fields
from gateway_async.signing import SIGNATURE_FIELD, Signer

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT = 1000
_TIMEOUT = aiohttp.ClientTimeout(total=5)


@attrs.frozen(kw_only=True)
class Notification:
    """A result that was sent to a `notify_url`, or given up.

    Attributes:
        operation: What it is the result of: `pay_direct`, `pay_apm`, `checkout` or `payout`.
        transaction_id: What it is about.
        url: The `notify_url`.
        body: The form that was sent, the same at each attempt; to be sent again as it is.
        attempts: How often it was tried; 0 where it was lost on purpose, or where the address is
            not on this machine.
        status: The HTTP status of the last attempt; None without an answer.
    """

    operation: str
    transaction_id: str
    url: str
    body: bytes = attrs.field(repr=False)
    attempts: int = 0
    status: int | None = None

    @property
    def delivered(self) -> bool:
        """Whether the merchant's server took it with an HTTP status of 2xx."""
        return self.status in range(200, 300)


@attrs.define(kw_only=True, eq=False)
class Notifier:
    """Sends notifications to merchants, in the background.

    Attributes:
        signer: Makes their `encryption_data`, as that of a request.
        faults: What goes wrong with them.
        pauses: Seconds before each attempt, one number an attempt.
        sent: The last 1,000 notifications, in the order in which they were sent or given up.
    """

    signer: Signer
    faults: Faults
    pauses: "Sequence[float]"
    sent: deque[Notification] = attrs.field(init=False, factory=lambda: deque(maxlen=_KEPT))
    _session: aiohttp.ClientSession | None = attrs.field(init=False, default=None)
    _under_way: "dict[asyncio.Task[None], asyncio.Event]" = attrs.field(init=False, factory=dict)

    def send(self, url: str, operation: Operation, fields: Fields) -> None:
        """Send a result in the background; what may not or cannot be sent is given up at once.

        It is written and signed once: the bytes are the same at each attempt.
        """
        plan = self.faults.plan(operation.name, notifications=True)
        signature = self.signer.sign(operation, fields)
        notification = Notification(
            operation=operation.name,
            transaction_id=fields["transaction_id"],
            url=url,
            body=urlencode({**fields, SIGNATURE_FIELD: signature}).encode(),
        )
        if plan.of(LostNotification) or not is_loopback(url):
            self.sent.append(notification)
            return
        turn = asyncio.Event()
        task = asyncio.create_task(self._deliver(notification, plan, turn))
        self._under_way[task] = turn
        task.add_done_callback(self._under_way.pop)

    async def deliver_all(self) -> int:
        """Let all that wait go now, and see them through; return how many were under way."""
        tasks = list(self._under_way)
        for turn in self._under_way.values():
            turn.set()
        if tasks:
            await asyncio.wait(tasks)
        return len(tasks)

    async def stop(self) -> None:
        """Give up what is under way."""
        await asyncio.sleep(0)  # what has not begun would end without a word
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _deliver(self, notification: Notification, plan: Plan, turn: asyncio.Event) -> None:
        """Wait as long as its faults want, or until it is its turn, and send each copy."""
        seconds = sum(fault.seconds for fault in plan.of(LateNotification))
        copies = max([1, *(fault.copies for fault in plan.of(RepeatedNotification))])
        sent = notification
        try:
            if seconds:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(turn.wait(), seconds)
            for copy in range(copies):
                if copy:
                    self.sent.append(sent)
                for attempt, pause in enumerate(self.pauses, 1):
                    await asyncio.sleep(pause)
                    sent = attrs.evolve(notification, attempts=attempt)
                    sent = attrs.evolve(sent, status=await self._post(sent))
                    if sent.delivered:
                        break
        finally:
            self.sent.append(sent)

    async def _post(self, notification: Notification) -> int | None:
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
            )
        try:
            async with self._session.post(
                notification.url,
                data=notification.body,
                headers={"Content-Type": BodyFormat.FORM},
                allow_redirects=False,
            ) as response:
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return None


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine, without asking a name server."""
    try:
        parts = URL(url)
        host = parts.host or ""
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
    return is_here and parts.scheme in ("http", "https")
