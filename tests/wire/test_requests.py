"""What goes out, operation by operation, down to the byte."""

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import methodcaller
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

import attrs
import orjson
import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import (
    ApmPayment,
    BasicItemData,
    CancelOrder,
    CaptureOrder,
    CartItem,
    ConfigurationError,
    Dialect,
    DirectPayment,
    GatewayClient,
    GatewayError,
    InvalidOrderError,
    OrderRef,
    OutcomeStatus,
    PayoutRequest,
    Price,
    RedirectPayment,
    RefundOrder,
    RetryPolicy,
    ReviewOrder,
    Subscription,
)
from gateway_async.models.values import SensitiveText
from gateway_async.operations import Operation
from tests.support.examples import full
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import CARD, REQUEST_ID, payout_request

Call = Callable[[GatewayClient], Awaitable[Any]]
DIGITS = "2023051612301234567890"
PAYMENT: dict[str, Any] = {"order_no": "N1", "currency": "EUR", "amount": 5}
ORDER = {**PAYMENT, "transaction_id": DIGITS, "amount": "12.5"}
WIRE = f'"transaction_id":"{DIGITS}","order_no":"N1","currency":"EUR","amount":"12.50"'
REASON = r'"refund_reason":"zu groß, \"M\""'
PAYOUT = (
    '"payment_amount":"25.00","payment_currency":"EUR",'
    '"beneficiary":{"bank_details":{"iban":"NL00SANDBOX0000000000"}}'
)
JSON = "application/json"
FORM: Any = "application/x-www-form-urlencoded"
BRACKETS = Dialect(form_nesting="brackets")
JSON_HEAD, FORM_HEAD = '{"merchant_id":"M1","account_id":"A1",', "merchant_id=M1&account_id=A1"


class Named(str, Enum):  # noqa: UP042  # a StrEnum shows as its text
    """Texts with names, which a form would show in their place."""

    FIELD = "lang"
    EURO = "EUR"


def refund_of(**changes: Any) -> RefundOrder:
    return RefundOrder(**{**ORDER, "refund_amount": 3, **changes})


GOLDEN: dict[str, tuple[str, str, Call]] = {
    "capture": (
        "/v1/capture",
        f'{JSON_HEAD}"capture_orders":[{{{WIRE}}},{{{WIRE.replace(DIGITS, "T2")}}}]',
        lambda gateway: gateway.capture(
            [CaptureOrder(**ORDER), CaptureOrder(**{**ORDER, "transaction_id": "T2"})]
        ),
    ),
    "cancel": (
        "/v1/cancel",
        f'{JSON_HEAD}"cancel_orders":[{{{WIRE}}}]',
        lambda gateway: gateway.cancel([CancelOrder(**ORDER)]),
    ),
    "review": (
        "/v1/review",
        f'{JSON_HEAD}"review_orders":[{{{WIRE},"review_flag":"1"}}]',
        lambda gateway: gateway.review([ReviewOrder(**ORDER, review_flag="1")]),
    ),
    "refund": (
        "/v1/refund",
        f'{JSON_HEAD}"refund_orders":[{{{WIRE},"refund_amount":"3.00",{REASON}}}]',
        lambda gateway: gateway.refund([refund_of(refund_reason='zu groß, "M"')]),
    ),
    "query": (
        "/v1/retrievalTrans",
        f"{FORM_HEAD}&order_no=N1%2C%C3%84+2",
        lambda gateway: gateway.query([OrderRef(order_no="N1"), OrderRef(order_no="Ä 2")]),
    ),
    "search_refunds": (
        "/v1/retrievalRefund",
        f"{FORM_HEAD}&transaction_id=T1",
        lambda gateway: gateway.search_refunds([OrderRef(transaction_id="T1")]),
    ),
    "recent_transactions": ("/v1/retrievalTrans", FORM_HEAD, methodcaller("recent_transactions")),
    "recent_refunds": ("/v1/retrievalRefund", FORM_HEAD, methodcaller("recent_refunds")),
    "pay_direct": (
        "/v1/authorise",
        f"{FORM_HEAD}&order_no=N1&currency=EUR&amount=5.00&{urlencode(CARD)}",
        lambda gateway: gateway.pay_direct(DirectPayment(**PAYMENT, **CARD)),
    ),
    "checkout": (
        "/v1/checkout",
        f"{FORM_HEAD}&order_no=N1&currency=EUR&amount=5.00",
        lambda gateway: gateway.checkout(
            RedirectPayment(**PAYMENT, items=[], cart_items=[])  # empty ones are left out
        ),
    ),
    "pay_apm": (
        "/v1/authorise",
        f"{FORM_HEAD}&order_no=N1&currency=EUR&amount=5.00&payment_method=PIX",
        lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="PIX")),
    ),
    "payout": (
        "/v1/payout",
        f'{JSON_HEAD}"request_id":"{REQUEST_ID[:24]}000000000002",{PAYOUT}',
        lambda gateway: gateway.payout(payout_request(2)),
    ),
    "call in a form": (
        "/v1/payout",
        f"{FORM_HEAD}&a=x+y&b=2.50&c=%7B%22d%22%3A%5B1%5D%7D&lang=EUR",
        lambda gateway: gateway.call(
            "/v1/payout",
            {"a": "x y", "b": Decimal("2.50"), "c": {"d": [1]}, Named.FIELD: Named.EURO},
        ),
    ),
    "call in JSON": (
        "/v1/payout",
        f'{JSON_HEAD}"a":"[1.50]","n":7,"c":{{"d":[1]}}',
        lambda gateway: gateway.call(
            "/v1/payout", {"a": "[1.50]", "n": 7, "c": {"d": [1]}}, body="json"
        ),
    ),
}


