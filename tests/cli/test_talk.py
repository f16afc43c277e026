"""What the library logs reaches people where they must know of it."""

import io
import json
import logging

import pytest
from rich.console import Console

from gateway_async.cli.app import run
from gateway_async.cli.talk import Talk


def test_warnings_are_told_and_what_makes_a_job_wait() -> None:
    told = io.StringIO()
    with Talk(console=Console(file=told)).passing_on_logs():
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
    with Talk(console=Console(file=told, width=200)).passing_on_logs():
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
