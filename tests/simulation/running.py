"""One run: the real client over the network in memory, on virtual time, and a caller."""

import asyncio
import contextlib
import itertools
import math
import random as random_module
import warnings
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

import attrs

from gateway_async import Credentials, GatewayClient, HmacSigner
from tests.memory import put_transport
from tests.simulation.clock import StuckError, VirtualLoop
from tests.simulation.drawing import draw, open_network
from tests.simulation.network import EPOCH, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from gateway_async import Batch, BatchResult, Outcome
    from gateway_async.operations import Operation
    from tests.simulation.network import Carried
    from tests.simulation.scenario import Scenario

_UNTIL_ALL_HAS_LANDED = 1_000_000


class InputError(Exception):
    """What the caller's own iterator raises."""


class LimiterError(Exception):
    """What the caller's limiter raises."""


class LeavingError(Exception):
    """What the caller raises inside the `async with`."""


@attrs.define(kw_only=True, eq=False)
class Story:
    """What happened in one run, as the checks want to know it.

    Attributes:
        scenario: What the run was about.
        network: What was sent, and the books of the gateway.
        given: What the input holds.
        pulled: What the input gave out, in order.
        input_open: Whether the caller's iterator was begun, and neither ended nor closed.
        yielded: What was streamed.
        result: The batch's result; None where there is none.
        value: What a single payment returned.
        error: What came out of the call, a cancellation included.
        disturbed_at: When the call was cancelled or left, or a collaborator raised.
        is_noticed_later: Whether that was a failure that is noticed at some time later.
        disturbed_again: Whether it was cancelled after that.
        was_cancelled: Whether the caller was cancelled at all.
        over_at: When the call was over.
        sent_by_then: How many requests had been made by then.
        recovered: What recovery made of the outcomes; None where there was none.
        running: Tasks that still ran then.
        stray: What the loop's exception handler was told, and warnings.
    """

    scenario: "Scenario"
    network: Network
    given: list[Any] = attrs.field(factory=list)
    pulled: list[Any] = attrs.field(factory=list)
    input_open: bool = False
    yielded: "list[Outcome[Any, Any]]" = attrs.field(factory=list)
    result: "BatchResult[Any, Any] | None" = None
    value: object = None
    error: BaseException | None = None
    disturbed_at: float | None = None
    is_noticed_later: bool = False
    disturbed_again: bool = False
    was_cancelled: bool = False
    over_at: float = 0.0
    sent_by_then: int = 0
    recovered: "BatchResult[Any, Any] | None" = None
    running: list[str] = attrs.field(factory=list)
    stray: list[str] = attrs.field(factory=list)

    @property
    def trace(self) -> str:
        """Everything that happened, line by line."""
        return "\n".join(self.network.trace)

    @property
    def outcomes(self) -> "list[Outcome[Any, Any]]":
        """What came back, streamed or in the result, in input order."""
        return sorted([*self.yielded, *(self.result or ())], key=lambda outcome: outcome.index)

    @property
    def carried(self) -> "list[Carried]":
        """The requests of the call itself, without those of recovery."""
        return self.network.carried[: self.sent_by_then]

    def disturb(self, what: str, at: float | None = None) -> None:
        """Note that the call was disturbed, for the first time or once more."""
        self.network.log(what)
        self.disturbed_again = self.disturbed_at is not None
        if self.disturbed_at is None:
            self.disturbed_at = asyncio.get_running_loop().time() if at is None else at

    def fail(self, what: str) -> None:
        """Note that the input or a collaborator raises; a stream is told when it comes to it."""
        self.disturb(what)
        self.is_noticed_later = self.scenario.consumption.streamed


