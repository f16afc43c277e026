"""What is cancelled says whether it was sent or done, in whatever turn of the loop that happens.

The simulation cancels batches of every kind, tests/jobs those of a job, over HTTP too, and
tests/secrets cancels by each tool of asyncio's.
"""

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    DirectPaymentResult,
    GatewayClient,
    HmacSigner,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    PayoutResult,
    RecoveryPolicy,
)
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from gateway_async.session import steady_time
from tests.support.books import NOT_SENT, SUCCEEDED, TIMES, UNKNOWN, effects, statuses
from tests.support.collaborators import Limiter
from tests.support.interruptions import until
from tests.support.memory import HeldReplies, MemoryTransport, client_over
from tests.support.orders import (
    AGAIN,
    MARKER,
    POLICY,
    awaited,
    client_at,
    direct_payment,
    make_client,
    payout_request,
    refunds,
    seeded,
)
from tests.support.servers import bind

PAIRS = [(first, first + gap) for gap in (1, 3) for first in range(1, 40, 2)]
"""The turns of a first cancellation and of a second."""
_OF_THE_SANDBOX = ("RequestHandler.", "Server.", "BaseSelectorEventLoop.")
"""What the tasks of the sandbox run, in the same loop."""
CALLS: dict[str, Callable[[Sandbox, int], list[Any]]] = {
    "pay_direct": lambda _, number: [direct_payment(f"P-{number}")],
    "payout": lambda _, number: [payout_request(number)],
    "payouts": lambda _, number: [payout_request(5 * number + one) for one in range(5)],
    "refund": lambda sandbox, _: seeded(sandbox, 5),
}
"""Calls that move money, and what each is given, other than any time before."""
BATCHES = ("payouts", "refund")
STATUSES: dict[type, OutcomeStatus] = {
    NotSentError: NOT_SENT,
    OutcomeUnknownError: UNKNOWN,
    **dict.fromkeys((DirectPaymentResult, PayoutResult, type(None)), SUCCEEDED),
}
"""What the outcome of a single call says; None is that of one that was not cancelled."""


async def interrupted(call: Coroutine[Any, Any, Any], *turns: int) -> tuple[Any, bool]:
    """Cancel a call in these turns; return what it raised, and whether the last one found it."""
    before, was_found = asyncio.all_tasks(), False
    task = asyncio.create_task(call)
    for turn in range(turns[-1] + 1):
        if turn in turns:
            was_found = task.cancel("by the test")
        await asyncio.sleep(0)
    await asyncio.wait({task})
    left = [getattr(one.get_coro(), "__qualname__", "") for one in asyncio.all_tasks() - before]
    assert [name for name in left if not name.startswith(_OF_THE_SANDBOX)] == []
    with pytest.raises(asyncio.CancelledError) if task.cancelled() else nullcontext() as caught:
        task.result()
    return caught.value if caught else None, was_found