async def sent(call: Call, **given: Any) -> Asked:
    """Make one call, whatever comes of it, and return what the gateway heard."""
    transport = MemoryTransport(lambda _: {})
    with contextlib.suppress(GatewayError):
        await call(client_over(transport, retry=RetryPolicy(attempts=1), **given))
    (asked,) = transport.asked
    return asked


@pytest.mark.parametrize("name", GOLDEN)
async def test_the_body_is_the_golden_one_and_its_texts_are_signed(name: str) -> None:
    path, expected, call = GOLDEN[name]
    given: dict[str, str] = {}

    def sign(operation: Operation, fields: Any) -> str:
        assert operation.path == path
        given.update(fields)
        fields["key"] = "which does not go out"
        return "signed"

    message = (await sent(call, signer=sign)).message
    is_json = expected.startswith("{")
    assert (message.path, message.content_type) == (path, JSON if is_json else FORM)
    end = ',"encryption_data":"signed"}' if is_json else "&encryption_data=signed"
    assert message.body.decode() == expected + end
    if is_json:
        assert [*given] == [*json.loads(expected + "}")]
        assert all(text in expected for text in given.values())
    else:
        assert given == dict(parse_qsl(expected))


MODELS: dict[str, Any] = {
    "pay_direct": DirectPayment,
    "pay_apm": ApmPayment,
    "checkout": RedirectPayment,
    "payout": PayoutRequest,
}


@pytest.mark.parametrize("operation", MODELS)
async def test_every_field_goes_out_under_its_own_name(operation: str) -> None:
    payment = full(MODELS[operation])
    asked = await sent(lambda gateway: getattr(gateway, operation)(payment))
    fields = _read(asked.message.body.decode())
    assert fields.pop("encryption_data")
    plain = json.loads(json.dumps(attrs.asdict(payment, value_serializer=_as_text)))
    expected = {"merchant_id": "M1", "account_id": "A1", **plain}
    if operation != "payout":
        assert fields["items"] == "SKU-1#,#Tea#,#2#,#9.90#;#SKU-2#,##,#1#,#1"
    assert list(fields) == list(expected)
    assert {name: _read(text) for name, text in fields.items()} == expected


def _as_text(_: object, __: object, value: Any) -> Any:
    """Return a number, a date or a secret as its text."""
    if isinstance(value, SensitiveText):
        return value.reveal()
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    return str(value) if isinstance(value, int | date) else value


def _read(text: Any) -> Any:
    """Read JSON or a form, with every number as its text; any other text is itself."""
    if isinstance(text, str) and text.startswith(("{", "[")):
        return json.loads(text, parse_int=str, parse_float=str)
    return dict(parse_qsl(text)) if isinstance(text, str) and "merchant_id=" in text else text


