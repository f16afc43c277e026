"""What the files of each command hold, and rows into orders, with every problem by line and column.

Columns are the fields of orders and records; parts of objects have dots:
`beneficiary.address.city`. Particulars of persons and accounts are in no message.
"""

import contextlib
import hashlib
import re
from array import array
from collections.abc import Iterator, Mapping
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
        self.totals: Totals = Totals(dialect=dialect or Dialect())
        self.lines: array[int] = array("L")
        self._dialect = dialect
        self._repeats = repeats
        self._first: dict[int, int] = {}
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

    def _nearest(self, name: str) -> str:
        return nearest(name, [one for one in self._inputs if one not in self.table.header])

    def has(self, order: Any) -> bool:
        """Say whether a line has this order, whatever its amount."""
        return hash(identity_of(self.operation)(order)) in self._first

    def orders(self) -> Iterator[Any]:
        """Make what each row stands for, in the order of the file."""
        return map(self.order_of, self.table.rows())

    def order_of(self, row: Row) -> Any:
        """Make what a row stands for.

        Raises:
            _WrongCellError: If it is wrong, which the check of the whole file finds first.
        """
        tree, model = dict[str, Any](), self.operation.order_class
        if self.operation.takes_jobs:
            _check_not_sent(row.cells)
        for column, cell in row.cells.items():
            if not cell or column not in self._inputs:
                continue
            if _CUT_OFF.fullmatch(cell):
                reason = (
                    "a number such as 2.02611E+21, whose last digits a spreadsheet cut off; write "
                    "the file again with this column as text"
                )
                raise _WrongCellError(column, reason)
            if currency_field(self._inputs[column]) and not _AMOUNT.fullmatch(cell):
                raise _WrongCellError(column, f"{cell!r:.60} is no amount; write it like '12.50'")
            *parents, name = column.split(".")
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            is_list = IS_LIST in self._inputs[column].metadata
            branch[name] = _listed(column, cell) if is_list else cell
        if model is OrderRef and "transaction_id" in tree:
            tree.pop("order_no", None)  # as a ledger is looked up
        return _made(model, tree, "")

    def _problems(self) -> Iterator[Problem]:
        """Yield every problem of the file; orders without one are added up."""
        wrong = [*self._column_problems()]
        yield from (Problem(1, column, reason) for column, reason in wrong)
        for row in () if wrong else self.table.rows():
            self.lines.append(row.line)
            yield from row.problems
            if row.problems:
                continue
            try:
                order = self.order_of(row)
                if self._dialect is not None:
                    self._check(order, self._dialect)
            except _WrongCellError as error:
                yield Problem(row.line, error.column, error.reason)
                continue
            self.totals.add(self.operation.moved_by(order))
            if self.operation.takes_jobs:
                self.hashes.append(hash(order))
                digest = hashlib.sha256(orjson.dumps(_plain(order))).digest()
                self._digests_sum += int.from_bytes(digest)
        if not self.lines and not wrong:
            yield Problem(1, None, "there is no row below it")

    def _column_problems(self) -> Iterator[tuple[str | None, str]]:
        """Name columns that must be there and are not, and those of parts that no order has."""
        header = self.table.header
        for name in self._unknown:  # without its account, a payout may go elsewhere
            if "." in name or any(one.endswith(f".{name}") for one in self._inputs):
                hint = self._nearest(name) or "such as beneficiary.bank_details.iban"
                yield name, f"not known; a part has columns of its own: {hint}"
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
        identity = identity_of(operation)(order)
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
    fields, given = attrs.fields_dict(model), dict[str, Any]()
    for name, value in tree.items():
        if name not in fields:
            raise _WrongCellError(f"{path}{name}", f"not known; there are: {', '.join(fields)}")
        part, column = fields[name].metadata.get(MODEL), f"{path}{name}"
        if isinstance(value, Mapping) and part:
            given[name] = _made(part, value, f"{column}.")
        elif isinstance(value, list) and part:
            given[name] = [
                _made(part, one, f"{column}[{number}].") if isinstance(one, Mapping) else one
                for number, one in enumerate(value)
            ]
        else:
            given[name] = value
    for name, field in fields.items():
        if field.default is attrs.NOTHING and not str(given.get(name, "")).strip():
            raise _WrongCellError(f"{path}{name}", "empty")
    try:
        return model(**given)
    except InvalidOrderError as error:
        raise _explained(error, model, path) from None


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
    if attrs.has(type(value)) and not isinstance(value, SensitiveText):
        fields = ((field, getattr(value, field.name)) for field in attrs.fields(type(value)))
        return {field.name: _plain(one) for field, one in fields if one != field.default}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.reveal() if isinstance(value, SensitiveText) else str(value)
