"""`recover`: unknown outcomes of an earlier command, settled from the gateway's own records."""

import asyncio
import contextlib
import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.cli.cells import to_text
from gateway_async.cli.commands.common import (
    UNSETTLED,
    Results,
    advise,
    copied,
    guarded,
    line_from,
)
from gateway_async.cli.files.formats import STDIO
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.files.problems import Problem, Problems, TableError
from gateway_async.cli.files.snapshot import Snapshot, snapshot
from gateway_async.cli.inputs import explain
from gateway_async.cli.layouts import LAYOUTS, STATUS, STATUS_FROM, Layout
from gateway_async.cli.options import FileOptions, GatewayOptions, Line, Out, Source
from gateway_async.cli.outcomes import (
    EvidenceError,
    operation_of,
    read_outcome,
    status_of,
)
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.errors import InvalidOrderError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway_async.batching.results import Outcome
    from gateway_async.cli.files.rows import Row
    from gateway_async.cli.settings.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.signing import Credentials

_UNKNOWN, _SUCCEEDED, _NOT_SENT = "unknown", "succeeded", "not_sent"
_NO_EVIDENCE = (
    "there is an unknown order, and no row says by sent_operation what it was sent for: this is "
    "no outcome file of capture, cancel, review or refund, or it lost its columns"
)


