"""What one look-up proves: the pure part of recovery, row by row."""

from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import Dialect, Outcome, OutcomeStatus, RefundOrder, RefundRecord
from gateway_async.batching.results import Exchange, Sending
from gateway_async.recovery.evidence import (
    ClaimedRefunds,
    Finding,
    LookupResult,
    Proof,
    prove_refunds,
    prove_state,
)
from gateway_async.wire.records import read_record

ORDER = RefundOrder(
    transaction_id="T1",
    order_no="O1",
    currency="EUR",
    amount=Decimal(10),
    refund_amount=Decimal("2.50"),
)
NOTHING_BEFORE = {"T1": frozenset[str]()}
MARKER = "ga-0123456789ab"
OWN, OTHERS = "[ga-0123456789ab-0000000007]", "[ga-0123456789ab-0000000077]"


def unknown(index: int = 0, marker: str | None = None, **sending: Any) -> Outcome[Any, Any]:
    return Outcome(
        order=ORDER,
        index=index,
        status=OutcomeStatus.UNKNOWN,
        exchange=Exchange(sending=Sending(ended_at=0.0, marker=marker, **sending)),
    )


def lookup(
    *changes: dict[str, Any], complete: bool = True, keeps_markers: bool = False
) -> LookupResult:
    items = tuple(
        {
            "transaction_id": "T1",
            "currency": "eur",
            "refund_amount": "2.5",
            "refund_status": "1",
            "refund_reference_id": f"T1-{number:02}",
            **change,
        }
        for number, change in enumerate(changes, start=1)
    )
    records = tuple(read_record(RefundRecord, item) for item in items)
    return LookupResult(
        records=records, items=items, complete=complete, keeps_markers=keeps_markers
    )


BY_REFERENCE = {
    "a new refund of this amount": (lookup({}), {}, Proof.DONE),
    "no refund at all": (lookup(), {}, Proof.NOT_DONE),
    "no refund, by a look-up that may be blind": (lookup(complete=False), {}, Proof.NOTHING),
    "a refund of another amount": (lookup({"refund_amount": "2.49"}), {}, Proof.NOTHING),
    "a refund in another currency": (lookup({"currency": "USD"}), {}, Proof.NOTHING),
    "a refund with the marker of another": (
        lookup({"refund_reason": f"{OTHERS} torn"}),
        {},
        Proof.NOT_DONE,
    ),
    "a refund whose amount is unreadable": (lookup({"refund_amount": "?"}), {}, Proof.NOTHING),
    "a refund that is not done": (lookup({"refund_status": "2"}), {}, Proof.NOTHING),
    "a refund without a reference": (lookup({"refund_reference_id": ""}), {}, Proof.NOTHING),
    "a refund that was there before": (
        lookup({}),
        {"references": {"T1": frozenset({"T1-01"})}},
        Proof.NOT_DONE,
    ),
    "one before, and a new one": (
        lookup({}, {}),
        {"references": {"T1": frozenset({"T1-01"})}},
        Proof.DONE,
    ),
    "a refund with blanks for a reference": (
        lookup({"refund_reference_id": "  "}),
        {},
        Proof.NOTHING,
    ),
    "blanks for a reference, and before as well": (
        lookup({"refund_reference_id": "  "}),
        {"references": {"T1": frozenset({"  "})}},
        Proof.NOTHING,
    ),
    "one before, and since then with blanks around it": (
        lookup({"refund_reference_id": "T1-01  "}),
        {"references": {"T1": frozenset({"T1-01"})}},
        Proof.NOT_DONE,
    ),
    "one before, and another that has the same reference": (
        lookup({"refund_reference_id": "0"}, {"refund_reference_id": "0"}),
        {"references": {"T1": frozenset({"0"})}},
        Proof.NOTHING,
    ),
    "which were there before was not recorded": (lookup({}), {"references": {}}, Proof.NOTHING),
    "none, and what was before was not recorded": (lookup(), {"references": {}}, Proof.NOTHING),
    "a new refund, though the look-up may be blind": (lookup({}, complete=False), {}, Proof.DONE),
}


