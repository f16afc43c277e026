"""Whatever arrives is read whole or refused with a clear error; nothing of it is shown."""

import json
import pickle
import traceback
import types
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, strategies as st

from gateway_async import ConfigurationError, Dialect, NotificationError, OrderRef
from gateway_async.notifications import Notification, SignatureVerifier, parse
from gateway_async.signing import HmacSigner

FIELDS = {
    "order_no": "A-1",
    "transaction_id": "2023051612301234567890",
    "amount": "10.00",
    "note": "a & b = c; 你好 🙂",
    "encryption_data": "5f3c",
}
XML = "".join(f"<{n}>{v.replace('&', '&amp;')}</{n}>" for n, v in FIELDS.items())
FORMS = {
    "form": ("application/x-www-form-urlencoded", urlencode(FIELDS).encode()),
    "json": ("application/json", json.dumps(FIELDS).encode()),
    "xml": ("text/xml", f"<respon>{XML}</respon>".encode()),
    "xml with a prolog": ("", f'<?xml version="1.0"?>\n<respon>{XML}</respon>'.encode()),
    "json called a form": ("application/x-www-form-urlencoded", json.dumps(FIELDS).encode()),
    "json with a byte order mark": ("", b"\xef\xbb\xbf" + json.dumps(FIELDS).encode()),
    "form of raw UTF-8": (
        "",
        "&".join(f"{n}={v}" for n, v in FIELDS.items() if n != "note").encode(),
    ),
}


def _parse(body: bytes, content_type: str = "", **settings: Any) -> Notification:
    return parse({"content-TYPE": content_type}, body, **settings)


@pytest.mark.parametrize("name", FORMS)
def test_forms_json_and_xml_are_read_whatever_they_are_called(name: str) -> None:
    content_type, body = FORMS[name]
    notification = _parse(body, content_type)
    assert (notification.order_no, notification.transaction_id) == ("A-1", FIELDS["transaction_id"])
    assert notification.request_id is None
    assert not notification.is_payout
    expected = {n: v for n, v in FIELDS.items() if n in notification.fields}
    assert notification.fields == expected
    assert len(expected) == len(FIELDS) - (name == "form of raw UTF-8")


@pytest.mark.parametrize("charset", ["gbk", "GB18030", "big5", "utf-16"])
def test_another_charset_is_read_where_it_is_named(charset: str) -> None:
    body = urlencode({"order_no": "訂單一"}, encoding=charset).encode(charset)
    kind = f'application/x-www-form-urlencoded; charset="{charset}"'
    assert _parse(body, kind).order_no == "訂單一"


@pytest.mark.parametrize("charset", ["gbk", "big5", "utf-16", "utf-16be", "utf-8"])
def test_json_and_xml_are_read_in_the_charset_that_the_headers_name(charset: str) -> None:
    for text in ('{"order_no": "訂單一"}', "<respon><order_no>訂單一</order_no></respon>"):
        kind = f"text/plain; charset={charset}"
        assert _parse(text.encode(charset), kind).order_no == "訂單一"


@pytest.mark.parametrize(
    ("declared", "charset"),
    [("GBK", "gbk"), ("utf-16", "utf-16"), ("UTF-16", "utf-8"), ("windows-1251", "cp1251")],
)
def test_xml_is_read_in_the_charset_that_it_declares_or_begins_with(
    declared: str, charset: str
) -> None:
    order_no = "Заказ"
    text = f"""<?xml version='1.0' encoding="{declared}" standalone='yes'?>
        <respon><order_no>{order_no}</order_no><note>encoding="x"</note></respon>"""
    notification = _parse(text.encode(charset), "text/xml")
    assert notification.order_no == order_no
    assert notification.fields["note"] == 'encoding="x"'


def test_nested_fields_and_numbers_keep_their_very_text() -> None:
    body = b'{"order_no": 2023051612301234567890, "more": {"a": [1.10, null]}, "none": null}'
    notification = _parse(body)
    assert notification.order_no == "2023051612301234567890"
    assert notification.fields["more"] == '{"a": [1.10, null]}'
    assert notification.fields["none"] == "null"
    assert {type(text) for text in notification.fields.values()} == {str}


def test_json_may_be_nested_as_deep_as_anybody_needs() -> None:
    notification = _parse(b'{"order_no": "A", "a": ' + b"[" * 500 + b"]" * 500 + b"}")
    assert notification.order_no == "A"


def test_what_is_said_of_a_payout_is_recognised() -> None:
    notification = _parse(b"request_id=7f0c&transaction_id=T1&status=COMPLETED")
    assert notification.is_payout
    assert (notification.request_id, notification.transaction_id) == ("7f0c", "T1")
    assert not _parse(b"request_id=7f0c&order_no=A-1").is_payout


