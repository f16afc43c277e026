import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async.sandbox import PaymentStatus, Sandbox
from tests.sandbox.conftest import Merchant, item, sign

if TYPE_CHECKING:
    from gateway_async.sandbox import SeededOrder

REFUND_FIELDS = {
    "transaction_id",
    "order_no",
    "amount",
    "currency",
    "refund_amount",
    "refund_reason",
    "refund_status",
    "refund_reference",
    "refund_reference_id",
    "refund_message",
}


def order(sandbox: Sandbox, status: str = "captured") -> "SeededOrder":
    return sandbox.seed(1, status=status)[0]


async def test_a_refund_is_carried_out_and_described(merchant: Merchant) -> None:
    one = order(merchant.sandbox)
    reply = await merchant.ask("refund", {"refund_orders": [item(one)]})
    assert (reply["merchant_id"], reply["account_id"]) == ("M1", "A1")
    assert (reply["return_status"], reply["return_message"]) == ("1", "OK")
    (record,) = reply["refund_orders"]
    assert set(record) == REFUND_FIELDS
    assert record["refund_status"] == "1"
    assert record["refund_message"].startswith("V0000:")
    assert record["refund_reference_id"] == f"{one.transaction_id}-01"
    (refund,) = merchant.sandbox.ledger.transaction(one.transaction_id).refunds
    assert (refund.amount, refund.reason) == (Decimal("4.00"), "returned")


async def test_a_repeated_refund_is_a_second_refund_while_money_is_left(
    merchant: Merchant,
) -> None:
    one = order(merchant.sandbox)
    messages = [(await merchant.refund(one))[0]["refund_message"] for _ in range(3)]
    assert [message.split(":")[0] for message in messages] == ["V0000", "V0000", "2203"]
    ledger = merchant.sandbox.ledger
    assert ledger.effects("refund", one.transaction_id) == 2
    assert ledger.refusals("refund", one.transaction_id) == 1
    assert ledger.transaction(one.transaction_id).refunded_amount == Decimal("8.00")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"transaction_id": "1"}, "2001"),
        ({"order_no": "other"}, "2002"),
        ({"currency": "USD"}, "2003"),
        ({"amount": "ten"}, "2004"),
        ({"amount": "9.99"}, "2005"),
        ({"refund_amount": "0.00"}, "2202"),
        ({"refund_amount": "-1.00"}, "2202"),
        ({"refund_amount": "1e1"}, "2202"),
        ({"refund_amount": "10.01"}, "2203"),
    ],
)
async def test_a_wrong_refund_is_refused(
    merchant: Merchant, changes: dict[str, str], code: str
) -> None:
    one = order(merchant.sandbox)
    (record,) = await merchant.refund(one, **changes)
    assert record["refund_status"] == "0"
    assert record["refund_message"].startswith(f"{code}:")
    assert record["refund_reference_id"] == ""
    assert merchant.sandbox.ledger.effects("refund", one.transaction_id) == 0


async def test_what_is_not_captured_is_not_refunded(merchant: Merchant) -> None:
    (record,) = await merchant.refund(order(merchant.sandbox, "authorised"))
    assert record["refund_message"] == "2201:not captured"


async def test_a_capture_is_done_once(merchant: Merchant) -> None:
    one = order(merchant.sandbox, "authorised")
    body = {"capture_orders": [item(one, amount="7.50")]}
    first = (await merchant.ask("capture", body))["capture_orders"][0]
    second = (await merchant.ask("capture", body))["capture_orders"][0]
    assert (first["capture_status"], first["error_message"]) == ("1", "")
    assert (second["capture_status"], second["error_message"]) == ("0", "already captured")
    ledger = merchant.sandbox.ledger
    assert ledger.transaction(one.transaction_id).captured_amount == Decimal("7.50")
    assert ledger.effects("capture", one.transaction_id) == 1
    assert ledger.refusals("capture", one.transaction_id) == 1


async def test_no_more_than_the_authorised_amount_is_captured(merchant: Merchant) -> None:
    one = order(merchant.sandbox, "authorised")
    reply = await merchant.ask("capture", {"capture_orders": [item(one, amount="10.01")]})
    assert reply["capture_orders"][0]["capture_status"] == "0"
    assert merchant.sandbox.ledger.transaction(one.transaction_id).captured_amount == 0


async def test_cancel_comes_before_capture_and_ends_it(merchant: Merchant) -> None:
    open_one, captured = order(merchant.sandbox, "authorised"), order(merchant.sandbox)
    reply = await merchant.ask("cancel", {"cancel_orders": [item(open_one), item(captured)]})
    assert [record["cancel_status"] for record in reply["cancel_orders"]] == ["1", "0"]
    late = await merchant.ask("capture", {"capture_orders": [item(open_one)]})
    assert late["capture_orders"][0]["error_message"] == "already cancelled"
    cancelled = merchant.sandbox.ledger.transaction(open_one.transaction_id)
    assert cancelled.status is PaymentStatus.CANCELLED


async def test_a_review_is_recorded(merchant: Merchant) -> None:
    one = order(merchant.sandbox)
    reply = await merchant.ask("review", {"review_orders": [item(one, review_flag="2")]})
    assert reply["review_orders"][0]["review_status"] == "1"
    assert reply["review_orders"][0]["review_flag"] == "2"
    assert merchant.sandbox.ledger.transaction(one.transaction_id).review_flag == "2"


