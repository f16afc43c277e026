"""A run: a batch, or what is used like one, driven to its end whatever happens, and its summary.

What is known is never given up: it is written to the file of the run, and into its report.
"""

import contextlib
import functools
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import attrs

from gateway_async.batching.table import RECORD, cells_of
from gateway_async.cli import files
from gateway_async.cli.console import (
    Console,
    Exit,
    counted,
    listed,
    print_json,
    progress,
    stoppable,
)
from gateway_async.cli.kept import Kept
from gateway_async.cli.options import Files, Running
from gateway_async.cli.settings import Settings, config_path
from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, GatewayError, NotSentError, OutcomeUnknownError
from gateway_async.journal import JobStatus, Journal, OrderState
from gateway_async.journal.rows import JobOrder
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation.summary import Summary
from gateway_async.report import Head, Report, render
from gateway_async.report.report import reason_of
from gateway_async.signing import Credentials

_REASONS_SHOWN = 3
_NOT_OURS = OutcomeUnknownError(
    "the lease of the job still runs, so another process may send it: look at it again"
)
_OF_SQLITE = ("", "-wal", "-shm", "-journal")
"""How the names of the files end that a journal on SQLite may have."""


# A run


@attrs.define(kw_only=True, eq=False)
class Run(Head):
    """What a command does with orders, and what it came to.

    Attributes:
        console: Where people read what happens.
        given: The options: where the results go, and what the next command needs.
        settings: Name gateway and journal; by default as the options and the environment say.
        operation: The operation of the orders.
        again: Whether the same line, given again, may be another job.
        books: What a reconciliation came to; None for any other run.
        status: How far the job has come, as the journal has it at the end.
        states: Likewise, how many of its orders are in each state.
        misplaced: Why the outcomes are not where they were asked for; empty where they are.
    """

    started_at: datetime = attrs.field(factory=lambda: datetime.now().astimezone())
    ended_at: datetime = attrs.field(factory=lambda: datetime.now().astimezone())
    console: Console
    given: Files
    settings: Settings = attrs.Factory(lambda run: run.given.settings(), takes_self=True)
    operation: str = attrs.Factory(lambda run: run.command.replace("-", "_"), takes_self=True)
    again: bool = False
    books: Summary | None = None
    status: JobStatus | None = None
    states: Mapping[OrderState, int] = attrs.field(factory=Counter)
    misplaced: str = ""

    @functools.cached_property
    def credentials(self) -> Credentials:
        """Who speaks, and how it signs; the secret is read once."""
        return self.settings.credentials(os.environ)

    @functools.cached_property
    def report(self) -> Report:
        """Counts what the run comes to, for its summary and its page."""
        return Report(self.operation, job=self.job, dialect=self.settings.dialect)

    def client(self) -> GatewayClient:
        """Make a client, whose exchanges are timed for the report."""
        return self.settings.client(self.credentials, telemetry=self.report.latencies)

    def row(
        self, outcome: Outcome[Any, Any], row: files.Row, columns: Sequence[str]
    ) -> dict[str, str]:
        """Count an outcome, and return its row; results of several records are joined by `;`."""
        self.report.see(outcome, row.line)
        found = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
        prefix = RECORD if any(name.startswith(RECORD) for name in columns) else ""
        read = [cells_of(one, prefix) for one in found]
        return {
            **row.cells,
            **{name: files.to_text(tuple(one.get(name) for one in read)) for name in columns},
            "status": str(outcome.status),
            "code": getattr(outcome.error, "code", ""),
            "error": reason_of(outcome.error),
        }

    @property
    def exit_code(self) -> int:
        """0: all succeeded. 1: some declined, absent or different. 3: some open, or it failed."""
        books, counts = self.books, self.report.counts
        is_open = counts["unknown"] + counts["not_sent"] > 0
        is_wrong = counts["declined"] + counts["absent"] > 0
        if books is not None:
            is_open, is_wrong = books.unanswered > 0 or not books.exhausted, not books.ok
        if is_open or self.misplaced or self.failure is not None:
            return Exit.UNSETTLED
        return Exit.NOT_ALL_DONE if is_wrong else Exit.DONE

    def check(self, *, needs_out: bool = True, needs_secret: bool = True) -> None:
        """Refuse what keeps the command from its end, before anything is sent.

        Args:
            needs_out: Whether there must be a file for the outcomes.
            needs_secret: Whether anything is signed.

        Raises:
            ConfigurationError: If a file is missing or has another use, or who speaks is not known.
        """
        if needs_secret:
            self.credentials  # noqa: B018  # they are read here
        given, settings, journal = self.given, self.settings, self.settings.journal_file
        if needs_out and (given.out is None or (given.json and given.out == files.STDIO)):
            other = "; not -, since --json has standard output for itself" * given.json
            raise ConfigurationError(
                f"--out: name the file for the outcomes, such as --out outcomes.csv{other}"
            )
        journals = [f"{journal}{end}" for end in _OF_SQLITE if journal is not None]
        taken = {Path(path).resolve(): "the journal" for path in journals}
        for what, there in (
            ("orders", self.source),
            ("settings", config_path(given.config, os.environ)),
            ("the secret", settings.secret_file),
            ("certificates", settings.ca_file),
        ):
            taken |= {} if there is None else {Path(there).resolve(): f"the file of {what}"}
        for option, path in (("--out", given.out), ("--report", given.report)):
            if path is not None and path != files.STDIO:
                if use := taken.get(path.resolve()):
                    raise ConfigurationError(f"{option}: {path} is {use}; name another file")
                taken[path.resolve()] = f"the file of {option}"


