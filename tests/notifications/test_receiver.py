"""Notifications that meet: repeated, late, many at once, and cut short, in a chosen order."""

import asyncio
import contextvars
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock
from urllib.parse import urlencode

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from gateway_async import ConfigurationError, Dialect, GatewayClient
from gateway_async.notifications import NotificationReceiver
from tests.coalescer.held import HeldReplies, sent, settle_down
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.notifications.serving import tell
from tests.orders import reply_to

TOLD = b"transaction_id=T000000"


class States:
    """A gateway whose one payment goes from state to state, asked by asked.

    Attributes:
        holding: By the number of the request, what it waits for.
    """

    def __init__(self, *states: str) -> None:
        self.holding: dict[int, asyncio.Event] = {}
        self.asked = 0
        self._states = states

    def client(self) -> GatewayClient:
        return client_over(MemoryTransport(self._answer))

    async def _answer(self, asked: Asked) -> dict[str, Any]:
        number, self.asked = self.asked, self.asked + 1
        items = [
            {"transaction_id": one, "query_result": "1", "payment_status": self._states[number]}
            for one in asked.transactions
        ]
        if number in self.holding:
            await self.holding[number].wait()
        return reply_to("query", items)


class Handler:
    """An application whose calls are held until a test lets them go.

    Attributes:
        heard: The states it was told, when it was told.
        goes_on: Lets calls end.
        error: What calls raise.
    """

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.called = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, record: Any) -> None:
        self.heard.append(record.payment_status)
        self.called.set()
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error


def _start(work: Any) -> "asyncio.Task[tuple[int, str]]":
    return asyncio.get_running_loop().create_task(work)


async def test_a_repeat_waits_for_the_first_and_shares_its_success() -> None:
    gateway, handler = States("1", "1"), Handler()
    receiver = NotificationReceiver(gateway.client(), handler, linger_seconds=0)
    first = _start(tell(receiver, TOLD))
    await handler.called.wait()
    second = _start(tell(receiver, TOLD))
    await settle_down()
    assert gateway.asked == 2
    assert not second.done()
    handler.goes_on.set()
    assert [(await task)[0] for task in (first, second)] == [200, 200]
    assert handler.heard == ["1"]


async def test_a_repeat_of_what_failed_meanwhile_is_told_again() -> None:
    gateway, handler = States("1", "1"), Handler()
    handler.error = LookupError()
    receiver = NotificationReceiver(gateway.client(), handler, linger_seconds=0)
    first = _start(tell(receiver, TOLD))
    await handler.called.wait()
    second = _start(tell(receiver, TOLD))
    await settle_down()
    assert (gateway.asked, handler.heard) == (2, ["1"])
    handler.goes_on.set()
    assert (await first)[0] == 500
    assert (await second)[0] == 500
    assert handler.heard == ["1", "1"]


async def test_an_answer_that_was_overtaken_is_not_told() -> None:
    gateway, handler = States("early", "late", "late"), Handler()
    handler.goes_on.set()
    gateway.holding[0] = asyncio.Event()
    receiver = NotificationReceiver(gateway.client(), handler, linger_seconds=0)
    overtaken = _start(tell(receiver, TOLD))
    await settle_down()
    assert gateway.asked == 1
    assert (await tell(receiver, TOLD))[0] == 200
    gateway.holding[0].set()
    assert (await overtaken)[0] == 200
    assert handler.heard == ["late"]
    assert gateway.asked == 3


async def test_what_changes_at_every_look_is_left_to_be_repeated() -> None:
    gateway, handler = States(*map(str, range(20))), Handler()
    handler.goes_on.set()
    receiver = NotificationReceiver(gateway.client(), handler, linger_seconds=0)
    receiver._known["T000000"] = (b"another look", 1_000_000)  # always overtaken
    assert (await tell(receiver, TOLD))[0] == 503
    assert handler.heard == []


async def test_a_cancelled_handler_is_not_remembered() -> None:
    gateway, handler = States("1", "1"), Handler()
    receiver = NotificationReceiver(gateway.client(), handler, linger_seconds=0)
    first = _start(tell(receiver, TOLD))
    await handler.called.wait()
    first.cancel()
    await asyncio.wait({first})
    handler.goes_on.set()
    assert (await tell(receiver, TOLD))[0] == 200
    assert handler.heard == ["1", "1"]


