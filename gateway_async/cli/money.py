"""Commands on a file of orders: `capture cancel review refund payout`, `query search-refunds`.

A file whose orders move money is a job of the journal. The orders are kept before anything is sent,
under a name that is made of them. The same file, given again after whatever happened, goes on where
it was, and sends nothing that may have been sent.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TextIO

import attrs
import orjson
from cyclopts import Parameter

from gateway_async.batching.batch import check_size
from gateway_async.batching.feed import Chunk, GivenOrders, OrderFeed
from gateway_async.batching.results import Outcome
from gateway_async.cli import options
from gateway_async.cli.console import counted, print_json, standard_output
from gateway_async.cli.jobs import KnownJob, find_job, name_of_orders, run_job
from gateway_async.cli.orders import LAYOUTS, Layout, OrderFile
from gateway_async.cli.outcomes import Kept, result_cells, write_found
from gateway_async.cli.run import DONE, Run, Stop, collect
from gateway_async.cli.settings import WHO
from gateway_async.cli.tables import STDIO, open_table
from gateway_async.errors import ConfigurationError, JournalError, NotSentError
from gateway_async.models.values import MASK
from gateway_async.operations import PAYOUT, Operation, OperationClass
from gateway_async.wire.encode import JsonText, encode_chunk, encode_fields, written_fields

_REQUESTS_SHOWN = 3
_NOTHING_SENT = NotSentError("nothing was sent: this is the plan alone")


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Sending:
    """Which job the file is, and what is asked before it is sent.

    Attributes:
        job: A name for the job, in place of the one that is made of the operation, the merchant,
            the gateway and the orders.
        again: Make a job that is done once more: all of its orders are sent again. What was done
            before is shown, and refunds alike are not held. A job with held orders is not done.
            After a kill, give the line without this option.
        dry_run: Show what would be sent, and send nothing: nothing leaves this machine.
        yes: Do not ask before money leaves, or before orders are sent again.
    """

    job: str | None = None
    again: bool = False
    dry_run: Annotated[bool, options.SAFETY] = False
    yes: Annotated[bool, options.SAFETY] = False


def send(
    orders: options.Source,
    /,
    *,
    sending: Sending = Sending(),
    duplicates: options.Duplicates = None,
    files: options.Files = options.Files(),
    pace: options.BatchPace = options.BatchPace(),
    gateway: options.Journaled = options.Journaled(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Work on the orders of a file: the operation is the name of the command.

    Args:
        orders: The CSV file with the orders, one a row, or - for standard input.
        duplicates: What to do with several rows of one transaction: refuse the file, or send
            them one after the other.
    """
    if sending.job is not None and sending.again:
        raise ConfigurationError(
            "--again: a job with a name of its own is made again under another --job"
        )
    settings, layout = gateway.settings(pace, duplicates=duplicates), LAYOUTS[name]
    run = Run(
        command=name,
        console=console,
        files=files,
        settings=settings,
        given=gateway,
        source=orders,
        again=sending.again,
    )
    with _open_orders(run, layout, dry_run=sending.dry_run) as file:
        if sending.dry_run:
            return _show_plan(run, file, _look_for_job(run, sending, file))
        credentials = settings.credentials(os.environ, console.warn)
        known = _find_job(run, sending, file)
        if sending.again and known.status is not None:
            console.warn(
                "--again: the job is not done, so it goes on; `jobs resolve` decides on held orders"
            )
        question = ""
        if file.operation.confirms or known.before:
            question = file.question(settings.address)
            if name == PAYOUT.name and sending.again:
                question += "; payouts that other jobs have are paid again"
        if file.unread and (sending.yes or not question):
            file.name_unread(console)
        return run_job(
            run,
            known,
            layout,
            credentials,
            lambda client, kept: client.batch(name, file.orders(), job=kept),
            total=file.totals.orders,
            question=question,
            yes=sending.yes,
            file=file,
            may_differ=sending.job is not None,
        )


