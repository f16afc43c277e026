"""The orders of a job and what is known of them: read, chunk by chunk."""

import functools
import struct
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from gateway_async.errors import JobNotFoundError, JournalError
from gateway_async.journal.codec import BLOCK, OrderCodec, codec_of, lookup_key
from gateway_async.journal.rows import CHUNK_COLUMNS, ChunkState, JobRow, Known, Row
from gateway_async.journal.states import JobState
from gateway_async.models.values import describe
from gateway_async.operations import OperationClass

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Sequence,
    )

    from gateway_async.journal.database import Transaction

_CHUNKS_AT_ONCE = 200
_KEYS_AT_ONCE = 5000
_ROWS_AT_ONCE = 1000
# All positions.
ANYWHERE = range(2**62)

_CHUNK = f"""
SELECT {", ".join(CHUNK_COLUMNS)} FROM gateway_chunks
WHERE job_id = :job AND first <= :at ORDER BY first DESC LIMIT 1"""
_LOCKED_CHUNK = f"{_CHUNK} FOR UPDATE"
# Of the chunks that hold the positions from `start` to `last`, which are found by the key.
_IN_STATES = f"""
SELECT {", ".join(CHUNK_COLUMNS)} FROM gateway_chunks
WHERE job_id = :job AND first <= :last AND first >= (
    SELECT max(first) FROM gateway_chunks WHERE job_id = :job AND first <= :start
) AND last >= :start AND (slice = :slice OR :slice IS NULL)
AND (:states LIKE '%,' || state || ',%' OR exceptions <> '')
ORDER BY first LIMIT {_CHUNKS_AT_ONCE}"""
_ORDERS = """
SELECT bodies FROM gateway_orders
WHERE job_id = :job AND first BETWEEN :start AND :last ORDER BY first"""
_KEYS = f"""
SELECT first, lookup_keys FROM gateway_orders
WHERE job_id = :job AND first > :after ORDER BY first LIMIT {_KEYS_AT_ONCE}"""
_JOB = f"SELECT {', '.join(JobRow._fields)} FROM gateway_jobs WHERE name = :name"
# As `JobRow.difference` compares them: a job of an earlier version does not know its gateway.
OF_MERCHANT = """
j.merchant_id = :merchant_id AND j.account_id = :account_id AND j.gateway IN (:gateway, '')"""


def find_job(transaction: "Transaction", name: str) -> JobRow:
    """Return the row of a job.

    Raises:
        JobNotFoundError: If there is none of this name.
    """
    row = transaction.run(_JOB, name=name).fetchone()
    if row is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    return JobRow(*row)


async def read_pages(
    read: "Callable[[Callable[[Orders], list[Row]]], Awaitable[list[Row]]]",
    states: "Collection[JobState]",
    span: range,
) -> "AsyncIterator[list[Row]]":
    """Yield the rows that are in some states, page by page.

    Args:
        read: Reads from the orders, each page in a transaction of its own.
        states: The states.
        span: The positions.
    """
    first, is_over = span.start, False
    while not is_over:
        page = functools.partial(Orders.rows, states=states, span=range(first, span.stop))
        if rows := await read(page):
            yield rows
            first = rows[-1].index + 1
        is_over = len(rows) < _ROWS_AT_ONCE


