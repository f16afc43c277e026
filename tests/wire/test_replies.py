"""Reply bodies: read whole, in whatever encoding, or refused without a word of them."""

import json
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import (
    CheckoutPage,
    DeliveryInformation,
    FraudCheckResult,
    GatewayClient,
    RedirectPayment,
    ReplyUnreadableError,
    RiskReasons,
    SubscriptionResult,
    TransactionRecord,
)
from gateway_async.wire.records import _reader
from tests.support.collaborators import Verifier
from tests.support.memory import Asked, HttpResponse, client_over, respon
from tests.support.orders import PAYMENT, direct_payment, payout_request, refunds

SECRET = "5ecret"
"""It stands in every body that is refused."""


def replying(body: bytes, content_type: str, **settings: Any) -> GatewayClient:
    headers = {"Content-Type": content_type} if content_type else {}
    return client_over(lambda _: HttpResponse(200, headers, body), **settings)


async def read(body: bytes, form: str = "json", content_type: str = "") -> Any:
    return (await replying(body, content_type).call("/v1/payout", {}, reply=form)).data


async def page_of(body: bytes, content_type: str = "text/html") -> CheckoutPage:
    return await replying(body, content_type).checkout(RedirectPayment(**PAYMENT))


# JSON


async def test_a_json_object_is_read() -> None:
    for body, value in (
        (b'{"a": "1"}', "1"),
        (b'\xef\xbb\xbf{"a": "1"}', "1"),
        (rb'{"a": "\uDE00 cut"}', "\ufffd cut"),
        (rb'{"a": "\ud83d\ud83d\ude00"}', "\ufffd\U0001f600"),
        (rb'{"a": "\\ud83d \ud83d"}', "\\ud83d \ufffd"),
        (rb'{"a": "\ud83d\u0041\n"}', "\ufffdA\n"),
    ):
        assert (await read(body))["a"] == value


OBJECT = b'{"a": "5ecret"}'
KINDS = {
    OBJECT: "a JSON object",
    b"": "an empty body",
    b"<!DOCTYPE html><p>5ecret": "an HTML page",
    b" <HTML>5ecret": "an HTML page",
    b"<respon>5ecret</respon>": "XML",
    b'["5ecret"]': "a JSON array",
    b"a=5ecret": "something else",
}
REFUSALS: dict[str, list[bytes]] = {
    "json": [
        *(KINDS.keys() - {OBJECT}),
        *(b'{"a": "5ecret', b'{"a": "5ecret\xff"}'),
        b'{"a": ' + b"[" * 400 + b'"5ecret"' + b"]" * 400 + b"}",
    ],
    "xml": [
        *(OBJECT, b"<respon>5ecret", b"<result>5ecret</result>"),
        b"<?xml version='1.0' encoding='no-such'?><respon>5ecret</respon>",
        b"<!DOCTYPE respon SYSTEM 'file:///5ecret'><respon/>",
        b"<!DOCTYPE respon [<!ENTITY a '5ecret'>]><respon>&a;</respon>",
        "<!DOCTYPE respon [<!ENTITY a '5ecret'>]><respon>&a;</respon>".encode("utf-16-le"),
        b"<respon>" * 40 + b"</respon>" * 40,
        b"<respon>" + b"<a/>" * 100_000 + b"</respon>",
    ],
    "page": [
        *(b"5ecret", b"<respon><form>5ecret</form></respon>", b"<html>5ecret\xff"),
        b' {"return_message": "<div>5ecret</div>"}',
    ],
}


@pytest.mark.parametrize("form", REFUSALS)
async def test_any_other_body_is_refused_and_not_quoted(form: str) -> None:
    for body in REFUSALS[form]:
        with pytest.raises(ReplyUnreadableError) as caught:
            await (page_of(body) if form == "page" else read(body, form))
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        if form != "page":
            broken = "one that is broken" if form == "json" else "XML that is another, broken"
            assert f"got {KINDS.get(body, broken)}" in str(caught.value)
        assert caught.value.__context__ is caught.value.__cause__ is None


# XML

