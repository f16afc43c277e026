"""What must hold after every run, whatever happened in it."""

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway_async import AlikeRefundError, BatchResult, DuplicateOrderError, Outcome
from tests.simulation.running import CallerError, Story
from tests.simulation.scenario import BY_HAND, EPOCH, LIMITS, identity, key
from tests.support.books import ABSENT, DECLINED, ERRORS, NOT_SENT, SUCCEEDED, UNKNOWN
from tests.support.orders import MONEY_OPERATIONS, as_sent

Outcomes = list[Outcome[Any, Any]]
_A_MOMENT = 1e-6
_NEVER = 1e9


def find_problems(story: Story) -> list[str]:
    checks = (_left_behind, _never_twice, _pauses, _in_time, _heard, _sending, _turns, _batch)
    return [problem for check in checks for problem in check(story)]


def _left_behind(story: Story) -> Iterator[str]:
    for what in story.stray:
        yield f"stray: {what}"
    for name in story.running:
        yield f"still running: {name}"
    if story.was_cancelled and not isinstance(story.error, asyncio.CancelledError):
        yield f"the cancellation was swallowed: {story.error!r}"
    if story.input_open:
        yield "the input was left open"


def _heard(story: Story) -> Iterator[str]:
    """Check that what a listener hears adds up to what happened."""
    diary = story.diary
    if not diary.is_closed:
        yield "a listener did not hear the end of what began"
        return
    for batch, over in diary.batches:
        settled = diary.totals(batch)
        if over and batch.operation != "recover" and settled != Counter(over.counts):
            yield f"{batch} settled {settled}, and ended with {over}"
    for request, end in diary.requests:
        if end and end.counts and sum(end.counts.values()) != request.orders:
            yield f"{request} ended with {end}"
    heard = sum(end.sent for _, end in diary.requests if end)
    written = sum(one.begun is not None for one in story.network.carried)
    if heard != written:
        yield f"a listener heard of {heard} requests, and {written} were written"


# What was sent, and when


def _sending(story: Story) -> Iterator[str]:
    scenario = story.scenario
    concurrency = scenario.policy.concurrency
    limit = min(scenario.policy.chunk_size or 1000, LIMITS[scenario.operation])
    for carried in story.carried:
        names = {identity(one) for one in carried.asked}
        if len(carried.asked) > limit:
            yield f"#{carried.number} has {len(carried.asked)} orders, more than {limit}"
        if len(names) < len(carried.asked):
            yield f"#{carried.number} has an identity twice"
    if story.network.most_at_once > concurrency:
        yield f"{story.network.most_at_once} requests at once"
    chunks = {frozenset(map(key, carried.asked)) for carried in story.carried}
    most = scenario.policy.stop_after_unknown + concurrency - 1
    if scenario.is_dead and len(chunks) > most:
        yield f"{len(chunks)} chunks were sent to a gateway that never answers, not {most}"
    # As many chunks in flight, finished and not yet yielded, and waiting for others of their kind.
    if scenario.streamed and story.most_ahead > limit * (3 * concurrency + 2):
        yield f"{story.most_ahead} orders were pulled ahead of the outcomes"


def _never_twice(story: Story) -> Iterator[str]:
    scenario = story.scenario
    if scenario.is_read:
        return
    if not (scenario.recovers and scenario.recovery.resend_absent):
        for name, count in story.network.gateway.effects.items():
            if count > 1:
                yield f"{name} was done {count} times"
    if scenario.asks_for == "payout" and scenario.dialect.payout_deduplicates:
        return
    for name, count in _written(story).items():
        if count > 1:
            yield f"{name} was written {count} times"


def _pauses(story: Story) -> Iterator[str]:
    """Check that the gateway's wish for a pause is heeded."""
    for one in story.carried:
        if one.pause and one.left is not None and not one.cancelled:
            until = one.left + min(one.pause, story.scenario.retry.max_pause_seconds)
            for other in story.carried:
                if one.left + _A_MOMENT < other.entered < until - _A_MOMENT:
                    yield f"#{other.number} did not wait as #{one.number} had asked for"


def _turns(story: Story) -> Iterator[str]:
    """Check that serialized orders of one identity go one behind the other, in their order."""
    scenario = story.scenario
    if scenario.policy.duplicates != "serialize":
        return
    by_identity: dict[str, list[tuple[Any, dict[str, Any]]]] = defaultdict(list)
    for one in story.carried:
        for asked in one.asked if one.operation == scenario.asks_for else ():
            by_identity[identity(asked)].append((one, asked))
    for name, ones in by_identity.items():
        for (earlier, first), (later, second) in itertools.pairwise(ones):
            if earlier.left is None or later.entered < earlier.left:
                yield f"{name} is in #{earlier.number} and #{later.number} at once"
            # Amounts grow from one order to the next, so that they name the order.
            is_money = scenario.operation in MONEY_OPERATIONS
            if is_money and float(first["amount"]) > float(second["amount"]):
                yield f"{name} is in #{later.number} out of its turn"


