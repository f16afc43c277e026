"""`payout`: the payouts of a file, one by one; what is unknown is told by its `request_id`."""

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import attrs

from gateway_async.cli.commands.common import (
    RefusedError,
    Results,
    collect,
    confirm,
    guarded,
    line_from,
    see_through,
    wording,
)
from gateway_async.cli.dry import show_payouts
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.files.snapshot import snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    Only,
    Out,
    PaceOptions,
    SafetyOptions,
    Source,
)
from gateway_async.cli.payout_rows import PAYOUT, PayoutReader
from gateway_async.cli.payouts import Payouts
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop

if TYPE_CHECKING:
    from pathlib import Path

    from gateway_async.cli.files.outfile import OutFile
    from gateway_async.cli.settings.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials


@attrs.frozen(kw_only=True)
class _Run:
    source: "Path"
    out: "Path | None"
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    safety: SafetyOptions
    only: tuple[str, ...]
    pace: PaceOptions
    gateway: GatewayOptions

    def run(self) -> int:
        out = self.out
        if out is None and not self.safety.dry_run:
            raise RefusedError("--out: say where the outcomes go, such as --out outcomes.csv")
        with snapshot(self.source, self.files.stdio) as taken:
            file = check_file(taken, PayoutReader(self.settings.dialect), only=self.only)
            if out is None or self.safety.dry_run:
                show_payouts(self.settings, file)
                return 0
            return self._send(file, out)

    def _send(self, file: InputFile, path: "Path") -> int:
        about = About(
            command=PAYOUT.operation,
            base_url=self.settings.base_url,
            source=self.source,
            out=path,
        )
        with reporting(self.files.report, about, self.talk) as told:
            return self._send_all(file, path, told)

    def _send_all(self, file: InputFile, path: "Path", told: Reporting) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        results = Results(layout=PAYOUT, told=told)
        with contextlib.ExitStack() as stopping:
            with out_file(
                path, self.files.stdio, existing=Existing.REFUSED, warn=self.talk.warn
            ) as out:
                what = wording(PAYOUT, file.totals, self.settings.base_url, file.unread)
                confirm(self.talk, what, yes=self.safety.yes)
                stop = stopping.enter_context(Stop(self.talk))
                see_through(
                    lambda: asyncio.run(self._drive(file, credentials, results, stop)),
                    results,
                    lambda: results.write(out, file),
                )
            results.tally.is_astray = out.is_astray
            results.tally.report(self.talk, PAYOUT.operation)
            self._say_what_is_left(results, out)
        return results.tally.exit_code

    async def _drive(
        self, file: InputFile, credentials: "Credentials", results: Results, stop: Stop
    ) -> None:
        policy = self.settings.policy
        at_once = min(policy.concurrency, file.totals.orders)  # as many tasks are made
        async with make_client(self.settings, credentials, results.told.telemetry) as gateway:
            payouts = Payouts(
                gateway,
                file.orders(),
                policy=attrs.evolve(policy, concurrency=at_once),
                done=self.settings.payout_done,
            )
            await collect(
                payouts, talk=self.talk, stop=stop, results=results, total=file.totals.orders
            )

    def _say_what_is_left(self, results: Results, out: "OutFile") -> None:
        """Say what to do about payouts that are unknown, or were not sent."""
        unknown, not_sent = results.tally.counts["unknown"], results.tally.counts["not_sent"]
        if unknown:
            self.talk.tell(
                "next",
                f"{unknown} payouts may have been made and cannot be looked up: ask the gateway "
                f"by the request_id of the rows of {out.name} whose status is unknown, and do not "
                "send them again before you know",
                count=unknown,
            )
        if not_sent:
            line = line_from(
                out.place,
                files=self.files,
                command=PAYOUT.operation,
                suffix="rest",
                only="not_sent",
                again=(*self.pace.again, *self.gateway.again),
            )
            what = f"{not_sent} were not sent; send them:\n  {line}"
            self.talk.tell("next", what, command=line)
            results.told.next_lines.append(line)


def payout(  # noqa: PLR0913  # one keyword an option
    payouts: Source,
    /,
    *,
    out: Out | None = None,
    only: Only = (),
    safety: SafetyOptions | None = None,
    pace: PaceOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Pay out the payouts of a file.

    Args:
        payouts: The file with the payouts, one a row: .csv with dotted columns such as
            beneficiary.first_name, .jsonl or .parquet with objects, or - for standard input.
        out: The file for the outcomes, in the order of the input; - for standard output. It must
            not exist yet.
        only: Take only the rows of an outcome file that have this status; may be repeated.
    """
    who, pacing = gateway or GatewayOptions(), pace or PaceOptions()
    talk = who.talk()

    def work() -> int:
        return _Run(
            source=payouts,
            out=out,
            talk=talk,
            settings=who.settings(os.environ, rate=pacing.rate, policy=pacing.policy),
            files=files or FileOptions(),
            safety=safety or SafetyOptions(),
            only=only,
            pace=pacing,
            gateway=who,
        ).run()

    return guarded(talk, work)