@pytest.mark.parametrize("form", [True, False])
@pytest.mark.parametrize("operation", ["capture", "cancel", "review", "refund"])
async def test_both_body_formats_are_understood(
    merchant: Merchant, operation: str, *, form: bool
) -> None:
    one = order(merchant.sandbox, "captured" if operation == "refund" else "authorised")
    fields = {f"{operation}_orders": [item(one, refund_reason='ü 🎉 "&" </script>')]}
    reply = await merchant.ask(operation, fields, form=form)
    assert reply[f"{operation}_orders"][0][f"{operation}_status"] == "1"


async def test_the_signature_of_a_json_body_covers_its_very_text(merchant: Merchant) -> None:
    one = order(merchant.sandbox)
    odd = f"[ {json.dumps(item(one), indent=3, ensure_ascii=False)}\n ,{json.dumps(item(one))}]"
    texts = {"merchant_id": "M1", "account_id": "A1", "refund_orders": odd}
    body = (
        f'\n{{"refund_orders":\t{odd} , "merchant_id": "M\\u0031","account_id":"A1",'
        f'"encryption_data":"{sign(texts)}"}} '
    )
    async with merchant.http.post(
        f"{merchant.sandbox.base_url}/v1/refund",
        data=body.encode(),
        headers={"Content-Type": "application/json"},
    ) as response:
        reply = await response.json()
    assert [record["refund_status"] for record in reply["refund_orders"]] == ["1", "1"]


async def test_replies_are_signed_as_requests_are(merchant: Merchant) -> None:
    async with merchant.post("refund", {"refund_orders": [item(order(merchant.sandbox))]}) as got:
        text = await got.text()
    reply = json.loads(text)
    start = text.index("[")
    texts = {name: value for name, value in reply.items() if isinstance(value, str)}
    signature = texts.pop("encryption_data")
    texts["refund_orders"] = text[start : text.rindex("]") + 1]
    assert signature == sign(texts)


WRONG_BODIES: list[tuple[str, dict[str, str], str]] = [
    ("json", {"merchant_id": "M2"}, "unknown merchant_id"),
    ("json", {"account_id": "A2"}, "unknown account_id"),
    ("json", {"encryption_data": "0" * 64}, "encryption_data does not match"),
    ("json", {"encryption_data": "ü"}, "encryption_data does not match"),
    ("plain", {}, "content type"),
    ("x-www-form-urlencoded", {"merchant_id": "M2"}, "unknown merchant_id"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), WRONG_BODIES)
async def test_a_stranger_gets_nothing_done(
    merchant: Merchant, kind: str, changes: dict[str, str], message: str
) -> None:
    one = order(merchant.sandbox)
    items = json.dumps([item(one)])
    texts = {"merchant_id": "M1", "account_id": "A1", "refund_orders": items}
    fields = {**texts, "encryption_data": sign(texts), **changes}
    reply = await _post_raw(merchant, kind, json.dumps(fields))
    assert reply["return_status"] == "0"
    assert message in reply["return_message"]
    assert reply["refund_orders"] == []
    assert merchant.sandbox.ledger.effects("refund", one.transaction_id) == 0


async def _post_raw(merchant: Merchant, kind: str, body: str) -> dict[str, Any]:
    async with merchant.http.post(
        f"{merchant.sandbox.base_url}/v1/refund",
        data=body.encode(),
        headers={"Content-Type": f"application/{kind}"},
    ) as response:
        assert response.status == 200
        reply: dict[str, Any] = await response.json()
        return reply


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        "{ } ",
        '{"a": 1',
        '{"a": "1"} x',
        '{"a": "1", "a": "2"}',
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a": ' + "[" * 100_000,
    ],
)
async def test_an_unreadable_body_is_refused(merchant: Merchant, body: str) -> None:
    assert (await _post_raw(merchant, "json", body))["return_status"] == "0"


@pytest.mark.parametrize(
    ("operation", "limit"), [("capture", 50), ("cancel", 50), ("refund", 50), ("review", 100)]
)
async def test_too_many_orders_are_refused_as_a_whole(
    merchant: Merchant, operation: str, limit: int
) -> None:
    status = "captured" if operation == "refund" else "authorised"
    orders = merchant.sandbox.seed(limit + 1, status=status)
    name = f"{operation}_orders"
    refused = await merchant.ask(operation, {name: [item(one) for one in orders]})
    assert (refused["return_status"], refused[name]) == ("0", [])
    assert all(merchant.sandbox.ledger.effects(operation, o.transaction_id) == 0 for o in orders)
    allowed = await merchant.ask(operation, {name: [item(one) for one in orders[1:]]})
    assert {record[f"{operation}_status"] for record in allowed[name]} == {"1"}


@pytest.mark.parametrize("orders", [[], {}, "x", [1], None])
async def test_a_list_that_is_none_is_refused(merchant: Merchant, orders: object) -> None:
    reply = await merchant.ask("refund", {"refund_orders": orders})
    assert (reply["return_status"], reply["refund_orders"]) == ("0", [])


async def test_requests_are_counted_without_their_content(merchant: Merchant) -> None:
    orders = merchant.sandbox.seed(3, status="captured")
    await merchant.refund(*orders)
    await merchant.ask("query", {"order_no": "a,b"}, form=True)
    log = merchant.sandbox.requests
    assert (log["refund"], log["query"], log["cancel"], log.total()) == (1, 1, 0, 2)
    assert [(one.operation, one.orders) for one in log.last] == [("refund", 3), ("query", 2)]
