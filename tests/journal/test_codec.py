"""Orders and amounts survive the journal."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import CancelOrder, OrderRef, RefundOrder
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.journal.rows import (
    JOB_OPERATIONS,
    codec_of,
    lookup_key,
    pack_keys,
    storable,
    unpack_keys,
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


def test_an_order_of_another_operation_is_refused() -> None:
    cancel = CancelOrder(transaction_id="T", order_no="N", currency="EUR", amount=Decimal(1))
    with pytest.raises(InvalidOrderError, match="expected RefundOrder, got CancelOrder"):
        codec_of("refund").encode([cancel])
    assert codec_of("refund").order_class is RefundOrder


@pytest.mark.parametrize("operation", ["query", "pay_direct", ""])
def test_no_job_of_another_operation(operation: str) -> None:
    with pytest.raises(ConfigurationError, match="capture, review, cancel, refund, payout"):
        codec_of(operation)
    assert OrderRef not in {codec_of(name).order_class for name in JOB_OPERATIONS}


@given(st.lists(identifiers, max_size=60))
def test_keys_are_read_back(names: list[str]) -> None:
    keys = [lookup_key(name) for name in names]
    assert list(unpack_keys(pack_keys(keys))) == keys
