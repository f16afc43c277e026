"""What a reply says as a whole, over HTTP: the same object for all orders of a request."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, Outcome, ReplyEnvelope
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, MissingItems, ReturnStatus, Status
from tests.orders import LOOK_UPS, MONEY_OPERATIONS, client_of, orders_for

TWO = BatchPolicy(chunk_size=2, concurrency=1)


def orders(sandbox: Sandbox, operation: str, count: int = 4) -> list[Any]:
    status = "authorised" if operation in ("capture", "cancel") else "captured"
    return orders_for(operation, sandbox.seed(count, status=status))


def of_two(outcomes: list[Outcome[Any, Any]]) -> list[ReplyEnvelope]:
    """Return the envelope of each request of two orders, which both of them have."""
    found = [outcome.reply for outcome in outcomes]
    assert all(one is other for one, other in zip(found[::2], found[1::2], strict=True))
    assert found[0] is not found[2]
    assert all(isinstance(one, ReplyEnvelope) for one in found)
    return [one for one in found[::2] if one is not None]


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, *LOOK_UPS])
async def test_each_outcome_has_the_envelope_of_its_request(
    sandbox: Sandbox, operation: str
) -> None:
    began = datetime.now(UTC)
    async with client_of(sandbox, policy=TWO) as gateway:
        result = await getattr(gateway, operation)(orders(sandbox, operation))
        batch = getattr(gateway, operation)(orders(sandbox, operation))
        async with batch:
            streamed = [outcome async for outcome in batch]
    again = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    for outcomes in (list(result), streamed, list(again)):
        for envelope in of_two(sorted(outcomes, key=lambda outcome: outcome.index)):
            assert (envelope.return_status, envelope.return_message) == ("1", "OK")
            assert envelope.http_status == 200
            assert began <= envelope.received_at <= datetime.now(UTC)
            assert envelope.received_at.utcoffset() == timedelta(0)
    assert next(iter(again)).reply == result[0].reply
    assert result[0].reply is result[1].reply is next(iter(result)).reply
    alone = pickle.loads(pickle.dumps(result[3]))  # noqa: S301  # our own
    assert alone.reply == result[3].reply


async def test_it_says_why_nothing_was_listed(sandbox: Sandbox) -> None:
    sandbox.faults.add("refund", ReturnStatus("77", "maintenance", after_effect=False))
    async with client_of(sandbox, policy=TWO) as gateway:
        result = await gateway.refund(orders(sandbox, "refund"))
    for envelope in of_two(list(result.unknown)):
        assert (envelope.return_status, envelope.return_message) == ("77", "maintenance")


async def test_an_order_that_the_reply_does_not_list_has_the_envelope(sandbox: Sandbox) -> None:
    sandbox.faults.add("refund", MissingItems(1))
    async with client_of(sandbox, policy=TWO) as gateway:
        result = await gateway.refund(orders(sandbox, "refund"))
    assert [len(result.unknown), len(result.succeeded)] == [2, 2]
    of_two(list(result))


async def test_without_a_readable_reply_there_is_none(sandbox: Sandbox) -> None:
    async with client_of(sandbox, policy=TWO) as gateway:
        for fault in (DropReply(), Status(503, "")):
            sandbox.faults.add("refund", fault)
            result = await gateway.refund(orders(sandbox, "refund"))
            assert [outcome.reply for outcome in result.unknown] == [None] * 4
            sandbox.faults.clear()


async def test_an_http_status_that_says_all_is_an_envelope(sandbox: Sandbox) -> None:
    sandbox.faults.add("refund", Status(429, ""))
    dialect = Dialect(nothing_done_http_statuses={429})
    async with client_of(sandbox, policy=TWO, dialect=dialect) as gateway:
        result = await gateway.refund(orders(sandbox, "refund"))
    for envelope in of_two(list(result.declined)):
        assert (envelope.return_status, envelope.return_message) == (None, None)
        assert envelope.http_status == 429


def test_an_envelope_is_frozen() -> None:
    envelope = ReplyEnvelope(
        return_status="1", return_message="OK", http_status=200, received_at=datetime.now(UTC)
    )
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        envelope.return_status = "2"  # type: ignore[misc]  # on purpose
