"""Look-ups against gateways that cut their replies or do not honour the selection."""

from typing import Any

import pytest

from gateway_async import BatchPolicy, OrderRef, OutcomeStatus
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import LOOK_UPS, references, reply_to

FULL = 100


class _Books:
    """A gateway that holds so many records of each order and lists a hundred at most."""

    def __init__(self, records: dict[str, int], *, fill: int = 0) -> None:
        self._records = records
        self._fill = fill

    def __call__(self, asked: Asked) -> dict[str, Any]:
        items = [
            {"transaction_id": one, "query_result": "1", "amount": f"{number}"}
            for one in asked.transactions
            for number in range(self._records.get(one, 0))
        ]
        items += [{"transaction_id": f"X{n}", "query_result": "1"} for n in range(self._fill)]
        return reply_to(asked.operation.name, items[:FULL])


@pytest.mark.parametrize("operation", LOOK_UPS)
async def test_a_reply_that_was_cut_is_asked_again_in_smaller_chunks(operation: str) -> None:
    records = {ref.value: 1 + number % 3 for number, ref in enumerate(references(250))}
    transport = MemoryTransport(_Books(records))
    result = await getattr(client_over(transport), operation)(references(250))
    assert result.ok
    assert [len(outcome.record) for outcome in result] == list(records.values())
    assert result.requests == len(transport.asked)
    assert max(len(asked.transactions) for asked in transport.asked) == FULL


async def test_an_absent_order_behind_a_full_reply_is_found_absent() -> None:
    records = dict.fromkeys((ref.value for ref in references(99)), 2)
    result = await client_over(MemoryTransport(_Books(records))).query(references(100))
    assert [outcome.index for outcome in result.absent] == [99]
    assert result.counts[OutcomeStatus.SUCCEEDED] == 99


@pytest.mark.parametrize("count", [100, 101, 1000])
async def test_one_order_that_alone_fills_a_reply_is_unknown_and_the_others_are_found(
    count: int,
) -> None:
    records = dict.fromkeys((ref.value for ref in references(10)), 1)
    records["T000003"] = count
    result = await client_over(MemoryTransport(_Books(records))).query(references(10))
    assert [outcome.index for outcome in result.unknown] == [3]
    assert len(result[3].record or ()) == FULL
    assert result.counts[OutcomeStatus.SUCCEEDED] == 9


async def test_a_gateway_that_ignores_the_selection_proves_no_absence() -> None:
    """Every reply is full of strangers, whatever is asked."""
    transport = MemoryTransport(_Books({}, fill=FULL))
    result = await client_over(transport).query(references(8))
    assert result.counts[OutcomeStatus.UNKNOWN] == 8
    assert result.unexpected.count == FULL * len(transport.asked)


async def test_references_of_two_kinds_go_in_requests_of_their_own() -> None:
    refs = [
        OrderRef(order_no=f"N{n}") if n % 2 else OrderRef(transaction_id=f"T{n}") for n in range(20)
    ]

    def handler(asked: Asked) -> dict[str, Any]:
        ((kind, text),) = [
            (name, asked.fields[name])
            for name in ("order_no", "transaction_id")
            if name in asked.fields
        ]
        items = [{kind: value, "query_result": "1"} for value in text.split(",")]
        return reply_to("query", items)

    result = await client_over(MemoryTransport(handler)).query(refs)
    assert result.ok
    assert [outcome.order for outcome in result] == refs


async def test_a_collaborator_that_breaks_between_two_halves_loses_no_order() -> None:
    """The second request is the first half; the limiter then breaks."""

    class _Limiter:
        entered = 0

        async def __aenter__(self) -> None:
            self.entered += 1
            if self.entered == 2:
                raise LookupError("the limiter broke")

        async def __aexit__(self, *_: object) -> None:
            pass

    transport = MemoryTransport(_Books(dict.fromkeys((ref.value for ref in references(64)), 2)))
    batch = client_over(transport, limiter=_Limiter()).query(references(64))
    with pytest.raises(LookupError, match="the limiter broke"):
        await batch
    assert [outcome.index for outcome in batch.result] == list(range(64))
    assert not batch.result.counts[OutcomeStatus.ABSENT]


async def test_a_half_without_a_reply_leaves_the_other_half_as_found() -> None:
    records = dict.fromkeys((ref.value for ref in references(100)), 2)
    books = _Books(records)

    def handler(asked: Asked) -> Any:
        if asked.transactions[0] == "T000050":
            return {"return_status": "0"}
        return books(asked)

    policy = BatchPolicy(concurrency=1)
    result = await client_over(MemoryTransport(handler), policy=policy).query(references(100))
    assert [outcome.status for outcome in result[:50]] == [OutcomeStatus.SUCCEEDED] * 50
    assert [outcome.status for outcome in result[50:]] == [OutcomeStatus.UNKNOWN] * 50