@pytest.mark.parametrize(
    ("seen", "sending", "proof"), BY_REFERENCE.values(), ids=BY_REFERENCE.keys()
)
def test_by_reference(seen: LookupResult, sending: dict[str, Any], proof: Proof) -> None:
    outcome = unknown(**{"references": NOTHING_BEFORE, **sending})
    (finding,) = prove_refunds([outcome], seen, ClaimedRefunds(), Dialect())
    assert finding.proof is proof
    assert finding.reason


DECLINES = Dialect(declined_statuses={"0"})


@pytest.mark.parametrize(
    ("listed", "proof"),
    [
        ([{"refund_status": "0"}], Proof.NOT_DONE),
        ([{"refund_status": "0"}, {"refund_status": "2"}], Proof.NOTHING),
        ([{"refund_status": "0"}, {}], Proof.DONE),
        ([{}, {"refund_status": "0"}], Proof.DONE),
    ],
)
@pytest.mark.parametrize("marker", [None, MARKER])
def test_a_refund_that_is_listed_as_declined_is_none(
    listed: list[dict[str, Any]], proof: Proof, marker: str | None
) -> None:
    outcome = unknown(7, marker, references=NOTHING_BEFORE)
    reasons = {} if marker is None else {"refund_reason": OWN}
    seen = lookup(*({**one, **reasons} for one in listed), keeps_markers=True)
    (finding,) = prove_refunds([outcome], seen, ClaimedRefunds(), DECLINES)
    assert finding.proof is proof
    (finding,) = prove_refunds(
        [outcome], lookup({"refund_status": "0"}), ClaimedRefunds(), Dialect()
    )
    assert finding.proof is Proof.NOTHING


def test_a_claimed_reference_proves_no_second_refund() -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    claims = ClaimedRefunds(references=frozenset({"T1-01"}))
    (finding,) = prove_refunds([outcome], lookup({}), claims, Dialect())
    assert finding.proof is Proof.NOT_DONE


def test_one_refund_proves_one_of_two_equal_orders() -> None:
    outcomes = [unknown(0, references=NOTHING_BEFORE), unknown(1, references=NOTHING_BEFORE)]
    first, second = prove_refunds(outcomes, lookup({}), ClaimedRefunds(), Dialect())
    assert (first.proof, second.proof) == (Proof.DONE, Proof.NOT_DONE)


@pytest.mark.parametrize(("listed", "proof"), [(1, Proof.NOTHING), (2, Proof.DONE)])
def test_a_settled_refund_of_unknown_reference_has_its_share(listed: int, proof: Proof) -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    claims = ClaimedRefunds(unreferenced=(Decimal("2.50"),))
    (finding,) = prove_refunds([outcome], lookup(*[{}] * listed), claims, Dialect())
    assert finding.proof is proof


BY_MARKER = {
    "its own": (lookup({"refund_reason": f"{OWN} torn"}), Proof.DONE),
    "its own, not done": (
        lookup({"refund_reason": OWN, "refund_status": "0"}, keeps_markers=True),
        Proof.NOTHING,
    ),
    "its own, of another amount": (
        lookup({"refund_reason": OWN, "refund_amount": "9"}, keeps_markers=True),
        Proof.NOTHING,
    ),
    "that of another order": (
        lookup({"refund_reason": OTHERS}, keeps_markers=True),
        Proof.NOT_DONE,
    ),
    "none, by a gateway that drops markers": (lookup({"refund_reason": "torn"}), Proof.NOTHING),
    "none, by a look-up that may be blind": (
        lookup(complete=False, keeps_markers=True),
        Proof.NOTHING,
    ),
}


@pytest.mark.parametrize(("seen", "proof"), BY_MARKER.values(), ids=BY_MARKER.keys())
def test_by_marker(seen: LookupResult, proof: Proof) -> None:
    (finding,) = prove_refunds([unknown(7, MARKER)], seen, ClaimedRefunds(), Dialect())
    assert finding.proof is proof


