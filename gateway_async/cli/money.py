"""Commands on a file: `capture cancel review refund payout`, `query search-refunds reconcile`.

A file whose orders move money is a job of the journal. The orders are kept before anything is sent,
under a name that is made of them. The same file, given again after whatever happened, goes on where
it was, and sends nothing that may have been sent.
"""

import asyncio
import contextlib
from typing import Any, TextIO

import attrs
import orjson

from gateway_async.cli import options
from gateway_async.cli.console import Exit, counted, output, print_json
from gateway_async.cli.files import (
    LEDGER,
    OrderFile,
    open_orders,
    open_table,
    result_columns,
    row_writer,
    to_text,
)
from gateway_async.cli.jobs import KnownJob, find_job, find_left, run_job
from gateway_async.cli.run import Kept, Run, result_cells, write_rows
from gateway_async.errors import ConfigurationError, NotSentError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation import Difference, reconcile as reconcile_ledger

_REQUESTS_SHOWN = 3
_NOT_SENT = NotSentError("nothing was sent: the run ended before")


def send(
    orders: options.Source,
    /,
    *,
    given: options.Sending = options.Sending(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Work on the orders of a file: the operation is the name of the command.

    Args:
        orders: The file with the orders, one a row: CSV, or JSON Lines by a name that ends in
            .jsonl; - for standard input.
    """
    if given.job is not None and given.again:
        raise ConfigurationError(
            "--again: a job with a name of its own is made again under another --job"
        )
    run = Run(command=name, console=console, given=given, source=orders, again=given.again)
    settings = run.settings
    with open_orders(orders, run.operation, settings) as file:
        run.check(needs_out=not given.dry_run)
        known = find_job(settings, file, job=given.job, again=given.again)
        if file.unread:
            console.note(f"columns that are not sent: {file.unread}")
        if given.dry_run:
            _show_plan(run, file, known)
            return Exit.DONE
        return run_job(run, known, file, yes=given.yes)


def look_up(
    orders: options.Source,
    /,
    *,
    given: options.Asking = options.Asking(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Look up the orders of a file.

    Args:
        orders: The file with the orders, one a row: CSV, or JSON Lines by a name that ends in
            .jsonl; - for standard input. A row with both
            identifiers is looked up by its transaction_id.
    """
    run = Run(command=name, console=console, given=given, source=orders)
    columns = result_columns(OPERATIONS[run.operation])
    policy = attrs.evolve(run.settings.policy, duplicates="allow")  # to ask twice does no harm
    with (
        open_orders(orders, run.operation, run.settings) as file,
        contextlib.closing(Kept()) as found,
    ):
        run.check()

        def keep(outcome: Outcome[Any, Any]) -> None:
            run.report.see(outcome, file.lines[outcome.index])
            found[outcome.index] = orjson.dumps(result_cells(outcome, columns))

        async def work(out: TextIO) -> None:
            async with run.client() as client:
                batch = client.batch(run.operation, file.orders(), policy=policy)
                await run.drive(batch, total=file.totals.orders, see=keep)
            for index, row in enumerate(file.table.rows()):
                if found.get(index) is None:
                    order, status = file.order_of(row), OutcomeStatus.NOT_SENT
                    keep(Outcome(order=order, index=index, status=status, error=_NOT_SENT))
            write_rows(found, columns, out, file)

        return asyncio.run(run.carry_out(work))


def _show_plan(run: Run, file: OrderFile, known: KnownJob) -> None:
    """Show what would be sent: totals, and the first requests, each by an order of it."""
    settings, operation = run.settings, known.operation
    url, limit = f"{settings.address}{operation.path}", operation.limit or 1
    size = min(settings.policy.chunk_size or limit, limit)
    left, orders = find_left(settings, known, file, most=_REQUESTS_SHOWN * size)
    count = -(-left.orders // size)
    if run.given.json:
        job = {"command": run.command, "job": known.name, "states": known.states, "url": url}
        sent = {"orders": left.orders, "amounts": left.amounts, "requests": count}
        print_json({"dry_run": True, **job, "others": known.others, **sent})
        return
    output(str(known))
    if left.orders:
        output(f"{operation} {left}: at least {counted(count, 'request')} to {url}")
    for number, at in enumerate(range(0, len(orders), size), 1):
        held = counted(len(orders[at : at + size]), "order")
        output(f"request {number}: {held}, the first of them\n  {orders[at]}")
    output("nothing was sent" if left.orders else "nothing is left to send")


# A ledger

_COLUMNS = ("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line")


def reconcile(
    ledger: options.Source, /, *, given: options.Asking = options.Asking(), console: options.Shown
) -> int:
    """Compare a ledger with the gateway's records, payments and refunds.

    What a payment_status means in your books stands in the TOML file, under [reconcile].

    Example: `gateway-async reconcile ledger.csv --out differences.csv`

    Args:
        ledger: The file with your entries, one a row: order_no or transaction_id or both,
            currency, amount, and refunded and state if you like; CSV, or JSON Lines by a name that
            ends in .jsonl; - for standard input.
    """
    run = Run(command="reconcile", console=console, given=given, source=ledger)
    words, policy = run.settings.reconcile, run.settings.policy
    with open_table(ledger) as table:
        file = OrderFile(table, LEDGER)
        run.check()
        if file.unread:
            console.note(f"columns that are not read: {file.unread}")
        if bool(words.states) != ("state" in table.header):
            lacking = "no column state" if words.states else "states; reconcile.states is not set"
            console.say(f"warning: the ledger has {lacking}, so no state is compared", "WARNING")

        async def work(out: TextIO) -> None:
            rows = enumerate(file.table.rows())
            at, row = next(rows)
            columns = [name for name in file.table.header if name not in _COLUMNS]
            write = row_writer(out, [*columns, *_COLUMNS])

            def see(difference: Difference) -> None:
                nonlocal at, row
                while at < difference.index:  # both come in the order of the ledger
                    at, row = next(rows)
                ours, theirs = (
                    ";".join(map(to_text, side if isinstance(side, tuple) else (side,)))
                    for side in (difference.ledger, difference.gateway)
                )
                kind, field, error = difference.kind, difference.field, difference.error
                cells = (kind, field, ours, theirs, error, row.line)
                write({**row.cells, **dict(zip(_COLUMNS, cells, strict=True))})
                run.report.see_difference(difference, row.line)

            async with run.client() as client:
                known = attrs.asdict(words, recurse=False)
                compared = reconcile_ledger(client, file.orders(), policy=policy, **known)
                await run.drive(compared, total=file.totals.orders, see=see)

        return asyncio.run(run.carry_out(work))
