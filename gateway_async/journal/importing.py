"""How the orders of a job come into the journal.

Law: a job has all of its orders or is not imported. What an import left that was killed, or came to
a wrong order, is dropped, in pieces; an imported job is never written to again, and only compared
with.
"""

import contextlib
import hashlib
import uuid
from array import array
from typing import TYPE_CHECKING, Any

import attrs
import sqlalchemy as sa

from gateway_async.errors import InvalidOrderError, JobConflictError, JournalError
from gateway_async.journal import cutting, slices
from gateway_async.journal.codec import OrderCodec, lookup_key, pack_keys, storable
from gateway_async.journal.leases import IMPORT_SLICE, LeaseKey, release_of, renew, take
from gateway_async.journal.reading import read_fields
from gateway_async.journal.schema import (
    BLOCK,
    JOBS,
    ORDERS,
    SCHEMA,
    STATES,
    VERSION,
    DatabaseNow,
)
from gateway_async.journal.states import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.journal.writer import Transaction, Writer

    Subject = tuple[str, str, str]

_PIECE = 20 * BLOCK
_DROPPED_AT_ONCE = 5000
_CUT_AT_ONCE = 10_000
_SUBJECT = ("operation", "merchant_id", "account_id")

_FIND = sa.select(JOBS).where(JOBS.c.name == sa.bindparam("the_name"))
_MAKE = JOBS.insert().values(
    name=sa.bindparam("the_name"), created_at=DatabaseNow(), imported=False, total=0
)
_RAISE_VERSION = SCHEMA.update().where(SCHEMA.c.version < VERSION).values(version=VERSION)
"""From the first job on that an earlier release could not read, it does not open the journal."""
_AIM = (
    JOBS.update()
    .where(JOBS.c.id == sa.bindparam("the_job"), JOBS.c.imported.is_(False))
    .values(
        slice_size=sa.bindparam("the_size"),
        **{name: sa.bindparam(f"the_{name}") for name in _SUBJECT},
    )
)
_LOCK = sa.select(JOBS.c.id).where(JOBS.c.id == sa.bindparam("the_job")).with_for_update()
_FINISH = (
    JOBS.update()
    .where(JOBS.c.id == sa.bindparam("the_job"), JOBS.c.imported.is_(False))
    .values(imported=True, total=sa.bindparam("the_total"), digest=sa.bindparam("the_digest"))
)
_KEEP = ORDERS.insert().values(
    job_id=sa.bindparam("the_job"),
    first=sa.bindparam("at"),
    lookup_keys=sa.bindparam("the_keys"),
    bodies=sa.bindparam("the_bodies"),
)
_KEEP_STATES = STATES.insert().values(
    job_id=sa.bindparam("the_job"),
    first=sa.bindparam("the_first"),
    last=sa.bindparam("the_last"),
    slice=sa.bindparam("the_slice"),
    state=str(JobState.NEW),
)
_LAST = sa.select(sa.func.max(ORDERS.c.first)).where(ORDERS.c.job_id == sa.bindparam("the_job"))
_DROP = tuple(
    table.delete().where(
        table.c.job_id == sa.bindparam("the_job"),
        table.c.first.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
    )
    for table in (STATES, ORDERS)
)


