"""Jobs of a journal: which one a file of orders is, how far it has come, and its orders as rows."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import attrs
import orjson

from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import open_journal
from gateway_async.errors import JobNotFoundError
from gateway_async.journal import JobState
from gateway_async.journal.location import locate
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import PAYOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable

    from gateway_async.cli.settings import Settings
    from gateway_async.journal import JobStatus, Journal
    from gateway_async.journal.rows import Row

_PAGE = 1000
_DIGITS = 16
"""Of the digest of a file's orders in the name of its job."""
_LONGEST_PART = 80
_PORTS = {"https": 443, "http": 80}
_MADE_NAME = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}(-again-[0-9]+)?\Z")
"""How a name ends that was made of a file's orders; any other was given by a person."""
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
        return self.status is not None and _is_done(self.status)

    @property
    def asked(self) -> str:
        """Its description where a person is asked whether to go on."""
        if not self.before:
            return self.described
        before = "; ".join(f"{_named(one)} has {so_far(one)}" for one in self.before)
        return f"AGAIN, as {self.described} ({before})"

    @property
    def described(self) -> str:
        """How far it has come, in words."""
        if self.status is None:
            return f"new job {self.name} in {self.place}"
        kind = "is done" if self.is_done else "goes on"
        return f"{_named(self.status)} in {self.place} {kind}: {so_far(self.status)}"


def _is_done(status: "JobStatus") -> bool:
    done = status.counts[JobState.SUCCEEDED] + status.counts[JobState.DECLINED]
    return done == status.total


def _named(status: "JobStatus") -> str:
    return f"job {status.name} of {status.created_at:%Y-%m-%d %H:%M}"


def so_far(status: "JobStatus") -> str:
    """Return how many orders are in each state, in words."""
    return ", ".join(f"{count:,} {state}" for state, count in status.counts.items() if count)


def name_of_orders(operation: str, settings: "Settings", orders: str) -> str:
    """Return the name of the job of a file: made of its orders, and of who sends them where.

    Args:
        operation: What is done with them.
        settings: Name the gateway and the merchant.
        orders: The digest of the orders; how the file is written makes no difference to it.

    Raises:
        ConfigurationError: If the gateway's address is wrong.
    """
    host, path, who = *_place_of_gateway(settings.base_url), settings.who
    parts = (operation, host + path, who["merchant_id"], who["account_id"], orders)
    digest = hashlib.sha256(orjson.dumps(parts)).hexdigest()[:_DIGITS]
    return "-".join((operation, who["merchant_id"][:_LONGEST_PART], host[:_LONGEST_PART], digest))


def _place_of_gateway(url: str) -> tuple[str, str]:
    """Return the host with its port, and the path, of a URL, however they are written."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return host + port, parts.path.rstrip("/")


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
    if again and _is_done(found[-1]):
        after = f"{name}-again-{len(found) + 1}"
        return KnownJob(name=after, place=place, before=tuple(found))
    return KnownJob(name=found[-1].name, place=place, status=found[-1])


def jobs_with_payouts(
    settings: "Settings", name: str, request_ids: "Collection[str]"
) -> "list[tuple[JobStatus, str]]":
    """Return the other jobs of a journal with payouts of these, each with the first of them.

    One that the gateway declined does not count: it was not paid, and never will be. Nor does a job
    of another merchant, or one whose name was made for another gateway, such as a sandbox.
    """
    found: list[tuple[JobStatus, str]] = []
    who, (host, _) = settings.who, _place_of_gateway(settings.base_url)
    wanted = {one.lower() for one in request_ids}
    made = f"{PAYOUT.name}-{who['merchant_id'][:_LONGEST_PART]}-"
    ours = f"{made}{host[:_LONGEST_PART]}-"

    async def read() -> None:
        async with open_journal(settings, create=False) as journal:
            for status in await journal.jobs():
                is_made = status.name.startswith(made) and _MADE_NAME.search(status.name)
                is_other = is_made and not status.name.startswith(ours)
                whose = (status.merchant_id, status.account_id)
                if (
                    is_other
                    or status.name == name
                    or status.operation != PAYOUT.name
                    or whose != (who["merchant_id"], who["account_id"])
                ):
                    continue
                async for row in rows_of(journal, status.name):
                    is_open = row.status is not OutcomeStatus.DECLINED
                    if is_open and row.order.request_id.lower() in wanted:
                        found.append((status, row.order.request_id))
                        break

    if _is_there(settings):
        asyncio.run(read())
    return found


def _is_there(settings: "Settings") -> bool:
    """Return whether there can be a journal; that of a server is asked."""
    location = locate(settings.journal)
    return not location.is_sqlite or Path(location.path).exists()


def _statuses(settings: "Settings", names: "Iterable[str]", *, create: bool) -> "list[JobStatus]":
    """Return how far some jobs have come, up to the first that is not there."""
    found: list[JobStatus] = []

    async def read() -> None:
        async with open_journal(settings, create=create) as journal:
            for name in names:
                journal.job(name)  # refuses what is no name
                try:
                    status = await journal.status(name)
                except JobNotFoundError:
                    return
                if not status.imported:  # what a killed import left is as good as new
                    return
                found.append(status)

    if _is_there(settings):
        asyncio.run(read())
    return found


def place_of(settings: "Settings") -> str:
    """Return what people know the journal by: the path of its file, or the database.

    Raises:
        ConfigurationError: If the settings name none that can be.
    """
    location = locate(settings.journal)
    return str(Path(location.path).absolute()) if location.is_sqlite else location.shown


def job_facts(status: "JobStatus") -> dict[str, Any]:
    """Return what is known of a job, as JSON has it."""
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
    return LAYOUTS[status.operation]


async def rows_of(journal: "Journal", name: str) -> "AsyncIterator[Row]":
    """Read the orders of a job, in the order of the input."""
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        for row in rows:
            yield row
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)
