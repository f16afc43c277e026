"""What would be sent, without sending it: no network at all."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gateway_async.batching.feed import OrderFeed
from gateway_async.cli.talk import standard_output
from gateway_async.errors import NotSentError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import MASK
from gateway_async.operations import OPERATIONS, PAYOUT
from gateway_async.wire.encode import JsonText, encode_chunk, encode_fields, written_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from gateway_async.batching.feed import Chunk
    from gateway_async.cli.inputs import InputFile
    from gateway_async.cli.layouts import Layout
    from gateway_async.cli.settings import Settings
    from gateway_async.operations import Operation

_CHUNKS_SHOWN = 20
_NOTHING_SENT = NotSentError("nothing was sent: this is the plan alone")


async def _chunks(
    operation: "Operation", settings: "Settings", file: "InputFile"
) -> "AsyncIterator[Chunk]":
    """Cut the orders into the chunks that a batch would send."""
    feed = OrderFeed(operation, settings.dialect, settings.policy, file.orders())
    while not feed.is_done:
        await feed.fill()
        chunk = feed.take()
        if chunk is None:
            return
        yield chunk
        feed.release(chunk.failed(_NOTHING_SENT, OutcomeStatus.NOT_SENT))


def show_plan(layout: "Layout", settings: "Settings", file: "InputFile") -> None:
    """Show the requests that a batch would make, and the first of them in full, unsigned."""
    asyncio.run(_show_plan(layout, settings, file))


async def _show_plan(layout: "Layout", settings: "Settings", file: "InputFile") -> None:
    operation = OPERATIONS[layout.method]
    console = standard_output()
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("request", "orders", "first order", "last order"):
        table.add_column(name, justify="right" if name in {"request", "orders"} else "left")
    sizes: Counter[int] = Counter()
    first = None
    async for chunk in _chunks(operation, settings, file):
        first = first or chunk
        sizes[len(chunk)] += 1
        if sizes.total() <= _CHUNKS_SHOWN:
            table.add_row(
                str(sizes.total()),
                str(len(chunk)),
                *map(_named, (chunk.orders[0], chunk.orders[-1])),
            )
    _say_what_is_in(console, layout.operation, file)
    where = settings.address_of(operation.path)
    _print(console, f"{_plural(sizes.total(), 'request')} to {where}: {_sizes(sizes)}")
    recovery = settings.recovery
    if layout.operation == "refund" and recovery.record_baseline:
        _print(console, "before each of them, the refunds that there are by then are looked up")
    console.print(table)
    if sizes.total() > _CHUNKS_SHOWN:
        _print(console, f"... and {sizes.total() - _CHUNKS_SHOWN:,} more requests")
    if first is not None:
        if recovery.refund_evidence == "marker" and layout.operation == "refund":
            _print(console, "each refund_reason will begin with a marker of the run")
        _print(console, "the first request, without identity and signature:")
        encoded = encode_chunk(operation, first.orders, settings.dialect)
        for name, text in _written(encoded.fields, operation, settings).items():
            _print(console, f"{name} = {_one_a_line(text)}")
    _print(console, "nothing was sent")


def show_payouts(settings: "Settings", file: "InputFile") -> None:
    """Show what payouts there are, and the first of them unsigned, its accounts hidden."""
    console = standard_output()
    _say_what_is_in(console, "payout", file)
    requests = _plural(file.totals.orders, "request")
    _print(console, f"{requests} to {settings.address_of(PAYOUT.path)}, one a payout")
    _print(console, "the first request, without identity and signature; accounts are not shown:")
    fields = encode_fields(_masked(next(file.orders())), settings.dialect)
    for name, text in _written(fields, PAYOUT, settings).items():
        _print(console, f"{name} = {_indented(text)}")
    _print(console, "nothing was sent")


def _written(
    fields: "Mapping[str, str]", operation: "Operation", settings: "Settings"
) -> "Mapping[str, str]":
    """Return fields as the body of their request has them."""
    dialect = settings.dialect
    body_format = dialect.body_formats.get(operation.name, operation.body)
    return written_fields(fields, body_format, dialect)


def _say_what_is_in(console: Console, operation: str, file: "InputFile") -> None:
    _print(console, f"{operation}: {file.totals}")
    if file.unread:
        _print(console, f"columns that are not sent: {file.unread}")


def _masked(value: Any) -> Any:  # noqa: ANN401  # any value
    """Return a copy of a model that has a mask wherever its repr shows nothing."""
    if isinstance(value, tuple):
        return tuple(map(_masked, value))
    if not attrs.has(type(value)):
        return value
    shown = {
        field.name: _masked(found) if field.repr else MASK
        for field in attrs.fields(type(value))
        if (found := getattr(value, field.name)) is not None
    }
    return attrs.evolve(value, **shown)


def _one_a_line(text: str) -> str:
    """Give each order of a list a line of its own."""
    if not isinstance(text, JsonText):
        return text
    lines = [orjson.dumps(row).decode() for row in orjson.loads(text.encode())]
    return "\n  ".join(["[", *(f"{line}," for line in lines[:-1]), lines[-1]]) + "\n]"


def _indented(text: str) -> str:
    """Give each field of an object a line of its own."""
    if not isinstance(text, JsonText):
        return text
    return orjson.dumps(orjson.loads(text.encode()), option=orjson.OPT_INDENT_2).decode()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _sizes(sizes: "Counter[int]") -> str:
    return ", ".join(
        f"{count:,} of {_plural(size, 'order')}"
        for size, count in sorted(sizes.items(), reverse=True)
    )


def _named(order: Any) -> str:  # noqa: ANN401  # any order
    return str(order.order_no or order.transaction_id)
