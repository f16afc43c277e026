"""Request bodies, to the byte."""

import traceback
from decimal import Decimal
from enum import Enum
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

import attrs
import orjson
import pytest
from hypothesis import given, strategies as st

from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import (
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
)
from gateway_async.models.payments import (
    BasicItemData,
    CartItem,
    Item,
    Price,
    RedirectPayment,
    Subscription,
)
from gateway_async.models.payouts import PayoutRequest
from gateway_async.operations import CANCEL, CAPTURE, REFUND, REVIEW, Operation
from gateway_async.wire.encode import (
    JsonText,
    encode_chunk,
    encode_fields,
    encode_form,
    encode_json,
    selection_fields,
)
from tests.models import examples
from tests.wire.golden import BATCHES, PAYMENTS, PAYOUT

DIALECT = Dialect()
ORDER: dict[str, Any] = {
    "transaction_id": "2023051612301234567890",
    "order_no": "ORD-1",
    "currency": "EUR",
    "amount": "9.9",
}
REFUND_FIELDS: dict[str, Any] = {"refund_amount": 5, "refund_reason": 'Größe "M"'}
ORDERS: dict[Operation, Any] = {
    CAPTURE: CaptureOrder(**ORDER),
    CANCEL: CancelOrder(**ORDER),
    REVIEW: ReviewOrder(**ORDER, review_flag="1"),
    REFUND: RefundOrder(**ORDER, **REFUND_FIELDS),
}


@pytest.mark.parametrize("name", sorted(PAYMENTS))
def test_a_payment_body_is_this_form(name: str) -> None:
    payment = getattr(examples, name)()
    assert encode_form(encode_fields(payment, DIALECT)).decode() == PAYMENTS[name]


def test_a_payout_body_is_this_json() -> None:
    body = encode_json(encode_fields(examples.payout_request(), DIALECT))
    assert body.decode() == PAYOUT


@pytest.mark.parametrize("operation", ORDERS, ids=str)
def test_a_batch_body_is_this_json(operation: Operation) -> None:
    encoded = encode_chunk(operation, [ORDERS[operation]] * 2, DIALECT)
    body = encode_json({"merchant_id": "M1", **encoded.fields})
    assert body.decode() == BATCHES[operation.name]
    assert encoded.listed.decode() == encoded.fields[str(operation.list_field)]


@pytest.mark.parametrize("kind", ["order_no", "transaction_id"])
def test_a_look_up_asks_by_joined_references(kind: str) -> None:
    refs = [OrderRef(**{kind: value}) for value in ("A-1", "Ä 2")]
    fields = selection_fields(refs, DIALECT)
    assert fields == {kind: "A-1,Ä 2"}
    assert encode_form(fields).decode() == f"{kind}=A-1%2C%C3%84+2"


def test_a_look_up_follows_the_dialect() -> None:
    dialect = dialect_with(selection_fields={"order_no": "orders"}, selection_separator="|")
    assert selection_fields([OrderRef(order_no="a,b")], dialect) == {"orders": "a,b"}


def test_a_reference_that_holds_the_separator_is_refused() -> None:
    with pytest.raises(InvalidOrderError, match=r"OrderRef\(order_no='a,b'\).*','"):
        selection_fields([OrderRef(order_no="a,b")], DIALECT)


def test_json_bodies_carry_json_text_as_it_is() -> None:
    fields = {"plain": '[1.50, "x"]', "spliced": JsonText('[1.50, "x"]')}
    assert encode_json(fields) == b'{"plain":"[1.50, \\"x\\"]","spliced":[1.50, "x"]}'


def test_numbers_keep_their_digits() -> None:
    price = Price(
        amount_usd=Decimal("10.80"), amount_local_currency=Decimal("123456789012345678901.10")
    )
    payment = payment_with(cart_items=[CartItem(basic_item_data=BasicItemData(price=price))])
    assert encode_fields(payment, DIALECT)["cart_items"] == (
        '[{"basic_item_data":{"price":'
        '{"amount_usd":10.80,"amount_local_currency":123456789012345678901.10}}}]'
    )


