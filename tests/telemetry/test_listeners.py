"""Listeners of one's own: what they hear adds up, and what they break is their own affair."""

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import BatchPolicy, ConfigurationError, OutcomeStatus
from gateway_async.sandbox import faults
from gateway_async.telemetry import Telemetry
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import client_of, direct_payment, orders_for, refunds
from tests.telemetry.recording import Diary

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async import GatewayClient
    from gateway_async.sandbox import Sandbox

METHODS = sorted(name for name in vars(Telemetry) if not name.startswith("_"))
ERRORS: list[type[BaseException]] = [LookupError, asyncio.CancelledError, AssertionError]


def _breaking(method: str, error: type[BaseException]) -> Diary:
    """Return a diary one page of which cannot be written on."""

    def broken(*_: object) -> object:
        raise error("the listener broke")

    kind = type("Broken", (Diary,), {method: broken})
    return kind()  # type: ignore[no-any-return]  # a subclass of Diary


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", METHODS)
async def test_a_listener_that_breaks_changes_no_outcome(
    sandbox: "Sandbox",
    caplog: pytest.LogCaptureFixture,
    method: str,
    error: type[BaseException],
) -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    orders = orders_for("refund", sandbox.seed(7, status="captured"))
    policy = BatchPolicy(chunk_size=2, concurrency=2)
    diary = _breaking(method, error)
    async with client_of(sandbox, policy=policy, telemetry=diary) as gateway:
        result = await gateway.refund(orders)
        async with gateway.query(orders_for("query", orders)) as batch:
            looked_up = [outcome.status async for outcome in batch]
        paid = await gateway.pay_direct(direct_payment())
    assert [outcome.order for outcome in result] == orders
    assert result.counts[OutcomeStatus.UNKNOWN] in (1, 2)  # the last request has one order
    assert result.counts[OutcomeStatus.SUCCEEDED] == 7 - result.counts[OutcomeStatus.UNKNOWN]
    assert looked_up == [OutcomeStatus.SUCCEEDED] * 7
    assert paid.order_status is not None
    assert [sandbox.ledger.effects("refund", order.transaction_id) for order in orders] == [1] * 7
    complaints = [record for record in caplog.records if record.name == "gateway_async.telemetry"]
    assert [record.levelno for record in complaints] == [logging.ERROR]
    assert complaints[0].exc_info is not None
    assert complaints[0].exc_info[0] is error
    # Of what it could not begin, it is not told the end.
    assert method != "request_began" or not diary.requests
    assert diary.is_closed or method.endswith("_ended")


async def test_what_ends_the_process_still_finds_each_order() -> None:
    """A listener may end the program: then, too, the result says what was sent."""

    class Stop(BaseException):
        pass

    diary = _breaking("request_began", Stop)
    policy = BatchPolicy(concurrency=1, chunk_size=2)
    transport = MemoryTransport(all_done)
    batch = client_over(transport, telemetry=diary, policy=policy).refund(refunds(4))
    with pytest.raises(Stop):
        await batch
    assert [outcome.index for outcome in batch.result] == [0, 1, 2, 3]
    assert batch.result.counts[OutcomeStatus.NOT_SENT] == 4
    assert transport.asked == []


async def test_what_is_told_of_requests_and_orders_adds_up(sandbox: "Sandbox") -> None:
    diary = Diary()
    sandbox.faults.add("refund", faults.DropReply(probability=0.3))
    sandbox.faults.add("refund", faults.MissingItems(probability=0.3))
    policy = BatchPolicy(chunk_size=3, stop_after_unknown=4)
    async with client_of(sandbox, policy=policy, telemetry=diary) as gateway:
        result = await gateway.refund(orders_for("refund", sandbox.seed(100, status="captured")))
    ((start, end),) = diary.batches
    assert end is not None
    assert diary.is_closed
    assert (start.operation, start.orders, start.job) == ("refund", 100, None)
    assert diary.totals() == Counter(result.counts)
    assert end.counts == result.counts
    assert (end.requests, end.retries) == (result.requests, result.retries)
    told: Counter[OutcomeStatus] = Counter()
    for request, request_end in diary.requests:
        assert request_end is not None
        assert sum(request_end.counts.values()) == request.orders
        assert request_end.sent <= request_end.tries == 1
        told.update(request_end.counts)
    assert sum(e.sent for _, e in diary.requests if e is not None) == result.requests
    not_told = result.counts[OutcomeStatus.NOT_SENT] - told[OutcomeStatus.NOT_SENT]
    assert told + Counter({OutcomeStatus.NOT_SENT: not_told}) == Counter(result.counts)


async def _awaited(gateway: "GatewayClient", orders: list[Any]) -> None:
    await gateway.refund(orders)


async def _streamed(gateway: "GatewayClient", orders: list[Any]) -> None:
    async with gateway.refund(iter(orders)) as batch:
        async for _ in batch:
            pass


async def _left(gateway: "GatewayClient", orders: list[Any]) -> None:
    async with gateway.refund(orders) as batch:
        async for _ in batch:
            break


@pytest.mark.parametrize("way", [_awaited, _streamed, _left])
async def test_all_that_began_ends_wherever_it_is_cancelled(
    way: "Callable[[GatewayClient, list[Any]], Any]",
) -> None:
    policy = BatchPolicy(chunk_size=2, concurrency=2, drain_seconds=0)
    for steps in range(40):
        diary = Diary()
        gateway = client_over(MemoryTransport(steps=2), policy=policy, telemetry=diary)
        running = asyncio.create_task(way(gateway, refunds(9)))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        assert diary.is_closed, steps
        ended = sum(sum(end.counts.values()) for _, end in diary.batches if end)
        assert ended == sum(diary.totals().values()), steps


async def test_a_batch_that_is_closed_has_ended() -> None:
    diary = Diary()
    batch = client_over(MemoryTransport(all_done), telemetry=diary).refund(refunds(2))
    batch.send(None)
    assert not diary.is_closed
    batch.close()
    assert diary.is_closed


class _Awaited(Telemetry):
    async def request_ended(self, *_: object) -> None:  # type: ignore[override]  # wrong on purpose
        pass


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (_Awaited(), "_Awaited.request_ended must be a plain function"),
        (Telemetry, "got type"),
        (print, "got builtin_function_or_method"),
    ],
)
def test_what_is_no_listener_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        client_over(MemoryTransport(all_done), telemetry=wrong)
