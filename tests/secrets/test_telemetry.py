"""Spans, metrics and what listeners are told hold no secret, whatever the gateway does."""

from typing import TYPE_CHECKING

import pytest

from gateway_async.sandbox import faults
from tests.secrets.driving import OPERATIONS, drive, some
from tests.telemetry.recording import Diary, Recorder

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox
    from tests.secrets.conftest import Opened
    from tests.secrets.dragnet import Dragnet

FAULTS: list[faults.Fault | None] = [
    *(None, faults.DropReply(), faults.HtmlErrorPage(), faults.MissingItems()),
    faults.ReturnStatus(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_spans_and_metrics(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox", fault: faults.Fault | None
) -> None:
    if fault is not None:
        sandbox.faults.add("*", fault)
    recorder = Recorder()
    names = OPERATIONS if fault is None else some(FAULTS.index(fault))
    await drive(net, opened(telemetry=recorder.telemetry), sandbox, tuple(names))
    shown = recorder.shown()
    net.add("telemetry", shown)
    assert {"refund batch", "refund", "pay_direct", "payout"} <= {
        span.name for span in recorder.spans
    }
    orders = list(sandbox.ledger)
    assert orders
    for order in orders:
        assert order.transaction_id not in shown
        assert order.order_no not in shown


async def test_what_listeners_are_told(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    sandbox.faults.add("*", faults.DropReply(probability=0.5))
    sandbox.faults.add("*", faults.UnknownFields())
    diary = Diary()
    await drive(net, opened(telemetry=diary), sandbox)
    assert diary.is_closed
    for told in (*diary.batches, *diary.requests, *diary.settled):
        net.catch_object("told", told, deep=True)
