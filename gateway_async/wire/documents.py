"""XML and HTML: the `respon` of a payment (sections 2 and 4), and the page of a checkout (4.1).

Every function either reads the whole body or raises `ReplyUnreadableError`. A message says what
kind of thing came, and never quotes it. No document type definition and no entity is ever expanded.
"""

import contextlib
import re
from html.parser import HTMLParser
from typing import Any
from xml.parsers.expat import ExpatError

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.records import CheckoutPage
from gateway_async.wire.decode import (
    BYTE_ORDER_MARK,
    XML,
    codec_of,
    is_utf_16,
    json_fields,
    kind_of,
    text_in,
    trim,
)
from gateway_async.wire.encode import JsonText

_DEEPEST = 32

_LONGEST_PLAIN = 65_536
"""Bytes; matching takes several times the memory of what it matches."""
_NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
_TEXT = r"[^<>&\x00-\x08\x0b-\x1f\ufffe\uffff]*"
_GAP = r"[ \t\n]*"
_LEAF = rf"<(?P<leaf>{_NAME})>{_TEXT}</(?P=leaf)>"
_PLAIN_LEAF = re.compile(rf"<({_NAME})>({_TEXT})</\1>")
_PLAIN_ELEMENT = re.compile(rf"<({_NAME})>(?:({_TEXT})|{_GAP}((?:{_LEAF}{_GAP})+))</\1>")
_PLAIN_START = re.compile(rf'(?:<\?xml version="1\.0"(?: encoding="UTF-8")?\?>)?{_GAP}<respon>')
_END = "</respon>"

_DECLARATION = re.compile(
    rb"<\?xml\s[^<>]{0,100}?\bencoding\s*=\s*[\"']([\w.-]{1,40})[\"'][^<>]{0,100}\?>"
)


def decode_respon(body: bytes) -> dict[str, Any]:
    """Return the elements below the root element `respon`, by name.

    An element without children is its text, one with children is a dict (with text of its own
    under `#text`), and elements of the same name are a list. Attributes and namespaces are
    dropped; none is shown.

    Raises:
        ReplyUnreadableError: For anything else, for a document type definition or an entity
            declaration, and for elements nested more than 32 deep.
    """
    trimmed = trim(body)
    if len(trimmed) < _LONGEST_PLAIN and (plain := _plain_fields(trimmed)) is not None:
        return plain
    trimmed = _in_utf8(body, trimmed)
    try:
        return _Builder().parse(trimmed)
    except _RefusedError as refusal:
        problem = str(refusal)
    except DefusedXmlException:
        problem = "XML with a document type definition or an entity declaration"
    except (ExpatError, ValueError, LookupError):
        # The last two: an encoding that is not known, or that the bytes do not fit.
        problem = "broken or truncated XML"
    kind = kind_of(trimmed)
    raise ReplyUnreadableError(
        f"expected XML <respon>, got {problem if kind == XML else kind} ({len(body)} bytes)"
    )


def _in_utf8(body: bytes, trimmed: bytes) -> bytes:
    """Return trimmed XML: in UTF-8, if it declares an encoding that is known."""
    declaration = None if is_utf_16(body) else _DECLARATION.match(trimmed)
    if declaration is None:
        return trimmed
    has_mark = body.startswith(BYTE_ORDER_MARK)  # which counts for more than a declaration
    codec = codec_of("utf-8" if has_mark else declaration[1].decode())
    text = text_in(trimmed[declaration.end() :], [codec] if codec else [])
    return trimmed if text is None else text.encode()


def _plain_fields(trimmed: bytes) -> dict[str, Any] | None:
    """Read the plainest XML, as nearly all replies are; return None for any other.

    It has names and texts, one object deep at most, and nothing that a parser is needed for.
    """
    try:
        text = trimmed.decode()
    except UnicodeDecodeError:
        return None
    start = _PLAIN_START.match(text)
    if start is None or not text.endswith(_END):
        return None
    parts = _PLAIN_ELEMENT.split(text[start.end() : -len(_END)])
    if "".join(parts[::5]).strip(" \t\n"):  # what stands between the elements
        return None
    names = parts[1::5]
    fields: dict[str, Any] = dict(zip(names, parts[2::5], strict=True))
    size = len(fields)
    for name, content in zip(names, parts[3::5], strict=True):
        if content:
            leaves = _PLAIN_LEAF.findall(content)
            fields[name] = dict(leaves)
            size += len(fields[name]) - len(leaves)
    return fields if size == len(names) else None


class _RefusedError(Exception):
    """XML that is well-formed, and no reply."""


