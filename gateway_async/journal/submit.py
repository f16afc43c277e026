"""How the orders of a job come into the journal, and how they are shared out among slices.

A job has all of its orders or is not imported. What an import left that was killed, or came to a
wrong order, is dropped, in pieces; an imported job is never written to again, and only compared
with.
"""

import contextlib
import uuid
from array import array
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs
import sqlalchemy as sa

from gateway_async.errors import InvalidOrderError, JobConflictError, JournalError
from gateway_async.journal.leases import IMPORT_SLICE, list_slices, release_of, renew, take
from gateway_async.journal.reads import read_blocks
from gateway_async.journal.rows import LeaseKey, OrderCodec, lookup_key, pack_keys, storable
from gateway_async.journal.schema import BLOCK, CHUNKS, EXCEPTIONS, JOBS, ORDERS, DatabaseNow
from gateway_async.journal.states import JobState
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from gateway_async.journal.database import Database, Transaction

_PIECE = 20 * BLOCK
_DROPPED_AT_ONCE = 5000
_CUT_AT_ONCE = 10_000
_LOOKED_AT_ONCE = 200_000
_SUBJECT = ("operation", "merchant_id", "account_id")

_FIND = sa.select(JOBS).where(JOBS.c.name == sa.bindparam("the_name"))
_MAKE = JOBS.insert().values(
    name=sa.bindparam("the_name"), created_at=DatabaseNow(), imported=False, total=0
)
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
    .values(imported=True, total=sa.bindparam("the_total"))
)
_ADD_ORDERS = ORDERS.insert().values(
    job_id=sa.bindparam("the_job"),
    first=sa.bindparam("at"),
    lookup_keys=sa.bindparam("the_keys"),
    bodies=sa.bindparam("the_bodies"),
)
_ADD_CHUNK = CHUNKS.insert().values(
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
        position.between(sa.bindparam("the_first"), sa.bindparam("the_last")),
    )
    for table, position in (
        (CHUNKS, CHUNKS.c.first),
        (EXCEPTIONS, EXCEPTIONS.c.position),
        (ORDERS, ORDERS.c.first),
    )
)