def _in_time(story: Story) -> Iterator[str]:
    """Check the deadline, and that what has left is not given up before the drain time is over."""
    scenario, policy = story.scenario, story.scenario.policy
    deadline = policy.deadline_seconds or _NEVER
    stopped_at = min(deadline, _NEVER if story.disturbed_at is None else story.disturbed_at)
    drained_at = stopped_at + policy.drain_seconds
    silent_from = deadline if story.is_noticed_later else stopped_at
    for carried in story.carried:
        if carried.begun is None:
            continue
        if carried.begun > silent_from + _A_MOMENT:
            yield f"#{carried.number} was written at {carried.begun}, after the stop: {stopped_at}"
        is_base_line = carried.operation != scenario.asks_for
        is_early = carried.cancelled and (carried.left or 0) < drained_at - _A_MOMENT
        if is_early and not (story.disturbed_again or is_base_line):
            yield f"#{carried.number} was given up before the drain time was over"
    if not scenario.streamed and story.over_at > drained_at + _A_MOMENT:
        yield f"it was over at {story.over_at}, long after the stop at {stopped_at}"


# What came of it


def _batch(story: Story) -> Iterator[str]:
    if story.result is None:
        if story.carried:
            yield "there is no result, and something was sent"
        if not _is_refused(story) or not isinstance(story.error, DuplicateOrderError):
            yield f"there is no result: {story.error!r}"
        return
    outcomes = story.outcomes
    yield from _conserved(story, story.result, outcomes)
    yield from _true(story, outcomes)
    yield from _settled_when_calm(story, outcomes)
    if story.scenario.is_read:
        yield from _looked_up(story, outcomes)
    if story.scenario.operation == "refund":
        yield from _held_back(story, outcomes)
    if story.recovered is not None:
        yield from _recovered(story, story.recovered)
    allowed = (asyncio.CancelledError, TimeoutError, CallerError)
    if story.error is not None and not isinstance(story.error, allowed):
        yield f"it raised {story.error!r}"


def _is_refused(story: Story) -> bool:
    names = {identity(as_sent(order)) for order in story.scenario.orders}
    doubled = len(names) < len(story.scenario.orders)
    return (
        doubled and story.scenario.kind == "list" and story.scenario.policy.duplicates == "reject"
    )


def _conserved(story: Story, result: BatchResult[Any, Any], outcomes: Outcomes) -> Iterator[str]:
    if _is_refused(story) and story.carried:
        yield "a wrong list was accepted"
    indices = [outcome.index for outcome in outcomes]
    if indices != list(range(len(story.pulled))):
        yield f"of {len(story.pulled)} orders these came back: {indices}"
    elif any(outcome.order is not story.pulled[outcome.index] for outcome in outcomes):
        yield "an outcome has another order than its index says"
    if [outcome.index for outcome in result] != sorted(outcome.index for outcome in result):
        yield "the result is not in input order"
    yield from _counted(result, outcomes)
    if result.exhausted and len(story.pulled) != len(story.scenario.orders):
        yield "the result says exhausted, and the input was not"
    written = sum(carried.begun is not None for carried in story.carried)
    if result.requests != written:
        yield f"{result.requests} requests counted, {written} written"


def _counted(result: BatchResult[Any, Any], outcomes: Outcomes) -> Iterator[str]:
    counts = Counter(outcome.status for outcome in outcomes)
    if {status: count for status, count in result.counts.items() if count} != counts:
        yield f"counted {dict(result.counts)}, came back {dict(counts)}"


def _true(story: Story, outcomes: Outcomes) -> Iterator[str]:
    """Check each outcome against what was written and what was done."""
    scenario, written = story.scenario, _written(story)
    stuck: set[str] = set()
    for outcome in outcomes:
        status, shown = outcome.status, f"{outcome.index} is {outcome.status}"
        if not isinstance(outcome.error, ERRORS[status]):
            yield f"{shown}, its error is {outcome.error!r}"
        order = as_sent(outcome.order)
        was_written, done = bool(written[key(order)]), story.network.gateway.effects[key(order)]
        is_unsent = status is NOT_SENT
        if not (was_written or is_unsent) or (was_written and is_unsent and not scenario.is_read):
            yield f"{shown}; written: {was_written}"
        if scenario.is_read:
            continue
        if {SUCCEEDED: not done, DECLINED: bool(done)}.get(status):
            yield f"{shown}, and was done {done} times"
        if was_written and identity(order) in stuck:
            yield f"{shown}, and was sent after an unknown one of its identity"
        if status is UNKNOWN and scenario.policy.duplicates == "serialize":
            stuck.add(identity(order))