class _Builder:
    """Builds plain values from what the parser finds, without recursion."""

    def __init__(self) -> None:
        self._open: list[tuple[dict[str, Any], list[str]]] = [({}, [])]
        """The children and texts of each element that is not closed; at first, of the document."""

    def parse(self, body: bytes) -> dict[str, Any]:
        """Return what stands in the root of a whole document.

        Raises:
            _RefusedError: For what no reply has.
            DefusedXmlException: For a document type or an entity.
            ExpatError, ValueError, LookupError: For what is broken.
        """
        # Straight from expat: the layer between would only write names that are taken apart again.
        parser = DefusedXMLParser(forbid_dtd=True).parser
        parser.StartElementHandler = self._start
        parser.CharacterDataHandler = self._add_text
        parser.EndElementHandler = self._end
        parser.Parse(body, True)  # noqa: FBT003  # it takes no keyword
        ((root, value),) = self._open[0][0].items()
        if root != "respon":
            raise _RefusedError("XML with another root element")
        return value if isinstance(value, dict) else {"#text": value} if value.strip() else {}

    def _start(self, tag: str, attributes: object) -> None:
        del tag, attributes
        if len(self._open) > _DEEPEST:
            raise _RefusedError(f"XML nested more than {_DEEPEST} deep")
        self._open.append(({}, []))

    def _add_text(self, text: str) -> None:
        self._open[-1][1].append(text)

    def _end(self, tag: str) -> None:
        children, texts = self._open.pop()
        text = "".join(texts)
        value: Any = text
        if children:
            value = {**children, "#text": text} if text.strip() else children
        siblings = self._open[-1][0]
        name = tag.rpartition("}")[2] if "}" in tag else tag
        if name not in siblings:
            siblings[name] = value
        elif isinstance(siblings[name], list):
            siblings[name].append(value)
        else:
            siblings[name] = [siblings[name], value]


def reply_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a reply as text, to verify its signature.

    In JSON, a string is its text and anything else the very slice of the reply. In XML, an
    element without children is its text; others, which have no text, are given as compact JSON.

    Raises:
        ReplyUnreadableError: For anything but a JSON object or the XML `respon`.
    """
    if not (is_utf_16(body) or trim(body).startswith(b"<")):
        return json_fields(body)
    return {
        name: value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
        for name, value in decode_respon(body).items()
    }


_SEARCHED_CHARACTERS = 262_144
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
_PAGE_TAGS = frozenset(
    ("html", "head", "body", "title", "meta", "link", "base", "style", "script", "form", "div")
)


def decode_page(body: bytes, charset: str | None = None) -> CheckoutPage:
    """Return the page that a checkout answers with (section 4.1), its HTML untouched.

    The title and the form's address are looked for in the first 262,144 characters.

    Args:
        body: The body.
        charset: The charset of the reply's Content-Type header, if it names one; it counts, and
            else that of the page itself, where the page is not UTF-8.

    Raises:
        ReplyUnreadableError: For anything but a page, and for bytes that the charsets lack.
    """
    html = _page_text(body, charset)
    reader = _PageReader()
    with contextlib.suppress(AssertionError, ValueError):
        # A malformed declaration, and a character's number too long for `int`; what was found
        # before them stands.
        reader.feed(html[:_SEARCHED_CHARACTERS])
    is_json = html.lstrip().startswith(("{", "["))  # whose texts may hold tags
    if is_json or reader.first_tag not in _PAGE_TAGS:
        raise ReplyUnreadableError(
            f"expected an HTML page, got {kind_of(trim(body))} ({len(body)} bytes)"
        )
    return CheckoutPage(html=html, title=reader.title, action=reader.action)


def _page_text(body: bytes, charset: str | None) -> str:
    meta = _META_CHARSET.search(body, 0, 1024)
    labels = [charset or "", meta[1].decode("ascii", "replace") if meta else ""]
    # As in JSON and XML, what is UTF-8 is read as such: servers have a standing header for all.
    labels.insert(len(labels) if is_utf_16(body) else 0, "utf-8")
    codecs = [codec for label in labels if (codec := codec_of(label))]
    text = text_in(body, ["utf-8"] if body.startswith(BYTE_ORDER_MARK) else codecs)
    if text is not None:
        return text.removeprefix("\ufeff")
    raise ReplyUnreadableError(
        f"expected an HTML page in {' or '.join(dict.fromkeys(codecs))}, "
        f"got bytes of another charset ({len(body)} bytes)"
    )


class _PageReader(HTMLParser):
    """Finds the title of a page, and the address of its first form that posts."""

    def __init__(self) -> None:
        super().__init__()
        self.first_tag: str | None = None
        self.title: str | None = None
        self.action: str | None = None
        self._in_title = False
        self._form_found = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.first_tag = self.first_tag or tag
        self._in_title = tag == "title" and self.title is None
        attributes = dict(attrs)
        posts = (attributes.get("method") or "").strip().lower() == "post"
        if tag == "form" and posts and not self._form_found:
            self._form_found = True
            self.action = attributes.get("action")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = (self.title or "") + data

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"
