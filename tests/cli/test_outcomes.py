import io
import math
import tracemalloc
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from gateway_async.batching.results import Outcome, Sending
from gateway_async.cli.commands.common import Results
from gateway_async.cli.files.rows import CsvRows, JsonRows
from gateway_async.cli.files.writing import CsvSink, JsonSink
from gateway_async.cli.layouts import EVIDENCE_COLUMNS, LAYOUTS
from gateway_async.cli.outcomes import EvidenceError, operation_of, outcome_cells, read_outcome
from gateway_async.errors import OutcomeUnknownError, RejectedError
from gateway_async.models.orders import OutcomeStatus, RefundOrder
from gateway_async.models.records import RefundRecord

REFUND, CAPTURE, QUERY = LAYOUTS["refund"], LAYOUTS["capture"], LAYOUTS["query"]
NOT_SENT_YET = (None,) * len(EVIDENCE_COLUMNS)
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
    assert outcome_cells(outcome(record=record), REFUND) == (
        *("succeeded", None, None),
        *("1", None, "T1-01", None),
        *NOT_SENT_YET,
    )


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RejectedError("declined", code="2001", text="no funds"), "2001", "no funds"),
        (OutcomeUnknownError("the reply was lost"), None, "the reply was lost"),
    ],
)
def test_the_result_of_a_problem(error: Exception, code: str | None, text: str) -> None:
    cells = outcome_cells(outcome(status="declined", error=error), CAPTURE)
    assert cells == ("declined", code, text, None, None, *NOT_SENT_YET)


def test_several_records_of_one_order_are_joined() -> None:
    first = SimpleNamespace(amount=Decimal("1E+1"), payment_status="3000")
    second = SimpleNamespace(transaction_date=datetime(2024, 5, 6, 7, 8, 9))  # noqa: DTZ001  # the gateway names no zone
    cells = outcome_cells(outcome(record=(first, second)), QUERY)
    named = dict(zip(QUERY.result_columns, cells, strict=True))
    assert named["found_amount"] == "10;"
    assert named["payment_status"] == "3000;"
    assert named["transaction_date"] == ";2024-05-06T07:08:09"


SENDINGS = [
    Sending(ended_at=1_700_000_000.25, references={"T1": frozenset({"T1-02", "T1-01"})}),
    Sending(ended_at=1_700_000_000.25, references={"T1": frozenset()}, alone=False),
    Sending(ended_at=1_700_000_000.25, marker="ga-0123456789ab"),
    Sending(ended_at=1_700_000_000.25),
    Sending(ended_at=math.inf),
]


@pytest.mark.parametrize("sending", SENDINGS)
@pytest.mark.parametrize("kind", [(CsvSink, CsvRows), (JsonSink, JsonRows)])
def test_what_recovery_goes_by_survives_a_file(sending: Sending, kind: Any) -> None:
    lost = Outcome[Any, Any](
        order=ORDER,
        index=17,
        status=OutcomeStatus.UNKNOWN,
        error=OutcomeUnknownError("the reply was lost"),
        sending=sending,
    )
    (cells,) = through_a_file(kind, lost)
    assert operation_of(cells) == "refund"
    read = read_outcome(cells, 3, REFUND)
    assert (read.order, read.index, read.status) == (ORDER, 17, OutcomeStatus.UNKNOWN)
    assert str(read.error) == "the reply was lost"
    assert read.sending == sending


def through_a_file(kind: Any, told: Outcome[Any, Any]) -> list[Any]:
    make_sink, make_rows = kind
    columns = [*REFUND.columns, *REFUND.result_columns]
    given = {name: getattr(told.order, name) for name in REFUND.columns}
    file = io.BytesIO()
    sink = make_sink(file, columns)
    sink.write(
        {**given, **dict(zip(REFUND.result_columns, outcome_cells(told, REFUND), strict=True))}
    )
    sink.close()
    file.seek(0)
    return [row.cells for row in make_rows(file)]


def test_a_refund_that_was_done_is_known_by_its_reference() -> None:
    item = {"refund_status": "1", "refund_reference_id": "T1-01", "refund_amount": "2.50"}
    done = Outcome[Any, Any](
        order=ORDER,
        index=0,
        status=OutcomeStatus.SUCCEEDED,
        items=(item,),
        record_class=RefundRecord,
        sending=SENDINGS[0],
    )
    (cells,) = through_a_file((CsvSink, CsvRows), done)
    record = read_outcome(cells, 0, REFUND).record
    assert record is not None
    assert (record.refund_reference_id, record.refund_amount) == ("T1-01", Decimal("2.50"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "lost"),
        ("sent_ended_at", "yesterday"),
        ("sent_index", "first"),
        ("sent_references_before", "T1-01"),
        ("sent_references_before", '{"T1": 1}'),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(column: str, value: str) -> None:
    lost = Outcome[Any, Any](
        order=ORDER, index=0, status=OutcomeStatus.UNKNOWN, sending=SENDINGS[0]
    )
    (cells,) = through_a_file((CsvSink, CsvRows), lost)
    with pytest.raises(EvidenceError) as caught:
        read_outcome({**cells, column: value}, 0, REFUND)
    assert caught.value.column == column


def test_a_command_that_sends_nothing_is_no_evidence() -> None:
    with pytest.raises(EvidenceError, match="'query' is no command that sends orders"):
        operation_of({"sent_operation": "query"})


def test_no_result_column_hides_an_input_column() -> None:
    inputs = {name for layout in LAYOUTS.values() for name in layout.columns}
    for layout in LAYOUTS.values():
        assert not inputs & set(layout.result_columns)


KEPT = 2000
MOST_BYTES_A_ROW = 1000


def test_what_is_kept_of_a_row_is_small() -> None:
    results = Results(layout=REFUND)
    tracemalloc.start()
    try:
        for index in range(KEPT):
            results.keep(
                Outcome[Any, Any](
                    order=ORDER,
                    index=index,
                    status=OutcomeStatus.SUCCEEDED,
                    items=({"refund_status": "1", "refund_reference_id": f"T{index}-01"},),
                    record_class=RefundRecord,
                    sending=SENDINGS[0],
                )
            )
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < MOST_BYTES_A_ROW * KEPT
