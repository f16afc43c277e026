"""A file of input, checked whole before anything is sent: rows, what they make, and totals.

This module opens no file, and does not know what a row makes.
"""

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.problems import Problem, Problems, TableError
from gateway_async.cli.files.rows import Row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gateway_async.cli.files.snapshot import Snapshot
    from gateway_async.errors import InvalidOrderError

Cells = Mapping[str, Any]
_NAMED = 20


@attrs.define(kw_only=True)
class Totals:
    """What a file adds up to.

    Attributes:
        orders: How many orders.
        amounts: By currency, the sum of what would be moved.
    """

    orders: int = 0
    amounts: dict[str, Decimal] = attrs.field(factory=lambda: defaultdict(Decimal))

    def add(self, moved: tuple[str, Decimal] | None) -> None:
        """Take one order in, with the currency and amount that it moves."""
        self.orders += 1
        if moved is not None:
            self.amounts[moved[0].upper()] += moved[1]

    def __str__(self) -> str:
        sums = ", ".join(
            f"{code or 'without currency'} {amount:,f}"
            for code, amount in sorted(self.amounts.items())
        )
        return f"{self.orders:,} order{'s' * (self.orders != 1)}" + (f", {sums}" if sums else "")


class Reader(Protocol):
    """Knows what a row makes."""

    @property
    def columns(self) -> "Collection[str]":
        """The columns that are read; a name with a dot is a part of an object."""
        ...

    @property
    def written(self) -> "Collection[str]":
        """Columns that commands write."""
        ...

    def missing(self, cells: Cells) -> "Iterable[str]":
        """Return the columns that must be there and are not."""
        ...

    def reasons(self, cells: Cells, place: str) -> "Iterable[tuple[str | None, str]]":
        """Return columns of a row that are wrong, and why; asked once a row.

        Args:
            cells: The row.
            place: Where the row is, for those that repeat it.
        """
        ...

    def make(self, cells: Cells) -> Any:  # noqa: ANN401  # orders, payouts, entries
        """Make what a row stands for, once it was found to be right."""
        ...

    def moved(self, cells: Cells) -> tuple[str, Decimal] | None:
        """Return the currency and the amount that a row moves; None where it moves none."""
        ...


@attrs.frozen(kw_only=True)
class InputFile:
    """A file whose every row was found to be right.

    Attributes:
        snapshot: The file.
        reader: What its rows make.
        totals: What it adds up to.
    """

    snapshot: "Snapshot"
    reader: Reader
    totals: Totals

    def rows(self) -> "Iterator[Row]":
        """Read the rows."""
        return self.snapshot.rows()

    def orders(self) -> "Iterator[Any]":
        """Make what each row stands for, in the order of the file."""
        return (self.reader.make(row.cells) for row in self.rows())

    def passed_through(self, replaced: "Collection[str]") -> list[str]:
        """Return the columns that are written out as they came: all that are not replaced."""
        return [name for name in self.snapshot.header if name not in replaced]

    @property
    def unread(self) -> str:
        """Names the columns that nothing is made of, and that no command wrote."""
        names = _unread(self.reader, self.snapshot.header)
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return ", ".join(map(repr, names[:_NAMED])) + more

    def problems_of(self, error: "InvalidOrderError", columns: "Iterable[str]") -> TableError:
        """Say by their lines which orders the client turned down."""
        found = error.problems or {0: error}
        return TableError(
            self._problem(row, *explain(found[index], columns))
            for index, row in enumerate(self.rows())
            if index in found
        )

    def _problem(self, row: Row, column: str | None, reason: str) -> Problem:
        return Problem(line=row.line, column=column, reason=reason)


def check_file(snapshot: "Snapshot", reader: Reader) -> InputFile:
    """Check a file whole.

    Args:
        snapshot: The file.
        reader: What its rows make.

    Raises:
        TableError: With every problem of the file.
    """
    problems, totals, line = Problems(), Totals(), 1
    for row in snapshot.rows():
        if line == 1:
            _check_header(snapshot, reader)
        line = row.line
        found = [*row.problems] or [*_row_problems(snapshot, reader, row)]
        if found:
            problems.add(found)
        else:
            totals.add(reader.moved(row.cells))
    if not problems.count and not totals.orders:
        _check_header(snapshot, reader)
        problems.add([Problem(line=line, reason="there is no row below it")])
    problems.raise_if_any()
    return InputFile(snapshot=snapshot, reader=reader, totals=totals)


def _check_header(snapshot: "Snapshot", reader: Reader) -> None:
    """Name every column that is missing at once, where all rows have the same columns."""
    if snapshot.format is Format.JSONL:
        return
    row = Row(1, dict.fromkeys(snapshot.header))
    if problems := [*_column_problems(reader, row)]:
        raise TableError(problems)


def _row_problems(snapshot: "Snapshot", reader: Reader, row: Row) -> "Iterator[Problem]":
    if snapshot.format is Format.JSONL:
        wrong = [*_column_problems(reader, row)]
        if wrong:
            yield from wrong
            return
    for column, reason in reader.reasons(row.cells, f"line {row.line}"):
        yield Problem(line=row.line, column=column, reason=reason)


def _column_problems(reader: Reader, row: Row) -> "Iterator[Problem]":
    """Name columns that must be there and are not, and parts that no object has."""
    found = ", ".join(map(repr, row.cells)) or "nothing"
    for name in reader.missing(row.cells):
        yield Problem(line=row.line, column=name, reason=f"missing; there are: {found}")
    if any("." in column for column in reader.columns):
        for name in _unread(reader, row.cells):
            if "." in name:
                yield Problem(line=row.line, column=name, reason="not known: there is no such part")


def _unread(reader: Reader, names: "Iterable[str]") -> list[str]:
    return [name for name in names if name not in reader.columns and name not in reader.written]


def explain(error: "InvalidOrderError", columns: "Iterable[str]") -> tuple[str | None, str]:
    """Turn the client's words about an order's field into a column of the file and a reason."""
    for column in columns:
        _, found, reason = str(error).partition(f").{column}: ")
        if found:
            return column, reason
    return None, str(error)
