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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, BinaryIO

import attrs
import orjson

from gateway_async.errors import ConfigurationError
from gateway_async.models.values import is_encodable

STDIO = Path("-")
"""Stands for standard input or output."""
SHOWN_PROBLEMS = 20
KEPT_PROBLEMS = 1000
LONGEST_LINE = 65_536
_LONGEST_EXACT_INTEGER = 18
MOST_DIGITS = 100
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
        place = f"line {self.line}{f' and {self.more:,} more' if self.more else ''}"
        if self.more and self.last - self.line == self.more:
            place = f"lines {self.line} to {self.last}"
        return f"{place}{f', column {self.column}' if self.column else ''}: {self.reason}"


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Args:
        problems: What is wrong with it, by line.

    Attributes:
        problems: The first thousand, those that are the same as one.
        count: How many there are, each in each line.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
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
    cells: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()


@attrs.define(eq=False, slots=False)
class _View(io.RawIOBase):
    """Reads a file from its beginning, whatever else reads it."""

    file: BinaryIO
    position: int = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.file.seek(self.position)
        block = self.file.read(len(buffer))
        buffer[: len(block)] = block
        self.position += len(block)
        return len(block)


def _lines(file: BinaryIO) -> Iterator[tuple[int, str, tuple[Problem, ...]]]:
    """Read lines, whatever ends them, and what is wrong with each; one too long is the last."""
    raw = io.BufferedReader(_View(file))
    text = io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="")
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
        if not reason:
            yield number, line, ()
        else:
            yield number, "", (Problem(line=number, reason=reason),)
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

    def rows(self) -> Iterator[Row]:
        """Read the rows from the beginning.

        Raises:
            TableError: If the file is empty, or its header cannot be used.
        """
        rows = self._csv() if self.format is Format.CSV else self._json()
        if (first := next(rows, None)) is not None:
            yield first
            yield from rows
        elif not self.header:
            raise TableError([Problem(line=1, reason="the file is empty")])

    def _csv(self) -> Iterator[Row]:
        bad = list[Problem]()

        def texts() -> Iterator[str]:
            for _, text, problems in _lines(self._file):
                bad.extend(problems)
                yield text

        reader, header, line, cells = csv.reader(texts(), strict=True), list[str](), 1, list[str]()
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                broken = Problem(line=line, reason=f"not CSV from here on: {error}")
                yield Row(line, {}, tuple(bad) or (broken,))
                return
            if not bad and len(cells) <= 1 and not any(cell.strip() for cell in cells):
                continue  # a blank line
            if not header:
                header = _checked(line, cells, bad)
                self.header.update(dict.fromkeys(header))
                continue
            if not bad and len(cells) != len(header):
                reason = f"{len(cells)} cells where the header has {len(header)}"
                bad.append(Problem(line=line, reason=reason))
            yield Row(line, {} if bad else dict(zip(header, cells, strict=True)), tuple(bad))
            bad.clear()

    def _json(self) -> Iterator[Row]:
        decoder = json.JSONDecoder(
            parse_float=_number,
            parse_int=_number,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )
        for line, text, unreadable in _lines(self._file):
            if not unreadable and not text.strip():
                continue
            cells, reason = ({}, "") if unreadable else _decoded(decoder, text)
            self.header.update(dict.fromkeys(cells))
            if len(self.header) > _MOST_NAMES:
                reason = f"more than {_MOST_NAMES:,} different names in the file"
                raise TableError([Problem(line=line, reason=reason)])
            yield Row(line, cells, (Problem(line=line, reason=reason),) if reason else unreadable)


def _decoded(decoder: json.JSONDecoder, text: str) -> tuple[dict[str, Any], str]:
    """Read an object that can be written again; of another text, say why not."""
    try:
        value = decoder.decode(text)
        to_json(value)
    except json.JSONDecodeError as error:
        return {}, f"not JSON: {error.msg}, at character {error.pos + 1}"
    except orjson.JSONEncodeError:
        return {}, "half a surrogate pair, or nested too deeply: it cannot be written again"
    except ValueError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "nested too deeply"
    if not isinstance(value, dict):
        return {}, 'not an object; a line is like {"order_no": "O1"}'
    return value, ""


def _checked(line: int, header: list[str], bad: list[Problem]) -> list[str]:
    """Return a header that can be used."""
    if bad:
        raise TableError(bad)
    if len(header) == 1 and (separator := next((c for c in _SEPARATORS if c in header[0]), None)):
        reason = f"separate the cells by ',' in place of {separator!r}"
        raise TableError([Problem(line=line, reason=reason)])
    if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
        reason = "more than one column has {} name"
        raise TableError(
            Problem(line=line, column=name or None, reason=reason.format("this" if name else "no"))
            for name in twice
        )
    return header


def _number(text: str) -> int | Decimal:
    """Read a number exactly, if it can be written out: 1e999999999 has that many digits."""
    if len(text) <= _LONGEST_EXACT_INTEGER and text.lstrip("-").isdecimal():
        return int(text)
    with contextlib.suppress(InvalidOperation):  # for an exponent of twenty digits
        value = Decimal(text)
        if abs(value.adjusted()) <= MOST_DIGITS:
            return value
    raise ValueError(f"{text[:_SHOWN]} has more than {MOST_DIGITS} digits")


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is not a number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands in one object more than once")
    return made


