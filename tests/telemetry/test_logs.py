"""The log: it says what happens as it does, and no more than that."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import BatchPolicy, RecoveryPolicy, RetryPolicy
from gateway_async.sandbox import faults
from tests.jobs.books import seeded
from tests.orders import client_of, orders_for
from tests.secrets.data import direct_payment
from tests.telemetry.recording import Diary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway_async import GatewayClient
    from gateway_async.journal import Journal
    from gateway_async.sandbox import Sandbox
    from tests.jobs.books import Make

    Call = Callable[[GatewayClient, Sandbox], Awaitable[Any]]


def _said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        f"{record.name.removeprefix('gateway_async.')}: {record.getMessage()}"
        for record in caplog.records
        if record.levelno == level and record.name.startswith("gateway_async")
    ]


async def _until_said(caplog: pytest.LogCaptureFixture, beginning: str) -> None:
    while not any(text.startswith(beginning) for text in _said(caplog, logging.INFO)):  # noqa: ASYNC110  # a log has no event
        await asyncio.sleep(0.001)


async def test_a_batch_says_when_it_begins_and_ends(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    async with client_of(sandbox) as gateway:
        await gateway.refund(seeded(sandbox, 3))
        await gateway.refund(iter(seeded(sandbox, 1)))
    began, ended, streamed, _ = _said(caplog, logging.INFO)
    assert began == "batches: refund began: 3 orders"
    assert ended.startswith("batches: refund ended after ")
    assert ended.endswith(" s: 3 succeeded; 1 request, 0 retries")
    assert streamed == "batches: refund began: orders as they come"
    assert _said(caplog, logging.WARNING) == _said(caplog, logging.DEBUG) == []


def _refund(gateway: "GatewayClient", sandbox: "Sandbox") -> "Awaitable[Any]":
    return gateway.refund(seeded(sandbox, 2))


def _query(gateway: "GatewayClient", sandbox: "Sandbox") -> "Awaitable[Any]":
    return gateway.query(orders_for("query", sandbox.seed(1)))


@pytest.mark.parametrize(
    ("call", "fault", "warning"),
    [
        (_refund, faults.DropReply(), "refund of 2 orders: outcome unknown: the request was sent"),
        (_refund, faults.MissingItems(), "refund of 2 orders: outcome unknown for 1"),
        # A look-up does not sound as if money had moved.
        (_query, faults.DropReply(), "query of 1 order: found nothing out: the request was sent"),
        (_query, faults.ReturnStatus(), "query of 1 order: found nothing out about 1"),
        (
            lambda gateway, _: gateway.pay_direct(direct_payment()),
            faults.DropReply(),
            "pay_direct: outcome unknown: ",
        ),
    ],
)
async def test_what_is_not_known_is_a_warning(
    sandbox: "Sandbox",
    caplog: pytest.LogCaptureFixture,
    call: "Call",
    fault: faults.Fault,
    warning: str,
) -> None:
    sandbox.faults.add("*", fault)
    async with client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway:
        await asyncio.gather(call(gateway, sandbox), return_exceptions=True)
    (said,) = _said(caplog, logging.WARNING)
    assert said.startswith(f"requests: {warning}")


async def test_a_batch_that_stops_says_why(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary()
    sandbox.faults.add("refund", faults.DropReply())
    policy = BatchPolicy(chunk_size=1, concurrency=1, stop_after_unknown=2)
    async with client_of(sandbox, policy=policy, telemetry=diary) as gateway:
        await gateway.refund(seeded(sandbox, 4))
    _, _, stops = _said(caplog, logging.WARNING)
    assert stops.startswith("batches: refund sends nothing more: 2 requests in a row")
    ((_, end),) = diary.batches
    assert end is not None
    assert "stop_after_unknown" in (end.stopped or "")
    assert end.error is None


async def test_a_second_try_is_a_warning_and_each_request_is_told_to_those_who_ask(
    sandbox: "Sandbox", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway_async")
    sandbox.faults.add("query", faults.Status(status=503, times=1))
    async with client_of(sandbox) as gateway:
        await _query(gateway, sandbox)
    assert _said(caplog, logging.WARNING) == [
        "requests: query is tried again: the gateway answered HTTP 503"
    ]
    (told,) = _said(caplog, logging.DEBUG)
    assert told.startswith("requests: query of 1 order: answered (")
    assert told.count(" s") == 2


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_job_says_what_it_waits_for(
    sandbox: "Sandbox", make: "Make", journal: "Journal", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    sandbox.faults.add("refund", faults.Status(status=503, times=1))
    gateway = make(recovery=RecoveryPolicy(settle_seconds=60))
    run = asyncio.create_task(gateway.refund(seeded(sandbox, 2), job=journal.job("november")))
    await _until_said(
        caplog,
        "recovery: recovery: 2 unknown so far; the gateway's records are looked at again in 60 s, "
        "as settle_seconds says",
    )
    run.cancel()
    await asyncio.wait({run})
    assert _said(caplog, logging.INFO)[0] == "batches: refund job 'november' began: 2 orders"
    job = journal.job("november")
    lease = await job.take("another process")
    waiting = asyncio.create_task(make().resume(job))
    await _until_said(caplog, "jobs: job 'november' waits ")
    waiting.cancel()
    await asyncio.wait({waiting})
    await lease.release()
    assert sum(text.startswith("recovery: ") for text in _said(caplog, logging.INFO)) == 1
