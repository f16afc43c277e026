"""Orders from a CSV file, and outcomes into one.

A file is read whole and checked whole: it gives either its orders or every problem in it. This
module opens no file, and knows no network.
"""

import csv
import io
import re
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.cli.layouts import AMOUNTS, STATUS
from gateway_async.errors import InvalidOrderError, RejectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from gateway_async.batching.outcomes import Outcome
    from gateway_async.cli.layouts import Layout
    from gateway_async.dialect import Dialect

SHOWN_PROBLEMS = 20
LONGEST_LINE_BYTES = 65_536
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
_NEVER_AGAIN = {
    "succeeded": (
        "this order succeeded in the run that wrote this file; keep only rows that may be sent "
        "again, and for another operation take this column out"
    ),
    "unknown": "this order may have been done already; look it up before you send it again",
}
_NO_OUTCOME = "unknown"
_NO_OUTCOME_TEXT = "the run ended before the outcome was known"


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a file.

    Attributes:
        line: The line of the file, counted from 1 as an editor does.
        column: The name of the column, None where it is about the whole line.
        reason: What is wrong, and what would be right.
    """

    line: int
    column: str | None = None
    reason: str

    def __str__(self) -> str:
        place = f"line {self.line}" + (f", column {self.column}" if self.column else "")
        return f"{place}: {self.reason}"


class TableError(Exception):
    """A file cannot be used; nothing of it was sent.

    Attributes:
        problems: Everything that is wrong with it, in the order of the lines.
    """

    def __init__(self, problems: "Iterable[Problem]") -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        shown = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - len(shown)
        total = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        more = [f"... and {hidden} more"] if hidden else []
        super().__init__("\n".join([f"{total}, nothing was sent", *shown, *more]))


@attrs.frozen(kw_only=True)
class Table:
    """A file whose every row is an order.

    Attributes:
        header: The names of its columns.
        rows: The cells of each row.
        lines: The line that each row begins in.
        orders: The order of each row.
    """

    header: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]
    orders: list[Any]

    def problems_of(self, error: InvalidOrderError) -> TableError:
        """Say by their lines which orders the client turned down."""
        found = error.problems or {0: error}
        return TableError(
            _explain(self.lines[index], problem, self.header) for index, problem in found.items()
        )


def read_table(body: bytes, layout: "Layout", dialect: "Dialect") -> Table:
    """Read the orders of a CSV file.

    Args:
        body: The file: CSV with a header line, comma-separated, in UTF-8, with or without a
            byte-order mark.
        layout: The columns of the command.
        dialect: Says how many decimal places an amount may have.

    Raises:
        TableError: With every problem of the file.
    """
    records = _records(_lines(body))
    header = _header(next(records, None), layout)
    check = _row_check(header, layout, dialect)
    seen: dict[tuple[str, ...], int] = {}
    problems: list[Problem] = []
    table = Table(header=header, rows=[], lines=[], orders=[])
    for line, cells, broken in records:
        values = dict(zip(header, cells, strict=False))
        found = [broken] if broken else list(check(line, cells, values))
        if not found:
            found = list(_repeated(line, values, layout, seen))
            found += _add_order(table, line, cells, values, layout)
        problems += found
    if not problems and not table.orders:
        problems.append(Problem(line=1, reason="there is a header and no order below it"))
    if problems:
        raise TableError(problems)
    return table


def _lines(body: bytes) -> list[str]:
    if not body.strip(b"\xef\xbb\xbf \t\r\n"):
        raise TableError([Problem(line=1, reason="the file is empty")])
    if body.startswith(_OTHER_ENCODINGS):
        raise TableError([Problem(line=1, reason="the file is UTF-16; save it as UTF-8")])
    raw_lines = body.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    problems = [
        Problem(line=number, reason=reason)
        for number, raw in enumerate(raw_lines, start=1)
        if (reason := _line_problem(raw))
    ]
    if problems:
        raise TableError(problems)
    return [raw.decode() for raw in raw_lines]


def _line_problem(raw: bytes) -> str | None:
    if len(raw) > LONGEST_LINE_BYTES:
        return f"{len(raw)} bytes; a line has at most {LONGEST_LINE_BYTES}"
    if b"\0" in raw:
        return "a NUL byte; the file is damaged, or is not text"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
    return None


def _records(lines: list[str]) -> "Iterator[tuple[int, list[str], Problem | None]]":
    """Yield line, cells and, in place of the cells of a broken record, what is wrong with it."""
    reader = csv.reader(lines, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, [], Problem(line=line, reason=f"not CSV from here on: {error}")
            return
        if cells:
            yield line, cells, None


def _header(
    record: "tuple[int, list[str], Problem | None] | None", layout: "Layout"
) -> tuple[str, ...]:
    if record is None:
        raise TableError([Problem(line=1, reason="the file is empty")])
    line, cells, broken = record
    problems = [broken] if broken else list(_header_problems(line, cells, layout))
    if problems:
        raise TableError(problems)
    return tuple(cells)


def _header_problems(line: int, cells: list[str], layout: "Layout") -> "Iterator[Problem]":
    found = ", ".join(map(repr, cells))
    if len(cells) == 1 and (separator := next((c for c in ";\t|" if c in cells[0]), None)):
        yield Problem(line=line, reason=f"separate the cells by ',' in place of {separator!r}")
        return
    for name in layout.required:
        if name not in cells:
            yield Problem(line=line, column=name, reason=f"missing; the header has: {found}")
    if layout.either and not set(layout.either) & set(cells):
        names = " or ".join(layout.either)
        yield Problem(line=line, column=names, reason=f"missing; the header has: {found}")
    for name in dict.fromkeys(cells):
        if cells.count(name) > 1:
            yield Problem(line=line, column=name, reason="more than one column has this name")


def _row_check(
    header: tuple[str, ...], layout: "Layout", dialect: "Dialect"
) -> "Callable[[int, list[str], Mapping[str, str]], Iterator[Problem]]":
    """Return the check of one row, made once for a file."""
    filled = [name for name in layout.required if name not in AMOUNTS]
    amounts = [name for name in layout.required if name in AMOUNTS]
    guarded = STATUS in header and not layout.looks_up

    def check(line: int, cells: list[str], values: "Mapping[str, str]") -> "Iterator[Problem]":
        if len(cells) != len(header):
            reason = f"{len(cells)} cells where the header has {len(header)}"
            yield Problem(line=line, reason=reason)
            return
        places = dialect.places(values.get("currency", ""))
        reasons = [
            *((name, _identifier_problem(values[name])) for name in filled),
            *((name, _amount_problem(values[name], places)) for name in amounts),
            *_reference_problems(values, layout),
            (STATUS, _NEVER_AGAIN.get(values[STATUS]) if guarded else None),
        ]
        for column, found in reasons:
            if found:
                yield Problem(line=line, column=column, reason=found)

    return check


def _identifier_problem(text: str) -> str | None:
    if not text.strip():
        return "empty"
    return None if text == text.strip() else f"{text!r} has white space around it"


def _amount_problem(text: str, places: int) -> str | None:
    if not _AMOUNT.fullmatch(text):
        return f"{text[:40]!r} is not an amount; write it like 12.50"
    if len(text.partition(".")[2].rstrip("0")) > places:
        return f"{text[:40]!r} has more than {places} decimal places"
    return None


def _reference_problems(
    values: "Mapping[str, str]", layout: "Layout"
) -> "Iterator[tuple[str, str | None]]":
    filled = [name for name in layout.either if values.get(name)]
    if layout.either and len(filled) != 1:
        advice = f"; or choose: --by {layout.either[-1]}" if filled else ""
        yield " or ".join(layout.either), f"fill one of the two, {len(filled)} are filled{advice}"
    for name in filled:
        yield name, _identifier_problem(values[name])


def _repeated(
    line: int,
    values: "Mapping[str, str]",
    layout: "Layout",
    seen: dict[tuple[str, ...], int],
) -> "Iterator[Problem]":
    key = tuple(values.get(name, "") for name in layout.identity)
    first = seen.setdefault(key, line)
    if first != line:
        column = next(name for name in layout.identity if values.get(name))
        yield Problem(line=line, column=column, reason=f"the same order as in line {first}")


def _add_order(
    table: Table, line: int, cells: list[str], values: "Mapping[str, str]", layout: "Layout"
) -> "Iterator[Problem]":
    """Add the order of a row, or yield why it is none."""
    fields = {
        name: values[name]
        for name in layout.columns
        if values.get(name) or (name in values and name in layout.required)
    }
    try:
        order = layout.order(**fields)
    except InvalidOrderError as error:
        yield _explain(line, error, layout.columns)
        return
    table.rows.append(cells)
    table.lines.append(line)
    table.orders.append(order)


def _explain(line: int, error: InvalidOrderError, columns: "Sequence[str]") -> Problem:
    """Turn the client's words about an order's field into a problem of the file's column."""
    for column in columns:
        _, found, reason = str(error).partition(f").{column}: ")
        if found:
            return Problem(line=line, column=column, reason=reason)
    return Problem(line=line, reason=str(error))


