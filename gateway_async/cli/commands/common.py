"""What commands on files have in common: refusals, confirmation, and the result file."""

import shlex
import time
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.problems import TableError
from gateway_async.cli.orders import IN_JOB
from gateway_async.cli.outcomes import as_objects, cells_without_outcome, outcome_cells
from gateway_async.cli.reports import Reporting
from gateway_async.cli.runs import Tally, drive, note_totals
from gateway_async.cli.shows import gauged
from gateway_async.errors import GatewayError
from gateway_async.models.orders import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gateway_async.batching.results import Outcome
    from gateway_async.cli.files.outfile import OutFile
    from gateway_async.cli.inputs import InputFile, Totals
    from gateway_async.cli.layouts import Layout
    from gateway_async.cli.options import GatewayOptions, JournalOptions
    from gateway_async.cli.runs import Streamed
    from gateway_async.cli.stopping import Stop
    from gateway_async.cli.talk import Talk

DONE, NOT_ALL_DONE, USAGE, UNSETTLED = 0, 1, 2, 3
"""The exit codes: all succeeded; some declined or absent; nothing was sent; some unknown."""

_YES = frozenset({"y", "yes"})
_NOT_KNOWN = "the run ended before the outcome was known"
_NEVER_TAKEN = "nothing was sent: the run ended before"


class RefusedError(Exception):
    """Nothing is sent, for a reason that is no error of the program's or the gateway's."""


def guarded(talk: "Talk", work: "Callable[[], int]") -> int:
    """Do the work of a command; where it cannot be begun, say why.

    Returns:
        The exit code.
    """
    try:
        with talk.passing_on_logs():
            return work()
    except (TableError, GatewayError, RefusedError) as error:
        talk.refuse(str(error))
    except KeyboardInterrupt:
        talk.refuse("stopped")
        return UNSETTLED
    except OSError as error:  # such as a disk that is full, or `| head`
        talk.refuse(f"it ended early: {error}")
        return UNSETTLED
    return USAGE


def see_through(run: "Callable[[], None]", results: "Results", write: "Callable[[], None]") -> None:
    """Run to the end; whatever ends it, write what is known: it may be the only record.

    Raises:
        GatewayError: If it could not begin.
    """
    try:
        run()
    except GatewayError as error:
        if not results.tally.has_begun:
            raise
        results.tally.failure = error
    finally:
        if results.tally.has_begun:
            write()


def confirm(talk: "Talk", what: str, *, yes: bool) -> None:
    """Ask whether money may be sent.

    Args:
        talk: Where to ask.
        what: What would be done, with its totals.
        yes: Whether that was answered by an option.

    Raises:
        RefusedError: If the answer is no, or nobody is there to ask.
    """
    if yes:
        return
    if not talk.can_ask:
        raise RefusedError(
            f"{what}: nobody is there to confirm it; nothing was sent. Give --yes to go on without "
            "being asked"
        )
    try:
        question = f"{what}. Go on? [y/N] "
        talk.console.print(question, markup=False, highlight=False, end="", soft_wrap=True)
        answer = input()
    except EOFError:
        answer = ""
    except KeyboardInterrupt:
        raise RefusedError("stopped before anything was sent") from None
    if answer.strip().lower() not in _YES:
        raise RefusedError("nothing was sent")


def on_job(words: "Iterable[str]", journal: "JournalOptions", gateway: "GatewayOptions") -> str:
    """Write a command on a job, with the options that name this journal and this gateway."""
    return shlex.join(["gateway-async", "jobs", *words, *journal.again, *gateway.again])


def advise(talk: "Talk", told: Reporting, what: str, line: str) -> None:
    """Give the command to give next, to people and to the report."""
    talk.tell("next", f"{what}:\n  {line}", command=line)
    told.next_lines.append(line)


def advise_on_job(talk: "Talk", told: Reporting, *, resume: str, show: str) -> None:
    """Say what to do about orders of a job that are unknown, or were not sent.

    Args:
        talk: Where to say it.
        told: What became of them, and the report.
        resume: The command that goes on.
        show: The command that lists what waits for a decision.
    """
    tally = told.tally
    held, unknown = tally.held, tally.counts["unknown"]
    left = tally.counts["not_sent"] - held
    if unknown or left > 0 or tally.failure is not None:
        advise(talk, told, f"{unknown} unknown and {left} not sent; go on with", resume)
    if held:
        what = (
            f"{held} are held: they wait for your decision (`jobs resolve`); those that were "
            "proved not to be done also go out by this command with `resend_absent = true` under "
            "[recovery]"
        )
        talk.tell("held", what, count=held)
    if unknown or held:
        advise(talk, told, "what waits for a decision is listed by", show)


