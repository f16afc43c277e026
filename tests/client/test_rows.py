"""`BatchResult.to_dicts`: flat rows for data frames."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest
from aiohttp import web

from gateway_async import (
    BatchPolicy,
    BatchResult,
    Dialect,
    GatewayClient,
    OrderRef,
    PaymentState,
    RefundOrder,
)
from gateway_async.models import orders as order_models, payouts, records
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.orders import client_at, client_of, made_up, orders_for
from tests.support.servers import answering

PLAIN = (str, int, Decimal, datetime, date, type(None))
OUTCOME = ["index", "status", "error", "error_type", "error_code", "error_text"]


def names(model: type, prefix: str = "") -> list[str]:
    return [f"{prefix}{field.name}" for field in attrs.fields(model)]


@asynccontextmanager
async def gateway_of(
    answer: Callable[[dict[str, str]], dict[str, Any]],
) -> AsyncIterator[GatewayClient]:
    """Serve look-ups as a test says."""

    async def serve(request: web.Request) -> web.Response:
        form = {name: str(text) for name, text in (await request.post()).items()}
        return web.json_response({"return_status": "1", "return_message": "OK", **answer(form)})

    async with answering(serve) as url, client_at(url) as gateway:
        yield gateway


async def mixed_refunds(sandbox: Sandbox) -> BatchResult[RefundOrder, Any]:
    """Refund 200 orders: a chunk is lost, some are declined, and amounts differ in their places."""
    held = [
        *sandbox.seed(100, status="captured", amount="9.90", currency="EUR"),
        *sandbox.seed(50, status="authorised", amount="9.90", currency="EUR"),
        *sandbox.seed(50, status="captured", amount="1.234", currency="KWD"),
    ]
    orders = [
        attrs.evolve(order, refund_amount=order.amount) for order in orders_for("refund", held)
    ]
    sandbox.faults.add("refund", DropReply(times=1))
    dialect = attrs.evolve(sandbox.dialect, currency_places={"KWD": 3})
    policy = BatchPolicy(concurrency=1)
    async with client_of(sandbox, dialect=dialect, policy=policy) as gateway:
        return await gateway.refund(orders)


async def test_a_row_for_each_order_in_the_order_of_the_input(sandbox: Sandbox) -> None:
    result = await mixed_refunds(sandbox)
    rows = result.to_dicts()
    expected = [
        *OUTCOME,
        *names(order_models.RefundOrder),
        *names(records.RefundRecord, "record_"),
    ]
    assert all(list(row) == expected for row in rows)
    assert [row["index"] for row in rows] == list(range(200))
    assert [row["status"] for row in rows] == [str(outcome.status) for outcome in result]
    assert {type(value) for row in rows for value in row.values()} <= set(PLAIN)
    for outcome, row in zip(result, rows, strict=True):
        assert row["transaction_id"] == outcome.order.transaction_id
        assert row["refund_amount"] == outcome.order.refund_amount
        assert row["error"] == (str(outcome.error) if outcome.error else None)
        record = outcome.record
        assert row["record_refund_amount"] == (record.refund_amount if record else None)
    unknown, done, declined, last = rows[0], rows[50], rows[100], rows[199]
    assert (unknown["status"], unknown["error_type"]) == ("unknown", "OutcomeUnknownError")
    assert unknown["record_transaction_id"] is None
    assert (done["status"], done["error"]) == ("succeeded", None)
    assert done["record_refund_reference_id"].startswith(done["transaction_id"])
    assert declined["status"] == "declined"
    assert declined["error_type"] == "RejectedError"
    assert declined["error_code"]
    assert declined["error_text"] in declined["error"]
    assert (str(done["amount"]), str(last["amount"])) == ("9.900", "1.234")


async def test_polars_makes_a_frame_of_mixed_values(sandbox: Sandbox) -> None:
    polars = pytest.importorskip("polars")
    rows = (await mixed_refunds(sandbox)).to_dicts()
    frame = polars.DataFrame(rows, infer_schema_length=None)
    assert frame.rows(named=True) == rows
    assert frame["refund_amount"].sum() == 150 * Decimal("9.90") + 50 * Decimal("1.234")
    counted = dict(frame.group_by("status").len().iter_rows())
    assert counted == {"unknown": 50, "succeeded": 100, "declined": 50}
    assert frame["record_refund_amount"].dtype.scale == 3


async def test_polars_rounds_no_amount_where_the_first_rows_have_fewer_places() -> None:
    polars = pytest.importorskip("polars")
    texts = [*["3"] * 150, "2.505", "0.1", "100"]

    def listed(form: dict[str, str]) -> dict[str, Any]:
        asked = form["order_no"].split(",")
        return {
            "orders_list": [
                {"order_no": name, "query_result": "1", "amount": texts[int(name[1:])]}
                for name in asked
            ]
        }

    refs = [OrderRef(order_no=f"N{number}") for number in range(len(texts))]
    async with gateway_of(listed) as gateway:
        result = await gateway.query(refs, policy=BatchPolicy(chunk_size=20))
    frame = polars.DataFrame(result.to_dicts(), infer_schema_length=None)
    assert frame["record_amount"].to_list() == list(map(Decimal, texts))
    frame = polars.DataFrame(result.to_dicts())
    assert frame["record_amount"].to_list() == list(map(Decimal, texts))


async def test_a_row_for_each_record_of_a_look_up(sandbox: Sandbox) -> None:
    held = sandbox.seed(3, status="captured", amount="9.90")
    refunds = orders_for("refund", [held[0], held[0], held[1]])
    policy = BatchPolicy(duplicates="serialize")
    refs = [OrderRef(transaction_id=order.transaction_id) for order in (*held, *made_up(1))]
    async with client_of(sandbox) as gateway:
        assert (await gateway.refund(refunds, policy=policy)).ok
        result = await gateway.search_refunds(refs)
    rows = result.to_dicts()
    assert [(row["index"], row["status"]) for row in rows] == [
        *((0, "succeeded"), (0, "succeeded"), (1, "succeeded")),
        *((2, "absent"), (3, "absent")),
    ]
    assert [row["record_refund_amount"] for row in rows] == [1, 1, 1, None, None]
    assert isinstance(rows[0]["record_refund_date"], datetime)
    assert len({row["record_refund_reference_id"] for row in rows[:3]}) == 3
    assert len({tuple(row) for row in rows}) == 1


async def test_a_look_up_that_found_nothing_has_the_columns_of_its_records() -> None:
    async with gateway_of(lambda _: {"orders_list": []}) as gateway:
        result = await gateway.query([OrderRef(order_no="A-1")])
    (row,) = result.to_dicts()
    assert (row["order_no"], row["transaction_id"], row["status"]) == ("A-1", None, "absent")
    assert row["record_payment_status"] is None
    assert "record_delivery_information_delivery_city" in row


async def test_nested_parts_and_what_the_interface_does_not_list() -> None:
    record = {
        "order_no": "A-1",
        "query_result": "1",
        "amount": "9.90",
        "transaction_date": "20260131120000",
        "delivery_information": {"delivery_city": "Köln", "floor": 3},
        "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
        "subscription_result": {"contract_name": "monthly"},
        "card_number": "4111111111111111",
        "risk": {"score": 7, "cvv": "123"},
    }
    wrong = {"order_no": "A-2", "query_result": "1", "amount": "ten"}
    async with gateway_of(lambda _: {"orders_list": [record, wrong]}) as gateway:
        result = await gateway.query([OrderRef(order_no="A-1"), OrderRef(order_no="A-2")])
    row, unreadable = result.to_dicts()
    assert row["record_transaction_date"] == datetime(2026, 1, 31, 12)  # noqa: DTZ001  # as it came
    assert row["record_delivery_information_delivery_city"] == "Köln"
    assert json.loads(row["record_delivery_information_extra"]) == {"floor": 3}
    assert row["record_subscription_result_contract_name"] == "monthly"
    checks = [{"check_items": "ip", "status": "ACCEPT"}]
    assert json.loads(row["record_fraud_check_result"]) == checks
    extra = {"card_number": "***", "risk": {"score": 7, "cvv": "***"}}
    assert json.loads(row["record_extra"]) == extra
    assert row["record_unreadable"] is None
    assert unreadable["record_amount"] is None
    assert json.loads(unreadable["record_unreadable"]) == {"amount": "ten"}
    assert unreadable["record_fraud_check_result"] is None
    assert {type(value) for value in (*row.values(), *unreadable.values())} <= set(PLAIN)


async def test_what_was_recovered_has_rows_too(sandbox: Sandbox) -> None:
    held = sandbox.seed(2, status="authorised", amount="9.90")
    sandbox.faults.add("capture", DropReply(times=1))
    dialect = Dialect(payment_states={"3000": PaymentState.CAPTURED})
    async with client_of(sandbox, dialect=dialect) as gateway:
        result = await gateway.recover(await gateway.capture(orders_for("capture", held)))
    rows = result.to_dicts()
    assert [row["status"] for row in rows] == ["succeeded", "succeeded"]
    assert [row["record_payment_status"] for row in rows] == ["3000", "3000"]
    assert [row["record_capture_status"] for row in rows] == [None, None]


async def test_no_order_no_row(sandbox: Sandbox) -> None:
    async with client_of(sandbox) as gateway:
        assert (await gateway.query([])).to_dicts() == []


@pytest.mark.parametrize(
    "model",
    [
        *(order_models.CaptureOrder, order_models.CancelOrder, order_models.ReviewOrder),
        *(order_models.RefundOrder, order_models.OrderRef, payouts.PayoutRequest),
    ],
)
def test_no_field_of_an_order_hides_another_key(model: type) -> None:
    assert not set(names(model)) & set(OUTCOME)
    assert not [name for name in names(model) if name.startswith("record_")]
