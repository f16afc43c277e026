"""A reply in which one object names a field twice: nobody knows which of the values is meant."""

import json
from typing import Any

import pytest

from gateway_async import OutcomeStatus
from gateway_async.transport import RawReply
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import refunds

SUCCEEDED, DECLINED, UNKNOWN = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.DECLINED,
    OutcomeStatus.UNKNOWN,
)
STATUS = '"refund_status": "1"'


def _over(old: str, new: str) -> MemoryTransport:
    """Answer refunds by a reply in which the first such text is replaced."""

    def answer(asked: Asked) -> RawReply:
        text = json.dumps(asked.done())
        assert old in text
        return RawReply(200, {}, text.replace(old, new, 1).encode())

    return MemoryTransport(answer)


CASES: dict[str, tuple[str, str, list[OutcomeStatus]]] = {
    "done, then not": (STATUS, f'{STATUS}, "refund_status": "2"', [UNKNOWN, SUCCEEDED]),
    "not, then done": (STATUS, f'"refund_status": "2", {STATUS}', [UNKNOWN, SUCCEEDED]),
    "not, in other letters": (
        STATUS,
        f'{STATUS}, "refund_status": "2", "refund_message": "2001:no"',
        [UNKNOWN, SUCCEEDED],
    ),
    "the same twice": (STATUS, f"{STATUS}, {STATUS}", [SUCCEEDED, SUCCEEDED]),
    "a second list": (
        '"refund_orders": [',
        '"refund_orders": [{"refund_status": "2"}], "refund_orders": [',
        [UNKNOWN, UNKNOWN],
    ),
    "no list in doubt, and a name twice": (
        STATUS,
        f'{STATUS}, {STATUS}, "note": "a", "note": "b"',
        [SUCCEEDED, SUCCEEDED],
    ),
    "two transactions": (
        STATUS,
        f'{STATUS}, {STATUS}, "transaction_id": "T9", "order_no": "N9"',
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


async def test_a_name_twice_in_what_cannot_be_written_again_leaves_all_unknown() -> None:
    deep = "[" * 400 + "]" * 400
    transport = _over(STATUS, f'{STATUS}, "refund_status": "2", "note": {deep}')
    result = await client_over(transport).refund(refunds(2))
    assert [outcome.status for outcome in result] == [UNKNOWN] * 2
