"""What a caller gives to a client: a limiter that a test can break, a signer and a listener."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from gateway_async import Operation
from gateway_async.telemetry import BatchEnd, BatchStart, RequestEnd, RequestStart, Telemetry


@attrs.define
class Limiter:
    """Lets everyone through, and counts the attempts that enter and leave.

    At each, `enter` or `leave` is called with its number from 1, and awaited if need be.
    """

    enter: Callable[[int], Any] = lambda _: None
    leave: Callable[[int], Any] = lambda _: None
    entered: int = 0
    left: int = 0

    async def __aenter__(self) -> None:
        self.entered += 1
        await _done(self.enter(self.entered))

    async def __aexit__(self, *_: object) -> None:
        self.left += 1
        await _done(self.leave(self.left))


async def _done(came: Any) -> None:
    if isinstance(came, Awaitable):
        await came


def raising(error: BaseException, at: int | None = None) -> Callable[[int], None]:
    """Return what raises an error each time, or at one of the calls."""

    def fail(number: int) -> None:
        if at in (None, number):
            raise error

    return fail


@attrs.define
class Verifier:
    """Signs as it is told, and answers, or raises, when asked about a reply."""

    answer: bool | BaseException = True
    sign: Callable[..., str] = lambda *_: "mine"
    # fields and signature of each reply
    asked: list[tuple[dict[str, str], str]] = attrs.field(factory=list)

    def verify(self, _: Operation, fields: Mapping[str, str], signature: str) -> bool:
        self.asked.append((dict(fields), signature))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@attrs.define
class Diary(Telemetry):
    """Writes everything down: what began, with its end once it has ended."""

    batches: list[tuple[BatchStart, BatchEnd | None]] = attrs.field(factory=list)
    requests: list[tuple[RequestStart, RequestEnd | None]] = attrs.field(factory=list)
    settled: list[tuple[BatchStart, Mapping[Any, int]]] = attrs.field(factory=list)
    tokens: list[object] = attrs.field(factory=list)

    def batch_began(self, batch: BatchStart) -> int:
        return _note(self.batches, batch)

    def batch_ended(self, batch: BatchStart, end: BatchEnd, token: Any) -> None:
        self.tokens.append(token)
        assert self.batches[token] == (batch, None)
        self.batches[token] = batch, end

    def request_began(self, request: RequestStart) -> int:
        return _note(self.requests, request)

    def request_ended(self, request: RequestStart, end: RequestEnd, token: Any) -> None:
        self.tokens.append(token)
        assert self.requests[token] == (request, None)
        self.requests[token] = request, end

    def orders_settled(self, batch: BatchStart, counts: Mapping[Any, int]) -> None:
        self.settled.append((batch, dict(counts)))

    @property
    def is_closed(self) -> bool:
        return all(end is not None for _, end in (*self.batches, *self.requests))

    def totals(self, batch: BatchStart) -> Counter[Any]:
        totals: Counter[Any] = Counter()
        for start, counts in self.settled:
            totals.update(counts if start is batch else {})
        return totals


def _note(began: list[Any], start: object) -> int:
    began.append((start, None))
    return len(began) - 1