DECLARED = "<?xml version='1.0' encoding='GB2312' ?>\n<respon><a>成功</a></respon>"
WHOLE = """<?xml version="1.0" encoding="UTF-8"?>
    <respon><order_no> A </order_no><note/><risk_reasons><name>ip</name><status>ok</status>
    </risk_reasons><x>1</x><x>2</x><x>3</x><mixed>text<b>1</b></mixed></respon>"""
READ = {
    "order_no": " A ",
    "note": "",
    "risk_reasons": {"name": "ip", "status": "ok"},
    "x": ["1", "2", "3"],
    "mixed": {"b": "1"},
}


async def test_xml_is_read() -> None:
    for text, encoding, content_type, fields in (
        (WHOLE, "utf-8", "", READ),
        ('<respon xmlns="urn:x"><a k="v"><![CDATA[<b>]]></a></respon>', "utf-8", "", {"a": "<b>"}),
        ("\ufeff<respon><a>ä</a></respon>\n", "utf-16-be", "", {"a": "ä"}),
        # What the reply names counts for more than its header, and a byte order mark for most.
        (DECLARED, "GB2312", "text/xml; charset=latin1", {"a": "成功"}),
        (DECLARED, "utf-8-sig", "", {"a": "成功"}),
    ):
        assert await read(text.encode(encoding), "xml", content_type) == fields


JSON = rb"""
{ "a" : "x\u00e4" ,"n":1.50,"t":true,"z":null,"l":[ 1, {"b":"]}"} ],"o":{ },
"encryption_data":"theirs"}"""
TEXTS = {"a": "xä", "n": "1.50", "t": "true", "z": "null", "l": '[ 1, {"b":"]}"} ]', "o": "{ }"}
XML = b"<respon><a>1</a><r><n>ip</n></r><encryption_data>theirs</encryption_data></respon>"


async def test_a_signature_covers_the_very_texts_of_the_fields() -> None:
    for body, form, texts in ((JSON, "json", TEXTS), (XML, "xml", {"a": "1", "r": '{"n":"ip"}'})):
        signer = Verifier()
        await replying(body, "", signer=signer).call("/v1/payout", {}, reply=form)
        assert signer.asked == [(texts, "theirs")]


async def test_a_reply_is_read_in_the_charset_that_only_its_header_names() -> None:
    charset, said = "gb2312", "退款成功 <?xml version='1.0' encoding='x'?>"

    def answer(asked: Asked) -> HttpResponse:
        text = json.dumps(asked.done(return_message=said), ensure_ascii=False)
        return HttpResponse(200, {"Content-Type": f"a/b;charset={charset}"}, text.encode(charset))

    (outcome,) = await client_over(answer).refund(refunds(1))
    assert outcome.reply is not None
    assert outcome.reply.return_message == said
    for text in ("<?xml version='1.0' encoding='utf8'?><a/>", "<?xml version='1.0'?><a>ä</a>"):
        assert await read(text.encode(), "text") == text
    xml = f"<respon><a><![CDATA[{said}]]></a></respon>".encode(charset)
    assert await read(xml, "xml", f'text/xml; charset="{charset}"') == {"a": said}
    assert await read(said.encode(charset), "text", f"text/plain; charset={charset}") == said
    for unknown in ("no-such", "\udcff"):  # so aiohttp gives a byte beyond ASCII
        assert await read(b"\xff", "text", f"text/plain; charset={unknown}") == "\ufffd"


# Checkout pages

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Loading &amp; waiting</title>\n</head><body>\r\n"
    '<form id="f" METHOD="Post" action="https://gateway.example/v1/checkout?a=1&amp;b=2">'
    f'<input type="hidden" name="signInfo" value="{SECRET}"></form>'
    "<script>document.title = '<title>no</title>'</script></body></html>\n"
)


async def test_a_page_is_kept_and_its_action_is_that_of_the_first_form_that_posts() -> None:
    for html, action in (
        (PAGE, "https://gateway.example/v1/checkout?a=1&b=2"),
        ("<div method=post action=/0><form action=/1 method></form>", None),
        ('<form action="/get"></form><form action="/post" method=POST>', "/post"),
        ('<form method="post" action="/1"></form><form method="post" action="/2">', "/1"),
        ('<form method="post">', None),
        ("<html><![broken[<form method=post action=/x>", None),
    ):
        page = await page_of(html.encode())
        assert (page.action, page.html) == (action, html)
        assert page.title == ("Loading & waiting" if html is PAGE else None)
        assert "form" not in repr(page)


