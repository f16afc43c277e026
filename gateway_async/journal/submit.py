"""How the orders of a job come into the journal, and how they are shared out among slices.

A job has all of its orders or is not imported. What an import left that was killed, or came to a
wrong order, is dropped; an imported job is never written to again, only compared with.
"""

import contextlib
import functools
import struct
from array import array
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import GatewayError, InvalidOrderError, JobConflictError, JournalError
from gateway_async.journal.codec import BLOCK, codec_of, differing_fields, lookup_key
from gateway_async.journal.leases import Lease
from gateway_async.journal.orders import OF_MERCHANT, Orders, find_job
from gateway_async.journal.rows import JobRow, Known
from gateway_async.journal.states import OrderState, Proof
from gateway_async.models.values import describe

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.journal.database import Transaction
    from gateway_async.journal.journal import Job
    from gateway_async.journal.rows import Merchant
    from gateway_async.operations import Operation

_SUBMIT = "submit it"
# The lease of a process that submits a job.
_IMPORT_SLICE = -1
_CHUNKS_AT_ONCE = 200
_POSITION_BITS = 32
_LOCK_OF_PAYOUTS = 0x6761_706B_6579

# The row is locked in any case, and stays as it is where the job is imported.
_MAKE = """
INSERT INTO gateway_jobs (name, operation, merchant_id, account_id, gateway, created_at, imported,
total, slice_size)
VALUES (:name, :operation, :merchant_id, :account_id, :gateway, NOW_SECONDS, FALSE, 0, :slice_size)
ON CONFLICT (name) DO UPDATE SET operation = excluded.operation, merchant_id = excluded.merchant_id,
account_id = excluded.account_id, gateway = excluded.gateway, slice_size = excluded.slice_size
WHERE NOT gateway_jobs.imported"""
_ADD_SLICE = """
INSERT INTO gateway_slices (job_id, slice, first, last, total)
VALUES (:job, :slice, 0, :total - 1, :total) ON CONFLICT (job_id, slice) DO NOTHING"""
_FINISH = "UPDATE gateway_jobs SET imported = TRUE, total = :total WHERE id = :job AND NOT imported"
_ADD_SLICES = """
INSERT INTO gateway_slices (job_id, slice, first, last, total)
SELECT job_id, slice, min(first), max(last), sum(last - first + 1) FROM gateway_chunks
WHERE job_id = :job GROUP BY job_id, slice"""
_ADD_ORDERS = "INSERT INTO gateway_orders VALUES (:job, :first, :keys, :bodies)"
_ADD_CHUNKS = """
INSERT INTO gateway_chunks (job_id, first, last, slice, state)
VALUES (:job, :first, :last, :slice, 'new')"""
_DROP = (
    "DELETE FROM gateway_chunks WHERE job_id = :job",
    "DELETE FROM gateway_orders WHERE job_id = :job",
    "DELETE FROM gateway_payout_keys WHERE job_id = :job",
)
# A payout is a chunk of its own; one that the gateway declined there was not paid.
_PAID_ELSEWHERE = f"""
SELECT mine.position, mine.request_id, j.name, theirs.position, c.state
FROM gateway_payout_keys mine
JOIN gateway_payout_keys theirs ON theirs.request_id = mine.request_id
JOIN gateway_jobs j ON j.id = theirs.job_id
JOIN gateway_chunks c ON c.job_id = theirs.job_id AND c.first = theirs.position
WHERE mine.job_id = :job AND theirs.job_id <> :job AND j.imported AND c.state <> 'declined'
AND {OF_MERCHANT} ORDER BY mine.position"""
_ADD_PAYOUTS = "INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"


