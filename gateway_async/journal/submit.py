"""How the orders of a job come into the journal, and how they are shared out among slices.

They are written to a temporary file first, and from there into the journal in one transaction: a
job has all of its orders, or it is not there. One that is there is only compared with.
"""

import asyncio
import struct
from array import array
from itertools import count, groupby
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import JobConflictError
from gateway_async.journal.chunk_store import OF_MERCHANT, ChunkStore, find_job
from gateway_async.journal.codec import (
    BLOCK,
    POSITION_BITS,
    OrderCodec,
    codec_of,
    differing_fields,
    lookup_key,
    position_of,
    sorted_keys,
)
from gateway_async.journal.database import uninterrupted
from gateway_async.journal.states import OrderState
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from gateway_async.journal.database import Transaction
    from gateway_async.journal.journal import Job
    from gateway_async.journal.rows import JobRow, Merchant
    from gateway_async.operations import Operation

_BYTES_IN_MEMORY = 4 * 1024 * 1024
_COMPARED_AT_ONCE = 100 * BLOCK
_LOCK_OF_PAYOUTS = 0x6761_706B_6579

_MAKE = """
INSERT INTO gateway_jobs (name, operation, merchant_id, account_id, gateway, created_at, total,
slice_size) VALUES (:name, :operation, :merchant_id, :account_id, :gateway, NOW_SECONDS, :total,
:slice_size) ON CONFLICT (name) DO NOTHING"""
_ADD_ORDERS = "INSERT INTO gateway_orders VALUES (:job, :first, :keys, :bodies)"
_ADD_CHUNKS = """
INSERT INTO gateway_chunks (job_id, first, last, slice, state)
VALUES (:job, :first, :last, :slice, 'new')"""
_ADD_SLICES = """
INSERT INTO gateway_slices (job_id, slice, first, last, total)
SELECT j.id, coalesce(slice, 0), coalesce(min(first), 0), coalesce(max(last), -1),
coalesce(sum(last - first + 1), 0)
FROM gateway_jobs j LEFT JOIN gateway_chunks ON job_id = j.id WHERE j.id = :job
GROUP BY j.id, slice"""
_ADD_PAYOUTS = "INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"
# A payout is a chunk of its own; one that the gateway declined there was not paid.
_PAID_ELSEWHERE = f"""
SELECT mine.position, mine.request_id, j.name, c.state
FROM gateway_payout_keys mine
JOIN gateway_payout_keys theirs ON theirs.request_id = mine.request_id
JOIN gateway_jobs j ON j.id = theirs.job_id
JOIN gateway_chunks c ON c.job_id = theirs.job_id AND c.first = theirs.position
WHERE mine.job_id = :id AND theirs.job_id <> :id AND c.state <> 'declined'
AND {OF_MERCHANT} ORDER BY mine.position"""
_CONFLICT = (
    "job {!r} exists already: {}; nothing was changed. `resume` continues it; where it was cut "
    "into slices, workers do (`gateway-async worker`, or `Workers` in Python). Use a new job name "
    "only for different orders: the same orders under a new name are sent again"
)


async def submit(  # noqa: PLR0913  # one keyword a setting
    job: "Job",
    pages: "AsyncIterator[Sequence[Any]]",
    *,
    operation: "Operation",
    merchant: "Merchant",
    chunk_size: int,
    slice_size: int = 0,
    repeats: bool = False,
    refuse: "Callable[[int, Any], Exception] | None" = None,
) -> int:
    """Keep the orders of a job, or find that they are the ones it has.

    Args:
        job: The job.
        pages: The orders, piece by piece: each a multiple of `BLOCK`, but the last.
        operation: The operation of its orders.
        merchant: Whose clients send them.
        chunk_size: How many orders a chunk has.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
        repeats: Whether payouts may have a `request_id` that another job has, and is done with.
        refuse: Returns the error of a duplicate, given its position and the order; None where
            duplicates are allowed, or were looked for before.

    Returns:
        How many they are; all of them are on the disk.

    Raises:
        InvalidOrderError: For an order of another operation.
        Exception: What `refuse` returns.
        JobConflictError: If the job exists, with other orders or for another operation, merchant,
            account or gateway, or was cut and is not to be; or if another job has one of its
            payouts. Nothing was changed.
    """
    codec, keys = codec_of(operation.name), array("I")
    with SpooledTemporaryFile(_BYTES_IN_MEMORY) as blocks:
        async for page in pages:
            for start in range(0, len(page), BLOCK):
                orders = page[start : start + BLOCK]
                blocks.write(codec.encode(orders).encode() + b"\n")
                keys.extend(map(lookup_key, map(codec.identity, orders)))

        def number() -> "Sequence[int]":
            """Return the slice of each order."""
            packed = sorted_keys(keys) if slice_size or refuse else ()
            if refuse and (found := _find_duplicate(codec, job.name, blocks, packed)):
                raise refuse(*found)
            return share_out(packed, slice_size) if slice_size else bytes(len(keys))

        # Before the transaction, since PostgreSQL ends an idle one.
        numbers = await uninterrupted(asyncio.to_thread(number))
        subject = {"operation": operation.name, **merchant._asdict()}
        row = {"name": job.name, "total": len(keys), "slice_size": slice_size, **subject}

        def keep(transaction: "Transaction") -> None:
            is_new = transaction.run(_MAKE, **row).rowcount == 1
            kept = find_job(transaction, job.name)
            blocks.seek(0)
            if not is_new:
                difference = kept.difference(subject) or _difference(
                    ChunkStore(transaction, kept), blocks, len(keys), is_sliced=bool(slice_size)
                )
                if difference:
                    raise JobConflictError(_CONFLICT.format(job.name, difference), job=job.name)
                return
            transaction.run_many(_ADD_ORDERS, _block_rows(kept.id, blocks, keys))
            transaction.run_many(_ADD_CHUNKS, _chunk_rows(kept.id, numbers, chunk_size))
            transaction.run(_ADD_SLICES, job=kept.id)
            if operation.is_keyed:
                _add_payouts(transaction, kept, blocks, repeats=repeats)

        what = f"job {job.name!r}: cannot submit it"
        await uninterrupted(job.journal.database.run(what, keep))
    return len(keys)