@pytest.mark.parametrize("way", [*CALLS, "refund streamed"])
async def test_nothing_is_left_unknown_but_by_a_second_cancellation(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    operation, _, is_streamed = way.partition(" ")
    numbers, seen = itertools.count(), set[OutcomeStatus]()

    async def one(*turns: int) -> bool:
        orders, yielded = CALLS[operation](sandbox, next(numbers)), list[Any]()
        async with make_client(sandbox, recovery=AGAIN) as client:
            call = getattr(client, operation)(orders if operation in BATCHES else orders[0])

            async def stream() -> None:
                async with call as batch:
                    async for outcome in batch:
                        yielded.append(outcome)

            error, was_found = await interrupted(stream() if is_streamed else call, *turns)
        assert type(error) in (asyncio.CancelledError, type(None))
        if operation in BATCHES:
            outcomes = sorted([*yielded, *call.result], key=attrgetter("index"))
            assert [outcome.order for outcome in outcomes] == orders
            assert is_streamed or not error or error.outcome is call.result
            assert call.result.exhausted
            said = statuses(outcomes)
        else:  # it has no outcome where it had not begun
            outcome = getattr(error, "outcome", NotSentError()) if error else None
            said = [STATUSES[type(outcome)]]
            assert hasattr(error, "outcome") == bool(getattr(error, "__notes__", ()))
        for done, status in zip(effects(sandbox, orders), said, strict=True):
            assert done in TIMES[status]
        seen.update(said if turns[0] else ())  # in turn 0, it had not begun
        return was_found

    for turn in itertools.count(1 if is_streamed else 0):  # in its first turn, a stream begins
        if not await one(turn):
            break
    assert seen == {SUCCEEDED, NOT_SENT}
    for turns in PAIRS:
        await one(*turns)
    assert seen == {SUCCEEDED, NOT_SENT, UNKNOWN}
    assert "asyncio" not in {record.name for record in caplog.records}


async def test_a_batch_that_is_closed_sends_no_more() -> None:
    """By a tool that steps coroutines itself; nothing is cancelled, and no caller is left."""
    held = HeldReplies()
    client = held.client(policy=BatchPolicy(chunk_size=1, concurrency=2))
    batch, before = client.refund(refunds(9)), asyncio.all_tasks()
    while batch.send(None) is None:  # noqa: ASYNC110  # it has no future to wait for
        await asyncio.sleep(0)
    await held.asked.wait()
    batch.close()
    held.goes_on.set()
    await asyncio.wait_for(asyncio.wait(asyncio.all_tasks() - before), 120)
    assert len(held.transport.asked) <= 2


async def test_a_single_call_that_is_closed_before_its_turn_is_not_sent() -> None:
    transport, turn = MemoryTransport(), asyncio.Event()
    client = client_over(transport, limiter=Limiter(enter=lambda _: turn.wait()))
    call, before = client.pay_direct(direct_payment()), asyncio.all_tasks()
    call.send(None)
    await asyncio.sleep(0)
    call.close()
    turn.set()
    await asyncio.wait_for(asyncio.wait(asyncio.all_tasks() - before), 120)
    assert transport.asked == []


async def test_a_cancelled_call_is_cancelled_whatever_its_limiter_raises() -> None:
    async def wait(_: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("broke")

    client = client_over(transport := MemoryTransport(), limiter=Limiter(enter=wait))
    error, _ = await interrupted(client.pay_direct(direct_payment()), 3)
    assert isinstance(error, asyncio.CancelledError)
    assert isinstance(error.outcome, NotSentError)  # type: ignore[attr-defined]  # ours
    assert transport.asked == []


@pytest.mark.parametrize(("recovery", "resends"), [(AGAIN, True), (MARKER, False)])
async def test_a_recovery_tells_of_what_it_was_given_and_may_be_repeated(
    sandbox: Sandbox, recovery: RecoveryPolicy, resends: bool
) -> None:
    """Also where it is cut off while it sends again what was never done."""
    fault = faults.ResetBeforeEffect(times=1) if resends else faults.DropReply(times=1)
    policy = attrs.evolve(POLICY, drain_seconds=0)
    recovery, told = attrs.evolve(recovery, resend_absent=resends), list[bool]()
    for turn in itertools.count():
        orders = seeded(sandbox, 4)
        sandbox.faults.add("refund", fault)
        async with make_client(sandbox, recovery=recovery, policy=policy) as client:
            lost, began = await client.refund(orders), steady_time()
            asked = sandbox.requests["refund"]
            error, was_found = await interrupted(client.recover(list(lost)), turn)
            assert isinstance(error, asyncio.CancelledError | None)
            if (came := getattr(error, "outcome", None)) is not None:
                told.append(sandbox.requests["refund"] > asked)
                assert [o.order for o in came] == orders
                assert told[-1] or statuses(came) == statuses(lost)
                each = zip(statuses(came), statuses(lost), strict=True)
                assert all(new in (old, SUCCEEDED) for new, old in each)
                # The next recovery waits for a resend from its end.
                assert not told[-1] or all(o.sending.ended_at >= began for o in came.unknown)
            assert (await client.recover(came or lost)).ok
        assert effects(sandbox, orders) == [1] * 4
        if not was_found:
            break
    assert {*told} == {False, resends}


@pytest.mark.parametrize("name", ["refund batch", *(f"refund worker {n}" for n in range(3))])
async def test_a_task_that_other_code_cancels_keeps_no_other_waiting_and_is_told(name: str) -> None:
    """In any turn: while it pulls the input, waits for another one that does, or for its reply."""
    transport, policy = MemoryTransport(steps=2), BatchPolicy(chunk_size=1, concurrency=3)
    said = set[str]()
    for turns in range(3, 25):
        batch = client_over(transport, policy=policy).refund(awaited(refunds(9)))
        yielded = list[Any]()

        async def stream(batch: Any = batch, yielded: list[Any] = yielded) -> None:
            async with batch:
                yielded += [outcome async for outcome in batch]

        task = asyncio.create_task(stream())
        for _ in range(turns):
            await asyncio.sleep(0)
        for one in asyncio.all_tasks():
            if one.get_name() == name:
                one.cancel()
        await asyncio.wait_for(asyncio.wait({task}), 120)
        if (error := task.exception()) is None:  # what is left was called not sent
            assert len(yielded) == 9
        else:
            said.add(str(error))
    assert len(said) == 1
    assert "other code cancelled a task of the batch" in said.pop()


@pytest.mark.parametrize("turns", range(1, 4))
async def test_a_single_call_of_which_other_code_cancels_the_task_was_not_sent(turns: int) -> None:
    """That task may not have begun yet."""
    before = asyncio.all_tasks()
    caller = asyncio.create_task(client_over(MemoryTransport(steps=2)).payout(payout_request()))
    for _ in range(turns):
        await asyncio.sleep(0)
    for one in asyncio.all_tasks() - before - {caller}:
        one.cancel()
    with pytest.raises(NotSentError):
        await caller


# One client over several event loops

NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    make: NewLoop = pytest.importorskip(request.param).new_event_loop
    return make


@pytest.mark.parametrize("is_entered", [False, True])
def test_a_client_made_before_any_loop_serves_several_and_warns_of_none_that_has_ended(
    new_loop: NewLoop, is_entered: bool
) -> None:
    with bind() as bound:
        port = bound.getsockname()[1]  # it is free now, and again for each sandbox
    client = client_at(f"http://127.0.0.1:{port}", signer=HmacSigner("sandbox-secret"))

    async def work(client: GatewayClient) -> None:
        async with Sandbox(port=port) as sandbox, client if is_entered else nullcontext():
            assert (await client.refund(seeded(sandbox, 6))).ok

    for _ in range(3):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(work(client))
    del client
    gc.collect()  # a warning is an error


async def test_a_client_that_is_left_open_warns(sandbox: Sandbox) -> None:
    client = GatewayClient(sandbox.base_url, sandbox.credentials, dialect=sandbox.dialect)
    await client.pay_direct(direct_payment())
    with pytest.warns(ResourceWarning, match="GatewayClient made here was left open") as warned:
        del client
    assert warned[0].filename == __file__  # where it was made


def test_a_job_that_nobody_left_does_not_keep_its_loop_from_ending(
    new_loop: NewLoop, tmp_path: Path
) -> None:
    async def begin() -> object:
        loop = asyncio.get_running_loop()
        loop.call_later(120, loop.stop)  # else a defect would hang
        journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db").__aenter__()
        client = client_over(recovery=MARKER, policy=BatchPolicy(chunk_size=1))
        batch = client.refund(refunds(120), job=journal.job("job"))
        await anext(await batch.__aenter__())
        await until(lambda: batch.progress.done >= 3)
        return journal, batch

    with asyncio.Runner(loop_factory=new_loop) as runner:
        kept = runner.run(begin())
        tasks = asyncio.all_tasks(runner.get_loop())
        assert tasks
        assert kept
    assert all(task.done() for task in tasks)
