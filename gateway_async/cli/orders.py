"""What the files of each command hold, and rows into orders, with every problem by line and column.

Columns are the fields of orders and records; parts of objects have dots:
`beneficiary.address.city`. Particulars of persons and accounts are in no message.
"""

import contextlib
import functools
import hashlib
import itertools
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import orjson

from gateway_async.batching.batch import check_size
from gateway_async.batching.feed import check_order, name_of
from gateway_async.batching.table import RECORD, columns_of
from gateway_async.cli.settings import Settings, nearest
from gateway_async.cli.tables import Problem, Row, Table, TableError, open_table
from gateway_async.dialect import Dialect
from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import OrderRef
from gateway_async.models.values import IS_LIST, MODEL, SensitiveText, currency_field
from gateway_async.operations import OPERATIONS, Operation, OperationClass, identity_of
from gateway_async.report.report import Totals

INDEX = "index"
"""The result column with the position of the order in its job, as `jobs resolve` takes it."""
IN_JOB = "in_job"
"""The result column that names the job which has the order, and may send it itself."""
STATE = "state"
"""The result column with the state of the order in its job: it distinguishes held orders."""
DECISION_NOTE = "decision_note"
"""The result column with the note of the person who decided on an order."""
OUTCOME_COLUMNS = ("status", "code", "error")
"""The result columns of every command, before those of its records."""
_MAY_BE_DONE = ("succeeded", "unknown")
_NEVER_WRITTEN = ("_extra", "_unreadable", "_encryption_data")
"""How the names of columns end that are not the interface's, or signatures."""
_SLIP = 0.9
"""How alike a column is to a field that it is not, where it must be a slip of the pen."""
_CUT_OFF = re.compile(r"[0-9]([.,][0-9]+)?[Ee]\+[0-9]{2,}")
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")

_Field: TypeAlias = "attrs.Attribute[Any]"

# Columns

LEDGER = Operation(
    name="reconcile",
    path="",
    kind=OperationClass.READ,
    order_class="gateway_async.reconciliation.LedgerEntry",
)
"""What stands for an operation where a ledger is read."""


