"""Checkout pages: kept to the letter, or refused without a word of them."""

import pytest

from gateway_async.errors import ReplyUnreadableError
from gateway_async.wire.documents import decode_page
from tests.interface_fields import PAGE_INPUTS
from tests.wire.refusals import SECRET, assert_tells_nothing

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Loading &amp; waiting</title></head><body>\r\n"
    '<form id="f" METHOD="Post" action="https://gateway.example/v1/checkout?a=1&amp;b=2">'
    "</form><script>document.title = '<title>no</title>'</script></body></html>\n"
)


def test_a_page_is_kept_to_the_letter() -> None:
    page = decode_page(PAGE.encode())
    assert page.html == PAGE
    assert page.title == "Loading & waiting"
    assert page.action == "https://gateway.example/v1/checkout?a=1&b=2"
    assert "form" not in repr(page)


def test_a_page_with_every_hidden_input_is_kept_whole_and_not_shown() -> None:
    inputs = "".join(
        f'<input type="hidden" name="{name}" value="{SECRET}">' for name in sorted(PAGE_INPUTS)
    )
    html = PAGE.replace("</form>", f"{inputs}</form>")
    page = decode_page(html.encode())
    assert page.html == html
    assert page.html.count(SECRET) == len(PAGE_INPUTS)
    assert page.action == decode_page(PAGE.encode()).action
    assert SECRET not in repr(page)


@pytest.mark.parametrize(
    ("html", "action"),
    [
        ("<html></html>", None),
        ('<form action="/x"></form>', None),
        ('<form action="/get" method="get"></form><form action="/post" method=POST>', "/post"),
        ('<form method="post" action="/1"></form><form method="post" action="/2">', "/1"),
        ('<form method="post">', None),
        ("<html><![broken[<form method=post action=/x>", None),
        ("<form method=post action=/x>&#" + "1" * 5000 + ";<p>", "/x"),
    ],
)
def test_the_action_is_that_of_the_first_form_that_posts(html: str, action: str | None) -> None:
    page = decode_page(html.encode())
    assert (page.action, page.html, page.title) == (action, html, None)


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("<html>Grüße".encode(), None),
        ("<html>Grüße".encode(), "UTF-8"),
        ("<html>Grüße".encode(), "no-such-charset"),
        ("<html>Grüße".encode("latin1"), "ISO-8859-1"),
        ("<html>Grüße".encode("gb18030"), '"gbk"'),
        ("<html>Grüße".encode("utf-8-sig"), "iso-8859-1"),
        ("<html>Grüße".encode(), "iso-8859-1"),
        ("<html>Grüße".encode("utf-16"), "utf-16"),
        ("<html>Grüße".encode("utf-16-le"), "utf-16le"),
    ],
)
def test_a_page_is_read_in_its_charset(body: bytes, charset: str | None) -> None:
    assert decode_page(body, charset).html == "<html>Grüße"


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("windows-1251", "Загрузка"),
        ("KOI8-R", "Загрузка"),
        ("iso-8859-2", "Ładowanie"),
        ("iso-8859-9", "Yükleniyor"),
        ("windows-1256", "تحميل"),
    ],
)
def test_a_page_is_read_in_the_charsets_of_other_alphabets(charset: str, text: str) -> None:
    assert decode_page(f"<html>{text}".encode(charset), charset).html == f"<html>{text}"


@pytest.mark.parametrize("text", ["\u00c1gua", "\u00e0 bient\u00f4t", "载入中"])
@pytest.mark.parametrize("charset", ["ISO-8859-1", "windows-1252", "gbk", "windows-1251"])
def test_a_page_in_utf_8_is_read_as_such_whatever_the_header_says(charset: str, text: str) -> None:
    html = f'<html><meta charset="utf-8">{text}'
    assert decode_page(html.encode(), charset).html == html


def test_a_page_in_another_charset_than_its_header_names_may_name_it_itself() -> None:
    html = '<html><meta charset="gbk">载入中'
    assert decode_page(html.encode("gbk"), "utf-8").html == html


def test_a_page_may_name_its_charset_itself() -> None:
    html = '<html><meta http-equiv="Content-Type" content="text/html; charset=latin1">ü'
    assert decode_page(html.encode("latin1")).html == html


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "an empty body"),
        (b'{"a": "5ecret"}', "a JSON object"),
        (b' {"return_message": "<div>5ecret</div>"}', "a JSON object"),
        (b"<?xml version='1.0'?><respon>5ecret</respon>", "XML"),
        (b"<respon>5ecret</respon>", "XML"),
        (b"5ecret", "neither JSON nor XML"),
        (b"<html>5ecret\xff", "utf-8"),
    ],
)
def test_anything_but_a_page_is_named_and_not_quoted(body: bytes, kind: str) -> None:
    with pytest.raises(ReplyUnreadableError, match=kind) as caught:
        decode_page(body)
    assert_tells_nothing(caught.value)
