"""The application gets what the gateway confirms, once and in order, and nothing else."""

import asyncio
import contextlib
import gzip
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import attrs
import pytest
import uvicorn
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from starlette.applications import Starlette
from starlette.routing import Route

from gateway_async import ConfigurationError, Dialect, RetryPolicy
from gateway_async.notifications import Notification, NotificationReceiver, SignatureVerifier
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.signing import HmacSigner
from tests.support.memory import (
    Asked,
    HeldReplies,
    MemoryTransport,
    all_done,
    client_over,
    sent,
    settle_down,
)
from tests.support.orders import client_of, reply_to
from tests.support.servers import answering, bind

SIGNER = HmacSigner("of the merchant and the gateway")
TOLD = b"transaction_id=T000000"


def receiver_of(handler: Any = print, **settings: Any) -> NotificationReceiver:
    """Return a receiver of a gateway that says that everything was done."""
    return NotificationReceiver(client_over(), handler, **settings)


@attrs.define
class Shop:
    """An application that writes down what it is given, once it has failed as often as it will."""

    failures: int = 0
    heard: list[Any] = attrs.field(factory=list)

    async def take(self, subject: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise LookupError("no such order")
        self.heard.append(subject)


# Over HTTP, behind real servers, and over ASGI without one

FORM = "application/x-www-form-urlencoded"
PATH = "/notify"


@contextlib.asynccontextmanager
async def in_starlette(receiver: NotificationReceiver) -> AsyncIterator[str]:
    """Serve a receiver as a route of Starlette, by uvicorn; yield its address."""
    with bind() as listening:
        listening.listen()  # who connects before it has started waits
        shop = Starlette(routes=[Route(PATH, receiver)])
        config = uvicorn.Config(shop, log_level="error", ws="none", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
        server.should_exit = True
        await serving


SERVERS: dict[str, Callable[[NotificationReceiver], Any]] = {
    "aiohttp.web": lambda receiver: answering(receiver.handle, "*"),
    "Starlette": in_starlette,
}


async def post(url: str, data: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Send over HTTP; return status and text of the answer."""
    named = {"Content-Type": FORM, **{n.replace("_", "-"): v for n, v in headers.items()}}
    async with aiohttp.request(method, url, data=data, headers=named) as response:
        return response.status, await response.text()


async def tell(receiver: NotificationReceiver, *pieces: Any, **headers: str) -> tuple[int, str]:
    """Post over ASGI: fields, or pieces of a body, of which None is a client that goes."""
    left = [urlencode(piece).encode() if isinstance(piece, dict) else piece for piece in pieces]
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        piece = left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    async def send(message: MutableMapping[str, Any]) -> None:
        await asyncio.sleep(0)
        messages.append(message)

    named = [(n.lower().replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
    await receiver({"type": "http", "method": "POST", "headers": named}, receive, send)
    return messages[0]["status"], messages[1]["body"].decode()


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield b"x" * 10_000


@pytest.mark.parametrize("name", SERVERS)
async def test_the_application_gets_what_the_gateway_says_and_nothing_of_what_is_forged(
    sandbox: Sandbox, name: str
) -> None:
    first, other = sandbox.seed(2, status="declined")
    second = sandbox.ledger.open(
        order_no=first.order_no, currency="EUR", amount=first.amount, now=sandbox.clock()
    )
    forged = {"order_no": first.order_no, "amount": "99999.00", "payment_status": "3000"}
    xml = f"<respon><transaction_id>{other.transaction_id}</transaction_id></respon>".encode()
    packed = gzip.compress(b"order_no=" + b" " * 5_000_000)
    shop = Shop()
    async with (
        client_of(sandbox) as gateway,
        SERVERS[name](NotificationReceiver(gateway, shop.take)) as url,
    ):
        assert await post(url, forged) == (200, "OK")
        assert (await post(url, xml, Content_Type="text/xml"))[0] == 200
        assert (await post(url, {"order_no": "never-was"}))[0] == 404
        asked = sandbox.requests.total()
        for data, how, status in (
            ({"request_id": "7f0c", "status": "COMPLETED"}, {}, 403),
            (b"amount=1", {}, 400),
            (b"", {}, 400),
            (b"order_no=A%2CB", {}, 400),  # the separator of a look-up
            (b"order_no=" + b"x" * 100_000, {}, 413),
            (_endless(), {}, 413),
            (b"order_no=A", {"method": "GET"}, 405),
        ):
            assert (await post(url, data, **how))[0] == status
        # What a server unpacks is too large, and what it does not cannot be read.
        assert (await post(url, packed, Content_Encoding="gzip"))[0] in {400, 413}
        assert sandbox.requests.total() == asked
    assert sorted((one.transaction_id, one.amount, one.payment_status) for one in shop.heard) == [
        (first.transaction_id, first.amount, PaymentStatus.DECLINED),
        (other.transaction_id, other.amount, PaymentStatus.DECLINED),
        (second.transaction_id, first.amount, PaymentStatus.AUTHORISED),
    ]


async def _never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def test_what_breaks_off_or_never_comes_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    receiver = receiver_of(heard.append)
    assert await tell(receiver, TOLD, None) == (400, "it broke off")  # to nobody
    monkeypatch.setattr("gateway_async.notifications.receiver._BODY_SECONDS", 0.01)
    assert (await receiver._answer("POST", {}, _never())).status == 408
    assert (heard, receiver._places._value) == ([], receiver.concurrency)
    long = TOLD + b"&note=" + b"x" * 70_000
    assert (await tell(receiver_of(max_body_bytes=80_000), long))[0] == 200


async def test_a_body_that_a_middleware_of_aiohttp_has_read_is_read_again() -> None:
    heard: list[Any] = []
    receiver = receiver_of(heard.append, max_body_bytes=len(TOLD))

    @web.middleware
    async def log_body(request: web.Request, handler: Any) -> Any:
        await request.text()
        return await handler(request)

    app = web.Application(middlewares=[log_body])
    app.router.add_post("/notify", receiver.handle)
    async with TestClient(TestServer(app)) as anybody:
        answers = [await anybody.post("/notify", data=body) for body in (TOLD, TOLD + b"1", b"")]
    assert [answer.status for answer in answers] == [200, 413, 400]
    assert {answer.headers["Allow"] for answer in answers} == {"POST"}
    assert len(heard) == 1


# Repeated, late, many at once


async def test_a_repeat_brings_nothing_and_a_late_one_the_state_of_now(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    (order,) = sandbox.seed(1)
    told, shop = {"order_no": order.order_no, "payment_status": "4100"}, Shop(failures=1)
    sandbox.faults.add("query", DropReply(times=1))
    async with client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway:
        receiver = NotificationReceiver(gateway, shop.take)
        assert [(await tell(receiver, told))[0] for _ in range(3)] == [503, 500, 200]
        assert "LookupError" in caplog.text
        again = {"transaction_id": order.transaction_id, "sent": "later"}
        assert (await tell(receiver, again))[0] == 200
        flood = await asyncio.gather(*(tell(receiver, told) for _ in range(50)))
        assert {status for status, _ in flood} == {200}
        assert sandbox.requests["query"] < len(flood)
        assert [one.payment_status for one in shop.heard] == [PaymentStatus.AUTHORISED]
        sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.CAPTURED
        assert [(await tell(receiver, told))[0] for _ in range(2)] == [200, 200]
    assert [one.payment_status for one in shop.heard[1:]] == [PaymentStatus.CAPTURED]


MORE_THAN_64_BITS = 2023051612301234567890
"""Which orjson does not write."""


class Scene:
    """A gateway whose one payment changes, and an application whose calls are held."""

    def __init__(self, *states: str, **settings: Any) -> None:
        # where the payment stands, at each look-up in turn; the last one stays
        self.states = states
        # what happens before a look-up is answered, by its number
        self.before: dict[int, Callable[[], Awaitable[object]]] = {0: settle_down}
        self.asked = 0
        self.heard: list[str] = []  # the states that the application was given, when it was
        self.goes_on = asyncio.Event()  # lets its calls end
        self.error: Exception | None = None  # what its calls raise
        gateway = client_over(self._answer)
        self.receiver = NotificationReceiver(gateway, self._take, linger_seconds=0, **settings)

    def tell(self) -> "asyncio.Task[tuple[int, str]]":
        return asyncio.create_task(tell(self.receiver, TOLD))

    async def _answer(self, asked: Asked) -> dict[str, Any]:
        number, self.asked = self.asked, self.asked + 1
        state = self.states[min(number, len(self.states) - 1)]
        if number in self.before:
            await self.before[number]()
        said = {"query_result": "1", "payment_status": state, "more": MORE_THAN_64_BITS}
        return reply_to("query", [{"transaction_id": one, **said} for one in asked.transactions])

    async def _take(self, record: Any) -> None:
        self.heard.append(record.payment_status)
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(("end", "heard"), [("taken", 1), ("raised", 2), ("cancelled", 2)])
async def test_a_repeat_waits_for_the_first_and_shares_its_success_alone(
    end: str, heard: int
) -> None:
    scene = Scene("1")
    scene.error = LookupError() if end == "raised" else None
    first = scene.tell()
    await settle_down()
    second = scene.tell()
    await settle_down()
    assert (scene.asked, scene.heard, second.done()) == (2, ["1"], False)
    if end == "cancelled":
        first.cancel()
    scene.goes_on.set()
    assert (await second)[0] == (500 if end == "raised" else 200)
    await asyncio.wait({first})
    assert scene.heard == ["1"] * heard


async def test_an_answer_that_was_overtaken_is_asked_for_again_but_not_for_ever() -> None:
    scene = Scene("early", "late")
    scene.goes_on.set()
    scene.before[0] = lambda: tell(scene.receiver, TOLD)
    assert (await scene.tell())[0] == 200
    assert (scene.heard, scene.asked) == (["late"], 3)
    scene = Scene(*map(str, range(20)))
    scene.goes_on.set()
    scene.before |= dict.fromkeys(range(0, 20, 2), lambda: tell(scene.receiver, TOLD))
    assert await scene.tell() == (503, "it cannot be confirmed now")
    assert len(scene.heard) == 5


async def test_an_answer_that_was_overtaken_and_forgotten_is_asked_for_again() -> None:
    scene = Scene("early", "late", remembered=1)
    scene.goes_on.set()

    async def overtake() -> None:
        await tell(scene.receiver, TOLD)
        await tell(scene.receiver, b"transaction_id=T000001")

    scene.before[0] = overtake
    assert (await scene.tell())[0] == 200
    assert scene.heard == ["late", "late", "late"]  # the first payment, another, the first


async def test_memory_is_bounded_and_what_is_forgotten_is_told_again() -> None:
    heard: list[Any] = []
    receiver = receiver_of(
        lambda record: heard.append(record.transaction_id or record.order_no),
        on_payout=lambda payout: heard.append(payout.request_id),
        verifier=lambda *_: True,
        remembered=2,
    )
    told = [{"transaction_id": name} for name in ("T1", "T2", "T1", "T3", "T3", "T1")]
    told += [{"order_no": name} for name in ("A", "B", "A")]  # which have no transaction_id
    in_another_order = {"a": "1", "request_id": "P1", "encryption_data": "another"}
    for each in (*told, {"request_id": "P1", "a": "1"}, in_another_order):
        assert (await tell(receiver, each))[0] == 200
    assert heard == ["T1", "T2", "T3", "T1", "A", "B", "P1"]


async def test_many_at_once_share_look_ups_and_too_many_are_sent_away() -> None:
    held = HeldReplies()
    heard: list[Any] = []
    receiver = NotificationReceiver(held.client(), heard.append, concurrency=250)
    told = [tell(receiver, {"transaction_id": f"T{number}"}) for number in range(300)]
    tasks = [asyncio.create_task(one) for one in told]
    await held.asked.wait()
    held.goes_on.set()
    assert [(await task)[0] for task in tasks] == [200] * 250 + [503] * 50
    assert [len(names) for names in sent(held.transport)] == [100, 100, 50]
    assert len({record.transaction_id for record in heard}) == len(heard) == 250
    assert (receiver._places._value, len(receiver._turns)) == (250, 0)


# Whether it is the gateway's


def signed(**fields: str) -> dict[str, str]:
    signature = SIGNER.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    return {**fields, "encryption_data": signature}


async def test_what_is_not_signed_costs_no_look_up_and_a_signed_payout_comes_once() -> None:
    shop, verifier, transport = Shop(), SignatureVerifier(SIGNER), MemoryTransport(all_done)
    settings: Any = {"verifier": verifier, "on_payout": shop.take}
    receiver = NotificationReceiver(client_over(transport), shop.take, **settings)
    right = signed(order_no="A-1", amount="10.00")
    paid, failed = (signed(request_id="7f0c", status=one) for one in ("COMPLETED", "FAILED"))
    for wrong in (
        {"order_no": "A-1"},
        {**right, "amount": "11.00"},
        {**right, "more": "1"},
        *({**right, "encryption_data": wrong} for wrong in ("0" * 64, "é")),
        {"request_id": "7f0c", "status": "COMPLETED"},
        {**paid, "status": "FAILED"},
    ):
        assert (await tell(receiver, wrong))[0] == 403
    shop.failures = 1
    told = (paid, paid, paid, failed, failed, paid)
    assert [(await tell(receiver, one))[0] for one in told] == [500, *[200] * 5]
    assert all(isinstance(one, Notification) for one in shop.heard)
    assert [one.fields["status"] for one in shop.heard] == ["COMPLETED", "FAILED"]
    for number in ("4111110000091111", "4111110000171111"):  # which show as the same
        assert (await tell(receiver, signed(request_id="7f0c", note=number)))[0] == 200
        assert shop.heard[-1].fields["note"].reveal() == number
    assert transport.asked == []
    assert (await tell(receiver, right))[0] == 200
    assert shop.heard[-1].order_no == "A-1"


async def _later(said: object) -> object:
    return said


async def test_a_verifier_must_say_true() -> None:
    for says, said in itertools.product((lambda one: one, _later), (True, False, 1)):
        receiver = receiver_of(lambda _: None, verifier=lambda *_, says=says, said=said: says(said))
        assert (await tell(receiver, TOLD))[0] == (200 if said is True else 403)
        assert (await tell(receiver, b"request_id=7"))[0] == (404 if said is True else 403)


async def test_a_verifier_sees_what_came_and_may_break(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def verifier(headers: Any, body: bytes, fields: Any) -> bool:
        seen.append((headers["x-signature"], body, dict(fields)))
        raise ZeroDivisionError("the secret is s3cret")

    body = b"order_no=A&encryption_data=5f3c"
    status, _ = await tell(receiver_of(verifier=verifier), body, X_Signature="abc")
    assert status == 500
    assert seen == [("abc", body, {"order_no": "A", "encryption_data": "5f3c"})]
    assert "the verifier raised ZeroDivisionError at" in caplog.text
    assert "5f3c" not in caplog.text
    assert "s3cret" not in caplog.text


# Its life


def test_it_serves_several_loops_and_answers_by_dialect(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []
    named = {"transaction_id": ["theirs"]}
    dialect = Dialect(notification_answer="[accepted]", notification_fields=named)
    gateway = client_over(dialect=dialect)
    receiver = NotificationReceiver(gateway, heard.append)
    answers = [asyncio.run(tell(receiver, {"theirs": "T000000"})) for _ in range(2)]
    assert answers == [(200, "[accepted]")] * 2
    assert len(heard) == 1
    asyncio.run(gateway.aclose())
    assert asyncio.run(tell(receiver, {"theirs": "T1"})) == (503, "it cannot be confirmed now")
    assert "this GatewayClient is closed" in caplog.text


def test_payouts_need_a_verifier_and_it_is_a_function() -> None:
    with pytest.raises(ConfigurationError, match="gateway: expected GatewayClient"):
        NotificationReceiver(SIGNER, print)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="on_payout: needs a verifier"):
        receiver_of(on_payout=print)
    with pytest.raises(ConfigurationError, match=r"SignatureVerifier\.signer: expected Signer"):
        SignatureVerifier("s3cret")  # type: ignore[arg-type]  # on purpose
    for name, wrong in (("linger_seconds", -1), ("policy", print)):
        with pytest.raises(ConfigurationError, match=f"{name}: expected"):
            receiver_of(**{name: wrong})
    for given in ({"verifier": SIGNER}, {"verifier": print, "on_payout": SIGNER}):
        with pytest.raises(ConfigurationError, match=f"{[*given][-1]}: expected a function"):
            receiver_of(**given)