async def test_a_page_is_read_in_its_charset() -> None:
    for text, encoding, charset in (
        ("Grüße", "utf-8", "no-such-charset"),
        ("Grüße", "gb18030", '"gbk"'),
        ("Grüße", "utf-8-sig", "iso-8859-1"),
        ("Grüße", "latin1", "iso-8859-1"),
        ("Grüße", "utf-16", "utf-16"),
        ('<meta charset="gbk">载入中', "gbk", "utf-8"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=latin1">ü', "latin1", ""),
    ):
        html = f"<html>{text}"
        header = f"text/html; charset={charset}" if charset else "text/html"
        assert (await page_of(html.encode(encoding), header)).html == html


# Records of replies, however sloppy

AT_NOON = datetime(2023, 5, 16, 12)  # noqa: DTZ001  # no zone is shown
TRANSACTION: dict[str, Any] = {
    "transaction_id": "2023051612301234567890",
    "reference_no": "R1",
    "order_no": "ORD-1",
    "amount": "129.90",
    "currency": "EUR",
    "payment_status": "3000",
    "query_result": "1",
    "is3ds": "0",
    "transaction_date": "20230516120000",
    "website": "shop.example",
    "shopper_email": "a@shop.example",
    "shopper_phone": "",
    "delivery_information": {"delivery_city": "Berlin"},
    "antifraud_provider": "provider",
    "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
    "subscription_result": {"recurring_id": "S1", "recurring_status": "1"},
}


async def records_of(*items: object) -> tuple[TransactionRecord, ...]:
    reply = {"return_status": "1", "orders_list": items}
    return (await client_over(lambda _: reply).recent_transactions()).records


async def transaction_of(item: object) -> TransactionRecord:
    (record,) = await records_of(item)
    return record


async def test_a_transaction_is_read_whole_with_fields_that_are_not_listed() -> None:
    more = {"new_field": {"deep": [1, 2.5, None]}, "extra": 1, "unreadable": "x"}
    assert await transaction_of({**TRANSACTION, **more}) == TransactionRecord(
        extra=more,
        **{
            **TRANSACTION,
            "amount": Decimal("129.90"),
            "transaction_date": AT_NOON,
            "delivery_information": DeliveryInformation(delivery_city="Berlin"),
            "fraud_check_result": (FraudCheckResult(check_items="ip", status="ACCEPT"),),
            "subscription_result": SubscriptionResult(recurring_id="S1", recurring_status="1"),
        },
    )


async def test_what_is_no_record_is_one_that_cannot_be_read() -> None:
    records = await records_of(TRANSACTION, None, 7)
    assert [record.order_no for record in records] == ["ORD-1", None, None]
    assert [one.unreadable for one in records[1:]] == [{"record": "null"}, {"record": "7"}]
    assert len({*records}) == 3


SLOPPY: list[tuple[str, object, object]] = [
    *(("order_no", 10**n - 1, "9" * n) for n in (20, 300)),
    ("amount", 12.3, Decimal("12.3")),
    ("amount", " 1.50 ", Decimal("1.50")),
    ("amount", "", None),
    ("transaction_date", 20230516120000, AT_NOON),
    ("transaction_date", " ", None),
    ("fraud_check_result", "", ()),
    ("fraud_check_result", {"status": "REJECT"}, (FraudCheckResult(status="REJECT"),)),
    ("fraud_check_result", ["x"], (FraudCheckResult(unreadable={"record": "x"}),)),
    ("delivery_information", {}, DeliveryInformation()),
    ("delivery_information", [], None),  # also where an empty object came before
    ("delivery_information", "", None),
]
UNREADABLE: list[tuple[str, object, str]] = [
    ("order_no", 2.02e21, "2.02e21"),
    ("order_no", True, "true"),
    ("order_no", ["ä"], '["ä"]'),
    ("order_no", json.loads("[" * 20 + "]" * 20), "[" * 17 + '"***"' + "]" * 17),
    *(("amount", text, text) for text in ("1,50", "NaN", "1_50", "\u0661\u0662")),
    ("amount", 2.0230516123012345e21, "2.0230516123012345e21"),
    *(("amount", text, text) for text in ("1E+999999999", "1E-999999999", "0E+999999999")),
    ("amount", "x" * 5_000, "x" * 1_000),
    *(("transaction_date", text, text) for text in ("20231316123012", "202305161200")),
    *(("transaction_date", text, text) for text in ("20230516T120000", "2023-05-16")),
    ("delivery_information", "Berlin", "Berlin"),
]


async def test_a_sloppy_value_is_read_and_what_cannot_be_is_none_with_its_text() -> None:
    for field, came, expected in SLOPPY:
        record = await transaction_of({field: came})
        assert getattr(record, field) == expected
        assert (record.unreadable, record.extra) == ({}, {})
    for field, came, text in UNREADABLE:
        record = await transaction_of({**TRANSACTION, field: came})
        assert (getattr(record, field), record.payment_status) == (None, "3000")
        kept = {name: value.replace("e+", "e") for name, value in record.unreadable.items()}
        assert kept == {field: text}


async def test_what_is_remembered_of_replies_is_bounded() -> None:
    for n in range(20):
        await records_of(*({f"new_{n}": 1, "amount": f"{n}.{cents}"} for cents in range(100)))
    reader = _reader(TransactionRecord)
    assert (len(reader._functions), len(reader._scope["known_amount"]) <= 1000) == (16, True)


CARDS = {
    "411111******1111": "411111******1111",
    "4111111111111111": "411111******1111",
    "41111111****1111": "411111******1111",
    "****1111": "****1111",
    "12345678": "****5678",
    "": "",
}


async def test_a_direct_payment_result_comes_from_texts_and_shows_six_and_four_digits() -> None:
    """It is read of XML as others are of JSON."""
    reasons = {"name": "ip", "status": "ok"}
    said: dict[str, Any] = {"order_status": "1", "amount": "12.50", "risk_reasons": reasons}
    said |= {"encryption_data": "signed"}
    gateway = client_over(lambda _: respon(said))
    for said["card"], shown in CARDS.items():
        record = await gateway.pay_direct(direct_payment())
        assert record.card == shown
    assert record.risk_reasons == RiskReasons(name="ip", status="ok")
    assert record.amount == Decimal("12.50")
    assert record.encryption_data is not None
    assert record.encryption_data.reveal() == "signed"


async def test_a_payout_result_repeats_the_request() -> None:
    """A list is read entry by entry: a wrong one takes no other with it."""
    labels: list[Any] = [["a", 1, {"b": 2}], None, "passport", ["d", 1]]
    fields = {
        "status": "COMPLETED",
        "payment_date": "2024-01-31",
        "created_at": "2024-01-31T10:00:00+02:00",
        "fee_amount": 1.25,
        "beneficiary": {
            "date_of_birth": "1990-W05-3",
            "bank_details": {"local_clearing_system": "LCS", "bank_code": "B1"},
            "person_documents": [{"labels": each} for each in labels],
        },
    }
    record = await client_over(lambda _: fields).payout(payout_request())
    assert record.payment_date == date(2024, 1, 31)
    assert record.created_at == datetime(2024, 1, 31, 8, tzinfo=UTC)
    assert record.fee_amount == Decimal("1.25")
    beneficiary: Any = record.beneficiary
    assert beneficiary.unreadable == {"date_of_birth": "1990-W05-3"}
    bank = beneficiary.bank_details
    assert (bank.local_clearing_system, bank.extra) == ("LCS", {"bank_code": "B1"})
    first, *others = beneficiary.person_documents
    assert (first.labels, first.unreadable) == (("a", "1"), {"labels": '["a",1,{"b":2}]'})
    read = [(one.labels, one.unreadable) for one in others]
    assert read == [(None, {}), (("passport",), {}), (("d", "1"), {})]
