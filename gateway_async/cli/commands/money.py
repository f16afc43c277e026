"""Commands on a file of orders: `capture cancel review refund payout`, `query search-refunds`.

A file whose orders move money is a job of the journal. The orders are kept before anything is sent,
under a name that is made of them. The same file, given again after whatever happened, goes on where
it was, and sends nothing that may have been sent.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import attrs
from cyclopts import Parameter

from gateway_async.batching.batch import check_size
from gateway_async.cli.console import print_json, standard_output
from gateway_async.cli.dry_run import plan, plan_lines
from gateway_async.cli.jobs import (
    KnownJob,
    find_job,
    jobs_with_payouts,
    look_at,
    name_of_orders,
)
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    ConsoleArgument,
    FileOptions,
    GatewayOptions,
    JournalOptions,
    LookUpOptions,
    NameArgument,
    Out,
    PaceOptions,
    SafetyOptions,
    Source,
    file_of,
    open_journal,
)
from gateway_async.cli.orders import InputFile, Reader, check_file, wording
from gateway_async.cli.outcomes import Results, collect
from gateway_async.cli.reports import reporting
from gateway_async.cli.run import (
    DONE,
    RefusedError,
    RunSummary,
    Stop,
    check_json,
    confirm,
    make_client,
)
from gateway_async.cli.tables import STDIO, check_place, open_table, out_file
from gateway_async.errors import InvalidOrderError, JournalError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS, PAYOUT

if TYPE_CHECKING:
    from gateway_async.cli.console import Console
    from gateway_async.cli.settings import Settings
    from gateway_async.signing import Credentials

_GIVE_AGAIN = "the run ended before it was looked at; give the command again"


@attrs.frozen(kw_only=True)
class _Run:
    """One command on a file of orders.

    Attributes:
        layout: The columns.
        source: The file with the orders.
        out: Where the outcomes go; None only for a dry run.
        console: Where people read what happens.
        settings: The settings.
        files: How files are read and written.
        dry_run: Whether only to show what would be sent.
        yes: Whether not to ask.
        json: Whether the summary is printed as JSON.
        job: The name of the job; None for the one that is made of the orders.
        again: Whether a job that is done is made once more.
        options: Those that name the journal and the gateway, for the next command.
    """

    layout: Layout
    source: Path
    out: Path | None
    console: "Console"
    settings: "Settings"
    files: FileOptions
    dry_run: bool
    yes: bool = False
    json: bool
    job: str | None = None
    again: bool = False
    options: tuple[str, ...] = ()

    def run(self) -> int:
        """Check, ask, send, and write every outcome; return the exit code."""
        out, layout = self.out, self.layout
        if out is None and not self.dry_run:
            raise RefusedError("--out: say where the outcomes go, such as --out outcomes.csv")
        check_json(out, json=self.json and not self.dry_run)
        if self.job is not None:
            open_journal(self.settings, create=False).job(self.job)  # refuses what is no name
        repeats = not layout.moves_money or self.settings.policy.duplicates != "reject"
        if layout.command == "payout":
            repeats = False
        with open_table(self.source, self.files.stdio) as table:
            file = check_file(table, Reader(layout, self.settings.dialect, repeats=repeats))
            check_size(OPERATIONS[layout.method], self.settings.policy)
            if out is not None:
                check_place(out, self.files.stdio)
                if STDIO not in (out, self.source) and out.resolve() == self.source.resolve():
                    raise RefusedError(f"--out: {out} is the file with the orders; name another")
            if out is None or self.dry_run:
                self._show(file)
                return DONE
            credentials = self.settings.credentials(os.environ, self.console.warn)
            job = self._find(file) if layout.moves_money else None
            summary = RunSummary(
                command=layout.command,
                base_url=self.settings.base_url,
                source=self.source,
                out=out,
                stdio=self.files.format,
                job=None if job is None else job.name,
                journal=None if job is None else job.place,
            )
            journal = file_of(self.settings) if job else None
            with reporting(self.files.report, summary, self.console, journal):
                self._send(file, job, out, credentials, summary)
        if self.json:
            print_json(summary.as_dict())
        return summary.exit_code

    def _show(self, file: InputFile) -> None:
        """Show how far the job of the file has come, and what would be sent; no journal is made."""
        is_named = {"base_url", "merchant_id", "account_id"} <= {*self.settings.who}
        if self.layout.moves_money and (self.job is not None or is_named):  # they make its name
            try:
                job = self._find(file, create=False)
            except JournalError as error:
                self.console.warn(f"the job was not looked for: {error}")
            else:
                left = "; nothing would be sent" if job.is_done else ""
                facts = {"job": job.name, "is_new": job.is_new, "journal": job.place}
                self.console.tell("job", f"{job.described}{left}", **facts)
        if self.json:
            print_json(plan(self.layout, self.settings, file))
        else:
            for line in plan_lines(self.layout, self.settings, file):
                standard_output().print(line, soft_wrap=True)

    def _find(self, file: InputFile, *, create: bool = True) -> KnownJob:
        """Find the job that this file is.

        Raises:
            RefusedError: For a new job with a payout that another job has.
        """
        if self.job is not None:
            job = look_at(self.settings, self.job, create=create)
        else:
            name = name_of_orders(self.layout.command, self.settings, file.digest)
            job = find_job(self.settings, name, again=self.again, create=create)
        if not job.is_new or self.layout.operation is not PAYOUT or job.before:
            return job
        found = jobs_with_payouts(
            self.settings, job.name, {order.request_id for order in file.orders()}
        )
        if found and not self.again:
            status, request_id = found[0]
            raise RefusedError(
                f"{self.source}: request_id {request_id} stands in job {status.name} of "
                f"{status.created_at:%Y-%m-%d %H:%M}, which may have paid it: take the row out, or "
                "give another payout a request_id of its own"
            )
        return attrs.evolve(job, before=tuple(status for status, _ in found))

    def _send(
        self,
        file: InputFile,
        job: KnownJob | None,
        path: Path,
        credentials: "Credentials",
        summary: RunSummary,
    ) -> None:
        console, results = self.console, Results(self.layout, summary)
        with contextlib.ExitStack() as stopping:  # a signal does not end the writing either
            stopping.callback(results.close)
            with out_file(path, self.files.stdio, console.warn) as out:
                if job is not None and job.is_done:
                    console.tell("job", f"{job.described}; nothing is sent", job=job.name)
                elif job is not None and (self.layout.confirms or job.before):
                    what = wording(self.layout, file.totals, self.settings.base_url, file.unread)
                    confirm(console, f"{job.asked}: {what}", yes=self.yes)
                stop = stopping.enter_context(Stop(console))
                try:
                    with summary.surviving():
                        asyncio.run(self._work(file, job, credentials, results, stop))
                except InvalidOrderError as error:
                    raise file.problems_of(error) from None
                finally:  # whatever ended it
                    if summary.has_begun:
                        results.write(out, file)
            summary.misplaced = summary.misplaced or out.problem
            if summary.misplaced != out.problem:
                console.warn(summary.misplaced)
            summary.tell(console)
            if job is not None:
                summary.advise_on_job(console, self.options)
            elif left := summary.counts["unknown"] + summary.counts["not_sent"]:
                what = f"{left} were not answered: give the command again"
                console.tell("next", what, count=left)
                summary.next_lines.append(what)

    async def _work(
        self,
        file: InputFile,
        job: KnownJob | None,
        credentials: "Credentials",
        results: Results,
        stop: Stop,
    ) -> None:
        settings, method, total = self.settings, self.layout.method, file.totals.orders
        if job is None:
            async with make_client(settings, credentials, results.summary) as gateway:
                batch = gateway.batch(method, file.orders())
                await collect(batch, results, self.console, stop, total)
            return
        async with open_journal(settings) as journal:
            if not job.is_done or self.job is not None:  # else its name shows that it is the same
                self.console.tell(
                    "job", job.described, job=job.name, is_new=job.is_new, journal=job.place
                )
                at_once = min(settings.policy.concurrency, total)
                policy = attrs.evolve(settings.policy, concurrency=at_once)
                recovery = settings.recovery
                if self.again:  # an alike refund is what was asked for
                    recovery = attrs.evolve(recovery, hold_alike_hours=None)
                settings = attrs.evolve(settings, policy=policy, recovery=recovery)
                async with make_client(settings, credentials, results.summary) as gateway:
                    batch = gateway.batch(method, file.orders(), job=journal.job(job.name))
                    await collect(batch, results, self.console, stop, total)
            if results.count < total:  # an earlier run may have sent what this one did not come to
                results.rest = OutcomeStatus.UNKNOWN, _GIVE_AGAIN
                async for outcome in journal.outcomes(job.name):
                    results.keep(outcome)


def send(  # noqa: PLR0913  # one keyword an option
    orders: Source,
    /,
    *,
    out: Out | None = None,
    job: str | None = None,
    again: bool = False,
    duplicates: Annotated[
        Literal["reject", "serialize"] | None, Parameter(show_default=False)
    ] = None,
    json: bool = False,
    journal: JournalOptions = JournalOptions(),
    safety: SafetyOptions = SafetyOptions(),
    pace: PaceOptions = PaceOptions(),
    files: FileOptions = FileOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
    name: NameArgument,
) -> int:
    """Work on the orders of a file: the operation is the name of the command.

    Args:
        orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
        out: The file for the outcomes, in the order of the input; - for standard output.
            Required but for --dry-run. A file that is there already is kept under another name.
        job: A name for the job, in place of the one that is made of the operation, the
            merchant, the gateway and the orders.
        again: Make a job that is done once more: all of its orders are sent again. What was
            done before is shown, and refunds alike are not held. A job with held orders is not
            done.
        duplicates: What to do with several rows of one transaction: refuse the file, or send
            them one after the other.
        json: Print one JSON object at the end: counts, job, files and the next commands.
    """
    if job is not None and again:
        raise RefusedError(
            "--again: a job with a name of its own is made again under another --job"
        )
    policy = pace.policy | ({"duplicates": duplicates} if duplicates else {})
    return _Run(
        layout=LAYOUTS[name],
        source=orders,
        out=out,
        console=console,
        settings=gateway.settings(journal=journal.checked(), rate=pace.rate, policy=policy),
        files=files,
        dry_run=safety.dry_run,
        yes=safety.yes,
        json=json,
        job=job,
        again=again,
        options=(*journal.again, *gateway.again),
    ).run()


def look_up(  # noqa: PLR0913  # one keyword an option
    orders: Source,
    /,
    *,
    out: Out | None = None,
    by: Literal["order_no", "transaction_id"] | None = None,
    json: bool = False,
    safety: LookUpOptions = LookUpOptions(),
    pace: PaceOptions = PaceOptions(),
    files: FileOptions = FileOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
    name: NameArgument,
) -> int:
    """Look up the orders of a file.

    Args:
        orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
        out: The file for the outcomes, in the order of the input; - for standard output.
            Required but for --dry-run.
        by: The column to look up by, where the file has both filled.
        json: Print one JSON object at the end: counts and files.
    """
    policy = {**pace.policy, "duplicates": "allow"}  # it does no harm to ask twice
    return _Run(
        layout=LAYOUTS[name].by(by) if by else LAYOUTS[name],
        source=orders,
        out=out,
        console=console,
        settings=gateway.settings(rate=pace.rate, policy=policy),
        files=files,
        dry_run=safety.dry_run,
        json=json,
    ).run()
