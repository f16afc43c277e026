"""`jobs resolve`: decide what became of orders that are in doubt."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from gateway_async.cli.commands.common import DONE, RefusedError
from gateway_async.cli.commands.journals import on_journal
from gateway_async.cli.jobs import layout_of, naming_columns, rows_of
from gateway_async.cli.options import GatewayOptions, JournalOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.cli.talk import Talk
    from gateway_async.journal import Journal

_DECISIONS = ("succeeded", "declined", "not_sent", "unknown")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
_SHOWN = 40
_NAMED = 5

_InDoubt = Literal["held", "unknown"]


def resolve(
    name: str,
    /,
    *which: str,
    note: str | None = None,
    state: Annotated[tuple[_InDoubt, ...], Parameter(negative="", consume_multiple=False)] = (),
    journal: JournalOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Decide what became of orders that are in doubt: of all that are named, or of none.

    Nothing is sent.

    Args:
        name: The name of the job.
        which: The positions of the orders in the job, from 0, as `jobs show` tells them, such as
            17 or 151-199; then what became of them: succeeded, declined, unknown, or not_sent,
            which lets the next run send them.
        note: Why, such as "seen in the merchant portal"; it must be given, and is kept.
        state: Only the orders in this state, of those that are named or else of the whole job;
            may be repeated.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        *named, status = which or ("",)
        spans = [_span(text) for one in named for text in one.split(",")]
        _check(status, note, is_any=bool(spans or state))
        orders = await _orders(found, name, spans, state)
        await found.resolve(name, orders, status, str(note))
        how_many = "1 order is" if len(orders) == 1 else f"{len(orders):,} orders are"
        text = f"job {name}: {how_many} {status}: {await _named(found, name, orders)}"
        talk.tell("resolved", text, index=orders[:_NAMED], count=len(orders))
        return DONE

    return on_journal(gateway, journal, work)


def _span(text: str) -> range:
    """Read positions: one, or the first and the last of several."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise RefusedError(
            f"index: expected positions such as 17 or 151-199, got {text[:_SHOWN]!r}"
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise RefusedError(f"index: expected the lower position first, got {text[:_SHOWN]!r}")
    return range(first, last + 1)


def _check(status: str, note: str | None, *, is_any: bool) -> None:
    if status not in _DECISIONS:
        got = f", got {status[:_SHOWN]!r}" if status else ""
        raise RefusedError(
            f"status: expected one of {', '.join(_DECISIONS)} behind the positions{got}"
        )
    if not is_any:
        raise RefusedError(
            "index: say which orders, by their positions as `jobs show` tells them, such as 17 or "
            "151-199, or by --state held"
        )
    if note is None or not note.strip():
        raise RefusedError('--note: say why, such as --note "seen in the merchant portal"')


async def _orders(
    journal: "Journal", name: str, spans: "Sequence[range]", state: "Sequence[str]"
) -> list[int]:
    """Return the positions that are meant."""
    total = (await journal.status(name)).total
    for span in spans:
        if span[-1] >= total:
            raise RefusedError(
                f"index: job {name} has {total:,} orders, from 0 to {total - 1}; there is no "
                f"{span[-1]}"
            )
    meant = {index for span in spans for index in span}
    if not state:
        return sorted(meant)
    found = [
        row.index
        async for row in rows_of(journal, name)
        if row.state.value in state and (not spans or row.index in meant)
    ]
    if not found:
        raise RefusedError(f"--state: no order of them in job {name} is {' or '.join(state)}")
    return found


async def _named(journal: "Journal", name: str, orders: "Sequence[int]") -> str:
    """Name the first orders as people know them: a position is soon mistaken for another."""
    rows = [row for n in orders[:_NAMED] for row in await journal.rows(name, after=n - 1, limit=1)]
    column = naming_columns(layout_of(await journal.status(name)))[-1]
    named = [f"{row.index} ({column} {getattr(row.order, column)})" for row in rows]
    more = len(orders) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
