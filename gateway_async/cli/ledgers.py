"""Ledger entries from rows, and differences into cells. Pure."""

from typing import TYPE_CHECKING, Any

from gateway_async.cli.cells import amount_problem, identifier_problem, text_problem, to_text
from gateway_async.cli.inputs import explain
from gateway_async.cli.layouts import WRITTEN
from gateway_async.errors import InvalidOrderError
from gateway_async.reconciliation import LedgerEntry, Unanswered, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from gateway_async.cli.inputs import Cells
    from gateway_async.reconciliation import Difference

    Wrong = Iterator[tuple[str | None, str]]

_REQUIRED = ("currency", "amount")
_EITHER = ("order_no", "transaction_id")
_COLUMNS = (*_EITHER, *_REQUIRED, "refunded", "state")
_ANY_PLACES = 100

DIFFERENCE_COLUMNS = (
    *("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line"),
)
"""The result columns of a reconciliation."""


class LedgerReader:
    """Reads the entries of a ledger; see `Reader`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return _COLUMNS

    @property
    def written(self) -> frozenset[str]:
        """Columns that commands write."""
        return WRITTEN

    def missing(self, cells: "Cells") -> list[str]:
        """Return the columns that must be there and are not."""
        names = [name for name in _REQUIRED if name not in cells]
        return names if any(name in cells for name in _EITHER) else [*names, " or ".join(_EITHER)]

    def reasons(self, cells: "Cells", place: str) -> "Wrong":
        """Return columns of a row that are wrong, and why."""
        del place  # several entries for one payment are right
        found = [(column, reason) for column, reason in _by_column(cells) if reason]
        yield from found
        if not found:
            try:
                self.make(cells)
            except InvalidOrderError as error:
                yield explain(error, _COLUMNS)

    def make(self, cells: "Cells") -> LedgerEntry:
        """Make the entry of a row."""
        fields: dict[str, Any] = {
            name: text for name in _COLUMNS if (text := to_text(cells.get(name)))
        }
        return LedgerEntry(**fields)

    def moved(self, cells: "Cells") -> "tuple[str, Decimal] | None":
        """Return None: a reconciliation moves no money."""
        del cells
        return None  # as others return something


def _by_column(cells: "Cells") -> "Iterator[tuple[str, str | None]]":
    yield "currency", identifier_problem(cells["currency"])
    yield "amount", amount_problem(cells["amount"], _ANY_PLACES)
    if to_text(cells.get("refunded")):
        yield "refunded", amount_problem(cells["refunded"], _ANY_PLACES)
    yield "state", text_problem(cells.get("state"))
    filled = [name for name in _EITHER if to_text(cells.get(name))]
    if not filled:
        yield " or ".join(_EITHER), "fill one of the two, or both"
    for name in filled:
        yield name, identifier_problem(cells[name])


def difference_cells(difference: "Difference", line: int) -> tuple[object, ...]:
    """Return the result cells of one difference, in the order of `DIFFERENCE_COLUMNS`."""
    error = difference.error if isinstance(difference, Unanswered) else None
    return (
        difference.kind,
        difference.field if isinstance(difference, Unreadable) else None,
        _joined(difference.ledger),
        _joined(difference.gateway),
        None if error is None else str(error),
        line,
    )


def _joined(value: object) -> str | None:
    if isinstance(value, tuple):
        return ";".join(map(to_text, value))
    return None if value is None else to_text(value)
