"""Reply bodies to plain values: JSON, XML and HTML (sections 2 and 4 of the interface).

A body is brought to UTF-8 first, by `in_utf8`; all else reads UTF-8. Every reader either reads the
whole body or raises `ReplyUnreadableError`, and nothing else. A message says what kind of thing
came, and never quotes it: replies hold personal data. No document type definition and no entity is
ever expanded.
"""

import contextlib
import functools
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import orjson
import webencodings
from defusedxml.ElementTree import fromstring

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.records import CheckoutPage
from gateway_async.models.values import mask_cards
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.encode import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from xml.etree.ElementTree import Element

_XML = "XML"
MESSAGES = ("error_message", "refund_message", "failure_reason")
"""Fields of an item that hold the reason why it was not done."""
_LONGEST_SHOWN = 200
_LONGEST_MESSAGE = 1000

_BODY_KINDS = {b"": "an empty body", b"<": _XML, b"{": "a JSON object", b"[": "a JSON array"}


def kind_of(body: bytes) -> str:
    """Say what kind of thing a body is, and nothing of its content."""
    start = body.strip()[:20].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    return _BODY_KINDS.get(start[:1], "something else")


# Charsets

_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
_DECLARATION = re.compile(
    rb"\A\s*<\?xml\s[^<>]{0,100}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"'][^<>]{0,100}\?>"
)
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)


@functools.lru_cache
def charset_of(content_type: str) -> str | None:
    """Return the charset that a Content-Type header names."""
    found = _CHARSET.search(content_type)
    return found[1] if found else None


def encoding_of(charset: str) -> webencodings.Encoding | None:
    """Return the encoding that browsers read a charset label as; None if it is not known."""
    found = webencodings.lookup(charset) if charset.isascii() else None
    return webencodings.lookup("gb18030") if found and found.name == "gbk" else found


def in_utf8(body: bytes, content_type: str = "") -> bytes:
    """Return a body in UTF-8, without a byte order mark.

    Four things may name the charset, and the first of them counts: a byte order mark, the
    declaration of XML, the header, the `meta` element of a page. Header and `meta` count only if
    the body is not UTF-8: many servers send one header with everything. A body that fits none of
    them stays as it is.
    """
    charset = charset_of(content_type)
    if body[:1] == b"{" and (charset is None or charset.lower() == "utf-8"):
        return body  # as most are
    if declared := _DECLARATION.match(body):
        labels = [declared[1].decode()]
    else:
        meta = _META.search(body, 0, 1024)
        labels = ["utf-8", charset or "", meta[1].decode() if meta else ""]
    for encoding in filter(None, map(encoding_of, labels)):
        with contextlib.suppress(UnicodeError):
            text, _ = webencodings.decode(body, encoding, "strict")  # a mark counts for more
            written = text.encode()
            if encoding is webencodings.UTF8 and written == body:
                return body
            # A declaration of another encoding would be wrong now.
            return _DECLARATION.sub(b"", written)
    return body


# JSON