def wording(layout: "Layout", totals: "Totals", base_url: str, unread: str = "") -> str:
    """Say what a command would do, and which columns of its file it does not read."""
    beside = f" (columns that are not sent: {unread})" if unread else ""
    return f"{layout.operation} {totals} at {base_url}{beside}"


@attrs.define(kw_only=True)
class Results:
    """What became of each row of a file, some hundred bytes a row.

    Attributes:
        layout: The columns.
        told: What is told to the report.
        rest: What rows ended as that no outcome came for, and why.
        job: The name of the job that has the orders, if one has.
    """

    layout: "Layout"
    told: Reporting = attrs.field(factory=Reporting)
    rest: tuple[OutcomeStatus, str] = (OutcomeStatus.UNKNOWN, _NOT_KNOWN)
    job: str | None = None
    _kept: dict[int, str] = attrs.field(factory=dict, repr=False)

    @property
    def tally(self) -> Tally:
        """What it adds up to."""
        return self.told.tally

    def keep(self, outcome: "Outcome[Any, Any]", position: int | None = None) -> None:
        """Keep one outcome, by its position in the file if that is not its index."""
        where = outcome.index if position is None else position
        cells = orjson.dumps(outcome_cells(outcome, self.layout))
        self._kept[where] = cells.decode()  # the bytes of orjson take 4 KB, however few they are
        self.count(outcome, where)

    def lacks(self, orders: int) -> bool:
        """Say whether there are rows that no outcome came for."""
        return len(self._kept) < orders

    def keep_new(self, outcome: "Outcome[Any, Any]") -> None:
        """Keep one outcome, if none came for its row."""
        if outcome.index not in self._kept:
            self.keep(outcome)

    def count(self, outcome: "Outcome[Any, Any]", position: int | None = None) -> None:
        """Count one outcome, and tell the report."""
        self.tally.see(outcome)
        if self.told.report is not None:
            self.told.report.see(outcome, position)

    def write(self, out: "OutFile", file: "InputFile") -> None:
        """Write every row with its result beside it, in the order of the input."""
        if lost := file.totals.orders - len(self._kept):
            self.tally.counts[str(self.rest[0])] += lost
            if self.told.report is not None:
                self.told.report.miss(lost, *self.rest)
        columns = self.layout.result_columns
        passed = file.passed_through({*self.layout.written, IN_JOB})
        has_objects = out.format is Format.JSONL
        owner = {} if self.job is None else {IN_JOB: self.job}
        without = cells_without_outcome(self.layout, *self.rest)

        def rows() -> "Iterator[Mapping[str, Any]]":
            for index, row in enumerate(file.rows()):
                if self.told.report is not None:
                    self.told.report.locate(index, row.line)
                cells = self._kept.get(index)
                found = without if cells is None else orjson.loads(cells)
                given = {name: row.cells[name] for name in passed if name in row.cells}
                results = dict(zip(columns, found, strict=True))
                yield {**given, **(as_objects(results) if has_objects else results), **owner}

        heads = dict.fromkeys(name.partition(".")[0] for name in columns)
        out.write_all([*passed, *(heads if has_objects else columns), *owner], rows)


async def collect(
    streamed: "Streamed",
    *,
    talk: "Talk",
    stop: "Stop",
    results: Results,
    total: int | None,
) -> None:
    """Drive a batch to its end: the one place where each outcome passes, as it is finished.

    A row that it has no outcome for was never taken from the file.
    """
    started = time.monotonic()
    with gauged(talk, results.layout.operation, total) as gauge:

        def see(outcome: "Outcome[Any, Any]") -> None:
            results.keep(outcome)
            gauge.advance(str(outcome.status))

        results.tally.failure = await drive(streamed, see, stop=stop, tick=gauge.tick)
    results.rest = OutcomeStatus.NOT_SENT, _NEVER_TAKEN
    note_totals(results.tally, streamed.result, started)
