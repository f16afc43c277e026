"""One run: the real client over the network in memory, on virtual time, and a caller."""

import asyncio
import contextlib
import math
import random as random_module
import warnings
from collections.abc import AsyncIterator, Generator
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import attrs

from gateway_async import Batch, BatchResult, GatewayClient, Outcome
from tests.simulation.network import TASK, Carried, Network
from tests.simulation.scenario import EPOCH, Scenario, open_gateway
from tests.support.clock import StuckError, VirtualLoop
from tests.support.collaborators import Diary, Limiter
from tests.support.memory import put_transport
from tests.support.orders import as_sent, client_at

_UNTIL_ALL_HAS_LANDED = 1_000_000


class CallerError(Exception):
    """What the caller's iterator or limiter raises, or the caller inside the `async with`."""


@attrs.define(kw_only=True, eq=False)
class Story:
    scenario: Scenario  # what the run was about
    network: Network  # what was sent, and the books of the gateway
    diary: Diary = attrs.field(factory=Diary)  # what the listener heard
    pulled: list[Any] = attrs.field(factory=list)  # what the input gave out, in order
    most_ahead: int = 0  # how many orders were pulled and not yet yielded, at most
    # whether the caller's iterator was begun, and neither ended nor closed
    input_open: bool = False
    yielded: list[Outcome[Any, Any]] = attrs.field(factory=list)  # what was streamed
    result: BatchResult[Any, Any] | None = None  # the batch's result; None where there is none
    error: BaseException | None = None  # what came out of the call, a cancellation included
    disturbed_at: float | None = None  # when the call was cancelled or left, or the input raised
    # whether that was a failure of the input, which a stream notices later
    is_noticed_later: bool = False
    disturbed_again: bool = False  # whether it was cancelled after that
    was_cancelled: bool = False  # whether the caller was cancelled at all
    over_at: float = math.inf  # when the call was over
    sent_by_then: int = 0  # how many requests had been made by then
    # what recovery made of the outcomes; None where there was none
    recovered: BatchResult[Any, Any] | None = None
    running: list[str] = attrs.field(factory=list)  # tasks that still ran then
    # what the loop's exception handler was told, and warnings
    stray: list[str] = attrs.field(factory=list)

    @property
    def outcomes(self) -> list[Outcome[Any, Any]]:
        """What came back, streamed or in the result, in input order."""
        return sorted([*self.yielded, *(self.result or ())], key=lambda outcome: outcome.index)

    @property
    def carried(self) -> list[Carried]:
        """The requests of the call itself, without those of recovery."""
        return self.network.carried[: self.sent_by_then]

    def disturb(self, what: str, at: float | None = None) -> None:
        """Note that the call was disturbed, for the first time or once more."""
        self.network.log(what)
        self.disturbed_again = self.disturbed_at is not None
        if self.disturbed_at is None:
            self.disturbed_at = asyncio.get_running_loop().time() if at is None else at


