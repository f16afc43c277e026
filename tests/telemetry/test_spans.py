"""Spans and metrics: a batch and each of its requests, in the right place however they end."""

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
)
from gateway_async.sandbox import faults
from tests.cancellation.places import asked
from tests.jobs.books import seeded
from tests.orders import client_of, orders_for, refunds
from tests.secrets.data import direct_payment
from tests.telemetry.recording import Recorder

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from gateway_async.journal import Journal
    from gateway_async.sandbox import Sandbox
    from tests.jobs.books import Make

OPERATION = "gateway_async.operation"
STATUS = "gateway_async.outcome.status"
UNSET, ERROR = StatusCode.UNSET, StatusCode.ERROR


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def traced(sandbox: "Sandbox", recorder: Recorder) -> AsyncIterator[GatewayClient]:
    """A client with OpenTelemetry, two orders a request."""
    policy = BatchPolicy(concurrency=3, chunk_size=2, drain_seconds=0)
    retry = RetryPolicy(first_pause_seconds=0, max_pause_seconds=0)
    settings: dict[str, Any] = {"policy": policy, "retry": retry}
    async with client_of(sandbox, telemetry=recorder.telemetry, **settings) as gateway:
        yield gateway


def _attributes(span: "ReadableSpan") -> dict[str, Any]:
    return {
        name.removeprefix("gateway_async."): value
        for name, value in (span.attributes or {}).items()
    }


