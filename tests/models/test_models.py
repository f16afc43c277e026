"""The models: every field of the interface, and no value that is not an `InvalidOrderError`."""

import inspect
import itertools
import pickle
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import gateway_async
from gateway_async import (
    ApmPayment,
    Beneficiary,
    CaptureOrder,
    CartItem,
    DirectPayment,
    GatewayError,
    InvalidOrderError,
    Item,
    OrderRef,
    Page,
    PayoutRequest,
    PersonDocument,
    Price,
    RedirectPayment,
    RefundOrder,
    Subscription,
)
from gateway_async.reconciliation import LedgerEntry
from tests.support import examples
from tests.support.interface_fields import FIELDS as LISTED

MODELS: dict[str, Any] = {name: getattr(gateway_async, name) for name in LISTED}
PAYMENT: dict[str, Any] = {"order_no": "A-1", "currency": "EUR", "amount": "9.90"}
ORDER: dict[str, Any] = {**PAYMENT, "transaction_id": "T-1"}
ENOUGH: dict[str, dict[str, Any]] = {
    "CaptureOrder": ORDER,
    "CancelOrder": ORDER,
    "ReviewOrder": {**ORDER, "review_flag": "1"},
    "RefundOrder": {**ORDER, "refund_amount": "9.90"},
    "OrderRef": {"order_no": "A-1"},
    "DirectPayment": PAYMENT,
    "RedirectPayment": PAYMENT,
    "ApmPayment": {**PAYMENT, "payment_method": "PIX"},
    "PayoutRequest": {"request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11"},
    "Item": {"parts": ("SKU-1",)},
    "LedgerEntry": PAYMENT,
}
"""What is enough to make each; of the other models, nothing."""
FIELDS: list[tuple[Any, str]] = [
    (model, field.name)
    for model in [OrderRef, Item, LedgerEntry, *MODELS.values()]
    if not hasattr(model, "extra") and model is not Page
    for field in attrs.fields(model)
]


def test_every_field_of_the_interface_has_its_place() -> None:
    added = {"extra", "unreadable"}
    found = {name: {field.name for field in attrs.fields(MODELS[name])} for name in LISTED}
    assert found == {
        name: fields | added if hasattr(MODELS[name], "extra") else fields
        for name, fields in LISTED.items()
    }


def test_models_are_frozen_and_keyword_only() -> None:
    for model in MODELS.values():
        assert all(field.kw_only for field in attrs.fields(model))
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(object.__new__(model), attrs.fields(model)[0].name, "changed")


def test_every_field_is_described() -> None:
    for name, model in MODELS.items():
        shared = {
            field.name
            for base in model.__mro__[1:-1]
            if attrs.has(base) and not base.__name__.startswith("_")  # nobody looks these up
            for field in attrs.fields(base)
        }
        own = {field.name for field in attrs.fields(model)} - shared
        said = inspect.cleandoc(model.__doc__ or "")  # newer interpreters take the indent away
        counts = {field: said.count(f"\n    {field}: ") for field in own}
        assert counts == dict.fromkeys(own, 1), name


# Whatever they are made of, `except GatewayError` around it is enough


WRONG_TYPES: tuple[object, ...] = (
    *(object(), 1.5, True, examples.CARD.encode(), datetime(2026, 1, 31, tzinfo=UTC)),
    *({examples.CARD: examples.SECURITY_CODE}, [object()], [int(examples.CARD)]),
)


def refusal(model: type, name: str, value: object) -> GatewayError | None:
    """Return the error of a model that is made with a value; None where it is taken."""
    try:
        model(**{**ENOUGH.get(model.__name__, {}), name: value})
    except GatewayError as error:
        return error
    return None


def test_a_value_of_a_wrong_type_is_an_invalid_order() -> None:
    for (model, name), value in itertools.product(FIELDS, WRONG_TYPES):
        error, where = refusal(model, name, value), (model, name, type(value))
        assert isinstance(error, InvalidOrderError), where
        assert isinstance(error, ValueError)
        shown = str(error)
        assert shown.startswith(model.__name__), where
        assert f".{name}: expected " in shown, where
        has_number = name != "order_no" and "order_no" in ENOUGH.get(model.__name__, {})
        assert "order_no='A-1'" in shown or not has_number, where
        assert not [secret for secret in examples.SECRETS if secret in shown], where


ODD: tuple[object, ...] = (
    *(None, 7, -1, 10**400, float("nan"), Decimal("NaN"), "", "\0", "text", "half \ud800", b""),
    *(date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC), uuid.UUID(int=7)),
    *([], [7], ["a", None], [["a"]], (), {}, {"a": "b"}),
)


