"""Over real servers, the application hears what the gateway confirms, and nothing else."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable
from typing import Any

import attrs
import pytest

from gateway_async import RetryPolicy, TransactionRecord
from gateway_async.notifications import Notification, NotificationReceiver, SignatureVerifier
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.signing import HmacSigner
from tests.notifications.serving import SERVERS, Poster, serving
from tests.orders import client_of

MERCHANTS = HmacSigner("of the merchant and the gateway")


@attrs.define
class Shop:
    """An application that writes down what it is told.

    Attributes:
        heard: What it was told.
        failures: How often it fails before it takes anything.
    """

    heard: list[Any] = attrs.field(factory=list)
    failures: int = 0

    async def take(self, subject: TransactionRecord | Notification) -> None:
        if self.failures:
            self.failures -= 1
            raise LookupError("no such order")
        self.heard.append(subject)

    @property
    def states(self) -> list[tuple[str | None, str | None]]:
        return [(record.order_no, record.payment_status) for record in self.heard]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["aiohttp.web", "uvicorn"])
async def gateway_post(
    request: pytest.FixtureRequest, sandbox: Sandbox, shop: Shop
) -> AsyncIterator[Poster]:
    """Serve a receiver without a verifier on each server."""
    retry = RetryPolicy(attempts=1)
    async with client_of(sandbox, retry=retry) as gateway:
        receiver = NotificationReceiver(gateway, shop.take)
        async with serving(request.param, receiver) as poster:
            yield poster


@pytest.fixture(params=["aiohttp.web", "uvicorn"])
async def verified_post(
    request: pytest.FixtureRequest, sandbox: Sandbox, shop: Shop
) -> AsyncIterator[Poster]:
    """Serve a receiver with a verifier, that takes payouts too."""
    async with client_of(sandbox) as gateway:
        receiver = NotificationReceiver(
            gateway, shop.take, on_payout=shop.take, verifier=SignatureVerifier(MERCHANTS)
        )
        async with serving(request.param, receiver) as poster:
            yield poster


def signed(**fields: str) -> dict[str, str]:
    signature = MERCHANTS.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    return {**fields, "encryption_data": signature}


@pytest.mark.parametrize("gateway_post", SERVERS, indirect=True)
async def test_the_application_hears_what_the_gateway_confirms(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    order, other = sandbox.seed(2, status="captured")
    answered = await gateway_post.answer(
        {"order_no": order.order_no, "amount": "99999.00", "payment_status": "9999"}
    )
    assert answered == (200, "OK")
    (record,) = shop.heard
    assert (record.transaction_id, record.amount) == (order.transaction_id, order.amount)
    xml = f"<respon><transaction_id>{other.transaction_id}</transaction_id></respon>".encode()
    assert await gateway_post.post(xml, Content_Type="text/xml") == 200
    assert shop.heard[1].order_no == other.order_no


async def test_a_repeat_is_answered_and_not_told_again(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    told = [
        {"order_no": order.order_no},
        {"order_no": order.order_no},
        {"transaction_id": order.transaction_id, "sent_at": "later"},
    ]
    assert [await gateway_post.post(one) for one in told] == [200] * 3
    flood = await asyncio.gather(*(gateway_post.post(told[0]) for _ in range(50)))
    assert {*flood} == {200}
    assert len(shop.heard) == 1
    assert sandbox.requests["query"] < len(told) + len(flood)


async def test_a_late_notification_of_an_earlier_state_tells_the_state_of_now(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    authorised = {"order_no": order.order_no, "payment_status": "3000"}
    captured = {"order_no": order.order_no, "payment_status": "4100"}
    assert await gateway_post.post(authorised) == 200
    sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.CAPTURED
    assert await gateway_post.post(captured) == 200
    assert await gateway_post.post(authorised) == 200
    first, second = shop.states
    assert first != second


async def test_a_forged_notification_moves_nothing(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1, status="waiting")
    forged = {"order_no": order.order_no, "order_status": "1", "payment_status": "3000"}
    assert await gateway_post.post(forged) == 200
    (record,) = shop.heard
    assert record.payment_status == sandbox.ledger.transaction(order.transaction_id).status.value
    assert await gateway_post.post({"order_no": "never-was"}) == 404
    assert await gateway_post.post({"request_id": "7f0c", "status": "COMPLETED"}) == 403
    assert len(shop.heard) == 1


async def test_what_is_wrong_is_refused_before_the_gateway_is_asked(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    packed = gzip.compress(b"order_no=" + b" " * 5_000_000)
    wrong: Iterable[tuple[Any, dict[str, str], int]] = [
        (b"amount=1", {}, 400),
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"order_no=" + b"x" * 100_000, {}, 413),
        (endless(), {}, 413),
        (packed, {"Content_Encoding": "gzip"}, 415),
        (b"order_no=A", {"method": "GET"}, 405),
        (b"order_no=A", {"method": "PUT"}, 405),
        (b"order_no=A%2CB", {}, 400),  # the separator of a look-up
    ]
    for data, how, status in wrong:
        assert await gateway_post.post(data, **how) == status
    assert shop.heard == []
    assert sandbox.requests.total() == 0


async def test_the_gateway_is_to_repeat_what_the_application_did_not_take(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    (order,) = sandbox.seed(1)
    shop.failures = 1
    statuses = [await gateway_post.post({"order_no": order.order_no}) for _ in range(3)]
    assert statuses == [500, 200, 200]
    assert len(shop.heard) == 1
    assert "LookupError" in caplog.text


async def test_the_gateway_is_to_repeat_what_could_not_be_confirmed(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    sandbox.faults.add("query", DropReply(times=1))
    statuses = [await gateway_post.post({"order_no": order.order_no}) for _ in range(2)]
    assert statuses == [503, 200]
    assert len(shop.heard) == 1


async def test_an_unverified_notification_costs_no_look_up(
    verified_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    right = signed(order_no=order.order_no, amount="10.00")
    for wrong in (
        {"order_no": order.order_no},
        {**right, "amount": "11.00"},
        {**right, "encryption_data": "0" * 64},
        {"request_id": "7f0c", "status": "COMPLETED"},
    ):
        assert await verified_post.post(wrong) == 403
    assert sandbox.requests.total() == 0
    assert await verified_post.post(right) == 200
    assert shop.states[0][0] == order.order_no


async def test_a_verified_payout_is_handed_on_unconfirmed_and_once(
    verified_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    shop.failures = 1
    paid = signed(request_id="7f0c", status="COMPLETED", payment_amount="10.00")
    assert [await verified_post.post(paid) for _ in range(3)] == [500, 200, 200]
    (notification,) = shop.heard
    assert isinstance(notification, Notification)
    assert notification.fields["status"] == "COMPLETED"
    failed = signed(request_id="7f0c", status="FAILED")
    assert [await verified_post.post(one) for one in (failed, failed, paid)] == [200] * 3
    assert [one.fields["status"] for one in shop.heard] == ["COMPLETED", "FAILED"]
    assert sandbox.requests.total() == 0


async def test_every_transaction_of_an_order_is_told(
    gateway_post: Poster, sandbox: Sandbox, shop: Shop
) -> None:
    (first,) = sandbox.seed(1, status="declined")
    second = sandbox.ledger.open(
        order_no=first.order_no, currency="EUR", amount=first.amount, now=sandbox.clock()
    )
    assert await gateway_post.post({"order_no": first.order_no}) == 200
    told = {record.transaction_id for record in shop.heard}
    assert told == {first.transaction_id, second.transaction_id}
