"""What is repeated, how often, and after which pause."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from email.utils import formatdate
from typing import Any, TypeVar

import pytest

from gateway_async import (
    BatchPolicy,
    CertificateError,
    ConfigurationError,
    Dialect,
    EvidenceError,
    GatewayClient,
    GatewayError,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
    ReplyStatusError,
    ReplyTooLargeError,
    ReplyUnreadableError,
    RetryPolicy,
    Timeouts,
)
from tests.memory import QUICK, Asked, HttpResponse, MemoryTransport, client_over
from tests.orders import made_up, orders_for, payout_request, references, refunds
from tests.support.calls import SINGLES
from tests.support.clock import VirtualLoop
from tests.support.collaborators import Limiter, raising

T = TypeVar("T")
ZONES = ("GMT", "-0000", "")

FAILURES: dict[str, tuple[GatewayError | HttpResponse, bool, bool]] = {
    "not sent": (NotSentError(), True, True),
    "a wrong certificate": (CertificateError(), False, False),
    "unknown": (OutcomeUnknownError(), True, False),
    "unreadable": (ReplyUnreadableError(), True, False),
    "too large": (ReplyTooLargeError(), False, False),
    "a reply to nothing": (EvidenceError(), True, False),
    **{
        f"HTTP {status}": (HttpResponse(status, {}, b""), True, False)
        for status in (201, 301, 302, 308, 400, 404, 429, 503)
    },
}
"""What goes wrong, and whether reads and what moves money are tried again after it."""
READS = ("query", "recent_transactions", "recent_refunds", "repeatable call")
CALLS: dict[str, Callable[[GatewayClient], Awaitable[Any]]] = {
    **SINGLES,
    "query": lambda gateway: gateway.query(references(1)),
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "repeatable call": lambda gateway: gateway.call("/v1/payout", {}, repeatable=True),
}


@pytest.mark.parametrize("call", CALLS)
async def test_what_is_tried_again(call: str) -> None:
    """Payouts are like reads where the gateway deduplicates them, and like refunds elsewhere."""
    for (failure, row), deduplicates in itertools.product(FAILURES.items(), (True, False)):
        failing, if_read, if_money = row
        transport = MemoryTransport(_Failing(failing, 1000))
        dialect = Dialect(payout_deduplicates=deduplicates)
        with contextlib.suppress(GatewayError):
            await CALLS[call](client_over(transport, retry=QUICK, dialect=dialect))
        reads = call in READS or (call.startswith("payout") and deduplicates)
        assert len(transport.asked) == 1 + (if_read if reads else if_money), (failure, deduplicates)


# On virtual time


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Return what it gives, and the time that passed on a clock that jumps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        given = runner.run(work)
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return given, loop.time()


class _Failing:
    """Fails so often in one way, then does everything; notes when it was asked."""

    def __init__(self, failure: HttpResponse | GatewayError, times: int) -> None:
        self.at: list[float] = []
        self._failure = failure
        self._times = times

    def __call__(self, asked: Asked) -> Any:
        self.at.append(asyncio.get_running_loop().time())
        if len(self.at) > self._times:
            return asked.done()
        if isinstance(self._failure, GatewayError):
            raise self._failure
        return self._failure


async def _query(handler: _Failing, **settings: Any) -> Any:
    gateway = client_over(MemoryTransport(handler), **settings)
    return await gateway.query([OrderRef(transaction_id="T1")])


def test_pauses_are_below_a_bound_that_doubles_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def uniform(low: float, high: float) -> float:
        assert low == 0
        drawn.append(high)
        return high

    monkeypatch.setattr(random, "uniform", uniform)
    failing = _Failing(HttpResponse(500, {}, b""), 1000)
    retry = RetryPolicy(attempts=6, first_pause_seconds=1, max_pause_seconds=5)
    _, passed = run(_query(failing, retry=retry))
    assert drawn[:5] == [1, 2, 4, 5, 5]
    assert passed == pytest.approx(17)
    assert failing.at == pytest.approx([0, 1, 3, 7, 12, 17])


NO_PAUSES = ("0", "-5", "soon", "", "1.5", "1 2", "٣", "Sun, 99 Nov 1994")
RETRY_AFTER: dict[str, float] = {
    **dict.fromkeys(NO_PAUSES, 0),
    "7": 7,
    "3600": 30,
    "9" * 400: 30,
    "Thu, 01 Jan 1970 00:00:01 GMT": 0,
    "Thursday, 01-Jan-70 00:00:01 GMT": 0,
    "Sun, 06 Nov 2994 08:49:37 GMT": 30,
    **{formatdate(1020, usegmt=True).replace("GMT", zone).strip(): 20 for zone in ZONES},
}


def test_retry_after_is_honoured_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date is in UTC, wherever it is read."""
    retry = RetryPolicy(first_pause_seconds=0, max_pause_seconds=30)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 1000.0)
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        passed = {}
        for header in RETRY_AFTER:
            failing = _Failing(HttpResponse(503, {"Retry-After": header}, b""), 1)
            _, passed[header] = run(_query(failing, retry=retry))
    time.tzset()
    assert passed == pytest.approx(RETRY_AFTER)


