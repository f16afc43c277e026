"""A request on its way: attempts, and repeats of only what may be repeated.

Law: what moves money is repeated only on proof that nothing was sent; a read may be repeated
whenever no readable reply came. What is written, and what a reply says, is known to `session`;
this module knows no order and no batch.
"""

import asyncio
import logging
import math
import random
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs

from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    InvalidOrderError,
    JournalError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
    ReplyTooLargeError,
)
from gateway_async.gate import CALL_CANCELLED, Gate
from gateway_async.operations import OperationClass
from gateway_async.session import HTTP_OK, Request, Session, retry_after
from gateway_async.telemetry import Attempt
from gateway_async.transport import Evidence, Message, RawReply

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

_log = logging.getLogger("gateway_async.requests")

_MOST_DOUBLINGS = 60
_BEFORE_SENDING = (NotSentError, ConfigurationError, InvalidOrderError, EvidenceError)
"""What stands as it is where a request was never asked to write; with the last, a reply came."""


def _now() -> float:
    return time.time()  # asked of the module, so that a test's clock counts


@attrs.frozen(kw_only=True)
class Exchange(Generic[T]):
    """What became of one request.

    Attributes:
        value: The decoded reply; None where there is an error.
        error: Why there is none.
        tries: Attempts made.
        sent: How many of them may have sent something.
        ended_at: When it ended, in seconds since the epoch.
        attempts: Those whose turn came.
    """

    value: T | None = attrs.field(default=None, repr=False)
    error: GatewayError | None = None
    tries: int = 0
    sent: int = 0
    ended_at: float = attrs.field(factory=_now)
    attempts: tuple[Attempt, ...] = ()


_NO_ATTEMPT: Exchange[Any] = Exchange(ended_at=0.0)
"""What became of a request before its first attempt."""


class Intent(Protocol):
    """That a request is to be sent, which a journal keeps before the first byte is written."""

    async def keep(self) -> None:
        """Keep it; where this raises, nothing is sent."""
        ...

    async def withdraw(self) -> None:
        """Keep that nothing was sent."""
        ...

    def check(self) -> None:
        """Raise if the first byte, which is about to be written, must not be."""
        ...


