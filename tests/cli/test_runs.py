"""A run is driven to its end: everything is seen once, whatever ends it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pytest
from rich.console import Console as RichConsole

from gateway_async.cli.console import Console
from gateway_async.cli.run import RunSummary, Stop, drive, guarded
from gateway_async.cli.tables import STDIO
from gateway_async.errors import ConfigurationError, JobBusyError, JournalError


class Streamed:
    """Yields some, then does as a test says, and has the rest as its result."""

    def __init__(self, end: "BaseException | None" = None, *, begins: bool = True) -> None:
        self._end = end
        self._begins = begins
        self.waiting = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[int]:
        yield 1
        yield 2
        if self._end is not None:
            raise self._end
        self.waiting.set()
        await asyncio.Event().wait()

    @property
    def result(self) -> list[int]:
        if not self._begins:
            raise RuntimeError("no result yet")
        return [3, 4]


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop(Console(rich=RichConsole(quiet=True))) as entered:
        yield entered


async def seen(streamed: Streamed, stop: Stop) -> tuple[list[int], Exception | None]:
    told, summary = list[int](), RunSummary(command="refund")
    try:
        await drive(streamed, told.append, summary, stop=stop, tick=lambda: None)
    except Exception as error:  # noqa: BLE001  # whatever comes is looked at
        return told, error
    return told, summary.failure


@pytest.mark.parametrize("error", [JournalError("the disk is full"), RuntimeError("a defect")])
async def test_what_is_known_is_seen_whatever_ends_it(error: Exception, stop: Stop) -> None:
    assert await seen(Streamed(error), stop) == ([1, 2, 3, 4], error)


async def test_a_run_that_another_process_has_tells_nothing(stop: Stop) -> None:
    error = JobBusyError("another process has it")
    assert await seen(Streamed(error), stop) == ([1, 2], error)


async def test_a_run_that_did_not_begin_says_that_nothing_was_sent(stop: Stop) -> None:
    stop.count = 1
    _, error = await seen(Streamed(begins=False), stop)
    assert isinstance(error, ConfigurationError)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_and_nothing_is_lost(number: signal.Signals, stop: Stop) -> None:
    streamed = Streamed()
    driving = asyncio.ensure_future(seen(streamed, stop))
    await streamed.waiting.wait()
    os.kill(os.getpid(), number)
    assert await driving == ([1, 2, 3, 4], None)
    os.kill(os.getpid(), number)  # what comes later is counted, and ends nothing
    await asyncio.sleep(0)
    assert stop.count == 2


class Draining(Streamed):
    """Waits in the end for what is in flight, which never comes, until it is told not to."""

    async def __aexit__(self, *_: object) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("before", [False, True])
async def test_two_signals_in_one_moment_do_not_wait_for_what_is_in_flight(
    before: bool, stop: Stop
) -> None:
    streamed = Draining()
    if before:
        stop.count = 2
    driving = asyncio.ensure_future(seen(streamed, stop))
    if not before:
        await streamed.waiting.wait()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    done, _ = await asyncio.wait({driving}, timeout=20)
    assert done, "it waits for what is in flight"
    assert await driving == ([1, 2, 3, 4], None)


def test_a_job_from_a_pipe_goes_on_in_its_format() -> None:
    summary = RunSummary(command="refund", source=STDIO, out=STDIO, stdio="jsonl", job="night")
    summary.counts["unknown"] += 1
    summary.advise_on_job(Console(rich=RichConsole(quiet=True)), ())
    assert summary.next_lines == [
        "gateway-async jobs resume night --out - --format jsonl",
        "gateway-async jobs show night",
    ]


def test_an_output_that_nobody_reads_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert guarded(Console(), work) == 3
    assert "ended early: [Errno 32] Broken pipe" in capsys.readouterr().err
