"""Payments and payouts: what they take, what they refuse, and what they never show."""

import pickle
import traceback
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeVar

import attrs
import pytest
from hypothesis import given, strategies as st

from gateway_async.dialect import Dialect
from gateway_async.errors import InvalidOrderError
from gateway_async.models.payments import (
    ApmPayment,
    CartItem,
    DirectPayment,
    Discount,
    Item,
    MpiInfo,
    Price,
    RedirectPayment,
    Subscription,
    join_items,
    split_items,
)
from gateway_async.models.payouts import Beneficiary, Payer, PayoutRequest, PersonDocument
from gateway_async.models.values import MaskedCard
from gateway_async.wire.encode import encode_fields
from tests.models import examples

_Model = TypeVar("_Model")

REDIRECT: dict[str, Any] = {"order_no": "ORD-7", "currency": "EUR", "amount": "9.90"}
DIRECT: dict[str, Any] = {
    **REDIRECT,
    "card": examples.CARD,
    "expiration_month": "12",
    "expiration_year": "2030",
    "security_code": examples.SECURITY_CODE,
}
PAYOUT: dict[str, Any] = {
    "request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
}


@pytest.mark.parametrize(
    ("model", "required"),
    [
        (RedirectPayment, REDIRECT),
        (ApmPayment, {**REDIRECT, "payment_method": "PIX"}),
        (PayoutRequest, PAYOUT),
    ],
)
def test_only_what_a_payment_means_nothing_without_is_required(
    model: type, required: dict[str, Any]
) -> None:
    model(**required)
    defaults = {field.name for field in attrs.fields(model) if field.default is attrs.NOTHING}
    assert defaults == set(required)


def test_a_direct_payment_is_by_card_or_by_token() -> None:
    assert DirectPayment(**REDIRECT, card=examples.CARD).security_code is None
    assert DirectPayment(**REDIRECT, token_id=examples.TOKEN).card is None
    for nothing in (None, "", " "):
        with pytest.raises(InvalidOrderError, match=r"ORD-7.*card: missing; .*token_id"):
            DirectPayment(**REDIRECT, token_id=nothing)


