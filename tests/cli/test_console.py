"""What is shown while a command works, and a run that is driven to its end."""

import asyncio
import io
import itertools
import logging
import re

import pytest

from gateway_async.cli.console import Console, output, plain_console, progress
from gateway_async.operations import QUERY, REFUND


def told(*, is_quiet: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(is_quiet=is_quiet, rich=plain_console(file)), file


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("[bold]no markup[/bold]", "a, " * 200 + "b", "two\nlines")),
        *((text, text) for text in ("[/x]", "O:smile:1")),
        ("refused\x1b[2J\x9b2J\x07", "refused\\x1b[2J\\x9b2J\\x07"),  # it steers no terminal
    ],
)
def test_texts_are_shown_as_they_are(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console, file = told()
    console.say(text)
    assert file.getvalue() == f"{shown}\n"
    output(text)
    printed = capsys.readouterr().out
    assert shown.split(maxsplit=1)[0] in printed
    assert "\x1b[2J" not in printed


async def test_progress_without_a_terminal_is_a_line_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway_async.cli.console._SECONDS_BETWEEN_FRAMES", 0)
    monkeypatch.setattr("gateway_async.cli.console._FRAMES_BETWEEN_LINES", 3)
    done = itertools.count()
    for is_quiet in (False, True):
        console, file = told(is_quiet=is_quiet)
        with progress(console, "refund", 1000, lambda: ((n := next(done)), {"succeeded": n})):
            for _ in range(10):
                await asyncio.sleep(0)
        lines = file.getvalue().splitlines()
        assert len(lines) == (0 if is_quiet else 3)
        for line in lines:
            assert re.fullmatch(
                r"refund: \d+ of 1,000, [\d,]+\.\d a second, \d+ succeeded, [\d,]+ s left", line
            )


def test_warnings_are_told_once_and_counted_and_so_is_what_makes_a_job_wait() -> None:
    console, file = told()
    requests, jobs = (logging.getLogger(f"gateway_async.{name}") for name in ("requests", "jobs"))
    with console.passing_on_logs():
        for number in range(9):
            requests.warning("chunk %d is unknown", number)
        for operation in (REFUND, QUERY):
            requests.warning("%s failed", operation)
        logging.getLogger("gateway_async.batches").info("refund began")
        jobs.warning("job 'november' waits 14.0 s")
        logging.getLogger("gateway_async.recovery").info("looked at again in 60 s")
    jobs.warning("job 'december' waits 14.0 s")
    assert file.getvalue().splitlines() == [
        "chunk 0 is unknown",
        "refund failed",
        "query failed",  # which is of another kind: it moves no money
        "job 'november' waits 14.0 s",
        "looked at again in 60 s",
        "8 more of these, the last: chunk 8 is unknown",
    ]
