"""What the library logs reaches people where they must know of it."""

import io
import logging

from rich.console import Console

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
