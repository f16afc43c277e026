"""A payment, payout or page that is cancelled, wherever it is, says what became of it."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import (
    GatewayClient,
    GatewayError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
)
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import BASELINE, PLACES, Loopback, asked, payment
from tests.cancellation.stepping import Ending, interrupted, pairs, run, sweep
from tests.orders import payout_request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from tests.cancellation.places import Place

    Pay = Callable[[GatewayClient, int], Coroutine[Any, Any, object]]
    Books = Callable[[Place, int], int]

_MISSING = object()
SINGLES: "list[tuple[Pay, Books]]" = [
    (
        lambda client, number: client.pay_direct(payment(number)),
        lambda place, number: place.payments(payment(number)),
    ),
    (
        lambda client, number: client.payout(payout_request(number)),
        lambda place, number: place.payouts(payout_request(number)),
    ),
]


def check(ending: Ending, effects: int, *, may_be_unknown: bool = False) -> None:
    """Check what the cancellation says against what was really done."""
    if ending.error is None:
        assert effects == 1
        return
    assert isinstance(ending.error, asyncio.CancelledError)
    assert type(ending.error) is asyncio.CancelledError
    outcome = getattr(ending.error, "outcome", _MISSING)
    if outcome is _MISSING or isinstance(outcome, NotSentError):
        assert effects == 0
    elif isinstance(outcome, OutcomeUnknownError):
        assert may_be_unknown
        assert effects in (0, 1)
    else:
        assert not isinstance(outcome, BaseException)
        assert effects == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("pay", "count"), SINGLES, ids=["payment", "payout"])
def test_a_cancellation_in_any_turn_leaves_nothing_unknown(
    place: "Callable[[], AbstractAsyncContextManager[Place]]", pay: "Pay", count: "Books"
) -> None:
    async def main() -> int:
        endings: dict[int, Ending] = {}
        async with place() as here:

            async def one(turn: int) -> Ending:
                async with here.client() as client:
                    ending = endings[turn] = await interrupted(pay(client, turn), (turn,))
                check(ending, count(here, turn))
                return ending

            turns = await sweep(one)()
        for turn, ending in endings.items():
            check(ending, count(here, turn))
        return turns

    assert run(main) > 5


@pytest.mark.parametrize(
    ("place", "pay", "count"), [(PLACES[0], *SINGLES[0]), (PLACES[1], *SINGLES[1])]
)
def test_a_second_cancellation_ends_the_wait(
    place: "Callable[[], AbstractAsyncContextManager[Place]]", pay: "Pay", count: "Books"
) -> None:
    async def main() -> int:
        endings: dict[int, Ending] = {}
        async with place() as here:
            for number, (first, gap) in enumerate(pairs()):
                async with here.client() as client:
                    turns = (first, first + gap)
                    endings[number] = await interrupted(pay(client, number), turns)
        for number, ending in endings.items():
            check(ending, count(here, number), may_be_unknown=True)
        outcomes = [getattr(ending.error, "outcome", None) for ending in endings.values()]
        return sum(isinstance(outcome, OutcomeUnknownError) for outcome in outcomes)

    assert run(main) > 0


def test_a_page_is_given_up_at_once() -> None:
    async def main() -> int:
        async with Sandbox() as sandbox:
            sandbox.faults.add("query", faults.NoReply())
            for turn in range(20):
                async with Loopback(sandbox).client() as client:
                    ending = await interrupted(client.recent_transactions(), (turn,))
                if not ending.given:
                    return turn
                assert isinstance(ending.error, asyncio.CancelledError)
                outcome = getattr(ending.error, "outcome", None)
                assert outcome is None or isinstance(outcome, GatewayError)
        return 0

    run(main)


def test_a_recovery_can_be_cancelled_in_any_turn() -> None:
    async def main() -> int:
        async with Sandbox() as sandbox:
            here = Loopback(sandbox)
            orders = here.refunds()
            async with here.client(recovery=BASELINE) as client:
                sandbox.faults.add("refund", faults.DropReply(times=1))
                lost = await client.refund(orders)
                assert lost.counts[OutcomeStatus.UNKNOWN]
                before = [here.effects(order) for order in orders]

                async def one(turn: int) -> Ending:
                    ending = await interrupted(client.recover(lost), (turn,))
                    assert isinstance(ending.error, asyncio.CancelledError | None)
                    return ending

                turns = await sweep(one)()
                assert [here.effects(order) for order in orders] == before
                assert (await client.recover(lost)).ok
        return turns

    assert run(main) > 5


@pytest.mark.parametrize("calls", ["payment", "batch"])
def test_a_gateway_that_never_replies_does_not_hold_a_caller_who_insists(calls: str) -> None:
    async def main() -> int:
        async with Sandbox() as sandbox:
            sandbox.faults.add("*", faults.NoReply())
            here = Loopback(sandbox)
            async with here.client() as client:

                async def work() -> None:
                    if calls == "payment":
                        await client.pay_direct(payment(1))
                    await client.refund(here.refunds())

                async def insist() -> BaseException:
                    task = asyncio.create_task(work())
                    await asked(sandbox)
                    while not task.done():
                        task.cancel()
                        await asyncio.sleep(0)
                    with pytest.raises(asyncio.CancelledError) as caught:
                        await task
                    return caught.value

                error = await insist()
        if calls == "payment":
            assert isinstance(getattr(error, "outcome", None), OutcomeUnknownError)
        return 0

    run(main)
