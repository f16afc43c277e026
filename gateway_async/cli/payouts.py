"""Payouts one by one, several at a time: used as a `Batch` is.

Law: every payout comes back exactly once; what may have been sent is never sent again, and is
reported with its `request_id`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

import attrs

from gateway_async.errors import (
    GatewayError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.payouts import PayoutResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from gateway_async.client import GatewayClient
    from gateway_async.models.payouts import PayoutRequest
    from gateway_async.settings import BatchPolicy

_FATES: "tuple[tuple[type[GatewayError], OutcomeStatus], ...]" = (
    (NotSentError, OutcomeStatus.NOT_SENT),
    (InvalidOrderError, OutcomeStatus.NOT_SENT),
    (RejectedError, OutcomeStatus.DECLINED),
    (GatewayError, OutcomeStatus.UNKNOWN),
)
"""What an error means for a payout; the first that fits counts."""


@attrs.frozen(kw_only=True)
class PayoutOutcome:
    """What became of one payout.

    Attributes:
        order: The payout.
        index: Its position in the input, from 0.
        status: What became of it.
        error: Why it did not succeed.
        record: What the gateway says of it.
        sending: None: a payout is not recovered by look-up.
    """

    order: "PayoutRequest"
    index: int
    status: OutcomeStatus
    error: GatewayError | None = None
    record: PayoutResult | None = attrs.field(default=None, repr=False)
    sending: None = None


def judge_payout(
    result: PayoutResult, done: "frozenset[str]"
) -> tuple[OutcomeStatus, GatewayError | None]:
    """Say what a result means: the interface shows one status, and texts where a payout failed."""
    status, reason = result.status or "", result.failure_reason or ""
    if status in done and not reason:
        return OutcomeStatus.SUCCEEDED, None
    if reason and status not in done:
        code = result.failure_type or ""
        return OutcomeStatus.DECLINED, RejectedError(reason, code=code, text=reason)
    told = f"status {status!r}" + (f" with failure_reason {reason!r}" if reason else "")
    return OutcomeStatus.UNKNOWN, OutcomeUnknownError(
        f"the gateway answered with {told}, which has no meaning here; ask the gateway, and list "
        "what means done in [payout] done_statuses"
    )


class Payouts(AsyncIterator[PayoutOutcome]):
    """Payouts under way: iterate inside `async with`, then read what is left from `result`.

    Leaving early, or being cancelled, starts no further payout and waits for those in flight
    within the drain time; a second cancellation ends that.

    Args:
        gateway: The client.
        payouts: The payouts, taken as they are sent.
        policy: Of it count `concurrency`, `deadline_seconds` and `stop_after_unknown`.
        done: Values of `status` that say "done".
    """

    def __init__(
        self,
        gateway: "GatewayClient",
        payouts: "Iterable[PayoutRequest]",
        *,
        policy: "BatchPolicy",
        done: frozenset[str],
    ) -> None:
        self._gateway = gateway
        self._numbered = enumerate(payouts)
        self._policy = policy
        self._done = done
        self._ready: deque[PayoutOutcome] = deque()
        self._changed = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._closed = ""
        self._in_a_row = 0
        self._deadline: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in range(self._policy.concurrency):
            worker = loop.create_task(self._work(), name=f"gateway_async payouts {number}")
            worker.add_done_callback(lambda _: self._changed.set())
            self._workers.append(worker)
        if (seconds := self._policy.deadline_seconds) is not None:
            self._deadline = loop.call_later(seconds, self._leave, "the deadline has passed")
        return self

    async def __anext__(self) -> PayoutOutcome:
        while not self._ready:
            if (failure := self._failure) is not None:
                raise failure
            if all(worker.done() for worker in self._workers):
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._ready.popleft()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._leave("the command was stopped")
        while pending := [worker for worker in self._workers if not worker.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:  # what is in flight is given up: it ends as unknown
                self._leave("the command was stopped")
        if error is None and (failure := self._failure) is not None:
            raise failure

    @property
    def result(self) -> "Iterator[PayoutOutcome]":
        """What was not yielded, once it is over; the rest of the input was not sent."""
        yield from self._ready
        reason = NotSentError(f"nothing was sent: {self._closed}")
        for index, payout in self._numbered:
            yield PayoutOutcome(
                order=payout, index=index, status=OutcomeStatus.NOT_SENT, error=reason
            )

    @property
    def _failure(self) -> BaseException | None:
        """What ended a worker: the input's own error, or a collaborator's."""
        ended = [worker for worker in self._workers if worker.done() and not worker.cancelled()]
        return next(filter(None, [worker.exception() for worker in ended]), None)

    def _leave(self, reason: str) -> None:
        """Start nothing more; what may have been sent is waited for, within the drain time."""
        self._closed = self._closed or reason
        for worker in self._workers:
            worker.cancel()

    async def _work(self) -> None:
        while not self._closed and (numbered := next(self._numbered, None)) is not None:
            await self._pay(*numbered)

    async def _pay(self, index: int, payout: "PayoutRequest") -> None:
        came: object = OutcomeUnknownError("what became of it is not known")
        try:
            came = await self._gateway.payout(payout)
        except asyncio.CancelledError as cancelled:
            came = getattr(cancelled, "outcome", came)
            raise
        except GatewayError as error:
            came = error
        finally:
            self._settle(index, payout, came)

    def _settle(self, index: int, payout: "PayoutRequest", came: object) -> None:
        """Note what became of a payout, and stop where too many in a row had no reply."""
        is_read = isinstance(came, PayoutResult)
        if isinstance(came, PayoutResult):
            status, error = judge_payout(came, self._done)
        else:
            error = came if isinstance(came, GatewayError) else None
            status = next(
                (status for kind, status in _FATES if isinstance(came, kind)),
                OutcomeStatus.UNKNOWN,
            )
        self._ready.append(
            PayoutOutcome(
                order=payout,
                index=index,
                status=status,
                error=error,
                record=came if isinstance(came, PayoutResult) else None,
            )
        )
        self._changed.set()
        has_reply = is_read or isinstance(came, RejectedError)
        self._in_a_row = 0 if has_reply else self._in_a_row + 1
        if self._in_a_row >= self._policy.stop_after_unknown:
            self._closed = (
                self._closed or f"{self._in_a_row} payouts in a row had no readable reply"
            )
