"""One payment, payout or page: sent in a task of its own, awaited, and never lost.

Law: what may have been sent is not given up before the drain time is over, even where the caller
is cancelled; then what became of it hangs on the original `CancelledError`, as `outcome`.
"""

import asyncio
from typing import TYPE_CHECKING, TypeVar

from gateway_async.attempts import Call
from gateway_async.errors import NotSentError, OutcomeUnknownError
from gateway_async.gate import Gate
from gateway_async.operations import PAYOUT, OperationClass

if TYPE_CHECKING:
    from gateway_async.attempts import Exchange
    from gateway_async.dialect import Dialect
    from gateway_async.errors import GatewayError
    from gateway_async.session import Request, Session
    from gateway_async.watching import RequestWatch

T = TypeVar("T")

_NEVER_BLINDLY = "never send it again before you know"


async def carry_out(
    session: "Session", request: "Request[T]", about: object, *, drain_seconds: float
) -> T:
    """Make one request and return its decoded reply.

    Args:
        session: The way to the gateway.
        request: What to send.
        about: The payment or payout that it is about, or None.
        drain_seconds: How long it may still take once the caller is cancelled.

    Raises:
        NotSentError: Nothing was sent.
        OutcomeUnknownError: It may have happened.
        RejectedError: The gateway did nothing, and the dialect says so.
        asyncio.CancelledError: With what became of it as `outcome`: the result, or an error.
    """
    with session.observer.request(request.operation.name, None) as watch:
        return await _carry_out(session, request, about, drain_seconds, watch)


async def _carry_out(
    session: "Session",
    request: "Request[T]",
    about: object,
    drain_seconds: float,
    watch: "RequestWatch",
) -> T:
    gate = Gate()
    call = Call(session, request, gate)
    watch.begin()
    task = asyncio.create_task(call.run(), name=f"gateway_async {request.operation}")
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError as cancelled:
        gate.stop("the call was cancelled")
        is_read = request.operation.kind is OperationClass.READ
        exchange = watch.exchange = await _drain(task, call, 0 if is_read else drain_seconds)
        _explain(exchange.error, request, about, session.dialect)
        _hang_on(cancelled, exchange)
        raise
    failure = task.exception()
    exchange = watch.exchange = task.result() if failure is None else call.so_far()
    if failure is not None and not exchange.sent:
        raise failure
    _explain(exchange.error, request, about, session.dialect)
    if failure is not None and exchange.error is not None:
        raise exchange.error from failure  # a collaborator raised after the request was sent
    if exchange.error is not None:
        raise exchange.error
    return exchange.value  # type: ignore[return-value]  # there is one where there is no error


async def _drain(
    task: "asyncio.Task[Exchange[T]]", call: "Call[T]", seconds: float
) -> "Exchange[T]":
    """Wait for what may have been sent; a second cancellation ends the waiting."""
    try:
        if not call.withdraw():
            await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return call.so_far() if task.cancelled() or task.exception() else task.result()


def _hang_on(cancelled: asyncio.CancelledError, exchange: "Exchange[T]") -> None:
    """Let the cancellation itself say what became of the call."""
    outcome = exchange.value if exchange.error is None else exchange.error
    cancelled.outcome = outcome  # type: ignore[attr-defined]  # a subclass would break asyncio.timeout
    told = "a reply came: see `outcome`" if exchange.error is None else str(exchange.error)
    cancelled.add_note(f"gateway_async: {told}")


def _explain(
    error: "GatewayError | None", request: "Request[T]", about: object, dialect: "Dialect"
) -> None:
    """Let an error say which payment it is about, and what to do."""
    if isinstance(error, NotSentError | OutcomeUnknownError):
        error.order_no = getattr(about, "order_no", None)
        error.request_id = getattr(about, "request_id", None)
    if isinstance(error, OutcomeUnknownError) and about is not None:
        error.args = (f"{error}; {_advice(error, request, dialect)}",)


def _advice(error: OutcomeUnknownError, request: "Request[T]", dialect: "Dialect") -> str:
    if request.operation is not PAYOUT:
        return (
            f"the payment of order_no {error.order_no!r} may have been made: look it up with "
            f"query([OrderRef(order_no={error.order_no!r})]), and {_NEVER_BLINDLY}"
        )
    if dialect.payout_deduplicates:
        return (
            f"the payout {error.request_id!r} may have been made: send it again with this same "
            "request_id, on which the gateway deduplicates"
        )
    return (
        f"the payout {error.request_id!r} may have been made and cannot be looked up: ask the "
        f"gateway, and {_NEVER_BLINDLY} (unless it deduplicates on request_id: "
        "Dialect.payout_deduplicates)"
    )
