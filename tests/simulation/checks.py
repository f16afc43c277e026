"""What must hold after every run, whatever happened in it."""

import asyncio
import itertools
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gateway_async import (
    AlikeRefundError,
    ConfigurationError,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
)
from tests.simulation.gateway import BY_HAND, LIMITS, key
from tests.simulation.network import EPOCH
from tests.simulation.recovery_checks import find_recovery_problems
from tests.simulation.running import InputError, LeavingError, LimiterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async import Outcome
    from tests.simulation.network import Carried
    from tests.simulation.running import Story

_A_MOMENT = 1e-6
_NAMES = ("transaction_id", "order_no", "request_id")
_ERRORS: "dict[OutcomeStatus, tuple[type[BaseException], ...]]" = {
    OutcomeStatus.SUCCEEDED: (type(None),),  # type: ignore[dict-item]  # no error at all
    OutcomeStatus.ABSENT: (type(None),),  # type: ignore[dict-item]  # no error at all
    OutcomeStatus.DECLINED: (RejectedError,),
    OutcomeStatus.UNKNOWN: (OutcomeUnknownError,),
    OutcomeStatus.NOT_SENT: (NotSentError, InvalidOrderError, ConfigurationError),
}


def find_problems(story: "Story") -> list[str]:
    """Return everything that is wrong with a run."""
    checks = [_left_behind, _sending, _never_twice, _pauses, _turns, _in_time]
    checks += [_batch] if story.scenario.is_batch else [_single]
    return [problem for check in checks for problem in check(story)]


def _left_behind(story: "Story") -> "Iterator[str]":
    for what in story.stray:
        yield f"stray: {what}"
    for name in story.running:
        yield f"still running: {name}"
    if story.was_cancelled and not isinstance(story.error, asyncio.CancelledError):
        yield f"the cancellation was swallowed: {story.error!r}"
    if story.input_open:
        yield "the input was left open"


# What was sent, and when


def _sending(story: "Story") -> "Iterator[str]":
    scenario = story.scenario
    if not scenario.is_batch:
        return
    limit = min(scenario.policy.chunk_size or 1000, LIMITS[scenario.operation])
    for carried in story.carried:
        names = Counter(_identity(one) for one in carried.asked)
        if len(carried.asked) > limit:
            yield f"#{carried.number} has {len(carried.asked)} orders, more than {limit}"
        if len(names) < len(carried.asked):
            yield f"#{carried.number} has an identity twice"
    if story.network.most_at_once > scenario.policy.concurrency:
        yield f"{story.network.most_at_once} requests at once"
    chunks = {_names(carried) for carried in story.carried}
    most = scenario.policy.stop_after_unknown + scenario.policy.concurrency - 1
    if scenario.is_dead and len(chunks) > most:
        yield f"{len(chunks)} chunks were sent to a gateway that never answers, not {most}"


def _never_twice(story: "Story") -> "Iterator[str]":
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


def _pauses(story: "Story") -> "Iterator[str]":
    """Check that the gateway's wish for a pause is heeded."""
    for one in story.carried:
        if one.pause and one.left is not None and not one.cancelled:
            until = one.left + min(one.pause, story.scenario.retry.max_pause_seconds)
            for other in story.carried:
                if one.left + _A_MOMENT < other.entered < until - _A_MOMENT:
                    yield f"#{other.number} did not wait as #{one.number} had asked for"


def _turns(story: "Story") -> "Iterator[str]":
    """Check that serialized orders of one identity go one behind the other."""
    if story.scenario.policy.duplicates != "serialize" or not story.scenario.is_batch:
        return
    by_identity: dict[str, list[Carried]] = defaultdict(list)
    for one in story.carried:
        for asked in one.asked if one.operation == story.scenario.asks_for else ():
            by_identity[_identity(asked)].append(one)
    for name, ones in by_identity.items():
        for earlier, later in itertools.pairwise(ones):
            if earlier.left is None or later.entered < earlier.left:
                yield f"{name} is in #{earlier.number} and #{later.number} at once"