@contextlib.contextmanager
def open_table(path: Path, stdio: Format) -> Iterator[Table]:
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


def to_text(value: object) -> str:
    """Write the value of a cell as text; an empty one is none, lists and objects are JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict | bool):
        return to_json(value).decode()
    if isinstance(value, Decimal) and abs(value.adjusted()) <= MOST_DIGITS:
        return format(value, "f")  # 1e99999999 would have as many digits
    if isinstance(value, date):
        return value.isoformat()
    return "" if value is None else str(value)


def to_json(value: object) -> bytes:
    """Write a value as JSON; a `Decimal` is a number, digit by digit."""
    return orjson.dumps(value, default=_exact)


def _exact(value: object) -> object:
    is_short = isinstance(value, Decimal) and abs(value.adjusted()) <= MOST_DIGITS
    return orjson.Fragment(format(value, "f")) if is_short else str(value)


@attrs.define(kw_only=True)
class OutFile:
    """A file that is being written.

    Attributes:
        name: What it is called in messages.
        format: Its format.
        is_whole: Whether all of it was written: else it is not put in place.
        problem: Why it is not where it was asked for; empty where it is.
    """

    name: str
    format: Format = Format.CSV
    is_whole: bool = False
    problem: str = ""
    _file: IO[bytes] = attrs.field(repr=False)

    @contextlib.contextmanager
    def writing(self, columns: Sequence[str]) -> Iterator[Callable[[Mapping[str, Any]], object]]:
        """Write rows in UTF-8: of CSV all columns as text, of JSON Lines those that a row has.

        Where the block ends without an error, the file is whole.
        """
        text: Any = SimpleNamespace(
            write=lambda text: self._file.write(text.encode(errors="backslashreplace"))
        )
        usual = csv.writer(text, lineterminator="\n")
        quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)

        def write_csv(row: Mapping[str, Any]) -> None:
            # A NUL is replaced: a file with one is refused when it is read again. A lone \r is not
            # quoted by itself, and would end the row for its reader.
            cells = [to_text(row.get(name)).replace("\0", "\ufffd") for name in columns]
            (quoting if any("\r" in cell for cell in cells) else usual).writerow(cells)

        def write_json(row: Mapping[str, Any]) -> None:
            self._file.write(to_json({n: row[n] for n in row if n in columns}) + b"\n")

        if self.format is Format.CSV:
            usual.writerow(columns)
        yield write_csv if self.format is Format.CSV else write_json
        self.end()

    def end(self, text: str = "") -> None:
        """Write the rest, if any: the file is whole."""
        self._file.write(text.encode(errors="backslashreplace"))
        self._file.flush()
        if self._file is not sys.stdout.buffer:
            os.fsync(self._file.fileno())
        self.is_whole = True


@contextlib.contextmanager
def out_file(path: Path, stdio: Format, warn: Callable[[str], None]) -> Iterator[OutFile]:
    """Open a file of rows for what a command will write; see `new_file`.

    Args:
        path: The file; `-` for standard output.
        stdio: The format of standard output.
        warn: Called with what a person should know.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    kind = format_of(path, stdio)
    if path != STDIO and path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no file; name one, or - for standard output")
    if path == STDIO:
        yield OutFile(name="standard output", format=kind, file=sys.stdout.buffer)
        return
    with new_file(path, warn) as file:
        file.format = kind
        yield file


@contextlib.contextmanager
def new_file(
    path: Path,
    warn: Callable[[str], None],
    *,
    option: str = "",
    is_private: bool = False,
    replaces: Callable[[Path], bool] = lambda _: False,
) -> Iterator[OutFile]:
    """Begin a file beside its place; it is put there once it is whole.

    Args:
        path: The file.
        warn: Called with what a person should know.
        option: Begins the message where it cannot be written.
        is_private: Whether only its owner may read it.
        replaces: Whether it takes the place of a file that is there by then; else that one is
            kept under another name.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = beside.open("xb")
        if is_private:
            beside.chmod(0o600)
    except OSError as error:
        raise ConfigurationError(f"{option}cannot write {path}: {error.strerror}") from None
    out = OutFile(name=str(path), file=file)
    try:
        yield out
    finally:
        with contextlib.suppress(OSError):  # what a full disk takes no more of is not whole
            file.close()
        if not out.is_whole:
            beside.unlink()
            out.problem = f"{path} was not written"
        else:
            try:
                if path.exists() and not (path.is_file() and replaces(path)):
                    other = _free_name(path)
                    path.rename(other)
                    warn(f"{path} was there already; it is now {other}")
                beside.replace(path)
            except OSError as error:
                out.problem = f"{path} cannot be put in place: {error.strerror}"
                warn(f"{out.problem}; what belongs there is {beside}")


def _free_name(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(21, f"{path} is a directory")
    names = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
