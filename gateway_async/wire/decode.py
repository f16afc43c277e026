"""Reply bodies to plain values: JSON, and what all bodies have in common (sections 2 and 4).

Every function either reads the whole body or raises `ReplyUnreadableError`, and nothing else. A
message says what kind of thing came, and never quotes it: replies hold personal data. This module
knows no model. XML and HTML, which few requests bring, are read in `documents`.
"""

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import orjson
import webencodings

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.values import mask_cards
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.encode import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"

_USUAL = ((b'": ', b'":'), (b', "', b',"'), (b"}, {", b"},{"), (b"\\/", b"/"))
"""How others write what is written here without need."""

_SURROGATE, _REPLACEMENT = rb"\ud", rb"\ufffd"
_ESCAPE = re.compile(
    rb"(\\(?:[^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""An escape that says something, or else half a surrogate pair."""

_SIGNATURE_NAME = b'"encryption_data"'
_SIGNATURES = re.compile(rb'("encryption_data"\s*:\s*)"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_SIGNED = re.compile(rb'(?<!\\)"encryption_data"\s*:')
_ESCAPED_LETTER = rb"\u00"
_LONGEST_SHOWN = 200
_DIGITS_AND_BORDERS = bytes.maketrans(b"0123456789,[ \t\r\n", b"0" * 10 + b":" * 6)
_LONG_INTEGER = b":" + b"0" * 19
"""How an integer that may have more than 64 bits begins, once translated."""

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
"""What the beginning of a body shows about it; the first that matches counts."""


def trim(body: bytes) -> bytes:
    """Take the byte order mark and blanks from a body; in UTF-16 they have two bytes, and stay."""
    return body if is_utf_16(body) else body.removeprefix(BYTE_ORDER_MARK).strip(_BLANKS)


def is_utf_16(body: bytes) -> bool:
    """Say whether a body begins as UTF-16 does."""
    return b"\0" in body[:4]


def kind_of(trimmed: bytes) -> str:
    """Say what kind of thing a body is, and nothing of its content."""
    return next(kind for pattern, kind in _BODY_KINDS if pattern.match(trimmed))


def without_text(body: bytes, text: str, mask: str) -> bytes:
    """Put a mask wherever a text stands in a body, be it in UTF-16."""
    for codec in ("utf-16-le", "utf-16-be") if is_utf_16(body) else ("utf-8",):
        written = text.encode(codec)
        if body.rfind(written) >= 0:  # which is quicker than to look from the left
            body = body.replace(written, mask.encode(codec))
    return body


def decode_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Half a surrogate pair, as is left of a text that was cut off, is read as U+FFFD. An integer
    keeps all of its digits.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object.
    """
    value, trimmed = _read_json(body)
    if may_have_long_integers(trimmed):
        with contextlib.suppress(RecursionError):
            value = json.loads(trimmed, strict=False)
    return value


def _read_json(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the JSON object that a body is, and the text that it was read from."""
    trimmed = trim(body)
    value, position = _loaded(trimmed)
    if value is None and _SURROGATE in trimmed.lower():
        trimmed = _ESCAPE.sub(lambda found: found[1] or _REPLACEMENT, trimmed)
        value, position = _loaded(trimmed)
    if isinstance(value, dict):
        return value, trimmed
    raise ReplyUnreadableError(
        f"expected a JSON object, got {_json_problem(trimmed, position)} ({len(body)} bytes)"
    )


def may_have_long_integers(trimmed: bytes) -> bool:
    """Say whether a reply may hold integers of more than 64 bits, which orjson reads as floats."""
    return _LONG_INTEGER in trimmed.translate(_DIGITS_AND_BORDERS)


def _loaded(trimmed: bytes) -> tuple[object, int | None]:
    """Return what JSON says, or None and where it is broken."""
    position = None
    try:
        return orjson.loads(trimmed), None
    except orjson.JSONDecodeError as error:
        position = error.pos  # and no more of the error, which holds the whole body
    return None, position


def decode_surely(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is, where money depends on what it says.

    A field that one object names twice, with different values, has neither: a list of a list of
    them stands in its place, which is neither a text nor a list of records.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object.
    """
    value, trimmed = _read_json(body)
    return value if _is_unambiguous(trimmed, value) else _without_doubt(trimmed, value)


def _is_unambiguous(trimmed: bytes, value: dict[str, Any]) -> bool:
    """Say whether it is seen at a glance that no object of a reply names a field twice.

    So it is where the reply is just what would be written of what was read.
    """
    try:
        written = orjson.dumps(value)
    except orjson.JSONEncodeError:  # nested too deep
        return False
    if written == trimmed:
        return True
    for usual, shorter in _USUAL:
        trimmed = trimmed.replace(usual, shorter)
    return written == trimmed


def _without_doubt(trimmed: bytes, value: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in which a field that has several values in one object has none of them.

    Raises:
        ReplyUnreadableError: Where it is nested too deep to tell.
    """
    doubtful: set[str] = set()
    with contextlib.suppress(RecursionError):
        found: dict[str, Any] = json.loads(
            trimmed, object_pairs_hook=lambda pairs: _merged(pairs, doubtful), strict=False
        )
        return found if doubtful or may_have_long_integers(trimmed) else value
    raise ReplyUnreadableError(
        "expected a JSON object, got one that is nested too deep to be judged"
    )


def _merged(pairs: list[tuple[str, Any]], doubtful: set[str]) -> dict[str, Any]:
    """Make an object of its fields, and note those that are named twice, and not as one text."""
    merged = dict(pairs)
    if len(merged) == len(pairs):
        return merged
    merged.clear()
    several: dict[str, Any] = {}
    for name, value in pairs:
        first = merged.setdefault(name, value)
        if first is not value and not (type(first) is type(value) is str and first == value):
            several.setdefault(name, [[first, value]])
    doubtful.update(several)
    return {**merged, **several}


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

    Raises:
        ReplyUnreadableError: Where it has to be written again and is nested too deep for that.
    """
    first, last = reply.find(_SIGNATURE_NAME), reply.rfind(_SIGNATURE_NAME)
    is_escaped = b"\\" in reply and _ESCAPED_LETTER in reply
    if first < 0 and not is_escaped:
        return reply, payload
    found = _SIGNATURES.match(reply, last) if first >= 0 else None
    spliced = reply
    if found and first == last and SIGNATURE_FIELD in payload:
        spliced = b"".join((reply[:first], found[1], b'""', reply[found.end() :]))
        if not is_escaped:
            return spliced, payload
    emptied = 0
    for part in signed_parts(payload):
        emptied += 1
        part[SIGNATURE_FIELD] = ""
    if spliced is not reply and emptied <= 1:
        return spliced, payload
    # A name that comes twice in one object is decoded once: what was not emptied may still stand.
    is_clean = spliced is reply and not emptied and not _SIGNED.search(reply)
    return reply if is_clean else _rewritten(reply, payload), payload


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


def _rewritten(reply: bytes, payload: "Mapping[str, Any]") -> bytes:
    with contextlib.suppress(RecursionError, orjson.JSONEncodeError):
        if may_have_long_integers(reply):  # which orjson does not write
            return json.dumps(payload).encode()
        return orjson.dumps(payload)
    raise ReplyUnreadableError(
        "the reply carries signatures, and is nested too deep to be kept without them"
    )


def _json_problem(trimmed: bytes, position: int | None) -> str:
    kind = kind_of(trimmed)
    if position is None or trimmed[:1] not in (b"{", b"["):
        return kind
    if position >= len(trimmed.decode(errors="replace")):
        return f"truncated JSON: {kind} that ends at byte {len(trimmed)}"
    return f"broken JSON: {kind} that cannot be read at character {position}"


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
    """Read a code or text that users see: as `identifier`, with card numbers masked."""
    text = identifier(value)
    return None if text is None else mask_cards(text)


def shown(value: object) -> str:
    """Show the beginning of a value, card numbers masked; of what is nested, its kind alone."""
    scalar = isinstance(value, str | int | float)
    return mask_cards(str(value))[:_LONGEST_SHOWN] if scalar else f"a {type(value).__name__}"


def json_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a JSON reply as text, to verify its signature.

    A string is its text, and anything else the very slice of the reply.

    Raises:
        ReplyUnreadableError: For anything but a JSON object.
    """
    _, text = _read_json(body)
    with contextlib.suppress(RecursionError):
        return dict(_slices(text.decode()))
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


_OTHER_CODECS = {"utf-16": "utf-16", "gbk": "gb18030", "replacement": None, "x-user-defined": None}
"""By label or name of a charset, another codec than `webencodings` has; None for none at all."""
_NAMES_ENCODING = re.compile(rb"<\?xml\s[^<>]{0,100}?\bencoding")


def charset_of(content_type: str) -> str | None:
    """Return the charset that a Content-Type header names."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


def codec_of(charset: str) -> str | None:
    """Return the Python codec that browsers read a charset label as; None if it is not known."""
    label = charset.strip(" \"'").lower()
    found = webencodings.lookup(label)
    if found is None:
        return None
    name = label if label in _OTHER_CODECS else found.name
    return _OTHER_CODECS.get(name, found.codec_info.name)


def in_utf8(body: bytes, content_type: str) -> bytes:
    """Return a body in UTF-8 where its Content-Type header alone names the charset.

    What is UTF-8 stays, whatever the header says, as does XML that names its own encoding.
    """
    charset = charset_of(content_type)
    codec = None if charset is None else codec_of(charset)
    if codec in (None, "utf-8") or is_utf_16(body) or _NAMES_ENCODING.match(trim(body)):
        return body
    text = text_in(body, ["utf-8", codec or ""])
    return body if text is None else text.encode()


def text_in(body: bytes, codecs: "Iterable[str]") -> str | None:
    """Return a body as text, by the first codec that it fits; None if it fits none."""
    for codec in codecs:
        with contextlib.suppress(UnicodeError):
            return body.decode(codec)
    return None
