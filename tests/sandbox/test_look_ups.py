import pytest

from tests.sandbox.conftest import Merchant

RECORD_FIELDS = {
    "transaction_id",
    "reference_no",
    "order_no",
    "amount",
    "currency",
    "payment_status",
    "query_result",
    "is3ds",
    "transaction_date",
    "website",
    "shopper_email",
    "shopper_phone",
    "delivery_information",
    "antifraud_provider",
    "fraud_check_result",
    "subscription_result",
}
SEARCH_FIELDS = {
    "transaction_id",
    "order_no",
    "amount",
    "currency",
    "refund_amount",
    "refund_reason",
    "refund_status",
    "refund_reference",
    "refund_reference_id",
    "payment_status",
    "refund_date",
    "refund_processing_date",
}


@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("field", ["order_no", "transaction_id"])
async def test_orders_are_selected(merchant: Merchant, field: str, *, form: bool) -> None:
    orders = merchant.sandbox.seed(5, status="captured")
    asked = ",".join([getattr(orders[3], field), "stranger", getattr(orders[1], field)])
    reply = await merchant.ask("query", {field: asked}, form=form)
    records = reply["orders_list"]
    assert [record["order_no"] for record in records] == [orders[3].order_no, orders[1].order_no]
    assert set(records[0]) == RECORD_FIELDS
    assert (records[0]["query_result"], records[0]["payment_status"]) == ("1", "3000")
    assert len(records[0]["transaction_date"]) == 14
    assert "encryption_data" not in reply


async def test_without_a_selection_the_most_recent_hundred_come(merchant: Merchant) -> None:
    orders = merchant.sandbox.seed(130)
    reply = await merchant.ask("query", form=True)
    newest = [order.order_no for order in reversed(orders[30:])]
    assert [record["order_no"] for record in reply["orders_list"]] == newest
    assert {record["payment_status"] for record in reply["orders_list"]} == {"4100"}


async def test_more_than_a_hundred_references_are_refused(merchant: Merchant) -> None:
    merchant.sandbox.seed(1)
    reply = await merchant.ask("query", {"order_no": ",".join(map(str, range(101)))}, form=True)
    assert (reply["return_status"], reply["orders_list"]) == ("0", [])


async def test_refunds_are_searched(merchant: Merchant) -> None:
    orders = merchant.sandbox.seed(3, status="captured")
    await merchant.refund(*orders)
    await merchant.refund(orders[1], refund_amount="1.50")
    reply = await merchant.ask("search_refunds", {"order_no": orders[1].order_no}, form=True)
    records = reply["refund_orders"]
    assert [record["refund_amount"] for record in records] == ["4.00", "1.50"]
    assert [record["refund_reference_id"][-3:] for record in records] == ["-01", "-02"]
    assert set(records[0]) == SEARCH_FIELDS
    recent = await merchant.ask("search_refunds")
    assert [record["order_no"] for record in recent["refund_orders"]] == [
        orders[number].order_no for number in (1, 2, 1, 0)
    ]


async def test_a_reply_never_lists_more_than_a_hundred(merchant: Merchant) -> None:
    orders = merchant.sandbox.seed(40, status="captured")
    for _ in range(3):
        await merchant.refund(*orders, refund_amount="1.00")
    asked = ",".join(order.transaction_id for order in orders)
    reply = await merchant.ask("search_refunds", {"transaction_id": asked}, form=True)
    assert len(reply["refund_orders"]) == 100
