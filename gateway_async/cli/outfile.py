"""The file that a command writes: begun before anything is sent, in its place at the very end."""

import contextlib
import csv
import itertools
import os
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

import attrs

from gateway_async.cli.tables import STDIO, Format, format_of, to_json
from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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
                to_json({n: to_text(v, exact=True) for n, v in row.items() if n in columns}) + b"\n"
            )
        else:
            text: Any = SimpleNamespace(
                write=lambda text: self._file.write(text.encode(errors="backslashreplace"))
            )
            usual = csv.writer(text, lineterminator="\n")
            quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)

            def write(row: "Mapping[str, Any]") -> None:
                cells = [to_text(row.get(name)) for name in columns]
                # A lone \r is not quoted by itself, and would end the row for its reader.
                (quoting if any("\r" in cell for cell in cells) else usual).writerow(cells)

            usual.writerow(columns)
            yield write
        self._file.flush()
        if self._file is not sys.stdout.buffer:
            os.fsync(self._file.fileno())
        self.is_whole = True


def to_text(value: Any, *, exact: bool = False) -> Any:  # noqa: ANN401  # any cell
    """Write a value as the text of a cell; lists and objects are JSON.

    A NUL is replaced: a file with one is refused when it is read again.

    Args:
        value: The value.
        exact: Whether JSON has it: only what JSON has no word for becomes text.
    """
    if isinstance(value, date):
        return value.isoformat()
    if exact:
        return value
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list | dict | bool):
        return to_json(value).decode()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


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
