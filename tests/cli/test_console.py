"""What is shown while a command works, and a run that is driven to its end."""

import asyncio
import io
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Self

import pytest
from rich.console import Console as RichConsole

from gateway_async.cli.console import Console, Gauge, plain_console, standard_output, summary_table
from gateway_async.cli.run import Run, Stop, drive
from gateway_async.errors import ConfigurationError, JobBusyError, JournalError


def told() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(rich=plain_console(file, 200)), file


class Clock:
    """Goes as a test says."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def progress(steps: list[tuple[float, int]]) -> list[str]:
    """Return the lines of a gauge that reaches so many orders, each after some seconds."""
    console, file = told()
    clock = Clock()
    gauge = Gauge(console, "refund", 1000, clock)
    gauge.counts.update(succeeded=36, unknown=4)
    for seconds, done in steps:
        clock.now += seconds
        gauge.reach(done)
    return file.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_every_few_seconds() -> None:
    counts = "36 succeeded, 4 unknown"
    assert progress([(1.0, number + 1) for number in range(11)]) == [
        f"refund: 5 of 1,000, 1/s, {counts}",
        f"refund: 10 of 1,000, 1/s, {counts}",
    ]


@pytest.mark.parametrize(
    "text", ["[bold]no markup[/bold]", "a, " * 200 + "b", "line\nline", "[/x]", "O:smile:1"]
)
def test_what_is_said_is_not_changed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    console, file = told()
    console.say(text)
    assert file.getvalue() == f"{text}\n"
    table = summary_table([(text, {"succeeded": 1}, 1, 0, 0.1)])
    standard_output().print(table)
    Console().rich.print(table)
    for shown in capsys.readouterr():
        assert text.split(maxsplit=1)[0] in shown


def test_nothing_is_lost_because_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Gone(io.StringIO):
        def write(self, _: str, /) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", _Gone())
    Console().warn("nobody hears this")


def test_warnings_are_told_once_and_counted_and_so_is_what_makes_a_job_wait() -> None:
    console, file = told()
    requests, jobs = (logging.getLogger(f"gateway_async.{name}") for name in ("requests", "jobs"))
    with console.passing_on_logs():
        for number in range(9):
            requests.warning("chunk %d is unknown", number)
        logging.getLogger("gateway_async.batches").info("refund began")
        jobs.info("job 'november' waits 14.0 s")
        logging.getLogger("gateway_async.recovery").info("looked at again in 60 s")
    jobs.info("job 'december' waits 14.0 s")
    assert file.getvalue().splitlines() == [
        "chunk 0 is unknown",
        "job 'november' waits 14.0 s",
        "looked at again in 60 s",
        "8 more of these, the last: chunk 8 is unknown",
    ]


# Driving


class Streamed:
    """Yields some, then does as a test says, and has the rest as its result."""

    def __init__(
        self, end: "BaseException | None" = None, *, begins: bool = True, drains: bool = False
    ) -> None:
        self._end = end
        self._begins = begins
        self._drains = drains
        self.waiting = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drains:  # what is in flight never comes
            await asyncio.Event().wait()

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
    told, summary = list[int](), Run(command="refund")
    try:
        await drive(streamed, told.append, summary, stop=stop, tick=lambda: None)
    except Exception as error:  # noqa: BLE001  # whatever comes is looked at
        return told, error
    return told, summary.failure


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (JournalError("the disk is full"), [1, 2, 3, 4]),
        (RuntimeError("a defect"), [1, 2, 3, 4]),
        (JobBusyError("another process has it"), [1, 2]),
    ],
)
async def test_what_is_known_is_seen_whatever_ends_it(
    error: Exception, known: list[int], stop: Stop
) -> None:
    assert await seen(Streamed(error), stop) == (known, error)


async def test_a_run_that_did_not_begin_says_that_nothing_was_sent(stop: Stop) -> None:
    stop.count = 1
    _, error = await seen(Streamed(begins=False), stop)
    assert isinstance(error, ConfigurationError)


@pytest.mark.parametrize("before", [False, True])
async def test_two_signals_in_one_moment_do_not_wait_for_what_is_in_flight(
    before: bool, stop: Stop
) -> None:
    streamed = Streamed(drains=True)
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
