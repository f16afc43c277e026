"""Reply bodies: read whole, or refused without a word of them."""

import gzip
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from gateway_async.errors import ReplyUnreadableError
from gateway_async.wire import documents
from gateway_async.wire.decode import decode_json, decode_surely
from gateway_async.wire.documents import decode_page, decode_respon, reply_fields
from gateway_async.wire.encode import JsonText
from tests.wire.refusals import assert_tells_nothing


@pytest.mark.parametrize(
    "body",
    [b'{"a": "1"}', b' \r\n{"a": "1"}\n', b'\xef\xbb\xbf{"a": "1"}', b'{"a": "0", "a": "1"}'],
)
def test_json_objects_are_read(body: bytes) -> None:
    assert decode_json(body) == {"a": "1"}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\uDE00 cut", "\ufffd cut"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (r"\ud83d\u0041\n", "\ufffdA\n"),
    ],
)
@pytest.mark.parametrize("decode", [decode_json, decode_surely])
def test_a_text_that_was_cut_within_a_character_does_not_spoil_the_reply(
    decode: Any, written: str, text: str
) -> None:
    body = f'{{"a": "{written}", "b": 1, "b": "1"}}'.encode()
    assert decode(body)["a"] == reply_fields(body)["a"] == text


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "an empty body"),
        (b" \n", "an empty body"),
        (b"<!DOCTYPE html><p>5ecret", "an HTML page"),
        (b"<html>5ecret", "an HTML page"),
        (b"<respon>5ecret</respon>", "got XML"),
        (b'["5ecret"]', "a JSON array"),
        (b'"5ecret"', "a single JSON value"),
        (b"17", "a single JSON value"),
        (b"null", "a single JSON value"),
        (b'{"a": "5ecret', r"truncated JSON: a JSON object that ends at byte 13"),
        (b'{"a": "5ecret", b}', r"broken JSON: a JSON object .* at character 16"),
        (b'{"a": "5ecret"} x', r"broken JSON"),
        (b'{"a": "5ecret\xff"}', r"broken JSON"),
        (b"a=5ecret", "neither JSON nor XML"),
        (gzip.compress(b"5ecret", mtime=0), "neither JSON nor XML"),
    ],
)
def test_anything_but_a_json_object_is_named_and_not_quoted(body: bytes, kind: str) -> None:
    with pytest.raises(ReplyUnreadableError, match=kind) as caught:
        decode_json(body)
    assert_tells_nothing(caught.value)


def test_respon_is_read() -> None:
    body = b"""<?xml version="1.0" encoding="UTF-8"?>
        <respon><order_no> A </order_no><note/><risk_reasons><name>ip</name><status>ok</status>
        </risk_reasons><x>1</x><x>2</x><x>3</x><mixed>text<b>1</b></mixed></respon>"""
    assert decode_respon(body) == {
        "order_no": " A ",
        "note": "",
        "risk_reasons": {"name": "ip", "status": "ok"},
        "x": ["1", "2", "3"],
        "mixed": {"b": "1", "#text": "text"},
    }


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"\xef\xbb\xbf\n<?xml version='1.0'?><respon><a>\xc3\xa4</a></respon>", {"a": "ä"}),
        ("<?xml version='1.0' encoding='latin1'?><respon><a>ä</a></respon>", {"a": "ä"}),
        (b'<respon xmlns="urn:x"><a k="v">1</a></respon>', {"a": "1"}),
        (b"<respon><![CDATA[<b>]]></respon>", {"#text": "<b>"}),
        (b"<respon/>", {}),
        ("\ufeff<respon><a>ä</a></respon>\n".encode("utf-16-be"), {"a": "ä"}),
    ],
)
def test_respon_in_other_clothes_is_read(body: bytes | str, fields: dict[str, Any]) -> None:
    assert decode_respon(body.encode("latin1") if isinstance(body, str) else body) == fields


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("GB2312", "成功"),
        ("gbk", "退款"),
        ("GB18030", "€"),
        ("Big5", "成功"),
        ("Shift_JIS", "成功"),
        ("utf8", "成功"),
    ],
)
@pytest.mark.parametrize("quote", ["'", '"'])
def test_respon_is_read_in_the_encoding_that_it_declares(
    encoding: str, text: str, quote: str
) -> None:
    declared = f"<?xml version={quote}1.0{quote} encoding={quote}{encoding}{quote} ?>"
    body = f"{declared}\n<respon><a>{text}</a></respon>\n".encode(encoding)
    assert decode_respon(body) == reply_fields(body) == {"a": text}


