"""The page that a checkout answers with (section 4.1 of the interface).

A message says what kind of thing came instead, and never quotes it.
"""

import contextlib
import re
from html.parser import HTMLParser
from typing import NoReturn

from gateway_async.errors import ReplyUnreadableError
from gateway_async.models.results import CheckoutPage
from gateway_async.wire.decoding import BYTE_ORDER_MARK, codec_of, is_utf_16, kind_of, trim

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
    reader.read(html[:_SEARCHED_CHARACTERS])
    is_json = html.lstrip().startswith(("{", "["))  # whose texts may hold tags
    if is_json or reader.first_tag not in _PAGE_TAGS:
        raise ReplyUnreadableError(
            f"expected an HTML page, got {kind_of(trim(body))} ({len(body)} bytes)"
        )
    return CheckoutPage(html=html, title=reader.title, action=reader.action)


def _page_text(body: bytes, charset: str | None) -> str:
    if body.startswith(BYTE_ORDER_MARK):
        return _decode(body.removeprefix(BYTE_ORDER_MARK), ["utf-8"])
    meta = _META_CHARSET.search(body, 0, 1024)
    labels = [charset or "", meta[1].decode("ascii", "replace") if meta else ""]
    # As in JSON and XML, what is UTF-8 is read as such: servers have a standing header for all.
    labels.insert(len(labels) if is_utf_16(body) else 0, "utf-8")
    return _decode(body, [codec for label in labels if (codec := codec_of(label))])


def _decode(body: bytes, codecs: list[str]) -> str:
    for codec in codecs:
        with contextlib.suppress(UnicodeDecodeError):
            return body.decode(codec)
    raise ReplyUnreadableError(
        f"expected an HTML page in {' or '.join(dict.fromkeys(codecs))}, "
        f"got bytes that are none ({len(body)} bytes)"
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

    def read(self, html: str) -> None:
        try:
            self.feed(html)
        except (AssertionError, ValueError):
            # A malformed declaration, and a character's number too long for `int`; what was found
            # before them stands.
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
