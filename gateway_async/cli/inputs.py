"""A file of input, checked whole before anything is sent: rows, what they make, and totals.

This module opens no file, and does not know what a row makes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from gateway_async.cli.columns import likely, written
from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.problems import Problem, Problems, TableError
from gateway_async.cli.files.rows import Row
from gateway_async.cli.layouts import STATUS, STATUS_FROM

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
        """Columns that commands write: none of them is one of `columns`, misspelt."""
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
        only: The statuses of the rows that are taken; all rows if it is empty.
        totals: What it adds up to.
        elsewhere: How many rows of such a status are left out, by the file that they are sent from.
    """

    snapshot: "Snapshot"
    reader: Reader
    only: "Collection[str]" = ()
    totals: Totals
    elsewhere: "Mapping[str, int]" = attrs.field(factory=dict)

    def rows(self) -> "Iterator[Row]":
        """Read the rows that are taken."""
        return _taken(self.snapshot.rows(), self.only)

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
        return Problem(line=row.line, column=column, reason=reason, unit=self.snapshot.unit)


def check_file(snapshot: "Snapshot", reader: Reader, *, only: "Collection[str]" = ()) -> InputFile:
    """Check a file whole.

    Args:
        snapshot: The file.
        reader: What its rows make.
        only: The statuses of the rows that are taken; all rows if it is empty.

    Raises:
        TableError: With every problem of the file.
    """
    problems, totals, line = Problems(), Totals(), 1
    elsewhere: Counter[str] = Counter()
    for row in _taken(snapshot.rows(), only, elsewhere):
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
        reason = _nothing_taken(only, elsewhere) if only else "there is no row below it"
        problems.add([Problem(line=line, reason=reason, unit=snapshot.unit)])
    problems.raise_if_any()
    return InputFile(
        snapshot=snapshot, reader=reader, only=only, totals=totals, elsewhere=elsewhere
    )


def _taken(
    rows: "Iterator[Row]", only: "Collection[str]", elsewhere: Counter[str] | None = None
) -> "Iterator[Row]":
    for row in rows:
        if only and not row.problems:
            if written(row.cells, STATUS).lower() not in only:
                continue
            if source := written(row.cells, STATUS_FROM):
                if elsewhere is not None:
                    elsewhere[source] += 1
                continue
        yield row


def _nothing_taken(only: "Collection[str]", elsewhere: "Mapping[str, int]") -> str:
    if elsewhere:
        return f"all rows of that status are copies: send them from {', '.join(elsewhere)}"
    return f"no row has status {' or '.join(only)}"


def _check_header(snapshot: "Snapshot", reader: Reader) -> None:
    """Name every column that is missing at once, where all rows have the same columns."""
    if snapshot.format is Format.JSONL:
        return
    row = Row(1, dict.fromkeys(snapshot.header))
    if problems := [*_column_problems(snapshot, reader, row)]:
        raise TableError(problems)


def _row_problems(snapshot: "Snapshot", reader: Reader, row: Row) -> "Iterator[Problem]":
    if snapshot.format is Format.JSONL:
        wrong = [*_column_problems(snapshot, reader, row)]
        if wrong:
            yield from wrong
            return
    for column, reason in reader.reasons(row.cells, f"{snapshot.unit} {row.line}"):
        yield Problem(line=row.line, column=column, reason=reason, unit=snapshot.unit)


def _column_problems(snapshot: "Snapshot", reader: Reader, row: Row) -> "Iterator[Problem]":
    """Name columns that must be there and are not, and those that are likely misspelt."""
    missing = [*reader.missing(row.cells)]
    unread = _unread(reader, row.cells)
    named = ((name, _why_missing(name, unread, row.cells)) for name in missing)
    for column, reason in (*named, *_misspelt(reader, row.cells, unread, missing)):
        yield Problem(line=row.line, column=column, reason=reason, unit=snapshot.unit)


def _unread(reader: Reader, names: "Iterable[str]") -> list[str]:
    return [name for name in names if name not in reader.columns and name not in reader.written]


def _why_missing(name: str, unread: list[str], cells: Cells) -> str:
    meant = likely(name, tuple(unread))
    found = ", ".join(map(repr, cells)) or "nothing"
    return f"missing; {'' if meant is None else f'is it {meant!r}? '}there are: {found}"


def _misspelt(
    reader: Reader, cells: Cells, unread: list[str], missing: list[str]
) -> "Iterator[tuple[str, str]]":
    if not unread:
        return
    absent = tuple(name for name in reader.columns if name not in cells and name not in missing)
    for name in unread:
        if (meant := likely(name, absent)) is not None:
            yield name, f"not known; did you mean {meant}? If not, give it a name less like that"
        elif "." in name and any("." in column for column in reader.columns):
            yield name, "not known; a name with a dot is a part, and there is no such part"


def explain(error: "InvalidOrderError", columns: "Iterable[str]") -> tuple[str | None, str]:
    """Turn the client's words about an order's field into a column of the file and a reason."""
    for column in columns:
        _, found, reason = str(error).partition(f").{column}: ")
        if found:
            return column, reason
    return None, str(error)
