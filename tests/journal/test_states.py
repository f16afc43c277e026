"""A state that changed meanwhile is left alone: every write finds the orders as it must."""

from typing import Any

import pytest

from gateway_async import NotSentError
from gateway_async.errors import JournalError
from gateway_async.journal import Journal, OrderState
from tests.journal.tables import Tables, on_a_file, submitted
from tests.memory import QUICK, Asked, MemoryTransport, client_over
from tests.orders import refunds

WANTED = {"intend": "new", "hold": "new", "conclude": "intent", "retract": "intent"}
CHANGES: list[tuple[str, dict[str, Any]]] = [
    *((move, {"state": each}) for move in WANTED for each in OrderState if each != WANTED[move])
]


@on_a_file
@pytest.mark.parametrize("at", [(), (1,)], ids=["a chunk", "an order of it"])
@pytest.mark.parametrize(("move", "change"), CHANGES)
async def test_orders_in_another_state_change_nothing(
    journal: Journal, tables: Tables, move: str, change: dict[str, Any], at: tuple[int, ...]
) -> None:
    known: list[object] = []

    def answer(asked: Asked) -> Any:
        if (asked.operation.name == "refund") == (WANTED[move] == "intent"):
            tables.put(*at, **change)
            known[:] = tables.known()
        if move == "retract" and asked.operation.name == "refund":
            raise NotSentError("nothing was sent")
        listed = {"refund_amount": "1.00", "refund_reference_id": "r", "refund_status": "1"}
        if move == "hold" and asked.operation.name == "search_refunds":
            return asked.done(
                refund_orders=[{"transaction_id": f"T00000{n}", **listed} for n in range(3)]
            )
        return asked.done()

    transport = MemoryTransport(answer)
    batch = client_over(transport, retry=QUICK).refund(refunds(3), job=journal.job("job"))
    said = rf"cannot {move} order \d, which is '\w+': expected '{WANTED[move]}'; nothing"
    with pytest.raises(JournalError, match=said):
        await batch
    assert [one.operation.name for one in transport.asked].count("refund") <= 1
    assert tables.known() == known


@on_a_file
@pytest.mark.parametrize("state", ["succeeded", "declined", "held"])
async def test_a_decision_in_between_stands(journal: Journal, tables: Tables, state: str) -> None:
    await submitted(journal, refunds(3))
    tables.put(state="unknown")

    def answer(asked: Asked) -> Any:
        tables.put(1, state=state, note="a person was faster")
        return asked.done()

    await client_over(MemoryTransport(answer)).resume(journal.job("job"))
    assert tables.states() == ["held", state, "held"]
    assert tables.known()[1].note == "a person was faster"