def input_columns(model: type, path: str = "") -> Iterator[tuple[str, _Field]]:
    """Yield the columns of an order: its fields, and in place of its objects theirs, with dots."""
    for field in attrs.fields(model):
        if MODEL in field.metadata and IS_LIST not in field.metadata:
            yield from input_columns(field.metadata[MODEL], f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", field


def result_columns(operation: Operation) -> tuple[str, ...]:
    """Return the columns that are written beside those of the input.

    They have all of a record, but of money, what the journal keeps of it.
    """
    if operation.takes_jobs and operation.list_field:
        return (*OUTCOME_COLUMNS, *filter(None, (operation.reference_field,)))
    columns = columns_of(operation.record_class, RECORD)
    return (*OUTCOME_COLUMNS, *(name for name in columns if not name.endswith(_NEVER_WRITTEN)))


_WRITTEN = {INDEX, IN_JOB, DECISION_NOTE}.union(
    *(result_columns(one) for one in OPERATIONS.values() if one.takes_batch)
)

# A file, checked whole


class _WrongCellError(Exception):
    """A row cannot be an order: the column, None where it is no one of them, and the reason."""

    def __init__(self, column: str | None, reason: str) -> None:
        super().__init__(reason)
        self.column, self.reason = column, reason


class OrderFile:
    """A file whose every row was found to be right.

    Args:
        table: The file.
        operation: What is done with its rows.
        dialect: Defines how many decimal places an amount may have; None for any number of them.
        repeats: Whether the same order may stand in it more than once.

    Attributes:
        totals: What it adds up to.
        lines: The line of each row.
        hashes: The hash of the order of each row.
        digest: Of its orders, whatever way and in whatever order they are written.

    Raises:
        TableError: With every problem of the file.
    """

    def __init__(
        self,
        table: Table,
        operation: Operation,
        dialect: Dialect | None = None,
        *,
        repeats: bool = True,
    ) -> None:
        self.table = table
        self.operation = operation
        self._inputs = dict(input_columns(operation.order_class))
        self._columns = [
            (name, name.split("."), currency_field(field), IS_LIST in field.metadata)
            for name, field in self._inputs.items()
            if name in table.header
        ]
        self._may_be_outcomes = operation.takes_jobs and {IN_JOB, "status"} & {*table.header}
        self.totals: Totals = Totals(dialect=dialect or Dialect())
        self.lines: array[int] = array("L")
        self._dialect = dialect
        self._repeats = repeats
        self._first: dict[int, int] = {}
        self._identity = identity_of(operation)
        self.hashes: array[int] = array("q")
        self._digests_sum = 0  # which is the same in whatever order they are added
        error = TableError(self._problems())
        if error.count:
            raise error
        self.digest: str = f"{self._digests_sum % 2**256:064x}"

    @property
    def unread(self) -> str:
        """Names the columns that nothing is made of, and that no command wrote."""
        named = ((repr(name), self._nearest(name)) for name in self._unknown)
        return ", ".join(f"{name} ({hint})" if hint else name for name, hint in named)

    @property
    def _unknown(self) -> list[str]:
        return [name for name in self.table.header if name not in {*self._inputs, *_WRITTEN}]

    def _nearest(self, name: str, cutoff: float = 0.6) -> str:
        return nearest(name, [one for one in self._inputs if one not in self.table.header], cutoff)

    def has(self, order: Any) -> bool:
        """Say whether a line has this order, whatever its amount."""
        return hash(self._identity(order)) in self._first

    def orders(self) -> Iterator[Any]:
        """Make what each row stands for, in the order of the file."""
        return map(self.order_of, self.table.rows())

    def order_of(self, row: Row) -> Any:
        """Make what a row stands for.

        Raises:
            _WrongCellError: If it is wrong, which the check of the whole file finds first.
        """
        tree, model = dict[str, Any](), self.operation.order_class
        if self._may_be_outcomes:
            _check_not_sent(row.cells)
        for column, (*parents, name), is_amount, is_list in self._columns:
            if not (cell := row.cells[column]):
                continue
            if "+" in cell and _CUT_OFF.fullmatch(cell):
                reason = (
                    "a number such as 2.02611E+21, whose last digits a spreadsheet cut off; write "
                    "the file again with this column as text"
                )
                raise _WrongCellError(column, reason)
            value: Any = _listed(column, cell) if is_list else cell
            if is_amount:
                if not _AMOUNT.fullmatch(cell):
                    reason = f"{cell!r:.60} is no amount; write it like '12.50'"
                    raise _WrongCellError(column, reason)
                value = Decimal(cell)  # an order of such values is made faster
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[name] = value
        if model is OrderRef and "transaction_id" in tree:
            tree.pop("order_no", None)  # as a ledger is looked up
        return _made(model, tree, "")

    def _problems(self) -> Iterator[Problem]:
        """Yield every problem of the file; orders without one are added up."""
        wrong = [*self._column_problems()]
        yield from (Problem(1, column, reason) for column, reason in wrong)
        takes_jobs, moved_by = self.operation.takes_jobs, self.operation.moved_by
        for row in () if wrong else self.table.rows():
            self.lines.append(row.line)
            if row.problems:
                yield from self._decimal_commas(row) or row.problems
                continue
            try:
                order = self.order_of(row)
                if self._dialect is not None:
                    self._check(order, self._dialect)
            except _WrongCellError as error:
                yield Problem(row.line, error.column, error.reason)
                continue
            self.totals.add(moved_by(order))
            if takes_jobs:
                self.hashes.append(hash(order))
                digest = hashlib.sha256(orjson.dumps(_plain(order))).digest()
                self._digests_sum += int.from_bytes(digest)
        if not self.lines and not wrong:
            yield Problem(1, None, "there is no row below it")

    def _decimal_commas(self, row: Row) -> list[Problem]:
        """Name the amounts whose comma may be why a row has more cells than columns."""
        count, columns = len(row.texts), self.table.header
        more = max(0, count - len(columns))
        pairs = [
            whole.isdigit() and len(part) == 2 and part.isdigit()  # noqa: PLR2004  # as in 12,50
            for whole, part in itertools.pairwise(row.texts)
        ]
        amounts = {name for name, _, is_amount, _ in self._columns if is_amount}
        found = [
            name
            for at, name in enumerate(columns)
            if name in amounts and any(pairs[at : at + more])
        ]
        reason = (
            f"{count} cells where the header has {len(columns)}: an amount with a comma is two "
            "cells; write it like '12.50'"
        )
        return [Problem(row.line, " or ".join(found), reason)] if found else []

    def _column_problems(self) -> Iterator[tuple[str | None, str]]:
        """Name columns that must be there and are not, and those that must be a slip.

        What they hold would not be sent: without its account, a payout may go elsewhere.
        """
        header = self.table.header
        for name in self._unknown:
            if "." in name or any(one.endswith(f".{name}") for one in self._inputs):
                hint = self._nearest(name) or "such as beneficiary.bank_details.iban"
                yield name, f"not known; a part has columns of its own: {hint}"
            elif hint := self._nearest(name, _SLIP):
                yield name, f"not known; {hint} Rename the column, or take it out"
        there = f"there are: {', '.join(map(repr, header))}"
        fields = attrs.fields(self.operation.order_class)
        needed = [field.name for field in fields if field.default is attrs.NOTHING]
        for name in needed:
            if name not in header:
                yield name, f"missing; {there}"
        if not needed and not self._inputs.keys() & {*header}:
            yield None, f"no column is one of {', '.join(self._inputs)}; {there}"

    def _check(self, order: Any, dialect: Dialect) -> None:
        """Check that an order can be sent, and does not stand in the file already."""
        operation = self.operation
        if error := check_order(operation, order, dialect):
            raise _explained(error, type(order), "")
        for amount, currency in operation.moved_fields:
            if getattr(order, amount) is not None and not getattr(order, currency):
                raise _WrongCellError(currency, f"missing or empty, beside {amount}")
        if operation.is_look_up:
            return
        identity = self._identity(order)
        at = len(self.lines) - 1
        first = self._first.setdefault(hash(identity), at)
        if first != at and not self._repeats:
            advice = (
                "" if operation.is_keyed else "; if both are meant, give --duplicates serialize"
            )
            reason = f"the same order as in line {self.lines[first]}{advice}"
            raise _WrongCellError(name_of(operation, identity)[0], reason)


@contextlib.contextmanager
def open_orders(path: Path, operation: str, settings: Settings) -> Iterator[OrderFile]:
    """Check a file of orders that are sent as settings say.

    Raises:
        ConfigurationError: If it cannot be used.
        TableError: With every problem of the file.
    """
    row, policy = OPERATIONS[operation], settings.policy
    check_size(row, policy)
    repeats = policy.duplicates != "reject" and not row.is_keyed
    with open_table(path) as table:
        yield OrderFile(table, row, settings.dialect, repeats=repeats)


def _check_not_sent(cells: Mapping[str, str]) -> None:
    """Refuse the row of an outcome file that a job has, or that was done, or may have been."""
    status, reason = cells.get("status", "").strip().lower(), ""
    if job := cells.get(IN_JOB, "").strip():
        reason = f"this order is in job {job!r}: go on with that (jobs resume, jobs resolve)"
    elif status in _MAY_BE_DONE and cells.keys() >= {*OUTCOME_COLUMNS}:
        reason = f"{status} in the run that wrote this file: go on with the file of that run"
    if reason:
        advice = "only for another operation, take out the columns that the run added"
        raise _WrongCellError(IN_JOB if job else "status", f"{reason}; {advice}")


def _listed(column: str, cell: str) -> list[Any]:
    """Read a list of texts, or of objects, that is JSON."""
    try:
        found = orjson.loads(cell)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list):
        raise _WrongCellError(column, 'expected a list, as JSON such as ["..."]')
    return found


