"""Every operation, over real HTTP, against a gateway that keeps its own books."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import (
    ApmPayment,
    ConfigurationError,
    Dialect,
    DirectPayment,
    GatewayClient,
    OrderRef,
    OutcomeUnknownError,
    RedirectPayment,
    RefundOrder,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import (
    ChangedAmount,
    DropReply,
    ReturnStatus,
    Status,
)
from tests.orders import (
    CARD,
    LOOK_UPS,
    MONEY_OPERATIONS,
    PAYMENT,
    client_of,
    direct_payment,
    made_up,
    orders_for,
    payout_request,
)

PAYOUT = payout_request()
STATUS_BEFORE = {"refund": "captured"}


def _seeded(sandbox: Sandbox, operation: str, count: int) -> list[Any]:
    status = STATUS_BEFORE.get(operation, "authorised")
    return orders_for(operation, sandbox.seed(count, status=status))


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
@pytest.mark.parametrize("count", [1, 101])
async def test_a_batch_is_done_once_in_requests_of_the_right_size(
    sandbox: Sandbox, gateway: GatewayClient, operation: str, count: int
) -> None:
    orders = _seeded(sandbox, operation, count)
    result = await getattr(gateway, operation)(orders)
    assert result.ok
    assert [outcome.order for outcome in result] == orders
    effects = [sandbox.ledger.effects(operation, order.transaction_id) for order in orders]
    assert effects == [1] * count
    limit = 100 if operation == "review" else 50
    sizes = sorted(request.orders for request in sandbox.requests.last)
    assert sizes == sorted([limit] * (count // limit) + [count % limit] * (count % limit > 0))
    assert result.requests == sandbox.requests[operation]


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_a_record_has_the_interface_fields(
    sandbox: Sandbox, gateway: GatewayClient, operation: str
) -> None:
    (order,) = _seeded(sandbox, operation, 1)
    ((outcome),) = await getattr(gateway, operation)([order])
    record = outcome.record
    assert record.transaction_id == order.transaction_id
    assert record.order_no == order.order_no
    assert (record.currency, record.amount) == ("EUR", Decimal("10.00"))
    assert getattr(record, f"{operation}_status") == "1"
    assert record.unreadable == {}
    if operation == "refund":
        assert record.refund_amount == Decimal("1.00")
        assert record.refund_reference_id == f"{order.transaction_id}-01"
    else:
        assert record.error_message == ""


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_unknown_transactions_are_declined_with_code_and_text(
    gateway: GatewayClient, operation: str
) -> None:
    result = await getattr(gateway, operation)(orders_for(operation, made_up(2)))
    assert len(result.declined) == 2
    error = result[0].error
    assert isinstance(error, RejectedError)
    code = "2001" if operation == "refund" else "0"  # other texts come without a code
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
        records = [outcome.record for outcome in result]
        assert [len(one) for one in records] == [1] * 120
        assert [one[0].order_no for one in records] == [order.order_no for order in seeded]
    sizes = {request.orders for request in sandbox.requests.last if request.operation == operation}
    assert sizes == {100, 20}


async def test_a_transaction_record_has_the_interface_fields(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    (order,) = sandbox.seed(1, status="captured")
    ((outcome),) = await gateway.query(orders_for("query", [order]))
    ((record),) = outcome.record or ()
    assert (record.transaction_id, record.order_no) == (order.transaction_id, order.order_no)
    assert (record.amount, record.currency) == (order.amount, "EUR")
    assert (record.payment_status, record.query_result) == ("3000", "1")
    assert isinstance(record.transaction_date, datetime)
    assert record.transaction_date.tzinfo is None
    assert record.unreadable == {}


async def test_pages_list_the_recent_records(sandbox: Sandbox, gateway: GatewayClient) -> None:
    seeded = sandbox.seed(130, status="captured")
    await gateway.refund(orders_for("refund", seeded))
    transactions = await gateway.recent_transactions()
    refunded = await gateway.recent_refunds()
    assert len(transactions.records) == len(refunded.records) == 100
    assert (transactions.return_status, transactions.return_message) == ("1", "OK")
    assert (transactions.merchant_id, transactions.account_id) == ("M1", "A1")
    assert transactions.records[0].order_no == seeded[-1].order_no
    assert {record.refund_amount for record in refunded.records} == {Decimal("1.00")}


@pytest.mark.parametrize(
    ("operation", "method"),
    [("query", "recent_transactions"), ("search_refunds", "recent_refunds")],
)
async def test_a_page_that_is_refused_raises(
    sandbox: Sandbox, gateway: GatewayClient, operation: str, method: str
) -> None:
    sandbox.faults.add(operation, ReturnStatus("77", "not registered"))
    with pytest.raises(RejectedError, match="not registered") as caught:
        await getattr(gateway, method)()
    assert (caught.value.code, caught.value.text) == ("77", "not registered")


async def test_a_card_payment(sandbox: Sandbox, gateway: GatewayClient) -> None:
    result = await gateway.pay_direct(direct_payment())
    ((entry),) = sandbox.ledger.payments_of("N1")
    assert result.transaction_id == entry.transaction_id
    assert (result.order_no, result.currency, result.amount) == ("N1", "EUR", Decimal("12.50"))
    assert result.order_status == "1"
    assert CARD["card"] not in repr(result)


@pytest.mark.parametrize("text", ["SKU-1#,#Tea#,#2#,#9.90#;#SKU-2#,#Cup#,#1#,#4.00", "#;#", ""])
async def test_items_are_sent_as_the_text_that_they_are_given_as(
    sandbox: Sandbox, gateway: GatewayClient, text: str
) -> None:
    result = await gateway.pay_direct(DirectPayment(**PAYMENT, **CARD, items=text))
    transaction = sandbox.ledger.find(result.transaction_id or "")
    assert transaction is not None
    assert transaction.details.get("items", "") == text


async def test_a_payment_by_token(gateway: GatewayClient) -> None:
    first = await gateway.pay_direct(DirectPayment(**PAYMENT, **CARD, token_flag="YES"))
    second = await gateway.pay_direct(DirectPayment(**PAYMENT, token_id=first.token_id))
    assert (second.order_status, second.token_id) == ("1", first.token_id)
    assert str(first.token_id) not in f"{first!r} {second!r}"


async def test_an_alternative_payment(sandbox: Sandbox, gateway: GatewayClient) -> None:
    result = await gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix"))
    assert result.issuer_url is not None
    assert result.issuer_url.startswith(sandbox.base_url)
    assert result.amount == Decimal("12.50")


async def test_a_checkout_page(sandbox: Sandbox, gateway: GatewayClient) -> None:
    page = await gateway.checkout(RedirectPayment(**PAYMENT))
    assert page.action == f"{sandbox.base_url}/v1/checkout"
    assert page.title
    assert "<form" in page.html
    assert "N1" in page.html
    assert "N1" not in repr(page)


@pytest.mark.parametrize(("deduplicates", "requests"), [(True, 2), (False, 1)])
async def test_a_payout_is_sent_again_only_where_the_gateway_deduplicates(
    deduplicates: bool, requests: int
) -> None:
    async with Sandbox(deduplicate_payouts=deduplicates) as sandbox:
        dialect = Dialect(payout_deduplicates=deduplicates)
        sandbox.faults.add("payout", DropReply(times=1))
        async with client_of(sandbox, dialect=dialect) as gateway:
            if deduplicates:
                assert (await gateway.payout(PAYOUT)).status == "COMPLETED"
            else:
                with pytest.raises(OutcomeUnknownError, match=PAYOUT.request_id) as caught:
                    await gateway.payout(PAYOUT)
                assert caught.value.request_id == PAYOUT.request_id
        assert sandbox.requests["payout"] == requests
        assert len(sandbox.ledger.payouts_of(PAYOUT.request_id)) == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (DropReply(), OutcomeUnknownError),
        (Status(503), OutcomeUnknownError),
        (ChangedAmount(), ReplyUnreadableError),
    ],
)
async def test_a_payment_in_doubt_names_its_order_and_is_not_repeated(
    sandbox: Sandbox, gateway: GatewayClient, fault: Any, error: type[OutcomeUnknownError]
) -> None:
    sandbox.faults.add("pay_direct", fault)
    with pytest.raises(error, match=r"query\(\[OrderRef\(order_no='N1'\)\]\)") as caught:
        await gateway.pay_direct(direct_payment())
    assert caught.value.order_no == "N1"
    assert CARD["card"] not in str(caught.value)
    assert sandbox.requests["pay_direct"] == 1


@pytest.mark.parametrize("method", ["pay_direct", "pay_apm", "checkout", "payout"])
async def test_a_model_of_another_operation_is_refused(gateway: GatewayClient, method: str) -> None:
    (order,) = orders_for("refund", made_up(1))
    assert isinstance(order, RefundOrder)
    with pytest.raises(TypeError, match="got RefundOrder"):
        await getattr(gateway, method)(order)


# Any other call


async def test_any_signed_call(sandbox: Sandbox, gateway: GatewayClient) -> None:
    sandbox.seed(2)
    reply = await gateway.call("/v1/retrievalTrans", {"order_no": "S00000001"}, repeatable=True)
    assert reply.status == 200
    assert [record["order_no"] for record in reply.data["orders_list"]] == ["S00000001"]
    text = await gateway.call("/v1/retrievalTrans", {}, reply="text")
    assert '"orders_list"' in text.data


@pytest.mark.parametrize(
    "path",
    [
        "https://elsewhere.example/v1/refund",
        "//elsewhere.example/v1",
        "v1/refund",
        "",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/./refund",
        "/v1/refund?x=1",
        "/v1/refund#x",
        "/v1/re fund",
        "/v1\\refund",
        "/v1/\r\nHost: x",
        "/größe",
        7,
    ],
)
async def test_a_path_that_is_none_is_refused(
    sandbox: Sandbox, gateway: GatewayClient, path: Any
) -> None:
    with pytest.raises(ConfigurationError, match="path: expected a path such as"):
        await gateway.call(path, {})
    assert sandbox.requests.total() == 0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"fields": {}, "body": "xml"}, ConfigurationError, "body: expected one of 'form', 'json'"),
        ({"fields": {}, "reply": "yaml"}, ConfigurationError, "reply: expected one of"),
        ({"fields": {"merchant_id": "M2"}}, ConfigurationError, "merchant_id"),
        ({"fields": {"encryption_data": "x"}}, ConfigurationError, "encryption_data"),
        ({"fields": {"": "x"}}, ConfigurationError, "cannot be the name of a field"),
        ({"fields": {"a": 1.5}}, TypeError, r"fields\['a'\].*got float"),
        ({"fields": {"a": Decimal("NaN")}}, TypeError, "got Decimal"),
        ({"fields": {"a": b"x"}}, TypeError, "got bytes"),
        ({"fields": {"a": "\ud800"}}, TypeError, r"fields\['a'\]: holds half a surrogate pair"),
        (
            {"fields": {"a": [float("nan")]}},
            TypeError,
            r"\['a'\]: cannot be .* JSON: .*float",
        ),
        ({"fields": {"a": 2**64}}, TypeError, r"\['a'\]: cannot be .* JSON: .*64-bit"),
        ({"fields": {}, "body": ["form"]}, ConfigurationError, "body: expected one of"),
    ],
)
async def test_a_call_checks_what_it_is_given(
    gateway: GatewayClient, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await gateway.call("/v1/x", **arguments)
