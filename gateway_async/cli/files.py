"""Files of rows, and of orders: every problem is named by line and column, and nothing is lost.

A file is read once, when the command begins, and its rows are kept: they are checked, sent, and
written out beside their outcomes, whatever becomes of the file meanwhile. The file that a command
writes is begun before anything is sent, and put in its place at the very end.

A file is JSON Lines where its name ends in `.jsonl` or it begins as JSON, and CSV otherwise.
Columns are the fields of orders and records; parts of objects have dots:
`beneficiary.address.city`. Particulars of persons and accounts are in no message.
"""

import codecs
import contextlib
import csv
import hashlib
import json
import re
import secrets
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TextIO

import attrs
import orjson

from gateway_async.batching.batch import check_size
from gateway_async.batching.feed import check_order, name_of
from gateway_async.batching.table import RECORD, cell_of, columns_of
from gateway_async.cli.console import counted, explained, interruptible
from gateway_async.cli.kept import Kept
from gateway_async.cli.settings import Settings
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.journal.codec import make_order
from gateway_async.models.orders import OrderRef
from gateway_async.models.values import CURRENCY, IS_LIST, MODEL, is_encodable
from gateway_async.operations import OPERATIONS, Operation, identity_of
from gateway_async.report.report import Totals

STDIO = Path("-")
"""Stands for standard input or output."""
SHOWN_PROBLEMS = 100
_JSON_LINES = ".jsonl"
_LONGEST_CELL = 131_072
_LONGEST_PROBLEM = 1000
_MOST_BUFFERED = 1 << 24
_NO_TEXT = "is not UTF-8, or is no text; save the file as UTF-8"

# Problems


class Problem(NamedTuple):
    """One thing that is wrong with a file: the line, from 1, the column if it is one, and why."""

    line: int
    column: str | None
    reason: str


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Args:
        problems: What is wrong with it; the first of them are shown, and of each, its beginning.

    Attributes:
        count: How many there are.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.count: int = 0
        shown = list[str]()
        for line, column, reason in problems:
            self.count += 1
            if self.count <= SHOWN_PROBLEMS:
                text = f"line {line}{f', column {column}' if column else ''}: {reason}"
                more = "..." * (len(text) > _LONGEST_PROBLEM)
                shown.append(f"{text[:_LONGEST_PROBLEM]}{more}")
        hidden = self.count - len(shown)
        total = f"{counted(self.count, 'problem')}, nothing was done"
        super().__init__("\n".join([total, *shown, *[f"... and {hidden:,} more"][: bool(hidden)]]))


# Reading


class Row(NamedTuple):
    """One row of a file: the line that it begins in, its cells by column, and what is wrong."""

    line: int | None
    cells: Mapping[str, str]
    problems: Sequence[Problem] = ()


def _is_text(text: str) -> bool:
    """Return whether a part of a file is text in UTF-8."""
    return is_encodable(text) and "\0" not in text


def _problems(line: int, header: list[str], cells: list[str]) -> list[Problem]:
    """Return why a row cannot be read."""
    found = []
    if len(cells) != len(header):
        reason = f"{len(cells)} cells where the header has {len(header)}"
        found.append(Problem(line, None, reason))
    for column, cell in zip(header, cells, strict=False):
        if (longest := max(len(column), len(cell))) > _LONGEST_CELL:
            reason = f"{longest:,} characters are too long; at most {_LONGEST_CELL:,} are read"
            found.append(Problem(line, column, reason))
        if not _is_text(column + cell):
            found.append(Problem(line, column, _NO_TEXT))
    return found


# JSON


class _Json(str):
    """A cell that is written as JSON, not as text: a number digit by digit, a list, true."""

    __slots__ = ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of an object, each of which it has once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise _WrongCellError(twice, "more than one field has this name")
    return found


def _refuse(constant: str) -> None:
    raise _WrongCellError(None, f"{constant} is no number of JSON")


_JSON = json.JSONDecoder(
    parse_float=_Json, parse_int=_Json, parse_constant=_refuse, object_pairs_hook=_once
)


