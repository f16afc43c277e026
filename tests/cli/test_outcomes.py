import tracemalloc
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_async.batching.results import Exchange, Outcome
from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.outcomes import Results, outcome_cells
from gateway_async.cli.run import RunSummary
from gateway_async.errors import OutcomeUnknownError, RejectedError
from gateway_async.models.orders import OutcomeStatus, RefundOrder
from gateway_async.models.records import RefundRecord

REFUND, CAPTURE, QUERY = LAYOUTS["refund"], LAYOUTS["capture"], LAYOUTS["query"]
ORDER = RefundOrder(
    transaction_id="T1",
    order_no="O1",
    currency="EUR",
    amount=Decimal("10.00"),
    refund_amount=Decimal("2.50"),
)


def outcome(**fields: object) -> Any:
    usual = {"status": "succeeded", "record": None, "error": None, "sending": None}
    return SimpleNamespace(**{**usual, **fields})


def test_the_result_of_a_refund() -> None:
    record = SimpleNamespace(
        refund_status="1", refund_reference="", refund_reference_id="T1-01", refund_message=None
    )
    assert outcome_cells(outcome(record=record), REFUND) == [
        *("succeeded", None, None),
        *("1", None, "T1-01", None),
    ]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RejectedError("declined", code="2001", text="no funds"), "2001", "no funds"),
        (OutcomeUnknownError("the reply was lost"), None, "the reply was lost"),
    ],
)
def test_the_result_of_a_problem(error: Exception, code: str | None, text: str) -> None:
    cells = outcome_cells(outcome(status="declined", error=error), CAPTURE)
    assert cells == ["declined", code, text, None, None]


def test_several_records_of_one_order_are_joined() -> None:
    first = SimpleNamespace(amount=Decimal("1E+1"), payment_status="3000")
    second = SimpleNamespace(transaction_date=datetime(2024, 5, 6, 7, 8, 9))  # noqa: DTZ001  # the gateway names no zone
    cells = outcome_cells(outcome(record=(first, second)), QUERY)
    named = dict(zip(QUERY.result_columns, cells, strict=True))
    assert named["found_amount"] == "10;"
    assert named["payment_status"] == "3000;"
    assert named["transaction_date"] == ";2024-05-06T07:08:09"


def test_no_result_column_hides_an_input_column() -> None:
    inputs = {name for layout in LAYOUTS.values() for name in layout.columns}
    for layout in LAYOUTS.values():
        assert not inputs & set(layout.result_columns)


KEPT = 20_000
MOST_BYTES_A_ROW = 10


def test_memory_does_not_grow_with_the_rows() -> None:
    results = Results(REFUND, RunSummary(command="refund"))

    def keep(index: int) -> None:
        results.keep(
            Outcome(
                order=ORDER,
                index=index,
                status=OutcomeStatus.SUCCEEDED,
                items=({"refund_status": "1", "refund_reference_id": f"T{index}-01"},),
                exchange=Exchange(record_class=RefundRecord),
            )
        )

    keep(0)  # which loads what reads a record
    tracemalloc.start()
    try:
        for index in range(1, KEPT):
            keep(index)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        results.close()
    assert kept < MOST_BYTES_A_ROW * KEPT
