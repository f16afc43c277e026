"""What the files of each command hold, and rows into orders, with every problem by line and column.

Columns are the fields of orders and records; parts of objects have dots:
`beneficiary.address.city`. Particulars of persons and accounts are in no message.
"""

import functools
import hashlib
import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias, get_args, get_origin

import attrs
import orjson

from gateway_async.batching.feed import check_order, name_of
from gateway_async.cli.tables import Problem, Row, Table, TableError
from gateway_async.dialect import Dialect
from gateway_async.errors import InvalidOrderError
from gateway_async.models.records import Record
from gateway_async.models.values import (
    CONVERTER,
    MODEL,
    SensitiveText,
    SignatureText,
    converter_of,
    currency_field,
    to_objects,
    to_texts,
)
from gateway_async.operations import OPERATIONS, Operation, OperationClass, identity_of
from gateway_async.reconciliation import LedgerEntry

IN_JOB = "in_job"
"""The result column that names the job which has the order, and may send it itself."""
OUTCOME_COLUMNS = ("status", "code", "error")
"""The result columns of every command, before those of its records."""
_REFERENCES = ("order_no", "transaction_id")
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_CUT_OFF = re.compile(r"[0-9]([.,][0-9]+)?[Ee]\+[0-9]{2,}")
_SHOWN = 40
_NAMED = 20

_Wrong = list[tuple[str | None, str]]
_Field: TypeAlias = "attrs.Attribute[Any]"

# Layouts


def _is_list(field: _Field) -> bool:
    return converter_of(field) in (to_objects, to_texts)


def is_object(field: _Field) -> bool:
    """Return whether a field holds one object: its parts have columns with dots."""
    return MODEL in field.metadata and not _is_list(field)


@functools.cache
def _currencies(model: type) -> dict[str, str]:
    """Return the fields that are amounts, and the field of the currency of each."""
    found = {field.name: currency_field(field) for field in attrs.fields(model)}
    return {name: currency for name, currency in found.items() if currency is not None}


def _inputs(model: type, path: str = "") -> Iterator[tuple[str, _Field]]:
    """Yield the columns of an order: its fields, and those of its objects with dots."""
    for field in attrs.fields(model):
        yield f"{path}{field.name}", field
        if is_object(field):
            yield from _inputs(field.metadata[MODEL], f"{path}{field.name}.")


def fields_of(model: type) -> Iterator[_Field]:
    """Yield the fields of a record that are the interface's, signatures excepted."""
    for field in attrs.fields(model):
        if field.name not in attrs.fields_dict(Record) and SignatureText not in get_args(
            field.type
        ):
            yield field


def _record_columns(model: type) -> Iterator[str]:
    for field in fields_of(model):
        part = next((kind for kind in get_args(field.type) if attrs.has(kind)), None)
        if part is None or get_origin(field.type) is tuple:
            yield field.name
        else:
            yield from (f"{field.name}.{name}" for name in _record_columns(part))


def _results(operation: Operation) -> dict[str, str]:
    """Return the columns of all of a record with their fields; of money, what the journal keeps."""
    if operation.is_money_batch:
        return {name: name for name in (operation.reference_field,) if name}
    is_keyed = operation.kind is OperationClass.KEYED
    others = [] if is_keyed else [one for one in OPERATIONS.values() if one.is_money_batch]
    hidden = {n for one in (operation, *others) for n in attrs.fields_dict(one.order_class)}
    own = {n: f"payout_{n}" for n in ("status", "transaction_id")} if is_keyed else {}
    names = {
        own.get(field, f"found_{field}" if field.partition(".")[0] in hidden else field): field
        for field in _record_columns(operation.record_class)
    }
    # First what the gateway adds, then the request as it repeats it.
    order = sorted(names, key=lambda name: is_keyed and name.startswith("found_"))
    return {name: names[name] for name in order}


