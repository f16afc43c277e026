"""Files of rows: CSV that is read with every problem named by its line, and written whole.

A file is copied when the command begins. It is gone through more than once: checked, sent, and
written out beside its outcomes. A change to it meanwhile, or a pipe that can be read only once,
must not matter. The file that a command writes is begun before anything is sent, and put in its
place at the very end.
"""

import contextlib
import csv
import io
import itertools
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
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
MOST_DIGITS = 100
_SEPARATORS = ";\t|"
_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")
_FOREIGN = frozenset(
    {".json", ".jsonl", ".ndjson", ".xls", ".xlsx", ".ods", ".gz", ".zip", ".tsv", ".parquet"}
)


def check_is_csv(path: Path) -> None:
    """Refuse a name whose ending is of another format.

    Raises:
        ConfigurationError: For an ending of a format that is not read here.
    """
    if path.suffix.lower() in _FOREIGN:
        raise ConfigurationError(f"{path}: expected CSV, such as a name that ends in .csv")


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
    cells: Mapping[str, str]
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


@attrs.define(eq=False)
class Table:
    """The rows of a file, to be read as often as needed.

    Attributes:
        header: The names of its columns, once it was read.
    """

    _file: BinaryIO = attrs.field(repr=False)
    header: list[str] = attrs.field(factory=list, init=False)

    def rows(self) -> Iterator[Row]:
        """Read the rows from the beginning.

        Raises:
            TableError: If the file is empty, or its header cannot be used.
        """
        bad, header, line, cells = list[Problem](), list[str](), 1, list[str]()
        reader = csv.reader(self._lines(bad), strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                broken = Problem(line=line, reason=f"not CSV from here on: {error}")
                yield Row(line, {}, tuple(bad) or (broken,))
                return
            if not bad and len(cells) <= 1 and not any(cell.strip() for cell in cells):
                continue  # a blank line
            if not header:
                self.header = header = _checked(line, cells, bad)
                continue
            if not bad and len(cells) != len(header):
                reason = f"{len(cells)} cells where the header has {len(header)}"
                bad.append(Problem(line=line, reason=reason))
            yield Row(line, {} if bad else dict(zip(header, cells, strict=True)), tuple(bad))
            bad.clear()
        if not header:
            raise TableError([Problem(line=1, reason="the file is empty")])

    def _lines(self, bad: list[Problem]) -> Iterator[str]:
        """Read lines, whatever ends them; `bad` gets what is wrong. One too long is the last."""
        raw = io.BufferedReader(_View(self._file))
        text = io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="")
        for number in itertools.count(1):
            line, reason = text.readline(LONGEST_LINE + 1), ""
            if number == 1 and line.startswith(_UTF_16):
                reason = "the file is UTF-16; save it as UTF-8"
                raise TableError([Problem(line=1, reason=reason)])
            if len(line) > LONGEST_LINE:
                reason = (
                    f"more than {LONGEST_LINE} characters; a line has at most so many, and the "
                    "file was not read beyond it"
                )
            elif "\0" in line:
                reason = "a NUL byte; the file is damaged, or is not text"
            elif not is_encodable(line):
                at = next(n for n, one in enumerate(line, 1) if not is_encodable(one))
                reason = f"character {at} is not UTF-8; save the file as UTF-8"
            if reason:
                bad.append(Problem(line=number, reason=reason))
            if line:
                yield "" if reason else line
            if not line or len(line) > LONGEST_LINE:
                return


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


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[Table]:
    """Copy a file, or standard input, to where nothing changes it.

    Args:
        path: The file; `-` for standard input.

    Raises:
        ConfigurationError: If it cannot be read, or its ending is of another format.
    """
    check_is_csv(path)
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
        yield Table(copy)


# Writing


def to_text(value: object) -> str:
    """Write the value of a cell as text; an empty one is none, lists are JSON."""
    if isinstance(value, list):
        return orjson.dumps(value).decode()
    if isinstance(value, Decimal) and abs(value.adjusted()) <= MOST_DIGITS:
        return format(value, "f")  # 1e99999999 would have as many digits
    if isinstance(value, date):
        return value.isoformat()
    return "" if value is None else str(value)


@attrs.define(kw_only=True)
class OutFile:
    """A file that is being written; where it takes no more, the rest is left out.

    Attributes:
        name: What it is called in messages.
        is_whole: Whether all of it was written: else it is not put in place.
        problem: Why it is not where it was asked for; empty where it is.
    """

    name: str
    is_whole: bool = False
    problem: str = ""
    _file: IO[bytes] = attrs.field(repr=False)

    @contextlib.contextmanager
    def writing(self, columns: Sequence[str]) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Write rows as CSV in UTF-8; where the block ends without an error, the file is whole."""
        text: Any = SimpleNamespace(write=self._put)
        usual = csv.writer(text, lineterminator="\n")
        quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)

        def write(row: Mapping[str, Any]) -> None:
            # A NUL is replaced: a file with one is refused when it is read again. A lone \r is not
            # quoted by itself, and would end the row for its reader.
            cells = [to_text(row.get(name)).replace("\0", "\ufffd") for name in columns]
            (quoting if any("\r" in cell for cell in cells) else usual).writerow(cells)

        usual.writerow(columns)
        yield write
        self.end()

    def end(self, text: str = "") -> None:
        """Write the rest, if any: the file is whole, unless something could not be written."""
        self._put(text, is_last=True)
        self.is_whole = not self.problem

    def _put(self, text: str, *, is_last: bool = False) -> None:
        if self.problem:
            return
        try:
            self._file.write(text.encode(errors="backslashreplace"))
            if is_last:
                self._file.flush()
            if is_last and self._file is not sys.stdout.buffer:
                os.fsync(self._file.fileno())
        except OSError as error:
            self.problem = f"{self.name} cannot be written: {error.strerror}"


@contextlib.contextmanager
def out_file(
    path: Path, warn: Callable[[str], None], *, option: str = "", is_private: bool = False
) -> Iterator[OutFile]:
    """Begin a file beside its place; it is put there once it is whole.

    A file that is there by then is kept under another name.

    Args:
        path: The file; `-` for standard output.
        warn: Called with what a person should know.
        option: Begins the message where it cannot be written.
        is_private: Whether only its owner may read it.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    if path == STDIO:
        yield OutFile(name="standard output", file=sys.stdout.buffer)
        return
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{option}{path} is no file; name one")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
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
        if out.is_whole:
            try:
                if path.exists():
                    other = _free_name(path)
                    path.rename(other)
                    warn(f"{path} was there already; it is now {other}")
                beside.replace(path)
            except OSError as error:
                out.problem = f"{path} cannot be put in place: {error.strerror}"
                warn(f"{out.problem}; what belongs there is {beside}")
        else:
            beside.unlink()
            out.problem = out.problem or f"{path} was not written"


def _free_name(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(21, f"{path} is a directory")
    names = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
