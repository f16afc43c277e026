"""The file that a command writes: begun before anything is sent, in its place at the very end.

Law: no outcome is lost because a file takes no more: it then goes to a file of its own, or to
standard output.
"""

import contextlib
import errno
import itertools
import os
import sys
import tempfile
import uuid
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs

from gateway_async.cli.files.formats import KINDS, STDIO, Format, format_of
from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gateway_async.cli.files.writing import Sink

    Rows = Callable[[], Iterable[Mapping[str, Any]]]


class Existing(Enum):
    """What becomes of a file that is there already."""

    SET_ASIDE = "set aside"
    """It is kept under another name: the same command goes on with its job."""

    SET_ASIDE_AT_END = "set aside at the end"
    """The same, once the command has come to its end: what is looked up can be again."""


@attrs.define(kw_only=True)
class OutFile:
    """A file that is being written.

    Attributes:
        place: Where the rows are to be found; `-` for standard output.
        format: Its format.
        warn: Told where the rows went if the file took no more.
        is_cut: Whether the file took no more: what it holds is of no use.
        is_astray: Whether the rows are elsewhere than was asked for; known once the block ended.
    """

    place: Path
    format: Format
    warn: "Callable[[str], None]"
    _file: "IO[bytes]" = attrs.field(repr=False)
    is_cut: bool = False
    is_astray: bool = False

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard output" if self.place == STDIO else str(self.place)

    def sink(self, columns: "Sequence[str]") -> "Sink":
        """Begin to write rows; whoever does must close it."""
        return KINDS[self.format].sink(self._file, columns)

    def write_all(self, columns: "Sequence[str]", rows: "Rows") -> None:
        """Write all rows: into the file, or else to where they are not lost.

        Args:
            columns: The columns.
            rows: Gives the rows, and once more if they must be written again.
        """
        try:
            self._write(self._file, self.format, columns, rows)
        except OSError as error:
            reason = f"{self.name} takes no more: {error.strerror or error}"
        else:
            return
        self._give_up()
        try:
            with tempfile.NamedTemporaryFile(
                prefix="gateway-async-outcomes-", suffix=f".{self.format}", delete=False
            ) as other:
                self._write(other, self.format, columns, rows)
            self.place = Path(other.name)
            self.warn(f"{reason}; the outcomes are in {other.name}")
        except OSError:
            self.place = STDIO
            self.warn(f"{reason}; the outcomes are on standard output")
            self._write(sys.stdout.buffer, self.format, columns, rows)

    def _give_up(self) -> None:
        """Close the file: half of the outcomes are not put in its place."""
        self.is_cut = self.is_astray = True
        if self._file is not sys.stdout.buffer:
            with contextlib.suppress(OSError):
                self._file.close()

    def _write(
        self, file: "IO[bytes]", kind: Format, columns: "Sequence[str]", rows: "Rows"
    ) -> None:
        sink = KINDS[kind].sink(file, columns)
        for row in rows():
            sink.write(row)
        sink.close()
        file.flush()
        if file is not sys.stdout.buffer:
            os.fsync(file.fileno())


def check_place(path: Path, stdio: Format) -> Format:
    """Say in which format a file would be written.

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
def out_file(
    path: Path, stdio: Format, *, existing: Existing, warn: "Callable[[str], None]"
) -> "Iterator[OutFile]":
    """Open a file for what a command will write; it is put in place when the block ends.

    Args:
        path: The file; `-` for standard output.
        stdio: The format of standard output.
        existing: What becomes of a file that is there already.
        warn: Told what somebody should know.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    kind = check_place(path, stdio)
    if path == STDIO:
        yield OutFile(place=STDIO, format=kind, warn=warn, file=sys.stdout.buffer)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = beside.open("xb")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None
    out, is_over = OutFile(place=path, format=kind, warn=warn, file=file), False
    try:
        with file:
            yield out
        is_over = True
    except OSError:
        out.is_cut = True
        raise
    finally:
        # What was sent is written whatever ended the command; what was looked up may be again.
        is_wanted = is_over or existing is not Existing.SET_ASIDE_AT_END
        if is_wanted and not out.is_cut and beside.stat().st_size:
            out.is_astray = not _put_in_place(beside, path, warn)
        else:
            beside.unlink()


def _put_in_place(beside: Path, path: Path, warn: "Callable[[str], None]") -> bool:
    """Give a file its name, if that can be; what has that by now is kept, whoever put it there."""
    try:
        while not _put(beside, path):
            if other := _set_aside(path):
                warn(f"{path} was there already; it is now {other}")
    except OSError as error:
        warn(f"{path} cannot be put in place: {error.strerror}; what belongs there is {beside}")
        return False
    return True


def _put(beside: Path, path: Path) -> bool:
    """Give a file another name, unless something has that; say whether it could."""
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        return False
    except OSError:  # the file system has no links
        if path.exists():
            return False
        beside.rename(path)
        return True
    beside.unlink()
    return True


def _set_aside(path: Path) -> Path | None:
    """Give a file that has a name another one; None where it was empty, or has gone by itself."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        moved = path.rename(path.with_name(f".{path.name}.{uuid.uuid4().hex}.aside"))
    except FileNotFoundError:
        return None
    if not moved.lstat().st_size:
        moved.unlink()
        return None
    for number in itertools.count(1):
        other = path.with_name(f"{path.name}.{number}")
        if _put(moved, other):
            break
    return other