def test_a_byte_order_mark_counts_for_more_than_a_declaration() -> None:
    text = "<?xml version='1.0' encoding='gb2312'?><respon><a>成功</a></respon>"
    assert decode_respon(text.encode("utf-8-sig")) == {"a": "成功"}


def test_respon_in_bytes_that_its_encoding_lacks_is_broken() -> None:
    body = b"<?xml version='1.0' encoding='gbk'?><respon><a>\xff5ecret</a></respon>"
    with pytest.raises(ReplyUnreadableError, match="broken or truncated XML") as caught:
        decode_respon(body)
    assert_tells_nothing(caught.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "an empty body"),
        (b"<!DOCTYPE html><html>5ecret", "an HTML page"),
        (b'{"a": "5ecret"}', "a JSON object"),
        (b"<respon>5ecret", "broken or truncated XML"),
        (b"<respon><respon/>", "broken or truncated XML"),
        (b"<result>5ecret</result>", "another root element"),
        (b"<?xml version='1.0' encoding='no-such'?><respon>5ecret</respon>", "broken or truncated"),
        (b"<!DOCTYPE r [<!ENTITY a '5ecret'>]><respon>&a;</respon>", "document type definition"),
        (b"<!DOCTYPE r SYSTEM 'file:///etc/passwd'><respon/>", "document type definition"),
        (b"<respon>" * 40 + b"</respon>" * 40, "nested more than 32 deep"),
        (b"<a>" * 100_000, "nested more than 32 deep"),
    ],
)
def test_anything_but_respon_is_named_and_not_quoted(body: bytes, kind: str) -> None:
    with pytest.raises(ReplyUnreadableError, match=kind) as caught:
        decode_respon(body)
    assert_tells_nothing(caught.value)


def test_the_fields_of_a_json_reply_are_its_very_text() -> None:
    body = b'\n{ "a" : "x\\u00e4" ,"n":1.50,"t":true,"z":null,"l":[ 1, {"b":"]}"} ],"o":{ } }'
    fields = reply_fields(body)
    assert fields == {
        "a": "xä",
        "n": "1.50",
        "t": "true",
        "z": "null",
        "l": '[ 1, {"b":"]}"} ]',
        "o": "{ }",
    }
    assert type(fields["l"]) is JsonText
    assert reply_fields(b"{}") == {}


def test_the_fields_of_an_xml_reply_are_its_texts() -> None:
    body = b"<respon><a>1</a><risk_reasons><name>ip</name></risk_reasons></respon>"
    assert reply_fields(body) == {"a": "1", "risk_reasons": '{"name":"ip"}'}


def test_a_deeply_nested_field_is_its_very_text_or_is_refused() -> None:
    nested = "[" * 1_000 + "]" * 1_000
    try:
        fields = reply_fields(f'{{"a": {nested}}}'.encode())
    except ReplyUnreadableError as error:  # how deep the parser goes is up to the interpreter
        assert "nested too deep" in str(error)  # noqa: PT017  # either is right
    else:
        assert fields == {"a": nested}


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>5ecret"])
def test_only_replies_have_fields(body: bytes) -> None:
    with pytest.raises(ReplyUnreadableError) as caught:
        reply_fields(body)
    assert_tells_nothing(caught.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=5), _json, max_size=4),
    st.sampled_from([0, orjson.OPT_INDENT_2]),
)
def test_json_fields_hold_what_the_reply_holds(reply: dict[str, Any], option: int) -> None:
    body = orjson.dumps(reply, option=option)
    fields = reply_fields(body)
    read = {
        name: orjson.loads(text.encode()) if isinstance(text, JsonText) else text
        for name, text in fields.items()
    }
    assert read == reply == decode_json(body)


