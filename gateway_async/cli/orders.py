"""Rows of a file into orders, with every problem by line and column.

Particulars of persons and accounts are in no message.
"""

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.batching.feed import check_order, name_of
from gateway_async.cli.layouts import IN_JOB, LAYOUTS, Input, Layout, inputs_of
from gateway_async.cli.tables import Format, Problem, Row, TableError
from gateway_async.errors import InvalidOrderError
from gateway_async.models.values import (
    SensitiveText,
)
from gateway_async.operations import OperationClass, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from gateway_async.cli.tables import Table
    from gateway_async.dialect import Dialect

    Cells = Mapping[str, Any]
    Wrong = list[tuple[str | None, str]]

_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_CUT_OFF = re.compile(r"[0-9]([.,][0-9]+)?[Ee]\+[0-9]{2,}")
_SHOWN = 40
_NAMED = 20
_ANY_PLACES = 100


_WRITTEN = frozenset(
    part
    for layout in LAYOUTS.values()
    for name in (*layout.result_columns, IN_JOB)
    for part in (name, name.partition(".")[0])
)


# Cells


def to_text(value: object) -> str:
    """Write the value of a cell as text; an empty one is none."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    is_short = isinstance(value, Decimal) and abs(value.adjusted()) <= _ANY_PLACES
    return format(value, "f") if is_short else str(value)  # 1e99999999 would have as many digits


def _text_problem(value: object) -> str:
    """Return why a value is no text; whole numbers are taken as they are written."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    number = Decimal(value) if is_number else None  # type: ignore[arg-type]  # it is one
    if number is not None and (
        number != number.to_integral_value() or number.adjusted() >= len(number.as_tuple().digits)
    ):  # it has a fraction, or an exponent in place of its last digits
        number = None
    if not isinstance(value, str) and number is None:
        return "expected a text; put it in quotation marks"
    if _CUT_OFF.fullmatch(to_text(value)):
        return (
            "a number such as 2.02611E+21, whose last digits a spreadsheet cut off; write the "
            "file again with this column as text"
        )
    return ""


def _identifier_problem(value: object) -> str:
    text = to_text(value)
    if problem := _text_problem(text if value is None else value):
        return problem
    if not text.strip():
        return "empty"
    return f"{text[:_SHOWN]!r} has white space around it" if text != text.strip() else ""


def _amount_problem(text: str, places: int) -> str:
    if not _AMOUNT.fullmatch(text):
        return f"{text[:_SHOWN]!r} is not an amount; write it like 12.50"
    if len(text.partition(".")[2].rstrip("0")) > places:
        return f"{text[:_SHOWN]!r} has more than {places} decimal places"
    return ""


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _nested(cells: "Cells", columns: "Collection[str]", wrong: "Wrong") -> dict[str, Any]:
    """Make nested objects of dotted columns; columns that are not read are left out."""
    tree: dict[str, Any] = {}
    for column, value in cells.items():
        *parents, name = column.split(".")
        if (parents[0] if parents else name) not in columns or (parents and _is_empty(value)):
            continue
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                wrong.append((column, f"{parent} has a column of its own beside it"))
                branch = {}
        if not _is_empty(value) or name not in branch:
            branch[name] = value
    return tree