async def test_memory_is_bounded_and_what_is_forgotten_is_told_again() -> None:
    heard: list[Any] = []
    receiver = NotificationReceiver(
        client_over(MemoryTransport(all_done)),
        lambda record: heard.append(record.transaction_id),
        remembered=2,
    )
    for name in ("T1", "T2", "T1", "T3", "T3", "T1"):
        assert (await tell(receiver, f"transaction_id={name}".encode()))[0] == 200
    assert heard == ["T1", "T2", "T3", "T1"]
    assert len(receiver._known) == 2


async def test_many_at_once_share_look_ups_and_too_many_are_sent_away() -> None:
    held = HeldReplies()
    heard: list[Any] = []
    receiver = NotificationReceiver(held.client(), heard.append, concurrency=250)
    tasks = [
        _start(tell(receiver, urlencode({"transaction_id": f"T{n}"}).encode())) for n in range(300)
    ]
    await held.asked.wait()
    held.goes_on.set()
    statuses = [(await task)[0] for task in tasks]
    assert statuses == [200] * 250 + [503] * 50
    assert [len(names) for names in sent(held.transport)] == [100, 100, 50]
    assert len({record.transaction_id for record in heard}) == len(heard) == 250
    assert receiver._busy == 0
    assert not receiver._turns


async def test_what_breaks_off_is_not_taken() -> None:
    heard: list[Any] = []
    receiver = NotificationReceiver(client_over(MemoryTransport(all_done)), heard.append)
    assert await tell(receiver, b"transaction_id=T1", None) == (400, "it broke off")  # to nobody
    assert heard == []
    assert receiver._busy == 0


@pytest.mark.parametrize(
    "error", [ConnectionResetError("Connection lost"), web.RequestPayloadError("no chunk")]
)
async def test_a_body_that_breaks_off_is_no_error_of_a_server_of_aiohttp(error: Exception) -> None:
    heard: list[Any] = []
    receiver = NotificationReceiver(client_over(MemoryTransport(all_done)), heard.append)
    protocol = mock.create_autospec(BaseProtocol, instance=True, _reading_paused=False)
    payload = StreamReader(protocol, 2**16, loop=asyncio.get_running_loop())
    payload.feed_data(TOLD[:5])
    payload.set_exception(error)
    answer = await receiver.handle(make_mocked_request("POST", "/notify", payload=payload))
    assert (answer.status, answer.text) == (400, "it broke off")
    assert heard == []
    assert receiver._busy == 0


async def test_a_body_that_a_middleware_of_aiohttp_has_read_is_read_again() -> None:
    heard: list[Any] = []
    receiver = NotificationReceiver(
        client_over(MemoryTransport(all_done)), heard.append, max_body_bytes=len(TOLD)
    )

    @web.middleware
    async def log_body(request: web.Request, handler: Any) -> Any:
        await request.text()
        return await handler(request)

    app = web.Application(middlewares=[log_body])
    app.router.add_post("/notify", receiver.handle)
    async with TestClient(TestServer(app)) as anybody:
        answers = [await anybody.post("/notify", data=body) for body in (TOLD, TOLD + b"1", b"")]
    assert [answer.status for answer in answers] == [200, 413, 400]
    assert len(heard) == 1


async def test_a_body_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway_async.notifications.receiver._BODY_SECONDS", 0.01)
    receiver = NotificationReceiver(client_over(MemoryTransport(all_done)), print)

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    answer = await receiver._answer("POST", {}, never())
    assert answer.status == 408


@pytest.mark.parametrize("is_asynchronous", [False, True])
async def test_a_verifier_must_say_true(is_asynchronous: bool) -> None:
    says = iter([True, False, None, 1, "yes"])

    def plain(*_: object) -> Any:
        return next(says)

    async def asynchronous(*_: object) -> Any:
        return next(says)

    verifier: Any = asynchronous if is_asynchronous else plain
    receiver = NotificationReceiver(
        client_over(MemoryTransport(all_done)), lambda _: None, verifier=verifier
    )
    statuses = [(await tell(receiver, TOLD))[0] for _ in range(5)]
    assert statuses == [200, 403, 403, 403, 403]


