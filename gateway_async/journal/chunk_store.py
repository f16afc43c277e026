"""The orders of a job in a transaction, and what is known of them: read and changed by chunk.

Every change finds all of its orders in states that the table of transitions names; else nothing is
changed. It is made in a transaction that has locked the row of their slice: by a lease, which
`leases` verifies, or by a decision.
"""

import functools
import struct
from bisect import bisect_left
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from gateway_async.errors import InvalidOrderError, JobNotFoundError, JournalError
from gateway_async.journal.codec import (
    BLOCK,
    POSITION_BITS,
    OrderCodec,
    codec_of,
    lookup_key,
    position_of,
    sorted_keys,
)
from gateway_async.journal.rows import (
    CHUNK_COLUMNS,
    DONE,
    JOB_COLUMNS,
    ChunkState,
    JobOrder,
    JobRow,
    Known,
    storable,
    written,
)
from gateway_async.journal.states import FINAL, TRANSITIONS, OrderState, Proof, Transition, sources
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from array import array
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from gateway_async.journal.database import Transaction

    Chunks = list[list[JobOrder]]
    Related = Mapping[str, Sequence[JobOrder]]

_CHUNKS_AT_ONCE = 200
_ORDERS_AT_ONCE = 1000
_CLOCKS_DIFFER = 3600.0  # seconds
# All positions.
ANYWHERE = range(2**62)
_INTERRUPTED = "it was in flight when its process ended"
_BEFORE = "; before: "
_EARLIER = "earlier, "
_NOTHING_TO_DECIDE: "Mapping[str, str]" = {
    OrderState.NEW: "it is not done, and the next run sends it",
    OrderState.INTENT: "run the job again first",
    **dict.fromkeys(FINAL, "that is final"),
}

_CHUNK = f"""
SELECT {", ".join(CHUNK_COLUMNS)} FROM gateway_chunks
WHERE job_id = :job AND first <= :at ORDER BY first DESC LIMIT 1"""
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
# Of a slice, the keys between its first order and its last: all orders of each of its transactions
# are in it.
_SLICE = "FROM gateway_slices WHERE job_id = :job AND slice = :slice"
_KEYS = f"""
SELECT first, lookup_keys FROM gateway_orders WHERE job_id = :job
AND first > coalesce((SELECT first {_SLICE}), 0) - {BLOCK}
AND first <= coalesce((SELECT last {_SLICE}), {ANYWHERE.stop})
ORDER BY first"""
_JOB = f"SELECT {', '.join(JOB_COLUMNS)} FROM gateway_jobs WHERE name = :name"
# As `JobRow.difference` compares them: a job of an earlier version does not know its gateway.
OF_MERCHANT = """
j.merchant_id = :merchant_id AND j.account_id = :account_id AND j.gateway IN (:gateway, '')"""

# The other jobs that may have sent something since: a chunk whose orders differ keeps their times
# in its exceptions.
_JOBS_SINCE = f"""
SELECT {", ".join(f"j.{name}" for name in JOB_COLUMNS)} FROM gateway_jobs j
WHERE j.id <> :id AND j.operation = :operation AND {OF_MERCHANT} AND EXISTS (
    SELECT 1 FROM gateway_chunks c WHERE c.job_id = j.id AND (
        c.ended_at >= :since OR c.exceptions <> '' OR c.state IN ('intent', 'unknown', 'held')
    )
) ORDER BY j.id"""

# Changes a whole chunk whose orders are alike, and on none of which a person decided.
_CHANGE_WHOLE = """
UPDATE gateway_chunks
SET state = :target, ended_at = :ended_at, sent = coalesce(:sent, sent), reference_list = :listed
WHERE job_id = :job AND first = :first AND last = :last AND slice = :slice AND exceptions = ''
AND :sources LIKE '%,' || state || ',%'"""
_WRITE = f"""
UPDATE gateway_chunks SET {", ".join(f"{name} = :{name}" for name in CHUNK_COLUMNS[4:])}
WHERE job_id = :job_id AND first = :first"""


