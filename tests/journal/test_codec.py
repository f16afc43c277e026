"""Orders and amounts survive the journal."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async.journal.rows import (
    codec_of,
    storable,
)
from tests.orders import MONEY_OPERATIONS

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


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
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
    block = codec.encode([order, order])
    read = codec.decode(block, "job")
    assert read == [order, order]
    assert str(read[0].amount) == str(order.amount)
    assert codec.encode(read) == block
    assert storable(block) == block


@given(st.text())
def test_what_is_storable_can_be_stored(text: str) -> None:
    stored = storable(text)
    assert len(stored) == len(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
