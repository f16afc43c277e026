"""Commands on a file of orders: `capture cancel review refund payout`, `query search-refunds`.

A file whose orders move money is a job of the journal. The orders are kept before anything is sent,
under a name that is made of them. The same file, given again after whatever happened, goes on where
it was, and sends nothing that may have been sent.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import attrs
import orjson
from cyclopts import Parameter

from gateway_async.batching.batch import check_size
from gateway_async.batching.feed import Chunk, OrderFeed
from gateway_async.cli import options
from gateway_async.cli.console import Console, print_json, standard_output
from gateway_async.cli.jobs import KnownJob, find_job, name_of_orders
from gateway_async.cli.orders import LAYOUTS, Layout, OrderFile, wording
from gateway_async.cli.outcomes import Results
from gateway_async.cli.run import DONE, Run, Stop, confirm
from gateway_async.cli.settings import Settings
from gateway_async.cli.tables import STDIO, OutFile, open_table
from gateway_async.errors import ConfigurationError, JournalError, NotSentError
from gateway_async.journal import JobState
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import MASK
from gateway_async.operations import PAYOUT, Operation, OperationClass
from gateway_async.wire.encode import JsonText, encode_chunk, encode_fields, written_fields

_GIVE_AGAIN = (
    OutcomeStatus.UNKNOWN,
    "the run ended before it was looked at; give the command again",
)
_REQUESTS_SHOWN = 3
_NOTHING_SENT = NotSentError("nothing was sent: this is the plan alone")


def send(  # noqa: C901  # closures see what the command was given
    orders: options.Source,
    /,
    *,
    job: str | None = None,
    again: bool = False,
    duplicates: options.Duplicates = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    files: options.Files = options.Files(),
    pace: options.Pace = options.Pace(),
    gateway: options.Journaled = options.Journaled(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Work on the orders of a file: the operation is the name of the command.

    Args:
        orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
        job: A name for the job, in place of the one that is made of the operation, the
            merchant, the gateway and the orders.
        again: Make a job that is done once more: all of its orders are sent again. What was
            done before is shown, and refunds alike are not held. A job with held orders is not
            done. After a kill, give the line without this option.
        duplicates: What to do with several rows of one transaction: refuse the file, or send
            them one after the other.
    """
    if job is not None and again:
        raise ConfigurationError(
            "--again: a job with a name of its own is made again under another --job"
        )
    settings, is_payout = gateway.settings(pace, duplicates=duplicates), name == PAYOUT.name
    if job is not None:
        settings.open_journal(create=False).job(job)  # refuses what is no name
    if again:  # alike refunds, and payouts that other jobs have, are what was asked for
        recovery = attrs.evolve(settings.recovery, hold_alike_hours=None)
        settings = attrs.evolve(settings, recovery=recovery)
        if is_payout:
            allowed = attrs.evolve(settings.policy, duplicates="allow")
            settings = attrs.evolve(settings, policy=allowed)
    run = Run(
        command=name,
        console=console,
        files=files,
        settings=settings,
        options=gateway.again,
        source=orders,
        again=again,
    )
    with _results(run, settings, LAYOUTS[name], dry_run=dry_run) as (file, results):
        if dry_run:
            _show_job(file, settings, console, job, again=again)
            return _show_plan(file, settings, json=files.json)
        credentials = settings.credentials(os.environ, console.warn)
        known = _find(file, settings, job, again=again)
        run.job = known.name

        def ask() -> None:
            if known.is_done:
                console.tell("job", f"{known.described}; nothing is sent", job=known.name)
            elif file.layout.confirms or known.before:
                what = wording(name, file.totals, settings.address, file.unread)
                what += "; payouts that other jobs have are paid again" * (is_payout and again)
                confirm(console, f"{known.asked}: {what}", yes=yes)

        async def work(_: OutFile, stop: Stop) -> None:
            async with settings.open_journal() as journal:
                # A name that is made of the orders shows that they are the same.
                if not known.is_done or job is not None:
                    console.tell("job", known.described, job=known.name, **known.facts)
                    at_once = min(settings.policy.concurrency, file.totals.orders)
                    policy = attrs.evolve(settings.policy, concurrency=at_once)
                    paced = attrs.evolve(settings, policy=policy)
                    async with paced.client(credentials, telemetry=run.latencies) as client:
                        kept = journal.job(known.name)
                        batch = client.batch(file.layout.method, file.orders(), job=kept)
                        await results.collect(batch, stop)
                if results.count < file.totals.orders:  # an earlier run may have sent what is left
                    results.rest = _GIVE_AGAIN
                    async for outcome in journal.outcomes(known.name):
                        results.keep(outcome)
                run.held = (await journal.status(known.name)).counts[JobState.HELD]

        return run.carry_out(work, results.write, ask=ask)


def look_up(
    orders: options.Source,
    /,
    *,
    by: Literal["order_no", "transaction_id"] | None = None,
    dry_run: Annotated[
        options.DryRun, Parameter(help="Show what would be asked, and ask nothing.")
    ] = False,
    files: options.Files = options.Files(),
    pace: options.Pace = options.Pace(),
    gateway: options.Gateway = options.Gateway(),
    console: options.Shown,
    name: options.Name,
) -> int:
    """Look up the orders of a file.

    Args:
        orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
        by: The column to look up by, where the file has both filled.
    """
    layout = LAYOUTS[name].by(by) if by else LAYOUTS[name]
    settings = gateway.settings(pace, duplicates="allow")  # it does no harm to ask twice
    run = Run(command=name, console=console, files=files, settings=settings, source=orders)
    with _results(run, settings, layout, dry_run=dry_run) as (file, results):
        if dry_run:
            return _show_plan(file, settings, json=files.json)
        credentials = settings.credentials(os.environ, console.warn)

        async def work(_: OutFile, stop: Stop) -> None:
            async with settings.client(credentials, telemetry=run.latencies) as client:
                await results.collect(client.batch(layout.method, file.orders()), stop)

        return run.carry_out(work, results.write)


