"""What a recovery is given: what of it is unknown, and what the settled rest says of that.

Law: only what the gateway said it did is a claim or a witness; nobody is asked here, and nothing
given is changed. What a look shows is known to `looks`, what it proves to `proofs`, and what comes
of it to `recovery`.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gateway_async.batching.markers import reference_of
from gateway_async.batching.outcomes import ListedBlock, Outcome, count_statuses
from gateway_async.batching.results import BatchResult
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import ConfigurationError
from gateway_async.looks import Witness
from gateway_async.models.orders import CancelOrder, CaptureOrder, RefundOrder
from gateway_async.proofs import Claims, own_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gateway_async.batching.outcomes import Block

    Place = tuple[int, int]
    """Where an outcome is: the number of its block, and its offset there."""

_OPERATIONS: "Mapping[type, str]" = {
    RefundOrder: "refund",
    CaptureOrder: "capture",
    CancelOrder: "cancel",
}
"""What can be recovered by look-up, by the type of the order."""


def as_result(given: object) -> BatchResult[Any, Any]:
    """Make a result of outcomes, in the order given.

    Raises:
        TypeError: For anything else.
    """
    outcomes = tuple(given) if hasattr(given, "__iter__") else (given,)
    for outcome in outcomes:
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"recover: expected a BatchResult or outcomes, got {type(outcome).__name__}"
            )
    block = ListedBlock(outcomes)
    return BatchResult(
        counts=count_statuses(block.statuses),
        blocks=(block,) if outcomes else (),
        of_one_batch=False,
    )


def is_whole_batch(result: BatchResult[Any, Any]) -> bool:
    """Say whether a result still has every outcome of its batch.

    Raises:
        ConfigurationError: If unknown outcomes were yielded by a stream: nothing would be settled.
    """
    if len(result.unknown) < result.counts[OutcomeStatus.UNKNOWN]:
        raise ConfigurationError(
            "recover: the stream has yielded unknown outcomes, which this result no longer holds; "
            "keep outcomes as they are yielded, and give those to recover"
        )
    return result.of_one_batch and len(result) == sum(result.counts.values())


def find_unknown(
    blocks: "Sequence[Block]",
) -> "Iterator[tuple[Place, Outcome[Any, Any]]]":
    """Yield the unknown outcomes that can be recovered by look-up, each with its place."""
    for number, block in enumerate(blocks):
        if not count_statuses(block.statuses)[OutcomeStatus.UNKNOWN]:
            continue
        for offset, outcome in enumerate(block.outcomes()):
            if outcome.status is OutcomeStatus.UNKNOWN and operation_of(outcome) is not None:
                yield (number, offset), outcome


def settled_of(blocks: "Sequence[Block]", wanted: "set[str]") -> "Iterator[Outcome[Any, Any]]":
    """Yield the settled outcomes of some transactions."""
    for block in blocks:
        if any(getattr(o, "transaction_id", None) in wanted for o in block.orders):
            yield from (
                outcome
                for outcome in block.outcomes()
                if outcome.status is OutcomeStatus.SUCCEEDED
                and operation_of(outcome) is not None
                and outcome.order.transaction_id in wanted
            )


def find_claims(
    blocks: "Sequence[Block]", unknown: "Iterable[Outcome[Any, Any]]", *, all_known: bool
) -> dict[str, Claims]:
    """Collect which refunds, of transactions with an unknown one, belong to settled orders."""
    wanted = {o.order.transaction_id for o in unknown if is_of(o, "refund")}
    references: dict[str, set[str]] = defaultdict(set)
    unreferenced: dict[str, list[Any]] = defaultdict(list)
    for outcome in settled_of(blocks, wanted):
        if not is_of(outcome, "refund"):
            continue
        name = outcome.order.transaction_id
        if reference := _reference(outcome):
            references[name].add(reference)
        else:
            unreferenced[name].append(outcome.order.refund_amount)
    return {
        name: Claims(
            references=frozenset(references[name]),
            unreferenced=tuple(unreferenced[name]),
            all_known=all_known,
        )
        for name in wanted
    }


def find_witness(blocks: "Sequence[Block]", is_askable: "Callable[[str], bool]") -> Witness | None:
    """Find a refund that the gateway said it did, with its reference."""
    for block in blocks:
        if not count_statuses(block.statuses)[OutcomeStatus.SUCCEEDED]:
            continue
        for outcome in block.outcomes():
            if not _is_done_refund(outcome) or not is_askable(outcome.order.transaction_id):
                continue
            if reference := _reference(outcome):
                return Witness(outcome.order.transaction_id, reference, own_marker(outcome))
    return None


def operation_of(outcome: "Outcome[Any, Any]") -> str | None:
    """Name the operation of an order, if it can be recovered by look-up."""
    matching = (name for kind, name in _OPERATIONS.items() if isinstance(outcome.order, kind))
    return next(matching, None)


def is_of(outcome: "Outcome[Any, Any]", operation: str) -> bool:
    """Say whether an outcome is of an operation."""
    return operation_of(outcome) == operation


def name_of(outcome: "Outcome[Any, Any]") -> tuple[int, str]:
    """Return what two outcomes of one order, given twice, have in common."""
    return outcome.index, outcome.order.transaction_id


def _is_done_refund(outcome: "Outcome[Any, Any]") -> bool:
    is_done = outcome.status is OutcomeStatus.SUCCEEDED
    return is_done and is_of(outcome, "refund") and bool(outcome.items)


def _reference(outcome: "Outcome[Any, Any]") -> str | None:
    record = outcome.record
    return reference_of(record) if record else None
