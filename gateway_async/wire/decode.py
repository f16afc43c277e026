"""Reply bodies to plain values: charsets and JSON (sections 2 and 4 of the interface).

A body is brought to UTF-8 first, by `in_utf8`; all else reads UTF-8. Every reader either reads the
whole body or raises `ReplyUnreadableError`, and nothing else. A message says what kind of thing
came, and never quotes it: replies hold personal data. This module knows no model. XML and HTML,
which few requests bring, are read in `documents`.
"""

import contextlib
import functools
import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from typing import TYPE_CHECKING, Any

import orjson
import webencodings

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.values import mask_cards
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.encode import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

XML = "XML"
MESSAGES = ("error_message", "refund_message", "failure_reason")
"""Fields of an item that hold the reason why it was not done."""
_LONGEST_SHOWN = 200
_LONGEST_MESSAGE = 1000

_BODY_KINDS = (
    (re.compile(rb"\Z"), "an empty body"),
    (re.compile(rb"<!doctype html|<html", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"<"), XML),
    (re.compile(rb"\{"), "a JSON object"),
    (re.compile(rb"\["), "a JSON array"),
    (re.compile(rb""), "something else"),
)
"""What the beginning of a body shows about it; the first that matches counts."""


def kind_of(body: bytes) -> str:
    """Say what kind of thing a body is, and nothing of its content."""
    return next(kind for pattern, kind in _BODY_KINDS if pattern.match(body.strip()))


# Charsets

_DECLARATION = re.compile(
    rb"\s*<\?xml\s[^<>]{0,100}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"'][^<>]{0,100}\?>"
)
_META = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
_OTHER_CODECS = {"gbk": "gb18030", "replacement": None}
"""By the name of a charset, another codec than `webencodings` has; None for none at all."""
_MARKS = {BOM_UTF8: "utf-8-sig", BOM_UTF16_LE: "utf-16", BOM_UTF16_BE: "utf-16"}


@functools.lru_cache(64)
def charset_of(content_type: str) -> str | None:
    """Return the charset that a Content-Type header names."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


@functools.lru_cache(64)
def codec_of(charset: str) -> str | None:
    """Return the Python codec that browsers read a charset label as; None if it is not known."""
    label = charset.strip(" \"'")
    found = webencodings.lookup(label) if label.isascii() else None
    return None if found is None else _OTHER_CODECS.get(found.name, found.codec_info.name)


def in_utf8(body: bytes, content_type: str = "") -> bytes:
    """Return a body in UTF-8, without a byte order mark.

    Of what names its charset, these count in turn: a byte order mark, the declaration of XML, the
    header, and the `meta` element of a page. Header and page count only for what is not UTF-8:
    servers have a standing header for all they send. What fits none of them stays as it is.
    """
    charset = charset_of(content_type)
    if body[:1] == b"{" and (charset is None or charset.lower() == "utf-8"):
        return body  # as most are
    mark = next((mark for mark in _MARKS if body.startswith(mark)), b"")
    declared = _DECLARATION.match(body)
    if mark:
        codecs: list[str | None] = [_MARKS[mark]]
    elif declared:
        codecs = [codec_of(declared[1].decode())]  # where that is not known, the body stays
    else:
        meta = _META.search(body, 0, 1024) if body.lstrip()[:1] == b"<" else None
        labels = [charset, meta[1].decode() if meta else None]
        is_wide = b"\0" in body[:4]  # ASCII in UTF-16 would pass for UTF-8
        codecs = [None if is_wide else "utf-8", *[codec_of(label) for label in labels if label]]
    for codec in filter(None, codecs):
        if codec == codecs[-1] == "utf-8":
            break  # it is read as such in any case
        with contextlib.suppress(UnicodeError):
            text = body.decode(codec)
            # A declaration of another encoding would be wrong now.
            return body if codec == "utf-8" else _DECLARATION.sub(b"", text.encode(), count=1)
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
                return dict(json.loads(text, strict=False, object_pairs_hook=_distinct))
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
    return json.dumps(payload, ensure_ascii=False).encode(), payload


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


# The fields that a signature covers


def json_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a JSON reply as text, to verify its signature.

    A string is its text, and anything else the very slice of the reply.

    Raises:
        ReplyUnreadableError: For anything but a JSON object.
    """
    decode_json(body)
    return dict(_slices(_with_whole_characters(body).decode()))


def _slices(text: str) -> "Iterator[tuple[str, str]]":
    """Yield name and text of each top-level field of a JSON object known to be valid."""
    # Numbers stay text: their slice is wanted, and a long one is slow to convert.
    decode = json.JSONDecoder(parse_int=str, parse_float=str, strict=False).raw_decode
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
