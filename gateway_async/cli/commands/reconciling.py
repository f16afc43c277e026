"""`reconcile`: a ledger file against the gateway's records."""

import asyncio
import contextlib
import os
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway_async.cli.commands.common import DONE, NOT_ALL_DONE, UNSETTLED, guarded
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.files.snapshot import snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.ledgers import DIFFERENCE_COLUMNS, LedgerReader, difference_cells
from gateway_async.cli.options import FileOptions, GatewayOptions, Out, PaceOptions, Source
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import drive, make_client
from gateway_async.cli.settings import Reconcile
from gateway_async.cli.shows import gauged
from gateway_async.cli.stopping import Stop
from gateway_async.errors import ConfigurationError
from gateway_async.reconciliation import Unanswered, reconcile as reconcile_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gateway_async.cli.files.outfile import OutFile
    from gateway_async.cli.files.rows import Row
    from gateway_async.cli.files.writing import Sink
    from gateway_async.cli.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.errors import GatewayError
    from gateway_async.reconciliation import Difference, Summary
    from gateway_async.signing import Credentials

    Write = Callable[[Difference, Row], None]

_AGAIN = "not every entry was answered: give the command again"
_YES_OR_NO = {"yes": True, "no": False}


class _Rows:
    """Finds the row of each difference: both come in the order of the ledger."""

    def __init__(self, file: InputFile) -> None:
        self._rows = enumerate(file.rows())
        self._at, self._row = next(self._rows)

    def of(self, difference: "Difference") -> "Row":
        while self._at < difference.index:
            self._at, self._row = next(self._rows)
        return self._row


def _writer_to(sink: "Sink", columns: "list[str]") -> "Write":
    """Make what writes each difference beside the row of its entry."""

    def write(difference: "Difference", row: "Row") -> None:
        given = {name: row.cells[name] for name in columns if name in row.cells}
        found = difference_cells(difference, row.line)
        sink.write({**given, **dict(zip(DIFFERENCE_COLUMNS, found, strict=True))})

    return write


def _print(difference: "Difference", row: "Row") -> None:
    """Print a difference with the line of its entry."""
    print(f"line {row.line}: {difference.text}", file=sys.stdout)  # noqa: T201  # its output


@attrs.frozen(kw_only=True)
class _Run:
    source: "Path"
    out: "Path | None"
    talk: "Talk"
    settings: "Settings"
    files: FileOptions

    def run(self) -> int:
        with snapshot(self.source, self.files.stdio) as taken:
            file = check_file(taken, LedgerReader())
            if file.unread:
                self.talk.tell("unread", f"columns that are not read: {file.unread}")
            has_states = "state" in taken.header
            if self.settings.reconcile.states and not has_states:
                self.talk.warn("the ledger has no column state, so no state is compared")
            if has_states and not self.settings.reconcile.states:
                self.talk.warn(
                    "no state is compared: say what a payment_status means, as in --state 3000=paid"
                )
            credentials = self.settings.credentials(os.environ, self.talk.warn)
            with contextlib.ExitStack() as opened:
                stop = opened.enter_context(Stop(self.talk))
                told = opened.enter_context(reporting(self.files.report, self._about, self.talk))
                write, out = self._writer(file, opened)
                started = time.monotonic()
                summary, failure = asyncio.run(self._drive(file, credentials, write, stop, told))
                told.summary, told.tally.failure = summary, failure
                is_asked_again = _exit_code(summary) == UNSETTLED
                if is_asked_again:
                    told.next_lines.append(_AGAIN)
        self._report(summary, time.monotonic() - started)
        told.tally.tell_reasons(self.talk)
        if is_asked_again:
            self.talk.tell("next", _AGAIN)
        if failure is not None:
            self.talk.tell("failure", f"it ended early: {failure}")
        is_astray = out is not None and out.is_astray
        return UNSETTLED if failure is not None or is_astray else _exit_code(summary)

    @property
    def _about(self) -> About:
        return About(
            command="reconcile",
            base_url=self.settings.base_url,
            source=self.source,
            out=self.out,
        )

    def _writer(
        self, file: InputFile, opened: contextlib.ExitStack
    ) -> "tuple[Write, OutFile | None]":
        if self.out is None:
            return _print, None
        out = opened.enter_context(
            out_file(
                self.out, self.files.stdio, existing=Existing.SET_ASIDE_AT_END, warn=self.talk.warn
            )
        )
        columns = file.passed_through(DIFFERENCE_COLUMNS)
        sink = out.sink([*columns, *DIFFERENCE_COLUMNS])
        opened.callback(sink.close)
        return _writer_to(sink, columns), out

    async def _drive(
        self,
        file: InputFile,
        credentials: "Credentials",
        write: "Write",
        stop: Stop,
        told: Reporting,
    ) -> "tuple[Summary, GatewayError | None]":
        async with make_client(self.settings, credentials, told.telemetry) as gateway:
            reconciliation = reconcile_ledger(
                gateway,
                file.orders(),
                states=self.settings.reconcile.states,
                refund_statuses=self.settings.reconcile.refund_statuses,
                policy=self.settings.policy,
            )
            rows = _Rows(file)
            with gauged(self.talk, "reconcile", file.totals.orders) as gauge:

                def see(difference: "Difference") -> None:
                    row = rows.of(difference)
                    if isinstance(difference, Unanswered):
                        told.tally.note_reason(difference.error)
                    write(difference, row)
                    if told.report is not None:
                        told.report.see_difference(difference, row.line)
                    gauge.counts[difference.kind] += 1

                failure = await drive(
                    reconciliation,
                    see,
                    stop=stop,
                    tick=lambda: gauge.reach(reconciliation.progress.entries),
                )
                gauge.reach(reconciliation.summary.entries)
        return reconciliation.summary, failure

    def _report(self, summary: "Summary", seconds: float) -> None:
        self.talk.show(
            "summary",
            _table(summary),
            matched=summary.matched,
            differing=summary.differing,
            unanswered=summary.unanswered,
            differences={kind: n for kind, n in summary.differences.items() if n},
            currencies={code: attrs.asdict(totals) for code, totals in summary.currencies.items()},
            unexpected=summary.unexpected,
            requests=summary.requests,
            exhausted=summary.exhausted,
            seconds=round(seconds, 3),
        )
        if self.talk.is_json:
            return
        self.talk.tell("summary", _in_words(summary))