@attrs.frozen(kw_only=True)
class Submission:
    """The orders of a job, as they are handed in.

    Attributes:
        job: The job.
        operation: The operation of its orders.
        merchant: Whose clients send them.
        chunk_size: How many orders a chunk has.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
        repeats: Whether payouts may have a `request_id` that another job has.
    """

    job: "Job"
    operation: "Operation"
    merchant: "Merchant"
    chunk_size: int
    slice_size: int
    repeats: bool

    async def carry_out(self, pages: "AsyncIterator[Sequence[Any]]") -> int:
        """Keep the orders, or find that they are the ones it has.

        Args:
            pages: The orders, piece by piece: each a multiple of `BLOCK`, but the last.

        Returns:
            How many they are; all of them are on the disk.

        Raises:
            InvalidOrderError: For an order of another operation.
            JobConflictError: If the job exists, with other orders or for another operation,
                merchant, account or gateway, or was cut and is not to be; or if another job has
                one of its payouts. Nothing was changed.
            JobBusyError: If another process is submitting it.
            LeaseLostError: If submitting took so long that another process began anew.
        """
        name, journal = self.job.name, self.job.journal
        lease = Lease(journal.database, journal.lease_seconds, name, _IMPORT_SLICE)
        try:
            job = await lease.run(_SUBMIT, lambda tx: self._begin(tx, lease))
            if not job.imported:
                return await self._import(lease, pages)
        except BaseException:  # raised again; also a cancellation may leave the lease taken
            lease.abandon()
            raise
        await self._compare(job, pages)
        return job.total

    # An import

    def _begin(self, transaction: "Transaction", lease: Lease) -> JobRow:
        """Take the lease of an import, unless the job is imported already; return the job.

        Raises:
            JobConflictError: If it is, and is for something else.
        """
        name, subject = self.job.name, {"operation": self.operation.name, **self.merchant._asdict()}
        transaction.run(_MAKE, name=name, slice_size=self.slice_size, **subject)
        job = find_job(transaction, name)
        if not job.imported:
            transaction.run(_ADD_SLICE, job=job.id, slice=_IMPORT_SLICE, total=0)
            lease.acquire(transaction, job)
            _drop(transaction, lease)
        elif difference := job.difference(subject):
            raise self._conflict(difference)
        elif bool(job.slice_size) != bool(self.slice_size):
            kind = "was cut into slices" if job.slice_size else "is in one piece"
            raise self._conflict(f"it {kind}, and is run as such only")
        return job

    async def _import(self, lease: Lease, pages: "AsyncIterator[Sequence[Any]]") -> int:
        try:
            keys = await self._add_orders(lease, pages)
            await self._add_chunks(lease, keys)
            await lease.run(_SUBMIT, lambda tx: self._finish(tx, lease, len(keys)))
        except (InvalidOrderError, JobConflictError):
            with contextlib.suppress(JournalError):  # else the next import drops it
                await lease.run(_SUBMIT, lambda tx: _drop(tx, lease))
            raise
        return len(keys)

    async def _add_orders(
        self, lease: Lease, pages: "AsyncIterator[Sequence[Any]]"
    ) -> "array[int]":
        """Add the orders; return the lookup key of each."""
        seen, codec, job = array("I"), codec_of(self.operation.name), lease.job.id
        async for piece in pages:
            blocks, payouts = [], []
            for start in range(0, len(piece), BLOCK):
                orders, first = piece[start : start + BLOCK], len(seen)
                bodies = codec.encode(orders)
                names = list(map(codec.identity, orders))
                keys = list(map(lookup_key, names))
                seen.extend(keys)
                packed = struct.pack(f"<{len(keys)}I", *keys)
                blocks.append({"job": job, "first": first, "keys": packed, "bodies": bodies})
                payouts += [
                    {"request_id": name, "job": job, "position": position}
                    for position, name in enumerate(names if self.operation.is_keyed else (), first)
                ]
            await _add(lease, _ADD_ORDERS, blocks)
            if payouts:
                await _add(lease, _ADD_PAYOUTS, payouts)
        return seen

    async def _add_chunks(self, lease: Lease, keys: "array[int]") -> None:
        """Add the chunks: in the end, since an order may belong to an earlier slice."""
        total, size, job = len(keys), self.chunk_size, lease.job.id
        numbers = share_out(keys, self.slice_size) if self.slice_size else bytes(total)
        step = _CHUNKS_AT_ONCE * size
        for start in range(0, total, step):
            span = range(start, min(start + step, total))
            chunks = []
            for number, grouped in groupby(span, key=numbers.__getitem__):
                positions = [*grouped]
                for first in range(positions[0], positions[-1] + 1, size):
                    last = min(first + size - 1, positions[-1])
                    chunks.append({"job": job, "first": first, "last": last, "slice": number})
            await _add(lease, _ADD_CHUNKS, chunks)

    def _finish(self, transaction: "Transaction", lease: Lease, total: int) -> None:
        """End an import: the job is there, with all of its orders, for any process to run.

        Raises:
            JobConflictError: If another job of this gateway and merchant has one of its payouts,
                and may have paid it. Where it is to be paid all the same, that job holds it.
        """
        job = lease.job
        transaction.run(_FINISH, job=job.id, total=total)  # locks the job before the lease
        lease.extend(transaction)
        lease.end(transaction)
        if self.operation.is_keyed:
            # Of two jobs at the same time, the second to ask sees the first.
            transaction.lock(_LOCK_OF_PAYOUTS)
            merchant = self.merchant._asdict()
            found = transaction.run(_PAID_ELSEWHERE, job=job.id, **merchant).fetchall()
            for position, request_id, name, at, state in found:
                if not self.repeats:
                    raise JobConflictError(
                        f"job {self.job.name!r}: its order {position} has the request_id "
                        f"{request_id!r}, which stands in job {name!r}, and may be paid by it; "
                        "nothing was kept. Resume that job, or give another payout a request_id of "
                        "its own",
                        job=self.job.name,
                    )
                if state == OrderState.NEW:
                    text = f"job {self.job.name!r} pays it; decide whether it is paid again"
                    held = Known(OrderState.HELD, text=text, proof=Proof.NEVER_SENT)
                    Orders(transaction, find_job(transaction, name)).hold({at: held})
        add = _ADD_SLICES if self.slice_size else _ADD_SLICE
        transaction.run(add, job=job.id, slice=0, total=total)

    # A job that is there

    async def _compare(self, job: JobRow, pages: "AsyncIterator[Sequence[Any]]") -> None:
        given = 0
        async for orders in pages:
            span = range(given, min(given + len(orders), job.total))
            stored = await self.job.read(functools.partial(Orders.orders_at, positions=span))
            for at, known, order in zip(span, stored, orders, strict=False):
                if known != order:
                    raise self._conflict(
                        f"its order {at} is {describe(known)}, and {describe(order)} was given, "
                        f"which differs in {differing_fields(known, order)}"
                    )
            given += len(orders)
            if given > job.total:
                raise self._conflict(f"it has {job.total} in all, and more were given")
        if given != job.total:
            raise self._conflict(f"it has {job.total} in all, and {given} were given")

    def _conflict(self, difference: str) -> GatewayError:
        return JobConflictError(
            f"job {self.job.name!r} exists already: {difference}; nothing was changed. `resume` "
            "continues it; where it was cut into slices, workers do (`gateway-async worker`, or "
            "`Workers` in Python). Use a new job name only for different orders: the same orders "
            "under a new name are sent again",
            job=self.job.name,
        )