def _settled_when_calm(story: Story, outcomes: Outcomes) -> Iterator[str]:
    """Check that the client does its job where nothing goes wrong."""
    scenario, duplicates = story.scenario, story.scenario.policy.duplicates
    if not scenario.is_calm or scenario.is_read:
        return
    seen: set[str] = set()
    stuck: set[str] = set()
    for outcome in outcomes:
        order = as_sent(outcome.order)
        name = identity(order)
        expected = SUCCEEDED
        if key(order) in scenario.declined:
            expected = DECLINED if scenario.knows_codes else UNKNOWN
        if name in stuck or isinstance(outcome.error, AlikeRefundError):
            expected = NOT_SENT
        if duplicates == "reject" and name in seen:
            expected = NOT_SENT
            if not isinstance(outcome.error, DuplicateOrderError):
                yield f"{outcome.index} is a duplicate, and was not refused"
        seen.add(name)
        if outcome.status is UNKNOWN and duplicates == "serialize":
            stuck.add(name)
        if outcome.status is not expected:
            yield f"{outcome.index} is {outcome.status} on a calm day: {outcome.error}"


def _held_back(story: Story, outcomes: Outcomes) -> Iterator[str]:
    """Check that an order is held back where a refund like it was listed before, and only there."""
    scenario, gateway = story.scenario, story.network.gateway
    begins = f"{datetime.fromtimestamp(EPOCH, UTC) - timedelta(hours=24):%Y%m%d%H%M%S}"
    is_guarded = scenario.recovery.record_baseline and scenario.recovery.hold_alike_hours
    alike = {
        (record["transaction_id"], record["refund_amount"])
        for of_transaction in (gateway.refunds.values() if is_guarded else ())
        for record in of_transaction
        if record["refund_reason"] == BY_HAND
        and not (record["refund_date"].isdigit() and record["refund_date"] <= begins)
    }
    is_listed = gateway.lists_refunds and not scenario.sloppiness
    few = {name for name, listed in gateway.refunds.items() if len(listed) < 10}
    for carried in story.carried:
        for asked in carried.asked if carried.operation == "refund" and carried.begun else ():
            name = asked["transaction_id"], asked["refund_amount"]
            if is_listed and name in alike and name[0] in few:
                yield f"#{carried.number} refunds {name}, as was done by hand before"
    for outcome in outcomes:
        if isinstance(outcome.error, AlikeRefundError):
            name = outcome.order.transaction_id, str(outcome.order.refund_amount)
            if name not in alike:
                yield f"{outcome.index} was held back for nothing: {outcome.error}"


def _looked_up(story: Story, outcomes: Outcomes) -> Iterator[str]:
    """Check that a look-up's records are complete, and that what is absent is not there."""
    scenario, gateway = story.scenario, story.network.gateway
    for outcome in outcomes:
        records = gateway.records(scenario.operation, as_sent(outcome.order))
        shown = f"{outcome.index} is {outcome.status} with {len(outcome.items)} of {len(records)}"
        if outcome.status is ABSENT and records:
            yield shown
        if outcome.status is SUCCEEDED and len(outcome.items) != len(records):
            yield shown
        is_doubled = isinstance(outcome.error, DuplicateOrderError)
        is_unclear = outcome.status in (UNKNOWN, NOT_SENT) and not is_doubled
        if scenario.is_calm and is_unclear and len(records) < 100:
            yield f"{shown} on a calm day: {outcome.error}"


# What recovery made of it


def _recovered(story: Story, recovered: BatchResult[Any, Any]) -> Iterator[str]:
    before, after = story.outcomes, list(recovered)
    if [(o.index, o.order) for o in before] != [(o.index, o.order) for o in after]:
        yield "recovery returned other orders than it was given"
        return
    yield from _counted(recovered, after)
    for old, new in zip(before, after, strict=True):
        if old.status is not UNKNOWN and old.status is not new.status:
            yield f"{old.index} was {old.status}, and is {new.status} after recovery"
    yield from _proved(story, after)


def _proved(story: Story, after: Outcomes) -> Iterator[str]:
    """Check what is settled against the books: of equal refunds, only how many were done.

    Refunds of one transaction and amount cannot be told apart, unless each has a marker.
    """
    scenario, effects = story.scenario, story.network.gateway.effects
    is_refund = scenario.operation == "refund"
    groups: dict[object, Outcomes] = defaultdict(list)
    for outcome in after:
        name: object = key(as_sent(outcome.order))
        if is_refund and scenario.recovery.refund_evidence == "references":
            name = outcome.order.transaction_id, outcome.order.refund_amount
        groups[name].append(outcome)
    for name, outcomes in groups.items():
        done = sum(effects[key(as_sent(outcome.order))] for outcome in outcomes)
        counts = Counter(outcome.status for outcome in outcomes)
        if not counts[SUCCEEDED] <= done <= counts[SUCCEEDED] + counts[UNKNOWN]:
            yield f"after recovery {name} is {dict(counts)}, and was done {done} times"


def _written(story: Story) -> Counter[str]:
    """Count in how many requests that were written each order stands."""
    return Counter(
        key(one)
        for carried in story.carried
        if carried.begun is not None and carried.operation == story.scenario.asks_for
        for one in carried.asked
    )