def pay_out(
    orders: options.Source,
    /,
    *,
    sending: Sending = Sending(),
    files: options.Files = options.Files(),
    pace: options.Pace = options.Pace(),
    gateway: options.Journaled = options.Journaled(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Make the payouts of a file: no request_id may stand in it twice.

    Args:
        orders: The CSV file with the payouts, one a row, or - for standard input.
    """
    return send(
        orders,
        sending=sending,
        files=files,
        pace=options.BatchPace(**attrs.asdict(pace)),
        gateway=gateway,
        console=console,
        name=name,
    )


def _find_job(run: Run, sending: Sending, file: OrderFile, *, create: bool = True) -> KnownJob:
    """Find how far the job of a file has come; see `find_job`."""
    if sending.job is not None:
        return find_job(run.settings, sending.job, create=create)
    name = name_of_orders(run.command, run.settings, file.digest)
    return find_job(run.settings, name, again=sending.again, create=create)


def _look_for_job(run: Run, sending: Sending, file: OrderFile) -> KnownJob | None:
    """Find the job for a dry run, if that can be done; nothing is made."""
    if sending.job is None and len(run.settings.who) < len(WHO):
        return None
    try:
        known = _find_job(run, sending, file, create=False)
    except JournalError as error:
        run.console.warn(f"the job was not looked for: {error}")
        return None
    run.console.note(known.asked + "; nothing would be sent" * known.is_done)
    return known


def look_up(
    orders: options.Source,
    /,
    *,
    by: Literal["order_no", "transaction_id"] | None = None,
    dry_run: Annotated[bool, options.SAFETY] = False,
    files: options.Files = options.Files(),
    pace: options.BatchPace = options.BatchPace(),
    gateway: options.Gateway = options.Gateway(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Look up the orders of a file.

    Args:
        orders: The CSV file with the orders, one a row, or - for standard input.
        by: The column to look up by, where the file has both filled.
        dry_run: Show what would be asked, and ask nothing.
    """
    layout = attrs.evolve(LAYOUTS[name], only=by or "")
    settings = gateway.settings(pace, duplicates="allow")  # it does no harm to ask twice
    run = Run(
        command=name,
        console=console,
        files=files,
        settings=settings,
        given=gateway,
        source=orders,
    )
    with _open_orders(run, layout, dry_run=dry_run) as file:
        if dry_run:
            return _show_plan(run, file)
        credentials, found = settings.credentials(os.environ, console.warn), Kept()

        def keep(outcome: Outcome[Any, Any]) -> None:
            run.report.see(outcome, file.lines[outcome.index])
            found[outcome.index] = orjson.dumps(result_cells(outcome, layout))

        async def work(_: TextIO, stop: Stop) -> None:
            async with settings.client(credentials, telemetry=run.report.latencies) as client:
                batch = client.batch(name.replace("-", "_"), file.orders())
                await collect(batch, run, stop, file.totals.orders, keep)

        with contextlib.closing(found):
            return run.carry_out(work, lambda out: write_found(run, file, found, out))


@contextlib.contextmanager
def _open_orders(run: Run, layout: Layout, *, dry_run: bool) -> Iterator[OrderFile]:
    """Check a file of orders, and where its outcomes go.

    Raises:
        ConfigurationError: If one of the files cannot be used, or is not named.
        TableError: With every problem of the file.
    """
    policy, operation = run.settings.policy, layout.operation
    if not dry_run:
        _ = run.files.place
    run.check_files()
    repeats = policy.duplicates != "reject" and operation is not PAYOUT
    with open_table(run.source or STDIO) as table:
        file = OrderFile(table, layout, run.settings.dialect, repeats=repeats)
        check_size(file.operation, policy)
        yield file


def _show_plan(run: Run, file: OrderFile, known: KnownJob | None = None) -> int:
    """Show what would be sent: totals, and the first requests, unsigned; no network at all.

    Of a job that has begun, only its journal knows which orders are new: they are counted.
    """
    states = known.states if known is not None else {}
    settings, recovery, totals = run.settings, run.settings.recovery, file.totals
    url = f"{file.operation.path} of {settings.address}"
    if "base_url" in settings.who:
        url = f"{settings.address}{file.operation.path}"
    limit = file.operation.limit or 1
    size = min(settings.policy.chunk_size or limit, limit)
    left = states.get("new", 0) if states else totals.orders
    count, first = -(-left // size), [] if states else asyncio.run(_first_requests(run, file))
    if run.files.json:
        amounts = {code: str(amount) for code, amount in sorted(totals.amounts.items())}
        facts = {"dry_run": True, "command": run.command, "orders": totals.orders, "url": url}
        job = {} if known is None else {"job": known.name, "states": states}
        print_json({**facts, **job, "amounts": amounts, "requests": count, "first": first})
        return DONE
    new = f" in the file, {left:,} of them new" if states else ""
    lines = [f"{run.command}: {totals}{new}"]
    if file.unread:
        lines.append(f"columns that are not sent: {file.unread}")
    lines.append(
        f"to {url}: at least {counted(count, 'request')}, of {counted(size, 'order')} at most"
    )
    if run.command == "refund" and recovery.record_baseline:
        lines.append("before each of them, the refunds that there are by then are looked up")
    if run.command == "refund" and recovery.refund_evidence == "marker":
        lines.append("each refund_reason will begin with a marker of the run")
    for number, body in enumerate(first, 1):
        lines.append(f"request {number}, without identity and signature:")
        lines += [f"{name} = {text}" for name, text in body.items()]
    if first and count > len(first):
        lines.append(f"and {count - len(first):,} more")
    for line in [*lines, "nothing was sent"]:
        standard_output().print(line, soft_wrap=True)
    return DONE


async def _first_requests(run: Run, file: OrderFile) -> list[dict[str, str]]:
    """Cut the first orders into chunks as a batch does, and encode them."""
    settings = run.settings
    feed = OrderFeed(file.operation, settings.dialect, settings.policy, GivenOrders(file.orders()))
    first = list[dict[str, str]]()
    while len(first) < _REQUESTS_SHOWN and not feed.is_done:
        await feed.fill()
        if (chunk := feed.take()) is None:
            break
        first.append(_body(file.operation, chunk, run))
        feed.release(chunk.failed(_NOTHING_SENT))
    return first


def _body(operation: Operation, chunk: Chunk, run: Run) -> dict[str, str]:
    """Return the fields of a request, masked as in a repr: no account, identity or signature."""
    dialect, orders = run.settings.dialect, [_masked(order) for order in chunk.orders]
    if operation.kind is OperationClass.KEYED:
        fields: Mapping[str, str] = encode_fields(orders[0], dialect)
    else:
        fields = encode_chunk(operation, orders, dialect).fields
    body_format = dialect.body_formats.get(operation.name, operation.body)
    written = written_fields(fields, body_format, dialect)
    return {name: _laid_out(text) for name, text in written.items()}


def _masked(value: Any) -> Any:
    """Return a copy of a model that has a mask wherever its repr shows nothing."""
    if isinstance(value, tuple):
        return tuple(map(_masked, value))
    if not attrs.has(type(value)):
        return value
    shown = {
        field.name: _masked(found) if field.repr else MASK
        for field in attrs.fields(type(value))
        if (found := getattr(value, field.name)) is not None
    }
    return attrs.evolve(value, **shown)


def _laid_out(text: str) -> str:
    """Give each order of a list a line of its own."""
    value = orjson.loads(text.encode()) if isinstance(text, JsonText) else text
    if not isinstance(value, list):
        return text
    return "[\n  " + ",\n  ".join(orjson.dumps(one).decode() for one in value) + "\n]"