@attrs.frozen
class Orders:
    """The orders of a job, or of a slice of it, inside a transaction.

    Attributes:
        transaction: The transaction.
        job: The job.
        slice_number: Which slice; None for all of them.
    """

    transaction: "Transaction"
    job: JobRow
    slice_number: int | None = None

    @property
    def codec(self) -> OrderCodec:
        """How its orders are stored."""
        return codec_of(self.job.operation)

    def rows(self, states: "Collection[JobState]", span: range = ANYWHERE) -> list[Row]:
        """Return the first thousand rows that are in some states."""
        picked: list[tuple[int, Known]] = []
        for _, found in self._scan(states, span):
            picked += found
            if len(picked) >= _ROWS_AT_ONCE:
                break
        return self._rows(picked[:_ROWS_AT_ONCE])

    def has_any(self, states: "Collection[JobState]") -> bool:
        """Return whether any order is in one of these states."""
        return any(self._scan(states))

    def new(self, *, after: int, limit: int) -> list[list[int]]:
        """Return the positions of new orders behind a position, chunk by chunk.

        After so many orders, no further chunk is begun.
        """
        positions: list[list[int]] = []
        for _, found in self._scan((JobState.NEW,), range(after + 1, ANYWHERE.stop)):
            positions.append([at for at, _ in found])
            limit -= len(found)
            if limit <= 0:
                break
        return positions

    def of(self, identities: "Collection[str]") -> list[Row]:
        """Return the rows of these transactions, or `request_id`s, of all slices."""
        asked, identity = frozenset(identities), self.codec.identity
        wanted = {lookup_key(each) for each in asked}
        positions: list[int] = []
        last = -1
        while found := self._run(_KEYS, after=last).fetchall():
            for first, packed in found:
                keys = struct.unpack(f"<{len(packed) // 4}I", packed)
                if not wanted.isdisjoint(keys):
                    positions += (at for at, key in enumerate(keys, first) if key in wanted)
            last = found[-1][0]
        rows = self._rows(list(pick_known(self._chunks_at(positions), positions).items()))
        return [row for row in rows if identity(row.order) in asked]

    def control_refund(self) -> Row | None:
        """Return a row of any slice that succeeded and has a reference; None if none is found."""
        anywhere = attrs.evolve(self, slice_number=None)
        for _, found in anywhere._scan((JobState.SUCCEEDED,)):  # noqa: SLF001  # its own
            for at, known in found:
                if known.reference:
                    return self._rows([(at, known)])[0]
        return None

    def at(self, positions: "Sequence[int]") -> list[Any]:
        """Return the orders at some positions; blocks side by side are read together."""
        blocks: dict[int, list[Any]] = {}
        starts = sorted({position - position % BLOCK for position in positions})
        for _, grouped in groupby(enumerate(starts), key=lambda each: each[1] - each[0] * BLOCK):
            run = [start for _, start in grouped]
            found = self._run(_ORDERS, start=run[0], last=run[-1]).fetchall()
            for start, (bodies,) in zip(run, found, strict=True):
                blocks[start] = self.codec.decode(bodies, self.job.name)
        return [blocks[position - position % BLOCK][position % BLOCK] for position in positions]

    def find(self, order: object) -> int:
        """Return the position of an order that is named by it, itself, or a `request_id`.

        Raises:
            InvalidOrderError: If it is neither an order of the job's operation nor a position.
            JournalError: If there is no such order, or more than one.
        """
        codec, job = self.codec, self.job.name
        if isinstance(order, int) and not isinstance(order, bool):
            if not 0 <= order < self.job.total:
                raise JournalError(f"job {job!r} has no order {order}", job=job)
            return order
        is_key = isinstance(order, str | UUID) and codec.operation.kind is OperationClass.KEYED
        if is_key:
            identity, shown = str(order).lower(), f"of request_id {str(order)!r}"
        else:
            codec.check(order)
            identity, shown = codec.identity(order), f"equal to {describe(order)}"
        found = [row.index for row in self.of({identity}) if is_key or row.order == order]
        if len(found) != 1:
            advice = f": name one by its index: {', '.join(map(str, found))}" if found else ""
            raise JournalError(f"job {job!r} has {len(found)} orders {shown}{advice}", job=job)
        return found[0]

    def slices(self, positions: "Sequence[int]") -> list[int]:
        """Return the slices that orders are in; that never changes."""
        return sorted({chunk.slice for chunk in self._chunks_at(positions)})

    def _scan(
        self, states: "Collection[JobState]", span: range = ANYWHERE
    ) -> "Iterator[tuple[ChunkState, list[tuple[int, Known]]]]":
        """Yield chunks with orders of these positions and states, and what is known of those."""
        listed, start = f",{','.join(states)},", span.start
        given = {"slice": self.slice_number, "states": listed, "last": span.stop - 1}
        while rows := self._run(_IN_STATES, **given, start=start).fetchall():
            for chunk in map(ChunkState.read, rows):
                known_at = zip(chunk.span, chunk.known, strict=True)
                found = [(at, one) for at, one in known_at if one.state in states and at in span]
                if found:
                    yield chunk, found
            if len(rows) < _CHUNKS_AT_ONCE:
                break
            start = rows[-1][2] + 1

    def _chunks_at(self, positions: "Iterable[int]", *, lock: bool = False) -> list[ChunkState]:
        """Return the chunks that hold these orders; locked, no other transaction changes them."""
        chunks: list[ChunkState] = []
        for at in positions:
            if not chunks or at not in chunks[-1].span:
                row = self._run(_LOCKED_CHUNK if lock else _CHUNK, at=at).fetchone()
                chunks.append(ChunkState.read(row))
        return chunks

    def _rows(self, picked: "Sequence[tuple[int, Known]]") -> list[Row]:
        orders = self.at([position for position, _ in picked])
        return [
            Row(index=position, order=order, known=known, operation=self.codec.operation)
            for (position, known), order in zip(picked, orders, strict=True)
        ]

    def _run(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401  # a cursor
        return self.transaction.run(statement, job=self.job.id, **parameters)


def pick_known(chunks: "Iterable[ChunkState]", positions: "Iterable[int]") -> dict[int, Known]:
    """Return what is known of the orders at some positions."""
    wanted = frozenset(positions)
    return {
        at: known
        for chunk in chunks
        for at, known in zip(chunk.span, chunk.known, strict=True)
        if at in wanted
    }
