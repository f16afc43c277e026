"""A run: a batch, or what is used like one, driven to its end whatever happens.

Law: every outcome is seen exactly once, by one function, and what is known is never given up.
"""

import asyncio
import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from gateway_async.cli.shows import summary_table
from gateway_async.client import GatewayClient
from gateway_async.errors import (
    AlikeRefundError,
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    NotDoneError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from gateway_async.batching.results import Outcome
    from gateway_async.cli.settings import Settings
    from gateway_async.cli.stopping import Stop
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials
    from gateway_async.telemetry import Telemetry

_REASONS_SHOWN = 3
_REASONS_KEPT = 1000
_SECONDS_BETWEEN_TICKS = 0.5
_EXIT_CODES = {"unknown": 3, "not_sent": 3, "declined": 1, "absent": 1}
UNFINISHED = 3
_NOT_BEGUN = (InvalidOrderError, JobBusyError, JobConflictError, JobNotFoundError)
"""Errors that say that this run sent nothing."""


class Streamed(Protocol):
    """What can be driven: a `Batch`, payouts, or a reconciliation."""

    async def __aenter__(self) -> Any: ...  # noqa: ANN401  # itself
    async def __aexit__(self, *error: Any) -> None: ...  # noqa: ANN401, PYI036  # as a batch has it
    def __aiter__(self) -> "AsyncIterator[Any]": ...
    @property
    def result(self) -> "Iterable[Any]":
        """What was not yielded, once it is over."""
        ...


@attrs.define(kw_only=True)
class Tally:
    """What became of a run.

    Attributes:
        counts: How many orders have each status.
        held: How many of those that are not sent wait for a decision: they were proved not to be
            done, or the gateway lists a refund like them.
        reasons: How many orders did not succeed for each reason; the first thousand reasons.
        requests: Requests made, None where nobody counted.
        retries: How many of them were repeats.
        unexpected: Records that came back and belong to no order.
        seconds: How long it took.
        failure: What ended it early.
        is_astray: Whether the outcomes could not be written where they were asked for.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    held: int = 0
    reasons: Counter[str] = attrs.field(factory=Counter)
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0
    seconds: float = 0.0
    failure: GatewayError | None = None
    is_astray: bool = False

    def see(self, outcome: "Outcome[Any, Any]") -> None:
        """Note one outcome."""
        self.counts[str(outcome.status)] += 1
        self.held += isinstance(outcome.error, NotDoneError | AlikeRefundError)
        self.note_reason(outcome.error)

    def note_reason(self, error: GatewayError | None) -> None:
        """Note why something did not succeed."""
        text = "" if error is None else str(error)
        if text and (text in self.reasons or len(self.reasons) < _REASONS_KEPT):
            self.reasons[text] += 1

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to tell of."""
        return bool(self.counts) or self.seconds > 0

    @property
    def exit_code(self) -> int:
        """0: all succeeded. 1: some declined or absent. 3: some unknown, not sent or astray."""
        statuses = (status for status, count in self.counts.items() if count)
        code = max((_EXIT_CODES.get(status, 0) for status in statuses), default=0)
        return UNFINISHED if self.failure is not None or self.is_astray else code

    def report(self, talk: "Talk", name: str) -> None:
        """Say what became of it."""
        row = (name, self.counts, self.requests, self.retries, self.seconds)
        talk.show(
            "summary",
            summary_table([row]),
            command=name,
            counts=dict(self.counts),
            requests=self.requests,
            retries=self.retries,
            unexpected=self.unexpected,
            seconds=round(self.seconds, 3),
        )
        self.tell_reasons(talk)
        if self.unexpected:
            text = f"records that belong to no order of the file: {self.unexpected}"
            talk.tell("unexpected", text, count=self.unexpected)
        if self.failure is not None:
            talk.tell("failure", f"it ended early: {self.failure}")

    def tell_reasons(self, talk: "Talk") -> None:
        """Say which reasons there were, the most frequent first."""
        for reason, count in self.reasons.most_common(_REASONS_SHOWN):
            talk.tell("reason", f"{count} x {reason}", count=count, reason=reason)


def make_client(
    settings: "Settings",
    credentials: "Credentials",
    telemetry: "Telemetry | None" = None,
    *,
    limiter: "AbstractAsyncContextManager[object] | None" = None,
) -> GatewayClient:
    """Make the client that the settings describe.

    Args:
        settings: The settings.
        credentials: Who speaks, and how it signs.
        telemetry: Who hears what it does.
        limiter: What stands in for one that holds the rate of this process alone.

    Raises:
        ConfigurationError: If a setting is wrong, or a rate needs an extra that is not installed.
    """
    return GatewayClient(
        settings.base_url,
        credentials,
        timeouts=settings.timeouts,
        retry=settings.retry,
        policy=settings.policy,
        recovery=settings.recovery,
        dialect=settings.dialect,
        allow_http=settings.allow_http,
        ssl=settings.ssl_context(),
        proxy=settings.proxy,
        trust_env=settings.trust_env,
        limiter=limiter or (None if settings.rate is None else _limiter(settings.rate)),
        telemetry=telemetry,
    )


def _limiter(rate: float) -> "AbstractAsyncContextManager[object]":
    """Let requests leave evenly, so many a second."""
    try:
        from aiolimiter import AsyncLimiter  # noqa: PLC0415  # only where a rate is set
    except ModuleNotFoundError:
        raise ConfigurationError(
            "--rate needs aiolimiter: pip install 'gateway-async[cli]'"
        ) from None
    return AsyncLimiter(1, 1 / rate)


async def drive(
    streamed: Streamed,
    see: "Callable[[Any], None]",
    *,
    stop: "Stop",
    tick: "Callable[[], None]",
) -> GatewayError | None:
    """Hand over everything that finishes; after a stop or an error, what is known by then.

    Args:
        streamed: What is driven.
        see: Sees everything that finishes, once each.
        stop: Says when to stop.
        tick: Called from time to time, also where nothing finishes.

    Returns:
        What ended it early, if an error did.

    Raises:
        ConfigurationError: If it was stopped before it began.
        GatewayError: If it could not begin; nothing was sent.
    """
    failure: GatewayError | None = None
    has_begun = True
    ticker = asyncio.create_task(_ticking(tick))
    try:
        with stop.cancelling(), contextlib.suppress(asyncio.CancelledError):
            async with streamed:
                async for one in streamed:
                    see(one)
    except _NOT_BEGUN:
        has_begun = False
        raise
    except GatewayError as error:
        failure = error
    finally:  # also where a defect ended it: what is known may be the only record
        ticker.cancel()
        left = _left(streamed) if has_begun else None
        for one in left or ():
            see(one)
    if left is None:
        raise failure or ConfigurationError("stopped before anything was sent")
    return failure


def _left(streamed: Streamed) -> "Iterable[Any] | None":
    """Return what was not yielded; None where it did not begin."""
    try:
        return streamed.result
    except RuntimeError:
        return None


async def _ticking(tick: "Callable[[], None]") -> None:
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
        tick()


def note_totals(tally: Tally, result: Any, started: float) -> None:  # noqa: ANN401  # any result
    """Take the totals of a batch's result into the tally.

    Args:
        tally: What became of the run.
        result: What the batch came to.
        started: When it began, by the monotonic clock.
    """
    tally.seconds = time.monotonic() - started
    tally.requests = getattr(result, "requests", None)
    tally.retries = getattr(result, "retries", None)
    unexpected = getattr(result, "unexpected", None)
    tally.unexpected = 0 if unexpected is None else unexpected.count
