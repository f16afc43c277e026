"""How long the gateway took to answer, counted in classes: bounded, whatever is measured."""

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from gateway_async.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async.telemetry import RequestEnd, RequestStart

_STEPS = (1, 2, 3, 5, 7)
_EDGES = tuple(step * 10**power / 1000 for power in range(6) for step in _STEPS)
"""In seconds: from a millisecond to more than any request may take."""


@attrs.frozen
class Class:
    """Exchanges that took about as long.

    Attributes:
        above: Longer than so many seconds.
        up_to: And at most so many; None where there is no limit.
        answered: How many had a readable reply.
        failed: How many had none.
    """

    above: float
    up_to: float | None
    answered: int
    failed: int

    @property
    def count(self) -> int:
        """How many there were."""
        return self.answered + self.failed


class Latencies(Telemetry):
    """Counts each exchange with the gateway by its duration; give it to a client as `telemetry=`.

    Attributes:
        longest: The longest, in seconds.
    """

    def __init__(self) -> None:
        self.longest: float = 0.0
        self._answered = [0] * (len(_EDGES) + 1)
        self._failed = [0] * (len(_EDGES) + 1)

    def request_ended(self, request: "RequestStart", end: "RequestEnd", token: object) -> None:
        """Count the exchanges of a request."""
        del request, token
        for attempt in end.attempts:
            self.add(attempt.seconds, failed=attempt.error is not None)

    def add(self, seconds: float, *, failed: bool = False) -> None:
        """Count one exchange."""
        counts = self._failed if failed else self._answered
        counts[bisect_left(_EDGES, seconds)] += 1
        self.longest = max(self.longest, seconds)

    @property
    def count(self) -> int:
        """Exchanges in all."""
        return sum(self._answered) + sum(self._failed)

    def classes(self) -> list[Class]:
        """Return the classes, the fastest first, without empty ones before and after."""
        classes = list(self._classes())
        filled = [number for number, one in enumerate(classes) if one.count]
        return classes[filled[0] : filled[-1] + 1] if filled else []

    def most_took(self, share: float) -> float | None:
        """Return within how many seconds at least this share of them ended; None without any."""
        wanted, seen = share * self.count, 0
        for one in self.classes():
            seen += one.count
            if seen >= wanted:
                return self.longest if one.up_to is None else min(one.up_to, self.longest)
        return None

    def _classes(self) -> "Iterator[Class]":
        bounds = pairwise((0.0, *_EDGES, None))
        for (above, up_to), answered, failed in zip(
            bounds, self._answered, self._failed, strict=True
        ):
            yield Class(above or 0.0, up_to, answered, failed)
