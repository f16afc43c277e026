"""Tables in files: CSV with a header, or JSON Lines, read with every problem named by its line.

A file is copied when the command begins. It is gone through more than once: checked, sent, and
written out beside its outcomes. A change to it meanwhile, or a pipe that can be read only once,
must not matter. The file that a command writes is begun before anything is sent, and put in its
place at the very end.
"""

import contextlib
import csv
import io
import itertools
import json
import os
import shutil
import sys
import tempfile
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import attrs
import orjson

from gateway_async.errors import ConfigurationError
from gateway_async.models.values import is_encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

STDIO = Path("-")
"""Stands for standard input or output."""
SHOWN_PROBLEMS = 20
KEPT_PROBLEMS = 1000
LONGEST_LINE = 65_536
_LONGEST_EXACT_INTEGER = 18
_MOST_DIGITS = 100
_MOST_NAMES = 1000
_SHOWN = 40
_SEPARATORS = ";\t|"
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")


class Format(StrEnum):
    """A format of files."""

    CSV = "csv"
    JSONL = "jsonl"


_ENDINGS = {".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}
_FOREIGN = frozenset(
    {".json", ".xls", ".xlsx", ".ods", ".gz", ".zip", ".tsv", ".feather", ".parquet"}
)


def format_of(path: Path, stdio: Format) -> Format:
    """Return the format that a path means by its ending; CSV where the ending says nothing.

    Args:
        path: The path; `-` for standard input or output.
        stdio: What `-` means.

    Raises:
        ConfigurationError: For an ending of a format that is not read here.
    """
    ending = path.suffix.lower()
    if ending in _FOREIGN:
        raise ConfigurationError(
            f"{path}: expected a name that ends in {', '.join(_ENDINGS)}, got {ending}"
        )
    return stdio if path == STDIO else _ENDINGS.get(ending, Format.CSV)


# Problems


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a file, in one line or in several.

    Attributes:
        line: The line of the file, counted from 1 as an editor does.
        column: The name of the column, None where it is about the whole line.
        reason: What is wrong, and what would be right.
        more: How many later lines have the same.
        last: The last of those.
    """

    line: int
    column: str | None = None
    reason: str
    more: int = 0
    last: int = 0

    def __str__(self) -> str:
        place = f"line {self.line}"
        if self.more and self.last - self.line == self.more:
            place = f"lines {self.line} to {self.last}"
        elif self.more:
            place = f"{place} and {self.more:,} more"
        return f"{place}{f', column {self.column}' if self.column else ''}: {self.reason}"


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Args:
        problems: What is wrong with it, by line.

    Attributes:
        problems: The first thousand, those that are the same as one.
        count: How many there are, each in each line.
    """

    def __init__(self, problems: "Iterable[Problem]") -> None:
        kept: dict[tuple[str | None, str], Problem] = {}
        self.count: int = 0
        for problem in problems:
            self.count += 1
            cause = problem.column, problem.reason
            if cause in kept:
                same = kept[cause]
                kept[cause] = attrs.evolve(same, more=same.more + 1, last=problem.line)
            elif len(kept) < KEPT_PROBLEMS:
                kept[cause] = problem
        self.problems: tuple[Problem, ...] = tuple(kept.values())
        shown = self.problems[:SHOWN_PROBLEMS]
        hidden = self.count - sum(1 + problem.more for problem in shown)
        total = f"{self.count:,} problem{'s' * (self.count != 1)}"
        more = [f"... and {hidden:,} more"] if hidden else []
        super().__init__("\n".join([f"{total}, nothing was sent", *map(str, shown), *more]))


# Reading


@attrs.frozen
class Row:
    """One row of a file.

    Attributes:
        line: The line that it begins in, from 1.
        cells: By column, what is in it; empty where the row cannot be read.
        problems: Why the row cannot be read.
    """

    line: int
    cells: "Mapping[str, Any]"
    problems: tuple[Problem, ...] = ()


@attrs.define(eq=False, slots=False)
class _View(io.RawIOBase):
    """Reads a file from its beginning, whatever else reads it."""

    file: BinaryIO
    position: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # a writable buffer
        self.file.seek(self.position)
        block = self.file.read(len(buffer))
        buffer[: len(block)] = block
        self.position += len(block)
        return len(block)


def _lines(file: BinaryIO) -> "Iterator[tuple[str, Problem | None]]":
    """Read lines, whatever ends them, and what is wrong with each; one too long is the last."""
    text = io.TextIOWrapper(
        io.BufferedReader(_View(file)), "utf-8-sig", errors="surrogateescape", newline=""
    )
    for number in itertools.count(1):
        line, reason = text.readline(LONGEST_LINE + 1), ""
        if not line:
            return
        if number == 1 and line.startswith(_UTF_16):
            raise TableError([Problem(line=1, reason="the file is UTF-16; save it as UTF-8")])
        if len(line) > LONGEST_LINE:
            reason = (
                f"more than {LONGEST_LINE} characters; a line has at most so many, and the file "
                "was not read beyond it"
            )
        elif "\0" in line:
            reason = "a NUL byte; the file is damaged, or is not text"
        elif not is_encodable(line):
            at = next(n for n, one in enumerate(line, 1) if not is_encodable(one))
            reason = f"character {at} is not UTF-8; save the file as UTF-8"
        yield ("" if reason else line), Problem(line=number, reason=reason) if reason else None
        if len(line) > LONGEST_LINE:
            return


@attrs.define(kw_only=True, eq=False)
class Table:
    """The rows of a file, to be read as often as needed.

    Attributes:
        format: Its format.
        header: The names of its columns; all of them once it was read to its end.
    """

    format: Format
    header: dict[str, None] = attrs.field(factory=dict, init=False)
    _file: BinaryIO = attrs.field(repr=False)

    def rows(self) -> "Iterator[Row]":
        """Read the rows from the beginning.

        Raises:
            TableError: If the file is empty, or has a header that is none.
        """
        rows, is_empty = self._csv() if self.format is Format.CSV else self._json(), True
        for row in rows:
            is_empty = False
            yield row
        if is_empty and not self.header:
            raise TableError([Problem(line=1, reason="the file is empty")])

    def _csv(self) -> "Iterator[Row]":
        bad: list[Problem] = []

        def texts() -> "Iterator[str]":
            for text, problem in _lines(self._file):
                bad.extend([problem] if problem else [])
                yield text

        reader, header, cells = csv.reader(texts(), strict=True), list[str](), list[str]()
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                bad = bad or [Problem(line=line, reason=f"not CSV from here on: {error}")]
                yield Row(line, {}, tuple(bad))
                return
            is_blank = len(cells) <= 1 and not any(cell.strip() for cell in cells)
            if not header and not (is_blank and not bad):
                header = _checked(line, cells, bad)
                self.header.update(dict.fromkeys(header))
            elif bad or not is_blank:
                if not bad and len(cells) != len(header):
                    reason = f"{len(cells)} cells where the header has {len(header)}"
                    bad.append(Problem(line=line, reason=reason))
                row = {} if bad else dict(zip(header, cells, strict=True))
                yield Row(line, row, tuple(bad))
                bad.clear()

    def _json(self) -> "Iterator[Row]":
        decoder = json.JSONDecoder(
            parse_float=_number,
            parse_int=_number,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )
        for line, (text, problem) in enumerate(_lines(self._file), 1):
            if problem is not None:
                yield Row(line, {}, (problem,))
            if not text.strip():
                continue
            cells, reason = None, 'not an object; a line is like {"order_no": "O1"}'
            try:
                cells = decoder.decode(text)
                to_json(cells)
            except json.JSONDecodeError as error:
                reason = f"not JSON: {error.msg}, at character {error.pos + 1}"
            except orjson.JSONEncodeError:
                reason = "half a surrogate pair, or nested too deeply: it cannot be written again"
                cells = None
            except ValueError as error:
                reason = str(error)
            except RecursionError:
                reason = "nested too deeply"
            if isinstance(cells, dict):
                self.header.update(dict.fromkeys(cells))
                if len(self.header) > _MOST_NAMES:
                    reason = f"more than {_MOST_NAMES:,} different names in the file"
                    raise TableError([Problem(line=line, reason=reason)])
                yield Row(line, cells)
            else:
                yield Row(line, {}, (Problem(line=line, reason=reason),))


def _checked(line: int, header: list[str], bad: list[Problem]) -> list[str]:
    if bad:
        raise TableError(bad)
    if len(header) == 1 and (separator := next((c for c in _SEPARATORS if c in header[0]), None)):
        reason = f"separate the cells by ',' in place of {separator!r}"
        raise TableError([Problem(line=line, reason=reason)])
    if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
        raise TableError(
            Problem(
                line=line,
                column=name or None,
                reason=f"more than one column has {'this' if name else 'no'} name",
            )
            for name in twice
        )
    return header


def _number(text: str) -> int | Decimal:
    """Read a number exactly, if it can be written out: 1e999999999 has that many digits."""
    if len(text) <= _LONGEST_EXACT_INTEGER and text.lstrip("-").isdecimal():
        return int(text)
    with contextlib.suppress(InvalidOperation):  # for an exponent of twenty digits
        value = Decimal(text)
        if abs(value.adjusted()) <= _MOST_DIGITS:
            return value
    raise ValueError(f"{text[:_SHOWN]} has more than {_MOST_DIGITS} digits")


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is not a number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"{twice!r} stands in one object more than once")


