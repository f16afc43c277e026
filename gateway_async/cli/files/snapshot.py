"""A file as it was when the command began.

It is gone through more than once: checked, sent, and written out again beside its outcomes. What
somebody changes in it meanwhile, or a pipe that can be read only once, must not matter.
"""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import attrs

from gateway_async.cli.files.formats import KINDS, STDIO, Format, format_of
from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway_async.cli.files.formats import Rows
    from gateway_async.cli.files.rows import Row


@attrs.define
class _View:
    """Reads a file from its beginning, whoever else reads it."""

    file: BinaryIO
    position: int = 0

    def read(self, size: int) -> bytes:
        self.file.seek(self.position)
        block = self.file.read(size)
        self.position += len(block)
        return block


@attrs.define(kw_only=True, eq=False)
class Snapshot:
    """The rows of a file, to be read as often as needed.

    Attributes:
        name: What the file is called in messages.
        format: Its format.
    """

    name: str
    format: Format
    _file: BinaryIO = attrs.field(repr=False)
    _first: "Rows | None" = attrs.field(default=None, init=False, repr=False)

    @property
    def header(self) -> "Sequence[str]":
        """The names of its columns; all of them once it was read to its end."""
        return self._first.header if self._first is not None else ()

    def rows(self) -> "Iterator[Row]":
        """Read the rows from the beginning.

        Raises:
            TableError: If the file has no rows, or is not of its format.
        """
        if self._first is None:
            self._first = self._open()
            return iter(self._first)
        return iter(self._open())

    def _open(self) -> "Rows":
        kind = KINDS[self.format]
        return kind.read(_View(self._file))


@contextlib.contextmanager
def snapshot(path: Path, stdio: Format) -> "Iterator[Snapshot]":
    """Copy a file, or standard input, to where nobody changes it.

    Args:
        path: The file; `-` for standard input.
        stdio: The format of standard input.

    Raises:
        ConfigurationError: If it cannot be read, or its ending is of no format.
    """
    kind = format_of(path, stdio)
    name = "standard input" if path == STDIO else str(path)
    try:
        copy = _copied(path)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {error.strerror or error}") from None
    with copy:
        yield Snapshot(name=name, format=kind, file=copy)


def _copied(path: Path) -> BinaryIO:
    copy = tempfile.TemporaryFile()  # noqa: SIM115  # whoever asked for it closes it
    try:
        with _opened(path) as file:
            shutil.copyfileobj(file, copy)
        copy.flush()  # a disk that is full shows here, or else when the copy is read
    except BaseException:
        with contextlib.suppress(OSError):  # closing would say it once more
            copy.close()
        raise
    return copy


@contextlib.contextmanager
def _opened(path: Path) -> "Iterator[BinaryIO]":
    if path == STDIO:
        yield sys.stdin.buffer
        return
    with path.open("rb") as file:
        yield file
