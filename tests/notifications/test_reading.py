"""Whatever arrives is read whole or refused with a clear error; nothing of it is shown."""

import contextlib
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, strategies as st

from gateway_async import Dialect, NotificationError, OrderRef
from gateway_async.notifications import Notification, SignatureVerifier, parse
from gateway_async.signing import HmacSigner, Signer
from tests.support.collaborators import Verifier
from tests.support.dragnet import Dragnet
from tests.support.examples import CARD

FIELDS = {
    "order_no": "A-1",
    "transaction_id": "2023051612301234567890",
    "amount": "10.00",
    "note": "a & b = c; 你好 🙂",
    "encryption_data": "5f3c",
}
JSON = json.dumps(FIELDS).encode()
XML = f"<respon>{''.join(f'<{n}>{v}</{n}>' for n, v in FIELDS.items())}</respon>".replace(
    " & ", " &amp; "
).encode()
DECLARED = '<?xml version="1.0" encoding="GBK"?><respon><order_no>訂單一</order_no></respon>'
FORM = "application/x-www-form-urlencoded"


def _parse(body: bytes, content_type: str = "", **settings: Any) -> Notification:
    return parse({"Host": "shop", "content-TYPE": content_type, "Age": "1"}, body, **settings)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (FORM, urlencode(FIELDS).encode()),
        ("application/json", JSON),
        (FORM, JSON),
        ("", b"\xef\xbb\xbf" + JSON),
        ("", b'<?xml version="1.0"?>\n' + XML),
    ],
)
def test_forms_json_and_xml_are_read_under_any_name(content_type: str, body: bytes) -> None:
    notification = _parse(body, content_type)
    assert (notification.order_no, notification.transaction_id) == ("A-1", FIELDS["transaction_id"])
    assert (notification.request_id, notification.is_payout) == (None, False)
    assert notification.ref == OrderRef(transaction_id=FIELDS["transaction_id"])
    assert notification.fields == FIELDS


def test_another_charset_is_read_where_it_is_named() -> None:
    for text, content_type in (("order_no=訂單一", f'{FORM}; charset="gbk"'), (DECLARED, FORM)):
        notification = _parse(text.encode("gbk"), content_type)
        assert notification.ref == OrderRef(order_no="訂單一")
    with pytest.raises(NotificationError, match="charset that is not known"):
        _parse(b'{"order_no": "A"}', "application/json; charset=rot13")
    for browsers_alone in ("x-user-defined", "iso-2022-kr"):
        with pytest.raises(NotificationError, match="not in"):
            _parse(b"order_no=%C3%A4", f"{FORM}; charset={browsers_alone}")


def test_nested_fields_and_numbers_keep_their_very_text() -> None:
    body = b'{"order_no": 2023051612301234567890, "more": {"a": [1.10, null]}, "none": ["x"]}'
    assert _parse(body).fields == {
        "order_no": "2023051612301234567890",
        "more": '{"a": [1.10, null]}',
        "none": '["x"]',
    }


def test_a_dialect_says_which_fields_name_the_order_or_the_payout() -> None:
    notification = _parse(b"request_id=7f0c&transaction_id=T1&status=COMPLETED")
    assert notification.is_payout
    assert (notification.request_id, notification.transaction_id) == ("7f0c", "T1")
    assert not _parse(b"request_id=7f0c&order_no=A-1").is_payout
    dialect = Dialect(notification_fields={"order_no": ["merchantOrder", "order_no"]})
    for body in (b"merchantOrder=A-1", b"order_no=A-1&merchantOrder=A-1"):
        assert _parse(body, dialect=dialect).order_no == "A-1"
    assert _parse(b"orderNo=A-2").order_no == "A-2"


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE respon [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
<respon><order_no>&b;</order_no></respon>"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b" \r\n", "empty body"),
        (b"order_no=A&x=" + b"x" * 65_536, "larger than 65536 bytes"),
        (b"encryption_data=s3cret&order_no=+", "names no order: it has none of order_no, orderNo"),
        (b"<respon><order_no>A</order_no><order_no>B</order_no></respon>", "a field twice"),
        (b"order_no=A&status=FAILED&status=COMPLETED", "a field twice"),
        (b'{"order_no": "A", "status": "FAILED", "status": "COMPLETED"}', "names a field twice"),
        (b"order_no=A&orderNo=B", "two different values of order_no"),
        (b"<respon><encryption_data>s3cret</encryption_data><order_no>", "XML"),
        (LAUGHS, "document type"),
        (b'{"order_no": "A", "a": ' + b"[" * 2000 + b"]" * 2000 + b"}", "nested too deep"),
        (b'{"encryption_data": "s3cret", "order_no": "A"', "truncated"),
        *((b"encryption_data=s3cret&order_no=" + no, "not in utf-8") for no in (b"\xff", b"%FF")),
        *((b"order_no=" + no, "printable text of up to 200") for no in (b"A%0aB", b"x" * 201)),
    ],
)
async def test_what_cannot_be_read_is_refused_with_a_reason_that_holds_no_signature(
    net: Dragnet, body: bytes, reason: str
) -> None:
    net.signatures.add("s3cret")
    with net.raises(NotificationError, match=reason):
        _parse(body)