@pytest.mark.parametrize(
    ("model", "fields", "field", "value", "expected"),
    [
        (DirectPayment, DIRECT, "amount", 9.9, r"amount: expected Decimal.*got float.*Decimal\("),
        (DirectPayment, DIRECT, "shipping", 1.5, r"shipping: expected Decimal.*got float"),
        (DirectPayment, DIRECT, "card", 4111111111111111, r"card: expected str.*got int"),
        (DirectPayment, DIRECT, "security_code", 123, r"security_code: expected str.*got int"),
        (DirectPayment, DIRECT, "expiration_month", 12, r"expiration_month: expected str.*int"),
        (DirectPayment, DIRECT, "checkout_time", "120", r"checkout_time: expected int, got str"),
        (DirectPayment, DIRECT, "checkout_time", True, r"checkout_time: expected int, got bool"),
        (DirectPayment, DIRECT, "cart_items", [Discount()], r"cart_items: .*CartItem.*Discount"),
        (DirectPayment, DIRECT, "cart_items", CartItem(), r"cart_items: .*CartItem"),
        (DirectPayment, DIRECT, "cart_items", {"a": 1}, r"cart_items: .*CartItem.*dict"),
        (DirectPayment, DIRECT, "subscription", {}, r"subscription: expected Subscription.*dict"),
        (DirectPayment, DIRECT, "items", b"a#,#b", r"items: .*Item, or a str, got bytes"),
        (PayoutRequest, PAYOUT, "request_id", 7, r"request_id: expected UUID or str, got int"),
        (PayoutRequest, PAYOUT, "payment_date", 20240131, r"payment_date: .*date.*got int"),
        (
            PayoutRequest,
            PAYOUT,
            "payment_date",
            datetime(2024, 1, 31, tzinfo=UTC),
            r"payment_date: expected a date without a time of day, got datetime",
        ),
    ],
)
def test_a_wrong_type_is_named_with_field_and_order(
    model: type, fields: dict[str, Any], field: str, value: object, expected: str
) -> None:
    identifier = "order_no='ORD-7'" if model is DirectPayment else ""
    with pytest.raises(InvalidOrderError, match=expected) as caught:
        model(**{**fields, field: value})
    assert str(caught.value).startswith(model.__name__)
    assert identifier in str(caught.value)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: DirectPayment(**{**DIRECT, "amount": "-1"}), r"ORD-7.*amount.*negative"),
        (lambda: DirectPayment(**{**DIRECT, "amount": "NaN"}), r"ORD-7.*amount.*finite"),
        (lambda: DirectPayment(**{**DIRECT, "order_no": " "}), r"order_no.*non-empty"),
        (lambda: DirectPayment(**{**DIRECT, "note": "\ud800"}), r"ORD-7.*note.*surrogate"),
        (lambda: PayoutRequest(**{**PAYOUT, "request_id": "77"}), r"request_id.*'77'.*UUID"),
        (lambda: build(Price, amount_usd="Infinity"), r"Price.*amount_usd.*finite"),
        (lambda: build(Price, amount_usd="ten"), r"Price.*amount_usd.*'ten'"),
        (lambda: build(Price, amount_usd="1_0"), r"Price.*amount_usd.*'1_0'"),
        (lambda: build(Price, amount_usd=" 10"), r"Price.*amount_usd.*' 10'"),
        (lambda: build(Price, amount_usd="\u0661"), r"Price.*amount_usd"),
        (lambda: Item(parts=()), r"parts.*at least one"),
        (lambda: build(Item, parts="a"), r"parts: expected an iterable of str, got str"),
        (lambda: PayoutRequest(**PAYOUT, payment_date="31.1.2026"), r"payment_date: '31\.1\.2026'"),
        (lambda: PayoutRequest(**PAYOUT, payment_date="20260131"), r"payment_date: '20260131' is"),
        (lambda: PayoutRequest(**PAYOUT, payment_date="2026-02-30"), r"payment_date.*'2026-02-30'"),
        (lambda: build(Beneficiary, date_of_birth=""), r"date_of_birth: '' is not a date; write"),
        (
            lambda: build(PersonDocument, labels=["a", "\ud800"]),
            r"PersonDocument.*labels.*surrogate",
        ),
    ],
)
def test_a_wrong_value_is_an_invalid_order(build: Callable[[], object], expected: str) -> None:
    with pytest.raises(InvalidOrderError, match=expected):
        build()


@pytest.mark.parametrize("card", ["4111 1111 1111 1111", "4111-1111-1111-1111", "", "\uff14111"])
def test_a_card_is_digits_only_and_never_in_the_message(card: str) -> None:
    with pytest.raises(InvalidOrderError, match=r"ORD-7.*digits only") as caught:
        DirectPayment(**{**DIRECT, "card": card})
    assert not card or card not in str(caught.value)


def test_arrays_become_tuples_and_amounts_decimals() -> None:
    payment = build(RedirectPayment, **REDIRECT, cart_items=iter([CartItem()]), shipping=3)
    assert payment.cart_items == (CartItem(),)
    assert (payment.amount, payment.shipping) == (Decimal("9.90"), Decimal(3))
    assert build(PersonDocument, labels=["a", "b"]).labels == ("a", "b")
    assert Beneficiary(date_of_birth=date(1990, 1, 2)).date_of_birth == date(1990, 1, 2)
    assert Subscription(billing_cycle=12).billing_cycle == 12
    assert build(Price, amount_usd="-1").amount_usd == Decimal(-1)


def test_a_request_id_may_be_a_uuid() -> None:
    key = uuid.uuid4()
    assert PayoutRequest(request_id=key).request_id == str(key)


