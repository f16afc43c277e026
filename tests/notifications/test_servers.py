"""Over real servers, the application gets what the gateway confirms, and nothing else."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import attrs
import pytest

from gateway_async import RetryPolicy
from gateway_async.notifications import Notification, NotificationReceiver, SignatureVerifier
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.faults import DropReply, Status
from gateway_async.signing import HmacSigner
from tests.models.examples import direct_payment, payout_request
from tests.notifications.serving import SERVERS, Poster, serving
from tests.orders import client_of

SIGNER = HmacSigner("of the merchant and the gateway")
Serve = Callable[..., AbstractAsyncContextManager[Poster]]


@attrs.define
class Shop:
    """An application that writes down what it is given.

    Attributes:
        heard: What it was given.
        failures: How often it fails before it takes anything.
    """

    heard: list[Any] = attrs.field(factory=list)
    failures: int = 0

    async def take(self, subject: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise LookupError("no such order")
        self.heard.append(subject)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["aiohttp.web", "uvicorn"])
def serve(request: pytest.FixtureRequest, sandbox: Sandbox, shop: Shop) -> Serve:
    """Return what serves a receiver, with a verifier if there is a signer."""

    @asynccontextmanager
    async def served(
        signer: HmacSigner | None = None, sandbox: Sandbox = sandbox
    ) -> AsyncIterator[Poster]:
        verified = {} if signer is None else {"verifier": SignatureVerifier(signer)}
        payouts = {"on_payout": shop.take} if verified else {}
        async with client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway:
            receiver = NotificationReceiver(gateway, shop.take, **verified, **payouts)  # type: ignore[arg-type]  # settings
            async with serving(request.param, receiver) as poster:
                yield poster

    return served


def signed(**fields: str) -> dict[str, str]:
    signature = SIGNER.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    return {**fields, "encryption_data": signature}


@pytest.mark.parametrize("serve", SERVERS, indirect=True)
async def test_the_application_gets_what_the_gateway_says_and_nothing_of_what_is_forged(
    serve: Serve, sandbox: Sandbox, shop: Shop
) -> None:
    (first, other) = sandbox.seed(2, status="declined")
    second = sandbox.ledger.open(
        order_no=first.order_no, currency="EUR", amount=first.amount, now=sandbox.clock()
    )
    forged = {"order_no": first.order_no, "amount": "99999.00", "payment_status": "3000"}
    xml = f"<respon><transaction_id>{other.transaction_id}</transaction_id></respon>".encode()
    async with serve() as poster:
        assert await poster.answer(forged) == (200, "OK")
        assert await poster.post(xml, Content_Type="text/xml") == 200
        assert await poster.post({"order_no": "never-was"}) == 404
        assert await poster.post({"request_id": "7f0c", "status": "COMPLETED"}) == 403
    told = {(one.transaction_id, one.amount, one.payment_status) for one in shop.heard}
    assert len(shop.heard) == 3
    assert told == {
        (first.transaction_id, first.amount, PaymentStatus.DECLINED),
        (second.transaction_id, first.amount, PaymentStatus.AUTHORISED),
        (other.transaction_id, other.amount, PaymentStatus.DECLINED),
    }


async def test_a_repeat_brings_nothing_and_a_late_one_the_state_of_now(
    serve: Serve, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    told = {"order_no": order.order_no, "payment_status": "4100"}
    async with serve() as poster:
        assert await poster.post(told) == 200
        assert await poster.post({"transaction_id": order.transaction_id, "sent": "later"}) == 200
        flood = await asyncio.gather(*(poster.post(told) for _ in range(50)))
        assert {*flood} == {200}
        assert sandbox.requests["query"] < len(flood)
        assert [one.payment_status for one in shop.heard] == [PaymentStatus.AUTHORISED]
        sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.CAPTURED
        assert [await poster.post(told) for _ in range(2)] == [200, 200]
    assert [one.payment_status for one in shop.heard[1:]] == [PaymentStatus.CAPTURED]


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield b"x" * 10_000


async def test_what_is_wrong_is_refused_before_the_gateway_is_asked(
    serve: Serve, sandbox: Sandbox, shop: Shop
) -> None:
    packed = gzip.compress(b"order_no=" + b" " * 5_000_000)
    async with serve() as poster:
        for data, how, status in (
            (b"amount=1", {}, 400),
            (b"", {}, 400),
            (b"{", {}, 400),
            (b"order_no=A%2CB", {}, 400),  # the separator of a look-up
            (b"order_no=" + b"x" * 100_000, {}, 413),
            (_endless(), {}, 413),
            (packed, {"Content_Encoding": "gzip"}, 415),
            (b"order_no=A", {"method": "GET"}, 405),
            (b"order_no=A", {"method": "PUT"}, 405),
        ):
            assert await poster.post(data, **how) == status
    assert shop.heard == []
    assert sandbox.requests.total() == 0


async def test_the_gateway_is_to_repeat_what_was_not_confirmed_or_not_taken(
    serve: Serve, sandbox: Sandbox, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    (order,) = sandbox.seed(1)
    shop.failures = 1
    sandbox.faults.add("query", DropReply(times=1))
    async with serve() as poster:
        statuses = [await poster.post({"order_no": order.order_no}) for _ in range(4)]
    assert statuses == [503, 500, 200, 200]
    assert len(shop.heard) == 1
    assert "LookupError" in caplog.text


async def test_what_is_not_signed_costs_no_look_up_and_a_signed_payout_comes_once(
    serve: Serve, sandbox: Sandbox, shop: Shop
) -> None:
    (order,) = sandbox.seed(1)
    right = signed(order_no=order.order_no, amount="10.00")
    paid = signed(request_id="7f0c", status="COMPLETED")
    failed = signed(request_id="7f0c", status="FAILED")
    async with serve(SIGNER) as poster:
        for wrong in (
            {"order_no": order.order_no},
            {**right, "amount": "11.00"},
            {**right, "encryption_data": "0" * 64},
            {"request_id": "7f0c", "status": "COMPLETED"},
            {**paid, "status": "FAILED"},
        ):
            assert await poster.post(wrong) == 403
        shop.failures = 1
        told = (paid, paid, paid, failed, failed, paid)
        assert [await poster.post(one) for one in told] == [500, *[200] * 5]
        assert sandbox.requests.total() == 0
        assert all(isinstance(one, Notification) for one in shop.heard)
        assert [one.fields["status"] for one in shop.heard] == ["COMPLETED", "FAILED"]
        assert await poster.post(right) == 200
    assert shop.heard[-1].order_no == order.order_no


@pytest.mark.parametrize("notify_format", ["form", "json", "xml"])
@pytest.mark.parametrize("serve", ["aiohttp.web"], indirect=True)
async def test_what_the_sandbox_sends_is_taken_in_every_format(
    serve: Serve, shop: Shop, notify_format: str
) -> None:
    async with (
        Sandbox(notify_format=notify_format, notify_pauses=(0.0, 0.0)) as sandbox,
        serve(HmacSigner(sandbox.secret), sandbox) as poster,
        client_of(sandbox) as gateway,
    ):
        sandbox.faults.add("query", Status(503, times=1))  # then the sandbox sends it again
        payment = attrs.evolve(direct_payment(), notify_url=poster.url)
        payout = attrs.evolve(payout_request(), notify_url=poster.url)
        paid = await gateway.pay_direct(payment)
        paid_out = await gateway.payout(payout)
        await sandbox.deliver_notifications()
        attempts = {one.operation: (one.attempts, one.status) for one in sandbox.notifications}
    by_kind = {type(one): one for one in shop.heard}
    notification = by_kind.pop(Notification)
    ((_, record),) = by_kind.items()
    assert (record.transaction_id, record.amount) == (paid.transaction_id, payment.amount)
    assert notification.request_id == payout.request_id
    assert notification.fields["transaction_id"] == paid_out.transaction_id
    assert attempts == {"pay_direct": (2, 200), "payout": (1, 200)}