def run(seed: int) -> Story:
    """Run one seed, on a loop of its own."""
    random = Random(f"network {seed}")
    scenario = draw(seed)
    story = Story(scenario=scenario, network=open_network(scenario, random))
    loop = VirtualLoop()
    loop.set_exception_handler(lambda _, context: story.stray.append(_told(context)))
    state = random_module.getstate()
    random_module.seed(seed)  # the jitter of the client's pauses
    clock = SimpleNamespace(time=lambda: EPOCH + loop.time(), monotonic=lambda: math.inf)
    names = SimpleNamespace(uuid4=lambda: UUID(int=random.getrandbits(128), version=4))
    try:
        with (
            mock.patch("gateway_async.session.time", clock),
            mock.patch("gateway_async.batching.runner.time", clock),
            mock.patch("gateway_async.batching.runner.uuid", names),
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
    _write_down(story)
    return story


def _told(context: "Mapping[str, Any]") -> str:
    return f"{context['message']}: {context.get('exception')!r}"


def _write_down(story: Story) -> None:
    """Add what came of it to the trace."""
    trace = story.network.trace
    trace.append(f"value {story.value!r}, error {story.error!r}")
    outcomes = [*story.yielded, *(story.result or ()), *(story.recovered or ())]
    trace += [f"{o.index} {o.status} {story.scenario.name(o.order)} {o.error}" for o in outcomes]


async def _live(story: Story) -> None:
    """Let the caller live through the run, then wait until everything has landed."""
    loop = asyncio.get_running_loop()
    client = _client(story)
    task = loop.create_task(_call(story, client), name="caller")
    _plan_cancellation(story, task)
    await asyncio.wait({task})
    story.over_at = loop.time()
    story.sent_by_then = len(story.network.carried)
    story.network.log("over")
    story.running = [one.get_name() for one in asyncio.all_tasks() - {asyncio.current_task()}]
    if task.cancelled():
        story.error = story.error or asyncio.CancelledError()
    else:
        task.exception()
    if story.scenario.recovers and story.result is not None:
        await _recover(story, client)
    await asyncio.sleep(_UNTIL_ALL_HAS_LANDED)
    await client.aclose()


async def _recover(story: Story, client: GatewayClient) -> None:
    if story.scenario.calms_down:
        story.network.calm_down()
    with contextlib.suppress(LimiterError):
        story.recovered = await client.recover(story.outcomes)


def _plan_cancellation(story: Story, task: "asyncio.Task[None]") -> None:
    loop = asyncio.get_running_loop()
    interruption = story.scenario.interruption

    def cancel(steps: int) -> None:
        if task.done():
            return
        if steps:
            loop.call_soon(cancel, steps - 1)
            return
        story.disturb("cancel")
        story.was_cancelled = True
        task.cancel()

    if interruption.kind == "cancel":
        loop.call_at(interruption.at, cancel, interruption.steps)
        if interruption.again_after is not None:
            loop.call_at(interruption.at + interruption.again_after, cancel, interruption.steps + 1)


# The caller


async def _call(story: Story, client: GatewayClient) -> None:
    """Make the call, and keep what comes of it."""
    scenario = story.scenario
    is_timed = scenario.interruption.kind == "timeout"
    consume = _consume_batch if scenario.is_batch else _consume_single
    try:
        async with asyncio.timeout(scenario.interruption.at if is_timed else None):
            try:
                await consume(story, client)
            except asyncio.CancelledError:
                if not story.was_cancelled:
                    story.disturb("timeout", at=scenario.interruption.at)
                raise
    except BaseException as error:
        story.error = error
        raise


async def _consume_single(story: Story, client: GatewayClient) -> None:
    method = getattr(client, story.scenario.operation)
    story.value = await method(story.scenario.orders[0])


async def _consume_batch(story: Story, client: GatewayClient) -> None:
    batch = getattr(client, story.scenario.operation)(_input(story))
    try:
        if story.scenario.consumption.streamed:
            await _stream(story, batch)
        else:
            await batch
    finally:
        with contextlib.suppress(RuntimeError):  # where there is none
            story.result = batch.result


async def _stream(story: Story, batch: "Batch[Any, Any]") -> None:
    consumption = story.scenario.consumption
    async with batch:
        if consumption.leave_after == 0:
            _leave(story)
            return
        async for outcome in batch:
            story.yielded.append(outcome)
            if len(story.yielded) == consumption.leave_after:
                _leave(story)
                return
            if consumption.pause:
                await asyncio.sleep(consumption.pause)


def _leave(story: Story) -> None:
    story.disturb("leave")
    if story.scenario.consumption.raises:
        raise LeavingError


# What the caller hands in


def _input(story: Story) -> object:
    """Return the orders in the form that the scenario asks for."""
    source = story.scenario.source
    story.given = [
        f"no order {n}" if n in source.bad else order
        for n, order in enumerate(story.scenario.orders)
    ]
    if source.kind == "list":
        story.pulled = list(story.given)
        return story.given
    return _generate(story) if source.kind == "generator" else _generate_slowly(story)


def _generate(story: Story) -> "Iterator[object]":
    story.input_open = True
    try:
        for n, order in enumerate(story.given):
            _fail_at(story, n)
            story.pulled.append(order)
            yield order
        _fail_at(story, len(story.given))
    finally:
        story.input_open = False


async def _generate_slowly(story: Story) -> "AsyncIterator[object]":
    story.input_open = True
    try:
        for n, order in enumerate(story.given):
            _fail_at(story, n)
            if story.scenario.source.pause:
                await asyncio.sleep(story.scenario.source.pause)
            story.pulled.append(order)
            yield order
        _fail_at(story, len(story.given))
    finally:
        story.input_open = False


def _fail_at(story: Story, n: int) -> None:
    if n == story.scenario.source.fails_after:
        story.fail("the input fails")
        raise InputError


def _client(story: Story) -> GatewayClient:
    """Make a client whose messages go over the network in memory."""
    scenario = story.scenario
    client = GatewayClient(
        "https://gateway.example",
        Credentials(merchant_id="M", account_id="A", signer=_Signer(scenario.signer_fails_at)),
        timeouts=scenario.timeouts,
        retry=scenario.retry,
        policy=scenario.policy,
        recovery=scenario.recovery,
        dialect=scenario.dialect,
        limiter=_Limiter(story),
    )
    put_transport(client, story.network)
    return client


class _Signer:
    """Signs, and raises at one of its calls."""

    def __init__(self, fails_at: int | None) -> None:
        self._fails_at = fails_at
        self._calls = itertools.count(1)
        self._signer = HmacSigner("secret")

    def sign(self, operation: "Operation", fields: "Mapping[str, str]") -> str:
        if next(self._calls) == self._fails_at:
            raise ValueError("the key is locked")
        return self._signer.sign(operation, fields)


class _Limiter:
    """Lets few through at a time, or everybody, and raises at one of its calls."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._calls = itertools.count(1)
        self._places = asyncio.Semaphore(story.scenario.limit or 1000)

    async def __aenter__(self) -> None:
        if next(self._calls) == self._story.scenario.limiter_fails_at:
            self._story.fail("the limiter fails")
            raise LimiterError
        await self._places.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._places.release()
