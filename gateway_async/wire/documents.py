"""XML and HTML: the `respon` of a payment (sections 2 and 4), and the page of a checkout (4.1).

Every function either reads the whole body, which is UTF-8, or raises `ReplyUnreadableError`. A
message says what kind of thing came, and never quotes it. No document type definition and no entity
is ever expanded.
"""

import contextlib
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import orjson
from defusedxml.ElementTree import fromstring

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.records import CheckoutPage
from gateway_async.wire.decode import XML, json_fields, kind_of
from gateway_async.wire.encode import JsonText

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DEEPEST = 32
_MOST_TAGS = 100_000
"""A tree takes up to 90 times the memory of its text."""
_UNREADABLE = "XML that is another, broken, truncated or too large, or has a document type"

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


def decode_respon(body: bytes) -> dict[str, Any]:
    """Return the elements below the root element `respon`, by name.

    An element without children is its text, one with children is a dict, and elements of the same
    name are a list. Attributes, namespaces and text beside elements are dropped; none is shown.

    Raises:
        ReplyUnreadableError: For anything else, for a document type definition or an entity
            declaration, for more than 100,000 tags, and for elements nested more than 32 deep.
    """
    trimmed = body.strip()
    if len(trimmed) < _LONGEST_PLAIN and (plain := _plain_fields(trimmed)) is not None:
        return plain
    # A ValueError is a document type, or, as a LookupError, an encoding that is not known.
    with contextlib.suppress(SyntaxError, ValueError, LookupError, RecursionError):
        may_read = trimmed.count(b"<") <= _MOST_TAGS
        if may_read and _local_name(root := fromstring(trimmed, forbid_dtd=True)) == "respon":
            value = _value_of(root)
            return value if isinstance(value, dict) else {}
    kind = kind_of(trimmed)
    problem = _UNREADABLE if kind == XML else kind
    raise ReplyUnreadableError(f"expected XML <respon>, got {problem} ({len(body)} bytes)")


def _plain_fields(trimmed: bytes) -> dict[str, Any] | None:
    """Read the plainest XML, as nearly all replies are, in half the time; None for any other.

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


def _local_name(element: "Element") -> str:
    return element.tag.rpartition("}")[2]


def _value_of(element: "Element", depth: int = 1) -> Any:  # noqa: ANN401  # a text, or a dict
    """Return an element as its text, or as its children by name.

    Raises:
        RecursionError: For elements that are nested too deep.
    """
    if depth > _DEEPEST:
        raise RecursionError
    found: dict[str, list[Any]] = {}
    for child in element:
        found.setdefault(_local_name(child), []).append(_value_of(child, depth + 1))
    fields = {name: values if len(values) > 1 else values[0] for name, values in found.items()}
    return fields or element.text or ""


def reply_fields(body: bytes) -> dict[str, str]:
    """Return the top-level fields of a reply as text, to verify its signature.

    In JSON, a string is its text and anything else the very slice of the reply. In XML, an
    element without children is its text; others, which have no text, are given as compact JSON.

    Raises:
        ReplyUnreadableError: For anything but a JSON object or the XML `respon`.
    """
    if not body.lstrip().startswith(b"<"):
        return json_fields(body)
    return {
        name: value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
        for name, value in decode_respon(body).items()
    }


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