class Call(Generic[T]):
    """One request on its way, with as many attempts as are allowed.

    Run it in a task of its own: a cancellation is not raised but told in the result, with what the
    evidence proves, and ends the task. Nothing happens before it is run.

    Args:
        session: What it shares with the other requests of its client.
        request: What to send.
        gate: Whether it may leave.
        intent: Kept when it is the request's turn, and withdrawn before it waits to be tried again.
    """

    def __init__(
        self,
        session: Session,
        request: Request[T],
        gate: Gate,
        *,
        intent: Intent | None = None,
    ) -> None:
        self._session = session
        self._request = request
        self._gate = gate
        self._intent = intent
        self._is_intended = False
        self._withdrawals = 0
        self._loop = asyncio.get_running_loop()
        self._evidence: Evidence | None = None
        self._ends = math.inf
        self._last: Exchange[T] = _NO_ATTEMPT
        self._is_repeating = False
        self._seconds: float | None = None

    async def run(self) -> Exchange[T]:
        """Make the request, repeated where that is allowed, and say what became of it."""
        try:
            return await self._run()
        finally:  # a withdrawal cancels what is made, and not the task that makes it
            task = asyncio.current_task()
            for _ in range(self._withdrawals):
                if task is not None:
                    task.uncancel()

    async def _run(self) -> Exchange[T]:
        try:
            message = self._session.compose(self._request)
        except GatewayError as error:
            return Exchange(error=_bare(error))
        first = await self._attempt(message)
        if not self._may_repeat(first):
            return first
        import tenacity  # noqa: PLC0415  # only what is repeated needs it

        retrying = tenacity.AsyncRetrying(
            sleep=self._rest,
            wait=self._pause,
            stop=self._is_over,
            retry=tenacity.retry_if_result(self._may_repeat),
            retry_error_callback=lambda _: self._last,
        )
        try:
            return await retrying(self._again, message)
        except asyncio.CancelledError:  # in a pause: what the last attempt proved still holds
            self._gate.stop(CALL_CANCELLED)
            return self._last

    async def _rest(self, seconds: float) -> None:
        """Wait before the next attempt; a process that dies meanwhile has begun nothing."""
        if self._intent is not None and self._is_intended and not self._last.sent:
            await self._intent.withdraw()
            self._is_intended = False
        await self._gate.sleep(seconds)

    async def _again(self, message: Message) -> Exchange[T]:
        """Make the next attempt; the first was made before there was anything to repeat."""
        if not self._is_repeating:
            self._is_repeating = True
            return self._last
        _log.warning("%s is tried again: %s", self._request.operation, self._last.error)
        return await self._attempt(message)

    def withdraw(self) -> bool:
        """Let nothing be sent, and say whether that was still possible; then cancel its task."""
        may_be = self._evidence is None or not self._evidence.settle()
        self._withdrawals += may_be
        return may_be

    def so_far(self) -> Exchange[T]:
        """Say what became of it when `run` itself raised: what the evidence proves."""
        sent = self._last.sent + (self._evidence is not None and self._evidence.settle())
        return Exchange(
            error=_given_up(asked=sent > 0),
            tries=self._last.tries + 1,
            sent=sent,
            attempts=self._last.attempts,
        )

    async def _attempt(self, message: Message) -> Exchange[T]:
        evidence = self._evidence = Evidence(None if self._intent is None else self._intent.check)
        raw, value, error = None, None, None
        self._seconds = None
        try:
            raw = await self._send(message, evidence)
            self._heed(raw)
            value = self._session.decode(self._request, raw, message.signature)
        except JournalError:  # from the intent: it ends more than this request
            raise
        except GatewayError as problem:
            error = _bare(problem)
            if raw is None:  # it came from the limiter or the transport, and not from a reply
                error = _proved(error, asked=evidence.settle())
        except asyncio.CancelledError:
            self._gate.stop(CALL_CANCELLED)
            error = _given_up(asked=evidence.settle(), reason=self._gate.closed_because)
        attempts = (*self._last.attempts, *self._attempts_made(raw, error))
        if self._last.sent and error is not None and self._leaves_open(error, evidence):
            error = self._last.error  # an earlier attempt was sent, and may have done it
        self._last = Exchange(
            value=value,
            error=error,
            tries=self._last.tries + 1,
            sent=self._last.sent + evidence.asked,
            attempts=attempts,
        )
        self._evidence = None  # this attempt is counted; the next has evidence of its own
        return self._last

    def _attempts_made(
        self, raw: RawReply | None, error: GatewayError | None
    ) -> "tuple[Attempt, ...]":
        """Return the attempt that ended; none where its turn never came."""
        if self._seconds is None:
            return ()
        status = None if raw is None else raw.status
        problem = None if error is None else type(error).__name__
        return (Attempt(seconds=self._seconds, http_status=status, error=problem),)

    def _leaves_open(self, error: GatewayError, evidence: Evidence) -> bool:
        """Say whether an error leaves open what became of the attempts before."""
        is_read = self._request.operation.kind is OperationClass.READ
        if not evidence.asked or isinstance(error, NotSentError):
            return True
        return isinstance(error, RejectedError) and not is_read

    async def _send(self, message: Message, evidence: Evidence) -> RawReply:
        await self._gate.passable()
        raw = None
        async with self._session.limiter:
            await self._gate.passable()
            if self._intent is not None and not self._is_intended:
                await self._intent.keep()
                self._is_intended = True
                self._gate.check()
            now = self._loop.time()
            self._ends = min(self._ends, now + self._session.timeouts.total_seconds)
            seconds = min(self._ends, self._gate.deadline + self._gate.drain_seconds) - now
            if seconds <= 0:
                raise NotSentError("nothing was sent: the time for this call was over")
            try:
                raw = await self._session.transport.send(
                    message, evidence=evidence, seconds=seconds
                )
            finally:
                self._seconds = self._loop.time() - now
        if raw is None:
            raise _given_up(asked=evidence.settle(), reason="the limiter swallowed the error")
        return raw

    def _heed(self, raw: RawReply) -> None:
        """Pause everything behind the gate for as long as the gateway asked."""
        seconds = None if raw.status == HTTP_OK else retry_after(raw.headers)
        if seconds is not None:
            self._gate.pause(min(seconds, self._session.retry.max_pause_seconds))

    def _pause(self, state: "RetryCallState") -> float:
        retry = self._session.retry
        limit = retry.first_pause_seconds * 2 ** min(state.attempt_number - 1, _MOST_DOUBLINGS)
        return random.uniform(0, min(limit, retry.max_pause_seconds))  # noqa: S311  # jitter

    def _is_over(self, state: "RetryCallState") -> bool:
        wakes = max(self._loop.time() + state.upcoming_sleep, self._gate.paused_until)
        return (
            state.attempt_number >= self._session.retry.attempts
            or wakes >= min(self._ends, self._gate.deadline)
            or self._gate.closed_because is not None
        )

    def _may_repeat(self, made: Exchange[T]) -> bool:
        kind = self._request.operation.kind
        if kind is OperationClass.KEYED and self._session.dialect.payout_deduplicates:
            kind = OperationClass.READ
        return may_repeat(kind, made.error)


def may_repeat(kind: OperationClass, error: GatewayError | None) -> bool:
    """Decide whether a request of this class may be made again after this error."""
    if isinstance(error, CertificateError):
        return False
    if isinstance(error, NotSentError):
        return True
    if kind is not OperationClass.READ or isinstance(error, ReplyTooLargeError):
        return False
    return isinstance(error, OutcomeUnknownError)


def _bare(error: GatewayError) -> GatewayError:
    """Return the error without its frames, which know the request."""
    error.__context__ = None
    return error.with_traceback(None)


def _proved(error: GatewayError, *, asked: bool) -> GatewayError:
    """Return an error of sending as far as the evidence bears it out: its type proves nothing."""
    if asked and not isinstance(error, OutcomeUnknownError):
        name = type(error).__name__
        return OutcomeUnknownError(f"the request was sent, and then {name} was raised: {error}")
    if asked or isinstance(error, _BEFORE_SENDING):
        return error
    return NotSentError(f"nothing was sent: {type(error).__name__} was raised before: {error}")


def _given_up(*, asked: bool, reason: str | None = None) -> GatewayError:
    if asked:
        return OutcomeUnknownError("the request was sent and given up before its reply came")
    return NotSentError(f"nothing was sent: {reason or 'the call was given up before'}")