@attrs.frozen(kw_only=True)
class Submission:
    """One call of `Job.submit`.

    Attributes:
        database: Where operations run.
        name: The name of the job.
        subject: Operation, merchant and account.
        seconds: How long a lease runs.
        codec: How its orders are stored.
        chunk_size: How many orders a chunk has.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
        owner: Which process submits, for others to read.
    """

    database: "Database"
    name: str
    subject: tuple[str, str, str]
    seconds: float
    codec: OrderCodec
    chunk_size: int
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
            JobBusyError: If another process is submitting it.
            LeaseLostError: If another process began to submit it meanwhile.
        """
        try:
            begun = await self.database.run(self.what, _begin, self)
            if isinstance(begun, LeaseKey):
                await self._drop(begun)
                return await self._import_or_drop(begun, pages)
        except BaseException:
            # Also where a cancellation left it open whether the lease was taken.
            self.database.post(self.what, _let_go, self)
            raise
        return await self._compare(begun, pages)

    async def _compare(self, job: "sa.Row[Any]", pages: "AsyncIterator[Sequence[Any]]") -> int:
        given = 0
        if job.total:  # also where no order is given: this release may not know what it has
            (block,) = await self.database.run(self.what, read_blocks, job.id, [0])
            self.codec.decode(block, self.name)
        async for piece in _pieces(pages):
            if given + len(piece) > job.total:
                raise self._conflict(f"it has {job.total} orders, and more were given")
            starts = list(range(given, given + len(piece), BLOCK))
            blocks = await self.database.run(self.what, read_blocks, job.id, starts)
            for start, block in zip(starts, blocks, strict=True):
                self._compare_block(start, block, piece[start - given : start - given + BLOCK])
            given += len(piece)
        if given != job.total:
            raise self._conflict(f"it has {job.total} orders, and {given} were given")
        return given

    def _compare_block(self, start: int, block: str, orders: "Sequence[Any]") -> None:
        """Compare orders with a stored block, as text where that is the same."""
        if self.codec.encode(orders) == block:
            return
        stored = self.codec.decode(block, self.name)
        for at, (known, order) in enumerate(zip(stored, orders, strict=False), start):
            if known != order:
                fields = [
                    name
                    for name in self.codec.names
                    if getattr(known, name) != getattr(order, name)
                ]
                raise self._conflict(
                    f"its order {at} is {describe(known)}, and {describe(order)} was given, "
                    f"which differs in {', '.join(fields)}"
                )

    async def _drop(self, key: LeaseKey) -> None:
        """Drop what an import left that did not come to its end."""
        last = await self.database.run(self.what, _last, key)
        for first in range(0, last + 1, _DROPPED_AT_ONCE):
            await self.database.run(self.what, _drop, key, first, self.seconds)

    async def _import_or_drop(self, key: LeaseKey, pages: "AsyncIterator[Sequence[Any]]") -> int:
        try:
            return await self._import(key, pages)
        except InvalidOrderError:
            with contextlib.suppress(JournalError):  # else the next import drops it
                await self._drop(key)
            raise

    async def _import(self, key: LeaseKey, pages: "AsyncIterator[Sequence[Any]]") -> int:
        total, seen = 0, array("I")
        async for piece in _pieces(pages):
            rows = []
            for start in range(0, len(piece), BLOCK):
                orders = piece[start : start + BLOCK]
                bodies = self.codec.encode(orders)
                keys = [lookup_key(self.codec.identity(one)) for one in orders]
                seen.extend(keys if self.slice_size else ())
                rows.append(
                    {
                        "the_job": key.job_id,
                        "at": total + start,
                        "the_keys": pack_keys(keys),
                        "the_bodies": bodies,
                    }
                )
            span = range(total, total + len(piece))
            # In slices, chunks are made in the end: an order may belong to an earlier one.
            chunks = [] if self.slice_size else [(*_ends(c), 0) for c in self._chunks(span)]
            await self.database.run(self.what, _add, key, rows, chunks, self.seconds)
            total += len(piece)
        if self.slice_size:
            await self._cut(key, share_out(seen, self.slice_size))
        await self.database.run(self.what, _finish, key, total)
        return total

    def _chunks(self, span: range) -> "Iterator[range]":
        for start in range(0, len(span), self.chunk_size):
            yield span[start : start + self.chunk_size]

    async def _cut(self, key: LeaseKey, numbers: "Sequence[int]") -> None:
        """Make chunks of orders side by side that share a slice."""
        for start in range(0, len(numbers), _CUT_AT_ONCE):
            span = range(start, min(start + _CUT_AT_ONCE, len(numbers)))
            chunks = [
                (*_ends(chunk), number)
                for number, alike in groupby(span, key=numbers.__getitem__)
                for positions in (list(alike),)
                for chunk in self._chunks(range(positions[0], positions[-1] + 1))
            ]
            await self.database.run(self.what, _add, key, [], chunks, self.seconds)

    def _conflict(self, difference: str) -> JobConflictError:
        return JobConflictError(
            f"job {self.name!r} exists already: {difference}; nothing was changed. `resume` "
            "continues it. Use a new name only for different orders: those of this job would be "
            "sent again under another name",
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
    """Yield orders as they are stored at once: all pieces but the last are of the same size."""
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


def _ends(chunk: range) -> tuple[int, int]:
    return chunk[0], chunk[-1]


# In a transaction


def _begin(transaction: "Transaction", submission: Submission) -> "LeaseKey | sa.Row[Any]":
    """Take the import lease of a job that is not imported; return the job if it is."""
    named = {"the_name": submission.name}
    job = transaction.execute(_FIND.with_for_update(), named).one_or_none()
    job = job or _make(transaction, named)
    if job.imported:
        submission.check_subject(job)
        return job
    key = LeaseKey(submission.name, job.id, IMPORT_SLICE)
    key = take(transaction, key, submission.owner, submission.seconds)
    subject = zip(_SUBJECT, submission.subject, strict=True)
    transaction.execute(
        _AIM,
        {
            "the_job": job.id,
            "the_size": submission.slice_size,
            **{f"the_{name}": storable(text) for name, text in subject},
        },
    )
    return key


def _make(transaction: "Transaction", named: "dict[str, str]") -> "sa.Row[Any]":
    """Make a job, unless another process does so at this very moment."""
    try:
        with transaction.connection.begin_nested():
            transaction.execute(_MAKE, named)
    except sa.exc.IntegrityError:
        pass
    return transaction.execute(_FIND.with_for_update(), named).one()


def _let_go(transaction: "Transaction", submission: Submission) -> None:
    """End the import lease, if it is this submission's."""
    job = transaction.execute(_FIND, {"the_name": submission.name}).one_or_none()
    if job is not None:
        release_of(transaction, job.id, IMPORT_SLICE, submission.owner)


