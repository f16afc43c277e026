"""Rows into CSV or JSON Lines. This module opens no file."""

import csv
import io
from datetime import date
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, Protocol

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Sink(Protocol):
    """Takes rows, and writes them to a file."""

    def write(self, row: "Mapping[str, Any]") -> None:
        """Take one row: what it lacks of the columns is empty."""
        ...

    def close(self) -> None:
        """Write what is left; the file stays open."""
        ...


class CsvSink:
    """Writes CSV in UTF-8 with a header."""

    def __init__(self, file: IO[bytes], columns: "Sequence[str]") -> None:
        self._columns = tuple(columns)
        self._text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._quoting = csv.writer(self._text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        self._write(self._columns)

    def write(self, row: "Mapping[str, Any]") -> None:
        """Write one row."""
        self._write([to_cell(row.get(name)) for name in self._columns])

    def _write(self, cells: "Sequence[str]") -> None:
        # A lone \r is not quoted of itself, and would end the row for whoever reads it.
        writer = self._quoting if any("\r" in cell for cell in cells) else self._writer
        writer.writerow(cells)

    def close(self) -> None:
        """Write what is left."""
        self._text.flush()
        self._text.detach()


class JsonSink:
    """Writes JSON Lines; amounts of the input stay numbers, exactly."""

    def __init__(self, file: IO[bytes], columns: "Sequence[str]") -> None:
        self._file = file
        self._columns = frozenset(columns)

    def write(self, row: "Mapping[str, Any]") -> None:
        """Write one row; columns that it lacks are left out."""
        kept = {name: value for name, value in row.items() if name in self._columns}
        self._file.write(to_json(kept) + b"\n")

    def close(self) -> None:
        """Write what is left."""
        self._file.flush()


def to_json(value: object) -> bytes:
    """Write a value as JSON; a `Decimal` is a number, digit by digit."""
    return orjson.dumps(value, default=_other)


def _other(value: object) -> object:
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    return to_cell(value)


def to_cell(value: object) -> str:
    """Write a value as the text of a CSV cell; lists and objects are JSON.

    A NUL is replaced: the whole file would be refused for it when it is read again.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list | dict | bool):
        return to_json(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)