async def test_a_request_is_a_child_of_its_batch(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    await traced.refund(seeded(sandbox, 5))
    batch = recorder.the("refund batch")
    requests = recorder.children(batch)
    assert batch.parent is None
    assert (batch.kind, batch.status.status_code) == (SpanKind.INTERNAL, UNSET)
    place = urlsplit(sandbox.base_url)
    shared = {
        "operation": "refund",
        "server.address": place.hostname,
        "server.port": place.port,
    }
    assert _attributes(batch) == {
        **shared,
        "batch.orders": 5,
        "batch.concurrency": 3,
        "batch.requests": 3,
        "batch.retries": 0,
        "outcomes.succeeded": 5,
    }
    counts = [_attributes(span)["request.orders"] for span in requests]
    assert sorted(counts) == [1, 2, 2]
    for span, count in zip(requests, counts, strict=True):
        assert (span.name, span.kind) == ("refund", SpanKind.CLIENT)
        assert span.status.status_code is UNSET
        assert _attributes(span) == {
            **shared,
            "request.orders": count,
            "request.attempts": 1,
            "request.sent": 1,
            "outcomes.succeeded": count,
            "http.response.status_code": 200,
        }


@pytest.mark.parametrize(
    ("operation", "status", "fault", "batch_says", "request_says"),
    [
        (
            *("refund", "captured", faults.DropReply(times=1), "2 unknown"),
            {"error.type": "OutcomeUnknownError", "outcomes.unknown": 2},
        ),
        (
            *("refund", "captured", faults.HtmlErrorPage(times=1), "2 unknown"),
            {"error.type": "ReplyStatusError", "http.response.status_code": 502},
        ),
        (
            *("refund", "captured", faults.MissingItems(count=1, times=1), "1 unknown"),
            {"outcomes.succeeded": 1, "outcomes.unknown": 1},
        ),
        ("refund", "authorised", None, None, {"outcomes.declined": 2}),
        (
            *("query", "authorised", faults.Status(status=503, times=2), None),
            {"request.attempts": 3, "http.response.status_code": 200},
        ),
    ],
)
async def test_a_request_says_how_it_ended(
    sandbox: "Sandbox",
    traced: GatewayClient,
    recorder: Recorder,
    operation: str,
    status: Any,
    fault: faults.Fault | None,
    batch_says: str | None,
    request_says: dict[str, Any],
) -> None:
    if fault is not None:
        sandbox.faults.add(operation, fault)
    await traced.batch(operation, orders_for(operation, sandbox.seed(2, status=status)))
    batch, request = recorder.the(f"{operation} batch"), recorder.the(operation)
    code = UNSET if batch_says is None else ERROR
    assert (batch.status.status_code, batch.status.description) == (code, batch_says)
    assert request.status.status_code is code
    attributes = _attributes(request)
    assert attributes == {**attributes, **request_says}
    assert ("error.type" in attributes) is ("error.type" in request_says)
    assert _attributes(batch)["batch.retries"] == attributes["request.attempts"] - 1
    errors = {(operation, attributes.get("error.type")): 1}
    assert recorder.sums("requests", OPERATION, "error.type") == errors
    outcomes = {
        (operation, name.removeprefix("outcomes.")): count
        for name, count in _attributes(batch).items()
        if name.startswith("outcomes.")
    }
    assert recorder.sums("outcomes", OPERATION, STATUS) == outcomes
    assert sum(outcomes.values()) == 2


async def test_nothing_sent_is_an_error(recorder: Recorder, sandbox: "Sandbox") -> None:
    retry = RetryPolicy(attempts=1)
    async with client_of(sandbox, telemetry=recorder.telemetry, retry=retry) as gateway:
        await sandbox.__aexit__(None, None, None)
        await gateway.refund(refunds(2))
    assert _attributes(recorder.the("refund"))["error.type"] == "NotSentError"
    assert recorder.the("refund").status.status_code is ERROR
    assert recorder.the("refund batch").status.description == "2 not_sent"


async def test_a_single_call_has_a_span_that_says_how_it_ended(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    await traced.pay_direct(direct_payment())
    sandbox.faults.add("pay_direct", faults.DropReply(times=1))
    with pytest.raises(OutcomeUnknownError):
        await traced.pay_direct(direct_payment())
    sandbox.faults.add("pay_direct", faults.NoReply(times=1))
    paying = asyncio.create_task(traced.pay_direct(direct_payment()))
    await asked(sandbox, 3)
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    well, *lost = recorder.named("pay_direct")
    assert (well.kind, well.status.status_code) == (SpanKind.CLIENT, UNSET)
    for span in lost:
        assert span.status.status_code is ERROR
        assert _attributes(span)["error.type"] == "OutcomeUnknownError"
        assert _attributes(span)["request.sent"] == 1
        assert "request.orders" not in _attributes(span)
    assert {span.parent for span in recorder.spans} == {None}


async def test_a_reply_that_comes_while_draining_is_no_error(
    sandbox: "Sandbox", recorder: Recorder
) -> None:
    sandbox.faults.add("*", faults.Latency(seconds=0.05))
    async with client_of(sandbox, telemetry=recorder.telemetry) as gateway:
        paying = asyncio.create_task(gateway.pay_direct(direct_payment()))
        await asked(sandbox)
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
    assert recorder.the("pay_direct").status.status_code is UNSET


async def test_a_cancelled_batch_ends_its_spans(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    sandbox.faults.add("refund", faults.NoReply())
    policy = BatchPolicy(concurrency=2, chunk_size=1, drain_seconds=0)
    running = asyncio.create_task(traced.refund(seeded(sandbox, 5), policy=policy))
    await asked(sandbox, 2)
    assert recorder.sums("requests.active", OPERATION) == {("refund",): 2}
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    span = recorder.the("refund batch")
    assert _attributes(span)["error.type"] == "CancelledError"
    assert _attributes(span)["outcomes.unknown"] == 2
    assert _attributes(span)["outcomes.not_sent"] == 3
    assert len(recorder.children(span)) == 2
    assert recorder.sums("requests.active", OPERATION) == {("refund",): 0}


async def test_a_batch_that_is_refused_or_whose_input_raises_ends_its_span(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    def rows() -> Iterator[Any]:
        yield from orders
        raise LookupError("the file ended")

    orders = seeded(sandbox, 2)
    with pytest.raises(InvalidOrderError):
        await traced.refund(orders * 2)
    with pytest.raises(InvalidOrderError):
        async with traced.refund(orders * 2):
            pass
    with pytest.raises(LookupError):
        await traced.refund(rows())
    batches = recorder.named("refund batch")
    errors = [_attributes(span)["error.type"] for span in batches]
    assert errors == ["DuplicateOrderError", "DuplicateOrderError", "LookupError"]
    assert [len(recorder.children(span)) for span in batches] == [0, 0, 1]


# What is below what


async def test_batches_at_the_same_time_keep_their_own_requests(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    sandbox.faults.add("*", faults.Latency(seconds=0.01, jitter=0.01))

    async def within(number: int) -> None:
        with recorder.tracer.start_as_current_span(f"program {number}"):
            await traced.refund(seeded(sandbox, number))

    await asyncio.gather(*(within(number) for number in (3, 5, 7)))
    for number in (3, 5, 7):
        (batch,) = recorder.children(recorder.the(f"program {number}"))
        requests = recorder.children(batch)
        assert sum(_attributes(span)["request.orders"] for span in requests) == number


async def test_a_stream_leaves_the_span_of_its_caller_alone(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    with recorder.tracer.start_as_current_span("program") as program:
        async with traced.refund(iter(seeded(sandbox, 5))) as batch:
            async for _ in batch:
                assert trace.get_current_span() is program
        assert trace.get_current_span() is program
    (span,) = recorder.children(recorder.the("program"))
    assert span.name == "refund batch"
    assert "batch.orders" not in _attributes(span)
    assert [child.name for child in recorder.children(span)] == ["refund"] * 3


async def test_what_the_input_does_is_below_the_batch(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    async def rows() -> AsyncIterator[Any]:
        for order in seeded(sandbox, 2):
            with recorder.tracer.start_as_current_span("row"):
                yield order

    await traced.refund(rows())
    names = [span.name for span in recorder.children(recorder.the("refund batch"))]
    assert names.count("row") == 2


async def test_the_turn_of_a_request_is_below_it_and_not_in_its_duration(
    sandbox: "Sandbox", recorder: Recorder
) -> None:
    class Limiter:
        async def __aenter__(self) -> None:
            with recorder.tracer.start_as_current_span("waited"):
                await asyncio.sleep(0.2)

        async def __aexit__(self, *_: object) -> None:
            pass

    async with client_of(sandbox, telemetry=recorder.telemetry, limiter=Limiter()) as gateway:
        await gateway.refund(seeded(sandbox, 1))
        await gateway.recent_refunds()
    requests = [span for span in recorder.spans if span.kind is SpanKind.CLIENT]
    waited = [recorder.children(span) for span in requests]
    assert [[span.name for span in spans] for spans in waited] == [["waited"], ["waited"]]
    durations = dict(recorder.points("request.duration", OPERATION))
    span = recorder.the("refund")
    assert span.end_time is not None
    assert span.start_time is not None
    lasted = (span.end_time - span.start_time) / 1e9
    assert 0 < durations["refund",].sum <= lasted - 0.19


async def test_look_ups_of_a_baseline_and_of_a_recovery_are_below_it(
    sandbox: "Sandbox", recorder: Recorder
) -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    settings: dict[str, Any] = {
        "recovery": RecoveryPolicy(settle_seconds=0, record_baseline=True),
        "policy": BatchPolicy(chunk_size=2, concurrency=1),
    }
    async with client_of(sandbox, telemetry=recorder.telemetry, **settings) as gateway:
        result = await gateway.refund(seeded(sandbox, 4))
        names = [span.name for span in recorder.children(recorder.the("refund batch"))]
        assert names == ["search_refunds", "refund"] * 2
        assert recorder.named("search_refunds batch") == []
        assert recorder.sums("outcomes", OPERATION) == {("refund",): 4}
        with recorder.tracer.start_as_current_span("program") as program:
            assert (await gateway.recover(result)).ok
            assert trace.get_current_span() is program
    (span,) = recorder.children(recorder.the("program"))
    assert span.name == "recover batch"
    assert _attributes(span)["outcomes.succeeded"] == 4
    assert _attributes(span)["batch.requests"] == 1
    assert [child.name for child in recorder.children(span)] == ["search_refunds"]


async def test_a_full_reply_is_asked_for_again_below_its_request(
    sandbox: "Sandbox", gateway: GatewayClient, recorder: Recorder
) -> None:
    orders = sandbox.seed(60, status="captured")
    for _ in range(2):
        await gateway.refund(orders_for("refund", orders))
    async with client_of(sandbox, telemetry=recorder.telemetry) as traced:
        assert (await traced.search_refunds(orders_for("search_refunds", orders))).ok
    (whole,) = recorder.children(recorder.the("search_refunds batch"))
    halves = recorder.children(whole)
    assert [_attributes(span)["request.orders"] for span in halves] == [30, 30]
    assert not [name for name in _attributes(whole) if name.startswith("outcomes")]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_job_is_a_batch_that_has_a_name(
    sandbox: "Sandbox", make: "Make", journal: "Journal", recorder: Recorder
) -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    gateway = make(telemetry=recorder.telemetry)
    assert (await gateway.refund(seeded(sandbox, 4), job=journal.job("november"))).ok
    batch = recorder.the("refund batch")
    assert _attributes(batch)["job.name"] == "november"
    assert _attributes(batch)["outcomes.succeeded"] == 4
    below = [span.name for span in recorder.children(batch)]
    assert sorted(below) == ["recover batch", *["refund"] * 2, *["search_refunds"] * 2]
    assert (await make(telemetry=recorder.telemetry).resume(journal.job("november"))).ok
    again = recorder.named("refund batch")[-1]
    assert _attributes(again)["outcomes.succeeded"] == 4
    assert recorder.children(again) == []
    assert recorder.sums("outcomes", OPERATION, STATUS) == {("refund", "succeeded"): 4}


async def test_each_attempt_is_measured_and_all_but_the_first_are_retries(
    sandbox: "Sandbox", traced: GatewayClient, recorder: Recorder
) -> None:
    sandbox.faults.add("query", faults.Status(status=503, times=2))
    await traced.query(orders_for("query", sandbox.seed(1)))
    assert recorder.sums("retries", OPERATION) == {("query",): 2}
    assert recorder.sums("requests", OPERATION, "http.response.status_code") == {("query", 200): 1}
    by = "http.response.status_code", "error.type"
    measured = dict(recorder.points("request.duration", *by))
    counts = {key: point.count for key, point in measured.items()}
    assert counts == {(503, "ReplyStatusError"): 2, (200, None): 1}
    assert all(point.sum > 0 for point in measured.values())
