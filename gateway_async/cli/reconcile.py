"""`reconcile`: a ledger file against the gateway's records."""

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, TextIO

from gateway_async.cli import options
from gateway_async.cli.console import gauged
from gateway_async.cli.orders import LEDGER, OrderFile
from gateway_async.cli.run import Run, Stop, drive
from gateway_async.cli.tables import csv_writer, open_table, to_text
from gateway_async.errors import ConfigurationError
from gateway_async.reconciliation import Difference, Reconciliation, reconcile as reconcile_ledger

_COLUMNS = ("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line")


def reconcile(
    ledger: options.Source,
    /,
    *,
    state: Annotated[tuple[str, ...], options.Repeated] = (),
    files: options.Files = options.Files(),
    pace: options.BatchPace = options.BatchPace(),
    gateway: options.Gateway = options.Gateway(),
    console: options.Shown,
) -> int:
    """Compare a ledger with the gateway's records, payments and refunds.

    Example: `gateway-async reconcile ledger.csv --out differences.csv --state 3000=paid`

    Args:
        ledger: The CSV file with your entries, one a row: order_no or transaction_id or both,
            currency, amount, and refunded and state if you like; - for standard input.
        state: What a payment_status means in your books, such as 3000=paid; may be repeated.
            Without it, no state is compared.
    """
    settings = gateway.settings(pace)
    states = _states(state) or settings.reconcile.states
    run = Run(
        command="reconcile",
        console=console,
        files=files,
        settings=settings,
        given=gateway,
        source=ledger,
    )
    with open_table(ledger) as table:
        file = OrderFile(table, LEDGER)
        if file.unread:
            file.name_unread(console, "read")
        if states and "state" not in table.header:
            console.warn("the ledger has no column state, so no state is compared")
        if "state" in table.header and not states:
            console.warn(
                "no state is compared: say what a payment_status means, as in --state 3000=paid"
            )
        credentials = settings.credentials(os.environ, console.warn)

        async def work(out: TextIO, stop: Stop) -> None:
            async with settings.client(credentials, telemetry=run.report.latencies) as client:
                reconciliation = reconcile_ledger(
                    client,
                    file.orders(),
                    states=states,
                    refund_statuses=settings.reconcile.refund_statuses,
                    policy=settings.policy,
                )
                await _compare(run, file, reconciliation, out, stop)

        return run.carry_out(work)


async def _compare(
    run: Run, file: OrderFile, reconciliation: Reconciliation, out: TextIO, stop: Stop
) -> None:
    """Write each difference of a reconciliation, or print it where there is no file."""
    rows = enumerate(file.table.rows())
    at, row = next(rows)
    add = None
    if run.files.out is not None:
        columns = [name for name in file.table.header if name not in _COLUMNS]
        add = csv_writer(out, [*columns, *_COLUMNS])

    def done() -> int:
        return reconciliation.progress.entries

    async with gauged(run.console, "reconcile", file.totals.orders, done) as gauge:

        def see(difference: Difference) -> None:
            nonlocal at, row
            while at < difference.index:  # both come in the order of the ledger
                at, row = next(rows)
            if add is None:
                print(f"line {row.line}: {difference.text}")  # noqa: T201  # its output
            else:
                add({**row.cells, **_cells(difference, row.line)})
            run.report.see_difference(difference, row.line)
            gauge.counts[difference.kind] += 1

        await drive(reconciliation, see, run, stop)
        run.books = reconciliation.summary


def _cells(difference: Difference, line: int) -> dict[str, object]:
    """Return the result cells of one difference."""

    def joined(value: object) -> str:
        return ";".join(map(to_text, value if isinstance(value, tuple) else (value,)))

    error = str(difference.error) if difference.error else None
    said = joined(difference.ledger), joined(difference.gateway)
    cells = (difference.kind, difference.field, *said, error, line)
    return dict(zip(_COLUMNS, cells, strict=True))


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
