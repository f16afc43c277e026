"""Files of rows: CSV that is read with every problem named by its line, and written whole.

A file is copied when the command begins. It is gone through more than once: checked, sent, and
written out beside its outcomes. A change to it meanwhile, or a pipe that can be read only once,
must not matter. The file that a command writes is begun before anything is sent, and put in its
place at the very end.
"""

import contextlib
import csv
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TextIO

from gateway_async.errors import ConfigurationError
from gateway_async.models.values import is_encodable

STDIO = Path("-")
"""Stands for standard input or output."""
SHOWN_PROBLEMS = 100
MOST_DIGITS = 100

# Problems


class Problem(NamedTuple):
    """One thing that is wrong with a file: the line, from 1, the column if it is one, and why."""

    line: int
    column: str | None
    reason: str


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Args:
        problems: What is wrong with it; the first of them are shown.

    Attributes:
        count: How many there are.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.count: int = 0
        shown = list[str]()
        for line, column, reason in problems:
            self.count += 1
            if self.count <= SHOWN_PROBLEMS:
                shown.append(f"line {line}{f', column {column}' if column else ''}: {reason}")
        hidden = self.count - len(shown)
        total = f"{self.count:,} problem{'s' * (self.count != 1)}, nothing was done"
        super().__init__("\n".join([total, *shown, *[f"... and {hidden:,} more"][: bool(hidden)]]))


# Reading


class Row(NamedTuple):
    """One row of a file: the line that it begins in, its cells by column, and what is wrong."""

    line: int
    cells: Mapping[str, str]
    problems: Sequence[Problem] = ()


class Table:
    """The rows of a file, to be read as often as needed.

    Args:
        path: The file, which nothing changes.

    Attributes:
        header: The names of its columns.

    Raises:
        TableError: If the file is empty, or its header cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.header: list[str] = []
        next(self.rows(), None)

    def rows(self) -> Iterator[Row]:
        """Read the rows from the beginning."""
        with self._path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            reader = csv.reader(text, strict=True)
            line, header = 1, list[str]()
            try:
                for cells in reader:
                    begins, line = line, reader.line_num + 1
                    if len(cells) <= 1 and not any(cell.strip() for cell in cells):
                        continue  # a blank line
                    if header:
                        joined = "".join(cells)
                        is_text = is_encodable(joined) and "\0" not in joined
                        is_right = is_text and len(cells) == len(header)
                        wrong = () if is_right else [*_problems(begins, header, cells)]
                        yield Row(begins, dict(zip(header, cells, strict=False)), wrong)
                    else:
                        twice = [name for name, count in Counter(cells).items() if count > 1]
                        if twice:
                            reason = "more than one column has this name"
                            raise TableError(Problem(begins, name, reason) for name in twice)
                        self.header = header = cells
            except csv.Error as error:
                broken = Problem(line, None, f"not CSV from here on: {error}")
                if not header:
                    raise TableError([broken]) from None
                yield Row(line, {}, [broken])
            if not header:
                raise TableError([Problem(1, None, "the file is empty")])


def _problems(line: int, header: list[str], cells: list[str]) -> Iterator[Problem]:
    """Yield why a row cannot be read."""
    if len(cells) != len(header):
        reason = f"{len(cells)} cells where the header has {len(header)}"
        yield Problem(line, None, reason)
    for column, cell in zip(header, cells, strict=False):
        if not is_encodable(cell) or "\0" in cell:
            yield Problem(line, column, "is not UTF-8, or is no text; save the file as UTF-8")


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[Table]:
    """Copy a file, or standard input, to where nothing changes it.

    Args:
        path: The file; `-` for standard input.

    Raises:
        ConfigurationError: If it cannot be read.
        TableError: If it is empty, or its header cannot be used.
    """
    with contextlib.ExitStack() as opened:
        try:
            copy = opened.enter_context(tempfile.NamedTemporaryFile())
            is_stdin = path == STDIO
            source = sys.stdin.buffer if is_stdin else opened.enter_context(path.open("rb"))
            shutil.copyfileobj(source, copy)
            copy.flush()  # a full disk shows here, or else when the copy is read
        except OSError as error:
            with contextlib.suppress(OSError):  # closing would raise it once more
                opened.close()
            name = "standard input" if path == STDIO else path
            raise ConfigurationError(
                f"cannot read {name}: {error.strerror or error}; expected a CSV file, or - for "
                "standard input"
            ) from None
        yield Table(Path(copy.name))


# Writing


def to_text(value: object) -> str:
    """Write the value of a cell as text; None as an empty one."""
    if isinstance(value, Decimal) and abs(value.adjusted()) <= MOST_DIGITS:
        return format(value, "f")  # 1e99999999 would have as many digits
    if isinstance(value, date):
        return value.isoformat()
    return "" if value is None else str(value)


def csv_writer(text: TextIO, columns: Sequence[str]) -> Callable[[Mapping[str, Any]], None]:
    """Write a header, and return what writes a row; cells of other columns are left out."""

    def write(row: str) -> None:
        # A lone \r is quoted only where it ends rows. A file with a NUL could not be read again.
        text.write(row.removesuffix("\r\n").replace("\0", "\ufffd") + "\n")

    writer: Any = csv.writer(SimpleNamespace(write=write), lineterminator="\r\n")
    writer.writerow(columns)
    return lambda row: writer.writerow([to_text(row.get(name)) for name in columns])


@contextlib.contextmanager
def out_file(path: Path) -> Iterator[TextIO]:
    """Begin a file under another name; it gets its own if the block ends without an error.

    Only its owner may read it. A file that is there already is then replaced.

    Args:
        path: The file; `-` for standard output.

    Raises:
        ConfigurationError: If it cannot be written.
        OSError: If it takes no more, or cannot be put in place.
    """
    form: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    if path == STDIO:
        stdout: Any = sys.stdout
        stdout.reconfigure(newline="")
        yield stdout
        stdout.flush()
        return
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no file; name one")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
    try:
        with beside.open("w", **form) as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
