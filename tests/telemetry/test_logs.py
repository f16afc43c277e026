"""The log: it says what happens as it does, and no more than that."""

import asyncio
import logging
import re
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway_async import BatchPolicy, GatewayClient, RecoveryPolicy, RetryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from tests.orders import client_of, direct_payment, seeded

Call = Callable[[GatewayClient, Sandbox], Awaitable[object]]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the library logged: level, logger, and text without figures of time."""
    return [
        f"{one.levelname} {one.name[14:]}: "
        + re.sub(r"\d+\.\d+ s", "N s", one.getMessage()).replace(LOST, "LOST")
        for one in caplog.records
        if one.name.startswith("gateway_async.")
    ]


def _refund(gateway: GatewayClient, sandbox: Sandbox) -> Awaitable[object]:
    return gateway.refund(seeded(sandbox, 4))


def _query(gateway: GatewayClient, sandbox: Sandbox) -> Awaitable[object]:
    return gateway.query(seeded(sandbox, 1, "query"))


LOST = "the request was sent and its reply was lost: ServerDisconnectedError: Server disconnected"
ROWS: list[tuple[Call, faults.Fault | None, str]] = [
    (
        _refund,
        None,
        """
        INFO batches: refund began: 4 orders
        DEBUG requests: refund of 2 orders: answered (N s)
        DEBUG requests: refund of 2 orders: answered (N s)
        INFO batches: refund ended after N s: 4 succeeded; 2 requests, 0 retries
        """,
    ),
    (
        lambda gateway, sandbox: gateway.refund(iter(seeded(sandbox, 1))),
        faults.MissingItems(),
        """
        INFO batches: refund began: orders as they come
        WARNING requests: refund of 1 order: outcome unknown for 1
        INFO batches: refund ended after N s: 1 unknown; 1 request, 0 retries
        """,
    ),
    (
        _refund,
        faults.DropReply(),
        """
        INFO batches: refund began: 4 orders
        WARNING requests: refund of 2 orders: outcome unknown: LOST
        WARNING requests: refund of 2 orders: outcome unknown: LOST
        WARNING batches: refund sends nothing more: 2 requests in a row had no readable reply \
(stop_after_unknown), the last: LOST
        INFO batches: refund ended after N s: 4 unknown; 2 requests, 0 retries
        """,
    ),
    (  # A look-up does not sound as if money had moved.
        _query,
        faults.DropReply(),
        """
        INFO batches: query began: 1 order
        WARNING requests: query is tried again: LOST
        WARNING requests: query of 1 order: found nothing out: LOST
        INFO batches: query ended after N s: 1 unknown; 2 requests, 1 retries
        """,
    ),
    (
        _query,
        faults.Status(status=503, times=1),
        """
        INFO batches: query began: 1 order
        WARNING requests: query is tried again: the gateway answered HTTP 503
        DEBUG requests: query of 1 order: answered (N s, N s)
        INFO batches: query ended after N s: 1 succeeded; 2 requests, 1 retries
        """,
    ),
    (
        lambda gateway, _: gateway.pay_direct(direct_payment()),
        faults.DropReply(),
        """
        WARNING requests: pay_direct: outcome unknown: LOST; the payment of order_no 'N1' may \
have been made: look it up with query([OrderRef(order_no='N1')]), and never send it again before \
you know
        """,
    ),
]


@pytest.mark.parametrize(("call", "fault", "log"), ROWS)
async def test_the_log_says_what_happens(
    sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
    call: Call,
    fault: faults.Fault | None,
    log: str,
) -> None:
    caplog.set_level(logging.DEBUG, "gateway_async")
    if fault:
        sandbox.faults.add("*", fault)
    settings: dict[str, Any] = {
        "retry": RetryPolicy(attempts=2, first_pause_seconds=0),
        "policy": BatchPolicy(concurrency=1, chunk_size=2, stop_after_unknown=2),
    }
    async with client_of(sandbox, **settings) as gateway:
        await asyncio.gather(call(gateway, sandbox), return_exceptions=True)
    assert said(caplog) == textwrap.dedent(log).strip().splitlines()


async def test_a_job_says_what_it_waits_for(
    sandbox: Sandbox, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancelled_once_it_says(call: Awaitable[object], beginning: str) -> None:
        task = asyncio.ensure_future(call)
        while not any(line.startswith(beginning) for line in said(caplog)):  # noqa: ASYNC110  # a log has no event
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

    caplog.set_level(logging.INFO, "gateway_async")
    sandbox.faults.add("refund", faults.Status(status=503, times=1))
    async with client_of(sandbox, recovery=RecoveryPolicy(settle_seconds=60)) as gateway:
        job = journal.job("november")
        await cancelled_once_it_says(
            gateway.refund(seeded(sandbox, 2), job=job),
            "INFO recovery: recovery: 2 unknown so far; the gateway's records are looked at again "
            "in 60 s, as settle_seconds says",
        )
        assert said(caplog)[0] == "INFO batches: refund job 'november' began: 2 orders"
        lease = await job.take("another process")
        await cancelled_once_it_says(gateway.resume(job), "INFO jobs: job 'november' waits N s: ")
        await lease.release()
    assert sum("recovery: " in line for line in said(caplog)) == 1
