"""What is shown while a command works, by a clock that a test sets."""

import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console as RichConsole

from gateway_async.cli.app import run
from gateway_async.cli.console import (
    SECONDS_BETWEEN_LINES,
    Console,
    Gauge,
    standard_output,
    summary_table,
)


class Clock:
    """Goes as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def console(*, is_json: bool = False) -> tuple[Console, Callable[[], list[str]]]:
    file = io.StringIO()
    console = RichConsole(file=file, width=200)
    return Console(is_json=is_json, rich=console), lambda: file.getvalue().splitlines()


def gauged(told: Console, clock: Clock, total: int | None = 1000) -> Gauge:
    return Gauge(told, "refund", total, clock)


def test_without_a_terminal_a_line_comes_every_few_seconds() -> None:
    told, lines = console()
    clock = Clock()
    gauge = gauged(told, clock)
    for number in range(99):
        clock.now += 0.125
        gauge.advance("unknown" if number % 10 == 0 else "succeeded")
    assert lines() == [
        "refund: 40 of 1,000, 8/s, 120 s left, 36 succeeded, 4 unknown",
        "refund: 80 of 1,000, 8/s, 115 s left, 72 succeeded, 8 unknown",
    ]


def test_a_line_comes_also_where_nothing_happens() -> None:
    told, lines = console()
    clock = Clock()
    gauge = gauged(told, clock)
    for _ in range(11):
        clock.now += 1.0
        gauge.tick()
    assert lines() == ["refund: 0 of 1,000, 0/s"] * 2


def test_how_long_it_takes_is_said_only_while_it_comes_on() -> None:
    """A run that waits for the settle time would else say for a minute that it is almost done."""
    told, lines = console()
    clock = Clock()
    gauge = gauged(told, clock)
    for _ in range(2):
        clock.now += 5.0
        gauge.reach(900)
    assert lines() == ["refund: 900 of 1,000, 180/s, 1 s left", "refund: 900 of 1,000, 90/s"]


def test_lines_can_be_json() -> None:
    told, lines = console(is_json=True)
    clock = Clock()
    gauge = gauged(told, clock, total=None)
    gauge.advance("declined")
    clock.now += SECONDS_BETWEEN_LINES
    gauge.tick()
    (line,) = map(json.loads, lines())
    assert line["event"] == "progress"
    assert (line["done"], line["total"], line["rate"]) == (1, None, 0.2)
    assert line["counts"] == {"declined": 1}


@pytest.mark.parametrize("text", ["[bold]no markup[/bold]", "a, " * 200 + "b", "line\nline"])
def test_what_is_said_is_not_changed(text: str) -> None:
    told, lines = console()
    told.tell("event", text)
    assert "\n".join(lines()) == text
    told, lines = console(is_json=True)
    told.tell("event", text, amount=1)
    (line,) = lines()
    found: dict[str, Any] = json.loads(line)
    assert (found["event"], found["message"], found["amount"]) == ("event", text, 1)


@pytest.mark.parametrize("text", ["[/x]", "[red]A[/red]", "O:smile:1"])
def test_what_tables_show_is_not_changed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = summary_table([(text, {"succeeded": 1}, 1, 0, 0.1)])
    standard_output().print(table)
    Console().show("summary", table)
    out, err = capsys.readouterr()
    assert text in out
    assert text in err


def test_nothing_is_lost_because_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Gone(io.StringIO):
        def write(self, _: str, /) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", _Gone())
    for is_json in (True, False):
        Console(is_json=is_json).warn("nobody hears this")


def test_warnings_are_told_and_what_makes_a_job_wait() -> None:
    told = io.StringIO()
    with Console(rich=RichConsole(file=told)).passing_on_logs():
        logging.getLogger("gateway_async.requests").warning("refund may have happened")
        logging.getLogger("gateway_async.batches").info("refund began")
        logging.getLogger("gateway_async.jobs").info("job 'november' waits 14.0 s")
        logging.getLogger("gateway_async.recovery").info("looked at again in 60 s")
    logging.getLogger("gateway_async.jobs").info("job 'december' waits 14.0 s")
    assert told.getvalue().splitlines() == [
        "refund may have happened",
        "job 'november' waits 14.0 s",
        "looked at again in 60 s",
    ]


def test_alike_warnings_are_one_line_with_a_count() -> None:
    told = io.StringIO()
    with Console(rich=RichConsole(file=told, width=200)).passing_on_logs():
        for number in range(9):
            logging.getLogger("gateway_async.requests").warning("chunk %d is unknown", number)
        logging.getLogger("gateway_async.requests").warning("another")
    assert told.getvalue().splitlines() == [
        "chunk 0 is unknown",
        "another",
        "8 more of these, the last: chunk 8 is unknown",
    ]


@pytest.mark.parametrize("option", [["--log-format", "json"], ["--log-format=json"]])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["query", "orders.csv", "--rate", "fast"], 'unable to convert "fast" into float'),
        (["query", "orders.csv", "--bogus"], "--bogus"),
        (["nothing-like-it"], "Unknown command"),
        (["refund", "--dryrun", "orders.csv", "--yes"], "--dryrun is no option of this command"),
        (
            ["refund", "orders.csv", "--yes", "--out", "--dry-run"],
            "stands where a file is expected",
        ),
    ],
)
def test_a_line_that_is_wrong_is_told_as_it_asks(
    option: list[str], line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*line, *option]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["event"] == "error"
    assert said in told["message"]
