"""What commands on a job have in common: how far it has come, and its orders as rows."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import open_journal
from gateway_async.cli.orders import IN_JOB
from gateway_async.cli.outcomes import outcome_cells
from gateway_async.errors import JobNotFoundError
from gateway_async.journal import Job, JobState
from gateway_async.journal.location import locate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from gateway_async.cli.inputs import InputFile
    from gateway_async.cli.settings.settings import Settings
    from gateway_async.journal import JobStatus, Journal
    from gateway_async.journal.rows import Row

_PAGE = 1000

State = Literal["new", "intent", "succeeded", "declined", "unknown", "held"]


@attrs.frozen(kw_only=True)
class KnownJob:
    """A job as a command finds it.

    Attributes:
        name: Its name.
        place: Its journal: the path of the file, or the database.
        status: How far it has come; None where it is new.
    """

    name: str
    place: str
    status: "JobStatus | None"

    @property
    def is_new(self) -> bool:
        """Whether none of its orders can have been sent."""
        return self.status is None

    @property
    def asked(self) -> str:
        """What it is called where somebody is asked whether to go on."""
        kind = "new job" if self.is_new else "job"
        return f"{kind} {self.name} in {self.place}{self._so_far(', ')}"

    @property
    def told(self) -> str:
        """What is said before anything of it is sent."""
        kind = "new job" if self.is_new else "going on with job"
        return f"{kind} {self.name} in {self.place}{self._so_far(': ')}"

    def _so_far(self, before: str) -> str:
        if self.status is None:
            return ""
        done = sum(self.status.counts[state] for state in (JobState.SUCCEEDED, JobState.DECLINED))
        return f"{before}{done:,} of {self.status.total:,} done"


def look_at(settings: "Settings", name: str, *, create: bool = True) -> KnownJob:
    """Find out how far a job has come; no file is made where there is none.

    Args:
        settings: Name the journal.
        name: The name of the job.
        create: Whether the journal may be made in a database that is there.

    Raises:
        ConfigurationError: If it has no name, or the settings name no journal.
        JournalError: If the journal cannot be read.
    """
    journal = open_journal(settings, create=create)
    journal.job(name)  # refuses what is no name
    location = locate(settings.journal)
    is_there = not location.is_sqlite or Path(location.path).exists()
    status = asyncio.run(_status(journal, name)) if is_there else None
    return KnownJob(name=name, place=place_of(settings), status=status)


def why_not_gone_on_with(
    settings: "Settings", job: KnownJob, operation: str, file: "InputFile"
) -> str | None:
    """Say why the orders of a file are not sent under the name of a job; nothing is changed.

    Raises:
        JournalError: If the journal cannot be read.
    """
    status = job.status
    if status is None or not status.imported:  # what a killed import left is no conflict
        return None
    if status.is_cut:
        return "was cut into slices, which workers run"
    for name, given in {"operation": operation, **settings.who}.items():
        if (known := getattr(status, name, given)) != given:
            return f"is there already: its {name} is {known!r}, not {given!r}"
    if status.total == file.totals.orders and not asyncio.run(
        _differs(open_journal(settings, create=False), job.name, file)
    ):
        return None
    return f"has other orders than {file.snapshot.name}"


async def _differs(journal: "Journal", name: str, file: "InputFile") -> bool:
    given = file.orders()
    async with journal:
        async for row in rows_of(journal, name):
            if row.order != next(given, None):
                return True
    return False


def place_of(settings: "Settings") -> str:
    """Return what people know the journal by: the path of its file, or the database.

    Raises:
        ConfigurationError: If the settings name none that can be.
    """
    location = locate(settings.journal)
    return str(Path(location.path).absolute()) if location.is_sqlite else location.shown


def file_of(settings: "Settings") -> Path | None:
    """Return the file of the journal that the settings name, if it is one.

    Raises:
        ConfigurationError: If it is named wrongly.
    """
    location = None if settings.journal is None else locate(settings.journal)
    return Path(location.path) if location is not None and location.is_sqlite else None


async def _status(journal: "Journal", name: str) -> "JobStatus | None":
    async with journal:
        try:
            status = await journal.status(name)
        except JobNotFoundError:
            return None
    return status if status.imported else None


@attrs.frozen(kw_only=True)
class ToldJob(Job):
    """A job that says when its orders are kept, before anything of it is sent.

    Attributes:
        kept: Called then.
    """

    kept: "Callable[[], None]" = attrs.field(eq=False)

    async def submit(
        self,
        operation: str,
        merchant_id: str,
        account_id: str,
        pages: "AsyncIterator[Sequence[Any]]",
        **sizes: Any,  # noqa: ANN401  # as `Job.submit` takes them
    ) -> int:
        """Keep the orders of the job; see `Job.submit`."""
        count = await super().submit(operation, merchant_id, account_id, pages, **sizes)
        self.kept()
        return count


def layout_of(status: "JobStatus") -> Layout:
    """Return the columns of the orders of a job."""
    return LAYOUTS[status.operation.replace("_", "-")]


async def rows_of(journal: "Journal", name: str) -> "AsyncIterator[Row]":
    """Read the orders of a job, in the order of the input."""
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        for row in rows:
            yield row
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)


def job_columns(layout: Layout) -> list[str]:
    """Return the columns of a file with the orders of a job."""
    return ["index", "state", *layout.columns, *layout.result_columns, IN_JOB]


def job_cells(name: str, row: "Row", layout: Layout) -> dict[str, Any]:
    """Return the cells of an order of a job: itself, and what became of it."""
    outcome = row.outcome()
    results = zip(layout.result_columns, outcome_cells(outcome, layout), strict=True)
    given = {column: getattr(outcome.order, column) for column in layout.columns}
    return {
        "index": row.index,
        "state": str(row.state),
        **given,
        **dict(results),
        IN_JOB: name,
    }
