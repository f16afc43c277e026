"""What is known of the orders of a job, changed chunk by chunk.

Every change finds all of its orders, locked, in states that the table of transitions names; else
nothing is changed. Who may change them is checked by `leases`, in the same transaction.
"""

from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import JournalError
from gateway_async.journal.reads import Orders, pick_known
from gateway_async.journal.rows import (
    BY_OPERATOR,
    CHUNK_COLUMNS,
    DONE,
    NEVER_SENT,
    NOT_DONE,
    ChunkState,
    Known,
    storable,
    written,
)
from gateway_async.journal.states import TRANSITIONS, JobState, Transition, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Change = Callable[[Known, int], Known]  # what is known afterwards, by that and the position

_INTERRUPTED = "it was in flight when its process ended"
_EARLIER = "earlier, "
_FOUND = ("code", "text", "said", "reference", "proof")

# A chunk whose orders are alike, and no person decided on: changed by one statement.
_WHOLE = """ WHERE job_id = :job AND first = :first AND last = :last AND slice = :slice
AND exceptions = ''"""


def _becoming(transition: Transition, target: JobState) -> str:
    """Write the change of a whole chunk's state, where it is in one that may become the target."""
    before = ", ".join(f"'{state}'" for state in sources(transition, target))
    return f"state = '{target}' {_WHOLE} AND state IN ({before})"


_INTEND = f"""
UPDATE gateway_chunks SET ended_at = NULL, sent = :sent, reference_list = '',
{_becoming(Transition.INTEND, JobState.INTENT)}"""
_SUCCEED = f"""
UPDATE gateway_chunks SET ended_at = :ended_at, reference_list = :listed,
{_becoming(Transition.CONCLUDE, JobState.SUCCEEDED)}"""
_WRITE = f"""
UPDATE gateway_chunks SET {", ".join(f"{name} = :{name}" for name in CHUNK_COLUMNS[4:])}
WHERE job_id = :job_id AND first = :first"""