@attrs.frozen(kw_only=True)
class Submission:
    """One call of `Job.submit`.

    Attributes:
        writer: Where operations run.
        name: The name of the job.
        subject: Operation, merchant and account.
        seconds: How long a lease runs.
        codec: How its orders are kept.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
        owner: Who submits, for others to read.
    """

    writer: "Writer"
    name: str
    subject: "Subject"
    seconds: float
    codec: OrderCodec
    slice_size: int
    owner: str = attrs.field(factory=lambda: f"import {uuid.uuid4()}")

    @property
    def what(self) -> str:
        """What cannot be done, for an error."""
        return f"cannot submit job {self.name!r}"

    async def carry_out(self, pages: "AsyncIterator[Sequence[Any]]") -> int:
        """Import the orders, or find that they are the ones it has; return how many they are.

        Raises:
            InvalidOrderError: For an order of another operation.
            JobConflictError: If the job has other orders, or is for something else.
            JobBusyError: If another is submitting it.
            LeaseLostError: If another began to submit it meanwhile.
        """
        try:
            begun = await self.writer.run(self.what, _begin, self)
            if isinstance(begun, LeaseKey):
                await self._drop(begun)
                return await self._import_or_drop(begun, pages)
        except BaseException:
            # Also where a cancellation left it open whether the lease was taken.
            self.writer.post(self.what, _let_go, self)
            raise
        return await self._compare(begun, pages)

    async def _compare(self, job: "sa.Row[Any]", pages: "AsyncIterator[Sequence[Any]]") -> int:
        digest, given = hashlib.sha256(), 0
        kept = await self.writer.run(self.what, read_fields, job.id)
        names = self.codec.names if kept is None else kept
        async for page in pages:
            for start in range(0, len(page), BLOCK):
                _add(digest, self.codec.canonical(page[start : start + BLOCK], names))
            given += len(page)
            if given > job.total:
                raise self._conflict(f"it has {job.total} orders, and more were given")
        if given != job.total:
            raise self._conflict(f"it has {job.total} orders, and {given} were given")
        if digest.hexdigest() != job.digest:
            raise self._conflict(f"its {job.total} orders, or their sequence, are not those given")
        return given

    async def _drop(self, key: LeaseKey) -> None:
        """Drop what an import left that did not come to its end."""
        last = await self.writer.run(self.what, _last, key)
        for first in range(0, last + 1, _DROPPED_AT_ONCE):
            await self.writer.run(self.what, _drop, key, first, self.seconds)

    async def _import_or_drop(self, key: LeaseKey, pages: "AsyncIterator[Sequence[Any]]") -> int:
        try:
            return await self._import(key, pages)
        except InvalidOrderError:
            with contextlib.suppress(JournalError):  # else the next import drops it
                await self._drop(key)
            raise

    async def _import(self, key: LeaseKey, pages: "AsyncIterator[Sequence[Any]]") -> int:
        digest, total, seen = hashlib.sha256(), 0, array("I")
        async for piece in _pieces(pages):
            rows = []
            for start in range(0, len(piece), BLOCK):
                orders = piece[start : start + BLOCK]
                kept, canonical = self.codec.encode_block(orders)
                _add(digest, canonical)
                keys = [lookup_key(one.transaction_id) for one in orders]
                seen.extend(keys if self.slice_size else ())
                rows.append(
                    {
                        "the_job": key.job_id,
                        "at": total + start,
                        "the_keys": pack_keys(keys),
                        "the_bodies": kept.decode(),
                    }
                )
            span = range(total, total + len(piece))
            await self.writer.run(self.what, _keep, self, key, rows, span)
            total += len(piece)
        if self.slice_size:
            await self._cut(key, cutting.share_out(seen, self.slice_size))
        await self.writer.run(self.what, _finish, key, total, digest.hexdigest())
        return total

    async def _cut(self, key: LeaseKey, numbers: "Sequence[int]") -> None:
        """Keep which order is in which slice, and that all of them are new."""
        for start in range(0, len(numbers), _CUT_AT_ONCE):
            span = range(start, min(start + _CUT_AT_ONCE, len(numbers)))
            stretches = list(cutting.runs(numbers, span, self.codec.limit))
            await self.writer.run(self.what, _keep_states, key, stretches, self.seconds)

    def _conflict(self, difference: str) -> JobConflictError:
        return JobConflictError(
            f"job {self.name!r} exists already: {difference}; nothing was changed. `resume` "
            "continues it; give another name to other orders only, since those of that job would "
            "be sent again under another name",
            job=self.name,
        )

    def check_subject(self, job: "sa.Row[Any]") -> None:
        """Compare what an imported job is for.

        Raises:
            JobConflictError: If that is something else.
        """
        for name, given in zip(_SUBJECT, self.subject, strict=True):
            known = getattr(job, name)
            if known != storable(given):
                raise self._conflict(f"its {name} is {known!r}, not {given!r}")
        if bool(job.slice_size) != bool(self.slice_size):
            kind = "was cut into slices" if job.slice_size else "is in one piece"
            raise self._conflict(f"it {kind}, and is run as such only")