def _json_cells(found: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of an object by column, and in place of objects theirs, with dots."""
    if not isinstance(found, dict):
        raise _WrongCellError(None, 'not an object; a line is like {"order_no": "O1"}')
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _json_cells(value, f"{path}{name}.")
        elif value is None or type(value) is str:
            yield f"{path}{name}", value or ""
        else:
            yield f"{path}{name}", _Json(_to_json(value))


def _to_json(value: object) -> str:
    """Write JSON, of which a `_Json` is a part already."""

    def write(part: object) -> object:
        return orjson.Fragment(str(part)) if isinstance(part, _Json) else to_text(part)

    return orjson.dumps(value, default=write, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode()


# Writing


def to_text(value: object) -> str:
    """Write the value of a cell as text: None as an empty one, several joined by `;`."""
    if isinstance(value, tuple):
        return ";".join(map(to_text, value))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return value.isoformat()
    return "" if value is None else str(value)


def row_writer(
    text: TextIO, columns: Sequence[str], *, is_json: bool = False
) -> Callable[[Mapping[str, Any]], None]:
    """Return what writes a row; cells of other columns are left out.

    Args:
        text: The file; it is JSON Lines where its name ends in `.jsonl`.
        columns: The columns.
        is_json: Whether standard output, which has no such name, is JSON Lines.
    """
    name = str(getattr(text, "name", ""))  # one in memory has none
    if name.lower().endswith(_JSON_LINES) or (is_json and text is sys.stdout):

        def write_json(row: Mapping[str, Any]) -> None:
            found = {name: None if row.get(name) == "" else row.get(name) for name in columns}
            text.write(f"{_to_json(found)}\n")

        return write_json

    def write(row: str) -> None:
        # A lone \r is quoted only where it ends rows. A file with a NUL could not be read again.
        text.write(row.removesuffix("\r\n").replace("\0", "\ufffd") + "\n")

    writer: Any = csv.writer(SimpleNamespace(write=write))
    writer.writerow(columns)
    return lambda row: writer.writerow([to_text(row.get(name)) for name in columns])


@contextlib.contextmanager
def out_file(path: Path) -> Iterator[TextIO]:
    """Begin a file under another name; it gets its own if the block ends without an error.

    Only its owner may read it. A file that is there already is then replaced.

    Args:
        path: The file; `-` for standard output.

    Raises:
        ConfigurationError: If it cannot be written.
        OSError: If it takes no more, or cannot be put in place.
    """
    form: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
    if path == STDIO:
        stdout: Any = sys.stdout
        stdout.reconfigure(newline="")
        yield stdout
        stdout.flush()
        return
    with explained(f"cannot write {path}"):
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path} is no file; name one")
        beside = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
        beside.touch(mode=0o600, exist_ok=False)
    try:
        file = beside.open("w", **form)
        try:
            yield file
        finally:
            try:
                file.close()  # shows at the latest that a disk is full
            except OSError as error:
                error.filename = str(path)
                raise
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


# Orders

IN_JOB = "in_job"
"""The result column that names the job which has the order, and may send it itself."""
JOB_COLUMNS = ("index", "state", "decision_note", IN_JOB)
"""The result columns of an order of a job: its position there, as `jobs resolve` takes it, its
state, which distinguishes held orders, the note of the person who decided on it, and the job."""
OUTCOME_COLUMNS = ("status", "code", "error")
"""The result columns of every command, before those of its records."""
_NEVER_WRITTEN = ("_extra", "_unreadable", "_encryption_data")
"""How the names of columns end that are not the interface's, or signatures."""
_CUT_OFF = re.compile(r"[0-9]([.,][0-9]+)?[Ee]\+[0-9]{2,}")
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")

# Columns

LEDGER = attrs.evolve(OPERATIONS["query"], order_class="gateway_async.reconciliation.LedgerEntry")
"""What stands for an operation where a ledger is read."""


def input_columns(model: type, path: str = "") -> Iterator[tuple[str, "attrs.Attribute[Any]"]]:
    """Yield the columns of an order: its fields, and in place of its objects theirs, with dots."""
    for field in attrs.fields(model):
        if MODEL in field.metadata and IS_LIST not in field.metadata:
            yield from input_columns(field.metadata[MODEL], f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", field


def order_cells(order: object, *, is_masked: bool = False) -> dict[str, str]:
    """Return the cells of an order by column.

    Args:
        order: The order.
        is_masked: Whether particulars of persons and accounts show only that they are there.
    """
    cells = {}
    for column, field in input_columns(type(order)):
        value: Any = order
        for name in column.split("."):
            value = getattr(value, name, None)
        cell = to_text(cell_of(value))
        is_hidden = is_masked and (not field.repr or IS_LIST in field.metadata)
        cells[column] = "***" if cell and is_hidden else cell
    return cells


def result_columns(operation: Operation) -> tuple[str, ...]:
    """Return the columns that are written beside those of the input.

    They have all of a record, but of money, what the journal keeps of it.
    """
    if operation.takes_jobs and operation.list_field:
        return (*OUTCOME_COLUMNS, *filter(None, (operation.reference_field,)))
    columns = columns_of(operation.record_class, RECORD)
    return (*OUTCOME_COLUMNS, *(name for name in columns if not name.endswith(_NEVER_WRITTEN)))


_WRITTEN = {*JOB_COLUMNS}.union(
    *(result_columns(one) for one in OPERATIONS.values() if one.takes_batch)
)

# A file, checked whole


class _WrongCellError(Exception):
    """A row cannot be an order: the column, None where it is no one of them, and the reason."""

    def __init__(self, column: str | None, reason: str) -> None:
        super().__init__(reason)
        self.column, self.reason = column, reason


class OrderFile:
    """A file whose every row was found to be right, as it was when it was read.

    Args:
        path: The file; `-` for standard input.
        rows: Where its rows are kept, by their position from 0.
        operation: What is done with its rows.
        settings: How they are sent, which is checked.

    Attributes:
        header: The names of its columns.
        settings: How its orders are sent.
        unread: Names the columns that nothing is made of, and that no command wrote.
        totals: What it adds up to.
        hashes: The hash of the order of each row, where money moves.
        digest: Of these orders, whatever way and in whatever order they are written.

    Raises:
        ConfigurationError: If it cannot be read.
        TableError: With every problem of the file.
    """

    def __init__(self, path: Path, rows: Kept, operation: Operation, settings: Settings) -> None:
        self.header: list[str] = []
        self.rows: Kept = rows
        is_stdin = path == STDIO
        source: Any = sys.stdin.fileno() if is_stdin else path
        form: Any = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
        expected = "expected a CSV file, one of JSON Lines, or - for standard input"
        with (
            explained(f"cannot read {'standard input' if is_stdin else path}", expected),
            open(source, closefd=not is_stdin, **form) as text,  # a descriptor, too
        ):
            begins = text.buffer.peek().removeprefix(codecs.BOM_UTF8).lstrip()
            self._is_json = path.suffix.lower() == _JSON_LINES or begins.startswith((b"{", b"["))
            read = self._json_rows if self._is_json else self._csv_rows
            for number, row in enumerate(read(text)):
                rows[number] = row
        if not self.header:
            broken = TableError(problem for row in rows for problem in row.problems)
            raise broken if broken.count else TableError([Problem(1, None, "the file is empty")])
        self.operation: Operation = operation
        self.settings: Settings = settings
        self._inputs = dict(input_columns(operation.order_class))
        self._needed = [name for name, one in self._inputs.items() if one.default is attrs.NOTHING]
        self._unknown = [name for name in self.header if name not in {*self._inputs, *_WRITTEN}]
        self.unread: str = ", ".join(map(repr, self._unknown))
        self.totals: Totals = Totals(dialect=settings.dialect)
        self._identity = identity_of(operation)
        self._first: dict[int, int] = {}
        self.hashes: array[int] = array("q")
        self._digests_sum = 0  # which is the same in whatever order they are added
        if (error := TableError(self._problems())).count:
            raise error
        self.digest: str = f"{self._digests_sum % 2**256:064x}"

    def _csv_rows(self, text: Iterable[str]) -> Iterator[Row]:
        csv.field_size_limit(_MOST_BUFFERED)  # a longer cell may be a quote that nothing closes
        reader = csv.reader(text, strict=True)
        line = 1
        try:
            for cells in reader:
                begins, line = line, reader.line_num + 1
                if len(cells) <= 1 and not any(cell.strip() for cell in cells):
                    continue  # a blank line
                if self.header:
                    wrong = _problems(begins, self.header, cells)
                    yield Row(begins, dict(zip(self.header, cells, strict=False)), wrong)
                    continue
                self.header = cells
                if wrong := _problems(begins, [""] * len(cells), cells):
                    raise TableError(wrong[:1])
                if len(cells) == 1 and (others := sorted({*";\t|"} & {*cells[0]})):
                    reason = f"columns are separated by {others[0]!r}; save the file with commas"
                    raise TableError([Problem(begins, None, reason)])
                if twice := [name for name, count in Counter(cells).items() if count > 1]:
                    reason = "more than one column has"
                    raise TableError(
                        Problem(begins, name, f"{reason} {'this' if name else 'an empty'} name")
                        for name in twice
                    )
        except csv.Error as error:
            yield Row(line, {}, [Problem(line, None, f"not CSV from here on: {error}")])

    def _json_rows(self, text: Iterable[str]) -> Iterator[Row]:
        for line, written in enumerate(text, 1):
            if not written.strip():
                continue
            cells, problems = dict[str, str](), list[Problem]()
            try:
                cells = _once([*_json_cells(_JSON.decode(written))])
                problems = _problems(line, [*cells], [*cells.values()])
            except json.JSONDecodeError as error:
                reason = f"not a JSON object: {error.msg}, at character {error.pos + 1}"
                problems.append(Problem(line, None, reason if _is_text(written) else _NO_TEXT))
            except (_WrongCellError, RecursionError, orjson.JSONEncodeError) as error:
                problems.append(Problem(line, getattr(error, "column", None), str(error)))
            self.header += [name for name in cells if name not in self.header]
            yield Row(line, cells, problems)

    def writer(self, text: TextIO, columns: Sequence[str]) -> Callable[[Mapping[str, Any]], None]:
        """Return what writes rows with these columns, and before them those of the file."""
        own = [name for name in self.header if name not in columns]
        return row_writer(text, [*own, *columns], is_json=self._is_json)

    def has(self, order: Any) -> bool:
        """Say whether a line has this order, whatever its amount."""
        return hash(self._identity(order)) in self._first

    def orders(self) -> Iterator[Any]:
        """Make what each row stands for, in the order of the file."""
        return map(self.order_of, self.rows)

    def order_of(self, row: Row) -> Any:
        """Make what a row stands for.

        Raises:
            _WrongCellError: If it is wrong, which the check of the whole file finds first.
        """
        tree = dict[str, Any]()
        if self.operation.takes_jobs and (job := row.cells.get(IN_JOB, "").strip()):
            advice = "only for another operation, take out the columns that the run added"
            reason = f"this order is in job {job!r}: go on with that (jobs resume, jobs resolve)"
            raise _WrongCellError(IN_JOB, f"{reason}; {advice}")
        for column, field in self._inputs.items():
            cell = row.cells.get(column, "")
            if not cell.strip():
                if column in self._needed:
                    raise _WrongCellError(column, "empty")
                continue
            branch, (*parents, name) = tree, column.split(".")
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[name] = _value_of(column, cell, field)
        model = self.operation.order_class
        if model is OrderRef and "transaction_id" in tree:
            tree.pop("order_no", None)  # as a ledger is looked up
        try:
            return make_order(model, tree)
        except InvalidOrderError as error:
            raise _explained(error, model) from None

    def _problems(self) -> Iterator[Problem]:
        """Yield every problem of the file; orders without one are added up."""
        wrong = [Problem(1, *one) for one in self._column_problems()]
        yield from wrong
        for number, row in enumerate(() if wrong else self.rows):
            if row.problems:
                yield from row.problems
                continue
            try:
                order = self.order_of(row)
                self._check(order, number)
            except _WrongCellError as error:
                yield Problem(row.line, error.column, error.reason)
                continue
            self.totals.add(self.operation.moved_by(order))
            if self.operation.takes_jobs:
                self.hashes.append(hash(order))
                digest = hashlib.sha256(_canonical(order)).digest()
                self._digests_sum += int.from_bytes(digest)
        if not wrong and self.rows.get(0) is None:
            yield Problem(1, None, "there is no row below it")

    def _column_problems(self) -> Iterator[tuple[str | None, str]]:
        """Name columns that must be there and are not, and those that name a part wrongly.

        What they hold would not be sent: without its account, a payout may go elsewhere.
        """
        paths = [one.split(".") for one in self._inputs if "." in one]
        parts = {
            "_".join(path[begin:end])
            for path in paths
            for begin, end in combinations(range(len(path) + 1), 2)
        }
        for name in self._unknown if parts else ():
            is_part = "." in name or name in parts
            if is_part and any(row.cells.get(name) for row in self.rows):
                advice = "a part has columns of its own, such as beneficiary.bank_details.iban"
                yield name, f"not known; {advice}"
        there = f"there are: {', '.join(map(repr, self.header))}"
        for name in self._needed:
            if name not in self.header:
                yield name, f"missing; {there}"
        if not self._needed and not self._inputs.keys() & {*self.header}:
            yield None, f"no column is one of {', '.join(self._inputs)}; {there}"

    def _check(self, order: Any, number: int) -> None:
        """Check that an order can be sent, and does not stand in the file already."""
        operation, settings = self.operation, self.settings
        if operation is not LEDGER and (error := check_order(operation, order, settings.dialect)):
            raise _explained(error, type(order))
        for amount, currency in operation.moved_fields:
            if getattr(order, amount) is not None and not getattr(order, currency):
                raise _WrongCellError(currency, f"missing or empty, beside {amount}")
        if operation.is_look_up:
            return
        identity = self._identity(order)
        first = self._first.setdefault(hash(identity), number)
        if first != number and (operation.is_keyed or settings.policy.duplicates == "reject"):
            advice = "; if both are meant, give --duplicates serialize" * (not operation.is_keyed)
            reason = f"the same order as in line {self.rows.get(first).line}{advice}"
            raise _WrongCellError(name_of(operation, identity)[0], reason)


@contextlib.contextmanager
def open_orders(path: Path, operation: Operation, settings: Settings) -> Iterator[OrderFile]:
    """Read a file, or standard input, whole, and check it.

    Args:
        path: The file; `-` for standard input.
        operation: What is done with its rows.
        settings: How they are sent.

    Raises:
        ConfigurationError: If it cannot be read, or not be sent as the settings say.
        TableError: With every problem of the file.
    """
    check_size(operation, settings.policy)
    with contextlib.closing(Kept()) as rows:
        with interruptible():
            file = OrderFile(path, rows, operation, settings)
        yield file


def _value_of(column: str, cell: str, field: "attrs.Attribute[Any]") -> Any:
    """Read a cell: as an amount, as a list of objects that is JSON, or as text."""
    if _CUT_OFF.fullmatch(cell):
        reason = "a number whose last digits a spreadsheet cut off; write this column as text"
        raise _WrongCellError(column, reason)
    if CURRENCY in field.metadata:
        if not _AMOUNT.fullmatch(cell):
            raise _WrongCellError(column, f"{cell!r:.60} is no amount; write it like '12.50'")
        return Decimal(cell)  # an order of such values is made faster
    if IS_LIST not in field.metadata:
        if isinstance(cell, _Json) and {*"[tfeE"} & {*cell}:  # a list, true, false, 2.02e21
            raise _WrongCellError(column, "expected text, or a number with all of its digits")
        return str(cell)
    fields = attrs.fields_dict(field.metadata[MODEL])
    with contextlib.suppress(orjson.JSONDecodeError):
        if isinstance(found := orjson.loads(str(cell)), list):
            if all(isinstance(one, dict) and one.keys() <= fields.keys() for one in found):
                return found
            raise _WrongCellError(column, f"expected objects that have only {', '.join(fields)}")
    example = f'[{{"{next(iter(fields))}": "..."}}]'
    raise _WrongCellError(column, f"expected a list, as JSON such as {example}")


def _explained(error: InvalidOrderError, model: type, path: str = "") -> _WrongCellError:
    """Turn the client's words about a field of an order into a column of the file and a reason."""
    text = str(error)
    for name, field in attrs.fields_dict(model).items():
        _, found, reason = text.partition(f").{name}: ")
        if found and text.startswith(f"{model.__name__}("):
            return _WrongCellError(f"{path}{name}", reason)
        part = field.metadata.get(MODEL)
        if part and (explained := _explained(error, part, f"{path}{name}.")).column:
            return explained
    return _WrongCellError(None, text.partition("): ")[2] or text)


def _canonical(order: Any) -> bytes:
    """Return an order as JSON, the same however its amounts were written.

    What is as by default is left out: a field that a later version adds changes no job's name.
    """
    fields = attrs.asdict(order, filter=lambda field, value: value != field.default)
    return orjson.dumps(fields, default=lambda amount: format(amount.normalize(), "f"))