@attrs.frozen
class OrderChanges(Orders):
    """Orders that may be changed: the transaction has verified the lease, or a person decides."""

    def intend(self, indices: "Sequence[int]", sent: str) -> None:
        """Record that new orders are about to be sent: they are in flight.

        Args:
            indices: Their positions, ascending; at least one.
            sent: What `noted` writes of the request.
        """

        def change(known: Known, _: int) -> Known:
            # A person's decision to send an order holds until its request ends: see `withdraw`.
            proof = BY_OPERATOR if known.proof == BY_OPERATOR else ""
            return Known(JobState.INTENT, proof=proof, note=known.note, sent=sent)

        if not self._change_whole_chunk(_INTEND, indices, sent=sent):
            self._change(Transition.INTEND, indices, change)

    def withdraw(self, indices: "Sequence[int]") -> None:
        """Record that nothing of orders in flight was sent, which is proved: they are new."""

        def change(known: Known, _: int) -> Known:
            return known._replace(state=JobState.NEW, sent="")

        self._change(Transition.WITHDRAW, indices, change)

    def conclude(
        self,
        indices: "Sequence[int]",
        known: "Sequence[Known]",
        references: "Sequence[str]",
        *,
        ended_at: float,
    ) -> None:
        """Record the outcomes of orders in flight: succeeded, declined or unknown.

        Args:
            indices: Their positions, ascending.
            known: What is known of each; `DONE` of one that succeeded.
            references: The gateway's reference of each, or "".
            ended_at: When the request ended, in seconds since the epoch.
        """
        listed = list(map(storable, references))
        given = {"ended_at": ended_at, "listed": written(listed)}
        if known.count(DONE) == len(known) and self._change_whole_chunk(_SUCCEED, indices, **given):
            return
        found = {
            # What a reply calls an order that did not succeed is no refund of this job's.
            index: one._replace(reference=reference) if one.state == JobState.SUCCEEDED else one
            for index, one, reference in zip(indices, known, listed, strict=True)
        }
        self._put(Transition.CONCLUDE, found, ended_at)

    def hold(self, found: "Mapping[int, Known]") -> None:
        """Record that new orders are not sent before a person decides."""
        self._put(Transition.HOLD, found)

    def recover(self, found: "Mapping[int, Known]", seen: "Mapping[int, JobState]") -> bool:
        """Record what was found out about unknown orders, all of it or nothing.

        Args:
            found: What was found out, by position.
            seen: The states in which these orders, and others that it rests on, were before that.

        Returns:
            Whether they are in those states still; an operator may have decided.
        """
        chunks = self._chunks_at(sorted(seen), lock=True)
        if {at: known.state for at, known in pick_known(chunks, seen).items()} != dict(seen):
            return False
        self._put(Transition.RECOVER, found)
        return True

    def reopen(self, *, look_up: bool) -> None:
        """Let what was in flight, and what is held, be looked up, since a process takes the slice.

        Args:
            look_up: Whether the orders can be looked up; else only a person can know more of what
                is held.
        """
        states = [
            state
            for state in TRANSITIONS[Transition.REOPEN]
            if look_up or state is not JobState.HELD
        ]
        for chunk, found in self._scan(states):
            sent = [(at, known) for at, known in found if known.proof != NEVER_SENT]
            self._write([chunk], {at: _reopened(known) for at, known in sent})

    def resolve(self, positions: "Sequence[int]", state: JobState, note: str) -> None:
        """Record what a person decided on unknown or held orders."""
        text = f"decided by a person: {note}"
        decided = Known(state, text=text, proof=BY_OPERATOR, note=storable(note))
        self._put(Transition.RESOLVE, dict.fromkeys(positions, decided))

    def _change_whole_chunk(
        self, statement: str, indices: "Sequence[int]", **given: object
    ) -> bool:
        """Change orders by one statement if they are a whole chunk; return whether they are."""
        if len(indices) != indices[-1] - indices[0] + 1:
            return False
        edges = {"slice": self.slice_number, "first": indices[0], "last": indices[-1]}
        return bool(self._run(statement, **edges, **given).rowcount == 1)

    def _put(
        self, transition: Transition, found: "Mapping[int, Known]", ended_at: float | None = None
    ) -> None:
        """Record what was found out about orders, by position: state, texts and proof of each."""

        def change(known: Known, index: int) -> Known:
            new = found[index]
            texts: dict[str, Any] = {name: storable(getattr(new, name)) for name in _FOUND}
            texts |= {"item": new.item or known.item, "note": new.note or known.note}
            ended = known.ended_at if ended_at is None else ended_at
            return known._replace(state=new.state, ended_at=ended, **texts)

        self._change(transition, sorted(found), change)

    def _change(self, transition: Transition, positions: "Sequence[int]", change: "Change") -> None:
        """Change orders of the slice.

        Raises:
            JournalError: If one of them was in no state that may become that.
        """
        chunks = self._chunks_at(positions, lock=True)
        own = [chunk for chunk in chunks if self.slice_number in {None, chunk.slice}]
        known, new = pick_known(own, positions), dict[int, Known]()
        for at in positions:
            found = known.get(at, Known("not there"))
            new[at] = change(found, at)
            if found.state in sources(transition, JobState(new[at].state)):
                continue
            name = self.job.name
            wanted = " or ".join(repr(str(state)) for state in TRANSITIONS[transition])
            is_early = transition is Transition.RESOLVE and found.state == JobState.INTENT
            advice = ": run the job again first" if is_early else ""
            raise JournalError(
                f"job {name!r}: cannot {transition} orders {min(positions)} to {max(positions)}: "
                f"expected {wanted}, but order {at} is {str(found.state)!r}{advice}; "
                "nothing was changed",
                job=name,
            )
        self._write(own, new)

    def _write(self, chunks: "Iterable[ChunkState]", new: "Mapping[int, Known]") -> None:
        for chunk in chunks:
            known = [new.get(at, each) for at, each in zip(chunk.span, chunk.known, strict=True)]
            if known != chunk.known:
                self.transaction.run(_WRITE, **attrs.evolve(chunk, known=known).row())


def _reopened(known: Known) -> Known:
    """Return what is known of an order when another lease begins."""
    text = f"{_EARLIER}{known.text}" if known.proof == NOT_DONE else known.text
    text = _INTERRUPTED if known.state == JobState.INTENT else text
    return known._replace(state=JobState.UNKNOWN, text=text, proof="")