def test_empty_arrays_are_left_out() -> None:
    fields = encode_fields(payment_with(items=[], cart_items=[]), DIALECT)
    assert fields == {"order_no": "ORD-1", "currency": "EUR", "amount": "1.00"}


@pytest.mark.parametrize(
    ("currency", "amount", "text"),
    [
        ("EUR", "9.9", "9.90"),
        ("EUR", "9.900", "9.90"),
        ("EUR", "1E+3", "1000.00"),
        ("EUR", "0E+9", "0.00"),
        ("EUR", 7, "7.00"),
        ("EUR", "123456789012345678901234567.89", "123456789012345678901234567.89"),
        ("jpy", "500", "500"),
        ("JPY", "500.0", "500"),
        ("KWD", "1.234", "1.234"),
    ],
)
def test_amounts_have_the_places_of_their_currency(
    currency: str, amount: object, text: str
) -> None:
    dialect = dialect_with(currency_places={"JPY": 0, "KWD": 3})
    assert encode_fields(payment_with(currency=currency, amount=amount), dialect)["amount"] == text


@pytest.mark.parametrize("amount", ["9.999", "0.001", "1E-9", "1E+99999", "1E-99999"])
def test_too_precise_or_absurd_amounts_are_refused(amount: str) -> None:
    expected = r"ORD-1'.*\.amount: .*2 decimal places \(EUR\)"
    with pytest.raises(InvalidOrderError, match=expected):
        encode_fields(payment_with(amount=amount), DIALECT)
    with pytest.raises(InvalidOrderError, match=expected):
        encode_chunk(CAPTURE, [CaptureOrder(**{**ORDER, "amount": amount})], DIALECT)


def test_a_nested_amount_goes_by_the_currency_of_its_payment() -> None:
    payment = payment_with(
        currency="JPY", subscription=Subscription(contract_amount=Decimal("10.5"))
    )
    dialect = dialect_with(currency_places={"JPY": 0})
    expected = r"RedirectPayment\(order_no='ORD-1'\)\.Subscription\.contract_amount: 10\.5.*JPY"
    with pytest.raises(InvalidOrderError, match=expected):
        encode_fields(payment, dialect)


def test_each_amount_of_a_payout_goes_by_its_own_currency() -> None:
    request = PayoutRequest(
        request_id="5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
        payment_amount=Decimal(100),
        payment_currency="JPY",
        source_amount=Decimal("1.5"),
        source_currency="EUR",
    )
    fields = encode_fields(request, dialect_with(currency_places={"JPY": 0}))
    assert (fields["payment_amount"], fields["source_amount"]) == ("100", "1.50")


def test_wire_names_rename_fields() -> None:
    dialect = dialect_with(wire_names={"antifraud_token_cookie": "provider_cookie"})
    fields = encode_fields(payment_with(antifraud_token_cookie="c"), dialect)
    assert fields["provider_cookie"] == "c"
    assert "antifraud_token_cookie" not in fields


class Named(str, Enum):  # noqa: UP042  # a StrEnum shows as its text
    """Texts with names, which a form would show in their place."""

    EURO = "EUR"
    COOKIE = "provider_cookie"


class Counted(int, Enum):
    """Numbers with names."""

    FIVE = 5


def test_texts_and_numbers_with_names_go_out_as_what_they_are() -> None:
    dialect = dialect_with(
        wire_names={"antifraud_token_cookie": Named.COOKIE},
        selection_fields={"order_no": Named.COOKIE},
    )
    payment = payment_with(
        currency=Named.EURO,
        token_id=Named.EURO,
        checkout_time=Counted.FIVE,
        antifraud_token_cookie="c",
        items=[Item(parts=(Named.EURO,))],
    )
    form = parse_qs(encode_form(encode_fields(payment, dialect)).decode())
    assert (form["currency"], form["token_id"]) == (["EUR"], ["EUR"])
    assert (form["checkout_time"], form["items"]) == (["5"], ["EUR"])
    assert form["provider_cookie"] == ["c"]
    refs = [OrderRef(order_no=Named.EURO)]
    assert encode_form(selection_fields(refs, dialect)) == b"provider_cookie=EUR"


