"""`query`, `search-refunds`: orders of a file, looked up."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

from gateway_async.batching.batch import check_size
from gateway_async.cli.commands.common import (
    DONE,
    RefusedError,
    Results,
    collect,
    guarded,
    see_through,
)
from gateway_async.cli.dry import show_plan
from gateway_async.cli.files.outfile import Existing, check_place, out_file
from gateway_async.cli.files.snapshot import snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    LookUpOptions,
    Out,
    PaceOptions,
    Source,
)
from gateway_async.cli.orders import OrderReader
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from pathlib import Path

    from gateway_async.cli.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials


@attrs.frozen(kw_only=True)
class _Run:
    """A look-up of the orders of a file; `out` is None only for a dry run."""

    layout: Layout
    source: "Path"
    out: "Path | None"
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    is_dry: bool

    def run(self) -> int:
        """Check, ask, and write every outcome; return the exit code."""
        out = self.out
        if out is None and not self.is_dry:
            raise RefusedError("--out: say where the outcomes go, such as --out outcomes.csv")
        reader = OrderReader(self.layout, self.settings.dialect, repeats=True)
        with snapshot(self.source, self.files.stdio) as taken:
            file = check_file(taken, reader)
            check_size(OPERATIONS[self.layout.method], self.settings.policy)
            if out is not None:
                check_place(out, self.files.stdio)
            if out is None or self.is_dry:
                show_plan(self.layout, self.settings, file)
                return DONE
            about = About(
                command=self.layout.operation,
                base_url=self.settings.base_url,
                source=self.source,
                out=out,
            )
            with reporting(self.files.report, about, self.talk) as told:
                return self._look_up(file, out, told)

    def _look_up(self, file: InputFile, path: "Path", told: Reporting) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        results = Results(layout=self.layout, told=told)
        existing = Existing.SET_ASIDE_AT_END
        with contextlib.ExitStack() as stopping:
            with out_file(path, self.files.stdio, existing=existing, warn=self.talk.warn) as out:
                stop = stopping.enter_context(Stop(self.talk))
                see_through(
                    lambda: asyncio.run(self._drive(file, credentials, results, stop)),
                    results,
                    lambda: results.write(out, file),
                )
            results.tally.is_astray = out.is_astray
            results.tally.report(self.talk, self.layout.operation)
            counts = results.tally.counts
            if left := counts["unknown"] + counts["not_sent"]:
                what = f"{left} were not answered: give the command again"
                self.talk.tell("next", what, count=left)
                told.next_lines.append(what)
        return results.tally.exit_code

    async def _drive(
        self, file: InputFile, credentials: "Credentials", results: Results, stop: Stop
    ) -> None:
        async with make_client(self.settings, credentials, results.told.telemetry) as gateway:
            await collect(
                gateway.batch(self.layout.method, file.orders()),
                talk=self.talk,
                stop=stop,
                results=results,
                total=file.totals.orders,
            )


def _look_up_command(layout: Layout) -> Callable[..., int]:
    def command(  # noqa: PLR0913  # one keyword an option
        orders: Source,
        /,
        *,
        out: Out | None = None,
        by: Literal["order_no", "transaction_id"] | None = None,
        look_up: LookUpOptions | None = None,
        pace: PaceOptions | None = None,
        files: FileOptions | None = None,
        gateway: GatewayOptions | None = None,
    ) -> int:
        """Look up the orders of a file.

        Args:
            orders: The file with the orders, one a row: .csv or .jsonl, or - for standard input.
            out: The file for the outcomes, in the order of the input; - for standard output.
            by: The column to look up by, where the file has both filled.
        """
        who = gateway or GatewayOptions()
        talk = who.talk()

        def work() -> int:
            pacing = pace or PaceOptions()
            policy = {**pacing.policy, "duplicates": "allow"}  # it does no harm to ask twice
            return _Run(
                layout=layout.by(by) if by else layout,
                source=orders,
                out=out,
                talk=talk,
                settings=who.settings(os.environ, rate=pacing.rate, policy=policy),
                files=files or FileOptions(),
                is_dry=(look_up or LookUpOptions()).dry_run,
            ).run()

        return guarded(talk, work)

    command.__name__ = layout.method
    return command


query = _look_up_command(LAYOUTS["query"])
search_refunds = _look_up_command(LAYOUTS["search-refunds"])
