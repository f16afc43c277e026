"""A run is driven to its end: everything is seen once, whatever ends it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest
from rich.console import Console

from gateway_async.cli.commands.common import Results, guarded, see_through
from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.outfile import Existing, _put_in_place, out_file
from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.runs import drive
from gateway_async.cli.stopping import Stop
from gateway_async.cli.talk import Talk
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
    with Stop(Talk(console=Console(quiet=True))) as entered:
        yield entered


async def seen(streamed: Streamed, stop: Stop) -> tuple[list[int], Exception | None]:
    told: list[int] = []
    try:
        failure: Any = await drive(streamed, told.append, stop=stop, tick=lambda: None)
    except Exception as error:  # noqa: BLE001  # whatever comes is looked at
        return told, error
    return told, failure


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


@pytest.mark.parametrize("error", [JournalError("the disk is full"), RuntimeError("a defect")])
def test_what_is_known_is_written_whatever_ended_it(error: Exception) -> None:
    results, written = Results(layout=LAYOUTS["refund"]), list[str]()

    def fail() -> None:
        results.tally.counts["succeeded"] += 1
        raise error

    with contextlib.suppress(RuntimeError):
        see_through(fail, results, lambda: written.append("written"))
        assert results.tally.failure is error
        assert results.tally.exit_code == 3
    assert written == ["written"]


def test_what_did_not_begin_is_raised_and_nothing_is_written() -> None:
    results = Results(layout=LAYOUTS["refund"])

    def fail() -> None:
        raise ConfigurationError("wrong")

    with pytest.raises(ConfigurationError):
        see_through(fail, results, lambda: pytest.fail("it was written"))


def test_outcomes_that_cannot_be_put_in_place_stay_where_they_are(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    with out_file(path, Format.CSV, existing=Existing.SET_ASIDE, warn=warnings.append) as out:
        out.write_all(["order_no"], lambda: [{"order_no": "O1"}])
        (path / "in the way").mkdir(parents=True)
    (warning,) = warnings
    assert "cannot be put in place" in warning
    assert Path(warning.rpartition(" ")[2]).read_text() == "order_no\nO1\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_of_files_that_are_put_in_place_at_once_none_is_lost(
    tmp_path: Path, *, is_there: bool
) -> None:
    path, names = tmp_path / "out.csv", [f"run {number}" for number in range(8)]
    if is_there:
        path.write_text("an earlier run")
    for name in names:
        (tmp_path / name).write_text(name)
    with ThreadPoolExecutor(len(names)) as threads:
        puts = [threads.submit(_put_in_place, tmp_path / n, path, lambda _: None) for n in names]
    assert all(put.result() for put in puts)
    found = sorted(each.read_text() for each in tmp_path.iterdir())
    assert found == sorted([*names, *(["an earlier run"] if is_there else [])])


def test_an_output_that_nobody_reads_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert guarded(Talk(), work) == 3
    assert "ended early: [Errno 32] Broken pipe" in capsys.readouterr().err
