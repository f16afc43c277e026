"""Metrics: they add up to what the results say."""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway_async import BatchPolicy, GatewayClient, OutcomeStatus
from gateway_async.sandbox import faults
from tests.cancellation.places import asked
from tests.orders import client_of, orders_for

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox
    from tests.telemetry.recording import Recorder

OPERATION = "gateway_async.operation"
STATUS = "gateway_async.outcome.status"


def _refunds(sandbox: "Sandbox", count: int) -> list[Any]:
    return orders_for("refund", sandbox.seed(count, status="captured"))


async def test_outcomes_are_those_of_the_result(sandbox: "Sandbox", recorder: "Recorder") -> None:
    sandbox.faults.add("refund", faults.DropReply(times=2))
    declined = orders_for("refund", sandbox.seed(2, status="authorised"))
    policy = BatchPolicy(chunk_size=2, concurrency=1, stop_after_unknown=2)
    settings: dict[str, Any] = {"telemetry": recorder.telemetry, "policy": policy}
    async with client_of(sandbox, **settings) as gateway:
        stopped = await gateway.refund(_refunds(sandbox, 9))
        mixed = await gateway.refund([*declined, *_refunds(sandbox, 3)])
    assert stopped.counts[OutcomeStatus.NOT_SENT] == 5
    expected = {
        ("refund", str(status)): stopped.counts[status] + mixed.counts[status]
        for status in OutcomeStatus
        if stopped.counts[status] + mixed.counts[status]
    }
    assert recorder.sums("outcomes", OPERATION, STATUS) == expected
    by_error = recorder.sums("requests", OPERATION, "error.type")
    assert by_error == {("refund", "OutcomeUnknownError"): 2, ("refund", None): 3}


async def test_each_attempt_is_measured_and_all_but_the_first_are_retries(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("query", faults.Status(status=503, times=2))
    await traced.query(orders_for("query", sandbox.seed(1)))
    assert recorder.sums("retries", OPERATION) == {("query",): 2}
    assert recorder.sums("requests", OPERATION, "http.response.status_code") == {("query", 200): 1}
    measured = {
        (facts["http.response.status_code"], facts.get("error.type")): point
        for name, facts, point in recorder.points()
        if name == "gateway_async.request.duration"
    }
    assert {key: point.count for key, point in measured.items()} == {
        (503, "ReplyStatusError"): 2,
        (200, None): 1,
    }
    assert all(point.sum > 0 for point in measured.values())


async def test_the_time_of_an_attempt_is_not_that_of_its_turn(
    sandbox: "Sandbox", recorder: "Recorder"
) -> None:
    class Limiter:
        async def __aenter__(self) -> None:
            await asyncio.sleep(0.2)

        async def __aexit__(self, *_: object) -> None:
            pass

    sandbox.faults.add("refund", faults.Latency(seconds=0.05))
    async with client_of(sandbox, telemetry=recorder.telemetry, limiter=Limiter()) as gateway:
        await gateway.refund(_refunds(sandbox, 1))
    (point,) = [p for name, _, p in recorder.points() if name == "gateway_async.request.duration"]
    span = recorder.the("refund")
    assert span.end_time is not None
    assert span.start_time is not None
    assert 0.05 <= point.sum <= (span.end_time - span.start_time) / 1e9 - 0.19


async def test_requests_are_active_until_they_end(
    sandbox: "Sandbox", traced: GatewayClient, recorder: "Recorder"
) -> None:
    sandbox.faults.add("refund", faults.NoReply())
    policy = BatchPolicy(concurrency=2, chunk_size=1, drain_seconds=0)
    running = asyncio.create_task(traced.refund(_refunds(sandbox, 3), policy=policy))
    await asked(sandbox, 2)
    assert recorder.sums("requests.active", OPERATION) == {("refund",): 2}
    running.cancel()
    await asyncio.wait({running})
    assert recorder.sums("requests.active", OPERATION) == {("refund",): 0}