@pytest.mark.parametrize("operation", ["query", "refund"])
def test_nothing_leaves_in_a_pause_which_takes_no_place_of_the_limiter(operation: str) -> None:
    async def answer(asked: Asked) -> Any:
        reply = failing(asked)
        await asyncio.sleep(1)
        return reply

    failing, entered = _Failing(HttpResponse(503, {"Retry-After": "20"}, b""), 1), list[float]()
    gateway = client_over(
        MemoryTransport(answer),
        policy=BatchPolicy(concurrency=3, chunk_size=1),
        retry=RetryPolicy(first_pause_seconds=0, max_pause_seconds=30),
        timeouts=Timeouts(total_seconds=1000),
        limiter=Limiter(lambda _: entered.append(asyncio.get_running_loop().time())),
    )
    result, _ = run(getattr(gateway, operation)(orders_for(operation, made_up(12))))
    assert failing.at == entered
    assert failing.at[:3] == [0, 0, 0]
    assert min(failing.at[3:]) == 21
    assert len(failing.at) == (13 if operation == "query" else 12)
    assert result.counts[OutcomeStatus.SUCCEEDED] == (12 if operation == "query" else 11)


@pytest.mark.parametrize(
    ("total", "deadline", "limiter", "at"),
    [
        (60, None, 0, [0, 25, 50]),
        (120, 60, 0, [0, 25, 50]),
        (120, 20, 0, [0]),
        (60, None, 1000, [1000]),  # it begins once the limiter lets the first through
    ],
)
def test_no_attempt_begins_after_the_time_is_over(
    total: float, deadline: float | None, limiter: float, at: list[float]
) -> None:
    failing = _Failing(HttpResponse(503, {"Retry-After": "25"}, b""), 1000)
    steps: list[str] = []

    async def wait(_: int) -> None:
        steps.append("in")
        await asyncio.sleep(limiter)

    settings: dict[str, Any] = {
        "retry": RetryPolicy(attempts=10, first_pause_seconds=0),
        "limiter": Limiter(wait, lambda _: steps.append("out")),
        "timeouts": Timeouts(total_seconds=total),
        "policy": BatchPolicy(deadline_seconds=deadline),
    }
    result, _ = run(_query(failing, **settings))
    assert failing.at == pytest.approx(at)
    assert steps[: 2 * len(at)] == ["in", "out"] * len(at)
    assert result.counts[OutcomeStatus.UNKNOWN] == 1


def test_a_payout_that_was_sent_once_is_not_called_unsent_later() -> None:
    """The first attempt loses its reply; the others find nobody to connect to."""

    def handler(_: Asked) -> Any:
        if len(transport.asked) == 1:
            raise OutcomeUnknownError("the reply was lost")
        raise NotSentError("as if the connection were refused")

    transport = MemoryTransport(handler)
    gateway = client_over(transport, dialect=Dialect(payout_deduplicates=True))
    with pytest.raises(OutcomeUnknownError, match="the reply was lost"):
        run(gateway.payout(payout_request()))
    assert len(transport.asked) == 4


# What others raise beside the reply

RAISED: list[GatewayError] = [
    *(error for error, _, _ in FAILURES.values() if isinstance(error, GatewayError)),
    ConfigurationError(),
    InvalidOrderError(),
    RejectedError(),
    ReplyStatusError(status=429),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("at_exit", [True, False])
async def test_errors_beside_a_request_are_no_proof(error: GatewayError, at_exit: bool) -> None:
    """Once it was sent, all may have happened; before, an error declines nothing."""
    transport = MemoryTransport()
    fail = raising(error, at=1)
    limiter = Limiter(leave=fail) if at_exit else Limiter(enter=fail)
    retry = RetryPolicy(attempts=3 if at_exit else 1, first_pause_seconds=0)
    result = await client_over(transport, limiter=limiter, retry=retry).refund(refunds(2))
    assert len(transport.asked) == result.requests == at_exit
    # Only a reply to nothing is an EvidenceError, and that is a defect.
    is_unknown = at_exit or isinstance(error, EvidenceError)
    expected = OutcomeStatus.UNKNOWN if is_unknown else OutcomeStatus.NOT_SENT
    assert [outcome.status for outcome in result] == [expected] * 2
    assert not at_exit or all(isinstance(each.error, OutcomeUnknownError) for each in result)
