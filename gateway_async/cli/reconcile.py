"""`reconcile`: a ledger file against the gateway's records."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from gateway_async.cli.console import Console, gauged, plain_table, print_json
from gateway_async.cli.orders import LEDGER, OrderFile
from gateway_async.cli.run import UNSETTLED, RunSummary, Stop, check_json, drive, reporting
from gateway_async.cli.settings import (
    ConsoleArgument,
    FormatOption,
    GatewayOptions,
    Out,
    PaceOptions,
    Reconcile,
    ReportOption,
    Settings,
    Source,
)
from gateway_async.cli.tables import Format, Row, open_table, out_file, to_text
from gateway_async.errors import ConfigurationError
from gateway_async.reconciliation import Difference, Summary, reconcile as reconcile_ledger
from gateway_async.signing import Credentials

_COLUMNS = ("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line")
_YES_OR_NO = {"yes": True, "no": False}
_Repeated = Parameter(consume_multiple=False)


def reconcile(
    ledger: Source,
    /,
    *,
    out: Out | None = None,
    state: Annotated[tuple[str, ...], _Repeated] = (),
    refund_status: Annotated[tuple[str, ...], _Repeated] = (),
    json: bool = False,
    pace: PaceOptions = PaceOptions(),
    stdio: FormatOption = Format.CSV,
    report: ReportOption = None,
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Compare a ledger with the gateway's records, payments and refunds.

    Args:
        ledger: The file with your entries, one a row: order_no or transaction_id or both,
            currency, amount, and refunded and state if you like; - for standard input.
        out: The file for the differences, each beside its entry; - for standard output. Without
            it they are printed, one a line.
        state: What a payment_status means in your books, such as 3000=paid; may be repeated.
            Without it, no state is compared.
        refund_status: Whether a refund of this refund_status gave money back, such as 2=no; may
            be repeated. Without it, 1=yes; with it, only what is named.
        json: Print one JSON object at the end: counts, totals and files; it needs --out.
    """
    settings = gateway.settings(pace)
    states = _states(state) or settings.reconcile.states
    refund_statuses = _refund_statuses(refund_status) or settings.reconcile.refund_statuses
    meanings = Reconcile(states=states, refund_statuses=refund_statuses)
    settings = attrs.evolve(settings, reconcile=meanings)
    check_json(out, json=json)
    with open_table(ledger, stdio) as table:
        file = OrderFile(table, LEDGER)
        if file.unread:
            console.tell("unread", f"columns that are not read: {file.unread}")
        if states and "state" not in table.header:
            console.warn("the ledger has no column state, so no state is compared")
        if "state" in table.header and not states:
            console.warn(
                "no state is compared: say what a payment_status means, as in --state 3000=paid"
            )
        credentials = settings.credentials(os.environ, console.warn)
        summary = RunSummary(
            command="reconcile", base_url=settings.address, source=ledger, out=out, format=stdio
        )
        columns = file.passed_through(_COLUMNS)

        with reporting(report, summary, console):
            with Stop(console) as stop, contextlib.ExitStack() as writing:
                write = _print
                if out is not None:
                    written = writing.enter_context(out_file(out, stdio, console.warn))
                    add = writing.enter_context(written.writing([*columns, *_COLUMNS]))
                    write = partial(_write, columns, add)
                asyncio.run(_compare(file, settings, credentials, summary, console, stop, write))
            if summary.exit_code == UNSETTLED:
                again = "not every entry was answered: give the command again"
                summary.next_lines.append(again)
            summary.misplaced = "" if out is None else written.problem
    if summary.books is not None:
        console.show("summary", _table(summary.books), **summary.as_dict())
        if not console.is_json:
            console.tell("summary", str(summary.books))
    summary.tell(console)
    for line in summary.next_lines:
        console.tell("next", line)
    if json:
        print_json(summary.as_dict())
    return summary.exit_code


async def _compare(  # noqa: PLR0917  # what the command was given
    file: OrderFile,
    settings: Settings,
    credentials: Credentials,
    summary: RunSummary,
    console: Console,
    stop: Stop,
    write: Callable[[Difference, Row], object],
) -> None:
    """Compare the entries of a ledger with the gateway's records, and write each difference."""
    started, rows = time.monotonic(), enumerate(file.rows())
    at, row = next(rows)

    def see(difference: Difference) -> None:
        nonlocal at, row
        while at < difference.index:  # both come in the order of the ledger
            at, row = next(rows)
        summary.note_reason(difference.error)
        write(difference, row)
        if summary.report is not None:
            summary.report.see_difference(difference, row.line)
        gauge.counts[difference.kind] += 1

    async with settings.client(credentials, telemetry=summary.latencies) as client:
        reconciliation = reconcile_ledger(
            client,
            file.orders(),
            states=settings.reconcile.states,
            refund_statuses=settings.reconcile.refund_statuses,
            policy=settings.policy,
        )
        with gauged(console, "reconcile", file.totals.orders) as gauge:

            def tick() -> None:
                gauge.reach(reconciliation.progress.entries)

            await drive(reconciliation, see, summary, stop=stop, tick=tick)
            summary.books = reconciliation.summary
            gauge.reach(summary.books.entries)
    summary.seconds = time.monotonic() - started


def _print(difference: Difference, row: Row) -> None:
    print(f"line {row.line}: {difference.text}")  # noqa: T201  # its output


def _write(
    columns: Sequence[str],
    add: Callable[[Mapping[str, Any]], object],
    difference: Difference,
    row: Row,
) -> None:
    """Write a difference beside its entry."""
    given = {name: row.cells[name] for name in columns if name in row.cells}
    add({**given, **dict(zip(_COLUMNS, _cells(difference, row.line), strict=True))})


def _cells(difference: Difference, line: int) -> tuple[object, ...]:
    """Return the result cells of one difference, in the order of `_COLUMNS`."""

    def joined(value: object) -> str | None:
        if isinstance(value, tuple):
            return ";".join(map(to_text, value))
        return None if value is None else to_text(value)

    return (
        *(difference.kind, difference.field),
        *(joined(difference.ledger), joined(difference.gateway)),
        *(str(difference.error) if difference.error else None, line),
    )


def _table(books: Summary) -> Any:
    """Return the totals of both sides, by currency."""
    names = ("payments", "amount", "refunded")
    rows = (
        (
            *(code, side, f"{getattr(totals, f'{side}_count'):,}"),
            *(f"{getattr(totals, f'{side}_{name}'):,f}" for name in names[1:]),
        )
        for code, totals in books.currencies.items()
        for side in ("ledger", "gateway")
    )
    return plain_table(("currency", "side", *names), rows, numbers=names)


def _states(given: Sequence[str]) -> dict[str, set[str]]:
    """Read `3000=paid` and the like; the words of one value add up."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in given:
        value, _, text = map(str.strip, one.partition("="))
        words = set(map(str.strip, text.split(",")))
        if not value or "" in words:
            raise ConfigurationError(f"--state: expected such as 3000=paid, got {one!r}")
        found[value] |= words
    return dict(found)


def _refund_statuses(given: Sequence[str]) -> dict[str, bool]:
    """Read `1=yes` and the like."""
    found = {}
    for one in given:
        value, _, word = map(str.strip, one.partition("="))
        if not value or word not in _YES_OR_NO:
            raise ConfigurationError(f"--refund-status: expected such as 2=no, got {one!r}")
        found[value] = _YES_OR_NO[word]
    return found