_UNREADABLE = "one that is broken, truncated, nested too deep, or names a field twice"
NO_DIGITS = bytes({*range(256)} - {*b"0123456789"})
_SURROGATE, _REPLACEMENT = rb"\ud", rb"\ufffd"
_ESCAPE = re.compile(
    rb"(\\(?:[^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""An escape that says something, or else half a surrogate pair."""


def decode_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Half a surrogate pair, as is left of a text that was cut off, is read as U+FFFD. An integer
    keeps all of its digits.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object, nested 250 deep at most.
    """
    text = _with_whole_characters(body)
    with contextlib.suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):  # which hold the body
        value = orjson.loads(text)
        if isinstance(value, dict):
            written = orjson.dumps(value)
            if written == text or _kept(written) == _kept(text):  # or written otherwise
                return value
            with contextlib.suppress(ValueError):
                return dict(json.loads(text, object_pairs_hook=_distinct))
    is_object = text.startswith(b"{")
    problem = _UNREADABLE if is_object else kind_of(text)
    raise ReplyUnreadableError(f"expected a JSON object, got {problem} ({len(body)} bytes)")


def _kept(text: bytes) -> tuple[bytes, int]:
    """Return what of a text must not be lost: digits, and names and texts by their quotes."""
    return text.translate(None, NO_DIGITS), text.count(b'"')


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if any(fields[name] != value for name, value in pairs):
        raise ValueError
    return fields


def _with_whole_characters(body: bytes) -> bytes:
    """Return the text of a body, with U+FFFD in the place of half a surrogate pair."""
    text = body.strip()
    if b"\\" in text and _SURROGATE in text.lower():
        return _ESCAPE.sub(lambda found: found[1] or _REPLACEMENT, text)
    return text


_SIGNATURE = re.compile(rb'"encryption_data"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_SIGNATURE_NAME = b'"encryption_data"'


def without_signatures(
    reply: bytes, payload: "Mapping[str, Any]"
) -> "tuple[bytes, Mapping[str, Any]]":
    """Take the signatures from a JSON reply.

    Args:
        reply: The reply.
        payload: The same decoded.

    Returns:
        The reply with every signature in it emptied, and what it says; the one beside its items
        may still be in that.
    """
    named, found = reply.count(_SIGNATURE_NAME), _SIGNATURE.search(reply)
    if not named:
        return reply, payload
    if found and named == 1 and SIGNATURE_FIELD in payload:
        return reply[: found.start(1)] + reply[found.end(1) :], payload
    for part in signed_parts(payload):
        part[SIGNATURE_FIELD] = ""
    return json.dumps(payload).encode(), payload


def signed_parts(payload: "Mapping[str, Any]") -> "Iterator[dict[str, Any]]":
    """Yield each object that has a signature, however deep: without recursion, as it may be."""
    left: list[Any] = [payload]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get(SIGNATURE_FIELD):
                yield part
            left += part.values()
        elif isinstance(part, list):
            left += part


# XML

_DEEPEST = 32
_MOST_TAGS = 100_000
"""A tree takes up to 90 times the memory of its text."""
_UNREADABLE_XML = "XML that is another, broken, truncated or too large, or has a document type"


def decode_respon(body: bytes) -> dict[str, Any]:
    """Return the elements below the root element `respon`, by name.

    An element without children is its text, one with children is a dict, and elements of the same
    name are a list. Attributes, namespaces and text beside elements are dropped; none is shown.

    Raises:
        ReplyUnreadableError: For anything else, for a document type definition or an entity
            declaration, for more than 100,000 tags, and for elements nested more than 32 deep.
    """
    trimmed = body.strip()
    # A ValueError is a document type, or, as a LookupError, an encoding that is not known.
    with contextlib.suppress(SyntaxError, ValueError, LookupError, RecursionError):
        may_read = trimmed.count(b"<") <= _MOST_TAGS
        if may_read and (root := _tree_of(trimmed)).tag.rpartition("}")[2] == "respon":
            return _children_of(root)
    kind = kind_of(trimmed)
    problem = _UNREADABLE_XML if kind == _XML else kind
    raise ReplyUnreadableError(f"expected XML <respon>, got {problem} ({len(body)} bytes)")


def _tree_of(text: bytes) -> "Element":
    """Parse XML: where it can declare nothing, by the parser of Python, in a sixth of the time."""
    may_declare = b"<!" in text or b"\0" in text  # the latter in UTF-16
    root: Element = fromstring(text, forbid_dtd=True) if may_declare else ET.XML(text)
    return root


def _children_of(element: "Element", depth: int = 2) -> dict[str, Any]:
    """Return the children of an element, which are so deep, by name: texts, or their own children.

    Raises:
        RecursionError: For elements that are nested too deep.
    """
    if depth > _DEEPEST:
        raise RecursionError
    found: dict[str, list[Any]] = {}
    for child in element:
        value = _children_of(child, depth + 1) if len(child) else child.text or ""
        found.setdefault(child.tag.rpartition("}")[2], []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


# Pages

_SEARCHED_CHARACTERS = 262_144
_PAGE_TAGS = frozenset(
    ("html", "head", "body", "title", "meta", "link", "base", "style", "script", "form", "div")
)


def decode_page(body: bytes) -> CheckoutPage:
    """Return the page that a checkout answers with (section 4.1), its HTML untouched.

    The title and the form's address are looked for in the first 262,144 characters.

    Raises:
        ReplyUnreadableError: For anything but a page, and for bytes that its charset lacks.
    """
    reader, html, problem = _PageReader(), body.decode(errors="replace"), kind_of(body)
    with contextlib.suppress(AssertionError, ValueError):
        # A malformed declaration, and a character's number too long for `int`; what was found
        # before them stands.
        reader.feed(html[:_SEARCHED_CHARACTERS])
    is_json = html.lstrip().startswith(("{", "["))  # whose texts may hold tags
    if reader.first_tag in _PAGE_TAGS and not is_json:
        if html.encode() == body:
            return CheckoutPage(html=html, title=reader.title, action=reader.action)
        problem = "one that is neither in utf-8 nor in the charset that it names"
    raise ReplyUnreadableError(f"expected an HTML page, got {problem} ({len(body)} bytes)")


class _PageReader(HTMLParser):
    """Finds the title of a page, and the address of the first form that posts to one."""

    def __init__(self) -> None:
        super().__init__()
        self.first_tag: str | None = None
        self.title: str | None = None
        self.action: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.first_tag = self.first_tag or tag
        attributes = dict(attrs)
        if tag == "form" and (attributes.get("method") or "").lower() == "post":
            self.action = self.action or attributes.get("action")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "title" and self.title is None:
            self.title = data


# The fields that a signature covers


def reply_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a reply as text, to verify its signature.

    In JSON, a string is its text and anything else the very slice of the reply. In XML, an
    element without children is its text; others, which have no text, are given as compact JSON.

    Raises:
        ReplyUnreadableError: For anything but a JSON object or the XML `respon`.
    """
    if not body.lstrip().startswith(b"<"):
        decode_json(body)
        return dict(_slices(_with_whole_characters(body).decode()))
    return {
        name: value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
        for name, value in decode_respon(body).items()
    }


def _slices(text: str) -> "Iterator[tuple[str, str]]":
    """Yield name and text of each top-level field of a JSON object known to be valid."""
    decode = json.JSONDecoder().raw_decode
    blank = re.compile(r"[ \t\r\n]*[,:{]?[ \t\r\n]*").match

    def skip(position: int) -> int:
        match = blank(text, position)
        return match.end() if match else position

    position = skip(0)
    while text[position] != "}":
        name, position = decode(text, position)
        start = skip(position)
        value, position = decode(text, start)
        yield name, value if text[start] == '"' else JsonText(text[start:position])
        position = skip(position)


# Values


def identifier(value: object) -> str | None:
    """Read an identifier or code: text, or an integer as text; None for anything else.

    A float stands for digits that are lost, so it names nothing.
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def message(value: object) -> str | None:
    """Read a code or text that users see: as `identifier`, on one line, card numbers masked.

    Of a long one, this is the beginning: each order of a reply may have it in its error.
    """
    text = identifier(value)
    if text is None:
        return None
    # Cut far behind what is shown, so that no card number is half of one when it is masked.
    return mask_cards(" ".join(text[: 4 * _LONGEST_MESSAGE].splitlines()))[:_LONGEST_MESSAGE]


def shown(value: object) -> str:
    """Show the beginning of a value, card numbers masked; of what is nested, its kind alone."""
    scalar = isinstance(value, str | int | float)
    return mask_cards(str(value))[:_LONGEST_SHOWN] if scalar else f"a {type(value).__name__}"
