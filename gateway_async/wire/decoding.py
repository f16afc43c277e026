"""Reply bodies to plain values: JSON, and what all bodies have in common (sections 2 and 4).

Every function either reads the whole body or raises `ReplyUnreadableError`, and nothing else. A
message says what kind of thing came, and never quotes it: replies hold personal data. This module
knows no model; XML and pages, which few requests bring, have modules of their own.
"""

import json
import re
from typing import TYPE_CHECKING, Any

import orjson

from gateway_async.errors import ReplyUnreadableError
from gateway_async.wire.encoding import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"

XML = "XML"

_BODY_KINDS = (
    (re.compile(rb"\Z"), "an empty body"),
    (re.compile(rb"<!doctype html|<html", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"<"), XML),
    (re.compile(rb"\{"), "a JSON object"),
    (re.compile(rb"\["), "a JSON array"),
    (re.compile(rb'"|(-?[0-9.eE+-]+|true|false|null)\Z'), "a single JSON value"),
    (re.compile(rb""), "something that is neither JSON nor XML"),
)
"""What the beginning of a body tells about it; the first that matches counts."""


def trim(body: bytes) -> bytes:
    """Take the byte order mark and blanks from a body."""
    return body.removeprefix(BYTE_ORDER_MARK).strip(_BLANKS)


def kind_of(trimmed: bytes) -> str:
    """Say what kind of thing a body is, and nothing of its content."""
    return next(kind for pattern, kind in _BODY_KINDS if pattern.match(trimmed))


def decode_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object.
    """
    trimmed = trim(body)
    position = None
    try:
        value = orjson.loads(trimmed)
    except orjson.JSONDecodeError as error:
        # Raised below, outside this block: the caught error holds the whole body.
        value, position = None, error.pos
    if isinstance(value, dict):
        return value
    raise ReplyUnreadableError(
        f"expected a JSON object, got {_json_problem(trimmed, position)} ({len(body)} bytes)"
    )


def without_doubt(body: bytes, list_field: str, telling: str) -> tuple[bytes, dict[str, Any]]:
    """Return a reply about money as it is to be judged and kept, and what it says.

    A field that is named twice in one object, and differently, has all of its values there, in a
    list: so none of them is taken for what the gateway says.

    Args:
        body: The reply.
        list_field: The field with the list of what became of each order.
        telling: The field of each that says it; nothing is in doubt where it comes once in each.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object.
    """
    payload = decode_json(body)
    listed = payload.get(list_field)
    if isinstance(listed, list) and body.count(f'"{telling}"'.encode()) == len(listed):
        return body, payload
    doubtful: list[str] = []
    try:
        found = json.loads(trim(body), object_pairs_hook=lambda pairs: _merged(pairs, doubtful))
        return (orjson.dumps(found), found) if doubtful else (body, payload)
    except (RecursionError, orjson.JSONEncodeError):  # nested too deep, numbers too long
        problem = "the reply cannot be judged: it is nested too deep, or names a field twice"
    raise ReplyUnreadableError(problem)


def _merged(pairs: list[tuple[str, Any]], doubtful: list[str]) -> dict[str, Any]:
    """Make an object of its fields, and note those that have several values."""
    merged = dict(pairs)
    if len(merged) == len(pairs):
        return merged
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        known = values.setdefault(name, [])
        if value not in known:
            known.append(value)
    doubtful += [name for name, known in values.items() if len(known) > 1]
    return {name: known if len(known) > 1 else known[0] for name, known in values.items()}


def _json_problem(trimmed: bytes, position: int | None) -> str:
    kind = kind_of(trimmed)
    if position is None or trimmed[:1] not in (b"{", b"["):
        return kind
    if position >= len(trimmed.decode(errors="replace")):
        return f"truncated JSON: {kind} that ends at byte {len(trimmed)}"
    return f"broken JSON: {kind} that cannot be read at character {position}"


def reply_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a reply as text, to verify its signature.

    In JSON, a string is its text and anything else the very slice of the reply. In XML, an
    element without children is its text; others, which have no text, are given as compact JSON.

    Raises:
        ReplyUnreadableError: For anything but a JSON object or the XML `respon`.
    """
    trimmed = trim(body)
    if not trimmed.startswith(b"<"):
        decode_json(body)
        return _read_slices(trimmed.decode())
    from gateway_async.wire import respon  # noqa: PLC0415  # its parser is seldom needed

    return {
        name: value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
        for name, value in respon.decode_respon(body).items()
    }


def _read_slices(text: str) -> dict[str, str]:
    nested_too_deep = False
    try:
        return dict(_slices(text))
    except RecursionError:
        nested_too_deep = True
    del nested_too_deep
    raise ReplyUnreadableError("expected a JSON object, got one that is nested too deep to verify")


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


_CHARSETS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "windows-1252": "cp1252",
    "iso-8859-15": "iso-8859-15",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-jp": "euc-jp",
    "euc-kr": "cp949",
}
"""Charset labels to Python codecs, as browsers read them."""


def charset_of(content_type: str) -> str | None:
    """Return the charset that a Content-Type header names."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


def codec_of(charset: str) -> str | None:
    """Return the Python codec of a charset label, or None if it is not known."""
    return _CHARSETS.get(charset.strip(" \"'").lower())
