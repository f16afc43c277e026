"""The tables of a journal, as `tables.sql` has them.

What changes often is narrow, and apart from what never changes. There are no foreign keys, since
nothing is ever deleted.
"""

from collections.abc import Iterator
from pathlib import Path

_TABLES = Path(__file__).with_name("tables.sql")
# The words of tables.sql that differ: in SQLite, and in PostgreSQL.
_WORDS = {
    "SERIAL_KEY": ("INTEGER PRIMARY KEY", "BIGSERIAL PRIMARY KEY"),
    "BINARY_DATA": ("BLOB", "BYTEA"),
    "BY_KEY": ("WITHOUT ROWID", ""),
}


def statements(*, is_sqlite: bool) -> Iterator[str]:
    """Yield the statements that make the tables, in the words of a database."""
    text = _TABLES.read_text(encoding="utf-8")
    for word, (sqlite, postgres) in _WORDS.items():
        text = text.replace(word, sqlite if is_sqlite else postgres)
    yield from filter(str.strip, text.split(";\n"))
