"""XML and HTML: the `respon` of a payment (sections 2 and 4), and the page of a checkout (4.1).

Every function either reads the whole body, which is UTF-8, or raises `ReplyUnreadableError`. A
message says what kind of thing came, and never quotes it. No entity is ever expanded: a document
type definition, where one would be declared, is refused.
"""

import contextlib
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

import orjson

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.records import CheckoutPage
from gateway_async.wire.decode import XML, json_fields, kind_of
from gateway_async.wire.encode import JsonText

_DEEPEST = 32
_MOST_TAGS = 100_000


class _UnfitError(ValueError):
    """XML that is refused, whether or not it is well formed."""


def decode_respon(body: bytes) -> dict[str, Any]:
    """Return the elements below the root element `respon`, by name.

    An element without children is its text, one with children is a dict (with text of its own
    under `#text`), and elements of the same name are a list. Attributes and namespaces are
    dropped; none is shown.

    Raises:
        ReplyUnreadableError: For anything else, for a document type definition or an entity
            declaration, for more than 100,000 tags, and for elements nested more than 32 deep.
    """
    problem = "XML with another root element"
    try:
        value: dict[str, Any] | str | None = _read_xml(body.strip()).get("respon")
    except _UnfitError as error:
        problem = str(error)
    except (expat.ExpatError, ValueError, LookupError):
        # The last two: an encoding that is unknown, or that the bytes do not fit.
        problem = "broken or truncated XML"
    else:
        if isinstance(value, str):
            return {"#text": value} if value.strip() else {}
        if value is not None:
            return value
    kind = kind_of(body)
    raise ReplyUnreadableError(
        f"expected XML <respon>, got {problem if kind == XML else kind} ({len(body)} bytes)"
    )


def _read_xml(body: bytes) -> dict[str, Any]:
    """Return the root element by its name: a text, or a dict; see `decode_respon`."""
    if body.count(b"<") > _MOST_TAGS:
        raise _UnfitError(f"XML with more than {_MOST_TAGS:,} tags")
    fields, texts = dict[str, Any](), list[str]()
    outer: list[tuple[dict[str, Any], list[str]]] = []

    def start(_name: str, _attributes: object) -> None:
        nonlocal fields, texts
        if len(outer) == _DEEPEST:
            raise _UnfitError(f"XML nested more than {_DEEPEST} deep")
        outer.append((fields, texts))
        fields, texts = {}, []

    def read_text(text: str) -> None:
        texts.append(text)

    def end(name: str) -> None:
        nonlocal fields, texts
        text = "".join(texts)
        value = text if not fields else {**fields, "#text": text} if text.strip() else fields
        name = name.rpartition("}")[2]  # behind its namespace
        fields, texts = outer.pop()
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]

    def refuse(*_: object) -> None:
        raise _UnfitError("XML with a document type definition or an entity declaration")

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse  # entities can be declared nowhere else
    parser.StartElementHandler = start
    parser.CharacterDataHandler = read_text
    parser.EndElementHandler = end
    parser.Parse(body, True)  # noqa: FBT003  # this is all of it
    return fields


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