def _table(summary: "Summary") -> Table:
    """Return the totals of both sides, by currency."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("currency")
    table.add_column("side")
    for name in ("payments", "amount", "refunded"):
        table.add_column(name, justify="right", overflow="fold")
    for code, totals in summary.currencies.items():
        for side in ("ledger", "gateway"):
            count, *sums = (
                getattr(totals, f"{side}_{name}") for name in ("count", "amount", "refunded")
            )
            table.add_row(code, side, f"{count:,}", *(f"{amount:,f}" for amount in sums))
    return table


def _in_words(summary: "Summary") -> str:
    counts = f"{summary.matched:,} matched, {summary.differing:,} differing"
    lines = [f"{summary.entries:,} entries: {counts}, {summary.unanswered:,} unanswered"]
    lines += [f"  {kind}: {count:,}" for kind, count in summary.differences.items() if count]
    if summary.unexpected:
        lines.append(f"records that nobody asked for: {summary.unexpected:,}")
    if not summary.exhausted:
        lines.append("the ledger was not taken to its end")
    return "\n".join(lines)


def _exit_code(summary: "Summary") -> int:
    """0: all matched. 1: some differ. 3: some were not answered, or not asked for."""
    if summary.unanswered or not summary.exhausted:
        return UNSETTLED
    return DONE if summary.ok else NOT_ALL_DONE


def _states(given: "tuple[str, ...]", settings: "Settings") -> "Mapping[str, Any] | None":
    """Read `3000=paid` and the like; the words of one value add up."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in given:
        value, _, text = map(str.strip, one.partition("="))
        words = set(map(str.strip, text.split(",")))
        if not value or "" in words:
            raise ConfigurationError(f"--state: expected such as 3000=paid, got {one!r}")
        found[value] |= words
    return dict(found) or settings.reconcile.states


def _refund_statuses(given: "tuple[str, ...]", settings: "Settings") -> "Mapping[str, bool] | None":
    """Read `1=yes` and the like."""
    found = {}
    for one in given:
        value, _, word = map(str.strip, one.partition("="))
        if not value or word not in _YES_OR_NO:
            raise ConfigurationError(f"--refund-status: expected such as 2=no, got {one!r}")
        found[value] = _YES_OR_NO[word]
    return found or settings.reconcile.refund_statuses


_Repeated = Parameter(negative="", consume_multiple=False)


def reconcile(  # noqa: PLR0913  # one keyword an option
    ledger: Source,
    /,
    *,
    out: Out | None = None,
    state: Annotated[tuple[str, ...], _Repeated] = (),
    refund_status: Annotated[tuple[str, ...], _Repeated] = (),
    pace: PaceOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Compare a ledger with the gateway's records, payments and refunds.

    Args:
        ledger: The file with your entries, one a row: order_no or transaction_id or both,
            currency, amount, and refunded and state if you like; - for standard input.
        out: The file for the differences, each beside its entry; - for standard output. Without
            it they are printed, one a line.
        state: What a payment_status means in your books, such as 3000=paid; may be repeated.
            Without it, no state is compared.
        refund_status: Whether a refund of this refund_status gave money back, such as 2=no; may
            be repeated. Without it, 1=yes; with it, only what is named.
    """
    who, pacing = gateway or GatewayOptions(), pace or PaceOptions()
    talk = who.talk()

    def work() -> int:
        settings = who.settings(os.environ, rate=pacing.rate, policy=pacing.policy)
        return _Run(
            source=ledger,
            out=out,
            talk=talk,
            settings=attrs.evolve(
                settings,
                reconcile=Reconcile(
                    states=_states(state, settings),
                    refund_statuses=_refund_statuses(refund_status, settings),
                ),
            ),
            files=files or FileOptions(),
        ).run()

    return guarded(talk, work)