@contextlib.contextmanager
def carried_out(run: Run) -> Iterator[TextIO]:
    """Begin the file of outcomes, which the block writes; at the end, say what it came to."""
    with files.out_file(run.given.report) if run.given.report else contextlib.nullcontext() as page:
        try:
            with files.out_file(run.given.out or files.STDIO) as out:
                run.started_at = datetime.now().astimezone()  # behind a question
                yield out
        except (OSError, GatewayError) as error:
            if run.requests is None and run.status is None:  # nothing to report
                raise
            run.misplaced = str(getattr(error, "strerror", None) or error)
        address = run.settings.address if run.status is None else run.status.gateway
        run.gateway = urlsplit(address).netloc or None
        run.out = None if run.misplaced else str(run.given.out)
        run.ended_at = datetime.now().astimezone()
        run.next_lines = tuple(_advise(run))
        seen, status = run.report.counts.total(), run.status
        if run.misplaced and run.job and (status is None or seen < status.total):
            share = f"{seen:,} of {status.total:,}" if status else "none of the"
            unread = f"{share} outcomes were read: {run.misplaced}"
            run.failure = "; ".join(filter(None, [run.failure, unread]))
        run.console.sum_up()
        for line in _describe(run):
            run.console.say(line)
        if run.given.json:
            print_json(_facts(run))
        if page is not None:
            page.write(render(run.report, run, run.books))
    if page is not None:
        run.console.note(f"report: {run.given.report}")


async def drive(run: Run, streamed: Any, *, total: int, see: Callable[[Any], object]) -> None:
    """Hand over everything that finishes; after a stop or an error, what is known by then.

    Args:
        run: Takes in what is not in the outcomes.
        streamed: What is driven: a batch, or a reconciliation.
        total: How many orders or entries there are, for the progress that is shown.
        see: Sees everything that finishes, once each.

    Raises:
        ConfigurationError: If it was stopped before it began.
        GatewayError: If it could not begin; nothing was sent.
    """

    def look() -> tuple[int, Mapping[str, int]]:
        so_far = streamed.progress
        if isinstance(so_far, Summary):
            return so_far.entries, so_far.differences
        return so_far.done, so_far.counts

    failure, left = None, None
    is_shared = run.given.out == files.STDIO and sys.stdout.isatty()
    with progress(run.console, run.command, total, look, is_shared=is_shared):
        try:
            with stoppable(run.console):
                async with streamed:
                    async for one in streamed:
                        see(one)
        except GatewayError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # it did not begin
            left = streamed.result
        if left is None or (run.job and streamed.progress.total is None):
            raise failure or ConfigurationError("stopped before anything was sent")
    for one in left:
        see(one)
    run.failure = None if failure is None else str(failure)
    run.books = getattr(left, "summary", None)
    run.requests, run.retries = (run.books or left).requests, (run.books or left).retries
    run.unexpected = left.unexpected.count if run.books is None else run.books.unexpected


def _describe(run: Run) -> Iterator[str]:
    """Yield what it came to, and what is left to do."""
    if run.books is not None:
        yield str(run.books)
    else:
        totals = run.report.totals
        orders = counted(sum(one.orders for one in totals.values()), "order")
        requests = "" if run.requests is None else f"; {counted(run.requests, 'request')} sent"
        again = f", {counted(run.retries, 'attempt')} repeated" if run.retries else ""
        found = ", ".join(filter(None, [orders, listed(totals)]))
        yield f"{run.command}: {found}{requests}{again}; {run.seconds:.1f} s"
    for count, kind, reason in run.report.reasons[:_REASONS_SHOWN]:
        yield f"{count:,} x {kind.replace('_', ' ')}: {reason}"
    if more := sum(count for count, *_ in run.report.reasons[_REASONS_SHOWN:]):
        yield f"and {more:,} more, in the outcomes"
    if run.books is None and run.unexpected:
        yield f"records that belong to no order of the file: {run.unexpected}"
    if run.failure is not None:
        yield f"it ended early: {run.failure}"
    if run.misplaced:
        yield f"the outcomes cannot be written: {run.misplaced}"
    for what, command in run.next_lines:
        yield f"{what}:\n  {command}"


