"""Orders and amounts survive the journal."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import CancelOrder, OrderRef, RefundOrder
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.journal.codec import (
    CODECS,
    canonical_amount,
    codec_of,
    lookup_key,
    pack_keys,
    storable,
    unpack_keys,
)

amounts = st.one_of(
    st.decimals(min_value=0, allow_nan=False, allow_infinity=False),
    st.decimals(min_value=0, max_value=10**6, places=2),
    st.builds(
        lambda digits, zeros, power: Decimal(f"{digits}{'0' * zeros}E{power}"),
        st.integers(0, 10**12),
        st.integers(0, 40),
        st.integers(-45, 45),
    ),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
identifiers = texts.map(lambda text: f"T{text}".strip())


@given(amounts)
def test_an_amount_is_read_back(amount: Decimal) -> None:
    assert Decimal(canonical_amount(amount)) == amount


@given(amounts, amounts)
def test_equal_amounts_and_no_others_have_the_same_text(one: Decimal, other: Decimal) -> None:
    assert (canonical_amount(one) == canonical_amount(other)) == (one == other)


@given(amounts, st.integers(0, 40))
def test_zeros_behind_change_nothing(amount: Decimal, zeros: int) -> None:
    sign, digits, exponent = amount.as_tuple()
    longer = Decimal((sign, (*digits, *[0] * zeros), int(exponent) - zeros))
    assert canonical_amount(longer) == canonical_amount(amount)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("10.00", "10.00"),
        ("1E+1", "10.00"),
        ("0.00", "0.00"),
        ("-0.0", "0.00"),
        ("-0.00", "0.00"),
        ("0E+5", "0.00"),
        ("1.50", "1.50"),
        ("1.5", "1.50"),
        ("1.500", "1.50"),
        ("1E-7", "0.0000001"),
        ("100", "100.00"),
        ("1E+40", "1E40"),
        ("9" * 40, "9" * 40 + "E0"),
        ("9" * 40 + ".00", "9" * 40 + "E0"),
    ],
)
def test_texts_of_amounts(amount: str, text: str) -> None:
    assert canonical_amount(Decimal(amount)) == text


@pytest.mark.parametrize("operation", CODECS)
@settings(max_examples=50)
@given(st.data())
def test_an_order_is_read_back(operation: str, data: st.DataObject) -> None:
    codec = codec_of(operation)
    amount = data.draw(amounts)
    fields: dict[str, Any] = {"transaction_id": data.draw(identifiers), "amount": amount}
    if operation == "refund":
        fields |= {"refund_amount": amount, "refund_reason": data.draw(texts)}
    if operation == "review":
        fields["review_flag"] = data.draw(texts)
    order = codec.order_class(order_no=data.draw(identifiers), currency="EUR", **fields)
    body = codec.encode(order)
    assert codec.decode(body) == order
    assert codec.encode(codec.decode(body)) == body
    assert codec.encode_block([codec.decode(body)]) == codec.encode_block([order])
    assert "\n" not in body
    assert storable(body) == body


@given(st.text())
def test_what_is_storable_can_be_stored(text: str) -> None:
    stored = storable(text)
    assert len(stored) == len(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored


def test_an_order_of_another_operation_is_refused() -> None:
    cancel = CancelOrder(transaction_id="T", order_no="N", currency="EUR", amount=Decimal(1))
    with pytest.raises(InvalidOrderError, match="expected RefundOrder, got CancelOrder"):
        codec_of("refund").encode(cancel)
    assert codec_of("refund").order_class is RefundOrder


@pytest.mark.parametrize("operation", ["query", "payout", ""])
def test_no_job_of_another_operation(operation: str) -> None:
    with pytest.raises(ConfigurationError, match="capture, review, cancel, refund"):
        codec_of(operation)
    assert OrderRef not in {codec.order_class for codec in CODECS.values()}


@given(st.lists(amounts, max_size=7), st.integers(1, 7), st.integers(1, 7))
def test_blocks_may_be_cut_anywhere(given_amounts: list[Decimal], one: int, other: int) -> None:
    codec = codec_of("cancel")
    orders = [
        CancelOrder(transaction_id=f"T{at}", order_no="N", currency="EUR", amount=amount)
        for at, amount in enumerate(given_amounts)
    ]
    streams = []
    for size in (one, other):
        blocks = [
            codec.encode_block(orders[start : start + size])
            for start in range(0, len(orders), size)
        ]
        values = [each for kept, _ in blocks for each in codec.read_block(kept.decode(), "job")]
        assert codec.build(values) == orders
        assert [str(order.amount) for order in codec.build(values)] == [
            str(order.amount) for order in orders
        ]
        streams.append([each for _, canonical in blocks for each in json.loads(canonical)])
    assert streams[0] == streams[1]
    alone = [json.loads(codec.encode_block([order])[1]) for order in orders]
    assert streams[0] == [each for (each,) in alone]


@given(st.lists(identifiers, max_size=60))
def test_keys_are_read_back(names: list[str]) -> None:
    keys = [lookup_key(name) for name in names]
    assert list(unpack_keys(pack_keys(keys))) == keys


def test_an_amount_is_read_back_as_it_was_written() -> None:
    codec = codec_of("capture")
    one, other = (
        codec.order_class(transaction_id="T1", order_no="N1", currency="EUR", amount=amount)
        for amount in ("10.00", "10")
    )
    assert str(codec.decode(codec.encode(one)).amount) == "10.00"
    (kept, canonical), (other_kept, other_canonical) = map(codec.encode_block, ([one], [other]))
    assert kept != other_kept
    assert canonical == other_canonical
