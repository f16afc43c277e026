"""A batch that is cancelled, wherever it is, knows what became of every order."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from gateway_async import Batch, BatchPolicy, OutcomeStatus, RefundOrder
from tests.cancellation.places import BASELINE, ORDERS, PLACES, InMemory, refs
from tests.cancellation.stepping import Ending, interrupted, pairs, run, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from gateway_async import GatewayClient, Outcome
    from tests.cancellation.places import Place

    Drive = Callable[["Trial", GatewayClient], Coroutine[Any, Any, None]]

SETTLED = {OutcomeStatus.SUCCEEDED, OutcomeStatus.NOT_SENT}


@attrs.define
class Trial:
    """One batch, and what its caller has seen of it."""

    orders: list[RefundOrder]
    batch: Batch[Any, Any] | None = None
    seen: "list[Outcome[Any, Any]]" = attrs.field(factory=list)

    def outcomes(self) -> "list[Outcome[Any, Any]]":
        """Return what became of the orders: none where the batch was never started."""
        try:
            return [*self.seen, *self.batch.result] if self.batch is not None else []
        except RuntimeError:  # it has no result
            return []

    def check(self, ending: Ending) -> None:
        """Check that each order has one outcome, however the batch ended."""
        outcomes = self.outcomes()
        if ending.error is None:
            assert len(outcomes) == ORDERS
            assert {outcome.status for outcome in outcomes} == {OutcomeStatus.SUCCEEDED}
        else:
            assert isinstance(ending.error, asyncio.CancelledError)
            assert ending.given
        if self.batch is not None and outcomes:
            assert sorted(outcome.index for outcome in outcomes) == list(range(ORDERS))
            counted = Counter(outcome.status for outcome in outcomes)
            assert counted == Counter({s: n for s, n in self.batch.result.counts.items() if n})
            assert self.batch.progress.done == ORDERS

    def check_books(self, place: "Place", allowed: set[OutcomeStatus]) -> None:
        """Check the outcomes against what was really done."""
        done = {outcome.index: outcome for outcome in self.outcomes()}
        for index, order in enumerate(self.orders):
            effects = place.effects(order)
            if index not in done:
                assert effects == 0
            elif isinstance(done[index].order, RefundOrder):
                assert done[index].status in allowed
                expected = {OutcomeStatus.SUCCEEDED: {1}, OutcomeStatus.NOT_SENT: {0}}
                assert effects in expected.get(done[index].status, {0, 1})


async def _awaited(trial: Trial, client: "GatewayClient") -> None:
    trial.batch = client.refund(trial.orders)
    await trial.batch


async def _from_a_generator(trial: Trial, client: "GatewayClient") -> None:
    async def orders() -> Any:
        for order in trial.orders:
            await asyncio.sleep(0)
            yield order

    trial.batch = client.refund(orders())
    await trial.batch


async def _streamed(trial: Trial, client: "GatewayClient") -> None:
    trial.batch = client.refund(trial.orders)
    async with trial.batch as batch:
        async for outcome in batch:
            trial.seen.append(outcome)
            await asyncio.sleep(0)


async def _looked_up(trial: Trial, client: "GatewayClient") -> None:
    trial.batch = client.query(refs(trial.orders))
    await trial.batch


async def _in_a_task(trial: Trial, client: "GatewayClient") -> None:
    trial.batch = client.refund(trial.orders)
    await asyncio.create_task(trial.batch)


DRIVES: "dict[str, tuple[Drive, dict[str, Any]]]" = {
    "awaited": (_awaited, {}),
    "awaited with a baseline": (_awaited, {"recovery": BASELINE}),
    "streamed": (_streamed, {}),
    "looked up": (_looked_up, {}),
    "in a task of its own": (_in_a_task, {}),
}


@pytest.mark.parametrize(
    ("place", "drive", "settings"),
    [*((PLACES[1], *row) for row in DRIVES.values()), (PLACES[0], *DRIVES["streamed"])],
)
def test_a_cancellation_in_any_turn_leaves_nothing_unknown(
    place: "Callable[[], AbstractAsyncContextManager[Place]]",
    drive: "Drive",
    settings: dict[str, Any],
) -> None:
    async def main() -> int:
        trials: list[Trial] = []
        async with place() as here:

            async def one(turn: int) -> Ending:
                trial = Trial(here.refunds())
                trials.append(trial)
                async with here.client(**settings) as client:
                    ending = await interrupted(drive(trial, client), (turn,))
                trial.check(ending)
                trial.check_books(here, SETTLED)
                return ending

            turns = await sweep(one)()
        for trial in trials:
            trial.check_books(here, SETTLED)
        return turns

    assert run(main) > 5


def test_a_cancellation_while_the_input_is_pulled() -> None:
    place = PLACES[1]

    async def main() -> int:
        async with place() as here:

            async def one(turn: int) -> Ending:
                trial = Trial(here.refunds())
                async with here.client() as client:
                    ending = await interrupted(_from_a_generator(trial, client), (turn,))
                outcomes = trial.outcomes()
                assert [outcome.index for outcome in outcomes] == list(range(len(outcomes)))
                trial.check_books(here, SETTLED)
                if trial.batch is not None and outcomes:
                    assert not trial.batch.result.exhausted or len(outcomes) == ORDERS
                return ending

            return await sweep(one)()

    assert run(main) > 5


@pytest.mark.parametrize("drive", [_awaited, _streamed, _looked_up])
def test_a_second_cancellation_ends_the_wait_and_nothing_is_lost(drive: "Drive") -> None:
    place = PLACES[1]
    seen: Counter[OutcomeStatus] = Counter()

    async def main() -> int:
        async with place() as here:
            for first, gap in pairs():
                trial = Trial(here.refunds())
                async with here.client() as client:
                    ending = await interrupted(drive(trial, client), (first, first + gap))
                trial.check(ending)
                trial.check_books(here, {*SETTLED, OutcomeStatus.UNKNOWN})
                seen.update(outcome.status for outcome in trial.outcomes())
        return 0

    run(main)
    if drive is not _looked_up:
        assert set(seen) == {*SETTLED, OutcomeStatus.UNKNOWN}


async def test_a_stream_whose_only_worker_was_cancelled_says_that_not_all_was_done() -> None:
    here = InMemory()
    orders = (order for _ in range(500) for order in here.refunds())
    policy = BatchPolicy(chunk_size=2, concurrency=1)
    async with here.client(policy=policy) as client, client.refund(orders) as batch:
        (worker,) = (task for task in asyncio.all_tasks() if "worker" in task.get_name())
        while not here.gateway.effects:  # noqa: ASYNC110  # it has no event for it
            await asyncio.sleep(0)
        worker.cancel()
        with pytest.raises(RuntimeError, match="one of the batch's own tasks was cancelled"):
            async for _ in batch:
                pass
