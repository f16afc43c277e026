"""The log: quiet unless asked, and then saying what happens as it does."""

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway_async import (
    BatchPolicy,
    Credentials,
    GatewayClient,
    HmacSigner,
    OrderRef,
    OutcomeUnknownError,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.sandbox import faults
from tests.jobs.books import seeded
from tests.orders import client_of, direct_payment, orders_for

if TYPE_CHECKING:
    from gateway_async.journal import Journal
    from gateway_async.sandbox import Sandbox
    from tests.jobs.books import Make


def _said(caplog: pytest.LogCaptureFixture, level: int) -> list[tuple[str, str]]:
    return [
        (record.name, record.getMessage())
        for record in caplog.records
        if record.levelno == level and record.name.startswith("gateway_async")
    ]


@pytest.mark.slow
def test_nothing_is_printed_unless_the_program_asks_for_it() -> None:
    script = (
        "import logging, gateway_async\n"
        "logging.getLogger('gateway_async.requests').warning('lost')\n"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # ours
    assert (done.stdout, done.stderr) == ("", "")


async def test_a_batch_says_when_it_begins_and_ends(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    async with client_of(sandbox) as gateway:
        await gateway.refund(seeded(sandbox, 3))
        await gateway.refund(iter(seeded(sandbox, 1)))
    began, ended, streamed, _ = [text for _, text in _said(caplog, logging.INFO)]
    assert began == "refund began: 3 orders"
    assert ended.startswith("refund ended after ")
    assert ended.endswith(" s: 3 succeeded; 1 request, 0 retries")
    assert streamed == "refund began: orders as they come"
    assert _said(caplog, logging.WARNING) == _said(caplog, logging.DEBUG) == []


async def test_what_is_unknown_and_what_stops_is_a_warning(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    policy = BatchPolicy(chunk_size=2, concurrency=1, stop_after_unknown=1)
    async with client_of(sandbox, policy=policy) as gateway:
        await gateway.refund(seeded(sandbox, 4))
        sandbox.faults.add("refund", faults.MissingItems(times=1))
        await gateway.refund(seeded(sandbox, 2))
    lost, stops, missing = _said(caplog, logging.WARNING)
    assert lost[0] == missing[0] == "gateway_async.requests"
    assert lost[1].startswith("refund of 2 orders: outcome unknown: the request was sent")
    assert stops[0] == "gateway_async.batches"
    assert stops[1].startswith("refund sends nothing more: 1 requests in a row")
    assert missing[1] == "refund of 2 orders: outcome unknown for 1"


async def test_a_look_up_that_found_nothing_out_does_not_sound_as_if_money_had_moved(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    orders = seeded(sandbox, 2)
    wrong = Credentials(
        merchant_id=sandbox.merchant_id, account_id=sandbox.account_id, signer=HmacSigner("wrong")
    )
    async with GatewayClient(sandbox.base_url, wrong) as gateway:
        await gateway.query([OrderRef(transaction_id=order.transaction_id) for order in orders])
    (said,) = _said(caplog, logging.WARNING)
    assert said[1] == "query of 2 orders: found nothing out about 2"


async def test_a_lost_payment_is_a_warning(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.faults.add("pay_direct", faults.DropReply(times=1))
    async with client_of(sandbox) as gateway:
        with pytest.raises(OutcomeUnknownError):
            await gateway.pay_direct(direct_payment())
    ((name, text),) = _said(caplog, logging.WARNING)
    assert name == "gateway_async.requests"
    assert text.startswith("pay_direct: outcome unknown: ")


async def test_a_lost_look_up_is_not_told_as_if_money_had_moved(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.faults.add("query", faults.DropReply())
    async with client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway:
        await gateway.query([OrderRef(order_no="ORD-1")])
    texts = [text for name, text in _said(caplog, logging.WARNING) if name.endswith("requests")]
    assert texts[0].startswith("query of 1 order: found nothing out: the request was sent")


async def test_a_second_try_is_a_warning_and_each_request_is_told_to_those_who_ask(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway_async")
    sandbox.faults.add("query", faults.Status(status=503, times=1))
    async with client_of(sandbox) as gateway:
        await gateway.query(orders_for("query", sandbox.seed(1)))
    assert _said(caplog, logging.WARNING) == [
        ("gateway_async.requests", "query is tried again: the gateway answered HTTP 503")
    ]
    ((name, text),) = _said(caplog, logging.DEBUG)
    assert name == "gateway_async.requests"
    assert text.startswith("query of 1 order: answered (")
    assert text.count(" s") == 2


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_job_says_that_it_waits_for_a_lease(
    sandbox: "Sandbox", make: "Make", journal: "Journal", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    job = journal.job("november")
    orders = seeded(sandbox, 1)
    assert (await make().refund(orders, job=job)).ok
    lease = await job.take("another process")
    waiting = asyncio.create_task(make().resume(job))
    while not _said_to_wait(caplog):  # noqa: ASYNC110  # a log has no event
        await asyncio.sleep(0.001)
    waiting.cancel()
    await asyncio.wait({waiting})
    await lease.release()
    assert _said(caplog, logging.INFO)[0] == (
        "gateway_async.batches",
        "refund job 'november' began: 1 order",
    )


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_job_says_once_that_it_waits_before_it_looks_again(
    sandbox: "Sandbox", make: "Make", journal: "Journal", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway_async.recovery")
    sandbox.faults.add("refund", faults.Status(status=503, times=1))
    gateway = make(recovery=RecoveryPolicy(settle_seconds=60))
    run = asyncio.create_task(gateway.refund(seeded(sandbox, 2), job=journal.job("november")))
    while not (said := _said(caplog, logging.INFO)):  # noqa: ASYNC110  # a log has no event
        await asyncio.sleep(0.001)
    run.cancel()
    await asyncio.wait({run})
    ((name, text),) = said
    assert name == "gateway_async.recovery"
    assert text == (
        "recovery: 2 unknown so far; the gateway's records are looked at again in 60 s, "
        "as settle_seconds says"
    )


def _said_to_wait(caplog: pytest.LogCaptureFixture) -> bool:
    return any(
        name == "gateway_async.jobs" and text.startswith("job 'november' waits ")
        for name, text in _said(caplog, logging.INFO)
    )
