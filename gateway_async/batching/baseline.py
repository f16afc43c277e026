"""The baseline: the refunds that the gateway lists of a chunk's transactions before it is sent.

Recovery goes by their references. One that is like an order of the chunk shows that the order may
be done already, by a run of which neither this process nor its journal knows.
"""

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.alike import (
    NOT_LOOKED_UP,
    find_alike,
    known_references,
    not_looked_up,
    problem_of,
)
from gateway_async.batching.chunks import Chunk, FailedChunk
from gateway_async.batching.results import Results
from gateway_async.batching.sender import Sender
from gateway_async.errors import AlikeRefundError, GatewayError, NotSentError
from gateway_async.models.orders import OrderRef
from gateway_async.operations import SEARCH_REFUNDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.batching.alike import References
    from gateway_async.batching.results import BatchResult
    from gateway_async.batching.sender import Recorder
    from gateway_async.session import Gate, Session


@attrs.define(eq=False, repr=False)
class Baseline:
    """Looks up the earlier refunds of each chunk, and finds the orders that must not be sent.

    Attributes:
        session: The way to the gateway.
        gate: Whether requests may leave.
        results: Where its requests are counted.
        add: Called with the outcomes of orders that must not be sent.
        recorder: Has alike refunds of a job held.
        since: From when on a refund counts as recent, in seconds since the epoch; None if alike
            refunds are made again.
        counts_made: Whether the batch may have several alike refunds of its own.
        senders: Those of the look-ups under way.
    """

    _session: "Session"
    _gate: "Gate"
    _results: Results
    _add: "Callable[[FailedChunk], None]"
    _recorder: "Recorder"
    _since: float | None
    _counts_made: bool
    senders: list[Sender] = attrs.field(factory=list, init=False)
    _made: Counter[int] = attrs.field(factory=Counter, init=False)

    async def look_up(self, chunk: Chunk) -> "tuple[Chunk | None, References, GatewayError | None]":
        """Look up the earlier refunds of a chunk; what must not be sent gets its outcome.

        Returns:
            The orders that may be sent, or None; the references of their earlier refunds, as far
            as they are known; and the gateway's error, where that is why none may be sent.
        """
        references: References = {}
        problem: GatewayError | None = None
        error: GatewayError = NotSentError("nothing was sent: the batch ended before")
        barred = dict.fromkeys(range(len(chunk)), error)
        try:
            result = await self._find_refunds(chunk)
            if (problem := problem_of(result)) is not None:
                barred = dict.fromkeys(barred, NotSentError(f"{NOT_LOOKED_UP} ({problem})"))
            else:
                references = known_references(result)
                barred = await self._find_barred(chunk, result, references)
        finally:  # also if a collaborator raised
            places_of: dict[GatewayError, list[int]] = {}
            for place, why in barred.items():
                places_of.setdefault(why, []).append(place)
            for why, places in places_of.items():
                self._add(chunk.part(places).failed(why))
        if not barred:
            return chunk, references, None
        if len(barred) < len(chunk):
            return chunk.part(set(range(len(chunk))) - {*barred}), references, None
        unread = [why for why in barred.values() if not isinstance(why, AlikeRefundError)]
        return None, references, problem or next(iter(unread), None)

    async def _find_refunds(self, chunk: Chunk) -> "BatchResult[OrderRef, Any]":
        """Look up the refunds of a chunk's transactions."""
        refs = [OrderRef(transaction_id=order.transaction_id) for order in chunk.orders]
        found = Results(SEARCH_REFUNDS.record_class)
        sender = Sender(self._session, SEARCH_REFUNDS, self._gate, found, found.add)
        self.senders.append(sender)
        try:
            await sender.send(Chunk(range(len(refs)), refs), {})
        finally:
            self.senders.remove(sender)
            self._results.requests += found.requests
            self._results.retries += found.retries
        return found.result(exhausted=True)

    async def _find_barred(
        self, chunk: Chunk, result: "BatchResult[OrderRef, Any]", references: "References"
    ) -> dict[int, GatewayError]:
        """Return by place why orders must not be sent; a job has alike refunds held.

        A listed refund bars no order if it is ours. A batch counts what it made (`_made`, by hash:
        of a payment, and of a payment and amount). Where that does not explain all that are listed,
        a job is asked for its other orders (`made_beside`); it leaves out what a person decided on.
        """
        recorder, since = self._recorder, self._since
        barred: dict[int, GatewayError] = {}
        if since is None:
            return barred
        find = functools.partial(
            find_alike, dialect=self._session.dialect, since=since, advice=recorder.alike_advice
        )
        listed = {outcome.order.value: outcome for outcome in result}
        made_beside = None
        for place, (index, order) in enumerate(zip(chunk.indices, chunk.orders, strict=True)):
            outcome = listed[order.transaction_id]
            found = outcome.record or ()
            of_payment = hash(order.transaction_id)
            of_alike = hash((order.transaction_id, order.refund_amount))
            unread = None if order.transaction_id in references else not_looked_up(outcome)
            made = self._made[of_alike]
            error = find(order, found, made=made, others=self._made[of_payment] - made) or unread
            if error is not None and made_beside is None:  # which is rare
                made_beside = await recorder.made_beside(chunk)
            if error is not None and made_beside is not None:
                if index not in made_beside:
                    continue
                own, more = made_beside[index]
                error = find(order, found, own=own, made=more) or unread
            if error is not None:
                barred[place] = error
            elif self._counts_made:
                self._made.update((of_payment, of_alike))
        alike = {n: why for n, why in barred.items() if isinstance(why, AlikeRefundError)}
        if alike:
            await recorder.hold(chunk.part(alike), list(alike.values()))
        return barred
