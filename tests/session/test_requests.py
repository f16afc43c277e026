"""What goes out, operation by operation, down to the byte."""

import contextlib
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl

import pytest

from gateway_async import (
    ApmPayment,
    BatchPolicy,
    CancelOrder,
    CaptureOrder,
    DirectPayment,
    GatewayClient,
    GatewayError,
    OrderRef,
    PayoutRequest,
    RedirectPayment,
    RefundOrder,
    ReviewOrder,
)
from tests.orders import made_up, orders_for
from tests.session.http import BASE_URL, Server, mocked, replied

ORDER: dict[str, Any] = {
    "transaction_id": "T1",
    "order_no": "N1",
    "currency": "EUR",
    "amount": "12.5",
}
WIRE = '"transaction_id":"T1","order_no":"N1","currency":"EUR","amount":"12.50"'


class Named(str, Enum):  # noqa: UP042  # a StrEnum shows as its text
    """Texts with names, which a form would show in their place."""

    FIELD = "lang"
    VALUE = "de"


REQUEST_ID = "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11"
PAYMENT: dict[str, Any] = {"order_no": "N1", "currency": "EUR", "amount": 5}
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
HEAD = '{"merchant_id":"M1","account_id":"A1",'

GOLDEN: dict[str, tuple[str, str, str, Callable[[GatewayClient], Awaitable[Any]]]] = {
    "capture": (
        "/v1/capture",
        JSON,
        f'{HEAD}"capture_orders":[{{{WIRE}}}]',
        lambda gateway: gateway.capture([CaptureOrder(**ORDER)]),
    ),
    "cancel": (
        "/v1/cancel",
        JSON,
        f'{HEAD}"cancel_orders":[{{{WIRE}}}]',
        lambda gateway: gateway.cancel([CancelOrder(**ORDER)]),
    ),
    "review": (
        "/v1/review",
        JSON,
        f'{HEAD}"review_orders":[{{{WIRE},"review_flag":"1"}}]',
        lambda gateway: gateway.review([ReviewOrder(**ORDER, review_flag="1")]),
    ),
    "refund": (
        "/v1/refund",
        JSON,
        f'{HEAD}"refund_orders":[{{{WIRE},"refund_amount":"3.00","refund_reason":"zu groß"}}]',
        lambda gateway: gateway.refund(
            [RefundOrder(**ORDER, refund_amount=Decimal(3), refund_reason="zu groß")]
        ),
    ),
    "query": (
        "/v1/retrievalTrans",
        FORM,
        "merchant_id=M1&account_id=A1&order_no=N1%2CN2",
        lambda gateway: gateway.query([OrderRef(order_no="N1"), OrderRef(order_no="N2")]),
    ),
    "search_refunds": (
        "/v1/retrievalRefund",
        FORM,
        "merchant_id=M1&account_id=A1&transaction_id=T1",
        lambda gateway: gateway.search_refunds([OrderRef(transaction_id="T1")]),
    ),
    "recent_transactions": (
        "/v1/retrievalTrans",
        FORM,
        "merchant_id=M1&account_id=A1",
        lambda gateway: gateway.recent_transactions(),
    ),
    "recent_refunds": (
        "/v1/retrievalRefund",
        FORM,
        "merchant_id=M1&account_id=A1",
        lambda gateway: gateway.recent_refunds(),
    ),
    "pay_direct": (
        "/v1/authorise",
        FORM,
        (
            "merchant_id=M1&account_id=A1&order_no=N1&currency=EUR&amount=5.00"
            "&card=4111111111111111&expiration_month=12&expiration_year=2030&security_code=123"
        ),
        lambda gateway: gateway.pay_direct(
            DirectPayment(
                **PAYMENT,
                card="4111111111111111",
                expiration_month="12",
                expiration_year="2030",
                security_code="123",
            )
        ),
    ),
    "pay_apm": (
        "/v1/authorise",
        FORM,
        "merchant_id=M1&account_id=A1&order_no=N1&currency=EUR&amount=5.00&payment_method=pix",
        lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix")),
    ),
    "checkout": (
        "/v1/checkout",
        FORM,
        "merchant_id=M1&account_id=A1&order_no=N1&currency=EUR&amount=5.00",
        lambda gateway: gateway.checkout(RedirectPayment(**PAYMENT)),
    ),
    "payout": (
        "/v1/payout",
        JSON,
        f'{HEAD}"request_id":"{REQUEST_ID}","payment_amount":"5.00","payment_currency":"EUR"',
        lambda gateway: gateway.payout(
            PayoutRequest(request_id=REQUEST_ID, payment_amount=Decimal(5), payment_currency="EUR")
        ),
    ),
    "call in a form": (
        "/v1/other",
        FORM,
        "merchant_id=M1&account_id=A1&a=x+y&b=2.50&c=%7B%22d%22%3A%5B1%5D%7D",
        lambda gateway: gateway.call(
            "/v1/other", {"a": "x y", "b": Decimal("2.50"), "c": {"d": [1]}}
        ),
    ),
    "call with named texts": (
        "/v1/other",
        FORM,
        "merchant_id=M1&account_id=A1&lang=de",
        lambda gateway: gateway.call("/v1/other", {Named.FIELD: Named.VALUE}),
    ),
    "call in JSON": (
        "/v1/other",
        JSON,
        f'{HEAD}"a":"x y","n":7,"c":{{"d":[1]}}',
        lambda gateway: gateway.call(
            "/v1/other", {"a": "x y", "n": 7, "c": {"d": [1]}}, body="json"
        ),
    ),
}