class Reader:
    """Reads the rows of one command.

    Args:
        layout: Its columns.
        dialect: Defines how many decimal places an amount may have; None for any number of them,
            and any currency.
        repeats: Whether the same order may stand in a file more than once.
    """

    def __init__(
        self, layout: Layout, dialect: "Dialect | None" = None, *, repeats: bool = True
    ) -> None:
        self.layout = layout
        self._dialect = dialect
        self._identity: Callable[[Any], Any] | None = None
        if layout.operation is not None and not repeats:
            self._identity = identity_of(layout.operation)

    def unread(self, names: "Iterable[str]") -> list[str]:
        """Return columns that are not read, and that no command writes."""
        return [name for name in names if name not in self.layout.inputs and name not in _WRITTEN]

    def column_problems(self, row: Row) -> "Iterator[Problem]":
        """Name columns that must be there and are not, and parts that no object has."""
        layout, found = self.layout, ", ".join(map(repr, row.cells)) or "nothing"
        missing = [name for name in layout.required if name not in row.cells]
        if layout.either and not any(name in row.cells for name in layout.either):
            missing.append(" or ".join(layout.either))
        for name in missing:
            yield Problem(line=row.line, column=name, reason=f"missing; there are: {found}")
        if layout.is_nested:
            for name in self.unread(row.cells):
                if "." in name:
                    reason = "not known: there is no such part"
                    yield Problem(line=row.line, column=name, reason=reason)

    def make(self, cells: "Cells", wrong: "Wrong | None" = None) -> Any:  # noqa: ANN401  # any order
        """Make what a row stands for; what is wrong with its cells is added to `wrong`."""
        found: Wrong = [] if wrong is None else wrong
        layout = self.layout
        if layout.moves_money:
            found.extend(_sent_before(cells))
        filled = [name for name in layout.either if not _is_empty(cells.get(name))]
        if layout.either and (not filled or (len(filled) > 1 and layout.operation is not None)):
            reason = f"fill one of the two, {len(filled)} are filled"
            reason += f"; or choose: --by {layout.either[-1]}" if filled else ""
            one_only = len(layout.either) == 1
            found.append((" or ".join(layout.either), "empty" if one_only else reason))
            return None
        tree: Cells = {name: cells[name] for name in layout.columns if name in cells}
        if layout.is_nested:
            tree = _nested(cells, layout.columns, found)
        try:
            return self._object(layout.model, tree, "", found)
        except InvalidOrderError as error:
            found.append(explain(error, layout.columns))
        return None

    def read(self, row: Row, lines: dict[int, int]) -> "tuple[Any, Wrong]":
        """Return what a row stands for, and what is wrong with it.

        Args:
            row: The row.
            lines: In which line each order stands; this one is added.
        """
        wrong: Wrong = []
        order, operation = self.make(row.cells, wrong), self.layout.operation
        if wrong or operation is None or self._dialect is None:
            return order, wrong
        if error := check_order(operation, order, self._dialect):
            wrong.append(explain(error, self.layout.columns))
        elif self._identity is not None:
            identity = self._identity(order)
            first = lines.setdefault(hash(identity), row.line)
            if first != row.line:
                is_keyed = operation.kind is OperationClass.KEYED
                kind, _ = name_of(operation, identity)
                advice = "" if is_keyed else "; if both are meant, give --duplicates serialize"
                wrong.append((kind, f"the same order as in line {first}{advice}"))
        return order, wrong

    def _object(self, model: type, tree: "Cells", path: str, wrong: "Wrong") -> Any:  # noqa: ANN401  # of the model
        """Make one object of its fields; None where one of them is wrong.

        Raises:
            InvalidOrderError: Where the model refuses what its fields are.
        """
        known, made, before = inputs_of(model), {}, len(wrong)
        for name in tree:
            if name not in known:
                reason = f"not known; there are: {', '.join(known)}"
                wrong.append((f"{path}{name}", reason))
        for name, one in known.items():
            value = tree.get(name)
            if not _is_empty(value) or one.is_required:
                column = f"{path}{name}"
                if one.kind in {"object", "objects", "texts"}:
                    made[name] = self._part(one, value, column, wrong)
                    continue
                made[name] = to_text(value)
                if problem := self._problem(one, value, to_text(tree.get(one.currency or ""))):
                    wrong.append((column, problem))
        return None if len(wrong) > before else model(**made)

    def _problem(self, one: Input, value: object, currency: str) -> str:
        """Return why a cell is wrong: empty where it is right."""
        text, dialect = to_text(value), self._dialect
        if one.kind == "amount":
            return _amount_problem(text, dialect.places(currency) if dialect else _ANY_PLACES)
        if one.kind == "date":
            return "" if _is_date(text) else "expected a date such as 2026-11-20"
        if one.kind == "text":
            return _text_problem(value)
        problem = _identifier_problem(value)
        if problem or one.kind == "identifier" or dialect is None:
            return problem
        if _CURRENCY.fullmatch(text) or text.upper() in dialect.currency_places:
            return ""
        return (
            f"{text[:_SHOWN]!r} is not a code of three letters such as EUR; if your gateway has "
            "it, name it in [dialect] currency_places"
        )

    def _part(self, one: Input, value: object, column: str, wrong: "Wrong") -> object:
        """Make an object, or a list, of a cell that holds it, as JSON where that is a text."""
        part, element = one.part, Mapping if one.part else str
        if isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError:
                value = None
        if one.kind == "object" and part is not None:
            if isinstance(value, Mapping):
                return self._object(part, value, f"{column}.", wrong)
            wrong.append((column, f"expected columns such as {column}.name, or an object"))
        elif not isinstance(value, list) or not all(isinstance(each, element) for each in value):
            wrong.append((column, 'expected a list, in a text as JSON such as ["..."]'))
        elif part is None:
            return value
        else:
            return [
                self._object(part, each, f"{column}[{number}].", wrong)
                for number, each in enumerate(value)
            ]
        return None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text  # Python reads weeks, too
    except ValueError:
        return False