def _made(model: type, tree: Mapping[str, Any], path: str) -> Any:
    """Make an object of its fields, and first of all those that are objects."""
    (parts, needed), given = _parts_of(model), dict[str, Any]()
    for name, value in tree.items():
        if name not in parts:
            raise _WrongCellError(f"{path}{name}", f"not known; there are: {', '.join(parts)}")
        given[name], part = value, parts[name]
        if part and isinstance(value, Mapping):
            given[name] = _made(part, value, f"{path}{name}.")
        elif part and isinstance(value, list):
            given[name] = [
                _made(part, one, f"{path}{name}[{number}].") if isinstance(one, Mapping) else one
                for number, one in enumerate(value)
            ]
    for name in needed:
        if not str(given.get(name, "")).strip():
            raise _WrongCellError(f"{path}{name}", "empty")
    try:
        return model(**given)
    except InvalidOrderError as error:
        raise _explained(error, model, path) from None


@functools.cache
def _parts_of(model: type) -> tuple[Mapping[str, type[Any] | None], Sequence[str]]:
    """Return the fields of a model, with the model of each that is an object, and the needed."""
    fields = attrs.fields(model)
    needed = [field.name for field in fields if field.default is attrs.NOTHING]
    return {field.name: field.metadata.get(MODEL) for field in fields}, needed


def _explained(error: InvalidOrderError, model: type, path: str) -> _WrongCellError:
    """Turn the client's words about a field of an order into a column of the file and a reason."""
    text = str(error)
    for name in attrs.fields_dict(model):
        _, found, reason = text.partition(f").{name}: ")
        if found:
            return _WrongCellError(f"{path}{name}", reason)
    return _WrongCellError(None, text.partition("): ")[2] or text)


def _plain(value: Any) -> Any:
    """Return an order as JSON has it, whatever way its values were written.

    What is as by default is left out: a field that a later version adds changes no job's name.
    """
    kind: type = type(value)
    if kind is str:  # as most are
        return value
    if isinstance(value, SensitiveText):
        return value.reveal()
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if defaults := _defaults_of(kind):
        found = ((name, getattr(value, name), usual) for name, usual in defaults)
        return {name: _plain(one) for name, one, usual in found if one != usual}
    return str(value)


@functools.cache
def _defaults_of(kind: type) -> Sequence[tuple[str, object]]:
    """Return the default of each field of a model; of no model, nothing."""
    return [(one.name, one.default) for one in attrs.fields(kind)] if attrs.has(kind) else ()