def payment_of(**fields: Any) -> RedirectPayment:
    return RedirectPayment(**{**PAYMENT, **fields})


async def checked_out(payment: RedirectPayment, **given: Any) -> dict[str, Any]:
    return (await sent(lambda gateway: gateway.checkout(payment), **given)).fields


async def test_numbers_keep_their_digits() -> None:
    price = Price(amount_usd=Decimal("10.80"), amount_local_currency=Decimal(DIGITS + ".10"))
    item = CartItem(basic_item_data=BasicItemData(price=price))
    fields = await checked_out(payment_of(cart_items=[item]))
    assert f'"amount_usd":10.80,"amount_local_currency":{DIGITS}.10' in fields["cart_items"]
    fields = await checked_out(payment_of(cart_items=[item]), dialect=BRACKETS)
    assert fields["cart_items[0][basic_item_data][price][amount_usd]"] == "10.80"


PLACES = Dialect(currency_places={"JPY": 0, "KWD": 3, "CLF": 4})


async def test_amounts_have_the_places_of_their_currency() -> None:
    for currency, amount, text in (
        ("EUR", "9.900", "9.90"),
        ("EUR", "1E+3", "1000.00"),
        ("EUR", 7, "7.00"),
        ("EUR", "123456789012345678901234567890.5", "123456789012345678901234567890.50"),
        ("EUR", f"{10**40}.00", f"{10**40}.00"),  # in a batch, a template writes it, too
        ("CLF", "1.5E+7", "15000000.0000"),
        ("jpy", "500.0", "500"),
        ("KWD", "1.234", "1.234"),
    ):
        payment = payment_of(currency=currency, amount=amount)
        assert (await checked_out(payment, dialect=PLACES))["amount"] == text
        order = CaptureOrder(**{**ORDER, "currency": currency, "amount": amount})
        asked = await sent(methodcaller("capture", [order]), dialect=PLACES)
        assert asked.fields["capture_orders"][0]["amount"] == text


async def test_too_precise_amounts_are_refused() -> None:
    gateway = client_over()
    for amount in ("9.999", "1E+99", "1E-99"):
        expected = r"N1'[^.]*\)\.amount: .*2 decimal places \(EUR\)"
        with pytest.raises(InvalidOrderError, match=expected):
            await gateway.checkout(payment_of(amount=amount))
        with pytest.raises(InvalidOrderError, match=expected):
            await gateway.capture([CaptureOrder(**{**ORDER, "amount": amount})])


async def test_an_amount_goes_by_the_currency_that_belongs_to_it() -> None:
    payment = payment_of(currency="JPY", subscription=Subscription(contract_amount="10.5"))
    expected = r"RedirectPayment\(order_no='N1'\)\.Subscription\.contract_amount: 10\.5.*JPY"
    with pytest.raises(InvalidOrderError, match=expected):
        await client_over(dialect=PLACES).checkout(payment)
    request = PayoutRequest(
        request_id=REQUEST_ID,
        payment_amount=100,
        payment_currency="JPY",
        source_amount="1.5",
        source_currency="EUR",
    )
    fields = (await sent(lambda gateway: gateway.payout(request), dialect=PLACES)).fields
    assert (fields["payment_amount"], fields["source_amount"]) == ("100", "1.50")
    (outcome,) = await client_over().payouts(
        iter([attrs.evolve(request, payment_currency=None, payment_amount="1.005")])
    )
    said = "payment_amount: 1.005 cannot be written with 2 decimal places (no currency)"
    assert said in str(outcome.error)


async def test_texts_and_numbers_with_names_go_out_as_what_they_are() -> None:
    dialect = Dialect(wire_names={"antifraud_token_cookie": Named.FIELD})
    payment = payment_of(currency=Named.EURO, token_id=Named.EURO, antifraud_token_cookie="c")
    fields = await checked_out(payment, dialect=dialect)
    assert (fields["currency"], fields["token_id"], fields["lang"]) == ("EUR", "EUR", "c")
    assert "antifraud_token_cookie" not in fields
    dialect = Dialect(selection_fields={"order_no": Named.FIELD}, selection_separator="|")
    refs = [OrderRef(order_no="a,b"), OrderRef(order_no=Named.EURO)]
    asked = await sent(lambda gateway: gateway.query(refs), dialect=dialect)
    assert asked.fields["lang"] == "a,b|EUR"


