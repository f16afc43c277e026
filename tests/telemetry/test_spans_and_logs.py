"""Spans, metrics and the log: a batch and each of its requests, however they end."""

import asyncio
import logging
import re
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from gateway_async import BatchPolicy, GatewayClient, RecoveryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import client_of, direct_payment, make_client, orders_for, refunds, seeded
from tests.support.clock import PATIENT, Clock
from tests.support.collaborators import Limiter
from tests.support.interruptions import asked, until
from tests.telemetry.recording import Recorder

OPERATION, STATUS = "gateway_async.operation", "gateway_async.outcome.status"
HTTP, ERROR = "http.response.status_code", "error.type"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with Journal.open(f"sqlite:///{tmp_path}/journal.db") as journal:
        yield journal


@attrs.frozen
class Scene:
    """A client with OpenTelemetry, two orders a request, over a sandbox."""

    sandbox: Sandbox
    client: GatewayClient
    recorder: Recorder
    journal: Journal

    async def cancelled(self, call: Awaitable[object], requests: int = 1) -> None:
        """Cancel a call once so many requests have come."""
        before = self.sandbox.requests.total()
        task = asyncio.ensure_future(call)
        await asked(self.sandbox, before + requests)
        active = sum(self.recorder.counts("requests.active", OPERATION).values())
        assert active == requests
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def scene(sandbox: Sandbox, recorder: Recorder, journal: Journal) -> AsyncIterator[Scene]:
    policy = BatchPolicy(concurrency=3, chunk_size=2, drain_seconds=0)
    async with make_client(sandbox, telemetry=recorder.telemetry, policy=policy) as client:
        yield Scene(sandbox, client, recorder, journal)


Act = Callable[[Scene], Awaitable[None]]


async def _is_done(scene: Scene) -> None:
    policy = BatchPolicy(concurrency=1, chunk_size=2)
    await scene.client.refund(seeded(scene.sandbox, 5), policy=policy)


async def _is_repeated(scene: Scene) -> None:
    scene.sandbox.faults.add("query", faults.Status(status=503, times=2))
    await scene.client.query(orders_for("query", scene.sandbox.seed(1)))


async def _stops(scene: Scene) -> None:
    scene.sandbox.faults.add("*", faults.DropReply())
    policy = BatchPolicy(concurrency=1, chunk_size=2, stop_after_unknown=2)
    await scene.client.refund(seeded(scene.sandbox, 4), policy=policy)


async def _single_calls(scene: Scene) -> None:
    calls = [scene.client.pay_direct(direct_payment(f"N{number}")) for number in range(3)]
    await calls[0]
    scene.sandbox.faults.add("*", faults.DropReply(times=1))
    await asyncio.gather(calls[1], return_exceptions=True)
    scene.sandbox.faults.add("*", faults.NoReply())
    await scene.cancelled(calls[2])
    assert {span.kind for span in scene.recorder.spans} == {SpanKind.CLIENT}


async def _is_cancelled(scene: Scene) -> None:
    scene.sandbox.faults.add("*", faults.NoReply())
    policy = BatchPolicy(concurrency=2, chunk_size=1, drain_seconds=0)
    await scene.cancelled(scene.client.refund(seeded(scene.sandbox, 5), policy=policy), 2)


async def _are_streamed_at_the_same_time(scene: Scene) -> None:
    scene.sandbox.faults.add("*", faults.Latency(seconds=0.001))

    async def rows(count: int) -> AsyncIterator[Any]:
        for order in seeded(scene.sandbox, count):
            scene.recorder.tracer.start_span("row").end()
            yield order

    async def within(count: int) -> None:
        name = f"program {count}"
        with scene.recorder.tracer.start_as_current_span(name) as program:
            async with scene.client.refund(rows(count)) as batch:
                async for _ in batch:
                    assert trace.get_current_span() is program
            assert trace.get_current_span() is program

    await asyncio.gather(within(3), within(1))


async def _is_a_job(scene: Scene) -> None:
    """It is resumed and recovered; no more than that is told of the second run."""
    scene.sandbox.faults.add("refund", faults.DropReply(times=1))
    with scene.recorder.tracer.start_as_current_span("program") as program:
        job = scene.journal.job("november")
        assert (await scene.client.refund(seeded(scene.sandbox, 2), job=job)).ok
        assert (await scene.client.resume(job)).ok
        assert trace.get_current_span() is program
    assert scene.recorder.counts("outcomes", OPERATION, STATUS) == {("refund", "succeeded"): 2}