@contextlib.contextmanager
def _results(
    run: Run, settings: Settings, layout: Layout, *, dry_run: bool
) -> Iterator[tuple[OrderFile, Results]]:
    """Check a file of orders, and where its outcomes go.

    Raises:
        ConfigurationError: If one of the files cannot be used, or is not named.
        TableError: With every problem of the file.
    """
    files, source = run.files, run.source or STDIO
    out = files.out if dry_run else files.place
    repeats = settings.policy.duplicates != "reject" and layout.operation is not PAYOUT
    with open_table(source, files.format) as table:
        file = OrderFile(table, layout, settings.dialect, repeats=repeats)
        check_size(file.operation, settings.policy)
        if out is not None and STDIO not in (out, source) and out.resolve() == source.resolve():
            raise ConfigurationError(f"--out: {out} is the file with the orders; name another")
        with contextlib.closing(Results(file, run)) as results:
            yield file, results


def _find(
    file: OrderFile, settings: Settings, job: str | None, *, again: bool, create: bool = True
) -> KnownJob:
    """Find the job that a file is."""
    if job is not None:
        return find_job(settings, job, create=create)
    name = name_of_orders(file.layout.command, settings, file.digest)
    return find_job(settings, name, again=again, create=create)


# Dry runs


def _show_job(
    file: OrderFile, settings: Settings, console: Console, job: str | None, *, again: bool
) -> None:
    """Show how far the job of a file has come, where its name is known; no journal is made."""
    if job is None and not {"base_url", "merchant_id", "account_id"} <= {*settings.who}:
        return
    try:
        known = _find(file, settings, job, again=again, create=False)
    except JournalError as error:
        console.warn(f"the job was not looked for: {error}")
    else:
        left = "; nothing would be sent" if known.is_done else ""
        console.tell("job", f"{known.described}{left}", job=known.name, **known.facts)


def _show_plan(file: OrderFile, settings: Settings, *, json: bool) -> int:
    """Show what would be sent: totals, and the first requests, unsigned; no network at all."""
    layout, operation, recovery = file.layout, file.operation, settings.recovery
    sizes, first = asyncio.run(_chunks(file, settings))
    url = f"{operation.path} of {settings.address}"
    if "base_url" in settings.who:
        url = f"{settings.address}{operation.path}"
    if json:
        amounts = {code: str(amount) for code, amount in sorted(file.totals.amounts.items())}
        print_json(
            {
                "dry_run": True,
                "command": layout.command,
                "orders": file.totals.orders,
                "amounts": amounts,
                "url": url,
                "requests": sizes.total(),
                "orders_in_requests": {str(size): n for size, n in sizes.items()},
                "first": first,
            }
        )
        return DONE
    count = sizes.total()
    listed = ", ".join(f"{n:,} with {size} order{'s' * (size != 1)}" for size, n in sizes.items())
    lines = [
        f"{layout.command}: {file.totals}",
        f"columns that are not sent: {file.unread}" if file.unread else "",
        f"{count:,} request{'s' * (count != 1)} to {url}: {listed}",
    ]
    if layout.command == "refund" and recovery.record_baseline:
        lines.append("before each of them, the refunds that there are by then are looked up")
    if layout.command == "refund" and recovery.refund_evidence == "marker":
        lines.append("each refund_reason will begin with a marker of the run")
    for number, body in enumerate(first, 1):
        lines.append(f"request {number}, without identity and signature:")
        lines += [f"{name} = {text}" for name, text in body.items()]
    more = f"... and {count - len(first):,} more requests" if count > len(first) else ""
    for line in filter(None, [*lines, more, "nothing was sent"]):
        standard_output().print(line, soft_wrap=True)
    return DONE


async def _chunks(file: OrderFile, settings: Settings) -> tuple[Counter[int], list[dict[str, str]]]:
    """Cut the orders into the chunks that a batch would send; encode the first of them."""
    feed = OrderFeed(file.operation, settings.dialect, settings.policy, file.orders())
    sizes, first = Counter[int](), list[dict[str, str]]()
    while not feed.is_done:
        await feed.fill()
        chunk = feed.take()
        if chunk is None:
            break
        sizes[len(chunk)] += 1
        if len(first) < _REQUESTS_SHOWN:
            first.append(_body(file.operation, chunk, settings))
        feed.release(chunk.failed(_NOTHING_SENT, OutcomeStatus.NOT_SENT))
    return Counter(dict(sorted(sizes.items(), reverse=True))), first


def _body(operation: Operation, chunk: Chunk, settings: Settings) -> dict[str, str]:
    """Return the fields of a request, masked as in a repr: no account, identity or signature."""
    dialect, orders = settings.dialect, [_masked(order) for order in chunk.orders]
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
    """Give each order of a list, or each field of an object, a line of its own."""
    if not isinstance(text, JsonText):
        return text
    value = orjson.loads(text.encode())
    if not isinstance(value, list):
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    lines = [orjson.dumps(one).decode() for one in value]
    return "[\n  " + ",\n  ".join(lines) + "\n]"
