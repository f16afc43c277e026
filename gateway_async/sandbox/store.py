"""The sandbox's books in a SQLite file, so that they survive a restart.

What a request changed is written in one transaction, after the request was carried out.
"""

import json
import os
import sqlite3
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cattrs.preconf.json import JsonConverter, make_converter

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox.entries import Payout, Transaction

if TYPE_CHECKING:
    from gateway_async.sandbox.ledger import Ledger

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    entry_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('Transaction', 'Payout')),
    content TEXT NOT NULL
)
"""
_WRITE = """
INSERT INTO entries (entry_id, kind, content) VALUES (?, ?, ?)
ON CONFLICT (entry_id) DO UPDATE SET content = excluded.content
"""
_READ = "SELECT content FROM entries WHERE kind = ? ORDER BY rowid"


def _make_converter() -> JsonConverter:
    converter = make_converter()
    converter.register_unstructure_hook(Decimal, str)
    converter.register_structure_hook(Decimal, lambda text, _: Decimal(text))
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    converter.register_structure_hook(datetime, lambda text, _: datetime.fromisoformat(text))
    return converter


def _connect(path: "str | os.PathLike[str]") -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
        connection.execute(_READ, ("",))
        connection.commit()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


class Store:
    """Keeps a ledger in a file.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        ConfigurationError: It cannot be opened, or is another file.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self._converter = _make_converter()
        self._changed: dict[str, Transaction | Payout] = {}
        try:
            self._connection = _connect(path)
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"Sandbox.state: cannot keep the books in {os.fspath(path)!r}: {error}"
            ) from None

    def note(self, entry: Transaction | Payout) -> None:
        """Remember that an entry was made or changed."""
        self._changed[entry.transaction_id] = entry

    def load(self, ledger: "Ledger") -> None:
        """Enter in a ledger what the file holds."""
        ledger.restore(self._read(Transaction), self._read(Payout))

    def _read(self, kind: type[Any]) -> list[Any]:
        rows = self._connection.execute(_READ, (kind.__name__,))
        return [self._converter.structure(json.loads(content), kind) for (content,) in rows]

    def flush(self) -> None:
        """Write what was noted since the last time, whole or not at all."""
        if not self._changed:
            return
        rows = [self._row(entry) for entry in self._changed.values()]
        with self._connection:
            self._connection.executemany(_WRITE, rows)
        self._changed.clear()

    def _row(self, entry: Transaction | Payout) -> tuple[str, str, str]:
        content = json.dumps(self._converter.unstructure(entry))
        return entry.transaction_id, type(entry).__name__, content

    def close(self) -> None:
        """Write what is left, and close the file."""
        self.flush()
        self._connection.close()
