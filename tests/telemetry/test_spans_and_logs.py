"""Spans, metrics and the log: a batch and each of its requests, however they end."""

import asyncio
import contextlib
import itertools
import logging
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from gateway_async import BatchPolicy, GatewayClient, OutcomeUnknownError, RecoveryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from gateway_async.telemetry import Telemetry
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, check_conserved, statuses, streamed
from tests.support.clock import PATIENT, Clock
from tests.support.collaborators import Diary, Limiter, raising
from tests.support.interruptions import asked, until
from tests.support.memory import Asked, MemoryTransport, all_done, client_over
from tests.support.orders import (
    AT_ONCE,
    POLICY,
    REFERENCES,
    Make,
    direct_payment,
    make_client,
    orders_for,
    payout_request,
    references,
    refunds,
    seeded,
)
from tests.support.recording import Recorder

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


async def _is_left(scene: Scene) -> None:
    with contextlib.suppress(LookupError):
        async with scene.client.refund(seeded(scene.sandbox, 2)) as batch:
            async for _ in batch:
                raise LookupError


async def _is_a_job(scene: Scene) -> None:
    """It is resumed and recovered; no more than that is told of the second run."""
    scene.sandbox.faults.add("refund", faults.DropReply(times=1))
    with scene.recorder.tracer.start_as_current_span("program") as program:
        job = scene.journal.job("november")
        assert (await scene.client.refund(seeded(scene.sandbox, 2), job=job)).ok
        assert (await scene.client.resume(job)).ok
        assert trace.get_current_span() is program
    assert scene.recorder.counts("outcomes", OPERATION, STATUS) == {("refund", "succeeded"): 2}