def _block_rows(
    job_id: int, blocks: IO[bytes], keys: "array[int]"
) -> "Iterator[dict[str, object]]":
    for first, bodies in zip(range(0, len(keys), BLOCK), blocks, strict=True):
        of_block = keys[first : first + BLOCK]
        packed = struct.pack(f"<{len(of_block)}I", *of_block)
        yield {"job": job_id, "first": first, "keys": packed, "bodies": bodies.decode()}


def _chunk_rows(
    job_id: int, numbers: "Sequence[int]", chunk_size: int
) -> "Iterator[dict[str, object]]":
    first = 0
    for number, side_by_side in groupby(numbers):
        end = first + sum(1 for _ in side_by_side)
        for start in range(first, end, chunk_size):
            last = min(start + chunk_size, end) - 1
            yield {"job": job_id, "first": start, "last": last, "slice": number}
        first = end


def _add_payouts(
    transaction: "Transaction", job: "JobRow", blocks: IO[bytes], *, repeats: bool
) -> None:
    """Add the `request_id` of each payout.

    Raises:
        JobConflictError: If another job of this gateway and merchant has one of them, and may
            have paid it; where payouts are repeated, if it may pay it from now on.
    """
    transaction.lock(_LOCK_OF_PAYOUTS)  # of two jobs at once, the second sees the first
    blocks.seek(0)
    names = (name.lower() for bodies in blocks for name in orjson.loads(bodies)["request_id"])
    rows = (
        {"request_id": name, "job": job.id, "position": position}
        for position, name in enumerate(names)
    )
    transaction.run_many(_ADD_PAYOUTS, rows)
    for position, request_id, name, state in transaction.run(
        _PAID_ELSEWHERE, **attrs.asdict(job)
    ).fetchall():
        if not repeats or state in {OrderState.NEW, OrderState.INTENT}:
            raise JobConflictError(
                f"job {job.name!r}: its order {position} has the request_id {request_id!r}, which "
                f"stands in job {name!r}, and may be paid by it; nothing was kept. Resume that "
                "job, or give another payout a request_id of its own",
                job=job.name,
            )


def _difference(stored: ChunkStore, blocks: IO[bytes], total: int, *, is_sliced: bool) -> str:
    """Return in what the orders of a job differ from those given; empty where in nothing.

    Most blocks are the same text; the others may be written otherwise by another release.
    """
    job, codec = stored.job, stored.codec
    if job.is_sliced != is_sliced:
        kind = "was cut into slices" if job.is_sliced else "is in one piece"
        return f"it {kind}, and is run as such only"
    for start in range(0, min(job.total, total), _COMPARED_AT_ONCE):
        kept = stored.blocks(start, start + _COMPARED_AT_ONCE - 1)
        for first, bodies, given in zip(range(start, total, BLOCK), kept, blocks, strict=False):
            if bodies == (text := given.decode()):
                continue
            orders = zip(codec.decode(bodies, job.name), codec.decode(text, job.name), strict=False)
            for at, (known, order) in enumerate(orders, first):
                if known != order:
                    return (
                        f"its order {at} is {describe(known)}, and {describe(order)} was given, "
                        f"which differs in {differing_fields(known, order)}"
                    )
    return "" if total == job.total else f"it has {job.total} in all, and {total} were given"


def share_out(packed: "Sequence[int]", size: int) -> "array[int]":
    """Return the slice of each order, from 1.

    The first slices are ranges of the input, each without the transactions that have orders in
    another range, too: these are gathered in the slices behind. So all orders of one
    `transaction_id` are in one slice.

    Args:
        packed: The lookup keys of all orders, as `sorted_keys` returns them: seldom the same for
            two transactions, which are then in one slice too.
        size: How many orders a slice has, but for those of one `transaction_id`.
    """
    numbers = array("I", (1 + position // size for position in range(len(packed))))
    number, filled = 2 + (len(packed) - 1) // size, 0
    for positions in _repeated(packed):
        if numbers[positions[0]] == numbers[positions[-1]]:
            continue
        if filled >= size:
            number, filled = number + 1, 0
        for position in positions:
            numbers[position] = number
        filled += len(positions)
    return numbers


def _repeated(packed: "Sequence[int]") -> "Iterator[list[int]]":
    """Yield the positions of the orders that share a lookup key, ascending."""
    for _, alike in groupby(packed, key=lambda each: each >> POSITION_BITS):
        positions = list(map(position_of, alike))
        if len(positions) > 1:
            yield positions


def _find_duplicate(
    codec: OrderCodec, job: str, blocks: IO[bytes], packed: "Sequence[int]"
) -> tuple[int, Any] | None:
    """Return position and order of the first that names what an earlier one does, if any does."""
    suspects = {position for positions in _repeated(packed) for position in positions}
    blocks.seek(0)
    seen = set()
    for first, bodies in zip(count(0, BLOCK), blocks, strict=False):
        if suspects.isdisjoint(range(first, first + BLOCK)):
            continue
        for position, order in enumerate(codec.decode(bodies.decode(), job), first):
            if position in suspects:
                if (identity := codec.identity(order)) in seen:
                    return position, order
                seen.add(identity)
    return None