def test_secrets_go_out_as_plain_text() -> None:
    fields = encode_fields(examples.direct_payment(), DIALECT)
    assert (fields["card"], fields["security_code"]) == (examples.CARD, examples.SECURITY_CODE)
    assert {type(text) for text in fields.values()} == {str, JsonText}
    assert examples.CAVV in fields["additional_information"]


@pytest.mark.parametrize("encode", [encode_form, encode_json])
def test_text_that_utf_8_cannot_carry_is_refused(encode: Any) -> None:
    with pytest.raises(InvalidOrderError, match=r"'name'.*surrogate"):
        encode({"name": "\udc80"})


_texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(_texts, _texts, max_size=5))
def test_bodies_hold_the_very_texts_of_the_fields(fields: dict[str, str]) -> None:
    assert orjson.loads(encode_json(fields)) == fields
    pairs = parse_qsl(encode_form(fields).decode(), keep_blank_values=True, strict_parsing=False)
    assert dict(pairs) == fields


@given(st.dictionaries(_texts | st.text("%+ &=\xff\xfe"), _texts | st.text("%+ &=~\0\xff")))
def test_a_form_is_escaped_as_the_standard_library_escapes(fields: dict[str, str]) -> None:
    assert encode_form(fields).decode() == urlencode(fields)


def payment_with(**fields: Any) -> RedirectPayment:
    return RedirectPayment(**{"order_no": "ORD-1", "currency": "EUR", "amount": 1, **fields})


_characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from(
    '"\\\\\0\x1f\x7f\u2028{}%,.'
)
_words = st.text(_characters, max_size=6)
_amounts = st.sampled_from(["1.00", "9.9", "0.50", "12", "1E+3", "0E-7", "1.500", "1" * 20]) | (
    st.decimals(0, 10**6, places=2)
)


@given(st.lists(st.tuples(_words, _words, _amounts), min_size=1, max_size=3))
def test_orders_go_out_as_orjson_writes_them(drawn: list[tuple[str, str, Any]]) -> None:
    orders = [
        RefundOrder(
            transaction_id=f"T{word}T",
            order_no="A-1",
            currency="EUR",
            amount="1" * 20 + ".00",
            refund_amount=amount,
            refund_reason=reason,
        )
        for word, reason, amount in drawn
    ]
    rows = [
        {
            **attrs.asdict(order),
            "amount": "1" * 20 + ".00",
            "refund_amount": f"{order.refund_amount:.2f}",
        }
        for order in orders
    ]
    encoded = encode_chunk(REFUND, orders, DIALECT)
    assert encoded.fields["refund_orders"].encode() == orjson.dumps(rows)
    has_brace = any("}" in text for word, reason, _ in drawn for text in (word, reason))
    assert encoded.listed == (b"" if has_brace else orjson.dumps(rows))


def dialect_with(**choices: Any) -> Dialect:
    return Dialect(**choices)


def test_the_traceback_of_a_refused_payment_holds_no_secret() -> None:
    payment = attrs.evolve(examples.direct_payment(), discount=Decimal("0.001"))
    with pytest.raises(InvalidOrderError) as caught:
        encode_fields(payment, DIALECT)
    shown = repr([frame.f_locals for frame, _ in traceback.walk_tb(caught.tb)])
    assert [secret for secret in examples.SECRETS if secret in shown] == []


def test_two_fields_never_share_a_name_on_the_wire() -> None:
    dialect = dialect_with(wire_names={"order_no": "amount"})
    with pytest.raises(ConfigurationError, match=r"Dialect\.wire_names"):
        encode_chunk(REFUND, [ORDERS[REFUND]], dialect)
    with pytest.raises(ConfigurationError, match=r"Dialect\.wire_names"):
        encode_fields(payment_with(note="n"), dialect)
