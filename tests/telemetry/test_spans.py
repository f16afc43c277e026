"""Spans: a batch and each of its requests, whole and in the right place however they end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from gateway_async import (
    BatchPolicy,
    GatewayClient,
    InvalidOrderError,
    OutcomeUnknownError,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.sandbox import faults
from tests.cancellation.places import asked
from tests.jobs.books import seeded
from tests.orders import client_of, direct_payment, orders_for, refunds

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from gateway_async.journal import Journal
    from gateway_async.sandbox import Sandbox
    from tests.jobs.books import Make
    from tests.telemetry.recording import Recorder


def _attributes(span: "ReadableSpan") -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_is_a_child_of_its_batch(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    await traced.refund(seeded(sandbox, 5))
    batch = recorder.the("refund batch")
    requests = recorder.children(batch)
    assert batch.parent is None
    assert (batch.kind, batch.status.status_code) == (SpanKind.INTERNAL, StatusCode.UNSET)
    place = urlsplit(sandbox.base_url)
    server = {"server.address": place.hostname, "server.port": place.port}
    operation = {"gateway_async.operation": "refund"}
    assert _attributes(batch) == {
        **operation,
        **server,
        "gateway_async.batch.orders": 5,
        "gateway_async.batch.concurrency": 3,
        "gateway_async.batch.requests": 3,
        "gateway_async.batch.retries": 0,
        "gateway_async.outcomes.succeeded": 5,
    }
    assert sorted(_attributes(span)["gateway_async.request.orders"] for span in requests) == [
        1,
        2,
        2,
    ]
    for span in requests:
        assert (span.name, span.kind) == ("refund", SpanKind.CLIENT)
        assert span.status.status_code is StatusCode.UNSET
        count = _attributes(span)["gateway_async.request.orders"]
        assert _attributes(span) == {
            **operation,
            **server,
            "gateway_async.request.orders": count,
            "gateway_async.request.attempts": 1,
            "gateway_async.request.sent": 1,
            "gateway_async.outcomes.succeeded": count,
            "http.response.status_code": 200,
        }


async def test_batches_at_the_same_time_keep_their_own_requests(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("*", faults.Latency(seconds=0.01, jitter=0.01))

    async def within(number: int) -> None:
        with recorder.tracer.start_as_current_span(f"program {number}"):
            await traced.refund(seeded(sandbox, number))

    await asyncio.gather(*(within(number) for number in (3, 5, 7)))
    for number in (3, 5, 7):
        (batch,) = recorder.children(recorder.the(f"program {number}"))
        counts = [
            _attributes(span)["gateway_async.request.orders"] for span in recorder.children(batch)
        ]
        assert sum(counts) == number


async def test_a_stream_leaves_the_span_of_its_caller_alone(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    with recorder.tracer.start_as_current_span("program") as program:
        async with traced.refund(iter(seeded(sandbox, 5))) as batch:
            async for _ in batch:
                assert trace.get_current_span() is program
        assert trace.get_current_span() is program
    (span,) = recorder.children(recorder.the("program"))
    assert span.name == "refund batch"
    assert "gateway_async.batch.orders" not in _attributes(span)
    assert len(recorder.children(span)) == 3


async def test_what_the_input_does_is_below_the_batch(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    async def rows() -> AsyncIterator[Any]:
        for order in seeded(sandbox, 2):
            with recorder.tracer.start_as_current_span("row"):
                yield order

    await traced.refund(rows())
    names = [span.name for span in recorder.children(recorder.the("refund batch"))]
    assert names.count("row") == 2


async def test_what_happens_on_the_way_is_below_the_request(
    sandbox: "Sandbox", recorder: "Recorder"
) -> None:
    class Limiter:
        async def __aenter__(self) -> None:
            with recorder.tracer.start_as_current_span("waited"):
                pass

        async def __aexit__(self, *_: object) -> None:
            pass

    async with client_of(sandbox, telemetry=recorder.telemetry, limiter=Limiter()) as gateway:
        await gateway.refund(seeded(sandbox, 1))
        await gateway.recent_refunds()
    waited = [recorder.children(span) for span in recorder.spans if span.kind is SpanKind.CLIENT]
    assert [[span.name for span in spans] for spans in waited] == [["waited"], ["waited"]]


@pytest.mark.parametrize("fault", [faults.DropReply(times=1), faults.HtmlErrorPage(times=1)])
async def test_an_unknown_outcome_is_an_error(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder", fault: faults.Fault
) -> None:
    sandbox.faults.add("refund", fault)
    result = await traced.refund(seeded(sandbox, 4))
    assert len(result.unknown) == 2
    batch = recorder.the("refund batch")
    assert batch.status.status_code is StatusCode.ERROR
    assert batch.status.description == "2 unknown"
    assert _attributes(batch)["gateway_async.outcomes.unknown"] == 2
    failed = [
        span for span in recorder.children(batch) if span.status.status_code is StatusCode.ERROR
    ]
    (span,) = failed
    (error,) = {type(outcome.error).__name__ for outcome in result.unknown}
    assert _attributes(span)["error.type"] == error
    assert _attributes(span)["gateway_async.outcomes.unknown"] == 2
    answered = isinstance(fault, faults.HtmlErrorPage)
    assert _attributes(span).get("http.response.status_code") == (502 if answered else None)


async def test_orders_missing_from_a_reply_are_an_error_of_its_request(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("refund", faults.MissingItems(count=1, times=1))
    await traced.refund(seeded(sandbox, 2))
    span = recorder.the("refund")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "1 unknown")
    assert _attributes(span)["gateway_async.outcomes.succeeded"] == 1
    assert "error.type" not in _attributes(span)


async def test_a_declined_order_is_no_error(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    result = await traced.refund(orders_for("refund", sandbox.seed(2, status="authorised")))
    assert len(result.declined) == 2
    assert {span.status.status_code for span in recorder.spans} == {StatusCode.UNSET}
    assert _attributes(recorder.the("refund"))["gateway_async.outcomes.declined"] == 2


async def test_attempts_are_one_span(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("query", faults.Status(status=503, times=2))
    await traced.query(orders_for("query", sandbox.seed(1)))
    span = recorder.the("query")
    assert _attributes(span)["gateway_async.request.attempts"] == 3
    assert _attributes(span)["http.response.status_code"] == 200
    assert span.status.status_code is StatusCode.UNSET
    assert _attributes(recorder.the("query batch"))["gateway_async.batch.retries"] == 2


async def test_nothing_sent_is_an_error(recorder: "Recorder", sandbox: "Sandbox") -> None:
    gateway = client_of(
        sandbox, telemetry=recorder.telemetry, retry=RetryPolicy(attempts=1, first_pause_seconds=0)
    )
    await sandbox.__aexit__(None, None, None)
    async with gateway:
        result = await gateway.refund(refunds(2))
    assert len(result.not_sent) == 2
    assert _attributes(recorder.the("refund"))["error.type"] == "NotSentError"
    assert recorder.the("refund").status.status_code is StatusCode.ERROR
    assert recorder.named("refund batch")[-1].status.description == "2 not_sent"


async def test_single_calls_have_a_span(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    await traced.pay_direct(direct_payment())
    sandbox.faults.add("pay_direct", faults.DropReply(times=1))
    with pytest.raises(OutcomeUnknownError):
        await traced.pay_direct(direct_payment())
    well, lost = recorder.named("pay_direct")
    assert (well.kind, well.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert (well.parent, lost.parent) == (None, None)
    assert lost.status.status_code is StatusCode.ERROR
    assert _attributes(lost)["error.type"] == "OutcomeUnknownError"
    assert "gateway_async.request.orders" not in _attributes(lost)


async def test_a_cancelled_call_says_what_became_of_it(
    sandbox: "Sandbox", recorder: "Recorder"
) -> None:
    sandbox.faults.add("pay_direct", faults.NoReply(times=1))
    policy = BatchPolicy(drain_seconds=0)
    async with client_of(sandbox, telemetry=recorder.telemetry, policy=policy) as gateway:
        paying = asyncio.create_task(gateway.pay_direct(direct_payment()))
        await asked(sandbox)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
    span = recorder.the("pay_direct")
    assert _attributes(span)["error.type"] == "OutcomeUnknownError"
    assert _attributes(span)["gateway_async.request.sent"] == 1


async def test_a_reply_that_comes_while_draining_is_no_error(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("*", faults.Latency(seconds=0.05))
    paying = asyncio.create_task(traced.pay_direct(direct_payment()))
    await asked(sandbox)
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    assert recorder.the("pay_direct").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_batch_ends_its_spans(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder", streamed: bool
) -> None:
    sandbox.faults.add("refund", faults.NoReply())
    policy = BatchPolicy(concurrency=2, chunk_size=1, drain_seconds=0)
    batch = traced.refund(seeded(sandbox, 5), policy=policy)

    async def stream() -> None:
        async with batch:
            async for _ in batch:
                pass

    running = asyncio.create_task(stream() if streamed else batch)
    await asked(sandbox, 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    span = recorder.the("refund batch")
    assert _attributes(span)["error.type"] == "CancelledError"
    assert _attributes(span)["gateway_async.outcomes.unknown"] == 2
    assert _attributes(span)["gateway_async.outcomes.not_sent"] == 3
    assert len(recorder.children(span)) == 2
    assert [sum(recorder.sums("requests.active").values())] == [0]


async def test_a_refused_batch_ends_its_span(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    (order,) = seeded(sandbox, 1)
    with pytest.raises(InvalidOrderError):
        await traced.refund([order, order])
    with pytest.raises(InvalidOrderError):
        async with traced.refund([order, order]):
            pass
    batches = recorder.named("refund batch")
    assert [_attributes(span)["error.type"] for span in batches] == ["DuplicateOrderError"] * 2
    assert len(recorder.spans) == 2


async def test_an_input_that_raises_is_the_error_of_its_batch(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    def rows() -> Iterator[Any]:
        yield from seeded(sandbox, 2)
        raise LookupError("the file ended")

    with pytest.raises(LookupError):
        await traced.refund(rows())
    assert _attributes(recorder.the("refund batch"))["error.type"] == "LookupError"
    assert len(recorder.children(recorder.the("refund batch"))) == 1


async def test_baselines_are_asked_for_below_the_batch(
    sandbox: "Sandbox", recorder: "Recorder"
) -> None:
    recovery = RecoveryPolicy(record_baseline=True)
    async with client_of(sandbox, telemetry=recorder.telemetry, recovery=recovery) as gateway:
        await gateway.refund(seeded(sandbox, 2))
    names = [span.name for span in recorder.children(recorder.the("refund batch"))]
    assert names == ["search_refunds", "refund"]
    assert recorder.named("search_refunds batch") == []
    assert recorder.sums("outcomes", "gateway_async.operation") == {("refund",): 2}


async def test_recovery_has_a_span_with_its_looks(sandbox: "Sandbox", recorder: "Recorder") -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    settings: dict[str, Any] = {
        "recovery": RecoveryPolicy(settle_seconds=0, record_baseline=True),
        "policy": BatchPolicy(chunk_size=2, concurrency=1),
        "timeouts": Timeouts(),
        "telemetry": recorder.telemetry,
    }
    async with client_of(sandbox, **settings) as gateway:
        result = await gateway.refund(seeded(sandbox, 4))
        assert len(result.unknown) == 2
        with recorder.tracer.start_as_current_span("program") as program:
            assert (await gateway.recover(result)).ok
            assert trace.get_current_span() is program
    (span,) = recorder.children(recorder.the("program"))
    assert span.name == "recover batch"
    assert _attributes(span)["gateway_async.outcomes.succeeded"] == 4
    assert _attributes(span)["gateway_async.batch.requests"] == len(recorder.children(span)) == 1
    assert {child.name for child in recorder.children(span)} == {"search_refunds"}


async def test_a_full_reply_is_asked_for_again_below_its_request(
    sandbox: "Sandbox", gateway: GatewayClient, recorder: "Recorder"
) -> None:
    seeded = sandbox.seed(60, status="captured")
    for _ in range(2):
        await gateway.refund(orders_for("refund", seeded))
    async with client_of(sandbox, telemetry=recorder.telemetry) as traced:
        assert (await traced.search_refunds(orders_for("search_refunds", seeded))).ok
    (whole,) = recorder.children(recorder.the("search_refunds batch"))
    halves = recorder.children(whole)
    assert [_attributes(span)["gateway_async.request.orders"] for span in halves] == [30, 30]
    assert not [name for name in _attributes(whole) if name.startswith("gateway_async.outcomes")]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_job_is_a_batch_that_has_a_name(
    sandbox: "Sandbox", make: "Make", journal: "Journal", recorder: "Recorder"
) -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    orders = seeded(sandbox, 4)
    gateway = make(telemetry=recorder.telemetry)
    assert (await gateway.refund(orders, job=journal.job("november"))).ok
    batch = recorder.the("refund batch")
    assert _attributes(batch)["gateway_async.job.name"] == "november"
    assert _attributes(batch)["gateway_async.outcomes.succeeded"] == 4
    below = [span.name for span in recorder.children(batch)]
    assert sorted(below) == ["recover batch", *["refund"] * 2, *["search_refunds"] * 2]
    settled = {("refund", "succeeded"): 4}
    by = "gateway_async.operation", "gateway_async.outcome.status"
    assert recorder.sums("outcomes", *by) == settled
    assert (await make(telemetry=recorder.telemetry).resume(journal.job("november"))).ok
    again = recorder.named("refund batch")[-1]
    assert _attributes(again)["gateway_async.outcomes.succeeded"] == 4
    assert recorder.children(again) == []
    assert recorder.sums("outcomes", *by) == settled
