"""Look-ups that recovery makes: what the gateway's records show of some transactions.

Law: a look says whether it could have missed something. It asks with a witness, a refund that is
known to exist; where the reply lists less than that, or more than was asked for, it shows no
absence. What a look proves is known to `proofs`.
"""

from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.markers import reference_of
from gateway_async.batching.outcomes import Outcome, RepliedBlock
from gateway_async.batching.plans import PLANS
from gateway_async.batching.running import Run
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.models.orders import OrderRef
from gateway_async.proofs import Look
from gateway_async.settings import BatchPolicy
from gateway_async.wire.decoding import decode_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.batching.results import BatchResult
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy

LOOK_UPS = {"refund": PLANS["search_refunds"], "capture": PLANS["query"], "cancel": PLANS["query"]}
"""By which look-up an operation is recovered."""

_NO_WITNESS = (
    "no refund that is known to be done was looked up with it, so it may be done although it is "
    "not listed; recover it together with one that succeeded"
)

_REQUESTED_AT_ONCE = 90
"""Orders in one look: below the limit of 100, so that a reply with a few more records is whole."""


@attrs.frozen
class Witness:
    """A refund known to exist: a look that does not list it shows nothing.

    Attributes:
        transaction_id: Its transaction.
        reference: Its reference; empty where only the transaction is known to be listed.
        marker: The marker it was sent with, if any.
    """

    transaction_id: str
    reference: str = ""
    marker: str | None = None

    def is_listed(self, look: Look) -> bool:
        """Say whether a look lists it."""
        references = {reference_of(record) for record in look.records}
        return self.reference in references if self.reference else bool(references)

    def kept_its_marker(self, look: Look) -> bool:
        """Say whether a look lists it with its marker."""
        return self.marker is not None and any(
            self.marker in (record.refund_reason or "") for record in look.records
        )


class Looks:
    """Makes the look-ups of one recovery.

    Attributes:
        witness: What every refund search must list; where none is known, a search may find one.
        requests: Requests made so far.
    """

    def __init__(self, session: "Session", policy: "RecoveryPolicy") -> None:
        self.witness: Witness | None = None
        self.requests = 0
        self._session = session
        self._policy = policy

    def is_askable(self, name: str) -> bool:
        """Say whether a look-up can ask for a transaction: its name may hold the separator."""
        ref = OrderRef(transaction_id=name)
        return PLANS["query"].check(ref, self._session.dialect) is None

    async def look_up(self, operation: str, names: "Sequence[str]") -> "dict[str, Look]":
        """Look up transactions, a request's worth at a time, each with the witness."""
        parts = [
            names[start : start + _REQUESTED_AT_ONCE]
            for start in range(0, len(names), _REQUESTED_AT_ONCE)
        ]
        looks: dict[str, Look] = {}
        for part in parts:
            looks |= await self._ask(operation, part)
        return looks

    async def _ask(self, operation: str, names: "Sequence[str]") -> "dict[str, Look]":
        """Make one look-up; where its reply had to be split, ask again in halves."""
        witness = self.witness if operation == "refund" else None
        asked = dict.fromkeys([*([witness.transaction_id] if witness else []), *names])
        run = Run(
            self._session,
            LOOK_UPS[operation],
            [OrderRef(transaction_id=name) for name in asked],
            policy=BatchPolicy(concurrency=1, drain_seconds=0),
            recovery=self._policy,
        )
        result = await run.complete()
        self.requests += result.requests
        if len(result.blocks) > 1 and len(names) > 1:
            middle = len(names) // 2
            return {
                **await self._ask(operation, names[:middle]),
                **await self._ask(operation, names[middle:]),
            }
        is_whole = self._is_whole(result)
        looks = {outcome.order.value: _seen(operation, outcome, is_whole) for outcome in result}
        if operation == "refund":
            looks = _completed(looks, witness, is_whole=is_whole)
        if operation == "refund" and self.witness is None:
            self.witness = next((Witness(n) for n, look in looks.items() if look.records), None)
        return looks

    def _is_whole(self, result: "BatchResult[Any, Any]") -> bool:
        """Say whether a look-up's one reply is of success, about nothing else, and not cut."""
        if len(result.blocks) != 1 or result.unexpected or result.unknown:
            return False
        block = result.blocks[0]
        if not isinstance(block, RepliedBlock):
            return False
        operation = block.plan.operation
        listed = decode_json(block.reply).get(operation.list_field or "") or ()
        return block.is_accepted and len(listed) < (operation.limit or 0)


def _seen(operation: str, outcome: "Outcome[Any, Any]", is_whole: bool) -> Look:  # noqa: FBT001  # one caller
    """Make a look of one outcome of a look-up; a query that was not answered shows nothing."""
    if operation != "refund" and outcome.status is not OutcomeStatus.SUCCEEDED:
        return Look(problem=_problem_of(outcome))
    return Look(
        records=outcome.record or (),
        items=outcome.items,
        complete=is_whole,
        problem=_problem_of(outcome),
    )


def _problem_of(outcome: "Outcome[Any, Any]") -> str:
    return "" if outcome.error is None else f"the look-up failed: {outcome.error}"


def _completed(
    looks: "dict[str, Look]", witness: Witness | None, *, is_whole: bool
) -> "dict[str, Look]":
    """Let a refund search prove absences only if it lists the witness."""
    if witness is None or not is_whole:
        problem = _NO_WITNESS if is_whole else ""
        return {
            name: attrs.evolve(look, complete=False, problem=look.problem or problem)
            for name, look in looks.items()
        }
    of_witness = looks[witness.transaction_id]
    return {
        name: attrs.evolve(
            look,
            complete=witness.is_listed(of_witness),
            keeps_markers=witness.kept_its_marker(of_witness),
        )
        for name, look in looks.items()
    }