def _in_time(story: "Story") -> "Iterator[str]":
    """Check the deadline, and that what has left is not given up before the drain time is over."""
    policy = story.scenario.policy
    deadline = (policy.deadline_seconds or 1e9) if story.scenario.is_batch else 1e9
    stopped_at = min(deadline, 1e9 if story.disturbed_at is None else story.disturbed_at)
    for carried in story.carried:
        begun = carried.begun
        silent_from = deadline if story.is_noticed_later else stopped_at
        if begun is not None and begun > silent_from + _A_MOMENT:
            yield f"#{carried.number} was written at {begun}, after the stop at {stopped_at}"
        is_base_line = carried.operation != story.scenario.asks_for
        is_early = (carried.left or 0) < stopped_at + policy.drain_seconds - _A_MOMENT
        may = (
            story.disturbed_again
            or is_base_line
            or (story.scenario.is_read and not story.scenario.is_batch)
        )
        if carried.cancelled and begun is not None and is_early and not may:
            yield f"#{carried.number} was given up before the drain time was over"
    if not story.scenario.consumption.streamed and story.over_at > (
        stopped_at + policy.drain_seconds + _A_MOMENT
    ):
        yield f"it was over at {story.over_at}, long after the stop at {stopped_at}"


# What came of it


def _batch(story: "Story") -> "Iterator[str]":
    if story.result is None:
        yield from _without_result(story)
        return
    outcomes = story.outcomes
    yield from _conserved(story, outcomes)
    yield from _fates(story, outcomes)
    yield from _settled_when_calm(story, outcomes)
    if story.scenario.is_read:
        yield from _looked_up(story, outcomes)
    if story.scenario.operation == "refund":
        yield from _held_back(story, outcomes)
    if story.recovered is not None:
        yield from find_recovery_problems(story, story.recovered)
    allowed = (asyncio.CancelledError, TimeoutError, InputError, LimiterError, LeavingError)
    if story.error is not None and not isinstance(story.error, allowed):
        yield f"it raised {story.error!r}"


def _without_result(story: "Story") -> "Iterator[str]":
    if story.carried:
        yield "there is no result, and something was sent"
    if isinstance(story.error, InvalidOrderError):
        if story.scenario.source.kind != "list" or not _is_refusable(story):
            yield f"it was refused for nothing: {story.error}"
    elif story.given:
        yield f"there is no result: {story.error!r}"


def _is_refusable(story: "Story") -> bool:
    names = [_own_identity(order) for order in story.scenario.orders]
    doubled = len(set(names)) < len(names) and story.scenario.policy.duplicates == "reject"
    return doubled or bool(story.scenario.source.bad)


