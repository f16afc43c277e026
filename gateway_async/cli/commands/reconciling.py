"""`reconcile`: a ledger file against the gateway's records."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter

from gateway_async.cli.console import gauged, plain_table, print_json
from gateway_async.cli.layouts import LEDGER
from gateway_async.cli.options import (
    ConsoleArgument,
    FileOptions,
    GatewayOptions,
    Out,
    PaceOptions,
    Source,
)
from gateway_async.cli.orders import InputFile, Reader, check_file, to_text
from gateway_async.cli.reports import reporting
from gateway_async.cli.run import (
    UNSETTLED,
    RunSummary,
    Stop,
    check_json,
    drive,
    make_client,
)
from gateway_async.cli.settings import Reconcile
from gateway_async.cli.tables import open_table, out_file
from gateway_async.errors import ConfigurationError
from gateway_async.reconciliation import reconcile as reconcile_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gateway_async.cli.console import Console
    from gateway_async.cli.settings import Settings
    from gateway_async.cli.tables import Row
    from gateway_async.reconciliation import Difference, Summary
    from gateway_async.signing import Credentials

    Write = Callable[[Difference, Row], object]

_COLUMNS = ("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line")
_AGAIN = "not every entry was answered: give the command again"
_YES_OR_NO = {"yes": True, "no": False}


def _cells(difference: "Difference", line: int) -> tuple[object, ...]:
    """Return the result cells of one difference, in the order of `_COLUMNS`."""
    return (
        difference.kind,
        difference.field,
        _joined(difference.ledger),
        _joined(difference.gateway),
        str(difference.error) if difference.error else None,
        line,
    )


def _joined(value: object) -> str | None:
    if isinstance(value, tuple):
        return ";".join(map(to_text, value))
    return None if value is None else to_text(value)


@attrs.frozen(kw_only=True)
class _Run:
    source: "Path"
    out: "Path | None"
    json: bool
    console: "Console"
    settings: "Settings"
    files: FileOptions

    def run(self) -> int:
        console, settings = self.console, self.settings
        check_json(self.out, json=self.json)
        with open_table(self.source, self.files.stdio) as table:
            file = check_file(table, Reader(LEDGER))
            if file.unread:
                console.tell("unread", f"columns that are not read: {file.unread}")
            if settings.reconcile.states and "state" not in table.header:
                console.warn("the ledger has no column state, so no state is compared")
            if "state" in table.header and not settings.reconcile.states:
                console.warn(
                    "no state is compared: say what a payment_status means, as in --state 3000=paid"
                )
            credentials = settings.credentials(os.environ, console.warn)
            summary = RunSummary(
                command="reconcile", base_url=settings.base_url, source=self.source, out=self.out
            )
            with reporting(self.files.report, summary, console):
                with Stop(console) as stop, contextlib.ExitStack() as opened:
                    out = None
                    if self.out is not None:
                        out = opened.enter_context(
                            out_file(self.out, self.files.stdio, console.warn)
                        )
                        columns = file.passed_through(_COLUMNS)
                        add = opened.enter_context(out.writing([*columns, *_COLUMNS]))

                    def write(difference: "Difference", row: "Row") -> None:
                        if out is None:
                            print(f"line {row.line}: {difference.text}")  # noqa: T201  # its output
                            return
                        given = {name: row.cells[name] for name in columns if name in row.cells}
                        found = _cells(difference, row.line)
                        add({**given, **dict(zip(_COLUMNS, found, strict=True))})

                    asyncio.run(self._drive(file, credentials, write, stop, summary))
                if summary.exit_code == UNSETTLED:
                    summary.next_lines.append(_AGAIN)
                summary.misplaced = "" if out is None else out.problem
        self._tell(summary)
        if self.json:
            print_json(summary.as_dict())
        return summary.exit_code

    async def _drive(
        self,
        file: InputFile,
        credentials: "Credentials",
        write: "Write",
        stop: Stop,
        summary: RunSummary,
    ) -> None:
        started, report = time.monotonic(), summary.report
        async with make_client(self.settings, credentials, summary) as gateway:
            reconciliation = reconcile_ledger(
                gateway,
                file.orders(),
                states=self.settings.reconcile.states,
                refund_statuses=self.settings.reconcile.refund_statuses,
                policy=self.settings.policy,
            )
            rows = enumerate(file.rows())
            at, row = next(rows)
            with gauged(self.console, "reconcile", file.totals.orders) as gauge:

                def see(difference: "Difference") -> None:
                    nonlocal at, row
                    while at < difference.index:  # both come in the order of the ledger
                        at, row = next(rows)
                    if difference.error is not None:
                        summary.note_reason(difference.error)
                    write(difference, row)
                    if report is not None:
                        report.see_difference(difference, row.line)
                    gauge.counts[difference.kind] += 1

                def tick() -> None:
                    gauge.reach(reconciliation.progress.entries)

                await drive(reconciliation, see, summary, stop=stop, tick=tick)
                summary.books = reconciliation.summary
                gauge.reach(summary.books.entries)
        summary.seconds = time.monotonic() - started

    def _tell(self, summary: RunSummary) -> None:
        books, console = summary.books, self.console
        if books is not None:
            console.show("summary", _table(books), **summary.as_dict())
            if not console.is_json:
                console.tell("summary", str(books))
        summary.tell(console)
        for line in summary.next_lines:
            console.tell("next", line)


def _table(books: "Summary") -> Any:  # noqa: ANN401  # of rich
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


def _states(given: "tuple[str, ...]", settings: "Settings") -> "Mapping[str, Any] | None":
    """Read `3000=paid` and the like; the words of one value add up."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in given:
        value, _, text = map(str.strip, one.partition("="))
        words = set(map(str.strip, text.split(",")))
        if not value or "" in words:
            raise ConfigurationError(f"--state: expected such as 3000=paid, got {one!r}")
        found[value] |= words
    return dict(found) or settings.reconcile.states


def _refund_statuses(given: "tuple[str, ...]", settings: "Settings") -> "Mapping[str, bool] | None":
    """Read `1=yes` and the like."""
    found = {}
    for one in given:
        value, _, word = map(str.strip, one.partition("="))
        if not value or word not in _YES_OR_NO:
            raise ConfigurationError(f"--refund-status: expected such as 2=no, got {one!r}")
        found[value] = _YES_OR_NO[word]
    return found or settings.reconcile.refund_statuses


_Repeated = Parameter(consume_multiple=False)


def reconcile(  # noqa: PLR0913  # one keyword an option
    ledger: Source,
    /,
    *,
    out: Out | None = None,
    state: Annotated[tuple[str, ...], _Repeated] = (),
    refund_status: Annotated[tuple[str, ...], _Repeated] = (),
    json: bool = False,
    pace: PaceOptions = PaceOptions(),
    files: FileOptions = FileOptions(),
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
    settings = gateway.settings(rate=pace.rate, policy=pace.policy)
    meanings = Reconcile(
        states=_states(state, settings), refund_statuses=_refund_statuses(refund_status, settings)
    )
    return _Run(
        source=ledger,
        out=out,
        json=json,
        console=console,
        settings=attrs.evolve(settings, reconcile=meanings),
        files=files,
    ).run()
