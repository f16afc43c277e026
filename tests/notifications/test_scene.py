"""What the sandbox tells at `notify_url` is taken, verified and confirmed, in every format."""

from typing import Any

import attrs
import pytest

from gateway_async import RetryPolicy
from gateway_async.notifications import NotificationReceiver, SignatureVerifier
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Status
from gateway_async.signing import HmacSigner
from tests.models.examples import direct_payment, payout_request
from tests.notifications.serving import serving
from tests.orders import client_of


@pytest.mark.parametrize("notify_format", ["form", "json", "xml"])
async def test_payments_and_payouts_are_told_and_confirmed(notify_format: str) -> None:
    payments: list[Any] = []
    payouts: list[Any] = []
    async with (
        Sandbox(notify_format=notify_format, notify_pauses=(0.0, 0.0)) as sandbox,
        client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway,
    ):
        receiver = NotificationReceiver(
            gateway,
            payments.append,
            on_payout=payouts.append,
            verifier=SignatureVerifier(HmacSigner(sandbox.secret)),
        )
        async with serving("aiohttp.web", receiver) as poster:
            payment = attrs.evolve(direct_payment(), notify_url=poster.url)
            payout = attrs.evolve(payout_request(), notify_url=poster.url)
            sandbox.faults.add("query", Status(503, times=1))  # then the sandbox tells it again
            paid = await gateway.pay_direct(payment)
            paid_out = await gateway.payout(payout)
            await sandbox.deliver_notifications()
        told = {notification.operation: notification for notification in sandbox.notifications}
    assert [record.transaction_id for record in payments] == [paid.transaction_id]
    assert payments[0].amount == payment.amount
    assert [notification.request_id for notification in payouts] == [payout.request_id]
    assert payouts[0].fields["transaction_id"] == paid_out.transaction_id
    assert (told["pay_direct"].attempts, told["pay_direct"].status) == (2, 200)
    assert told["payout"].delivered