@attrs.define(kw_only=True)
class _Scan:
    """What an outcome file holds, found in one pass.

    Attributes:
        counts: How many rows have each status.
        operations: The commands that its rows were sent by.
        wanted: The transactions with an unknown order.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    operations: dict[str, None] = attrs.field(factory=dict)
    wanted: set[str] = attrs.field(factory=set)

    def see(self, row: "Row") -> None:
        """Take a row in."""
        status = str(status_of(row.cells))
        self.counts[status] += 1
        if status in {_UNKNOWN, _SUCCEEDED} and (name := operation_of(row.cells)):
            self.operations[name] = None
        if status == _UNKNOWN:
            self.wanted.add(to_text(row.cells.get("transaction_id")))


def _checked(taken: Snapshot, see: "Callable[[int, Row], None]") -> None:
    """Go through the rows, and collect what is wrong with them.

    Raises:
        TableError: With every problem.
    """
    problems = Problems()
    for position, row in enumerate(taken.rows()):
        if row.problems:
            problems.add(row.problems)
            continue
        try:
            see(position, row)
        except EvidenceError as error:
            problems.add([_problem(taken, row, error.column, error.reason)])
        except InvalidOrderError as error:
            problems.add([_problem(taken, row, *explain(error, row.cells))])
    problems.raise_if_any()


def _problem(taken: Snapshot, row: "Row", column: str | None, reason: str) -> Problem:
    return Problem(line=row.line, column=column, reason=reason, unit=taken.unit)


def _layout(scan: _Scan) -> Layout:
    """Return the columns of the command that wrote the file.

    Raises:
        TableError: If no row, or rows of several commands, say what they were sent by.
    """
    if len(scan.operations) == 1:
        return LAYOUTS[next(iter(scan.operations))]
    reason = _NO_EVIDENCE
    if scan.operations:
        reason = f"rows of several commands: {', '.join(scan.operations)}; recover each by itself"
    raise TableError([Problem(line=1, column="sent_operation", reason=reason)])


@attrs.define(kw_only=True)
class Evidence:
    """The outcomes that a recovery needs: those in doubt, and what it must know beside them.

    Attributes:
        layout: The columns.
        wanted: The transactions with an unknown order.
        found: The outcomes, by their position in the file.
    """

    layout: Layout
    wanted: "set[str]"
    found: "dict[int, Outcome[Any, Any]]" = attrs.field(factory=dict)
    _has_witness: bool = False

    def see(self, position: int, row: "Row") -> None:
        """Take a row in, if it matters."""
        status = to_text(row.cells.get(STATUS))
        is_beside = to_text(row.cells.get("transaction_id")) in self.wanted
        is_witness = not self._has_witness and bool(row.cells.get("refund_reference_id"))
        if status == _UNKNOWN or (status == _SUCCEEDED and (is_beside or is_witness)):
            self.found[position] = read_outcome(row.cells, position, self.layout)
            self._has_witness |= is_witness and status == _SUCCEEDED


def find_evidence(taken: Snapshot) -> tuple[Counter[str], Evidence | None]:
    """Read an outcome file in two passes.

    Returns:
        How many rows have each status, and what a recovery needs; None where nothing is unknown.

    Raises:
        TableError: With everything that is wrong with the file.
    """
    scan = _Scan()
    _checked(taken, lambda _, row: scan.see(row))
    if not scan.wanted:
        return scan.counts, None
    evidence = Evidence(layout=_layout(scan), wanted=scan.wanted)
    _checked(taken, evidence.see)
    return scan.counts, evidence


@attrs.frozen(kw_only=True)
class _Run:
    source: "Path"
    out: "Path"
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    gateway: GatewayOptions
    line: str

    def run(self) -> int:
        with snapshot(self.source, self.files.stdio) as taken:
            counts, evidence = find_evidence(taken)
            if evidence is None:
                self.talk.tell("done", f"{taken.name} has no order that is unknown")
                return self._pass_on(taken, counts)
            with reporting(self.files.report, self._about, self.talk) as told:
                return self._settle_all(taken, counts, evidence, told)

    @property
    def _about(self) -> About:
        return About(
            command="recover", base_url=self.settings.base_url, source=self.source, out=self.out
        )

    def _pass_on(self, taken: Snapshot, counts: Counter[str]) -> int:
        """Write the rows as they are: whoever reads the output need not know that it was easy."""
        with (
            reporting(self.files.report, self._about, self.talk) as told,
            out_file(
                self.out, self.files.stdio, existing=Existing.REFUSED, warn=self.talk.warn
            ) as out,
        ):
            told.tally.counts = Counter(counts)
            header = [*dict.fromkeys([*taken.header, STATUS_FROM])]
            out.write_all(header, lambda: (copied(row, taken) for row in taken.rows()))
        told.tally.is_astray = out.is_astray
        return told.tally.exit_code

    def _settle_all(
        self, taken: Snapshot, counts: Counter[str], evidence: "Evidence", told: Reporting
    ) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        results = Results(layout=evidence.layout, told=told)
        results.tally.counts = Counter(counts)
        with (
            out_file(
                self.out, self.files.stdio, existing=Existing.REFUSED, warn=self.talk.warn
            ) as out,
            Stop(self.talk) as stop,
        ):
            started = time.monotonic()
            settled = asyncio.run(self._recover(evidence, credentials, stop, told))
            results.tally.seconds = time.monotonic() - started
            if settled is None:
                told.report = None
                self.talk.refuse("stopped before anything was settled; nothing was written")
                if self.source != STDIO:
                    self.talk.tell("next", f"settle it by\n  {self.line}", command=self.line)
                return UNSETTLED
            not_done = 0
            for position, outcome in settled.items():
                if str(evidence.found[position].status) == _UNKNOWN:
                    results.tally.counts[_UNKNOWN] -= 1
                    results.keep(outcome, position)
                    not_done += str(outcome.status) == _NOT_SENT
            results.write_over(out, taken)
        results.tally.is_astray = out.is_astray
        results.tally.report(self.talk, "recover")
        if not_done:
            self._say_what_is_left(not_done, evidence.layout, out.place, told)
        if copies := results.tally.counts[_NOT_SENT] - not_done:
            text = (
                f"{copies} were not sent before, and are copies here: they are sent from "
                f"{self.source}, if that was not done already"
            )
            self.talk.tell("copies", text, count=copies)
        return results.tally.exit_code

    def _say_what_is_left(self, count: int, layout: Layout, out: "Path", told: Reporting) -> None:
        line = line_from(
            out,
            files=self.files,
            command=layout.operation,
            suffix="rest",
            only=_NOT_SENT,
            again=self.gateway.again,
        )
        what = (
            f"{count} were proved not to be done; send them, from this file alone (to recover "
            f"{self.source} once more would make another file that sends them)"
        )
        advise(self.talk, told, what, line)

    async def _recover(
        self, evidence: Evidence, credentials: "Credentials", stop: Stop, told: Reporting
    ) -> "dict[int, Outcome[Any, Any]] | None":
        unknown = sum(str(one.status) == _UNKNOWN for one in evidence.found.values())
        seconds = self.settings.recovery.settle_seconds
        self.talk.tell(
            "recovering",
            f"looking {unknown:,} unknown orders up; an absence counts only {seconds:g} s after "
            "their requests ended, so this may take as long",
            unknown=unknown,
        )
        # A recovery that resends would move money: that is for the command itself.
        recovery = attrs.evolve(self.settings.recovery, resend_absent=False)
        settings = attrs.evolve(self.settings, recovery=recovery)
        async with make_client(settings, credentials, told.telemetry) as gateway:
            with stop.cancelling(), contextlib.suppress(asyncio.CancelledError):
                result = await gateway.recover(evidence.found.values())
                return dict(zip(evidence.found, result, strict=True))
        return None


def recover(  # one keyword an option
    outcomes: Source,
    /,
    *,
    out: Out,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
    line: Line,
) -> int:
    """Settle what is unknown in an outcome file, from the gateway's own records.

    Nothing is sent again. Refunds are settled by the references that were recorded before they
    were sent, or by their markers; captures and cancels by what [dialect] payment_states says.

    Args:
        outcomes: The file that capture, cancel or refund wrote; - for standard input.
        out: The file for the same rows, with what is known of them now; - for standard output. It
            must not exist yet.
    """
    who = gateway or GatewayOptions()
    talk = who.talk()

    def work() -> int:
        return _Run(
            source=outcomes,
            out=out,
            talk=talk,
            settings=who.settings(os.environ),
            files=files or FileOptions(),
            gateway=who,
            line=line,
        ).run()

    return guarded(talk, work)