def test_a_date_may_be_iso_text() -> None:
    payout = PayoutRequest(
        **PAYOUT,
        payment_date="2026-01-31",
        beneficiary=Beneficiary(date_of_birth="1990-02-28"),
        payer=Payer(date_of_birth=date(1980, 12, 1)),
    )
    assert payout.payment_date == date(2026, 1, 31)
    assert payout.beneficiary is not None
    assert payout.beneficiary.date_of_birth == date(1990, 2, 28)
    assert encode_fields(payout, Dialect())["payment_date"] == "2026-01-31"


@pytest.mark.parametrize(
    "parts",
    [
        [("x#,", "y")],
        [("x#,#y", "z")],
        [("x", "y#;"), ("z",)],
        [("x#;",), ("y",)],
        [("a#;#b",)],
    ],
)
def test_items_that_would_be_split_elsewhere_are_refused(parts: list[tuple[str, ...]]) -> None:
    items = [Item(parts=entry) for entry in parts]
    with pytest.raises(InvalidOrderError, match=r"RedirectPayment.*ORD-7.*items"):
        RedirectPayment(**REDIRECT, items=items)


@given(
    st.lists(st.lists(st.text("a#,;", max_size=4), min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_items_come_out_as_they_went_in_or_are_refused(entries: list[list[str]]) -> None:
    items = tuple(Item(parts=entry) for entry in entries)
    try:
        text = join_items(items)
    except InvalidOrderError:
        joined = "#;#".join("#,#".join(entry) for entry in entries)
        assert [entry.split("#,#") for entry in joined.split("#;#")] != entries
    else:
        assert split_items(text) == tuple(item.parts for item in items)


def test_nothing_secret_shows() -> None:
    payment = examples.direct_payment()
    for shown in (repr(payment), str(payment), f"{payment}", repr(attrs.asdict(payment))):
        assert not [secret for secret in examples.SECRETS if secret in shown]
    assert repr(payment.card) == "'411111******1111'"
    assert str(payment.security_code) == "***"


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (DirectPayment, {**DIRECT, "card": "4111-1111-1111-1111"}),
        (DirectPayment, {**DIRECT, "amount": 9.9}),
        (DirectPayment, {**DIRECT, "security_code": "9753\ud800"}),
        (DirectPayment, {**DIRECT, "unknown": "x"}),
        (RedirectPayment, {**REDIRECT, "token_id": examples.TOKEN, "amount": "-1"}),
        (MpiInfo, {"cavv": examples.CAVV, "eci": 5}),
    ],
)
def test_tracebacks_of_wrong_arguments_hold_no_secret(
    model: Callable[..., object], wrong: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, InvalidOrderError)) as caught:  # TypeError: no such field
        model(**wrong)
    secrets = [*examples.SECRETS, "4111-1111-1111-1111"]
    frames = list(traceback.walk_tb(caught.tb))[1:]
    assert frames
    shown = repr([{**frame.f_locals, "self": None} for frame, _ in frames])
    assert [secret for secret in secrets if secret in shown] == []


@pytest.mark.parametrize("secret_holder", [examples.direct_payment(), MpiInfo(cavv="c4vv")])
def test_secrets_are_not_pickled(secret_holder: object) -> None:
    with pytest.raises(TypeError, match="is not pickled"):
        pickle.dumps(secret_holder)


def test_other_requests_are_pickled() -> None:
    for request in (examples.apm_payment(), examples.payout_request()):
        assert pickle.loads(pickle.dumps(request)) == request  # noqa: S301  # our own


@pytest.mark.parametrize(
    ("came", "kept"),
    [
        ("411111******1111", "411111******1111"),
        ("4111111111111111", "411111******1111"),
        ("41111111****1111", "411111******1111"),
        ("4111 1111 1111 1111", "4111 1*** **** 1111"),
        ("****1111", "****1111"),
        ("12345678", "****5678"),
        ("", ""),
    ],
)
def test_a_card_of_a_reply_shows_six_and_four_at_most(came: str, kept: str) -> None:
    assert MaskedCard(came) == kept
    assert MaskedCard(kept) == kept


def build(model: Callable[..., _Model], **fields: Any) -> _Model:
    """Call a model with what it converts, which is more than what its attributes hold."""
    return model(**fields)