def test_what_is_nested_too_deep_for_the_stack_is_refused() -> None:
    body = b'{"order_no": "A", "a": ' + b"[" * 200 + b"]" * 200 + b"}"

    def parse_below(frames: int) -> object:
        return parse_below(frames - 1) if frames else _parse(body)

    for frames in range(0, 850, 10):
        with contextlib.suppress(NotificationError):
            parse_below(frames)


@given(
    st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"order_no={text}".encode())
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        notification = _parse(body)
    except NotificationError:
        return
    assert notification.order_no or notification.transaction_id or notification.request_id


SECRETS = {"order_no": "A-1", "encryption_data": "s3cret", "card": CARD}


async def test_a_notification_shows_no_signature_and_no_card(net: Dragnet) -> None:
    net.signatures.add("s3cret")
    nested = {"order_no": "A-1", "payment": SECRETS}
    for body in (urlencode(SECRETS).encode(), json.dumps(nested).encode()):
        notification = _parse(body)
        net.catch("read", [notification, dict(notification.fields)])
        assert "A-1" in repr(notification)
        assert "'order_no': 'A-1'" in repr(notification.fields)


# Signatures

SIGNER = HmacSigner("s3cret")


def is_right(fields: dict[str, str], signer: Signer = SIGNER) -> bool:
    """Say whether the fields are verified with their own signature."""
    signature = signer.sign(None, fields)  # type: ignore[arg-type]  # it does not look at it
    return SignatureVerifier(signer)({}, b"", {**fields, "encryption_data": signature})


def test_a_checkout_with_a_forged_address_is_no_payout_notification() -> None:
    """Its page shows the signature to the shopper, whose text may read as more fields."""
    address = "Rue 1&request_id=5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11&status=paid&zip=1"
    signed = {"account_id": "A1", "billing_address": address, "order_no": "A-1", "amount": "1.00"}
    forged = {
        "account_id": "A1&amount=1.00&billing_address=Rue 1",
        "request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
        "status": "paid",
        "zip": "1&order_no=A-1",
    }
    in_a_name = {"account_id=A1&amount": "1.00", "billing_address": f"{address}&order_no=A-1"}
    of_the_page = SIGNER.sign(None, signed)  # type: ignore[arg-type]  # it does not look at it
    for fields in (forged, in_a_name, signed):
        assert SIGNER.sign(None, fields) == of_the_page  # type: ignore[arg-type]  # the same
        assert not is_right(fields)


def test_an_ordinary_text_is_no_second_field() -> None:
    fields = {"order_no": "A-1", "note": "Smith & Sons"}
    for note in ("Smith & Sons", "a & b = c", "?a=1"):
        assert is_right({**fields, "note": note})
    assert is_right(fields, Verifier(sign=lambda _, fields: ",".join(fields)))
    other = HmacSigner("s3cret", template="{value}", joiner="|")
    assert not other.is_ambiguous({**fields, "encryption_data": "a|b"})
    assert other.is_ambiguous({"order_no": "A-1|2"})
    assert not HmacSigner("s3cret", joiner="").is_ambiguous({"order_no": "a&b=1"})
