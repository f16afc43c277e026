"""The formats of files, as one table, and which of them a path means."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

import attrs

from gateway_async.cli.files.rows import CsvRows, JsonRows, Readable
from gateway_async.cli.files.writing import CsvSink, JsonSink, Sink
from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

STDIO = Path("-")
"""Stands for standard input or output."""


class Format(StrEnum):
    """A format of files."""

    CSV = "csv"
    JSONL = "jsonl"


@attrs.frozen(kw_only=True)
class FileKind:
    """How files of one format are read and written.

    Attributes:
        endings: The endings of their names.
        read: Makes the rows of an open file, with `header`.
        sink: Makes what writes rows to an open file.
    """

    endings: tuple[str, ...]
    read: Callable[[Readable], "Rows"]
    sink: Callable[[IO[bytes], Sequence[str]], Sink]


Rows = CsvRows | JsonRows

KINDS: "Mapping[Format, FileKind]" = MappingProxyType(
    {
        Format.CSV: FileKind(endings=(".csv",), read=CsvRows, sink=CsvSink),
        Format.JSONL: FileKind(endings=(".jsonl", ".ndjson"), read=JsonRows, sink=JsonSink),
    }
)
"""How each format is read and written."""


def format_of(path: Path, stdio: Format) -> Format:
    """Return the format that a path means by its ending; CSV where the ending says nothing.

    Args:
        path: The path; `-` for standard input or output.
        stdio: What `-` means.

    Raises:
        ConfigurationError: For an ending of a format that is not read here.
    """
    if path == STDIO:
        return stdio
    ending = path.suffix.lower()
    if ending in _FOREIGN:
        raise ConfigurationError(
            f"{path}: expected a name that ends in {', '.join(_endings())}, got {ending}"
        )
    return next((name for name, kind in KINDS.items() if ending in kind.endings), Format.CSV)


_FOREIGN = frozenset(
    {".json", ".xls", ".xlsx", ".ods", ".gz", ".zip", ".tsv", ".feather", ".parquet"}
)


def _endings() -> Iterable[str]:
    return (ending for kind in KINDS.values() for ending in kind.endings)
