"""What must hold after a recovery, whatever the gateway showed of itself."""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from gateway_async import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async import BatchResult, Outcome
    from tests.simulation.running import Story

_SUCCEEDED, _UNKNOWN = OutcomeStatus.SUCCEEDED, OutcomeStatus.UNKNOWN


def find_recovery_problems(story: "Story", recovered: "BatchResult[Any, Any]") -> "Iterator[str]":
    """Return what is wrong with what recovery made of the outcomes."""
    before, after = story.outcomes, list(recovered)
    if [o.order for o in before] != [o.order for o in after] or len(recovered) != len(before):
        yield "recovery returned other orders than it was given"
        return
    counts = Counter(outcome.status for outcome in after)
    if {status: count for status, count in recovered.counts.items() if count} != dict(counts):
        yield f"recovery counted {dict(recovered.counts)}, and returned {dict(counts)}"
    for old, new in zip(before, after, strict=True):
        if old.index != new.index:
            yield f"{old.index} has the index {new.index} after recovery"
        if old.status is not _UNKNOWN and old.status is not new.status:
            yield f"{old.index} was {old.status}, and is {new.status} after recovery"
    yield from _proved(story, after)
    yield from _settled(story, after)


def _proved(story: "Story", after: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    """Check what is settled against the books: of equal refunds, only how many were done.

    Refunds of one transaction and amount cannot be told apart, unless each has a marker.
    """
    scenario, effects = story.scenario, story.network.gateway.effects
    is_refund = scenario.operation == "refund"
    groups: dict[object, list[Outcome[Any, Any]]] = defaultdict(list)
    for outcome in after:
        if isinstance(outcome.order, str):
            continue
        name: object = scenario.key(outcome.order)
        if is_refund and scenario.recovery.refund_evidence == "references":
            name = outcome.order.transaction_id, outcome.order.refund_amount
        groups[name].append(outcome)
    for name, outcomes in groups.items():
        done = sum(effects[scenario.key(outcome.order)] for outcome in outcomes)
        counts = Counter(outcome.status for outcome in outcomes)
        if not counts[_SUCCEEDED] <= done <= counts[_SUCCEEDED] + counts[_UNKNOWN]:
            yield f"after recovery {name} is {dict(counts)}, and was done {done} times"


def _settled(story: "Story", after: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    """Check that recovery does its job where the gateway shows all that it needs."""
    scenario, gateway = story.scenario, story.network.gateway
    is_clear = (
        scenario.operation == "refund"
        and scenario.recovery.refund_evidence == "marker"
        and scenario.calms_down
        and scenario.timeouts_are_long
        and gateway.lists_refunds
        and gateway.keeps_reasons
        and not gateway.is_flaky
        and scenario.signer_fails_at is None
        and scenario.limiter_fails_at is None
        and all(len(of_one) < 10 for of_one in gateway.refunds.values())
    )
    has_witness = any(
        outcome.status is _SUCCEEDED
        and any(item.get("refund_reference_id") for item in outcome.items)
        for outcome in story.outcomes
    )
    # What is sent again is refused again, by a status that the dialect may not know.
    refused = () if scenario.dialect.declined_statuses else scenario.manners.declined
    refused = refused if scenario.recovery.resend_absent else ()
    left = [
        outcome.index
        for outcome in after
        if outcome.status is _UNKNOWN and scenario.key(outcome.order) not in refused
    ]
    if is_clear and has_witness and left:
        yield f"recovery leaves {left} unknown, though the gateway shows everything"
