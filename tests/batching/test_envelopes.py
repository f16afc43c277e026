"""What a reply says as a whole, over HTTP: the same object for all orders of a request."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway_async import BatchPolicy, Dialect, ReplyEnvelope
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Fault, MissingItems, ReturnStatus, Status
from tests.orders import LOOK_UPS, MONEY_OPERATIONS, client_of, orders_for

TWO = BatchPolicy(chunk_size=2, concurrency=1)


def envelopes_of(outcomes: Any) -> list[Any]:
    """Return the envelope of each request of two orders, which both of them have."""
    found = [one.reply for one in sorted(outcomes, key=lambda outcome: outcome.index)]
    assert all(one is other for one, other in zip(found[::2], found[1::2], strict=True))
    assert found[0] is not found[2]
    return found[::2]


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, *LOOK_UPS])
async def test_each_outcome_has_the_envelope_of_its_request(
    sandbox: Sandbox, operation: str
) -> None:
    status = "authorised" if operation in ("capture", "cancel") else "captured"
    orders = [orders_for(operation, sandbox.seed(4, status=status)) for _ in range(2)]
    began = datetime.now(UTC)
    async with client_of(sandbox, policy=TWO) as gateway:
        result = await getattr(gateway, operation)(orders[0])
        async with getattr(gateway, operation)(orders[1]) as batch:
            streamed = [outcome async for outcome in batch]
    again = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    for outcomes in (result, streamed, again):
        for envelope in envelopes_of(outcomes):
            assert isinstance(envelope, ReplyEnvelope)
            said = (envelope.return_status, envelope.return_message, envelope.http_status)
            assert said == ("1", "OK", 200)
            assert began <= envelope.received_at <= datetime.now(UTC)
            assert envelope.received_at.utcoffset() == timedelta(0)
    assert [outcome.reply for outcome in again] == [outcome.reply for outcome in result]
    alone = pickle.loads(pickle.dumps(result[3]))  # noqa: S301  # our own
    assert alone.reply == result[3].reply


@pytest.mark.parametrize(
    ("fault", "said", "counts"),
    [
        (ReturnStatus("77", "busy", after_effect=False), ("77", "busy", 200), {"unknown": 4}),
        (MissingItems(1), ("1", "OK", 200), {"unknown": 2, "succeeded": 2}),
        (Status(429, ""), (None, None, 429), {"declined": 4}),
        (Status(503, ""), None, {"unknown": 4}),
        (DropReply(), None, {"unknown": 4}),
    ],
)
async def test_the_envelope_of_a_reply_that_is_not_all_right(
    sandbox: Sandbox, fault: Fault, said: tuple[object, ...] | None, counts: dict[str, int]
) -> None:
    sandbox.faults.add("refund", fault)
    dialect = Dialect(nothing_done_http_statuses={429})
    async with client_of(sandbox, policy=TWO, dialect=dialect) as gateway:
        result = await gateway.refund(orders_for("refund", sandbox.seed(4, status="captured")))
    assert {status: count for status, count in result.counts.items() if count} == counts
    if said is None:
        assert [outcome.reply for outcome in result] == [None] * 4
        return
    for envelope in envelopes_of(result):
        assert (envelope.return_status, envelope.return_message, envelope.http_status) == said