def test_any_value_is_taken_or_an_invalid_order() -> None:
    for (model, name), value in itertools.product(FIELDS, ODD):
        error = refusal(model, name, value)
        assert error is None or str(error).startswith(model.__name__)


def test_what_is_enough_is_required_and_nothing_else() -> None:
    for model in {one for one, _ in FIELDS}:
        enough = ENOUGH.get(model.__name__, {})
        model(**enough)
        required = {one.name for one in attrs.fields(model) if one.default is attrs.NOTHING}
        assert required <= set(enough)
        either = {"OrderRef", "LedgerEntry"}  # these need one of two names
        assert required == set(enough) or model.__name__ in either


# What they convert, and what they refuse besides wrong types and amounts


HUGE = 10**5000
"""Python refuses to write out so long an `int`."""
NO_AMOUNTS = (
    *("", "9,90", "1_0", " 1", "NaN", "-0.01", "1E+99999", "1E-99999"),
    *(Decimal("sNaN"), Decimal("-Infinity"), HUGE, -HUGE),
)
WRONG: list[tuple[Any, str, tuple[object, ...]]] = [
    *((model, name, NO_AMOUNTS) for model, name in FIELDS if name.endswith(("amount", "refunded"))),
    (DirectPayment, "order_no", (" ",)),
    (DirectPayment, "note", ("half \ud800",)),
    (DirectPayment, "card", ("4111 1111 1111 1111", "\uff14111")),
    (Price, "amount_usd", ("Infinity",)),
    (Item, "parts", ((),)),
    (PayoutRequest, "request_id", ("77",)),
    (PayoutRequest, "payment_date", ("20260131", "2026-02-30")),
    (PersonDocument, "labels", (["a", "\ud800"],)),
    (PayoutRequest, "source_amount", (0,)),  # which moves nothing
    (CaptureOrder, "amount", ("0.00", 10**10**6)),  # to write it takes minutes
    (RefundOrder, "refund_amount", ("0", "9.91")),  # or more than the order's
    (RedirectPayment, "checkout_time", (HUGE, -HUGE)),
]


def test_a_wrong_value_is_an_invalid_order() -> None:
    for model, name, values in WRONG:
        for value in values:
            said = str(refusal(model, name, value))
            assert f".{name}: " in said, (model, name, value)
            assert len(said) < 250


def test_an_order_is_looked_up_by_one_reference() -> None:
    for name in ("A-1", None):
        with pytest.raises(InvalidOrderError, match="give order_no or transaction_id"):
            OrderRef(order_no=name, transaction_id=name)


def test_what_is_given_becomes_what_is_sent() -> None:
    given: dict[str, Any] = {**PAYMENT, "cart_items": iter([CartItem()]), "shipping": 3}
    payment = RedirectPayment(**given)
    assert payment.cart_items == (CartItem(),)
    assert (payment.amount, payment.shipping) == (Decimal("9.90"), Decimal(3))
    assert PersonDocument(labels=["a", "b"]).labels == ("a", "b")
    assert Subscription(billing_cycle=12).billing_cycle == 12
    assert Price(amount_usd="-1").amount_usd == Decimal(-1)
    assert Beneficiary(date_of_birth="1990-02-28").date_of_birth == date(1990, 2, 28)
    payout = PayoutRequest(request_id=uuid.UUID(int=7), payment_date="2026-01-31")
    for one, other in ((0, 1), (1, 0)):  # one of them fixes it
        attrs.evolve(payout, payment_amount=one, source_amount=other)
    assert payout.request_id == str(uuid.UUID(int=7))
    assert payout.payment_date == date(2026, 1, 31)


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.text("a#,;", max_size=4), min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_items_come_out_as_they_went_in_or_are_refused(entries: list[list[str]]) -> None:
    items = tuple(Item(parts=entry) for entry in entries)
    joined = "#;#".join("#,#".join(entry) for entry in entries)
    if [entry.split("#,#") for entry in joined.split("#;#")] == entries:
        payment = RedirectPayment(**PAYMENT, items=items)
        assert payment.items == joined
    else:  # some would be split elsewhere
        with pytest.raises(InvalidOrderError, match=r"RedirectPayment.*A-1.*items"):
            RedirectPayment(**PAYMENT, items=items)


def test_what_holds_no_secret_is_pickled() -> None:
    for request in (examples.full(ApmPayment), examples.full(PayoutRequest)):
        assert pickle.loads(pickle.dumps(request)) == request  # noqa: S301  # our own
