"""What a caller gives to a client: a limiter that a test can break, and a signer that verifies."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway_async import Operation


class Limiter:
    """Lets everyone through, and counts the attempts that enter and leave.

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


class Verifier:
    """Signs as it is told, and answers, or raises, when asked about a reply.

    Attributes:
        asked: The fields and the signature of each reply that it was asked about.
    """

    def __init__(
        self,
        answer: bool | Exception = True,  # noqa: FBT002  # it says what it is
        sign: Callable[..., str] = lambda *_: "mine",
    ) -> None:
        self.asked: list[tuple[dict[str, str], str]] = []
        self.sign = sign
        self._answer = answer

    def verify(self, _: Operation, fields: Mapping[str, str], signature: str) -> bool:
        self.asked.append((dict(fields), signature))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer
