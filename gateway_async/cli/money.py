"""Commands on a file: `capture cancel review refund payout`, `query search-refunds reconcile`.

A file whose orders move money is a job of the journal. The orders are kept before anything is sent,
under a name that is made of them. The same file, given again after whatever happened, goes on where
it was, and sends nothing that may have been sent.
"""

import contextlib
import itertools
from typing import Any

import attrs

from gateway_async.cli import files, options
from gateway_async.cli.console import Exit, counted, output, print_json
from gateway_async.cli.jobs import KnownJob, facts_of, find_job, run_job
from gateway_async.cli.kept import Kept
from gateway_async.cli.run import Run, carried_out, drive
from gateway_async.errors import ConfigurationError, NotSentError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation import Difference, reconcile as reconcile_ledger

_REQUESTS_SHOWN = 3
_NOT_SENT = NotSentError("nothing was sent: the run ended before")


async def send(
    orders: options.Source,
    /,
    *,
    given: options.Sending = options.Sending(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Work on the orders of a file: the operation is the name of the command.

    Args:
        orders: The file with the orders, one a row: CSV or JSON Lines; - for standard input.
    """
    if given.job is not None and given.again:
        raise ConfigurationError(
            "--again: a job with a name of its own is made again under another --job"
        )
    run = Run(command=name, console=console, given=given, source=str(orders), again=given.again)
    with files.open_orders(orders, OPERATIONS[run.operation], run.settings) as file:
        run.check(needs_out=not given.dry_run, needs_secret=not given.dry_run)
        known = await find_job(file, job=given.job, again=given.again)
        if file.unread:
            console.note(f"columns that are not sent: {file.unread}")
        if given.dry_run:
            _show_plan(run, known)
            return Exit.DONE
        return await run_job(run, known, file, yes=given.yes)


async def look_up(
    orders: options.Source,
    /,
    *,
    given: options.Asking = options.Asking(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Look up the orders of a file.

    Args:
        orders: The file with the orders, one a row: CSV or JSON Lines; - for standard input. A
            row with both identifiers is looked up by its transaction_id.
    """
    run = Run(command=name, console=console, given=given, source=str(orders))
    operation = OPERATIONS[run.operation]
    columns = files.result_columns(operation)
    policy = attrs.evolve(run.settings.policy, duplicates="allow")  # to ask twice does no harm
    with (
        files.open_orders(orders, operation, run.settings) as file,
        contextlib.closing(Kept()) as found,
    ):
        run.check()

        def keep(outcome: Outcome[Any, Any]) -> None:
            row = file.rows.get(outcome.index)
            found[outcome.index] = run.row(outcome, row, columns)

        with carried_out(run) as out:
            async with run.client() as client:
                batch = client.batch(run.operation, file.orders(), policy=policy)
                await drive(run, batch, total=file.totals.orders, see=keep)
            for index, order in enumerate(file.orders()):
                if found.get(index) is None:
                    status = OutcomeStatus.NOT_SENT
                    keep(Outcome(order=order, index=index, status=status, error=_NOT_SENT))
            write = file.writer(out, columns)
            for cells in found:
                write(cells)
        return run.exit_code


def _show_plan(run: Run, known: KnownJob) -> None:
    """Show what would be sent: totals, and the first requests, each by an order of it."""
    settings, operation, left = run.settings, known.operation, known.left
    url, limit = f"{settings.address}{operation.path}", operation.limit or 1
    size = min(settings.policy.chunk_size or limit, limit)
    count = -(-left.orders // size)
    if run.given.json:
        states = {} if known.status is None else facts_of(known.status)["states"]
        job = {"command": run.command, "job": known.name, "states": states, "url": url}
        sent = {"orders": left.orders, "amounts": left.amounts, "requests": count}
        print_json({"dry_run": True, **job, "others": known.others, **sent})
        return
    output(str(known))
    if left.orders:
        output(f"{operation} {left}: at least {counted(count, 'request')} to {url}")
    for number, order in enumerate(known.first[: _REQUESTS_SHOWN * size : size], 1):
        held = counted(min(size, left.orders - (number - 1) * size), "order")
        cells = files.order_cells(order, is_masked=True).items()
        shown = ", ".join(f"{column} {cell}" for column, cell in cells if cell)
        output(f"request {number}: at most {held}, the first of them\n  {shown}")
    output("nothing was sent" if left.orders else "nothing is left to send")


# A ledger

_COLUMNS = ("difference", "field", "ledger_says", "gateway_says", "difference_error", "ledger_line")


async def reconcile(
    ledger: options.Source, /, *, given: options.Asking = options.Asking(), console: options.Shown
) -> int:
    """Compare a ledger with the gateway's records, payments and refunds.

    What a payment_status means in your books stands in the TOML file, under [reconcile].

    Example: `gateway-async reconcile ledger.csv --out differences.csv`

    Args:
        ledger: The file with your entries, one a row: order_no or transaction_id or both,
            currency, amount, and refunded and state if you like; CSV or JSON Lines; - for standard
            input.
    """
    run = Run(command="reconcile", console=console, given=given, source=str(ledger))
    words, policy = run.settings.reconcile, run.settings.policy
    with (
        files.open_orders(ledger, files.LEDGER, run.settings) as file,
        contextlib.closing(Kept()) as found,
    ):
        run.check()
        if file.unread:
            console.note(f"columns that are not read: {file.unread}")
        if bool(words.states) != ("state" in file.header):
            lacking = "no column state" if words.states else "states; reconcile.states is not set"
            console.say(f"warning: the ledger has {lacking}, so no state is compared", "WARNING")
        numbers = itertools.count()

        def keep(difference: Difference) -> None:
            row = file.rows.get(difference.index)
            ours, theirs = files.to_text(difference.ledger), files.to_text(difference.gateway)
            kind, field, error = difference.kind, difference.field, difference.error
            cells = (kind, field, ours, theirs, error, row.line)
            found[next(numbers)] = {**row.cells, **dict(zip(_COLUMNS, cells, strict=True))}
            run.report.see_difference(difference, row.line)

        with carried_out(run) as out:
            async with run.client() as client:
                known = attrs.asdict(words, recurse=False)
                compared = reconcile_ledger(client, file.orders(), policy=policy, **known)
                await drive(run, compared, total=file.totals.orders, see=keep)
            write = file.writer(out, _COLUMNS)
            for cells in found:
                write(cells)
        return run.exit_code