async def _made(name: str) -> Server:
    """Make one call, whatever becomes of it, and return the server that heard it."""
    path, _, _, call = GOLDEN[name]
    async with mocked(replied(b"{}"), path=path) as (gateway, server):
        with contextlib.suppress(GatewayError):  # what becomes of it is not looked at
            await call(gateway)
    return server


@pytest.mark.parametrize("name", GOLDEN)
async def test_the_body_is_the_golden_one_and_its_signature(name: str) -> None:
    path, content_type, expected, _ = GOLDEN[name]
    server = await _made(name)
    body = server.bodies[0].decode()
    is_json = content_type == JSON
    joint = ',"encryption_data":"' if is_json else "&encryption_data="
    unsigned, found, signature = body.partition(joint)
    assert unsigned == expected
    assert found
    assert len(signature.removesuffix('"}')) == 64
    assert server.urls[0] == BASE_URL + path
    payload = server.calls[0]["data"]
    assert payload.content_type == content_type


@pytest.mark.parametrize("name", GOLDEN)
async def test_the_signature_is_over_the_very_texts_of_the_body(name: str) -> None:
    body = (await _made(name)).bodies[0].decode()
    fields = _top_level_texts(body) if body.startswith("{") else dict(parse_qsl(body))
    signature = fields.pop("encryption_data")
    message = "&".join(f"{field}={fields[field]}" for field in sorted(fields))
    assert signature == hmac.new(b"s3cret", message.encode(), hashlib.sha256).hexdigest()


def _top_level_texts(body: str) -> dict[str, str]:
    """Read text as it is, and anything else as the JSON that stands in the body."""
    return {
        name: value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for name, value in json.loads(body).items()
    }


@pytest.mark.parametrize("name", GOLDEN)
async def test_nothing_of_aiohttp_may_repeat_or_redirect_it(name: str) -> None:
    arguments = (await _made(name)).calls[0]
    assert arguments["allow_redirects"] is False
    assert arguments["raise_for_status"] is False
    assert arguments["middlewares"] == ()


@pytest.mark.parametrize(
    ("operation", "limit"),
    [("capture", 50), ("cancel", 50), ("refund", 50), ("review", 100)],
)
async def test_one_request_carries_as_many_orders_as_the_limit(operation: str, limit: int) -> None:
    orders = orders_for(operation, made_up(limit + 1))
    policy = BatchPolicy(concurrency=1)
    async with mocked(replied(b"{}"), path=f"/v1/{operation}") as (gateway, server):
        await getattr(gateway, operation)(orders, policy=policy)
    sizes = [len(json.loads(body)[f"{operation}_orders"]) for body in server.bodies]
    assert sizes == [limit, 1]


@pytest.mark.parametrize("charset", ["utf-8", "gb2312", "windows-1251"])
async def test_the_text_of_a_reply_is_read_in_its_charset(charset: str) -> None:
    told = {"utf-8": "加载中", "gb2312": "加载中", "windows-1251": "Загрузка"}[charset]
    reply = replied(told.encode(charset), Content_Type=f"text/plain; charset={charset}")
    async with mocked(reply, path="/v1/other") as (gateway, _):
        assert (await gateway.call("/v1/other", {}, reply="text")).data == told


@pytest.mark.parametrize(
    ("charset", "told"),
    [("gb2312", "退款成功"), ("Shift_JIS", "成功"), ("iso-8859-1", "Grüße"), ("utf-8", "退款成功")],
)
async def test_a_reply_is_read_in_the_charset_that_only_its_header_names(
    charset: str, told: str
) -> None:
    item = f'"refund_amount": "5.00", "refund_status": "1", "refund_message": "0000:{told}"'
    body = f'{{"return_status": "1", "refund_orders": [{{{WIRE}, {item}}}]}}'.encode(charset)
    order = RefundOrder(**ORDER, refund_amount=5)
    reply = replied(body, Content_Type=f"text/html;charset={charset}")
    async with mocked(reply, path="/v1/refund") as (gateway, _):
        outcome = (await gateway.refund([order]))[0]
    assert outcome.record is not None
    assert outcome.record.refund_message == f"0000:{told}"
    xml = f"<respon><order_status>1</order_status><result_info>{told}</result_info></respon>"
    reply = replied(xml.encode(charset), Content_Type=f'text/xml; charset="{charset}"')
    async with mocked(reply, path="/v1/authorise") as (gateway, _):
        payment = await gateway.pay_direct(DirectPayment(**PAYMENT, card="4111111111111111"))
    assert payment.result_info == told


@pytest.mark.parametrize(
    "body",
    [
        "<respon><order_status>1</order_status><note>ä</note></respon>".encode(),
        '<?xml version="1.0" encoding="latin1"?><respon><order_status>1</order_status>'
        "<note>ä</note></respon>".encode("latin1"),
    ],
)
async def test_a_header_counts_for_less_than_the_reply_itself(body: bytes) -> None:
    reply = replied(body, Content_Type="text/xml; charset=gbk")
    async with mocked(reply, path="/v1/authorise") as (gateway, _):
        payment = await gateway.pay_direct(DirectPayment(**PAYMENT, card="4111111111111111"))
    assert payment.note == "ä"


@pytest.mark.parametrize("form", ["json", "xml", "text"])
async def test_a_header_of_a_reply_is_found_however_its_name_is_written(form: str) -> None:
    body = {"json": "{}", "xml": "<respon/>", "text": ""}[form]
    async with mocked(replied(body, X_REQUEST_Id="1"), path="/v1/other") as (gateway, _):
        reply = await gateway.call("/v1/other", {}, reply=form)
    assert reply.headers["x-request-ID"] == "1"
