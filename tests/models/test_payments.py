"""Payments and payouts: what they convert, and what they refuse besides wrong types and amounts."""

import pickle
import uuid
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st

from gateway_async.errors import InvalidOrderError
from gateway_async.models.payments import (
    CartItem,
    DirectPayment,
    Item,
    Price,
    RedirectPayment,
    Subscription,
    join_items,
)
from gateway_async.models.payouts import Beneficiary, PayoutRequest, PersonDocument
from gateway_async.models.values import mask_shown_card
from tests.models import examples

_Model = TypeVar("_Model")

REDIRECT: dict[str, Any] = {"order_no": "ORD-7", "currency": "EUR", "amount": "9.90"}
DIRECT: dict[str, Any] = {**REDIRECT, "card": examples.CARD}
PAYOUT: dict[str, Any] = {"request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11"}


def test_a_direct_payment_is_by_card_or_by_token() -> None:
    assert DirectPayment(**DIRECT).security_code is None
    assert DirectPayment(**REDIRECT, token_id=examples.TOKEN).card is None
    for nothing in (None, "", " "):
        with pytest.raises(InvalidOrderError, match=r"ORD-7.*card: missing; .*token_id"):
            DirectPayment(**REDIRECT, token_id=nothing)


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (DirectPayment, {**DIRECT, "amount": 9.9}, r"ORD-7.*amount: .*float.*Decimal\("),
    (DirectPayment, {**DIRECT, "order_no": " "}, r"order_no.*non-empty"),
    (DirectPayment, {**DIRECT, "note": "\ud800"}, r"ORD-7.*note.*surrogate"),
    *(
        (DirectPayment, {**DIRECT, "card": card}, r"ORD-7.*digits only")
        for card in ("4111 1111 1111 1111", "4111-1111-1111-1111", "", "\uff14111")
    ),
    (Price, {"amount_usd": "Infinity"}, r"Price.*amount_usd.*finite"),
    (Price, {"amount_usd": "\u0661"}, r"Price.*amount_usd"),
    (Item, {"parts": ()}, r"parts.*at least one"),
    (PayoutRequest, {"request_id": "77"}, r"request_id.*'77'.*UUID"),
    *(
        (PayoutRequest, {**PAYOUT, "payment_date": date}, f"payment_date: '{date}' is")
        for date in ("31.1.2026", "20260131", "2026-02-30")
    ),
    (Beneficiary, {"date_of_birth": ""}, r"date_of_birth: '' is not a date; write"),
    (PersonDocument, {"labels": ["a", "\ud800"]}, r"PersonD.*labels.*surrogate"),
]


def test_a_wrong_value_is_an_invalid_order() -> None:
    for model, fields, expected in WRONG:
        with pytest.raises(InvalidOrderError, match=expected):
            model(**fields)


def test_what_is_given_becomes_what_is_sent() -> None:
    payment = build(RedirectPayment, **REDIRECT, cart_items=iter([CartItem()]), shipping=3)
    assert payment.cart_items == (CartItem(),)
    assert (payment.amount, payment.shipping) == (Decimal("9.90"), Decimal(3))
    assert build(PersonDocument, labels=["a", "b"]).labels == ("a", "b")
    assert Subscription(billing_cycle=12).billing_cycle == 12
    assert build(Price, amount_usd="-1").amount_usd == Decimal(-1)
    assert build(Beneficiary, date_of_birth="1990-02-28").date_of_birth == date(1990, 2, 28)
    key = uuid.uuid4()
    assert PayoutRequest(request_id=key).request_id == str(key)
    assert PayoutRequest(**PAYOUT, payment_date="2026-01-31").payment_date == date(2026, 1, 31)


@given(
    st.lists(st.lists(st.text("a#,;", max_size=4), min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_items_come_out_as_they_went_in_or_are_refused(entries: list[list[str]]) -> None:
    items = tuple(Item(parts=entry) for entry in entries)
    joined = "#;#".join("#,#".join(entry) for entry in entries)
    if [entry.split("#,#") for entry in joined.split("#;#")] == entries:
        payment = RedirectPayment(**REDIRECT, items=items)
        assert payment.items == items
        assert join_items(items) == joined
    else:  # some would be split elsewhere
        with pytest.raises(InvalidOrderError, match=r"RedirectPayment.*ORD-7.*items"):
            RedirectPayment(**REDIRECT, items=items)


def test_what_holds_no_secret_is_pickled() -> None:
    for request in (examples.apm_payment(), examples.payout_request()):
        assert pickle.loads(pickle.dumps(request)) == request  # noqa: S301  # our own


CARDS = {
    "411111******1111": "411111******1111",
    "4111111111111111": "411111******1111",
    "41111111****1111": "411111******1111",
    "4111 1111 1111 1111": "4111 1*** **** 1111",
    "****1111": "****1111",
    "12345678": "****5678",
    "": "",
}


def test_a_card_of_a_reply_shows_six_and_four_at_most() -> None:
    for came, kept in CARDS.items():
        assert mask_shown_card(came) == mask_shown_card(kept) == kept


def build(model: Callable[..., _Model], **fields: Any) -> _Model:
    """Call a model with what it converts, which is more than what its attributes hold."""
    return model(**fields)