def to_json(value: object) -> bytes:
    """Write a value as JSON; a `Decimal` is a number, digit by digit."""
    return orjson.dumps(value, default=_exact)


def _exact(value: object) -> object:
    is_short = isinstance(value, Decimal) and abs(value.adjusted()) <= _MOST_DIGITS
    return orjson.Fragment(format(value, "f")) if is_short else str(value)


@contextlib.contextmanager
def open_table(path: Path, stdio: Format) -> "Iterator[Table]":
    """Copy a file, or standard input, to where nothing changes it.

    Args:
        path: The file; `-` for standard input.
        stdio: The format of standard input.

    Raises:
        ConfigurationError: If it cannot be read, or its ending is of no format.
    """
    kind = format_of(path, stdio)
    with contextlib.ExitStack() as opened:
        try:
            copy = opened.enter_context(tempfile.TemporaryFile())
            if path == STDIO:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as file:
                    shutil.copyfileobj(file, copy)
            copy.flush()  # a full disk shows here, or else when the copy is read
        except OSError as error:
            with contextlib.suppress(OSError):  # closing would raise it once more
                opened.close()
            name = "standard input" if path == STDIO else path
            raise ConfigurationError(f"cannot read {name}: {error.strerror or error}") from None
        yield Table(format=kind, file=copy)


