"""Replies that are untidy and can be read all the same: everything succeeds."""

import pytest

from gateway_async.sandbox import faults
from gateway_async.sandbox.faults import Fault
from tests.faults.deeds import SUCCEEDED, Trial


@pytest.mark.parametrize(
    "fault",
    [
        faults.NumbersForText(),
        faults.ByteOrderMark(),
        faults.GzipReply(),
        faults.UnknownFields(),
        faults.ReorderedItems(),
        faults.WrongContentType("text/html"),
        faults.WrongContentType("application/octet-stream"),
        faults.WrongContentType("image/png; charset=nonsense"),
    ],
    ids=repr,
)
async def test_an_untidy_reply_is_read(trial: Trial, fault: Fault) -> None:
    trial.sandbox.faults.add(trial.kind.operation, fault)
    told = await trial.run()
    assert told.status is SUCCEEDED
    assert (trial.requests, trial.effects) == (1, [1] * len(told.statuses))