def _add(lease: Lease, statement: str, rows: "list[dict[str, Any]]") -> "asyncio.Future[None]":
    def insert(transaction: "Transaction") -> None:
        lease.extend(transaction)
        transaction.run_many(statement, rows)

    return lease.run(_SUBMIT, insert)


def _drop(transaction: "Transaction", lease: Lease) -> None:
    """Drop what an import left.

    Job and slice stay: SQLite would give their number to another job, which an old lease fits.
    """
    lease.extend(transaction)
    for statement in _DROP:
        transaction.run(statement, job=lease.job.id)


def share_out(keys: "Sequence[int]", size: int) -> "array[int]":
    """Return the slice of each order, from 1: ranges, and behind them those gathered from several.

    All orders of one `transaction_id` are in one slice, and every order is in one.

    Args:
        keys: By position, what stands for the `transaction_id` of an order: the same for the same,
            and seldom the same for others, which are then in one slice too.
        size: How many orders a slice has, but for those of one `transaction_id`.
    """
    numbers = array("I", (1 + position // size for position in range(len(keys))))
    number, filled = 2 + (len(keys) - 1) // size, 0
    packed = sorted(key << _POSITION_BITS | position for position, key in enumerate(keys))
    for _, alike in groupby(packed, key=lambda each: each >> _POSITION_BITS):
        positions = [each & (1 << _POSITION_BITS) - 1 for each in alike]
        if numbers[positions[0]] == numbers[positions[-1]]:
            continue
        if filled >= size:
            number, filled = number + 1, 0
        for position in positions:
            numbers[position] = number
        filled += len(positions)
    return numbers
