"""What would be sent, without sending it: no network at all."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.batching.feed import OrderFeed
from gateway_async.errors import NotSentError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import MASK
from gateway_async.operations import OPERATIONS, Operation, OperationClass
from gateway_async.wire.encode import JsonText, encode_chunk, encode_fields, written_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway_async.batching.feed import Chunk
    from gateway_async.cli.layouts import Layout
    from gateway_async.cli.orders import InputFile
    from gateway_async.cli.settings import Settings

_REQUESTS_SHOWN = 3
_NOTHING_SENT = NotSentError("nothing was sent: this is the plan alone")


def plan(layout: "Layout", settings: "Settings", file: "InputFile") -> dict[str, Any]:
    """Return what `--dry-run --json` prints: totals, and the first requests, unsigned."""
    return asyncio.run(_plan(layout, settings, file))


def plan_lines(layout: "Layout", settings: "Settings", file: "InputFile") -> "Iterator[str]":
    """Yield the plan as lines for people."""
    planned, recovery = plan(layout, settings, file), settings.recovery
    yield f"{layout.command}: {file.totals}"
    if file.unread:
        yield f"columns that are not sent: {file.unread}"
    count, sizes = planned["requests"], planned["orders_in_requests"]
    listed = ", ".join(f"{n:,} with {size} order{'s' * (size != '1')}" for size, n in sizes.items())
    yield f"{count:,} request{'s' * (count != 1)} to {planned['url']}: {listed}"
    if layout.command == "refund" and recovery.record_baseline:
        yield "before each of them, the refunds that there are by then are looked up"
    if layout.command == "refund" and recovery.refund_evidence == "marker":
        yield "each refund_reason will begin with a marker of the run"
    for number, body in enumerate(planned["first"], 1):
        yield f"request {number}, without identity and signature:"
        yield from (f"{name} = {text}" for name, text in body.items())
    if count > len(planned["first"]):
        yield f"... and {count - len(planned['first']):,} more requests"
    yield "nothing was sent"


async def _plan(layout: "Layout", settings: "Settings", file: "InputFile") -> dict[str, Any]:
    """Cut the orders into the chunks that a batch would send, and encode the first of them."""
    operation = OPERATIONS[layout.method]
    feed = OrderFeed(operation, settings.dialect, settings.policy, file.orders())
    sizes, first = Counter[int](), list[dict[str, str]]()
    while not feed.is_done:
        await feed.fill()
        chunk = feed.take()
        if chunk is None:
            break
        sizes[len(chunk)] += 1
        if len(first) < _REQUESTS_SHOWN:
            first.append(_body(operation, chunk, settings))
        feed.release(chunk.failed(_NOTHING_SENT, OutcomeStatus.NOT_SENT))
    return {
        "dry_run": True,
        "command": layout.command,
        "orders": file.totals.orders,
        "amounts": {code: str(amount) for code, amount in sorted(file.totals.amounts.items())},
        "url": settings.address_of(operation.path),
        "requests": sizes.total(),
        "orders_in_requests": {str(size): n for size, n in sorted(sizes.items(), reverse=True)},
        "first": first,
    }


def _body(operation: Operation, chunk: "Chunk", settings: "Settings") -> dict[str, str]:
    """Return the fields of a request, masked as in a repr: no account, identity or signature."""
    dialect, orders = settings.dialect, [_masked(order) for order in chunk.orders]
    if operation.kind is OperationClass.KEYED:
        fields: Mapping[str, str] = encode_fields(orders[0], dialect)
    else:
        fields = encode_chunk(operation, orders, dialect).fields
    body_format = dialect.body_formats.get(operation.name, operation.body)
    written = written_fields(fields, body_format, dialect)
    return {name: _laid_out(text) for name, text in written.items()}


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


def _laid_out(text: str) -> str:
    """Give each order of a list, or each field of an object, a line of its own."""
    if not isinstance(text, JsonText):
        return text
    value = orjson.loads(text.encode())
    if not isinstance(value, list):
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    lines = [orjson.dumps(one).decode() for one in value]
    return "\n  ".join(["[", *(f"{line}," for line in lines[:-1]), lines[-1]]) + "\n]"