def test_a_transaction_is_looked_up_rather_than_its_order() -> None:
    assert _parse(b"order_no=A-1&transaction_id=T1").ref == OrderRef(transaction_id="T1")
    assert _parse(b"order_no=A-1").ref == OrderRef(order_no="A-1")


def test_a_dialect_says_which_fields_name_the_order() -> None:
    dialect = Dialect(notification_fields={"order_no": ["merchantOrder", "order_no"]})
    assert _parse(b"merchantOrder=A-1", dialect=dialect).order_no == "A-1"
    assert _parse(b"order_no=A-1&merchantOrder=A-1", dialect=dialect).order_no == "A-1"
    assert _parse(b"orderNo=A-2").order_no == "A-2"
    with pytest.raises(ConfigurationError, match=r"Dialect\.notification_fields"):
        Dialect(notification_fields={"order": ("order_no",)})
    with pytest.raises(ConfigurationError, match=r"Dialect\.notification_fields"):
        Dialect(notification_fields={"order_no": "order_no"})


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE respon [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
<respon><order_no>&b;</order_no></respon>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE respon [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<respon><order_no>&a;</order_no></respon>"""

REFUSED = {
    "nothing": (b" \r\n", "empty body"),
    "too large": (b"order_no=" + b"x" * 70_000, "larger than 65536 bytes"),
    "no order": (b"amount=10.00", "names no order: it has none of order_no, orderNo"),
    "an empty order": (b"order_no=+", "names no order"),
    "plain text": (b"hello", "names no order"),
    "a field twice in a form": (b"order_no=A&order_no=B", "a field twice"),
    "a field twice in JSON": (b'{"order_no": "A", "order_no": "B"}', "a field twice"),
    "a nested field twice": (b'{"order_no": "A", "a": {"b": 1, "b": 2}}', "a field twice"),
    "a field twice in XML": (
        b"<respon><order_no>A</order_no><order_no>B</order_no></respon>",
        "a field twice",
    ),
    "two names for two orders": (b"order_no=A&orderNo=B", "two different values of order_no"),
    "another root": (b"<respond><order_no>A</order_no></respond>", "another root element"),
    "a page": (b"<!doctype html><html></html>", "expected XML"),
    "laughs": (LAUGHS, "document type definition or an entity"),
    "an entity from outside": (OUTSIDE, "document type definition or an entity"),
    "deep XML": (b"<respon>" + b"<a>" * 40 + b"</a>" * 40 + b"</respon>", "more than 32 deep"),
    "cut XML": (b"<respon><order_no>A</order", "broken or truncated"),
    "deep JSON": (b'{"order_no": "A", "a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "JSON"),
    "cut JSON": (b'{"order_no": "A"', "truncated JSON"),
    "an array": (b'["order_no"]', "names no order"),
    "a number with a fraction": (b'{"order_no": 2.02e21}', "order_no: expected text"),
    "a list of orders": (b'{"order_no": ["A"]}', "order_no: expected text"),
    "a truth": (b'{"order_no": true}', "order_no: expected text"),
    "half a surrogate pair": (b'{"order_no": "\\ud800"}', "JSON"),
    "bytes that are no UTF-8": (b"order_no=\xff", "not in utf-8"),
    "percent signs that are no UTF-8": (b"order_no=%ff", "not in utf-8"),
    "a very long order": (b"order_no=" + b"x" * 201, "printable text of up to 200"),
    "control characters": (b"order_no=A%0aB", "printable text of up to 200"),
    "very many fields": (b"&" * 5 + b"order_no=A" + b"&a=1" * 1000, "more than 1000 fields"),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "not in utf-8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_reason(name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(NotificationError, match=reason) as caught:
        _parse(body)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("content_type", "reason"),
    [
        ("multipart/form-data; boundary=x", "multipart"),
        ("application/json; charset=rot13", "charset that is not known"),
        ("application/json; charset=punycode", "charset that is not known"),
    ],
)
def test_what_is_announced_and_not_known_is_refused(content_type: str, reason: str) -> None:
    with pytest.raises(NotificationError, match=reason):
        _parse(b'{"order_no": "A"}', content_type)


def test_text_is_not_taken_for_a_body() -> None:
    with pytest.raises(TypeError, match="body: expected bytes, got str"):
        parse({}, "order_no=A-1")  # type: ignore[arg-type]  # on purpose


def test_a_smaller_cap_is_kept() -> None:
    with pytest.raises(NotificationError, match="larger than 10 bytes"):
        _parse(b"order_no=A-1", max_bytes=10)


@given(
    st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"order_no={text}".encode())
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        notification = _parse(body)
    except NotificationError:
        return
    assert notification.order_no or notification.transaction_id or notification.request_id


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.booleans()))
def test_any_json_object_keeps_every_field(fields: dict[str, Any]) -> None:
    for name in ("order_no", "orderNo", "transaction_id", "request_id"):
        fields.pop(name, None)
    notification = _parse(json.dumps({**fields, "order_no": "A-1"}, ensure_ascii=False).encode())
    assert set(notification.fields) == {*fields, "order_no"}


SECRETS = {"order_no": "A-1", "encryption_data": "s3cret", "card": "4111111111111111"}


@pytest.mark.parametrize(
    "body",
    [
        urlencode(SECRETS).encode(),
        json.dumps(SECRETS).encode(),
        json.dumps({"order_no": "A-1", "payment": SECRETS}).encode(),
    ],
)
def test_a_notification_shows_no_signature_and_no_card(body: bytes) -> None:
    notification = _parse(body)
    shown = [repr(notification), repr(dict(notification.fields)), str(pickle.dumps(notification))]
    shown.append(" ".join(f"{name}: {text!s}" for name, text in notification.fields.items()))
    for text in shown:
        assert "s3cret" not in text
        assert "411111111" not in text
    assert "A-1" in repr(notification)


@pytest.mark.parametrize(
    "wrong",
    [
        b"encryption_data=s3cret",
        b"encryption_data=s3cret&order_no=A&order_no=B",
        b"encryption_data=s3cret&order_no=%ff",
        b'{"encryption_data": "s3cret", "order_no": "A"',
        b"<respon><encryption_data>s3cret</encryption_data><order_no>",
        b"encryption_data=s3cret" + b"x" * 70_000,
    ],
)
def test_an_error_holds_no_signature(wrong: bytes) -> None:
    with pytest.raises(NotificationError) as caught:
        _parse(wrong)
    seen: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        seen += [str(error), *(repr(f.f_locals) for f in frames if _is_ours(f))]
        error = error.__context__ or error.__cause__
    assert seen
    assert "s3cret" not in "".join(seen)


def _is_ours(frame: types.FrameType) -> bool:
    return str(frame.f_globals["__name__"]).startswith("gateway_async")


def test_a_signature_is_verified_over_every_other_field() -> None:
    signer = HmacSigner("s3cret")
    verifier = SignatureVerifier(signer)
    fields = {"order_no": "A-1", "amount": "10.00"}
    signature = signer.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    right = {**fields, "encryption_data": signature}
    assert verifier({}, b"", right)
    assert not verifier({}, b"", {**right, "amount": "1000.00"})
    assert not verifier({}, b"", {**right, "more": "1"})
    assert not verifier({}, b"", {**right, "encryption_data": signature.upper()})
    assert not verifier({}, b"", {**right, "encryption_data": "é"})
    assert not verifier({}, b"", fields)
    assert "s3cret" not in repr(verifier)
    with pytest.raises(ConfigurationError, match=r"SignatureVerifier\.signer: expected"):
        SignatureVerifier("s3cret")  # type: ignore[arg-type]  # on purpose


def test_a_checkout_with_a_forged_address_is_no_payout_notification() -> None:
    """Its page shows the signature to the shopper, whose text may read as more fields."""
    signer = HmacSigner("s3cret")
    address = "Rue 1&request_id=5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11&status=paid&zip=1"
    signed = {"account_id": "A1", "billing_address": address, "order_no": "A-1", "amount": "1.00"}
    signature = signer.sign(None, signed)  # type: ignore[arg-type]  # it does not look at it
    forged = {
        "account_id": "A1&amount=1.00&billing_address=Rue 1",
        "request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
        "status": "paid",
        "zip": "1&order_no=A-1",
    }
    in_a_name = {"account_id=A1&amount": "1.00", "billing_address": f"{address}&order_no=A-1"}
    verifier = SignatureVerifier(signer)
    for fields in (forged, in_a_name, signed):
        assert signer.sign(None, fields) == signature  # type: ignore[arg-type]  # likewise
        assert not verifier({}, b"", {**fields, "encryption_data": signature})
    text = "&".join(f"{name}={signed[name]}" for name in sorted(signed))
    whole = dict(part.split("=", 1) for part in text.split("&"))
    assert {*signed} < {*whole}, "whatever is accepted names the checkout's own order"
    assert not parse({}, urlencode(whole).encode()).is_payout


@pytest.mark.parametrize("note", ["Smith & Sons", "a & b = c", "1=2", "&", "x&y", "?a=1"])
def test_an_ordinary_text_is_no_second_field(note: str) -> None:
    signer = HmacSigner("s3cret")
    fields = {"order_no": "A-1", "note": note}
    signature = signer.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    assert SignatureVerifier(signer)({}, b"", {**fields, "encryption_data": signature})
    other = HmacSigner("s3cret", template="{value}", joiner="|")
    assert not other.is_ambiguous(fields)
    assert other.is_ambiguous({"order_no": "A-1|2"})
    assert not HmacSigner("s3cret", joiner="").is_ambiguous({"order_no": "a&b=1"})