async def _pieces(pages: "AsyncIterator[Sequence[Any]]") -> "AsyncIterator[Sequence[Any]]":
    """Yield orders as they are kept at once: all pieces but the last are of the same size."""
    piece: list[Any] = []
    async for page in pages:
        start = 0
        while start < len(page):
            taken = page[start : start + _PIECE - len(piece)]
            piece += taken
            start += len(taken)
            if len(piece) == _PIECE:
                yield piece
                piece = []
    if piece:
        yield piece


def _add(digest: "hashlib._Hash", block: bytes) -> None:
    """Go on with orders of a block, wherever blocks begin and end."""
    digest.update(block[1:-1])
    digest.update(b",")


def _begin(inside: "Transaction", submission: Submission) -> "LeaseKey | sa.Row[Any]":
    """Take the import lease of a job that is not imported; return the job if it is."""
    named = {"the_name": submission.name}
    job = inside.execute(_FIND.with_for_update(), named).one_or_none() or _make(inside, named)
    if job.imported:
        submission.check_subject(job)
        return job
    inside.execute(_RAISE_VERSION)
    key = LeaseKey(submission.name, job.id, IMPORT_SLICE)
    key = take(inside, key, submission.owner, submission.seconds)
    subject = zip(_SUBJECT, submission.subject, strict=True)
    inside.execute(
        _AIM,
        {
            "the_job": job.id,
            "the_size": submission.slice_size,
            **{f"the_{name}": storable(text) for name, text in subject},
        },
    )
    return key


def _make(inside: "Transaction", named: "dict[str, str]") -> "sa.Row[Any]":
    """Make a job, unless another process does so at this very moment."""
    try:
        with inside.connection.begin_nested():
            inside.execute(_MAKE, named)
    except sa.exc.IntegrityError:
        pass
    return inside.execute(_FIND.with_for_update(), named).one()


def _let_go(inside: "Transaction", submission: Submission) -> None:
    """End the import lease, if it is this submission's."""
    job = inside.execute(_FIND, {"the_name": submission.name}).one_or_none()
    if job is not None:
        release_of(inside, job.id, IMPORT_SLICE, submission.owner)


def _last(inside: "Transaction", key: LeaseKey) -> int:
    last = inside.execute(_LAST, {"the_job": key.job_id}).scalar()
    return -1 if last is None else last


def _drop(inside: "Transaction", key: LeaseKey, first: int, seconds: float) -> None:
    renew(inside, key, seconds)
    edges = {"the_first": first, "the_last": first + _DROPPED_AT_ONCE - 1}
    for statement in _DROP:
        inside.execute(statement, {"the_job": key.job_id, **edges})


def _keep(
    inside: "Transaction",
    submission: Submission,
    key: LeaseKey,
    rows: "list[dict[str, Any]]",
    span: range,
) -> None:
    renew(inside, key, submission.seconds)
    inside.execute(_KEEP, rows)
    if not submission.slice_size:  # else it is found out in the end which slice they are in
        size = submission.codec.limit
        chunks = [span[start : start + size] for start in range(0, len(span), size)]
        stretches = [(each[0], each[-1], 0) for each in chunks]
        _keep_states(inside, key, stretches, submission.seconds)


def _keep_states(
    inside: "Transaction",
    key: LeaseKey,
    stretches: "Sequence[tuple[int, int, int]]",
    seconds: float,
) -> None:
    """Keep that orders are new: first position, last position and slice of each stretch."""
    renew(inside, key, seconds)
    inside.execute(
        _KEEP_STATES,
        [
            {"the_job": key.job_id, "the_first": first, "the_last": last, "the_slice": number}
            for first, last, number in stretches
        ],
    )


def _finish(inside: "Transaction", key: LeaseKey, total: int, digest: str) -> None:
    inside.execute(_LOCK, {"the_job": key.job_id})  # before the lease, as whoever takes one does
    renew(inside, key, 0.0)
    slices.list_slices(inside, key.job_id)
    inside.execute(_FINISH, {"the_job": key.job_id, "the_total": total, "the_digest": digest})
