"""`capture`, `cancel`, `review`, `refund`: orders of a file, sent and told one by one."""

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from gateway_async.batching.batch import check_size
from gateway_async.cli.again import line_on_job, with_journal
from gateway_async.cli.commands.common import (
    RefusedError,
    Results,
    advise,
    advise_on_job,
    collect,
    confirm,
    guarded,
    line_from,
    see_through,
    wording,
)
from gateway_async.cli.dry import show_plan
from gateway_async.cli.files.formats import STDIO
from gateway_async.cli.files.outfile import Existing, check_place, out_file
from gateway_async.cli.files.snapshot import snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.jobs import (
    KnownJob,
    ToldJob,
    file_of,
    look_at,
    why_not_gone_on_with,
)
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    JournalOptions,
    Line,
    Only,
    Out,
    PaceOptions,
    SafetyOptions,
    Source,
    open_journal,
)
from gateway_async.cli.orders import OrderReader
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.errors import InvalidOrderError, JournalError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from gateway_async.cli.settings.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials

_GIVE_AGAIN = "the run ended before it was looked at; give the command again"


@attrs.frozen(kw_only=True)
class BatchCommand:
    """One command on a file of orders.

    Attributes:
        layout: The columns.
        source: The file with the orders.
        out: Where the outcomes go; None only for a dry run.
        talk: What tells people what happens.
        settings: The settings.
        files: How files are read and written.
        safety: What happens before anything is sent.
        job: The name of a job, if it is one.
        only: The statuses of the rows that are taken; all rows if it is empty.
        pace: How fast, as the options say it.
        gateway: Which gateway, as the options say it.
        line: The command as it was given, to give again.
    """

    layout: Layout
    source: Path
    out: Path | None
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    safety: SafetyOptions
    job: str | None = None
    only: tuple[str, ...] = ()
    pace: PaceOptions = attrs.field(factory=PaceOptions)
    gateway: GatewayOptions
    line: str

    def run(self) -> int:
        """Check, ask, send, and write every outcome; return the exit code."""
        out = self.out
        if out is None and not self.safety.dry_run:
            raise RefusedError("--out: say where the outcomes go, such as --out outcomes.csv")
        if self.job is not None:
            open_journal(self.settings).job(self.job)  # refuses what cannot be, before all else
        reader = OrderReader(
            self.layout,
            self.settings.dialect,
            repeats=self.settings.policy.duplicates != "reject",
        )
        with snapshot(self.source, self.files.stdio) as taken:
            file = check_file(taken, reader, only=self.only)
            self._say_what_is_elsewhere(file)
            check_size(OPERATIONS[self.layout.method], self.settings.policy)
            if out is not None:
                self._check_out(out)
            if out is None or self.safety.dry_run:
                show_plan(self.layout, self.settings, file)
                self._say_what_the_job_is(file)
                return 0
            return self._send(file, out)

    def _check_out(self, out: Path) -> None:
        check_place(out, self.files.stdio, self._existing)
        is_own = STDIO not in (out, self.source) and out.resolve() == self.source.resolve()
        if is_own and not self.layout.looks_up:
            raise RefusedError(f"--out: {out} is the file with the orders; name another one")

    def _say_what_is_elsewhere(self, file: InputFile) -> None:
        for source, count in file.elsewhere.items():
            self.talk.warn(
                f"{count} rows of {file.snapshot.name} are copies, and left out: send them from "
                f"{source}, if that was not done already"
            )

    def _say_what_the_job_is(self, file: InputFile) -> None:
        """Say whether a job is there already; a dry run needs no journal, and changes none.

        Raises:
            RefusedError: If the run would not go on with it.
        """
        if self.job is None:
            return
        try:
            job = look_at(self.settings, self.job, create=False)
            refused = why_not_gone_on_with(self.settings, job, self.layout.operation, file)
        except JournalError as error:
            self.talk.warn(f"job {self.job} was not looked for: {error}")
            return
        if refused is not None:
            raise RefusedError(f"job {job.name} {refused}: the run would be refused, too")
        self.talk.tell("job", job.told, is_new=job.is_new, journal=job.place)

    def _send(self, file: InputFile, path: Path) -> int:
        about = About(
            command=self.layout.operation,
            base_url=self.settings.base_url,
            source=self.source,
            out=path,
            job=self.job,
            journal=None if self.job is None else file_of(self.settings),
        )
        with reporting(self.files.report, about, self.talk) as told:
            return self._send_all(file, path, told)

    def _send_all(self, file: InputFile, path: Path, told: Reporting) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        results = Results(layout=self.layout, told=told, job=self.job)
        job = None if self.job is None else look_at(self.settings, self.job)
        with contextlib.ExitStack() as stopping:
            with out_file(
                path, self.files.stdio, existing=self._existing, warn=self.talk.warn
            ) as out:
                if self.layout.confirms:
                    address = self.settings.base_url
                    what = wording(self.layout, file.totals, address, file.unread)
                    asked = what if job is None else f"{job.asked}: {what}"
                    confirm(self.talk, asked, yes=self.safety.yes)
                stop = stopping.enter_context(Stop(self.talk))
                see_through(
                    lambda: self._run(file, self._drive(file, credentials, results, stop, job)),
                    results,
                    lambda: results.write(out, file),
                )
            results.tally.is_astray = out.is_astray
            results.tally.report(self.talk, self.layout.operation)
            self._say_what_is_left(results, out.place)
        return results.tally.exit_code

    @property
    def _existing(self) -> Existing:
        if self.layout.looks_up:
            return Existing.SET_ASIDE_AT_END
        return Existing.REFUSED if self.job is None else Existing.SET_ASIDE

    def _run(self, file: InputFile, work: "Coroutine[Any, Any, None]") -> None:
        try:
            asyncio.run(work)
        except InvalidOrderError as error:
            raise file.problems_of(error, self.layout.columns) from None

    async def _drive(
        self,
        file: InputFile,
        credentials: "Credentials",
        results: Results,
        stop: Stop,
        job: "KnownJob | None",
    ) -> None:
        async with contextlib.AsyncExitStack() as opened:
            options: dict[str, Any] = {}
            if job is not None:
                journal = await opened.enter_async_context(open_journal(self.settings))
                kept = functools.partial(self._say_how_to_resume, job)
                options["job"] = ToldJob(name=job.name, journal=journal, kept=kept)
            client = make_client(self.settings, credentials, results.told.telemetry)
            gateway = await opened.enter_async_context(client)
            send = functools.partial(gateway.batch, self.layout.method)
            await collect(
                send(file.orders(), **options),
                talk=self.talk,
                stop=stop,
                results=results,
                total=file.totals.orders,
            )
            if job is not None and results.lacks(file.totals.orders):
                # An earlier run may have sent what this one did not come to: the journal knows.
                results.rest = OutcomeStatus.UNKNOWN, _GIVE_AGAIN
                async for outcome in journal.outcomes(job.name):
                    results.keep_new(outcome)

    def _say_how_to_resume(self, job: KnownJob) -> None:
        line = self._resuming
        text = f"{job.told}; if this is interrupted, go on with\n  {line}"
        self.talk.tell("resume", text, command=line, is_new=job.is_new, journal=job.place)

    @property
    def _resuming(self) -> str:
        """The command that goes on with the job: this one, unless its input is gone."""
        if self.source != STDIO:
            return with_journal(self.line, self.settings.journal)
        kind = ("--format", str(self.files.stdio)) if self.out == STDIO else ()
        return self._on_job("resume", "--out", str(self.out), *kind, *self.pace.again)

    def _on_job(self, command: str, *options: str) -> str:
        """Return a command on the job of this one."""
        words = ("jobs", command, self.job or "", *options)
        return line_on_job(words, self.line, self.gateway.again, self.settings.journal)

    def _say_what_is_left(self, results: Results, out: Path) -> None:
        """Say what to do about orders that are unknown, or were not sent."""
        counts = results.tally.counts
        unknown, not_sent = counts["unknown"], counts["not_sent"]
        if not (unknown or not_sent):
            return
        if self.layout.looks_up:
            if self.source != STDIO:  # else its input is gone
                what = f"{unknown + not_sent} were not answered; look all up again"
                advise(self.talk, results.told, what, self.line)
            return
        if self.job is not None:
            advise_on_job(self.talk, results.told, resume=self._resuming, show=self._on_job("show"))
            return
        if unknown:
            what = f"{unknown} may have been done: settle them before you send any again"
            self._advise(results.told, out, what, command="recover", suffix="recovered")
        if not_sent:
            what = f"{not_sent} were not sent; send them"
            self._advise(
                results.told,
                out,
                what,
                command=self.layout.operation,
                suffix="rest",
                only="not_sent",
            )

    def _advise(self, told: Reporting, out: Path, what: str, **command: str) -> None:
        again = self.gateway.again
        if "only" in command:  # it sends
            again = (*self.pace.again, *again)
            if self.settings.policy.duplicates == "serialize":
                again = ("--duplicates", "serialize", *again)
        advise(self.talk, told, what, line_from(out, files=self.files, again=again, **command))