def _sent_before(cells: "Cells") -> "Wrong":
    """Return why a row of an outcome file may not be sent: a job has it, or it may be done."""
    status = to_text(cells.get("status")).strip().lower()
    job = to_text(cells.get(IN_JOB)).strip()
    if job and status not in {"succeeded", "declined"}:
        reason = (
            f"this order is in job {job[:_SHOWN]!r}, which may send it itself: decide on it with "
            "`gateway-async jobs resolve` if it is held, and send it with `gateway-async jobs "
            "resume`; for another operation take this column out"
        )
        return [(IN_JOB, reason)]
    done = {"succeeded": "succeeded in the run that wrote this file", "unknown": "may be done"}
    if status not in done:
        return []
    reason = (
        f"this order {done[status]}; give the command with the file that it was made from; for "
        "another operation, take this column out"
    )
    return [("status", reason)]


def explain(error: InvalidOrderError, columns: "Iterable[str]") -> tuple[str | None, str]:
    """Turn the client's words about an order's field into a column of the file and a reason."""
    for column in columns:
        _, found, reason = str(error).partition(f").{column}: ")
        if found:
            return column, reason
    return None, str(error)


# A file, checked whole


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


def wording(layout: Layout, totals: Totals, base_url: str, unread: str = "") -> str:
    """Return what a command would do, and which columns of its file it does not read."""
    beside = f" (columns that are not sent: {unread})" if unread else ""
    return f"{layout.command} {totals} at {base_url}{beside}"


@attrs.frozen(kw_only=True)
class InputFile:
    """A file whose every row was found to be right.

    Attributes:
        table: The file.
        reader: What its rows make.
        totals: What it adds up to.
        digest: Of its orders, whatever way they are written, in the order of the file.
    """

    table: "Table"
    reader: Reader
    totals: Totals
    digest: str

    def rows(self) -> "Iterator[Row]":
        """Read the rows."""
        return self.table.rows()

    def orders(self) -> "Iterator[Any]":
        """Make what each row stands for, in the order of the file."""
        return (self.reader.make(row.cells) for row in self.rows())

    def passed_through(self, replaced: "Collection[str]") -> list[str]:
        """Return the columns that are written out as they came: all that are not replaced."""
        return [name for name in self.table.header if name not in replaced]

    @property
    def unread(self) -> str:
        """Names the columns that nothing is made of, and that no command wrote."""
        names = self.reader.unread(self.table.header)
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return ", ".join(map(repr, names[:_NAMED])) + more

    def problems_of(self, error: InvalidOrderError) -> TableError:
        """Name by their lines the orders that the client refused."""
        found = error.problems or {0: error}
        return TableError(
            Problem(line=row.line, column=column, reason=reason)
            for index, row in enumerate(self.rows())
            if index in found
            for column, reason in [explain(found[index], self.reader.layout.columns)]
        )


def check_file(table: "Table", reader: Reader) -> InputFile:
    """Check a file whole.

    Args:
        table: The file.
        reader: What its rows make.

    Raises:
        TableError: With every problem of the file.
    """
    totals, digest = Totals(), hashlib.sha256()
    error = TableError(_problems(table, reader, totals, digest))
    if error.count:
        raise error
    return InputFile(table=table, reader=reader, totals=totals, digest=digest.hexdigest())


def _problems(table: "Table", reader: Reader, totals: Totals, digest: Any) -> "Iterator[Problem]":  # noqa: ANN401  # of hashlib
    """Yield every problem of a file; orders without one are added up."""
    is_first, is_csv, line = True, table.format is Format.CSV, 1
    lines: dict[int, int] = {}
    for row in itertools.chain(table.rows(), [None]):
        if is_first and is_csv:  # every column that is missing, at once
            missing = [*reader.column_problems(Row(1, dict.fromkeys(table.header)))]
            yield from missing
            if missing:
                return
        if row is None:
            break
        is_first, line = False, row.line
        missing = [] if is_csv else [*reader.column_problems(row)]
        if found := row.problems or missing:
            yield from found
            continue
        order, wrong = reader.read(row, lines)
        if not wrong:
            totals.add(reader.layout.moved(order))
            digest.update(orjson.dumps(_plain(order)))
        for column, reason in wrong:
            yield Problem(line=line, column=column, reason=reason)
    if is_first:
        yield Problem(line=line, reason="there is no row below it")


def _plain(value: Any) -> Any:  # noqa: ANN401  # an order, or a part of one
    """Return an order as JSON has it, whatever way its values were written."""
    if attrs.has(type(value)) and not isinstance(value, SensitiveText):
        fields = {name: getattr(value, name) for name in attrs.fields_dict(type(value))}
        return {name: _plain(one) for name, one in fields.items() if one is not None}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.reveal() if isinstance(value, SensitiveText) else str(value)