LOST = "the request was sent and its reply was lost: ServerDisconnectedError: Server disconnected"
SCENES: dict[Act, str] = {
    _is_done: """
        refund batch orders=5 requests=3 retries=0 succeeded=5
          refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund attempts=1 orders=1 sent=1 status_code=200 succeeded=1
        INFO batches: refund began: 5 orders
        DEBUG requests: refund of 2 orders: answered (N s)
        DEBUG requests: refund of 2 orders: answered (N s)
        DEBUG requests: refund of 1 order: answered (N s)
        INFO batches: refund ended after N s: 5 succeeded; 3 requests, 0 retries
        """,
    _is_repeated: """
        query batch orders=1 requests=3 retries=2 succeeded=1
          query attempts=3 orders=1 sent=3 status_code=200 succeeded=1
        INFO batches: query began: 1 order
        WARNING requests: query is tried again: the gateway answered HTTP 503
        WARNING requests: query is tried again: the gateway answered HTTP 503
        DEBUG requests: query of 1 order: answered (N s, N s, N s)
        INFO batches: query ended after N s: 1 succeeded; 3 requests, 2 retries
        """,
    _stops: """
        refund batch orders=4 requests=2 retries=0 unknown=4 ! 4 unknown
          refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 ! OutcomeUnknownError
          refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 ! OutcomeUnknownError
        INFO batches: refund began: 4 orders
        WARNING requests: refund of 2 orders: outcome unknown: LOST
        WARNING requests: refund of 2 orders: outcome unknown: LOST
        WARNING batches: refund sends nothing more: 2 earlier requests in a row had no reply \
about their orders (stop_after_unknown), and the batch stopped
        INFO batches: refund ended after N s: 4 unknown; 2 requests, 0 retries
        """,
    _single_calls: """
        pay_direct attempts=1 sent=1 status_code=200
        pay_direct attempts=1 sent=1 type=OutcomeUnknownError ! OutcomeUnknownError
        pay_direct attempts=1 sent=1 type=OutcomeUnknownError ! OutcomeUnknownError
        DEBUG requests: pay_direct: answered (N s)
        WARNING requests: pay_direct: outcome unknown: LOST; the payment of order_no 'N1' may \
have been made: look it up with query([OrderRef(order_no='N1')]), and never send it again before \
you know
        WARNING requests: pay_direct: outcome unknown: the request was sent and given up \
before its reply was read; the payment of order_no 'N2' may have been made: look it up with \
query([OrderRef(order_no='N2')]), and never send it again before you know
        """,
    _is_cancelled: """
        refund batch not_sent=3 orders=5 requests=2 retries=0 type=CancelledError unknown=2 \
! CancelledError
          refund attempts=1 orders=1 sent=1 type=OutcomeUnknownError unknown=1 ! OutcomeUnknownError
          refund attempts=1 orders=1 sent=1 type=OutcomeUnknownError unknown=1 ! OutcomeUnknownError
        """,
    _are_streamed_at_the_same_time: """
        program 3
          refund batch requests=2 retries=0 succeeded=3
            row
            row
            refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
            row
            refund attempts=1 orders=1 sent=1 status_code=200 succeeded=1
        program 1
          refund batch requests=1 retries=0 succeeded=1
            row
            refund attempts=1 orders=1 sent=1 status_code=200 succeeded=1
        """,
    _is_a_job: """
        program
          refund batch name=november orders=2 requests=3 retries=0 succeeded=2
            search_refunds absent=2 attempts=1 orders=2 sent=1 status_code=200
            refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 \
! OutcomeUnknownError
            recover batch requests=1 retries=0 succeeded=2
              search_refunds attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund batch name=november requests=0 retries=0 succeeded=2
        """,
}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the library logged: level, logger, and text without seconds."""
    return [
        f"{one.levelname} {one.name[14:]}: "
        + re.sub(r"\d+(\.\d+)? s\b", "N s", one.getMessage()).replace(LOST, "LOST")
        for one in caplog.records
        if one.name.startswith("gateway_async.")
    ]


@pytest.mark.parametrize("act", SCENES)
async def test_spans_and_the_log_show_what_happened(
    scene: Scene, caplog: pytest.LogCaptureFixture, act: Act
) -> None:
    """Of some scenes, the log stands below the spans."""
    caplog.set_level(logging.DEBUG, "gateway_async")
    await act(scene)
    shown = textwrap.dedent(SCENES[act]).strip().splitlines()
    logged = [line for line in shown if re.match("[A-Z]+ ", line)]
    assert scene.recorder.tree() == shown[: len(shown) - len(logged)]
    assert said(caplog) == (logged or said(caplog))


async def test_spans_and_metrics_name_operation_server_and_outcome(scene: Scene) -> None:
    scene.sandbox.faults.add("refund", faults.DropReply())
    await scene.client.refund(seeded(scene.sandbox, 2))
    await _is_repeated(scene)
    recorder, port = scene.recorder, int(scene.sandbox.base_url.rpartition(":")[2])
    for span in recorder.spans:
        is_batch = span.name.endswith(" batch")
        assert span.kind is (SpanKind.INTERNAL if is_batch else SpanKind.CLIENT)
        shared = {OPERATION: span.name.removesuffix(" batch"), "server.port": port}
        shared |= {"server.address": "127.0.0.1"}
        shared |= {"gateway_async.batch.concurrency": 3} if is_batch else {}
        assert shared.items() <= dict(span.attributes or {}).items()
    assert recorder.counts("outcomes", OPERATION, STATUS) == {
        ("refund", "unknown"): 2,
        ("query", "succeeded"): 1,
    }
    assert recorder.counts("requests", OPERATION, HTTP, ERROR) == {
        ("refund", None, "OutcomeUnknownError"): 1,
        ("query", 200, None): 1,
    }
    assert recorder.counts("retries", OPERATION) == {("query",): 2}
    assert set(recorder.counts("requests.active", OPERATION).values()) == {0}
    measured = recorder.points("request.duration", OPERATION, HTTP, ERROR)
    assert {key: point.count for key, point in measured.items()} == {
        ("refund", None, "OutcomeUnknownError"): 1,
        ("query", 503, "ReplyStatusError"): 2,
        ("query", 200, None): 1,
    }
    assert all(point.sum > 0 for point in measured.values())


async def test_the_turn_of_a_request_is_below_it_and_not_in_its_duration(
    recorder: Recorder, clock: Clock
) -> None:
    def wait(_: int) -> None:
        recorder.tracer.start_span("waited").end()
        clock.advance(500)

    def answer(asked: Asked) -> Any:
        clock.advance(40)
        return asked.done()

    settings: dict[str, Any] = {"limiter": Limiter(enter=wait), "timeouts": PATIENT}
    telemetry = recorder.telemetry
    await client_over(MemoryTransport(answer), telemetry=telemetry, **settings).refund(refunds(1))
    assert [line.split()[0] for line in recorder.tree()] == ["refund", "refund", "waited"]
    assert 40 <= recorder.points("request.duration")[()].sum < 500


async def test_a_job_says_what_it_waits_for(
    sandbox: Sandbox, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancelled_once_it_says(call: Awaitable[object], beginning: str) -> None:
        task = asyncio.ensure_future(call)
        await until(lambda: any(line.startswith(beginning) for line in said(caplog)))
        task.cancel()
        await asyncio.wait({task})

    caplog.set_level(logging.INFO, "gateway_async")
    sandbox.faults.add("refund", faults.Status(status=503, times=1))
    async with client_of(sandbox, recovery=RecoveryPolicy(settle_seconds=60)) as gateway:
        job = journal.job("november")
        await cancelled_once_it_says(
            gateway.refund(seeded(sandbox, 2), job=job),
            "INFO recovery: recovery: 2 unknown so far; the gateway's records are looked at again "
            "in N s, as settle_seconds says",
        )
        assert said(caplog)[0] == "INFO batches: refund job 'november' began: 2 orders"
        lease = await job.take()
        await cancelled_once_it_says(
            gateway.resume(job), "INFO jobs: job 'november' waits N s at most: "
        )
        await lease.release()
    assert sum("recovery: " in line for line in said(caplog)) == 1