def _facts(run: Run) -> dict[str, Any]:
    """Return what `--json` prints."""
    found = {name: getattr(run, name) for name in attrs.fields_dict(Head)}
    found["next"] = [command for _, command in found.pop("next_lines")]
    found["seconds"] = run.seconds
    if run.books is not None:
        return found | attrs.asdict(run.books) | {"entries": run.books.entries}
    counts = run.report.counts
    return found | {
        "journal": None if run.job is None else run.settings.place,
        "counts": counts,
        "amounts": {kind: one.amounts for kind, one in run.report.totals.items()},
        "orders": counts.total(),
        "held": run.states[OrderState.HELD],
    }


def _advise(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what is left to do, and the command for each."""
    job, new, held = run.job or "", run.states[OrderState.NEW], run.states[OrderState.HELD]
    unknown = run.states[OrderState.UNKNOWN] + run.states[OrderState.INTENT]
    line, go_on = run.given.line, "not all is done; go on with"
    if job and run.misplaced and run.status is None:
        go_on = (
            "not all is done, and the journal cannot be read: mend that first, since a new one "
            "knows of no order that was sent; then go on with"
        )
    if unknown or new or run.failure if job else run.exit_code == Exit.UNSETTLED:
        if run.status is not None and run.status.is_sliced:  # `jobs resume` refuses it
            yield "not all is done; workers run it, as this shows", line("watch", job)
        elif job and (run.again or run.source in (None, str(files.STDIO))):
            yield go_on, line("jobs", "resume", job, "--out", str(run.given.out), taken=Running)
        else:
            yield go_on, run.console.line
    if held or unknown:
        doubt = {"held for your decision": held, "not known yet": unknown}
        counts = ", ".join(f"{count:,} {what}" for what, count in doubt.items() if count)
        yield f"{counts}; see them with", line("jobs", "show", job)
    if held:
        how = (
            "look into each, then decide by its index, or with --state held on all: not_sent (the "
            "next run sends it, perhaps a second time), declined or succeeded (it is never sent)"
        )
        yield how, line("jobs", "resolve", job, "OUTCOME", "INDEX", "--note", "WHY")
    if job and run.misplaced:
        write = line("jobs", "outcomes", job, "--out", "outcomes.csv")
        yield "the journal has the outcomes; write them with", write


# The outcomes of a job


async def orders_of(journal: Journal, name: str) -> AsyncIterator[JobOrder]:
    """Read the orders of a job, in the order of the input, many at a time."""
    async for page in journal.pages(name):
        for each in page:
            yield each


async def write_job(
    run: Run,
    journal: Journal,
    out: TextIO,
    *,
    file: files.OrderFile | None = None,
    places: Sequence[int] = (),
    reasons: Kept | None = None,
) -> None:
    """Write and count the orders of a job with their outcomes, as the journal has them.

    While another process has the job, no order of it is called not sent.

    Args:
        run: Counts them, names the job, and takes in its status.
        journal: Has them.
        out: Where they are written.
        file: The file that the job is of, whose rows are written; None to write the orders.
        places: Which row of the file each order has.
        reasons: Why this run did not send orders.
    """
    job = str(run.job)
    run.status = status = await journal.status(job)
    run.operation, run.states = status.operation, status.counts
    results = files.result_columns(OPERATIONS[status.operation])
    columns, row = [*results, *files.JOB_COLUMNS], files.Row(None, {})
    with contextlib.closing(Kept()) as kept:
        async for each in orders_of(journal, job):
            outcome, place = each.outcome(), places[each.index] if places else each.index
            if each.state is OrderState.NEW and status.is_running:
                outcome = attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=_NOT_OURS)
            elif each.state is OrderState.NEW and reasons and (why := reasons.get(each.index)):
                outcome = attrs.evolve(outcome, error=NotSentError(why))
            row = file.rows.get(place) if file else files.Row(None, files.order_cells(each.order))
            known = each.index, each.state, each.known.note, job
            in_job = dict(zip(files.JOB_COLUMNS, known, strict=True))
            kept[place] = run.row(outcome, row, results) | in_job
        given = [*row.cells, *columns]
        write = file.writer(out, columns) if file else files.row_writer(out, given)
        for cells in kept:
            write(cells)
