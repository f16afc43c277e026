"""`jobs`: what a journal holds; `jobs resolve` decides on an order, `jobs resume` goes on."""

import difflib
import shlex
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway_async.cli.commands.common import DONE, UNSETTLED, RefusedError, Results, guarded
from gateway_async.cli.commands.journals import on_journal
from gateway_async.cli.commands.resolving import resolve
from gateway_async.cli.commands.resuming import resume
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.jobs import (
    State,
    job_cells,
    job_columns,
    job_facts,
    layout_of,
    naming_columns,
    rows_of,
)
from gateway_async.cli.options import FileOptions, GatewayOptions, JournalOptions, Json, Out
from gateway_async.cli.reports import About, reporting
from gateway_async.cli.talk import print_json, standard_output

if TYPE_CHECKING:
    from gateway_async.cli.talk import Talk
    from gateway_async.journal import JobStatus, Journal

jobs = App(name="jobs", help="List, show, resolve and resume the jobs of a journal.")

_SHOWN = 100
_IN_DOUBT = ("held", "unknown", "intent")
_COMMANDS = ("list", "show", "outcomes", "resolve", "resume")


@jobs.default
@jobs.command(name="list")
def list_jobs(
    *words: Annotated[str, Parameter(show=False)],
    json: Json = False,
    journal: JournalOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """List the jobs of a journal, the oldest first.

    Args:
        json: Print a JSON list with an object for each job.
    """
    if words:
        return guarded((gateway or GatewayOptions()).talk(), lambda: _refuse(words))

    async def work(found: "Journal", talk: "Talk") -> int:
        del talk
        statuses = await found.jobs()
        if json:
            print_json([job_facts(status) for status in statuses])
        else:
            standard_output().print(_table(statuses))
        return DONE

    return on_journal(gateway, journal, work)


def _refuse(words: tuple[str, ...]) -> int:
    """Say what there is instead of a command that there is not.

    Raises:
        RefusedError: Always.
    """
    close = difflib.get_close_matches(words[0], _COMMANDS, n=1)
    command, job = (close or ["show"])[0], words[-1] if words[1:] or not close else "JOB"
    raise RefusedError(
        f"jobs: there is no command {words[0]!r}, but {', '.join(_COMMANDS)}, each with the name "
        f"of a job: gateway-async jobs {command} {shlex.quote(job)}"
    )


@jobs.command
def show(
    name: str,
    /,
    *,
    json: Json = False,
    journal: JournalOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Show how far a job has come, and its orders in doubt, with index and reason.

    Nothing is sent.

    Args:
        name: The name of the job.
        json: Print one JSON object; the first hundred orders in doubt are under `in_doubt`.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        del talk
        status = await found.status(name)
        columns = ("index", "state", *naming_columns(layout_of(status)), "reason")
        rows, count = list[tuple[Any, ...]](), 0
        async for row in rows_of(found, name):
            if row.state.value in _IN_DOUBT:
                count += 1
                if count <= _SHOWN:
                    names = (str(getattr(row.order, column)) for column in columns[2:-1])
                    rows.append((row.index, str(row.state), *names, row.known.text))
        if json:
            in_doubt = [dict(zip(columns, cells, strict=True)) for cells in rows]
            print_json({**job_facts(status), "in_doubt": in_doubt, "in_doubt_count": count})
            return DONE
        standard_output().print(_table([status]))
        table = _doubt_table(columns)
        for cells in rows:
            table.add_row(*map(str, cells))
        if count:
            standard_output().print(table)
        if count > _SHOWN:
            more = f"... and {count - _SHOWN:,} more; `jobs outcomes` writes them all"
            standard_output().print(more, markup=False, highlight=False)
        return DONE

    return on_journal(gateway, journal, work)


@jobs.command
def outcomes(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    state: Annotated[tuple[State, ...], Parameter(negative="", consume_multiple=False)] = (),
    journal: JournalOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Write what became of the orders of a job, as the journal has it. Nothing is sent.

    Args:
        name: The name of the job.
        out: The file; - for standard output.
        state: Only the orders in this state, such as held; may be repeated.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        status = await found.status(name)
        about = About(command="jobs outcomes", out=out, job=name)
        options = files or FileOptions()
        with (
            reporting(options.report, about, talk) as told,
            out_file(
                out, options.stdio, existing=Existing.SET_ASIDE_AT_END, warn=talk.warn
            ) as file,
        ):
            layout = layout_of(status)
            results = Results(layout=layout, told=told)
            sink = file.sink(job_columns(layout))
            async for row in rows_of(found, name):
                if not state or row.state.value in state:
                    results.count(row.outcome())
                    sink.write(job_cells(name, row, layout))
            sink.close()
        return UNSETTLED if file.is_astray else DONE

    return on_journal(gateway, journal, work)


jobs.command(resolve)
jobs.command(resume)


def _table(statuses: "list[JobStatus]") -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("job", "operation", "merchant", "since", "orders", "states"):
        justify: Any = "right" if name == "orders" else "left"
        table.add_column(name, overflow="fold", justify=justify)
    for status in statuses:
        states = [f"{count:,} {state}" for state, count in status.counts.items() if count]
        running = ["running now"] if status.is_running else []
        table.add_row(
            status.name,
            status.operation,
            f"{status.merchant_id}/{status.account_id}",
            f"{status.created_at:%Y-%m-%d %H:%M}",
            f"{status.total:,}",
            ", ".join([*states, *running]),
        )
    return table


def _doubt_table(columns: tuple[str, ...]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if name == "index" else "left")
    return table