# Writing


@attrs.define(kw_only=True)
class OutFile:
    """A file that is being written.

    Attributes:
        name: What it is called in messages.
        format: Its format.
        is_whole: Whether all rows were written: else it is not put in place.
        problem: Why the rows are not where they were asked for; empty where they are.
    """

    name: str
    format: Format
    is_whole: bool = False
    problem: str = ""
    _file: IO[bytes] = attrs.field(repr=False)

    @contextlib.contextmanager
    def writing(
        self, columns: "Sequence[str]"
    ) -> "Iterator[Callable[[Mapping[str, Any]], object]]":
        """Write rows in UTF-8: of CSV all columns as text, of JSON Lines those that a row has.

        Where the block ends without an error, the file is whole.
        """
        if self.format is Format.JSONL:
            yield lambda row: self._file.write(
                to_json({name: row[name] for name in row if name in columns}) + b"\n"
            )
        else:
            text: Any = SimpleNamespace(
                write=lambda text: self._file.write(text.encode(errors="backslashreplace"))
            )
            usual = csv.writer(text, lineterminator="\n")
            quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)

            def write(row: "Mapping[str, Any]") -> None:
                cells = [_text(row.get(name)) for name in columns]
                # A lone \r is not quoted by itself, and would end the row for its reader.
                (quoting if any("\r" in cell for cell in cells) else usual).writerow(cells)

            usual.writerow(columns)
            yield write
        self._file.flush()
        if self._file is not sys.stdout.buffer:
            os.fsync(self._file.fileno())
        self.is_whole = True


def _text(value: Any) -> str:  # noqa: ANN401  # any cell
    """Write a value as the text of a cell; lists and objects are JSON.

    A NUL is replaced: a file with one is refused when it is read again.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | dict | bool):
        return to_json(value).decode()
    is_short = isinstance(value, Decimal) and abs(value.adjusted()) <= _MOST_DIGITS
    return format(value, "f") if is_short else str(value)  # 1e99999999 would have as many digits


def check_place(path: Path, stdio: Format) -> Format:
    """Return the format in which a file would be written.

    Args:
        path: The file; `-` for standard output.
        stdio: The format of standard output.

    Raises:
        ConfigurationError: If it could not be written there.
    """
    kind = format_of(path, stdio)
    if path == STDIO:
        return kind
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no file; name one, or - for standard output")
    if not path.parent.is_dir():
        raise ConfigurationError(f"cannot write {path}: there is no directory {path.parent}")
    return kind


@contextlib.contextmanager
def out_file(path: Path, stdio: Format, warn: "Callable[[str], None]") -> "Iterator[OutFile]":
    """Open a file for what a command will write; it is put in place once it is whole.

    A file of its name that is there by then is kept under another name.

    Args:
        path: The file; `-` for standard output.
        stdio: The format of standard output.
        warn: Called with what a person should know.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    kind = check_place(path, stdio)
    if path == STDIO:
        yield OutFile(name="standard output", format=kind, file=sys.stdout.buffer)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = beside.open("xb")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
    out = OutFile(name=str(path), format=kind, file=file)
    try:
        yield out
    finally:
        with contextlib.suppress(OSError):  # what a full disk takes no more of is not whole
            file.close()
        if out.is_whole:
            try:
                if path.exists():
                    other = _free_name(path)
                    path.rename(other)
                    warn(f"{path} was there already; it is now {other}")
                beside.rename(path)
            except OSError as error:
                out.problem = f"{path} cannot be put in place: {error.strerror}"
                warn(f"{out.problem}; what belongs there is {beside}")
        else:
            beside.unlink()
            out.problem = f"{path} was not written"


def _free_name(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(21, f"{path} is a directory")
    names = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