def find_job(transaction: "Transaction", name: str) -> JobRow:
    """Return the row of a job.

    Raises:
        JobNotFoundError: If there is no job of this name.
    """
    row = transaction.run(_JOB, name=name).fetchone()
    if row is None:
        raise JobNotFoundError(f"the journal has no job {name!r}", job=name)
    return JobRow(*row)


async def read_pages(
    read: "Callable[[Callable[[ChunkStore], Chunks]], Awaitable[Chunks]]",
    states: "Collection[OrderState]",
    span: range,
) -> "AsyncIterator[list[JobOrder]]":
    """Yield the orders that are in some states, page by page.

    Args:
        read: Reads from the orders, each page in a transaction of its own.
        states: The states.
        span: The positions.
    """
    select = functools.partial(ChunkStore.select, states=states, most=_ORDERS_AT_ONCE)
    while page := list(chain(*await read(functools.partial(select, span=span)))):
        yield page
        span = range(page[-1].index + 1, span.stop)


@attrs.frozen
class ChunkStore:
    """The orders of a job, or of a slice of it, inside a transaction.

    Attributes:
        transaction: The transaction. What changes orders runs after it has verified the lease, or
            for a person.
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

    # Reading

    def select(
        self, states: "Collection[OrderState]", span: range = ANYWHERE, *, most: int
    ) -> list[list[JobOrder]]:
        """Return the first orders that are in some states, chunk by chunk.

        Args:
            states: The states.
            span: The positions.
            most: After so many orders, no further chunk is begun.
        """
        picked: list[list[tuple[int, Known]]] = []
        for _, found in self._scan(states, span):
            picked.append(found)
            most -= len(found)
            if most <= 0:
                break
        made = iter(self._with_orders(list(chain(*picked))))
        return [list(islice(made, len(found))) for found in picked]

    def keys(self) -> "array[int]":
        """Return the lookup key of each order and its position, as one number, ascending.

        `orders_of` finds orders by these, and without them reads the job through.
        """
        rows = self._run(_KEYS, slice=self.slice_number).fetchall()
        keys = chain.from_iterable(_unpacked(packed) for _, packed in rows)
        return sorted_keys(keys, rows[0][0] if rows else 0)

    def orders_of(
        self, identities: "Iterable[str]", keys: "array[int] | None" = None
    ) -> dict[str, list[JobOrder]]:
        """Return the orders of each `transaction_id`, or `request_id`."""
        identity, found = self.codec.identity, {each: list[JobOrder]() for each in identities}
        wanted = set(map(lookup_key, found))
        positions: list[int] = []
        if keys is not None:
            edges = [(one << POSITION_BITS, one + 1 << POSITION_BITS) for one in wanted]
            named = [keys[bisect_left(keys, low) : bisect_left(keys, high)] for low, high in edges]
            positions = sorted(map(position_of, chain(*named)))
        else:
            for first, packed in self._run(_KEYS, slice=self.slice_number):
                there = _unpacked(packed)
                if not wanted.isdisjoint(there):
                    positions += (at for at, key in enumerate(there, first) if key in wanted)
        known = _merged(self._chunks_at(positions))
        for each in self._with_orders([(at, known[at]) for at in positions]):
            found.get(identity(each.order), []).append(each)  # others share its key
        return found

    def related(self, identities: "Iterable[str]") -> "Related":
        """Return the orders of each transaction, or `request_id`: this job's, and other jobs'.

        A refund that the gateway lists may be one that another job has made, or may have, beside
        this one. Positions of these are behind all of the job's. What others had made before this
        job began, its own look-ups list as earlier refunds.
        """
        found, since = self.orders_of(identities), self.job.created_at.timestamp() - _CLOCKS_DIFFER
        if not self.codec.operation.allows_several:
            return found
        made = (OutcomeStatus.SUCCEEDED, OutcomeStatus.UNKNOWN)
        rows = self.transaction.run(_JOBS_SINCE, **attrs.asdict(self.job), since=since).fetchall()
        for other in (ChunkStore(self.transaction, JobRow(*row)) for row in rows):
            for name, orders in other.orders_of(identities).items():
                found[name] += (
                    attrs.evolve(each, index=other.job.id * ANYWHERE.stop + each.index)
                    for each in orders
                    if each.status in made and (each.known.ended_at or since) >= since
                )
        return found

    def control_refund(self) -> JobOrder | None:
        """Return an order that succeeded, with a reference where one has; None if none did."""
        unnamed: list[tuple[int, Known]] = []
        for _, found in self._scan((OrderState.SUCCEEDED,)):
            for at, known in found:
                if known.reference:
                    return self._with_orders([(at, known)])[0]
                unnamed = unnamed or [(at, known)]
        return next(iter(self._with_orders(unnamed)), None)

    def blocks(self, start: int, last: int) -> list[str]:
        """Return the blocks of orders that begin at these positions, as they are stored."""
        found = self._run(_ORDERS, start=start, last=last).fetchall()
        return [bodies for (bodies,) in found]

    def find(self, order: object, keys: "array[int] | None" = None) -> int:
        """Return the position of an order that is named by it, itself, or a `request_id`.

        Args:
            order: What names it.
            keys: See `orders_of`.

        Raises:
            InvalidOrderError: If it is neither an order of the job's operation nor a position.
            JournalError: If there is no such order, or more than one.
        """
        codec, job = self.codec, self.job.name
        if isinstance(order, int) and not isinstance(order, bool):
            if not 0 <= order < self.job.total:
                raise JournalError(f"job {job!r} has no order {order}", job=job)
            return order
        is_key = isinstance(order, str | UUID) and codec.operation.is_keyed
        if is_key:
            identity, shown = str(order).lower(), f"of request_id {str(order)!r}"
        else:
            wanted = codec.operation.order_class
            if type(order) is not wanted:
                raise InvalidOrderError(f"expected {wanted.__name__}, got {type(order).__name__}")
            identity, shown = codec.identity(order), f"equal to {describe(order)}"
        there = self.orders_of([identity], keys)[identity]
        found = [each.index for each in there if is_key or each.order == order]
        if len(found) != 1:
            advice = f": name one by its index: {', '.join(map(str, found))}" if found else ""
            raise JournalError(f"job {job!r} has {len(found)} orders {shown}{advice}", job=job)
        return found[0]

    def slices(self, positions: "Sequence[int]") -> list[int]:
        """Return the slices that orders are in; that never changes."""
        return sorted({chunk.slice for chunk in self._chunks_at(positions)})

    # Changing

    def intend(self, indices: "Sequence[int]", sent: str) -> None:
        """Record that new orders are about to be sent: they are in flight.

        Args:
            indices: Their positions, ascending; at least one.
            sent: What `noted` writes of the request.
        """
        if not self._change_whole(Transition.INTEND, OrderState.INTENT, indices, sent=sent):
            self.change(
                Transition.INTEND, dict.fromkeys(indices, Known(OrderState.INTENT, sent=sent))
            )

    def conclude(
        self,
        indices: "Sequence[int]",
        known: "Sequence[Known]",
        references: "Sequence[str]",
        ended_at: float,
    ) -> None:
        """Record the outcomes of orders in flight: succeeded, declined or unknown.

        Args:
            indices: Their positions, ascending.
            known: What is known of each; `DONE` of one that succeeded.
            references: The gateway's reference of each, or "": apart, since that is quicker.
            ended_at: When the request ended, in seconds since the epoch.
        """
        conclude, done = Transition.CONCLUDE, OrderState.SUCCEEDED
        given = {"ended_at": ended_at, "listed": written(list(map(storable, references)))}
        is_alike = known.count(DONE) == len(known)
        if not (is_alike and self._change_whole(conclude, done, indices, **given)):
            found = {
                # What a reply calls an order that did not succeed is no refund of this job's.
                index: one._replace(
                    reference=reference if one.state == done else "", ended_at=ended_at
                )
                for index, one, reference in zip(indices, known, references, strict=True)
            }
            self.change(conclude, found)

    def recover(self, found: "Mapping[int, Known]", seen: "Related") -> int:
        """Record what was found out about unknown orders; return how many of them are new.

        It is recorded by transaction, and only where every order is as it was seen: a person may
        have decided on one of them meanwhile, or another job may have made one.
        """
        now = self.related(seen)
        recovered = {
            each.index: found[each.index]
            for name, before in seen.items()
            if now[name] == before
            for each in before
            if each.state is OrderState.UNKNOWN and each.index in found
        }
        self.change(Transition.RECOVER, recovered)
        return sum(known.state == OrderState.NEW for known in recovered.values())

    def reopen(self, *, look_up: bool) -> None:
        """Let what was in flight, and what is held, be looked up, since a process takes the slice.

        Args:
            look_up: Whether the orders can be looked up; else only a person can know more of
                what is held.
        """
        states = [
            state
            for state in TRANSITIONS[Transition.REOPEN]
            if look_up or state is not OrderState.HELD
        ]
        for chunk, found in self._scan(states):
            sent = [(at, known) for at, known in found if known.proof != Proof.NEVER_SENT]
            self._write([chunk], {at: _reopened(known) for at, known in sent})

    def change(self, transition: Transition, found: "Mapping[int, Known]") -> None:
        """Record what is new about orders of the slice, by position: about all of them, or none.

        Raises:
            JournalError: If one of them is in no state that may become that.
        """
        positions = sorted(found)
        chunks = self._chunks_at(positions)
        own = [chunk for chunk in chunks if self.slice_number in {None, chunk.slice}]
        known, changed = _merged(own), dict[int, Known]()
        for at in positions:
            before = known.get(at, Known("not there"))
            changed[at] = _changed(before, found[at], transition)
            is_open = before.state != OrderState.NEW or bool(before.note)  # to a person
            if before.state in sources(transition, OrderState(found[at].state)) and (
                is_open or transition is not Transition.RESOLVE
            ):
                continue
            name = self.job.name
            wanted = " or ".join(repr(str(state)) for state in TRANSITIONS[transition])
            advice = f"expected {wanted}"
            if transition is Transition.RESOLVE:
                advice = _NOTHING_TO_DECIDE.get(before.state, advice)
            raise JournalError(
                f"job {name!r}: cannot {transition} order {at}, which is {str(before.state)!r}: "
                f"{advice}; nothing was changed",
                job=name,
            )
        self._write(own, changed)

    # Chunks

    def _scan(
        self, states: "Collection[OrderState]", span: range = ANYWHERE
    ) -> "Iterator[tuple[ChunkState, list[tuple[int, Known]]]]":
        """Yield chunks with orders of these positions and states, and what is known of those."""
        listed, start = f",{','.join(states)},", span.start
        given = {"slice": self.slice_number, "states": listed, "last": span.stop - 1}
        while rows := self._run(_IN_STATES, **given, start=start).fetchall():
            for chunk in map(ChunkState.read, rows):
                known = chunk.known.items()
                found = [(at, one) for at, one in known if one.state in states and at in span]
                if found:
                    yield chunk, found
            if len(rows) < _CHUNKS_AT_ONCE:
                break
            start = rows[-1][2] + 1

    def _chunks_at(self, positions: "Iterable[int]") -> list[ChunkState]:
        """Return the chunks that hold these orders, whose positions ascend."""
        chunks: list[ChunkState] = []
        for at in positions:
            if not chunks or at not in chunks[-1].known:
                chunks.append(ChunkState.read(self._run(_CHUNK, at=at).fetchone()))
        return chunks

    def _with_orders(self, picked: "Sequence[tuple[int, Known]]") -> list[JobOrder]:
        """Read orders, of which is known what; blocks side by side are read together."""
        codec, orders = self.codec, dict[int, Any]()
        starts = sorted({at - at % BLOCK for at, _ in picked})
        for _, grouped in groupby(enumerate(starts), key=lambda each: each[1] - each[0] * BLOCK):
            together = [start for _, start in grouped]
            found = self.blocks(together[0], together[-1])
            for start, bodies in zip(together, found, strict=True):
                orders |= enumerate(codec.decode(bodies, self.job.name), start)
        return [
            JobOrder(index=at, order=orders[at], known=known, operation=codec.operation)
            for at, known in picked
        ]

    def _change_whole(
        self, transition: Transition, target: OrderState, indices: "Sequence[int]", **given: object
    ) -> bool:
        """Change orders by one statement if they are a whole chunk; return whether they are."""
        if len(indices) != indices[-1] - indices[0] + 1:
            return False
        edges = {"slice": self.slice_number, "first": indices[0], "last": indices[-1]}
        values = {"ended_at": None, "sent": None, "listed": "", **given, "target": target}
        allowed = f",{','.join(sources(transition, target))},"
        return bool(self._run(_CHANGE_WHOLE, **edges, **values, sources=allowed).rowcount == 1)

    def _write(self, chunks: "Iterable[ChunkState]", new: "Mapping[int, Known]") -> None:
        for chunk in chunks:
            known = {at: new.get(at, each) for at, each in chunk.known.items()}
            if known != chunk.known:
                self.transaction.run(_WRITE, **attrs.evolve(chunk, known=known).row())

    def _run(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401  # a cursor
        return self.transaction.run(statement, job=self.job.id, **parameters)


def is_of_another_job(found: JobOrder) -> bool:
    """Return whether an order that `related` found is another job's."""
    return found.index >= ANYWHERE.stop


