"""What is kept of rows and orders while a command works, however many there are."""

import pickle
import sqlite3
from collections.abc import Iterator
from typing import Any


class Kept:
    """Things by position: in memory while they are few, on disk beyond that.

    Raises:
        OSError: In place of an error of the database, as where the disk is full.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE kept (at INTEGER PRIMARY KEY, thing BLOB)")

    def __setitem__(self, at: int, thing: object) -> None:
        row = at, pickle.dumps(thing)
        try:
            self._database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", row)
        except sqlite3.Error as error:
            raise OSError(f"a temporary file takes no more: {error}") from None

    def get(self, at: int) -> Any:
        """Return what is kept there; None for nothing."""
        found = self._database.execute("SELECT thing FROM kept WHERE at = ?", (at,)).fetchone()
        return None if found is None else pickle.loads(found[0])  # noqa: S301  # it is our own

    def __iter__(self) -> Iterator[Any]:
        for (thing,) in self._database.execute("SELECT thing FROM kept ORDER BY at"):
            yield pickle.loads(thing)  # noqa: S301  # it is our own

    def close(self) -> None:
        """Drop all of it."""
        self._database.close()
