"""The outcome that a row stands for."""

from typing import Any

import pytest

from gateway_async import (
    NotDoneError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal import JobState
from gateway_async.journal.rows import Known, Row
from tests.orders import made_up, orders_for, refunds


def row(state: JobState, index: int = 7, **known: Any) -> Row:
    (order,) = refunds(1)
    return Row(index=index, order=order, known=Known(str(state), **known))


@pytest.mark.parametrize(
    ("state", "told", "status", "error", "text"),
    [
        ("new", {}, "not_sent", NotSentError, "not sent yet"),
        ("new", {"text": "withdrawn"}, "not_sent", NotSentError, "not sent yet: withdrawn"),
        ("intent", {}, "unknown", OutcomeUnknownError, "in flight when its process ended"),
        ("succeeded", {}, "succeeded", type(None), ""),
        ("declined", {"code": "V1", "text": "no"}, "declined", RejectedError, "no"),
        ("unknown", {"text": "lost"}, "unknown", OutcomeUnknownError, "lost"),
        ("held", {"text": "unclear"}, "unknown", OutcomeUnknownError, "unclear"),
        ("held", {"text": "absent", "proof": "not done"}, "not_sent", NotDoneError, "absent"),
        ("unknown", {"proof": "not done"}, "unknown", OutcomeUnknownError, ""),
    ],
)
def test_outcomes(
    state: str, told: dict[str, Any], status: str, error: type[Exception], text: str
) -> None:
    outcome = row(JobState(state), **told).outcome()
    assert (outcome.index, outcome.order) == (7, refunds(1)[0])
    assert outcome.status is OutcomeStatus(status)
    assert type(outcome.error) is error
    assert text in str(outcome.error)
    assert outcome.record is None
    if isinstance(outcome.error, RejectedError):
        assert (outcome.error.code, outcome.error.text) == ("V1", "no")


def test_a_reference_is_a_record() -> None:
    record: Any = row(JobState.SUCCEEDED, reference="T000000-01").outcome().record
    assert record.refund_reference_id == "T000000-01"
    assert record.transaction_id == "T000000"
    assert str(record.refund_amount) == "1.00"


def test_an_order_without_a_refund_has_no_record() -> None:
    (order,) = orders_for("cancel", made_up(1))
    stored = Row(index=0, order=order, known=Known("succeeded", reference="R"))
    assert stored.outcome().record is None
