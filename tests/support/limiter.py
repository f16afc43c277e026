"""A limiter for tests: it lets everyone through, and does what a test wants first."""

from collections.abc import Awaitable, Callable
from typing import Any


class Limiter:
    """Counts the attempts that enter and leave.

    Args:
        enter: Called as an attempt enters, with its number from 1, and awaited if need be; what
            it raises, the limiter raises.
        leave: The same, as an attempt leaves.
    """

    def __init__(
        self,
        enter: Callable[[int], Any] = lambda _: None,
        leave: Callable[[int], Any] = lambda _: None,
    ) -> None:
        self.entered = self.left = 0
        self._enter, self._leave = enter, leave

    async def __aenter__(self) -> None:
        self.entered += 1
        await _done(self._enter(self.entered))

    async def __aexit__(self, *_: object) -> None:
        self.left += 1
        await _done(self._leave(self.left))


async def _done(came: Any) -> None:
    if isinstance(came, Awaitable):
        await came


def raising(error: BaseException, at: int | None = None) -> Callable[[int], None]:
    """Return what raises an error each time, or at one of the calls."""

    def fail(number: int) -> None:
        if at in (None, number):
            raise error

    return fail