def _last(transaction: "Transaction", key: LeaseKey) -> int:
    last = transaction.execute(_LAST, {"the_job": key.job_id}).scalar()
    return -1 if last is None else last


def _drop(transaction: "Transaction", key: LeaseKey, first: int, seconds: float) -> None:
    renew(transaction, key, seconds)
    edges = {"the_first": first, "the_last": first + _DROPPED_AT_ONCE - 1}
    for statement in _DROP:
        transaction.execute(statement, {"the_job": key.job_id, **edges})


def _add(
    transaction: "Transaction",
    key: LeaseKey,
    rows: "Sequence[dict[str, Any]]",
    chunks: "Sequence[tuple[int, int, int]]",
    seconds: float,
) -> None:
    """Add orders, and chunks that are new: first position, last position and slice of each."""
    renew(transaction, key, seconds)
    if rows:
        transaction.execute(_ADD_ORDERS, rows)
    if chunks:
        transaction.execute(
            _ADD_CHUNK,
            [
                {"the_job": key.job_id, "the_first": first, "the_last": last, "the_slice": number}
                for first, last, number in chunks
            ],
        )


def _finish(transaction: "Transaction", key: LeaseKey, total: int) -> None:
    transaction.execute(_LOCK, {"the_job": key.job_id})  # before the lease, as taking one does
    renew(transaction, key, 0.0)
    list_slices(transaction, key.job_id)
    transaction.execute(_FINISH, {"the_job": key.job_id, "the_total": total})


# Slices: all orders of one transaction are in one, and every order is in one. Some bytes an order
# are enough to find that out, however many there are.


def share_out(keys: "Sequence[int]", size: int) -> "array[int]":
    """Return the slice of each order, from 1: ranges, and behind them those gathered from several.

    Args:
        keys: By position, what stands for the transaction of an order: the same for the same, and
            seldom the same for others, which are then in one slice too.
        size: How many orders a slice has, but for those of one transaction.
    """
    numbers = array("I", (1 + position // size for position in range(len(keys))))
    number, filled = 2 + (len(keys) - 1) // size, 0
    for positions in _apart(keys, size):
        if filled >= size:
            number, filled = number + 1, 0
        for position in positions:
            numbers[position] = number
        filled += len(positions)
    return numbers


def _apart(keys: "Sequence[int]", size: int) -> "Iterator[list[int]]":
    """Yield the positions of each transaction that occurs in several ranges."""
    parts = 1 + len(keys) // _LOOKED_AT_ONCE
    for part in range(parts):
        first_range: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            own = position // size
            if key % parts == part and first_range.setdefault(key, own) != own:
                found[key] = []
        for position, key in enumerate(keys if found else ()):
            if key in found:
                found[key].append(position)
        yield from found.values()
