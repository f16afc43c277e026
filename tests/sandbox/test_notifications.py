"""What a merchant's server is told at `notify_url`, and what may go wrong on the way."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

import attrs
import pytest
from aiohttp import web

from gateway_async.sandbox import faults
from tests.sandbox.conftest import DIRECT, PAYOUT, Merchant, merchant_of, sign
from tests.support.servers import answering

FORM = "application/x-www-form-urlencoded"
NASTY = "</respon>\r\n&amp;\x01 \"'🎉 中文"


@attrs.define(eq=False)
class Shop:
    """A merchant's server that keeps what it is told."""

    url: str = ""
    statuses: list[int] = attrs.field(factory=list)  # what it answers, before it answers 200
    told: list[bytes] = attrs.field(factory=list)
    heard: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def notify(self, request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == FORM
        self.told.append(await request.read())
        self.heard.set()
        status = self.statuses.pop(0) if self.statuses else 200
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    def fields(self, number: int = 0) -> dict[str, str]:
        told = self.told[number].decode()
        return dict(parse_qsl(told, keep_blank_values=True, strict_parsing=True))

    @property
    def orders(self) -> list[str]:
        return [self.fields(number)["order_no"] for number in range(len(self.told))]


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    async with answering(shop.notify) as shop.url:
        yield shop


async def test_payments_and_payouts_are_notified_by_signed_forms(shop: Shop) -> None:
    async with merchant_of(deduplicate_payouts=True) as merchant:
        wrong = {**PAYOUT, "payment_amount": "x", "notify_url": shop.url}
        assert (await merchant.ask("payout", wrong))["status"] == "FAILED"
        await merchant.pay({**DIRECT, "amount": "x", "notify_url": shop.url})
        await merchant.pay({**DIRECT, "order_no": NASTY, "notify_url": shop.url})
        assert await merchant.sandbox.deliver_notifications() == 1
        for _ in range(2):
            await merchant.ask("payout", {**PAYOUT, "notify_url": shop.url})
        assert await merchant.sandbox.deliver_notifications() == 1
    paid, paid_out = shop.fields(0), shop.fields(1)
    for fields in (paid, paid_out):
        signature = fields.pop("encryption_data")
        assert signature == sign(fields)
    (transaction,) = merchant.sandbox.ledger
    assert paid == {
        "merchant_id": "M1",
        "account_id": "A1",
        "order_no": NASTY,
        "transaction_id": transaction.transaction_id,
        "amount": "12.30",
        "currency": "EUR",
        "order_status": "1",
        "result_info": "0000:success",
        "payment_status": "4100",
    }
    assert (paid_out["request_id"], paid_out["status"]) == (PAYOUT["request_id"], "COMPLETED")


@pytest.mark.parametrize(
    ("statuses", "attempts", "delivered"),
    [([500, 307], 3, True), ([500, 400, 404], 3, False), ([204], 1, True)],
)
async def test_it_is_tried_again_with_the_same_bytes_which_you_may_send_yourself(
    shop: Shop, statuses: list[int], attempts: int, delivered: bool
) -> None:
    shop.statuses.extend(statuses)
    async with merchant_of(notify_pauses=(0.0, 0.0, 0.0)) as merchant:
        await merchant.pay({**DIRECT, "card": "4000000000009995", "notify_url": shop.url})
        await merchant.sandbox.deliver_notifications()
        (sent,) = merchant.sandbox.notifications
        named = {"Content-Type": FORM}
        await merchant.http.post(sent.url, data=sent.body, headers=named)
    assert (sent.operation, sent.attempts, sent.delivered) == ("pay_direct", attempts, delivered)
    assert shop.told == [shop.told[0]] * (attempts + 1)
    assert shop.fields()["result_info"] == "2011:insufficient funds"
    assert shop.fields()["encryption_data"] not in repr(sent)


@pytest.mark.parametrize(
    ("url", "attempts"),
    [
        ("http://localhost:1/n", 2),
        ("https://[::1]:1/n", 2),
        ("http://192.0.2.1/n", 0),
        ("http://localhost.example.com/n", 0),
        ("http://127.0.0.1@192.0.2.1/n", 0),
        ("http://192.0.2.1\\@127.0.0.1:1/n", 0),
        ("nonsense\r\n", 0),
    ],
)
async def test_only_this_machine_is_called(merchant: Merchant, url: str, attempts: int) -> None:
    result = await merchant.pay({**DIRECT, "notify_url": url})
    assert result["order_status"] == "1"
    await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.delivered, sent.status, sent.attempts) == (False, None, attempts)


async def test_a_notification_is_lost_repeated_or_late(shop: Shop) -> None:
    late = faults.LateNotification(3600.0, times=1)
    async with merchant_of() as merchant:

        async def pay(order_no: str, *struck: faults.Fault) -> None:
            for fault in struck:
                sandbox.faults.add("*", fault)
            await merchant.pay({**DIRECT, "order_no": order_no, "notify_url": shop.url})

        sandbox = merchant.sandbox
        await pay("lost", faults.LostNotification(times=1))
        await pay("repeated", faults.RepeatedNotification(copies=3, times=1))
        await sandbox.deliver_notifications()
        assert shop.orders == ["repeated"] * 3
        shop.heard.clear()
        await pay("late", late)
        await pay("next")
        await shop.heard.wait()
        assert shop.orders[3:] == ["next"]
        await sandbox.deliver_notifications()
        await pay("too late", late)  # it ends with the sandbox
    assert shop.orders[3:] == ["next", "late"]
    assert [one.delivered for one in sandbox.notifications] == [False, *[True] * 5, False]
