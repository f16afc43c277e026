"""Changes of stretches, written into the database.

Law: a stretch is written anew only where it is still as it was read; else nothing is changed. Who
may change what, and into which state, is not known here.
"""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from gateway_async.errors import JournalError
from gateway_async.journal.codec import storable
from gateway_async.journal.schema import STATES
from gateway_async.journal.stretches import Stretch, redraw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.stretches import Change
    from gateway_async.journal.writer import Transaction

LONGEST_TEXT = 1000
"""How much of a text is kept beside an order."""

_TOLD = ("last", *(name for name in Stretch._fields if name not in ("first", "last", "slice")))
_REDRAW = (
    STATES.update()
    .where(
        STATES.c.job_id == sa.bindparam("the_job"),
        STATES.c.first == sa.bindparam("the_first"),
        STATES.c.last == sa.bindparam("known_last"),
        STATES.c.state == sa.bindparam("known_state"),
    )
    .values({name: sa.bindparam(f"the_{name}") for name in _TOLD})
)
_CUT_OFF = STATES.insert().values(
    job_id=sa.bindparam("the_job"),
    **{name: sa.bindparam(f"the_{name}") for name in Stretch._fields},
)
_NAMES = tuple(f"the_{name}" for name in Stretch._fields)


def cut(text: str) -> str:
    """Return as much of a text as is kept."""
    return storable(text[:LONGEST_TEXT])


def write_changes(
    inside: "Transaction", job_id: int, known: "Sequence[Stretch]", changes: "Sequence[Change]"
) -> None:
    """Write the stretches that changes make of those that are known.

    Raises:
        JournalError: If one of them is not as it is known.
    """
    for was, (first, *cut_off) in redraw(known, changes):
        changed = inside.hot(
            _REDRAW,
            the_job=job_id,
            known_last=was.last,
            known_state=was.state,
            **_parameters(first),
        )
        if changed.rowcount != 1:
            raise JournalError("another process changed the same orders in the journal meanwhile")
        for stretch in cut_off:
            inside.hot(_CUT_OFF, the_job=job_id, **_parameters(stretch))


def _parameters(stretch: Stretch) -> "dict[str, Any]":
    return dict(zip(_NAMES, stretch, strict=True))
