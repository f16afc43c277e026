"""Every operation, over real HTTP, against a gateway that keeps its own books."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import (
    ApmPayment,
    ConfigurationError,
    DirectPayment,
    GatewayClient,
    OrderRef,
    OutcomeUnknownError,
    RedirectPayment,
    RejectedError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Fault, ReturnStatus, Status
from tests.orders import (
    CARD,
    LOOK_UPS,
    MONEY_OPERATIONS,
    PAYMENT,
    direct_payment,
    made_up,
    orders_for,
    payout_request,
)


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_a_batch_is_done_once_and_what_is_not_known_declined(
    sandbox: Sandbox, gateway: GatewayClient, operation: str
) -> None:
    status = "captured" if operation == "refund" else "authorised"
    orders = orders_for(operation, [*sandbox.seed(101, status=status), *made_up(2)])
    result = await getattr(gateway, operation)(orders)
    assert [outcome.order for outcome in result] == orders
    effects = [sandbox.ledger.effects(operation, order.transaction_id) for order in orders]
    assert effects == [1] * 101 + [0] * 2
    sizes = sorted(request.orders for request in sandbox.requests.last)
    assert sizes == ([3, 100] if operation == "review" else [3, 50, 50])
    assert result.requests == sandbox.requests[operation]
    for outcome in result.succeeded:
        record, order = outcome.record, outcome.order
        assert (record.transaction_id, record.order_no) == (order.transaction_id, order.order_no)
        assert (record.currency, record.amount) == ("EUR", Decimal("10.00"))
        assert (getattr(record, f"{operation}_status"), record.unreadable) == ("1", {})
        if operation == "refund":
            assert record.refund_amount == Decimal("1.00")
            assert record.refund_reference_id == f"{order.transaction_id}-01"
    code = "2001" if operation == "refund" else "0"  # other texts come without a code
    assert [outcome.index for outcome in result.declined] == [101, 102]
    for error in (outcome.error for outcome in result.declined):
        assert isinstance(error, RejectedError)
        assert (error.code, error.text) == (code, "unknown transaction")


@pytest.mark.parametrize("operation", LOOK_UPS)
async def test_a_look_up_finds_by_either_reference(
    sandbox: Sandbox, gateway: GatewayClient, operation: str
) -> None:
    seeded = sandbox.seed(120, status="captured")
    assert (await gateway.refund(orders_for("refund", seeded))).ok
    by_number = [OrderRef(order_no=order.order_no) for order in seeded]
    for refs in (by_number, orders_for(operation, seeded)):
        result = await getattr(gateway, operation)(refs)
        assert result.ok
        records = [record for outcome in result for record in outcome.record]
        assert [record.order_no for record in records] == [order.order_no for order in seeded]
    sizes = {request.orders for request in sandbox.requests.last if request.operation == operation}
    assert sizes == {100, 20}
    record = records[0]
    assert (record.transaction_id, record.amount) == (seeded[0].transaction_id, Decimal("10.00"))
    assert (record.currency, record.unreadable) == ("EUR", {})
    if operation == "query":
        assert (record.payment_status, record.query_result) == ("3000", "1")
        assert isinstance(record.transaction_date, datetime)
        assert record.transaction_date.tzinfo is None


async def test_pages_list_the_recent_records_or_raise(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    seeded = sandbox.seed(130, status="captured")
    await gateway.refund(orders_for("refund", seeded))
    transactions = await gateway.recent_transactions()
    refunded = await gateway.recent_refunds()
    assert len(transactions.records) == len(refunded.records) == 100
    assert (transactions.return_status, transactions.return_message) == ("1", "OK")
    assert (transactions.merchant_id, transactions.account_id) == ("M1", "A1")
    assert transactions.records[0].order_no == seeded[-1].order_no
    assert {record.refund_amount for record in refunded.records} == {Decimal("1.00")}
    sandbox.faults.add("*", ReturnStatus("77", "not registered"))
    for page in (gateway.recent_transactions, gateway.recent_refunds):
        with pytest.raises(RejectedError, match="not registered") as caught:
            await page()
        assert (caught.value.code, caught.value.text) == ("77", "not registered")


async def test_a_payment_by_card_and_by_token(sandbox: Sandbox, gateway: GatewayClient) -> None:
    items = "SKU-1#,#Tea#,#2#,#9.90#;#SKU-2#,#Cup#,#1#,#4.00"
    payment = DirectPayment(**PAYMENT, **CARD, items=items, token_flag="YES")
    first = await gateway.pay_direct(payment)
    (entry,) = sandbox.ledger.payments_of("N1")
    assert entry.details["items"] == items
    assert first.transaction_id == entry.transaction_id
    assert (first.order_no, first.currency, first.amount) == ("N1", "EUR", Decimal("12.50"))
    second = await gateway.pay_direct(DirectPayment(**PAYMENT, token_id=first.token_id))
    assert (first.order_status, second.order_status) == ("1", "1")
    assert second.token_id == first.token_id
    for secret in (CARD["card"], str(first.token_id)):
        assert secret not in f"{first!r} {second!r}"


async def test_an_alternative_payment_and_a_checkout_page(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    result = await gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix"))
    assert str(result.issuer_url).startswith(sandbox.base_url)
    assert result.amount == Decimal("12.50")
    page = await gateway.checkout(RedirectPayment(**PAYMENT))
    assert page.action == f"{sandbox.base_url}/v1/checkout"
    assert page.title
    assert "<form" in page.html
    assert "N1" in page.html
    assert "N1" not in repr(page)


@pytest.mark.parametrize("fault", [DropReply(), Status(503)])
async def test_a_payment_in_doubt_names_its_order_and_is_not_repeated(
    sandbox: Sandbox, gateway: GatewayClient, fault: Fault
) -> None:
    sandbox.faults.add("*", fault)
    with pytest.raises(OutcomeUnknownError, match=r"query\(\[OrderRef\(order_no='N1'\)\]\)") as one:
        await gateway.pay_direct(direct_payment())
    assert one.value.order_no == "N1"
    assert CARD["card"] not in str(one.value)
    payout = payout_request()
    with pytest.raises(OutcomeUnknownError, match=payout.request_id) as other:
        await gateway.payout(payout)
    assert other.value.request_id == payout.request_id
    assert sandbox.requests.counts == {"pay_direct": 1, "payout": 1}


@pytest.mark.parametrize("method", ["pay_direct", "pay_apm", "checkout", "payout"])
async def test_a_model_of_another_operation_is_refused(gateway: GatewayClient, method: str) -> None:
    with pytest.raises(TypeError, match="got RefundOrder"):
        await getattr(gateway, method)(*orders_for("refund", made_up(1)))


async def test_any_signed_call(sandbox: Sandbox, gateway: GatewayClient) -> None:
    sandbox.seed(2)
    reply = await gateway.call("/v1/retrievalTrans", {"order_no": "S00000001"}, repeatable=True)
    assert reply.status == 200
    assert [record["order_no"] for record in reply.data["orders_list"]] == ["S00000001"]
    text = await gateway.call("/v1/retrievalTrans", {}, reply="text")
    assert '"orders_list"' in text.data


WRONG_PATHS = [
    *("https://elsewhere.example/v1/refund", "//elsewhere.example/v1", "v1/refund", "", 7),
    *("/v1/../admin", "/v1/%2e%2e/admin", "/v1/./refund", "/v1/refund?x=1", "/v1/refund#x"),
    *("/v1/re fund", "/v1\\refund", "/v1/\r\nHost: x", "/größe"),
]
WRONG_CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(
        ({"path": path}, ConfigurationError, "path: expected a path such as")
        for path in WRONG_PATHS
    ),
    ({"body": "xml"}, ConfigurationError, "body: expected one of 'form', 'json'"),
    ({"body": ["form"]}, ConfigurationError, "body: expected one of"),
    ({"reply": "yaml"}, ConfigurationError, "reply: expected one of"),
    ({"fields": {"merchant_id": "M2"}}, ConfigurationError, "merchant_id"),
    ({"fields": {"encryption_data": "x"}}, ConfigurationError, "encryption_data"),
    ({"fields": {"": "x"}}, ConfigurationError, "cannot be the name of a field"),
    ({"fields": {"a": 1.5}}, TypeError, r"fields\['a'\].*got float"),
    ({"fields": {"a": Decimal("NaN")}}, TypeError, "got Decimal"),
    ({"fields": {"a": b"x"}}, TypeError, "got bytes"),
    ({"fields": {"a": "\ud800"}}, TypeError, r"fields\['a'\]: holds half a surrogate pair"),
    ({"fields": {"a": [float("nan")]}}, TypeError, r"\['a'\]: cannot be .* JSON: .*float"),
    ({"fields": {"a": 2**64}}, TypeError, r"\['a'\]: cannot be .* JSON: .*64-bit"),
]


@pytest.mark.parametrize(("given", "error", "text"), WRONG_CALLS)
async def test_a_call_checks_what_it_is_given(
    sandbox: Sandbox,
    gateway: GatewayClient,
    given: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        await gateway.call(**{"path": "/v1/x", "fields": {}, **given})
    assert sandbox.requests.total() == 0
