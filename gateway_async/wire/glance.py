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

import contextlib
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
_NAMED = b'"%s":' % SIGNATURE_FIELD.encode()
_UNSIGNED = _NAMED + b'""'


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
        self, reply: bytes, payload: "Mapping[str, Any]", overall: tuple[str | None, str | None]
    ) -> None:
        """Learn the layout of a reply that was judged to be all of success, in our order.

        Args:
            reply: The reply, as `without_signatures` returns it: with one signature at most, or
                with white space, in which nothing is recognised.
            payload: The same decoded, no field of it named twice.
            overall: Code and text of its overall result.
        """
        if self._learnt >= _MOST_LAYOUTS:
            return
        self._learnt += 1
        opening, around = b'"%s":[' % self._list_field.encode(), None
        head, end = reply.partition(opening)[0] + opening, reply[reply.rfind(b"}]") + 1 :]
        tail = self._tail(payload[self._list_field][0])
        if tail is None or len(head) + len(tail) + len(end) > _MOST_BYTES:
            return
        with contextlib.suppress(orjson.JSONDecodeError):
            around = orjson.loads(head + end)
        signature = {SIGNATURE_FIELD: ""} if SIGNATURE_FIELD in payload else {}
        if around != {**payload, self._list_field: [], **signature}:  # the list is not at the top
            return
        head_pattern, end_pattern = (
            re.compile((re.escape(_NAMED) + _SIGNATURE).join(map(re.escape, part.split(_UNSIGNED))))
            for part in (head, end)
        )
        self._layout = _Layout(head_pattern, re.compile(tail), end_pattern, overall)

    def _tail(self, item: "Mapping[str, Any]") -> bytes | None:
        """Return the pattern of what a reply adds to an order; None unless it is plain texts."""
        added = {name: value for name, value in item.items() if name not in self._order_fields}
        are_last = [*item][-len(added) :] == [*added]
        if not are_last or self._status_field not in added:
            return None
        pattern = b""
        for name, value in added.items():
            if not isinstance(value, str):
                return None
            named, text = b",%s:" % orjson.dumps(name), orjson.dumps(value)
            is_literal = name == self._status_field or name in MESSAGES
            pattern += re.escape(named) + (re.escape(text) if is_literal else _FREE)
        return pattern + rb"\}"