async def test_two_fields_never_share_a_name_on_the_wire() -> None:
    transport = MemoryTransport()
    gateway = client_over(transport, dialect=Dialect(wire_names={"order_no": "amount"}))
    with pytest.raises(ConfigurationError, match=r"Dialect\.wire_names"):
        await gateway.checkout(payment_of())
    (outcome,) = await gateway.refund([refund_of()])
    assert outcome.status is OutcomeStatus.NOT_SENT
    assert "Dialect.wire_names" in str(outcome.error)
    assert transport.asked == []


CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(
    '"\\\0\x1f\x7f\u2028{}%,.+ &=~\xff\xfe'
)
WORDS = st.text(CHARACTERS, max_size=6)
AMOUNTS = st.sampled_from(["1.00", "9.9", "0.50", "12", "1E+1", "1.500"]) | (
    st.decimals("0.01", 12, places=2)
)


@settings(max_examples=50)
@given(st.dictionaries(WORDS.map(lambda name: f"_{name}"), WORDS, max_size=5))
async def test_a_body_holds_the_very_texts_of_the_fields(fields: dict[str, str]) -> None:
    for body in ("form", "json"):
        call = partial(GatewayClient.call, path="/v1/payout", fields=fields, body=body)
        asked = await sent(call)
        whole = {"merchant_id": "M1", "account_id": "A1", **fields}
        signature = {"encryption_data": asked.fields["encryption_data"]}
        assert asked.fields == {**whole, **signature}
        if body == "form":
            assert asked.message.body.decode() == urlencode({**whole, **signature})
            assert parse_qs(asked.message.body.decode())["merchant_id"] == ["M1"]


@settings(max_examples=50)
@given(st.lists(st.tuples(WORDS, WORDS, AMOUNTS), min_size=1, max_size=3))
async def test_orders_go_out_as_orjson_writes_them(drawn: list[tuple[str, str, Any]]) -> None:
    orders = [
        refund_of(
            transaction_id=f"T{n}{word}T".replace(",", ""),
            refund_amount=amount,
            refund_reason=reason,
        )
        for n, (word, reason, amount) in enumerate(drawn)
    ]
    amounts = [{"amount": "12.50", "refund_amount": f"{one.refund_amount:.2f}"} for one in orders]
    rows = [{**attrs.asdict(one), **pair} for one, pair in zip(orders, amounts, strict=True)]
    body = (await sent(lambda gateway: gateway.refund(orders))).message.body
    assert b'"refund_orders":' + orjson.dumps(rows) + b"," in body


# Two readings of section 4: forms with brackets, and JSON under the content type of a form


async def test_nested_fields_go_out_in_brackets_and_are_signed_by_these_names() -> None:
    signed: list[dict[str, str]] = []

    def sign(_: Operation, given: Mapping[str, str]) -> str:
        signed.append(dict(given))
        return "signature"

    fields: dict[str, object] = {
        "plan": {"days": [1, 2.5, None, True], "none": None, "empty": []},
        "text": '{"a": 1}',
        "nothing": {},
        "count": 3,
    }
    call = partial(GatewayClient.call, path="/v1/payout", fields=fields)
    asked = await sent(call, signer=sign, dialect=BRACKETS)
    plan = {"plan[days][0]": "1", "plan[days][1]": "2.5", "plan[days][3]": "true"}
    expected = {"merchant_id": "M1", "account_id": "A1", **plan, "text": '{"a": 1}', "count": "3"}
    assert signed == [expected]
    assert asked.fields == {**expected, "encryption_data": "signature"}
    assert b"[" not in asked.message.body
    dialect = attrs.evolve(BRACKETS, json_content_type="text/json")
    asked = await sent(partial(call, body="json"), dialect=dialect)
    assert asked.message.content_type == "text/json"
    assert json.loads(asked.message.body)["plan"] == fields["plan"]