def test_one_refund_proves_the_marked_order_and_no_other() -> None:
    outcomes = [unknown(0, references=NOTHING_BEFORE), unknown(7, MARKER)]
    seen = lookup({"refund_reason": OWN}, keeps_markers=True)
    by_reference, by_marker = prove_refunds(outcomes, seen, ClaimedRefunds(), Dialect())
    assert (by_reference.proof, by_marker.proof) == (Proof.NOT_DONE, Proof.DONE)


def test_an_order_that_had_more_refunds_before_it_chooses_first() -> None:
    later = unknown(1, references={"T1": frozenset({"T1-01"})})
    outcomes = [unknown(0, references=NOTHING_BEFORE), later]
    newest_first = lookup({"refund_reference_id": "T1-02"}, {"refund_reference_id": "T1-01"})
    findings = prove_refunds(outcomes, newest_first, ClaimedRefunds(), Dialect())
    assert [finding.proof for finding in findings] == [Proof.DONE, Proof.DONE]


def test_an_outcome_that_is_given_twice_is_one_outcome() -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    findings = prove_refunds([outcome, outcome], lookup({}), ClaimedRefunds(), Dialect())
    assert [finding.proof for finding in findings] == [Proof.DONE, Proof.DONE]


@pytest.mark.parametrize(("alone", "proof"), [(True, Proof.DONE), (False, Proof.NOTHING)])
def test_a_refund_may_be_a_siblings_that_was_not_given(alone: bool, proof: Proof) -> None:
    outcome = unknown(references=NOTHING_BEFORE, alone=alone)
    (finding,) = prove_refunds([outcome], lookup({}), ClaimedRefunds(all_known=False), Dialect())
    assert finding.proof is proof


def test_a_look_up_that_failed_says_why() -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    failed = LookupResult(problem="the look-up failed: HTTP 403")
    (finding,) = prove_refunds([outcome], failed, ClaimedRefunds(), Dialect())
    assert finding == Finding(Proof.NOTHING, "the look-up failed: HTTP 403")
    assert prove_state("capture", failed, Dialect()).reason == "the look-up failed: HTTP 403"


def test_two_refunds_of_one_reference_prove_neither_done_twice_nor_not_done() -> None:
    outcomes = [unknown(0, references=NOTHING_BEFORE), unknown(1, references=NOTHING_BEFORE)]
    seen = lookup({"refund_reference_id": "0"}, {"refund_reference_id": "0 "})
    first, second = prove_refunds(outcomes, seen, ClaimedRefunds(), Dialect())
    assert (first.proof, second.proof) == (Proof.DONE, Proof.NOTHING)


def test_a_refund_that_is_listed_twice_has_one_share() -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    claims = ClaimedRefunds(unreferenced=(Decimal("2.50"),))
    twice = lookup({"refund_reference_id": "T1-01"}, {"refund_reference_id": "T1-01"})
    (finding,) = prove_refunds([outcome], twice, claims, Dialect())
    assert finding.proof is Proof.NOTHING


def test_no_absence_where_a_settled_refund_has_no_reference() -> None:
    outcome = unknown(references=NOTHING_BEFORE)
    claims = ClaimedRefunds(unreferenced=(Decimal("2.50"),))
    (finding,) = prove_refunds([outcome], lookup(), claims, Dialect())
    assert finding.proof is Proof.NOTHING


def test_a_reason_of_the_merchants_own_that_looks_like_a_marker_hides_nothing() -> None:
    order = RefundOrder(
        transaction_id="T1",
        order_no="O1",
        currency="EUR",
        amount=Decimal(10),
        refund_amount=Decimal("2.50"),
        refund_reason=f"{OTHERS} torn",
    )
    outcome = attrs.evolve(unknown(references=NOTHING_BEFORE), order=order)
    seen = lookup({"refund_reason": f"{OTHERS} torn"})
    (finding,) = prove_refunds([outcome], seen, ClaimedRefunds(), Dialect())
    assert finding.proof is Proof.DONE