def outcome_cells(outcome: "Outcome[Any, Any]", layout: "Layout") -> tuple[str, ...]:
    """Return the result cells of one order; several records of it are joined by `;`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    code, text = _error_cells(outcome.error)
    fields = (
        ";".join(_cell(getattr(record, field, None)) for record in records)
        for field in layout.results.values()
    )
    return (str(outcome.status), code, text, *fields)


def _error_cells(error: Exception | None) -> tuple[str, str]:
    if isinstance(error, RejectedError):
        return error.code, error.text or str(error)
    return "", "" if error is None else str(error)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def write_table(
    out: "TextIO", table: Table, layout: "Layout", results: "Sequence[tuple[str, ...] | None]"
) -> None:
    """Write each row of the input with its result beside it, in the order of the input.

    Args:
        out: A text file opened with `newline=""`.
        table: The input.
        layout: The columns of the command. A column of the input that has the name of a result
            column is replaced, so that a file of outcomes can be handed in again.
        results: The result cells of each order, None where its outcome never became known.
    """
    kept = [i for i, name in enumerate(table.header) if name not in layout.result_columns]
    blank = [""] * len(layout.results)
    unsettled = (_NO_OUTCOME, "", _NO_OUTCOME_TEXT, *blank)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(table.header[i] for i in kept), *layout.result_columns])
    for cells, result in zip(table.rows, results, strict=True):
        writer.writerow([*(cells[i] for i in kept), *(result or unsettled)])


def table_text(table: Table, layout: "Layout", results: "Sequence[tuple[str, ...] | None]") -> str:
    """Return what `write_table` writes, as text."""
    out = io.StringIO(newline="")
    write_table(out, table, layout, results)
    return out.getvalue()