async def test_payouts_that_nobody_takes_are_left_to_be_repeated() -> None:
    receiver = NotificationReceiver(
        client_over(MemoryTransport(all_done)), print, verifier=lambda *_: True
    )
    assert (await tell(receiver, b"request_id=7f0c"))[0] == 404


async def test_a_verifier_sees_what_came_and_may_break(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def verifier(headers: Any, body: bytes, fields: Any) -> bool:
        seen.append((headers["x-signature"], body, dict(fields)))
        raise ZeroDivisionError("the secret is s3cret")

    receiver = NotificationReceiver(
        client_over(MemoryTransport(all_done)), print, verifier=verifier
    )
    body = b"order_no=A&encryption_data=5f3c"
    status, _ = await tell(receiver, body, headers={"X-Signature": "abc"})
    assert status == 500
    assert seen == [("abc", body, {"order_no": "A", "encryption_data": "5f3c"})]
    assert "the verifier raised ZeroDivisionError at" in caplog.text
    assert "5f3c" not in caplog.text


async def test_what_the_gateway_expects_to_be_answered_is_a_dialects_choice() -> None:
    gateway = client_over(
        MemoryTransport(all_done), dialect=Dialect(notification_answer="[accepted]")
    )
    receiver = NotificationReceiver(gateway, lambda _: None)
    assert await tell(receiver, TOLD) == (200, "[accepted]")


def test_a_receiver_serves_one_loop_after_another_and_remembers() -> None:
    heard: list[Any] = []
    receiver = NotificationReceiver(client_over(MemoryTransport(all_done)), heard.append)
    assert [asyncio.run(tell(receiver, TOLD))[0] for _ in range(2)] == [200, 200]
    assert len(heard) == 1


async def test_what_comes_once_the_client_is_closed_is_left_to_be_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = client_over(MemoryTransport(all_done))
    receiver = NotificationReceiver(gateway, lambda _: None)
    await gateway.aclose()
    assert await tell(receiver, TOLD) == (503, "it cannot be confirmed now")
    assert "this GatewayClient is closed" in caplog.text


async def test_a_look_up_belongs_to_no_single_notification() -> None:
    notification = contextvars.ContextVar("notification", default="none")
    signed, heard = [], []

    def sign(*_: object) -> str:
        signed.append(notification.get())
        return "signature"

    async def hear(receiver: NotificationReceiver, number: str) -> None:
        notification.set(number)
        assert (await tell(receiver, b"transaction_id=T00000" + number.encode()))[0] == 200

    gateway = client_over(MemoryTransport(all_done), signer=sign)
    receiver = NotificationReceiver(gateway, lambda _: heard.append(notification.get()))
    for number in ("1", "2"):
        await asyncio.create_task(hear(receiver, number))
    assert heard == ["1", "2"]
    assert signed == ["none", "none"]


async def test_other_kinds_of_connection_are_not_served() -> None:
    receiver = NotificationReceiver(client_over(MemoryTransport(all_done)), print)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(NotImplementedError, match="'websocket'"):
        await receiver({"type": "websocket"}, nothing, nothing)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"on_payout": print}, "on_payout: needs a verifier"),
        ({"verifier": "secret"}, "verifier: expected a function"),
        ({"verifier": ""}, "verifier: expected a function"),
        ({"on_payout": 1, "verifier": print}, "on_payout: expected a function"),
        ({"on_payout": False, "verifier": print}, "on_payout: expected a function"),
        ({"concurrency": 0}, "concurrency: expected an int"),
        ({"remembered": -1}, "remembered: expected an int"),
        ({"max_body_bytes": "1"}, "max_body_bytes: expected an int"),
        ({"linger_seconds": -1}, "linger_seconds: expected a number"),
        ({"policy": 3}, "policy: expected BatchPolicy"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        NotificationReceiver(client_over(MemoryTransport(all_done)), print, **settings)
    with pytest.raises(ConfigurationError, match="gateway: expected GatewayClient, got str"):
        NotificationReceiver("https://gateway.example", print)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="on_payment: expected a function"):
        NotificationReceiver(client_over(MemoryTransport(all_done)), None)  # type: ignore[arg-type]  # on purpose
