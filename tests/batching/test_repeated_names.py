"""A reply in which one object names a field twice: nobody knows which of the values is meant."""

import json
import pickle
from typing import Any

import pytest

from gateway_async import OutcomeStatus
from gateway_async.transport import HttpResponse
from gateway_async.wire.decode import decode_surely
from tests.memory import Asked, MemoryTransport, client_over
from tests.models.examples import payout_request
from tests.orders import refunds
from tests.steps import count_calls

SUCCEEDED, DECLINED, UNKNOWN = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.DECLINED,
    OutcomeStatus.UNKNOWN,
)
STATUS = '"refund_status": "1"'


def _over(old: str, new: str) -> MemoryTransport:
    """Answer refunds by a reply in which the first such text is replaced."""

    def answer(asked: Asked) -> HttpResponse:
        text = json.dumps(asked.done())
        assert old in text
        return HttpResponse(200, {}, text.replace(old, new, 1).encode())

    return MemoryTransport(answer)


MESSAGE = '"refund_message": "V0000:success"'
REFUNDED = '"refund_amount": "1.00"'
CASES: dict[str, tuple[str, str, list[OutcomeStatus]]] = {
    "done, then not": (STATUS, f'{STATUS}, "refund_status": "2"', [UNKNOWN, SUCCEEDED]),
    "not, then done": (STATUS, f'"refund_status": "2", {STATUS}', [UNKNOWN, SUCCEEDED]),
    "in other letters": (STATUS, f'"refund_st\\u0061tus": "2", {STATUS}', [UNKNOWN, SUCCEEDED]),
    "declined in the end": (
        STATUS,
        f'{STATUS}, "refund_status": "2", "error_message": "2001:no"',
        [UNKNOWN, SUCCEEDED],
    ),
    "a message of refusal first": (
        STATUS,
        f'{STATUS}, "error_message": "2001:no", "error_message": ""',
        [UNKNOWN, SUCCEEDED],
    ),
    "another amount first": (
        STATUS,
        f'"amount": "9999.00", "amount": "10.00", {STATUS}',
        [UNKNOWN, SUCCEEDED],
    ),
    "a truth that equals a number": (
        STATUS,
        '"refund_status": true, "refund_status": 1',
        [UNKNOWN, SUCCEEDED],
    ),
    "the same text twice": (STATUS, f"{STATUS}, {STATUS}", [SUCCEEDED, SUCCEEDED]),
    "what nothing depends on": (STATUS, f'{STATUS}, "note": "a", "note": "b"', [SUCCEEDED] * 2),
    "two lists": (
        '"refund_orders": [',
        '"refund_orders": [{"refund_status": "2"}], "refund_orders": [',
        [UNKNOWN, UNKNOWN],
    ),
    "an object and a list": (
        '"refund_orders": [',
        '"refund_orders": {"transaction_id": "T000000", "refund_status": "1"}, "refund_orders": [',
        [UNKNOWN, UNKNOWN],
    ),
    "two transactions": (
        STATUS,
        f'{STATUS}, "transaction_id": "T9", "order_no": "N9"',
        [UNKNOWN, SUCCEEDED],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_is_said_twice_and_differently_is_not_known(name: str) -> None:
    old, new, statuses = CASES[name]
    result = await client_over(_over(old, new)).refund(refunds(2))
    assert [outcome.status for outcome in result] == statuses
    assert [result.counts[status] for status in (SUCCEEDED, DECLINED, UNKNOWN)] == [
        statuses.count(SUCCEEDED),
        0,
        statuses.count(UNKNOWN),
    ]
    async with client_over(_over(old, new)).refund(refunds(2)) as batch:
        streamed: list[Any] = [outcome async for outcome in batch]
    assert [outcome.status for outcome in streamed] == statuses


async def test_what_is_kept_is_read_as_it_was_judged() -> None:
    old, new, statuses = CASES["not, then done"]
    result = await client_over(_over(old, new)).refund(refunds(2))
    again = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    assert [outcome.status for outcome in again] == statuses


async def test_a_payout_that_is_said_to_be_two_things_is_said_to_be_none() -> None:
    def answer(asked: Asked) -> HttpResponse:
        sent = asked.fields
        text = json.dumps({"request_id": sent["request_id"], "status": "COMPLETED"})
        return HttpResponse(200, {}, text.replace("{", '{"status": "FAILED", ', 1).encode())

    result = await client_over(MemoryTransport(answer)).payout(payout_request())
    assert result.status is None
    assert "FAILED" in result.unreadable["status"]


def test_many_values_of_one_name_take_a_time_in_proportion() -> None:
    def steps(count: int) -> int:
        body = b"{%s}" % b",".join(b'"a":%d' % n for n in range(count))
        return count_calls(lambda: decode_surely(body))

    assert steps(2000) < 3 * steps(1000)