def _conserved(story: "Story", outcomes: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    result = story.result
    if result is None:
        return
    if story.scenario.source.kind == "list" and _is_refusable(story) and story.carried:
        yield "a wrong list was accepted"
    indices = [outcome.index for outcome in outcomes]
    if sorted(indices) != list(range(len(story.pulled))):
        yield f"of {len(story.pulled)} orders these came back: {sorted(indices)}"
    elif any(outcome.order is not story.pulled[outcome.index] for outcome in outcomes):
        yield "an outcome has another order than its index says"
    if [outcome.index for outcome in result] != sorted(outcome.index for outcome in result):
        yield "the result is not in input order"
    counts = Counter(outcome.status for outcome in outcomes)
    if {status: count for status, count in result.counts.items() if count} != dict(counts):
        yield f"counted {dict(result.counts)}, came back {dict(counts)}"
    if result.exhausted and len(story.pulled) != len(story.given):
        yield "the result says exhausted, and the input was not"
    written = sum(carried.begun is not None for carried in story.carried)
    if result.requests != written:
        yield f"{result.requests} requests counted, {written} written"


def _fates(story: "Story", outcomes: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    written = _written(story)
    effects = story.network.gateway.effects
    stuck: set[str] = set()
    for outcome in sorted(outcomes, key=lambda outcome: outcome.index):
        status, shown = outcome.status, f"{outcome.index} is {outcome.status}"
        if not isinstance(outcome.error, _ERRORS[status]):
            yield f"{shown}, its error is {outcome.error!r}"
        if isinstance(outcome.order, str):
            if status is not OutcomeStatus.NOT_SENT:
                yield f"{shown} and is no order"
            continue
        name = story.scenario.key(outcome.order)
        was_written = bool(written[name])
        if was_written is (status is OutcomeStatus.NOT_SENT) and not story.scenario.is_read:
            yield f"{shown}; written: {was_written}"
        if not was_written and status is not OutcomeStatus.NOT_SENT:
            yield f"{shown} and was never written"
        done = effects[name]
        settled_wrong = {OutcomeStatus.SUCCEEDED: not done, OutcomeStatus.DECLINED: bool(done)}
        if not story.scenario.is_read and settled_wrong.get(status, False):
            yield f"{shown}, and was done {done} times"
        identity = _own_identity(outcome.order)
        is_after = identity in stuck and was_written and not story.scenario.is_read
        if story.scenario.policy.duplicates == "serialize" and is_after:
            yield f"{shown}, and was sent after an unknown one of its identity"
        if status is OutcomeStatus.UNKNOWN:
            stuck.add(identity)


def _settled_when_calm(story: "Story", outcomes: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    """Check that the client does its job where nothing goes wrong."""
    scenario = story.scenario
    if not scenario.is_calm or scenario.is_read:
        return
    seen: set[str] = set()
    stuck: set[str] = set()
    refused = (
        OutcomeStatus.DECLINED if scenario.dialect.declined_statuses else OutcomeStatus.UNKNOWN
    )
    for outcome in sorted(outcomes, key=lambda outcome: outcome.index):
        if isinstance(outcome.order, str):
            continue
        identity = _own_identity(outcome.order)
        if scenario.policy.duplicates == "reject" and identity in seen:
            if not isinstance(outcome.error, DuplicateOrderError):
                yield f"{outcome.index} is a duplicate, and was not refused"
            continue
        seen.add(identity)
        is_declined = scenario.key(outcome.order) in scenario.manners.declined
        expected = refused if is_declined else OutcomeStatus.SUCCEEDED
        if scenario.policy.duplicates == "serialize" and identity in stuck:
            expected = OutcomeStatus.NOT_SENT
        if isinstance(outcome.error, AlikeRefundError):
            expected = OutcomeStatus.NOT_SENT
        if outcome.status is OutcomeStatus.UNKNOWN:
            stuck.add(identity)
        if outcome.status is not expected:
            yield f"{outcome.index} is {outcome.status} on a calm day: {outcome.error}"


def _alike_before(story: "Story") -> set[tuple[str, str]]:
    """Return transaction and amount of the recent refunds that a baseline shows, if it is kept."""
    recovery, gateway = story.scenario.recovery, story.network.gateway
    if not recovery.record_baseline or recovery.hold_alike_hours is None:
        return set()
    begins = f"{datetime.fromtimestamp(EPOCH, UTC) - timedelta(hours=24):%Y%m%d%H%M%S}"
    return {
        (record["transaction_id"], record["refund_amount"])
        for of_transaction in gateway.refunds.values()
        for record in of_transaction
        if record["refund_reason"] == BY_HAND
        and not (record["refund_date"].isdigit() and record["refund_date"] <= begins)
    }


def _held_back(story: "Story", outcomes: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    """Check that an order is held back where a refund like it was listed before, and only there."""
    alike = _alike_before(story)
    shown = alike if story.network.gateway.lists_refunds else set()
    is_sure = not story.scenario.manners.sloppiness
    few = {name for name, listed in story.network.gateway.refunds.items() if len(listed) < 10}
    for carried in story.carried:
        for asked in carried.asked if carried.operation == "refund" and carried.begun else ():
            name = asked["transaction_id"], asked["refund_amount"]
            if name in shown and is_sure and name[0] in few:
                yield f"#{carried.number} refunds {name}, as was done by hand before"
    for outcome in outcomes:
        if isinstance(outcome.error, AlikeRefundError):
            name = outcome.order.transaction_id, str(outcome.order.refund_amount)
            if name not in alike:
                yield f"{outcome.index} was held back for nothing: {outcome.error}"


def _looked_up(story: "Story", outcomes: "list[Outcome[Any, Any]]") -> "Iterator[str]":
    """Check that a look-up's records are complete, and that what is absent is not there."""
    scenario, gateway = story.scenario, story.network.gateway
    for outcome in outcomes:
        if isinstance(outcome.order, str):
            continue
        ref = {outcome.order.kind: outcome.order.value}
        records = gateway.records(scenario.operation, ref)
        shown = f"{outcome.index} is {outcome.status} with {len(outcome.items)} of {len(records)}"
        if outcome.status is OutcomeStatus.ABSENT and records:
            yield shown
        if outcome.status is OutcomeStatus.SUCCEEDED and len(outcome.items) != len(records):
            yield shown
        is_unclear = outcome.status in (OutcomeStatus.UNKNOWN, OutcomeStatus.NOT_SENT)
        is_doubled = isinstance(outcome.error, DuplicateOrderError)
        if scenario.is_calm and is_unclear and len(records) < 100 and not is_doubled:
            yield f"{shown} on a calm day: {outcome.error}"


def _single(story: "Story") -> "Iterator[str]":
    """Check a payment by card or a payout."""
    value, error = story.value, story.error
    if isinstance(error, TimeoutError):
        error = error.__cause__
    if isinstance(error, asyncio.CancelledError):
        told = getattr(error, "outcome", None)
        if told is None and story.carried:
            yield "a cancelled call does not say what became of it"
        value, error = (None, told) if isinstance(told, BaseException) else (told, None)
    yield from _told_truly(story, value, error)
    expected = (NotSentError, ConfigurationError, RejectedError, OutcomeUnknownError, LimiterError)
    if error is not None and not isinstance(error, expected):
        yield f"it raised {error!r}"
    if story.scenario.is_calm and value is None:
        yield f"it raised {error!r} on a calm day"


def _told_truly(story: "Story", value: object, error: object) -> "Iterator[str]":
    name = story.scenario.key(story.scenario.orders[0])
    done = story.network.gateway.effects[name]
    was_written = bool(_written(story)[name])
    if isinstance(error, NotSentError | ConfigurationError) and (done or was_written):
        yield f"{error!r}, and it was written, and done {done} times"
    if isinstance(error, RejectedError) and done:
        yield f"{error!r}, and it was done {done} times"
    if isinstance(error, OutcomeUnknownError) and not was_written:
        yield f"{error!r}, and it was never written"
    said = getattr(value, "order_status", None) or getattr(value, "status", None)
    if value is not None and (said in ("1", "COMPLETED")) is not bool(done):
        yield f"the result says {said}, and it was done {done} times"


def _written(story: "Story") -> "Counter[str]":
    """Count in how many requests that were written each order stands."""
    return Counter(
        key(carried.operation, one)
        for carried in story.carried
        if carried.begun is not None and carried.operation == story.scenario.asks_for
        for one in carried.asked
    )


def _names(carried: "Carried") -> frozenset[str]:
    return frozenset(key(carried.operation, one) for one in carried.asked)


def _identity(asked: "dict[str, Any]") -> str:
    """Name what an order of a request is about."""
    name = next(name for name in _NAMES if name in asked)
    return f"{name}/{asked[name]}"


def _own_identity(order: Any) -> str:
    """Name what an order of the caller's is about."""
    return _identity(
        {name: value for name in _NAMES if (value := getattr(order, name, None)) is not None}
    )
