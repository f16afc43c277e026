"""What commands on a job have in common: its name, how far it has come, and its orders as rows."""

import asyncio
import hashlib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import attrs
import orjson

from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import open_journal
from gateway_async.cli.orders import IN_JOB
from gateway_async.cli.outcomes import outcome_cells
from gateway_async.cli.payout_rows import PAYOUT
from gateway_async.errors import JobNotFoundError
from gateway_async.journal import JobState
from gateway_async.journal.location import locate
from gateway_async.models.values import SensitiveText

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from gateway_async.cli.settings import Settings
    from gateway_async.journal import JobStatus, Journal
    from gateway_async.journal.rows import Row

_PAGE = 1000
_DIGITS = 16
"""Of the digest of a file's orders in the name of its job."""
_LONGEST_PART = 80
_MOST_TIMES = 100
"""So often the same orders are made again at most."""

State = Literal["new", "intent", "succeeded", "declined", "unknown", "held"]


@attrs.frozen(kw_only=True)
class KnownJob:
    """A job as a command finds it.

    Attributes:
        name: Its name.
        place: Its journal: the path of the file, or the database.
        status: How far it has come; None where it is new.
        before: How far the jobs of the same orders have come that it is made again after.
    """

    name: str
    place: str
    status: "JobStatus | None" = None
    before: "tuple[JobStatus, ...]" = ()

    @property
    def is_new(self) -> bool:
        """Whether none of its orders can have been sent."""
        return self.status is None

    @property
    def is_done(self) -> bool:
        """Whether each of its orders succeeded or was declined: nothing is left to do."""
        if self.status is None:
            return False
        counts = self.status.counts
        return counts[JobState.SUCCEEDED] + counts[JobState.DECLINED] == self.status.total

    @property
    def asked(self) -> str:
        """What it is called where a person is asked whether to go on."""
        if not self.before:
            return self.told
        before = "; ".join(f"{_named(one)} has {_so_far(one)}" for one in self.before)
        return f"AGAIN, as {self.told} ({before})"

    @property
    def told(self) -> str:
        """How far it has come, in words."""
        if self.status is None:
            return f"new job {self.name} in {self.place}"
        kind = "is done" if self.is_done else "goes on"
        return f"{_named(self.status)} in {self.place} {kind}: {_so_far(self.status)}"


def _named(status: "JobStatus") -> str:
    return f"job {status.name} of {status.created_at:%Y-%m-%d %H:%M}"


def _so_far(status: "JobStatus") -> str:
    return ", ".join(f"{count:,} {state}" for state, count in status.counts.items() if count)


def name_of_orders(operation: str, settings: "Settings", orders: "Iterable[Any]") -> str:
    """Return the name of the job that some orders are, made of the orders and of who sends them.

    How the file was written, and in what order its columns stand, makes no difference.

    Raises:
        ConfigurationError: If the gateway's address is wrong.
    """
    host = urlsplit(settings.base_url).netloc
    who = settings.who
    digest = hashlib.sha256()
    for part in (operation, host, who["merchant_id"], who["account_id"]):
        digest.update(orjson.dumps(part))
    for order in orders:
        digest.update(orjson.dumps(_plain(order)))
    parts = (operation, who["merchant_id"][:_LONGEST_PART], host[:_LONGEST_PART])
    return "-".join((*parts, digest.hexdigest()[:_DIGITS]))


def _plain(value: Any) -> Any:  # noqa: ANN401  # an order, or a part of one
    """Return an order as JSON has it, whatever way its values were written."""
    if attrs.has(type(value)) and not isinstance(value, SensitiveText):
        fields = {name: getattr(value, name) for name in attrs.fields_dict(type(value))}
        return {name: _plain(one) for name, one in fields.items() if one is not None}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, SensitiveText):
        return value.reveal()
    return value.isoformat() if isinstance(value, date) else str(value)


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
    found = _statuses(settings, [name], create=create)
    return KnownJob(name=name, place=place_of(settings), status=found[0] if found else None)


def find_job(settings: "Settings", name: str, *, again: bool, create: bool = True) -> KnownJob:
    """Find the last job of some orders: the one that goes on, or is made again once it is done.

    Args:
        settings: Name the journal.
        name: The name of the first of them; the next are `NAME-again-2` and so on.
        again: Whether the orders are to be sent once more.
        create: Whether the journal may be made in a database that is there.

    Raises:
        JournalError: If the journal cannot be read.
    """
    names = (name, *(f"{name}-again-{number}" for number in range(2, _MOST_TIMES + 1)))
    found, place = _statuses(settings, names, create=create), place_of(settings)
    if not found:
        return KnownJob(name=name, place=place)
    if again and found[-1].done:
        return KnownJob(name=names[len(found)], place=place, before=tuple(found))
    return KnownJob(name=found[-1].name, place=place, status=found[-1])


def _statuses(settings: "Settings", names: "Iterable[str]", *, create: bool) -> "list[JobStatus]":
    """Return how far some jobs have come, up to the first that is not there."""
    location = locate(settings.journal)
    if location.is_sqlite and not Path(location.path).exists():
        return []
    return asyncio.run(_statuses_in(open_journal(settings, create=create), names))


async def _statuses_in(journal: "Journal", names: "Iterable[str]") -> "list[JobStatus]":
    found: list[JobStatus] = []
    async with journal:
        for name in names:
            journal.job(name)  # refuses what is no name
            try:
                status = await journal.status(name)
            except JobNotFoundError:
                break
            if not status.imported:  # what a killed import left is as good as new
                break
            found.append(status)
    return found


def place_of(settings: "Settings") -> str:
    """Return what people know the journal by: the path of its file, or the database.

    Raises:
        ConfigurationError: If the settings name none that can be.
    """
    location = locate(settings.journal)
    return str(Path(location.path).absolute()) if location.is_sqlite else location.shown


def job_facts(status: "JobStatus") -> dict[str, Any]:
    """Return what is said of a job, as JSON has it."""
    return {
        "job": status.name,
        "operation": status.operation,
        "merchant_id": status.merchant_id,
        "account_id": status.account_id,
        "created_at": status.created_at.isoformat(),
        "orders": status.total,
        "states": {str(state): count for state, count in status.counts.items() if count},
        "is_running": status.is_running,
    }


def layout_of(status: "JobStatus") -> Layout:
    """Return the columns of the orders of a job."""
    return PAYOUT if status.operation == PAYOUT.operation else LAYOUTS[status.operation]


def naming_columns(layout: Layout) -> tuple[str, ...]:
    """Return the columns by which people know an order."""
    return layout.identity if layout is PAYOUT else ("transaction_id", "order_no")


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
