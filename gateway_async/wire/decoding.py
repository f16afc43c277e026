"""Reply bodies to plain values: JSON, the `respon` XML, the page (sections 2 and 4).

Every function either reads the whole body or raises `ReplyUnreadableError`, and nothing else. A
message says what kind of thing came, and never quotes it: replies hold personal data. This module
knows no model but the page, which is text.
"""

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.results import CheckoutPage
from gateway_async.wire.encoding import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_DEEPEST_XML = 32
_SEARCHED_CHARACTERS = 262_144

_SOME_XML = "XML"

_LONGEST_PLAIN = 65_536
_NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
_TEXT = r"[^<>&\x00-\x08\x0b-\x1f\ufffe\uffff]*"
_GAP = r"[ \t\n]*"
_LEAF = rf"<(?P<leaf>{_NAME})>{_TEXT}</(?P=leaf)>"
_PLAIN_LEAF = re.compile(rf"<({_NAME})>({_TEXT})</\1>")
_PLAIN_ELEMENT = re.compile(rf"<({_NAME})>(?:({_TEXT})|{_GAP}((?:{_LEAF}{_GAP})+))</\1>")
_PLAIN_RESPON = re.compile(
    rf"""
    (?:<\?xml[ ]version="1\.0"(?:[ ]encoding="(?i:utf-8)")?\?>)? {_GAP}
    <respon>
        (?P<content>
            (?:{_GAP} <(?P<name>{_NAME})> (?:{_TEXT}|{_GAP}(?:{_LEAF}{_GAP})+) </(?P=name)>)*
        ) {_GAP}
    </respon>
    """,
    re.VERBOSE,
)

_BODY_KINDS = (
    (re.compile(rb"\Z"), "an empty body"),
    (re.compile(rb"<!doctype html|<html", re.IGNORECASE), "an HTML page"),
    (re.compile(rb"<"), _SOME_XML),
    (re.compile(rb"\{"), "a JSON object"),
    (re.compile(rb"\["), "a JSON array"),
    (re.compile(rb'"|(-?[0-9.eE+-]+|true|false|null)\Z'), "a single JSON value"),
    (re.compile(rb""), "something that is neither JSON nor XML"),
)
"""What the beginning of a body tells about it; the first that matches counts."""


def _trim(body: bytes) -> bytes:
    return body.removeprefix(_BYTE_ORDER_MARK).strip(_BLANKS)


def _kind(trimmed: bytes) -> str:
    return next(kind for pattern, kind in _BODY_KINDS if pattern.match(trimmed))


