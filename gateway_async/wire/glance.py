"""Recognises the usual reply: the list that was sent, with a tail of success at each order.

It proves success of every order, or proves nothing; `judge` stays the only judge. A layout is
learnt from a reply in which `judge` found that all orders succeeded, in our order. A later reply is
proved if three things hold:

- Before and after the list it is the same text, byte by byte, but for the signature.
- Once one tail of success is cut from the end of each item, the list is the text that was sent: so
  identity, amounts and currency are those sent, no field is named twice, and none is extra.
- Tails end at a brace, and the text that was sent has one closing brace an order (see
  `EncodedChunk.array`), so each order has its own tail. Only printable ASCII without quotes and
  backslashes may differ between tails.

The module is pure. It does not know what a request is, and keeps one layout of each operation. Of a
gateway that writes white space between its fields, it learns nothing.
"""

import re
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.decode import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.operations import Operation

_MOST_LAYOUTS = 16
"""So many are learnt in a row without a use: replies that differ each time have no layout."""

_MOST_BYTES = 4096
"""A layout with more text around the orders is not learnt: its patterns compile too slowly."""

_FREE = rb'"[ !#-\[\]-~]*+"'
_SIGNATURE = rb'"([ !#-\[\]-~]*)"'


@attrs.frozen
class _Layout:
    """The texts around the orders in a reply of success, and its overall result."""

    head: re.Pattern[bytes]
    tail: re.Pattern[bytes]
    end: re.Pattern[bytes]
    overall: tuple[str | None, str | None]


class Glance:
    """Recognises replies of success to one operation.

    Args:
        operation: What is asked for.
    """

    def __init__(self, operation: "Operation") -> None:
        self._list_field = operation.list_field
        self._status_field = operation.status_field
        self._order_fields = attrs.fields_dict(operation.order_class)
        self._layout: _Layout | None = None
        self._learnt = 0

    def prove(
        self, reply: bytes, sent: bytes, orders: int
    ) -> tuple[bytes, tuple[str | None, str | None]] | None:
        """Return the reply without its signature if it proves that every order succeeded.

        Args:
            reply: The reply, as it came.
            sent: The JSON array of the orders, as it was sent; empty where a value has a brace.
            orders: How many they are.

        Returns:
            The reply, with code and text of its overall result; None where it proves nothing at a
            glance.
        """
        layout, view = self._layout, memoryview(reply)  # whose slices are no copies
        if layout is None or not sent:
            return None
        head = layout.head.match(reply)
        close = reply.rfind(b"}]") + 1
        end = layout.end.fullmatch(reply, close)
        if head is None or end is None or close < head.end():
            return None
        items = layout.tail.split(view[head.end() - 1 : close + 1])
        if len(items) != orders + 1 or b"}".join(items) != sent:
            return None
        self._learnt = 0
        signed = head if head.groups() else end
        start, stop = signed.span(1) if signed.groups() else (0, 0)
        kept = reply if start == stop else b"".join((view[:start], view[stop:]))
        return kept, layout.overall

    def learn(
        self,
        reply: bytes,
        payload: "Mapping[str, Any]",
        sent: bytes,
        overall: tuple[str | None, str | None],
    ) -> None:
        """Learn the layout of a reply that was judged to be all of success, in our order.

        Args:
            reply: The reply, as `without_signatures` returns it: with one signature at most, or
                with white space, in which nothing is recognised.
            payload: The same decoded, no field of it named twice.
            sent: The JSON array of the orders, as it was sent; empty where a value has a brace.
            overall: Code and text of its overall result.
        """
        if self._learnt >= _MOST_LAYOUTS or not sent:
            return
        self._learnt += 1
        opening = b'"%s":[' % self._list_field.encode()
        before, found, rest = reply.partition(opening)
        close = rest.rfind(b"}]") + 1
        first = sent[1 : sent.find(b"}")]
        if not (found and close and rest.startswith(first)):
            return
        head, end = before + opening, rest[close:]
        added = rest[len(first) : rest.find(b"}", len(first))]
        if len(head) + len(added) + len(end) > _MOST_BYTES:
            return
        tail = self._tail(added)
        around = _loaded(head + end)
        if tail is None or around is None or self._list_field not in around:
            return
        signature = {name: around[name] for name in around if name == SIGNATURE_FIELD}
        if around != {**payload, self._list_field: [], **signature}:  # the list is not at the top
            return
        named = b'"%s":' % SIGNATURE_FIELD.encode()
        written = named + orjson.dumps(signature.get(SIGNATURE_FIELD, ""))
        head_pattern, end_pattern = (
            re.compile((re.escape(named) + _SIGNATURE).join(map(re.escape, part.split(written))))
            for part in (head, end)
        )
        self._layout = _Layout(head_pattern, tail, end_pattern, overall)

    def _tail(self, text: bytes) -> re.Pattern[bytes] | None:
        """Return the pattern of what a reply adds to an item; None unless it is plain texts."""
        added = _loaded(b"{" + text.removeprefix(b",") + b"}")
        if added is None or self._status_field not in added:
            return None
        written, pattern = b"", b""
        for name, value in added.items():
            may_be_sent = name in self._order_fields or name == SIGNATURE_FIELD
            if may_be_sent or not isinstance(value, str):
                return None
            named = b",%s:" % orjson.dumps(name)
            pair = named + orjson.dumps(value)
            is_literal = name == self._status_field or name in MESSAGES
            written += pair
            pattern += re.escape(pair) if is_literal else re.escape(named) + _FREE
        return re.compile(pattern + rb"\}") if written == text else None


def _loaded(text: bytes) -> Any:  # noqa: ANN401  # as JSON has it
    """Return the JSON object that a text within braces is; None where it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
