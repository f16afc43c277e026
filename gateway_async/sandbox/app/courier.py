"""Notifications on their way to a merchant's `notify_url`, in the background.

Law: nothing leaves this machine. It is kept where connections are made: whatever a name resolves
to, no socket is opened to an address that is not this machine's, and no redirect is followed.
"""

import asyncio
import socket
from collections import deque
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

import aiohttp
import attrs

from gateway_async.sandbox.activity import Notification
from gateway_async.sandbox.addresses import is_loopback
from gateway_async.sandbox.notices import (
    LateNotification,
    LostNotification,
    OvertakenNotification,
    RepeatedNotification,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.sandbox.messages import Notice
    from gateway_async.sandbox.notices import Message, NoticeWriter, NotificationFault

_KEPT = 1000
_MOST_UNDER_WAY = 1000
_CONNECTIONS = 8
_TIMEOUT = aiohttp.ClientTimeout(total=5)


@attrs.define(eq=False)
class _Delivery:
    """One notification under way.

    Attributes:
        notice: What is told, and where.
        message: The same as it is written.
        faults: What strikes it.
        overtaken: Those that wait until this one is through.
        turn: Set when it need not wait any longer.
        tellings: How often it was told, or given up.
    """

    notice: "Notice"
    message: "Message"
    faults: "Sequence[NotificationFault]"
    overtaken: "Sequence[_Delivery]"
    turn: asyncio.Event = attrs.field(factory=asyncio.Event)
    tellings: int = 0

    @property
    def is_overtaken(self) -> bool:
        return any(isinstance(fault, OvertakenNotification) for fault in self.faults)

    @property
    def copies(self) -> int:
        return max([1, *(f.copies for f in self.faults if isinstance(f, RepeatedNotification))])

    async def my_turn(self) -> None:
        """Wait as long as its faults want, or until it is its turn."""
        seconds = sum(f.seconds for f in self.faults if isinstance(f, LateNotification))
        if not (seconds or self.is_overtaken):
            return
        try:
            async with asyncio.timeout(None if self.is_overtaken else seconds):
                await self.turn.wait()
        except TimeoutError:
            return


class Courier:
    """Tells merchants what became of payments and payouts.

    Args:
        writer: How notifications are written.
        pauses: Seconds before each attempt, one number an attempt.

    Attributes:
        told: The last 1,000 notifications, in the order in which they were told or given up.
    """

    def __init__(self, writer: "NoticeWriter", *, pauses: "Sequence[float]") -> None:
        self.told: deque[Notification] = deque(maxlen=_KEPT)
        self._writer = writer
        self._pauses = pauses
        self._session: aiohttp.ClientSession | None = None
        self._under_way: dict[asyncio.Task[None], _Delivery] = {}

    def send(self, notice: "Notice", faults: "Sequence[NotificationFault]") -> None:
        """Tell something in the background; what may not or cannot be told is given up at once."""
        waiting = [one for one in self._under_way.values() if one.is_overtaken]
        delivery = _Delivery(notice, self._writer.write(notice), faults, overtaken=waiting)
        lost = any(isinstance(fault, LostNotification) for fault in faults)
        if lost or len(self._under_way) >= _MOST_UNDER_WAY or not is_loopback(notice.url):
            self._note(delivery, attempts=0, status=None)
            return
        task = asyncio.create_task(self._carry(delivery))
        self._under_way[task] = delivery
        task.add_done_callback(self._finish)

    async def deliver(self) -> int:
        """Let all that wait go now, and see them through; return how many were under way."""
        tasks = list(self._under_way)
        for delivery in self._under_way.values():
            delivery.turn.set()
        if tasks:
            await asyncio.wait(tasks)
        return len(tasks)

    async def stop(self) -> None:
        """Give up what is under way."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _carry(self, delivery: _Delivery) -> None:
        await delivery.my_turn()
        for _ in range(delivery.copies):
            await self._tell(delivery)

    async def _tell(self, delivery: _Delivery) -> None:
        attempts, status = 0, None
        try:
            for pause in self._pauses:
                await asyncio.sleep(pause)
                attempts += 1
                status = await self._post(delivery)
                if _is_taken(status):
                    break
        finally:
            self._note(delivery, attempts=attempts, status=status)

    async def _post(self, delivery: _Delivery) -> int | None:
        if self._session is None:
            self._session = _open_session()
        message = delivery.message
        try:
            async with self._session.post(
                delivery.notice.url,
                data=message.body,
                headers={"Content-Type": message.content_type},
                allow_redirects=False,
            ) as response:
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return None

    def _finish(self, task: "asyncio.Task[None]") -> None:
        delivery = self._under_way.pop(task)
        if not delivery.tellings:
            self._note(delivery, attempts=0, status=None)
        for other in delivery.overtaken:
            other.turn.set()

    def _note(self, delivery: _Delivery, *, attempts: int, status: int | None) -> None:
        delivery.tellings += 1
        self.told.append(
            Notification(
                operation=delivery.notice.operation.name,
                transaction_id=delivery.notice.transaction_id,
                url=delivery.notice.url,
                content_type=delivery.message.content_type,
                body=delivery.message.body,
                delivered=_is_taken(status),
                attempts=attempts,
                status=status,
            )
        )


def _is_taken(status: int | None) -> bool:
    return status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _open_session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=_CONNECTIONS, force_close=True, socket_factory=_open_socket
    )
    return aiohttp.ClientSession(
        connector=connector, timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
    )


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, where = address
    if not ip_address(where[0]).is_loopback:
        raise PermissionError(f"a sandbox calls nobody but this machine, and not {where[0]}")
    return socket.socket(family, kind, protocol)