def _unpacked(packed: bytes) -> tuple[int, ...]:
    """Return the lookup keys of a block."""
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _merged(chunks: "Iterable[ChunkState]") -> dict[int, Known]:
    """Return what is known of the orders of some chunks, by position."""
    return {at: known for chunk in chunks for at, known in chunk.known.items()}


def _changed(known: Known, new: Known, transition: Transition) -> Known:
    """Return what is known of an order afterwards."""
    proof = new.proof
    if transition in {Transition.INTEND, Transition.RETRACT}:
        # A person's decision to send an order holds until its request ends.
        proof = Proof.BY_PERSON if known.proof == Proof.BY_PERSON else ""
        return new._replace(proof=proof, note=known.note, is_pending=known.is_pending)
    is_decided = (known.state, known.proof) == (OrderState.NEW, Proof.BY_PERSON)
    was_shown = known.proof == Proof.NEVER_SENT or is_decided  # to a person: the listed refund
    if transition is Transition.RESOLVE and new.state in {OrderState.HELD, OrderState.NEW}:
        # What the gateway said, or lists, still counts where it is decided otherwise later.
        text = _BEFORE.join(filter(None, (new.text, known.text.rpartition(_BEFORE)[2])))
        new = known._replace(state=new.state, text=text, note=new.note)
    if was_shown and new.state == OrderState.HELD:
        proof = Proof.NEVER_SENT
    if new.state == OrderState.NEW and not was_shown:
        proof = ""  # no person was shown a refund that the gateway lists by now
    return new._replace(
        proof=proof,
        note=new.note or known.note,
        item=new.item or known.item,
        ended_at=known.ended_at if new.ended_at is None else new.ended_at,
        sent=known.sent,
    )


def _reopened(known: Known) -> Known:
    """Return what is known of an order when another lease begins."""
    text = f"{_EARLIER}{known.text}" if known.proof == Proof.NOT_DONE else known.text
    text = _INTERRUPTED if known.state == OrderState.INTENT else text
    return known._replace(state=OrderState.UNKNOWN, text=text, proof="")