def _order_command(layout: Layout) -> Callable[..., int]:
    def command(  # noqa: PLR0913  # one keyword an option
        orders: Source,
        /,
        *,
        out: Out | None = None,
        job: str | None = None,
        duplicates: Literal["reject", "serialize"] | None = None,
        only: Only = (),
        journal: JournalOptions | None = None,
        safety: SafetyOptions | None = None,
        pace: PaceOptions | None = None,
        files: FileOptions | None = None,
        gateway: GatewayOptions | None = None,
        line: Line,
    ) -> int:
        """Work on the orders of a file.

        Args:
            orders: The file with the orders, one a row: .csv, .jsonl or .parquet, or - for
                standard input.
            out: The file for the outcomes, in the order of the input; - for standard output.
                Without --job it must not exist yet.
            job: A name under which the orders and what becomes of them are kept in the journal:
                the same command, given again, goes on where it was.
            duplicates: What to do with several rows of one transaction: refuse the file, or send
                them one after the other.
            only: Take only the rows of an outcome file that have this status; may be repeated.
        """
        who = gateway or GatewayOptions()
        talk = who.talk()

        def work() -> int:
            pacing = pace or PaceOptions()
            policy = pacing.policy
            if duplicates is not None:
                policy["duplicates"] = duplicates
            kept = (journal or JournalOptions()).checked()
            if kept is not None and job is None:
                raise RefusedError("--journal: it keeps jobs alone; name this one by --job")
            settings = who.settings(
                os.environ,
                journal=kept,
                rate=pacing.rate,
                policy=policy,
            )
            return BatchCommand(
                layout=layout,
                source=orders,
                out=out,
                talk=talk,
                settings=settings,
                files=files or FileOptions(),
                safety=safety or SafetyOptions(),
                job=job,
                only=only,
                pace=pacing,
                gateway=who,
                line=line,
            ).run()

        return guarded(talk, work)

    command.__name__ = layout.method
    return command


commands = {name: _order_command(layout) for name, layout in LAYOUTS.items() if not layout.looks_up}
