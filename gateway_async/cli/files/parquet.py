"""Parquet, by Polars: the extra `gateway-async[parquet]`, imported when a file needs it."""

import contextlib
import io
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from gateway_async.cli.files.problems import Problem, TableError
from gateway_async.cli.files.rows import Readable, Row
from gateway_async.cli.files.writing import to_cell
from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from polars import DataFrame, Series

_ROWS_AT_ONCE = 10_000
_SIMPLE = frozenset({bool, int, float, Decimal, date, datetime, time, timedelta, bytes})
_NO_FIT = (OverflowError, RuntimeError, TypeError, ValueError)


def polars() -> "ModuleType":
    """Import Polars.

    Raises:
        ConfigurationError: If the extra is not installed.
    """
    try:
        import polars as pl  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "polars":
            raise
        raise ConfigurationError(
            "a Parquet file needs polars: pip install 'gateway-async[parquet]'"
        ) from None
    return pl


class ParquetRows(Iterable[Row]):
    """The rows of a Parquet file, held by column.

    Attributes:
        header: The names of the columns.
    """

    def __init__(self, file: Readable) -> None:
        self._frame = _read(file)
        self.header = list(self._frame.columns)

    def __iter__(self) -> Iterator[Row]:
        """Read the rows."""
        named = self._frame.iter_rows(named=True, buffer_size=_ROWS_AT_ONCE)
        for number, cells in enumerate(named, start=1):
            yield Row(number, cells)


def _read(file: Readable) -> "DataFrame":
    module = polars()
    try:
        frame: DataFrame = module.read_parquet(io.BytesIO(file.read(-1)))
    except (module.exceptions.PolarsError, OSError) as error:
        reason = f"not a Parquet file: {str(error).splitlines()[0]}"
        raise TableError([Problem(line=1, reason=reason, unit="row")]) from None
    if not frame.height:
        raise TableError([Problem(line=1, reason="the file has no rows", unit="row")])
    return frame


class ParquetSink:
    """Writes rows to a Parquet file, all at the end: texts as texts, other values as they are."""

    def __init__(self, file: IO[bytes], columns: "Sequence[str]") -> None:
        self._module = polars()
        self._file = file
        self._columns = list(columns)
        self._rows: list[list[Any]] = []

    def write(self, row: "Mapping[str, Any]") -> None:
        """Take a row in."""
        self._rows.append([row.get(name) for name in self._columns])

    def close(self) -> None:
        """Write the file."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(self._columns)
        series = [
            self._series(name, values) for name, values in zip(self._columns, columns, strict=True)
        ]
        made = io.BytesIO()  # a file that takes no more is then told as any other is
        self._module.DataFrame(series).write_parquet(made)
        self._file.write(made.getvalue())

    def _series(self, name: str, values: "Sequence[Any]") -> "Series":
        """Make a column of text, unless all of its values are of one simple kind."""
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) == 1 and kinds <= _SIMPLE:
            with contextlib.suppress(self._module.exceptions.PolarsError, *_NO_FIT):
                given: Series = self._module.Series(name, values)
                if given.null_count() == values.count(None):  # a decimal that does not fit is null
                    return given
        texts = [None if value is None else to_cell(value) for value in values]
        made: Series = self._module.Series(name, texts, dtype=self._module.String)
        return made
