"""Replies that are untidy and can be read all the same: everything succeeds."""

import json
import pickle

from gateway_async import OrderRef
from gateway_async.sandbox import Sandbox
from tests.faults.deeds import SUCCEEDED, Trial, refunds
from tests.support.servers import Proxy, Rewrite, body_of, with_body


def numbered(reply: bytes) -> bytes:
    """Write identifiers as JSON integers, however long, and name orders by nothing else."""
    payload = json.loads(body_of(reply))
    (name,) = (name for name, value in payload.items() if isinstance(value, list))
    for item in payload[name]:
        item["transaction_id"] = int(item["transaction_id"])
        item.pop("order_no")
    payload["extra"] = {"encryption_data": "a signature", "n": 10**30}
    return with_body(reply, json.dumps(payload).encode())


async def test_an_integer_of_more_than_64_bits_keeps_its_digits(
    sandbox: Sandbox, proxy: Proxy
) -> None:
    proxy.always(Rewrite(numbered))
    orders = refunds(sandbox, 3)
    assert int(orders[0].transaction_id) > 2**64
    refs = [OrderRef(transaction_id=order.transaction_id) for order in orders]
    async with Trial(sandbox, "refund").client(proxy.base_url) as gateway:
        refunded = await gateway.refund(orders)
        looked_up = [await gateway.search_refunds(refs), await gateway.query(refs)]
        async with gateway.query(refs) as batch:
            streamed = [outcome async for outcome in batch]
        page = await gateway.recent_transactions()
    for result in (refunded, *looked_up, streamed):
        for outcome, order in zip(pickle.loads(pickle.dumps(result)), orders, strict=True):  # noqa: S301  # our own
            assert outcome.status is SUCCEEDED
            records = outcome.record if isinstance(outcome.record, tuple) else [outcome.record]
            assert [one.transaction_id for one in records] == [order.transaction_id]
            assert not records[0].unreadable
    assert {one.transaction_id for one in page.records} == {o.transaction_id for o in orders}
