"""Orders from rows: each row gives its order, or what is wrong with it.

This module opens no file, and knows no network.
"""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway_async.batching.feed import check_order, name_of
from gateway_async.cli.cells import (
    amount_problem,
    currency_problem,
    identifier_problem,
    text_problem,
    to_text,
)
from gateway_async.cli.inputs import explain
from gateway_async.cli.layouts import STATUS, WRITTEN
from gateway_async.errors import InvalidOrderError
from gateway_async.operations import OPERATIONS, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async.cli.inputs import Cells
    from gateway_async.cli.layouts import Layout
    from gateway_async.dialect import Dialect

    Wrong = Iterator[tuple[str | None, str]]

_NEVER_AGAIN = {
    "succeeded": "this order succeeded in the run that wrote this file",
    "unknown": "this order may have been done already",
}
"""Why rows of an outcome file are not sent again, by their status."""

IN_JOB = "in_job"
"""The result column that names the job which has the order, and may send it itself."""

_WRITTEN = WRITTEN | {IN_JOB}
_FINAL_IN_JOB = frozenset({"succeeded", "declined"})
_NAME_SHOWN = 60


def why_not_again(cells: "Cells") -> str | None:
    """Say why a row of an outcome file may not be sent again, by its status."""
    reason = _NEVER_AGAIN.get(to_text(cells.get(STATUS)).strip().lower())
    advice = "give the command with the file that it was made from; for another operation, take"
    return reason and f"{reason}; {advice} this column out"


def why_not_beside_job(cells: "Cells") -> str | None:
    """Say why a row may not be sent past the job that has its order, and may send it as well."""
    job = to_text(cells.get(IN_JOB)).strip()
    if not job or to_text(cells.get(STATUS)).strip().lower() in _FINAL_IN_JOB:
        return None
    return (
        f"this order is in job {job[:_NAME_SHOWN]!r}, which may send it itself: decide on it with "
        "`gateway-async jobs resolve` if it is held, and send it with `gateway-async jobs resume`; "
        "for another operation take this column out"
    )


def make_order(layout: "Layout", cells: "Cells") -> Any:  # noqa: ANN401  # any order
    """Make the order of a row that was checked.

    Raises:
        InvalidOrderError: If its fields do not fit together.
    """
    fields = {
        name: text
        for name in layout.columns
        if name in cells and ((text := to_text(cells[name])) or name in layout.required)
    }
    return layout.order(**fields)


class OrderReader:
    """Reads the orders of one command; see `Reader`.

    Args:
        layout: The columns of the command.
        dialect: Says how many decimal places an amount may have.
        repeats: Whether the same order may stand in a file more than once.
    """

    def __init__(self, layout: "Layout", dialect: "Dialect", *, repeats: bool = False) -> None:
        self._layout = layout
        self._dialect = dialect
        self._operation = OPERATIONS[layout.method]
        self._filled = [
            name for name in layout.required if name not in {*layout.amounts, "currency"}
        ]
        self._amounts = [name for name in layout.required if name in layout.amounts]
        self._places: dict[int, str] | None = None if repeats else {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self._layout.columns

    @property
    def written(self) -> frozenset[str]:
        """Columns that commands write."""
        return _WRITTEN

    def missing(self, cells: "Cells") -> list[str]:
        """Return the columns that must be there and are not."""
        names = [name for name in self._layout.required if name not in cells]
        either = self._layout.either
        if either and not any(name in cells for name in either):
            names.append(" or ".join(either))
        return names

    def reasons(self, cells: "Cells", place: str) -> "Wrong":
        """Return columns of a row that are wrong, and why."""
        found = [(column, reason) for column, reason in self._by_column(cells) if reason]
        yield from found
        if not found:
            yield from self._beyond_columns(cells, place)

    def make(self, cells: "Cells") -> Any:  # noqa: ANN401  # any order
        """Make the order of a row."""
        return make_order(self._layout, cells)

    def moved(self, cells: "Cells") -> tuple[str, Decimal] | None:
        """Return the currency and the amount that a row moves; None for a look-up."""
        if not self._amounts:
            return None
        return to_text(cells["currency"]), Decimal(to_text(cells[self._layout.total]))

    def _by_column(self, cells: "Cells") -> "Iterator[tuple[str, str | None]]":
        places = self._dialect.places(to_text(cells.get("currency")))
        for name in self._filled:
            yield name, identifier_problem(cells[name])
        if self._amounts:
            yield "currency", currency_problem(cells["currency"], self._dialect.currency_places)
        for name in self._amounts:
            yield name, amount_problem(cells[name], places)
        for name in self._layout.optional:
            yield name, text_problem(cells.get(name))
        yield from self._by_reference(cells)
        if not self._layout.looks_up:
            beside = why_not_beside_job(cells)
            yield IN_JOB, beside
            yield STATUS, None if beside else why_not_again(cells)

    def _by_reference(self, cells: "Cells") -> "Iterator[tuple[str, str | None]]":
        either = self._layout.either
        filled = [name for name in either if to_text(cells.get(name))]
        if either and len(filled) != 1:
            advice = f"; or choose: --by {either[-1]}" if filled else ""
            yield " or ".join(either), f"fill one of the two, {len(filled)} are filled{advice}"
        for name in filled:
            yield name, identifier_problem(cells[name])

    def _beyond_columns(self, cells: "Cells", place: str) -> "Wrong":
        """Return why columns that are right by themselves are no order, or one too many."""
        try:
            order = self.make(cells)
            error = check_order(self._operation, order, self._dialect)
        except InvalidOrderError as refused:
            error = refused
        if error is not None:
            yield explain(error, self._layout.columns)
        elif self._places is not None:
            identity = identity_of(self._operation)(order)
            first = self._places.setdefault(hash(identity), place)
            if first != place:
                kind, _ = name_of(self._operation, identity)
                yield kind, f"the same order as in {first}{self._advice}"

    @property
    def _advice(self) -> str:
        if self._layout.looks_up:
            return ""
        return "; if both are meant, give --duplicates serialize"