_PIECES = [
    *(b"<respon>", b"</respon>", b"<a>", b"</a>", b"<html>", b"<![x[", b"<!--", b"&#0;", b"\0"),
    *(b"{", b"}", b'"a":', b"1", b",", b"[", b"]", b"\xff"),
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"<?xml version='1.0' encoding='gb2312'?>",
]
_bodies = st.lists(st.sampled_from(_PIECES) | st.binary(max_size=4)).map(b"".join) | st.binary()


_TAGS = [
    *(f"<{slash}{name}>" for name in ("respon", "a", "b", "b-1", "b:c") for slash in ("", "/")),
    *('<?xml version="1.0"?>', '<?xml version="1.0" encoding="UTF-8"?>', "<a/>", "<a k='1'>"),
]
_TEXTS = [
    " ",
    "\t\n",
    "\r\n",
    "1",
    "ä",
    "\u2028",
    "\xa0",
    "\x7f",
    "\ufffe",
    "\0",
    "&lt;",
    "]]>",
    ">",
]
_elements = st.recursive(
    st.sampled_from([*_TEXTS, ""]) | st.text(max_size=3),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["a", "b", "b-1"]), inner, st.sampled_from(["", " ", "\n"])),
        max_size=3,
    ).map(lambda parts: "".join(f"<{name}>{text}</{name}>{gap}" for name, text, gap in parts)),
    max_leaves=8,
)


@given(
    _elements, st.lists(st.tuples(st.integers(0, 99), st.sampled_from(_TAGS + _TEXTS)), max_size=2)
)
def test_plain_xml_is_read_as_the_parser_reads_it(
    content: str, changes: list[tuple[int, str]]
) -> None:
    text = f"<respon>{content}</respon>"
    for place, piece in changes:
        text = text[:place] + piece + text[place:]
    trimmed = text.strip(" \t\r\n").encode(errors="replace")
    plain = documents._plain_fields(trimmed)
    assert plain is None or plain == documents._parsed_fields(trimmed, len(trimmed))


def test_a_usual_reply_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(documents, "_parsed_fields")
    body = b"""<?xml version="1.0" encoding="UTF-8"?>
        <respon>
          <order_no>A</order_no><note></note>
          <risk_reasons> <name>ip</name> <status>ok</status> </risk_reasons>
        </respon>"""
    reasons = {"name": "ip", "status": "ok"}
    assert decode_respon(body) == {"order_no": "A", "note": "", "risk_reasons": reasons}


def test_plain_xml_takes_a_time_in_proportion_to_its_size() -> None:
    for piece in (b"<a> </a>", b"<a><b> </b>", b"<a>", b" ", b"<a> <b> </b> <c>"):
        body = b"<respon>" + piece * (60_000 // len(piece)) + b"<respon>"
        assert documents._plain_fields(body) is None  # in the square of its size, this would hang


def refusal(decode: Any, *arguments: object) -> ReplyUnreadableError | None:
    try:
        decode(*arguments)
    except ReplyUnreadableError as error:
        return error
    return None


@pytest.mark.parametrize("decode", [decode_json, decode_respon, decode_page, reply_fields])
@given(body=_bodies)
def test_any_bytes_are_read_or_refused(decode: Any, body: bytes) -> None:
    error = refusal(decode, body)
    assert error is None or error.__context__ is None


@given(_bodies, st.text(max_size=12))
def test_any_charset_is_read_or_refused(body: bytes, charset: str) -> None:
    error = refusal(decode_page, body, charset)
    assert error is None or error.__context__ is None