@attrs.frozen(kw_only=True)
class Layout:
    """What the files of one command hold.

    Attributes:
        command: The command.
        model: What its rows are.
        operation: What is done with them; None for a ledger.
        inputs: The columns that are read.
        results: The columns written from the gateway's records, and the field of each. Where one
            could hide a column of the input, its name begins with `found_`.
    """

    command: str
    model: type
    operation: Operation | None = None
    inputs: Mapping[str, _Field]
    results: Mapping[str, str] = MappingProxyType({})

    @property
    def moves_money(self) -> bool:
        """Whether it does more than look up."""
        return self.operation is not None and self.operation.takes_jobs

    @property
    def confirms(self) -> bool:
        """Whether the command asks before it sends: money leaves the merchant."""
        operation = self.operation
        return operation is not None and (
            operation.confirms or operation.kind is OperationClass.KEYED
        )

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The fields of its class, which are input columns."""
        return tuple(name for name in self.inputs if "." not in name)

    @functools.cached_property
    def either(self) -> tuple[str, ...]:
        """Columns of which one at least must be there, and filled."""
        return () if self.moves_money else tuple(n for n in _REFERENCES if n in self.inputs)

    @property
    def naming(self) -> tuple[str, ...]:
        """The columns by which people know an order."""
        return ("request_id",) if "request_id" in self.inputs else ("transaction_id", "order_no")

    @functools.cached_property
    def result_columns(self) -> tuple[str, ...]:
        """The columns that the command writes beside those of the input."""
        return (*OUTCOME_COLUMNS, *self.results)

    def by(self, column: str) -> "Layout":
        """Return the layout of a look-up that goes by one column only."""
        return attrs.evolve(self, inputs={column: self.inputs[column]})

    @functools.cached_property
    def _amounts(self) -> Mapping[str, str]:
        """The columns of what an order moves, the first that is filled, and of its currency."""
        found = _currencies(self.model)
        field = self.operation.moved_field if self.operation else ""
        return {field: found[field]} if field in found else found

    def moved(self, order: Any) -> tuple[str, Decimal] | None:
        """Return the currency and the amount that an order moves; None where it moves none."""
        for name, currency in self._amounts.items() if self.moves_money else ():
            if (amount := getattr(order, name)) is not None:
                return getattr(order, currency) or "", amount
        return None


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        name.replace("_", "-"): Layout(
            command=name.replace("_", "-"),
            model=one.order_class,
            operation=one,
            inputs=dict(_inputs(one.order_class)),
            results=_results(one),
        )
        for name, one in OPERATIONS.items()
        if one.is_look_up or one.takes_jobs
    }
)
"""The layout of each command that sends a batch of orders, by the command."""

LEDGER = Layout(command="reconcile", model=LedgerEntry, inputs=dict(_inputs(LedgerEntry)))
"""The layout of a ledger."""

_WRITTEN = {IN_JOB}.union(*(layout.result_columns for layout in LAYOUTS.values()))

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
        found = sorted(self.amounts.items())
        sums = [f"{code or 'without currency'} {amount:,f}" for code, amount in found]
        return ", ".join([f"{self.orders:,} order{'s' * (self.orders != 1)}", *sums])


class OrderFile:
    """A file whose every row was found to be right.

    Args:
        table: The file.
        layout: Its columns.
        dialect: Defines how many decimal places an amount may have; None for any number of them,
            and any currency.
        repeats: Whether the same order may stand in it more than once.

    Attributes:
        totals: What it adds up to.
        lines: The line of each row.
        digest: Of its orders, whatever way they are written, in the order of the file.

    Raises:
        TableError: With every problem of the file.
    """

    def __init__(
        self, table: Table, layout: Layout, dialect: Dialect | None = None, *, repeats: bool = True
    ) -> None:
        self.table = table
        self.layout = layout
        self.totals: Totals = Totals()
        self.lines: array[int] = array("L")
        self._dialect = dialect
        digest, first_lines = hashlib.sha256(), None if repeats else dict[int, int]()
        error = TableError(self._problems(digest, first_lines))
        if error.count:
            raise error
        self.digest: str = digest.hexdigest()

    @property
    def operation(self) -> Operation:
        """What is done with the orders.

        Raises:
            TypeError: For a ledger.
        """
        if self.layout.operation is None:
            raise TypeError("a ledger is not sent")
        return self.layout.operation

    @property
    def unread(self) -> str:
        """Names the columns that nothing is made of, and that no command wrote."""
        names = [name for name in self.table.header if name not in {*self.layout.inputs, *_WRITTEN}]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return ", ".join(map(repr, names[:_NAMED])) + more

    def question(self, address: str) -> str:
        """Return what is asked before its orders are sent."""
        beside = f" (columns that are not sent: {self.unread})" if self.unread else ""
        return f"{self.layout.command} {self.totals} at {address}{beside}"

    def orders(self) -> Iterator[Any]:
        """Make what each row stands for, in the order of the file."""
        return map(self.order_of, self.table.rows())

    def order_of(self, row: Row) -> Any:
        """Make what a row stands for."""
        return self._make(row.cells, [])

    def _problems(self, digest: Any, first_lines: dict[int, int] | None) -> Iterator[Problem]:
        """Yield every problem of the file; orders without one are added up."""
        rows = self.table.rows()
        first = next(rows, None)  # which reads the header
        wrong: _Wrong = [*self._column_problems()]
        if not wrong and first is None:
            wrong.append((None, "there is no row below it"))
        yield from (Problem(line=1, column=column, reason=reason) for column, reason in wrong)
        if wrong or first is None:
            return
        for row in itertools.chain([first], rows):
            self.lines.append(row.line)
            yield from row.problems
            if row.problems:
                continue
            wrong = []
            order = self._make(row.cells, wrong)
            if not wrong and self._dialect is not None:
                wrong = self._order_problems(order, self._dialect, row.line, first_lines)
            if not wrong:
                self.totals.add(self.layout.moved(order))
                digest.update(orjson.dumps(_plain(order)))
            yield from (Problem(line=row.line, column=c, reason=reason) for c, reason in wrong)

    def _column_problems(self) -> Iterator[tuple[str, str]]:
        """Name columns that must be there and are not, and parts that no object has."""
        layout, header = self.layout, self.table.header
        missing = [
            name
            for name, field in layout.inputs.items()
            if field.default is attrs.NOTHING and name not in header
        ]
        if layout.either and not {*layout.either} & {*header}:
            missing.append(" or ".join(layout.either))
        there = ", ".join(map(repr, header))
        yield from ((name, f"missing; there are: {there}") for name in missing)
        if len(layout.columns) < len(layout.inputs):  # some are parts of objects
            for name in header:
                if "." in name and name not in {*layout.inputs, *_WRITTEN}:
                    yield name, "not known: there is no such part"

    def _order_problems(
        self, order: Any, dialect: Dialect, line: int, first_lines: dict[int, int] | None
    ) -> _Wrong:
        """Return why an order cannot be sent, or stands in the file already."""
        operation = self.operation
        if error := check_order(operation, order, dialect):
            return [_explain(error, self.layout)]
        if first_lines is None:
            return []
        identity = identity_of(operation)(order)
        first = first_lines.setdefault(hash(identity), line)
        if first == line:
            return []
        is_keyed = operation.kind is OperationClass.KEYED
        advice = "" if is_keyed else "; if both are meant, give --duplicates serialize"
        return [(name_of(operation, identity)[0], f"the same order as in line {first}{advice}")]

    def _make(self, cells: Mapping[str, str], wrong: _Wrong) -> Any:
        """Make what a row stands for; what is wrong with its cells is added to `wrong`."""
        layout = self.layout
        if layout.moves_money:
            wrong.extend(_sent_before(cells))
        filled = [name for name in layout.either if cells.get(name)]
        if layout.either and (not filled or (len(filled) > 1 and layout.operation is not None)):
            reason = f"fill one of the two, {len(filled)} are filled"
            reason += f"; or choose: --by {layout.either[-1]}" if filled else ""
            one_only = len(layout.either) == 1
            wrong.append((" or ".join(layout.either), "empty" if one_only else reason))
            return None
        try:
            return self._object(layout.model, _nested(cells, layout, wrong), "", wrong)
        except InvalidOrderError as error:
            wrong.append(_explain(error, layout))
        return None

    def _object(self, model: type, tree: Mapping[str, Any], path: str, wrong: _Wrong) -> Any:
        """Make one object of its fields; None where one of them is wrong.

        Raises:
            InvalidOrderError: Where the model refuses what its fields are.
        """
        known, made, before = attrs.fields_dict(model), dict[str, Any](), len(wrong)
        for name in sorted(tree.keys() - known.keys()):
            wrong.append((f"{path}{name}", f"not known; there are: {', '.join(known)}"))
        for name, field in known.items():
            value, column = tree.get(name), f"{path}{name}"
            if value is None or (isinstance(value, str) and not value.strip()):
                if field.default is attrs.NOTHING:
                    wrong.append((column, "empty"))
                elif value:
                    made[name] = value
            elif is_object(field) or _is_list(field):
                made[name] = self._part(field, value, column, wrong)
            else:
                made[name] = value
                if problem := self._cell_problem(model, field, value):
                    wrong.append((column, problem))
        return None if len(wrong) > before else model(**made)

    def _cell_problem(  # noqa: PLR0911  # one check after the other
        self, model: type, field: _Field, value: object
    ) -> str:
        """Return why a cell is wrong: empty where it is right."""
        currencies, dialect = _currencies(model), self._dialect
        if not isinstance(value, str):  # of JSON
            return "expected a text; put it in quotation marks"
        if field.name in currencies:
            is_right = _AMOUNT.fullmatch(value)
            return "" if is_right else f"{value[:_SHOWN]!r} is not an amount; write it like 12.50"
        if _CUT_OFF.fullmatch(value):
            return (
                "a number such as 2.02611E+21, whose last digits a spreadsheet cut off; write the "
                "file again with this column as text"
            )
        if field.name in currencies.values() and dialect is not None:
            if _CURRENCY.fullmatch(value) or value.upper() in dialect.currency_places:
                return ""
            return (
                f"{value[:_SHOWN]!r} is not a code of three letters such as EUR; if your gateway "
                "has it, name it in [dialect] currency_places"
            )
        try:
            field.metadata[CONVERTER](value, None, field)
        except InvalidOrderError as error:
            return str(error).partition(f".{field.name}: ")[2]
        return ""

    def _part(self, field: _Field, value: object, column: str, wrong: _Wrong) -> object:
        """Make an object of its columns, or of JSON; a list of JSON."""
        model: Any = field.metadata.get(MODEL)
        if isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError:
                value = None
        if not _is_list(field):
            if isinstance(value, dict):
                return self._object(model, value, f"{column}.", wrong)
            wrong.append((column, f"expected columns such as {column}.name, or an object"))
        elif not isinstance(value, list) or not all(
            isinstance(each, dict if model else str) for each in value
        ):
            wrong.append((column, 'expected a list, as JSON such as ["..."]'))
        elif model is None:
            return value
        else:
            return [
                self._object(model, each, f"{column}[{number}].", wrong)
                for number, each in enumerate(value)
            ]
        return None


def _sent_before(cells: Mapping[str, str]) -> _Wrong:
    """Return why a row of an outcome file may not be sent: a job has it, or it may be done."""
    status, job = (cells.get(name, "").strip() for name in ("status", IN_JOB))
    status = status.lower()
    if job and status not in {"succeeded", "declined"}:
        reason = (
            f"this order is in job {job!r}, which may send it itself: decide on it with "
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


def _nested(cells: Mapping[str, str], layout: Layout, wrong: _Wrong) -> dict[str, Any]:
    """Make nested objects of dotted columns; columns that are not read are left out."""
    tree: dict[str, Any] = {}
    for column, value in cells.items():
        *parents, name = column.split(".")
        if (parents[0] if parents else name) not in layout.columns or (parents and not value):
            continue
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                wrong.append((column, f"{parent} has a column of its own beside it"))
                branch = {}
        if value or name not in branch:
            branch[name] = value
    return tree


def _explain(error: InvalidOrderError, layout: Layout) -> tuple[str | None, str]:
    """Turn the client's words about an order's field into a column of the file and a reason."""
    for column in layout.columns:
        _, found, reason = str(error).partition(f").{column}: ")
        if found:
            return column, reason
    return None, str(error)


def _plain(value: Any) -> Any:
    """Return an order as JSON has it, whatever way its values were written."""
    if attrs.has(type(value)) and not isinstance(value, SensitiveText):
        fields = {name: getattr(value, name) for name in attrs.fields_dict(type(value))}
        return {name: _plain(one) for name, one in fields.items() if one is not None}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.reveal() if isinstance(value, SensitiveText) else str(value)
