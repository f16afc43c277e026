"""Rows of CSV and JSON Lines, one by one, in bounded memory.

A row that cannot be read comes with its problems in place of its cells; what is wrong with the
whole file is raised. This module opens no file.
"""

import contextlib
import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import orjson

from gateway_async.cli.files.problems import Problem, TableError
from gateway_async.cli.files.writing import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_LINE_BYTES = 65_536
_BLOCK_BYTES = 1 << 20
_UTF_8_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_EXACT_INTEGER = 18
_MOST_DIGITS = 100
_MOST_NAMES = 1000
_SHOWN = 40
_SEPARATORS = ";\t|"


@attrs.frozen
class Row:
    """One row of a file.

    Attributes:
        line: The line that it begins in, from 1.
        cells: By column, what is in it; empty where the row cannot be read.
        problems: Why the row cannot be read.
    """

    line: int
    cells: Mapping[str, Any]
    problems: "Sequence[Problem]" = ()


@attrs.frozen
class _Line:
    """One line of a text file.

    Attributes:
        number: Its number, from 1.
        text: Its text, with what cannot be decoded replaced.
        problem: What is wrong with it.
        is_last: Whether reading ends here.
    """

    number: int
    text: str
    problem: Problem | None = None
    is_last: bool = False


class Readable(Protocol):
    """What rows are read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, and none at the end."""
        ...


def _lines(file: Readable) -> Iterator[_Line]:
    """Read lines, whatever ends them; the first that is too long is the last."""
    number, rest = 0, b""
    while True:
        block = file.read(_BLOCK_BYTES)
        if number == 0 and not rest:
            block = _without_mark(block)
        pieces = (rest + block).splitlines(keepends=True)
        # A line may go on in the next block, and so may the end of one, \r\n.
        rest = pieces.pop() if block and pieces else b""
        for raw in pieces:
            number += 1
            line = _line(number, raw)
            yield line
            if line.is_last:
                return
        if len(rest) > LONGEST_LINE_BYTES:
            yield _line(number + 1, rest)
            return
        if not block:
            return


def _without_mark(block: bytes) -> bytes:
    if block.startswith(_OTHER_ENCODINGS):
        raise TableError([Problem(line=1, reason="the file is UTF-16; save it as UTF-8")])
    return block.removeprefix(_UTF_8_MARK)


def _line(number: int, raw: bytes) -> _Line:
    if len(raw) > LONGEST_LINE_BYTES:
        reason = (
            f"more than {LONGEST_LINE_BYTES} bytes; a line has at most so many, and the file was "
            "not read beyond it"
        )
        return _Line(number, "", Problem(line=number, reason=reason), is_last=True)
    reason = ""
    if b"\0" in raw:
        reason = "a NUL byte; the file is damaged, or is not text"
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        reason = reason or f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        text = raw.decode(errors="replace")
    if not reason:
        return _Line(number, text)
    return _Line(number, text.replace("\0", ""), Problem(line=number, reason=reason))


class CsvRows(Iterable[Row]):
    """The rows of a CSV file with a header.

    Attributes:
        header: The names of the columns; known once the first row was asked for.
    """

    def __init__(self, file: Readable) -> None:
        self.header: list[str] = []
        self._file = file
        self._bad: list[Problem] = []

    def __iter__(self) -> Iterator[Row]:
        """Read the rows.

        Raises:
            TableError: If there is no header, or one that is no header.
        """
        reader = csv.reader(self._texts(), strict=True)
        for line, cells in self._records(reader):
            if self._bad and not self.header:
                raise TableError(self._bad)
            if self._bad:
                problems, self._bad = self._bad, []
                yield Row(line, {}, problems)
            elif not self.header:
                self.header = _header(line, cells)
            elif len(cells) != len(self.header):
                reason = f"{len(cells)} cells where the header has {len(self.header)}"
                yield Row(line, {}, [Problem(line=line, reason=reason)])
            else:
                yield Row(line, dict(zip(self.header, cells, strict=True)))
        if not self.header:
            raise TableError(self._bad or [Problem(line=1, reason="the file is empty")])
        if self._bad:
            yield Row(self._bad[0].line, {}, self._bad)

    def _texts(self) -> Iterator[str]:
        for line in _lines(self._file):
            if line.problem is not None:
                self._bad.append(line.problem)
            if not line.is_last:
                yield line.text

    def _records(self, reader: Any) -> Iterator[tuple[int, list[str]]]:  # noqa: ANN401  # `_csv.reader` has no public name
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                reason = f"not CSV from here on: {error}"
                self._bad = self._bad or [Problem(line=line, reason=reason)]
                return
            if self._bad or any(cell.strip() for cell in cells) or len(cells) > 1:
                yield line, cells


def _header(line: int, cells: list[str]) -> list[str]:
    if len(cells) == 1 and (separator := next((c for c in _SEPARATORS if c in cells[0]), None)):
        reason = f"separate the cells by ',' in place of {separator!r}"
        raise TableError([Problem(line=line, reason=reason)])
    twice = [name for name in dict.fromkeys(cells) if cells.count(name) > 1]
    if twice:
        reasons = {
            name: f"more than one column has {'this' if name else 'no'} name" for name in twice
        }
        raise TableError(Problem(line=line, column=n, reason=r) for n, r in reasons.items())
    return cells


class JsonRows(Iterable[Row]):
    """The rows of a JSON Lines file: one object a line."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._names: dict[str, None] = {}
        self._decoder = json.JSONDecoder(
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )

    @property
    def header(self) -> list[str]:
        """The names that were met so far."""
        return list(self._names)

    def __iter__(self) -> Iterator[Row]:
        """Read the rows.

        Raises:
            TableError: If there is none.
        """
        is_empty = True
        for line in _lines(self._file):
            if line.problem is not None:
                yield Row(line.number, {}, [line.problem])
            elif line.text.strip():
                yield self._row(line)
            else:
                continue
            is_empty = False
        if is_empty:
            raise TableError([Problem(line=1, reason="the file is empty")])

    def _row(self, line: _Line) -> Row:
        try:
            cells = self._decoder.decode(line.text)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}, at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        else:
            if isinstance(cells, dict):
                return self._object_row(line.number, cells)
            reason = 'not an object; a line is like {"order_no": "O1"}'
        return Row(line.number, {}, [Problem(line=line.number, reason=reason)])

    def _object_row(self, line: int, cells: dict[str, Any]) -> Row:
        self._names.update(dict.fromkeys(cells))
        if len(self._names) > _MOST_NAMES:
            reason = f"more than {_MOST_NAMES:,} different names in the file"
            raise TableError([Problem(line=line, reason=reason)])
        if _is_writable(cells):
            return Row(line, cells)
        reason = "half a surrogate pair, or nested too deeply: it cannot be written again"
        return Row(line, {}, [Problem(line=line, reason=reason)])


def _is_writable(cells: dict[str, Any]) -> bool:
    """Say whether a row can be written again: half a surrogate pair cannot."""
    try:
        to_json(cells)
    except orjson.JSONEncodeError:
        return False
    return True


def _decimal(text: str) -> Decimal:
    """Read a number that can be written out: 1e999999999 has that many digits."""
    with contextlib.suppress(InvalidOperation):  # for an exponent of twenty digits
        value = Decimal(text)
        if abs(value.adjusted()) <= _MOST_DIGITS:
            return value
    raise ValueError(f"{text[:_SHOWN]} has more than {_MOST_DIGITS} digits")


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_EXACT_INTEGER else Decimal(text)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is not a number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"{twice!r} stands in one object more than once")