def run(seed: int) -> Story:
    """Run one seed, on a loop of its own."""
    random, scenario = Random(f"network {seed}"), Scenario(seed)
    network = Network(scenario, open_gateway(scenario, random), random)
    story = Story(scenario=scenario, network=network)
    loop = VirtualLoop()
    loop.set_exception_handler(
        lambda _, context: story.stray.append(f"{context['message']}: {context.get('exception')!r}")
    )
    state = random_module.getstate()
    random_module.seed(seed)  # the jitter of the client's pauses
    clock = SimpleNamespace(time=lambda: EPOCH + loop.time(), monotonic=lambda: math.inf)
    names = SimpleNamespace(uuid4=lambda: UUID(int=random.getrandbits(128), version=4))
    try:
        with (
            mock.patch("gateway_async.session.time", clock),
            mock.patch("gateway_async.batching.batch.time", clock),
            mock.patch("gateway_async.batching.batch.uuid", names),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            loop.run_until_complete(_live(story))
            loop.run_until_complete(loop.shutdown_asyncgens())
    except StuckError as error:
        story.stray.append(f"stuck: {error}")
    finally:
        random_module.setstate(state)
        loop.close()
    story.stray += [str(warning.message) for warning in warned]
    network.trace.append(f"error {story.error!r}")
    outcomes = [*story.yielded, *(story.result or ()), *(story.recovered or ())]
    network.trace += [f"{o.index} {o.status} {as_sent(o.order)} {o.error}" for o in outcomes]
    return story


async def _live(story: Story) -> None:
    """Let the caller live through the run, then wait until everything has landed."""
    loop, scenario = asyncio.get_running_loop(), story.scenario
    names = ("timeouts", "retry", "policy", "recovery", "dialect")
    settings: dict[str, Any] = {name: getattr(scenario, name) for name in names}
    settings["limiter"] = Limiter(leave=partial(_leave, story))
    client = client_at("https://gateway.example", telemetry=story.diary, **settings)
    put_transport(client, story.network)
    task = loop.create_task(_call(story, client), name="caller")
    if scenario.interruption == "cancel":
        loop.call_at(scenario.interrupted_at, _cancel, story, task, scenario.steps)
        if scenario.again_after is not None:
            again_at = scenario.interrupted_at + scenario.again_after
            loop.call_at(again_at, _cancel, story, task, scenario.steps + 1)
    await asyncio.wait({task})
    story.over_at = loop.time()
    story.sent_by_then = len(story.network.carried)
    story.network.log("over")
    others = asyncio.all_tasks() - {asyncio.current_task()}
    story.running = [name for one in others if (name := one.get_name()) != TASK]
    if task.cancelled():
        story.error = story.error or asyncio.CancelledError()
    else:
        task.exception()
    if scenario.recovers and story.result is not None:
        if scenario.calms_down:
            story.network.calm_down()
        story.recovered = await client.recover(story.outcomes)
    await asyncio.sleep(_UNTIL_ALL_HAS_LANDED)
    await client.aclose()


def _leave(story: Story, attempt: int) -> None:
    if attempt == story.scenario.limiter_fails_at and story.over_at == math.inf:
        story.disturb("the limiter fails")
        story.is_noticed_later = True
        raise CallerError


def _cancel(story: Story, task: "asyncio.Task[None]", steps: int) -> None:
    if task.done():
        return
    if steps:
        asyncio.get_running_loop().call_soon(_cancel, story, task, steps - 1)
        return
    story.disturb("cancel")
    story.was_cancelled = True
    task.cancel()


# The caller


async def _call(story: Story, client: GatewayClient) -> None:
    scenario = story.scenario
    timeout_at = scenario.interrupted_at if scenario.interruption == "timeout" else None
    try:
        async with asyncio.timeout(timeout_at):
            batch = getattr(client, scenario.operation)(_input(story))
            try:
                await (_stream(story, batch) if scenario.streamed else batch)
            except asyncio.CancelledError:
                if not story.was_cancelled:
                    story.disturb("timeout", at=timeout_at)
                raise
            finally:
                with contextlib.suppress(RuntimeError):  # where there is none
                    story.result = batch.result
    except BaseException as error:
        story.error = error
        raise


async def _stream(story: Story, batch: Batch[Any, Any]) -> None:
    scenario = story.scenario
    async with batch:
        if scenario.leave_after != 0:
            async for outcome in batch:
                story.yielded.append(outcome)
                if len(story.yielded) == scenario.leave_after:
                    break
                if scenario.pause:
                    await asyncio.sleep(scenario.pause)
            else:
                return
        story.disturb("leave")
        if scenario.raises:
            raise CallerError


# What the caller hands in


def _input(story: Story) -> object:
    if story.scenario.kind == "list":
        story.pulled = list(story.scenario.orders)
        return story.scenario.orders
    is_async = story.scenario.kind == "async"
    return _generate_slowly(story) if is_async else _generate(story)


def _generate(story: Story) -> Generator[object, None, None]:
    story.input_open = True
    try:
        for n, order in enumerate([*story.scenario.orders, None]):
            if n == story.scenario.fails_after:
                story.disturb("the input fails")
                story.is_noticed_later = story.scenario.streamed
                raise CallerError
            if order is not None:
                story.pulled.append(order)
                ahead = len(story.pulled) - len(story.yielded)
                story.most_ahead = max(story.most_ahead, ahead)
                yield order
    finally:
        story.input_open = False


async def _generate_slowly(story: Story) -> AsyncIterator[object]:
    with contextlib.closing(_generate(story)) as orders:
        for order in orders:
            yield order
            if story.scenario.input_pause:
                await asyncio.sleep(story.scenario.input_pause)