def decode_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Raises:
        ReplyUnreadableError: For anything but one whole JSON object.
    """
    trimmed = _trim(body)
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


def _json_problem(trimmed: bytes, position: int | None) -> str:
    kind = _kind(trimmed)
    if position is None or trimmed[:1] not in (b"{", b"["):
        return kind
    if position >= len(trimmed.decode(errors="replace")):
        return f"truncated JSON: {kind} that ends at byte {len(trimmed)}"
    return f"broken JSON: {kind} that cannot be read at character {position}"


def decode_respon(body: bytes) -> dict[str, Any]:
    """Return the elements below the root element `respon`, by name.

    An element without children is its text, one with children is a dict (with text of its own
    under `#text`), and elements of the same name are a list. Attributes and namespaces are
    dropped; none is shown.

    Raises:
        ReplyUnreadableError: For anything else, for a document type definition or an entity
            declaration, and for elements nested more than 32 deep.
    """
    trimmed = _trim(body)
    plain = _plain_fields(trimmed) if len(trimmed) < _LONGEST_PLAIN else None
    return _parsed_fields(trimmed, len(body)) if plain is None else plain


def _plain_fields(trimmed: bytes) -> dict[str, Any] | None:
    """Read the plainest XML, as nearly all replies are; return None for any other.

    It has names and texts, one object deep at most, and nothing that a parser is needed for.
    """
    try:
        respon = _PLAIN_RESPON.fullmatch(trimmed.decode())
    except UnicodeDecodeError:
        return None
    if respon is None:
        return None
    elements = _PLAIN_ELEMENT.findall(respon["content"])
    fields: dict[str, Any] = {name: text for name, text, _, _ in elements}
    size = len(fields)
    for name, _, content, _ in elements:
        if content:
            leaves = _PLAIN_LEAF.findall(content)
            fields[name] = dict(leaves)
            size += len(fields[name]) - len(leaves)
    return fields if size == len(elements) else None


def _parsed_fields(trimmed: bytes, size: int) -> dict[str, Any]:
    builder = _ElementBuilder()
    parser = DefusedXMLParser(
        target=builder, forbid_dtd=True, forbid_entities=True, forbid_external=True
    )
    # Straight from expat: the layer between would only write names that are taken apart again.
    parser.parser.StartElementHandler = builder.start
    parser.parser.EndElementHandler = builder.end
    try:
        parser.feed(trimmed)
        parser.close()
    except _NestedTooDeepError:
        problem = f"XML nested more than {_DEEPEST_XML} deep"
    except DefusedXmlException:
        problem = "XML with a document type definition or an entity declaration"
    except (ParseError, ValueError, LookupError):
        # The last two: an encoding that is not known, or that the bytes do not fit.
        problem = "broken or truncated XML"
    else:
        if builder.root == "respon":
            return builder.fields()
        problem = "XML with another root element"
    kind = _kind(trimmed)
    raise ReplyUnreadableError(
        f"expected XML <respon>, got {problem if kind == _SOME_XML else kind} ({size} bytes)"
    )


class _NestedTooDeepError(Exception):
    """Elements are nested deeper than any reply of the interface."""


class _ElementBuilder:
    """Builds plain values from parser events, without recursion.

    Attributes:
        root: The name of the root element, without its namespace.
    """

    def __init__(self) -> None:
        self.root = ""
        self._open: list[tuple[dict[str, Any], list[str]]] = [({}, [])]

    def start(self, tag: str, attributes: object) -> None:
        del attributes
        if len(self._open) > _DEEPEST_XML:
            raise _NestedTooDeepError
        if not self.root:
            self.root = _local_name(tag)
        self._open.append(({}, []))

    def data(self, text: str) -> None:
        self._open[-1][1].append(text)

    def end(self, tag: str) -> None:
        children, texts = self._open.pop()
        text = "".join(texts)
        value = _element_value(children, text) if children else text
        siblings = self._open[-1][0]
        name = _local_name(tag) if "}" in tag else tag
        if name not in siblings:
            siblings[name] = value
        elif isinstance(siblings[name], list):
            siblings[name].append(value)
        else:
            siblings[name] = [siblings[name], value]

    def close(self) -> None:
        """Do nothing: the parser asks for it."""

    def fields(self) -> dict[str, Any]:
        value = self._open[0][0][self.root]
        return value if isinstance(value, dict) else {"#text": value} if value.strip() else {}


def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2]


def _element_value(children: dict[str, Any], text: str) -> dict[str, Any]:
    return {**children, "#text": text} if text.strip() else children


def reply_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a reply as text, to verify its signature.

    In JSON, a string is its text and anything else the very slice of the reply. In XML, an
    element without children is its text; others, which have no text, are given as compact JSON.

    Raises:
        ReplyUnreadableError: For anything but a JSON object or the XML `respon`.
    """
    trimmed = _trim(body)
    if not trimmed.startswith(b"<"):
        decode_json(body)
        return _read_slices(trimmed.decode())
    return {
        name: value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
        for name, value in decode_respon(body).items()
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


_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
_PAGE_TAGS = frozenset(
    ("html", "head", "body", "title", "meta", "link", "base", "style", "script", "form", "div")
)


def decode_page(body: bytes, charset: str | None = None) -> CheckoutPage:
    """Return the page that a checkout answers with (section 4.1), its HTML untouched.

    The title and the form's address are looked for in the first 262,144 characters.

    Args:
        body: The body.
        charset: The charset of the reply's Content-Type header, if it names one.

    Raises:
        ReplyUnreadableError: For anything but a page, and for bytes that the charset lacks.
    """
    html = _page_text(body, charset)
    reader = _PageReader()
    reader.read(html[:_SEARCHED_CHARACTERS])
    if reader.first_tag not in _PAGE_TAGS:
        raise ReplyUnreadableError(
            f"expected an HTML page, got {_kind(_trim(body))} ({len(body)} bytes)"
        )
    return CheckoutPage(html=html, title=reader.title, action=reader.action)


def _page_text(body: bytes, charset: str | None) -> str:
    if body.startswith(_BYTE_ORDER_MARK):
        return _decode(body.removeprefix(_BYTE_ORDER_MARK), "utf-8")
    meta = _META_CHARSET.search(body, 0, 1024)
    labels = (charset or "", meta[1].decode("ascii", "replace") if meta else "", "utf-8")
    return _decode(body, next(codec for label in labels if (codec := codec_of(label))))


def _decode(body: bytes, codec: str) -> str:
    text = None
    try:
        text = body.decode(codec)
    except UnicodeDecodeError:
        # Raised below, outside this block: the caught error holds the whole body.
        text = None
    if text is None:
        raise ReplyUnreadableError(
            f"expected an HTML page in {codec}, got bytes that are none ({len(body)} bytes)"
        )
    return text


class _PageReader(HTMLParser):
    """Finds the title of a page, and the address of its first form that posts."""

    def __init__(self) -> None:
        super().__init__()
        self.first_tag: str | None = None
        self.title: str | None = None
        self.action: str | None = None
        self._in_title = False
        self._form_found = False

    def read(self, html: str) -> None:
        try:
            self.feed(html)
        except AssertionError:
            # So the parser reports a malformed declaration; what it found before it stands.
            return

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.first_tag = self.first_tag or tag
        self._in_title = tag == "title" and self.title is None
        if tag == "form" and not self._form_found:
            self._read_form(dict(attrs))

    def _read_form(self, attributes: dict[str, str | None]) -> None:
        self._form_found = (attributes.get("method") or "").strip().lower() == "post"
        if self._form_found:
            self.action = attributes.get("action")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = (self.title or "") + data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"

    def error(self, message: str) -> NoReturn:
        """Report a malformed declaration, as newer parsers do."""
        raise AssertionError(message)
