"""`jobs resume`: go on with a job whose orders are in the journal."""

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Annotated

import attrs
from cyclopts import Parameter

from gateway_async.cli.commands.common import (
    UNSETTLED,
    RefusedError,
    Results,
    advise_on_job,
    collect,
    confirm,
    guarded,
    on_job,
    wording,
)
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.inputs import Totals
from gateway_async.cli.jobs import (
    KnownJob,
    job_cells,
    job_columns,
    layout_of,
    place_of,
    rows_of,
)
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    JournalOptions,
    Out,
    PaceOptions,
    open_journal,
)
from gateway_async.cli.payout_rows import PAYOUT, moved_by
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.errors import GatewayError
from gateway_async.journal import JobState

if TYPE_CHECKING:
    from pathlib import Path

    from gateway_async.cli.files.outfile import OutFile
    from gateway_async.cli.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.journal import JobStatus
    from gateway_async.signing import Credentials


@attrs.frozen(kw_only=True)
class _Resuming:
    name: str
    out: "Path"
    yes: bool
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    journal: JournalOptions
    gateway: GatewayOptions

    def run(self) -> int:
        about = About(
            command="jobs resume", base_url=self.settings.base_url, out=self.out, job=self.name
        )
        with reporting(self.files.report, about, self.talk) as told:
            return self._resume(told)

    def _resume(self, told: Reporting) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        with out_file(
            self.out, self.files.stdio, existing=Existing.SET_ASIDE, warn=self.talk.warn
        ) as out:
            status, totals = asyncio.run(self._head())
            layout = layout_of(status)
            job = KnownJob(name=self.name, place=place_of(self.settings), status=status)
            if layout.confirms and totals.orders:
                what = wording(layout, totals, self.settings.base_url)
                confirm(self.talk, f"{job.asked}: {what}", yes=self.yes)
            self.talk.tell("resume", job.told, is_new=job.is_new, journal=job.place)
            results = Results(layout=layout, told=told)
            with Stop(self.talk) as stop:
                try:
                    asyncio.run(self._drive(credentials, results, stop, out))
                except GatewayError as error:
                    if not results.tally.has_begun:
                        raise
                    results.tally.failure = error  # `jobs outcomes` writes what the journal has
                results.tally.report(self.talk, f"resume {self.name}")
        results.tally.is_astray = out.is_astray
        if results.tally.exit_code == UNSETTLED:
            show = on_job(("show", self.name), self.journal, self.gateway)
            advise_on_job(self.talk, told, resume="the same command", show=show)
        return results.tally.exit_code

    async def _head(self) -> "tuple[JobStatus, Totals]":
        """Return how far the job has come, and what is left to be sent."""
        totals = Totals()
        async with open_journal(self.settings, create=False) as journal:
            status = await journal.status(self.name)
            if status.is_cut:
                raise RefusedError(
                    f"job {self.name} was cut into slices, which workers run: start one with "
                    "`gateway-async worker`, and see how far it comes with `gateway-async watch`"
                )
            layout = layout_of(status)
            if layout.confirms:
                async for row in rows_of(journal, self.name):
                    if row.state is JobState.NEW:
                        fields = attrs.asdict(row.order, recurse=False)
                        is_payout = layout is PAYOUT
                        totals.add(
                            moved_by(fields)
                            if is_payout
                            else (fields["currency"], fields[layout.total])
                        )
        return status, totals

    async def _drive(
        self, credentials: "Credentials", results: Results, stop: Stop, out: "OutFile"
    ) -> None:
        async with contextlib.AsyncExitStack() as opened:
            journal = await opened.enter_async_context(open_journal(self.settings, create=False))
            client = make_client(self.settings, credentials, results.told.telemetry)
            gateway = await opened.enter_async_context(client)
            await collect(
                gateway.resume(journal.job(self.name)),
                talk=self.talk,
                stop=stop,
                results=results,
                total=(await journal.status(self.name)).total,
            )
            sink = out.sink(job_columns(results.layout))
            async for row in rows_of(journal, self.name):
                sink.write(job_cells(self.name, row, results.layout))
            sink.close()


def resume(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    yes: Annotated[bool, Parameter(negative="")] = False,
    journal: JournalOptions | None = None,
    pace: PaceOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Go on with a job whose orders are in the journal.

    Args:
        name: The name of the job.
        out: The file for what became of its orders; - for standard output.
        yes: Do not ask before money is sent.
    """
    who, pacing = gateway or GatewayOptions(), pace or PaceOptions()
    talk = who.talk()

    def work() -> int:
        kept = journal or JournalOptions()
        settings = who.settings(
            os.environ,
            journal=kept.checked(),
            rate=pacing.rate,
            policy=pacing.policy,
        )
        return _Resuming(
            name=name,
            out=out,
            yes=yes,
            talk=talk,
            settings=settings,
            files=files or FileOptions(),
            journal=kept,
            gateway=who,
        ).run()

    return guarded(talk, work)
