"""Connections to PostgreSQL that do not wait for ever.

Law: where the server says nothing for longer than any statement may take, the connection is closed,
whoever goes on acknowledging its packets.
"""

import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

SILENT_SECONDS = 75.0
"""Above the server's own limit for a statement."""


class _Bounded:
    """What is put before the driver's own connection."""

    pgconn: Any
    broken: bool
    failure: type[Exception]
    _is_silent = False

    @property
    def was_ended(self) -> bool:
        """Whether the server ended the connection; not where it only fell silent."""
        return self.broken and not self._is_silent

    def wait(self, gen: "Generator[Any, Any, T]", *arguments: Any, **named: Any) -> T:  # noqa: ANN401  # the driver's
        """Wait for the end of an exchange with the server.

        Raises:
            OperationalError: If the server says nothing for so long; the connection is closed.
        """
        value: T = super().wait(  # type: ignore[misc]  # the driver's
            self._bounded(gen, SILENT_SECONDS), *arguments, **named
        )
        return value

    def _bounded(self, gen: "Generator[Any, Any, T]", seconds: float) -> "Generator[Any, Any, T]":
        until = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= until:
                    self._is_silent = True
                    self.pgconn.finish()  # else a rollback would wait as long again
                    raise self.failure(f"the server said nothing for {seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as ended:
            value: T = ended.value
            return value


def bounded_connection(driver: Any) -> Any:  # noqa: ANN401  # psycopg, which only SQLAlchemy imports
    """Return a class of psycopg's connections whose every wait for the server ends."""
    return type(
        "BoundedConnection",
        (_Bounded, driver.Connection),
        {"failure": driver.OperationalError},
    )