SCENES: dict[Act, str] = {
    _is_done: """
        refund batch orders=5 requests=3 retries=0 succeeded=5
          refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund attempts=1 orders=1 sent=1 status_code=200 succeeded=1
        """,
    _is_repeated: """
        query batch orders=1 requests=3 retries=2 succeeded=1
          query attempts=3 orders=1 sent=3 status_code=200 succeeded=1
        """,
    _stops: """
        refund batch orders=4 requests=2 retries=0 unknown=4 ! 4 unknown
          refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 ! OutcomeUnknownError
          refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 ! OutcomeUnknownError
        """,
    _single_calls: """
        pay_direct attempts=1 sent=1 status_code=200
        pay_direct attempts=1 sent=1 type=OutcomeUnknownError ! OutcomeUnknownError
        pay_direct attempts=1 sent=1 type=OutcomeUnknownError ! OutcomeUnknownError
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
    _is_left: """
        refund batch orders=2 requests=1 retries=0 succeeded=2 type=LookupError ! LookupError
          refund attempts=1 orders=2 sent=1 status_code=200 succeeded=2
        """,
    _is_a_job: """
        program
          refund batch name=november orders=2 requests=3 retries=0 succeeded=2
            search_refunds absent=2 attempts=1 orders=2 sent=1 status_code=200
            refund attempts=1 orders=2 sent=1 type=OutcomeUnknownError unknown=2 \
! OutcomeUnknownError
            recover batch orders=2 requests=1 retries=0 succeeded=2
              search_refunds attempts=1 orders=2 sent=1 status_code=200 succeeded=2
          refund batch name=november requests=0 retries=0 succeeded=2
        """,
}


@pytest.mark.parametrize("act", SCENES)
async def test_spans_show_what_happened(scene: Scene, act: Act) -> None:
    await act(scene)
    assert scene.recorder.tree() == textwrap.dedent(SCENES[act]).strip().splitlines()


async def test_the_log_tells_of_batches_requests_and_of_what_is_unknown(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway_async")
    for act in (_is_repeated, _is_done, _stops, _single_calls):
        await act(scene)
        scene.sandbox.faults.clear()
    scene.sandbox.faults.add("refund", faults.MissingItems())
    await scene.client.refund(seeded(scene.sandbox, 2))
    assert Counter(f"{one.levelname} {one.name}" for one in caplog.records) == {
        "INFO gateway_async.batches": 8,  # each begins and ends
        "DEBUG gateway_async.requests": 5,  # each that was answered
        "WARNING gateway_async.requests": 7,  # two are tried again, and five unknown
        "WARNING gateway_async.batches": 1,  # it stops
    }
    assert "refund ended after" in caplog.text
    assert "refund of 2 orders: outcome unknown for 1" in caplog.messages
    assert "look it up with query([OrderRef(order_no='N1')])" in caplog.text
    assert "pay_direct: outcome unknown: " in caplog.text


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
    assert all(point.sum > 0 and point.explicit_bounds[1] < 1 for point in measured.values())


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
    await client_over(answer, telemetry=telemetry, **settings).refund(refunds(1))
    assert [line.split()[0] for line in recorder.tree()] == ["refund", "refund", "waited"]
    assert 40 <= recorder.points("request.duration")[()].sum < 500
    settings["limiter"] = Limiter(enter=raising(LookupError("broke")))
    with pytest.raises(LookupError):
        await client_over(telemetry=telemetry, **settings).recent_refunds()
    expected = "search_refunds attempts=1 sent=0 type=NotSentError ! NotSentError"
    assert recorder.tree()[-1] == expected


@pytest.mark.parametrize("fails_at", [6, 9], ids=["its look-up", "what it sends again"])
async def test_a_recovery_that_fails_says_how_many_requests_it_made(
    sandbox: Sandbox, make: Make, fails_at: int
) -> None:
    """A limiter raises behind one of them; four went before, for the refunds."""
    sandbox.faults.add("refund", faults.ResetBeforeEffect(times=1))
    diary, limiter = Diary(), Limiter(leave=raising(LookupError("broke"), at=fails_at))
    recovery = attrs.evolve(REFERENCES, resend_absent=True)
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    gateway = make(telemetry=diary, limiter=limiter, recovery=recovery, policy=policy)
    lost = await gateway.refund(seeded(sandbox, 2))
    with pytest.raises(LookupError):
        await gateway.recover(lost)
    _, end, *resent = (end for _, end in diary.batches)
    assert end is not None
    assert len(resent) == (fails_at == 9)
    assert (lost.requests, end.requests) == (4, fails_at - 4)
    assert sandbox.requests.total() == fails_at


async def test_a_job_says_what_it_waits_for(
    sandbox: Sandbox, make: Make, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """Here for `settle_seconds`; the command shows that it waits for another process."""
    caplog.set_level(logging.INFO, "gateway_async")
    sandbox.faults.add("refund", faults.Status(status=503, times=1))
    gateway = make(recovery=RecoveryPolicy(settle_seconds=60))
    refund = gateway.refund(seeded(sandbox, 2), job=journal.job("november"))
    task = asyncio.ensure_future(refund)
    await until(lambda: "as settle_seconds says" in caplog.text)
    task.cancel()
    await asyncio.wait({task})
    assert refund.result.requests == sum(sandbox.requests.values()) == 3
    assert "refund job 'november' began: 2 orders" in caplog.messages


# Listeners of one's own: what they break is their own affair


METHODS = sorted(name for name in vars(Telemetry) if not name.startswith("_"))
ERRORS = itertools.cycle([LookupError, asyncio.CancelledError, AssertionError])


@pytest.mark.parametrize(("method", "error"), list(zip(METHODS, ERRORS, strict=False)))
async def test_a_listener_that_breaks_changes_no_outcome(
    caplog: pytest.LogCaptureFixture, method: str, error: type[BaseException]
) -> None:
    def broken(*_: object) -> object:
        raise error("the listener broke")

    def answer(asked: Asked) -> Any:
        return asked.done() if "T000000" not in asked.transactions else b"lost"

    diary: Any = type("Broken", (Diary,), {method: broken})()
    orders, transport = refunds(7), MemoryTransport(answer)
    client = client_over(transport, policy=POLICY, telemetry=diary)
    result = await client.refund(orders)
    check_conserved(result, orders)
    assert statuses(result) == [UNKNOWN] * 2 + [SUCCEEDED] * 5
    assert set(transport.effects.values()) == {1}
    assert statuses(await streamed(client.query(references(7)[1:]))) == [SUCCEEDED] * 6
    transport.handler = all_done
    assert (await client.pay_direct(direct_payment())).order_status == "1"
    (complaint,) = (one for one in caplog.records if one.name == "gateway_async.telemetry")
    assert complaint.levelno == logging.ERROR
    assert complaint.exc_info is not None
    assert complaint.exc_info[0] is error
    # Of what it could not begin, it is not told the end.
    assert all(isinstance(token, int) for token in diary.tokens)
    assert diary.is_closed or method.endswith("_ended")


class _Broken(Telemetry):
    """A listener that gives cause for a complaint in the log."""

    def request_ended(self, *_: object) -> None:
        raise LookupError


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_log_that_breaks_hides_no_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_lost: bool
) -> None:
    """Nor does it keep a batch from its stop, or a look-up from its next attempt."""
    client = client_over(
        lambda asked: b"lost" if is_lost else asked.done(),
        policy=BatchPolicy(concurrency=1, chunk_size=2, stop_after_unknown=1),
        recovery=AT_ONCE,
        telemetry=_Broken(),
    )
    log, full = logging.getLogger("gateway_async"), logging.Handler()
    monkeypatch.setattr(full, "emit", raising(OSError("no space left")))  # as a filter may, too
    monkeypatch.setattr(log, "handlers", [full])
    caplog.set_level(logging.DEBUG, log.name)
    with pytest.raises(OutcomeUnknownError) if is_lost else nullcontext():
        assert (await client.payout(payout_request())).status == "COMPLETED"
    result = await client.refund(refunds(3))
    expected = [UNKNOWN, UNKNOWN, NOT_SENT] if is_lost else [SUCCEEDED] * 3
    assert statuses(result) == statuses(await client.recover(result)) == expected
    assert statuses(await client.query(references(1))) == expected[:1]
