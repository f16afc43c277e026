"""`capture`, `cancel`, `review`, `refund`, `payout`: a file of orders is a job of the journal.

The orders are kept before anything is sent, under a name that is made of them. The same file, given
again after whatever happened, goes on where it was, and sends nothing that may have been sent.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import attrs
from cyclopts import Parameter

from gateway_async.batching.batch import check_size
from gateway_async.cli.commands.common import (
    DONE,
    RefusedError,
    Results,
    advise_on_job,
    collect,
    confirm,
    guarded,
    on_job,
    see_through,
    wording,
)
from gateway_async.cli.dry import show_payouts, show_plan
from gateway_async.cli.files.formats import STDIO
from gateway_async.cli.files.outfile import Existing, check_place, out_file
from gateway_async.cli.files.snapshot import snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.jobs import KnownJob, find_job, look_at, name_of_orders
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    JournalOptions,
    Out,
    PaceOptions,
    SafetyOptions,
    Source,
    file_of,
    open_journal,
)
from gateway_async.cli.orders import OrderReader
from gateway_async.cli.payout_rows import PAYOUT, PayoutReader
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.errors import InvalidOrderError, JournalError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from gateway_async.cli.inputs import Reader
    from gateway_async.cli.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials

_GIVE_AGAIN = "the run ended before it was looked at; give the command again"


@attrs.frozen(kw_only=True)
class _Run:
    """One command on a file of orders.

    Attributes:
        layout: The columns.
        source: The file with the orders.
        out: Where the outcomes go; None only for a dry run.
        talk: What tells people what happens.
        settings: The settings.
        files: How files are read and written.
        safety: What happens before anything is sent.
        job: The name of the job; None for the one that is made of the orders.
        again: Whether a job that is done is made once more.
        journal: Where its job is kept, as the options say it.
        gateway: Which gateway, as the options say it.
    """

    layout: Layout
    source: Path
    out: Path | None
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    safety: SafetyOptions
    job: str | None
    again: bool
    journal: JournalOptions
    gateway: GatewayOptions

    def run(self) -> int:
        """Check, ask, send, and write every outcome; return the exit code."""
        out = self.out
        if out is None and not self.safety.dry_run:
            raise RefusedError("--out: say where the outcomes go, such as --out outcomes.csv")
        if self.job is not None:
            open_journal(self.settings, create=False).job(self.job)  # refuses what is no name
        with snapshot(self.source, self.files.stdio) as taken:
            file = check_file(taken, self._reader())
            check_size(OPERATIONS[self.layout.method], self.settings.policy)
            if out is not None:
                check_place(out, self.files.stdio)
                if STDIO not in (out, self.source) and out.resolve() == self.source.resolve():
                    raise RefusedError(f"--out: {out} is the file with the orders; name another")
            if out is None or self.safety.dry_run:
                self._show(file)
                return DONE
            credentials = self.settings.credentials(os.environ, self.talk.warn)
            job = self._find(file)
            about = About(
                command=self.layout.operation,
                base_url=self.settings.base_url,
                source=self.source,
                out=out,
                job=job.name,
                journal=file_of(self.settings),
            )
            with reporting(self.files.report, about, self.talk) as told:
                return self._send(file, job, out, credentials, told)

    def _reader(self) -> "Reader":
        dialect = self.settings.dialect
        if self.layout is PAYOUT:
            return PayoutReader(dialect)
        repeats = self.settings.policy.duplicates != "reject"
        return OrderReader(self.layout, dialect, repeats=repeats)

    def _show(self, file: InputFile) -> None:
        """Show what would be sent, and how far its job has come; no journal is made."""
        if self.layout is PAYOUT:
            show_payouts(self.settings, file)
        else:
            show_plan(self.layout, self.settings, file)
        if self.job is None and not {"base_url", "merchant_id", "account_id"} <= {
            *self.settings.who
        }:
            return  # its name is made of them, too
        try:
            job = self._find(file, create=False)
        except JournalError as error:
            self.talk.warn(f"the job was not looked for: {error}")
        else:
            self.talk.tell("job", job.told, job=job.name, is_new=job.is_new, journal=job.place)

    def _find(self, file: InputFile, *, create: bool = True) -> KnownJob:
        """Find the job that this file is."""
        if self.job is not None:
            return look_at(self.settings, self.job, create=create)
        name = name_of_orders(self.layout.operation, self.settings, file.orders())
        return find_job(self.settings, name, again=self.again, create=create)

    def _send(
        self,
        file: InputFile,
        job: KnownJob,
        path: Path,
        credentials: "Credentials",
        told: Reporting,
    ) -> int:
        results = Results(layout=self.layout, told=told, job=job.name)
        with contextlib.ExitStack() as stopping:
            with out_file(
                path, self.files.stdio, existing=Existing.SET_ASIDE, warn=self.talk.warn
            ) as out:
                if job.is_done:
                    self.talk.tell("job", f"{job.told}; nothing is sent", job=job.name)
                elif self.layout.confirms or job.before:
                    address = self.settings.base_url
                    what = wording(self.layout, file.totals, address, file.unread)
                    confirm(self.talk, f"{job.asked}: {what}", yes=self.safety.yes)
                stop = stopping.enter_context(Stop(self.talk))
                see_through(
                    lambda: self._drive(file, credentials, results, stop, job),
                    results,
                    lambda: results.write(out, file),
                )
            results.tally.is_astray = out.is_astray
            results.tally.report(self.talk, self.layout.operation)
            counts = results.tally.counts
            if counts["unknown"] or counts["not_sent"]:
                self._say_what_is_left(told, job, path)
        return results.tally.exit_code

    def _drive(
        self,
        file: InputFile,
        credentials: "Credentials",
        results: Results,
        stop: Stop,
        job: KnownJob,
    ) -> None:
        try:
            asyncio.run(self._work(file, credentials, results, stop, job))
        except InvalidOrderError as error:
            raise file.problems_of(error, self.layout.columns) from None

    async def _work(
        self,
        file: InputFile,
        credentials: "Credentials",
        results: Results,
        stop: Stop,
        job: KnownJob,
    ) -> None:
        async with open_journal(self.settings) as journal:
            if not job.is_done or self.job is not None:  # else its name shows that it is the same
                self.talk.tell("job", job.told, job=job.name, is_new=job.is_new, journal=job.place)
                settings = self.settings
                at_once = min(settings.policy.concurrency, file.totals.orders)
                policy = attrs.evolve(settings.policy, concurrency=at_once)
                settings = attrs.evolve(settings, policy=policy)
                if self.again:  # an alike refund is what was asked for
                    recovery = attrs.evolve(settings.recovery, hold_alike_hours=None)
                    settings = attrs.evolve(settings, recovery=recovery)
                async with make_client(settings, credentials, results.told.telemetry) as gateway:
                    await collect(
                        gateway.batch(self.layout.method, file.orders(), job=journal.job(job.name)),
                        talk=self.talk,
                        stop=stop,
                        results=results,
                        total=file.totals.orders,
                    )
            if results.lacks(file.totals.orders):
                # An earlier run may have sent what this one did not come to: the journal knows.
                results.rest = OutcomeStatus.UNKNOWN, _GIVE_AGAIN
                async for outcome in journal.outcomes(job.name):
                    results.keep_new(outcome)

    def _say_what_is_left(self, told: Reporting, job: KnownJob, out: Path) -> None:
        """Say what to do about orders that are unknown, or were not sent."""
        resume = "the same command"
        if self.source == STDIO:  # its input is gone
            kind = ("--format", str(self.files.stdio)) if out == STDIO else ()
            words = ("resume", job.name, "--out", str(out), *kind)
            resume = on_job(words, self.journal, self.gateway)
        show = on_job(("show", job.name), self.journal, self.gateway)
        advise_on_job(self.talk, told, resume=resume, show=show)


Again = Annotated[bool, Parameter(negative="", show_default=False)]
Duplicates = Annotated[Literal["reject", "serialize"] | None, Parameter(show_default=False)]


def _money_command(layout: Layout) -> Callable[..., int]:
    """Make the command of an operation that moves money."""

    def command(  # noqa: PLR0913  # one keyword an option
        orders: Source,
        /,
        *,
        out: Out | None = None,
        job: str | None = None,
        again: Again = False,
        duplicates: Duplicates = None,
        journal: JournalOptions | None = None,
        safety: SafetyOptions | None = None,
        pace: PaceOptions | None = None,
        files: FileOptions | None = None,
        gateway: GatewayOptions | None = None,
    ) -> int:
        """Work on the orders of a file.

        Args:
            orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
            out: The file for the outcomes, in the order of the input; - for standard output. A
                file that is there already is kept under another name.
            job: A name for the job, in place of the one that is made of the operation, the
                merchant, the gateway and the orders.
            again: Make a job that is done once more: all of its orders are sent again. What was
                done before is shown, and refunds alike are not held.
            duplicates: What to do with several rows of one transaction: refuse the file, or send
                them one after the other.
        """
        who = gateway or GatewayOptions()
        talk = who.talk()

        def work() -> int:
            if job is not None and again:
                raise RefusedError(
                    "--again: a job with a name of its own is made again under another --job"
                )
            pacing = pace or PaceOptions()
            policy = pacing.policy
            if duplicates is not None:
                policy["duplicates"] = duplicates
            kept = journal or JournalOptions()
            settings = who.settings(
                os.environ,
                journal=kept.checked(),
                rate=pacing.rate,
                policy=policy,
            )
            return _Run(
                layout=layout,
                source=orders,
                out=out,
                talk=talk,
                settings=settings,
                files=files or FileOptions(),
                safety=safety or SafetyOptions(),
                job=job,
                again=again,
                journal=kept,
                gateway=who,
            ).run()

        return guarded(talk, work)

    command.__name__ = layout.method
    return command


commands = {
    name: _money_command(layout)
    for name, layout in {**LAYOUTS, PAYOUT.operation: PAYOUT}.items()
    if not layout.looks_up
}
