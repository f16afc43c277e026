"""`BatchResult.to_dicts`: flat rows for data frames."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, OrderRef, RefundOrder, RefundRecord
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import client_of, orders_for, reply_to

PLAIN = {str, int, Decimal, datetime, date, type(None)}
OUTCOME = ["index", "status", "error", "error_type", "error_code", "error_text"]


def names(model: type, prefix: str = "") -> list[str]:
    return [f"{prefix}{field.name}" for field in attrs.fields(model)]


async def looked_up(items: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
    """Return the rows of a look-up of these records, and of more references, 20 a request."""

    def answer(asked: Asked) -> dict[str, Any]:
        names = str(asked.fields["order_no"]).split(",")
        return reply_to("query", [item for item in items if item["order_no"] in names])

    gateway = client_over(MemoryTransport(answer), policy=BatchPolicy(chunk_size=20))
    found = dict.fromkeys([*(item["order_no"] for item in items), *more])
    return (await gateway.query([OrderRef(order_no=name) for name in found])).to_dicts()


async def test_a_row_for_each_order_in_the_order_of_the_input(sandbox: Sandbox) -> None:
    """A chunk is lost, some refunds are declined, and amounts differ in their places."""
    held = [
        *sandbox.seed(100, status="captured", amount="9.90", currency="EUR"),
        *sandbox.seed(50, status="authorised", amount="9.90", currency="EUR"),
        *sandbox.seed(50, status="captured", amount="1.234", currency="KWD"),
    ]
    sandbox.faults.add("refund", DropReply(times=1))
    dialect = attrs.evolve(sandbox.dialect, currency_places={"KWD": 3})
    async with client_of(sandbox, dialect=dialect, policy=BatchPolicy(concurrency=1)) as gateway:
        result = await gateway.refund(orders_for("refund", held))
    rows = result.to_dicts()
    columns = [*OUTCOME, *names(RefundOrder), *names(RefundRecord, "record_")]
    assert all(list(row) == columns for row in rows)
    assert {type(value) for row in rows for value in row.values()} <= PLAIN
    for index, (outcome, row) in enumerate(zip(result, rows, strict=True)):
        record = outcome.record
        assert (row["index"], row["status"]) == (index, str(outcome.status))
        assert row["transaction_id"] == held[index].transaction_id
        assert row["error"] == (str(outcome.error) if outcome.error else None)
        assert row["record_refund_amount"] == (record.refund_amount if record else None)
    shown = [(rows[n]["status"], rows[n]["error_type"], str(rows[n]["amount"])) for n in range(200)]
    assert shown[::50] == [
        ("unknown", "OutcomeUnknownError", "9.900"),
        ("succeeded", None, "9.900"),
        ("declined", "RejectedError", "9.900"),
        ("succeeded", None, "1.234"),
    ]
    assert f"{rows[100]['error_code']}: {rows[100]['error_text']}" in rows[100]["error"]


async def test_polars_makes_a_frame_of_a_row_for_each_record_and_rounds_no_amount() -> None:
    polars = pytest.importorskip("polars")
    texts = [*["3"] * 150, "2.505", "0.1", "100"]
    items = [
        {"order_no": f"N{number // 3}", "query_result": "1", "amount": text}
        for number, text in enumerate(texts)
    ]
    rows = await looked_up(items, "none")
    assert [row["index"] for row in rows] == [number // 3 for number in range(154)]
    assert (rows[-1]["status"], rows[-1]["record_amount"]) == ("absent", None)
    for frame in (polars.DataFrame(rows, infer_schema_length=None), polars.DataFrame(rows)):
        assert frame["record_amount"].to_list() == [*map(Decimal, texts), None]
        assert frame["order_no"].to_list() == [*(item["order_no"] for item in items), "none"]


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
    row, unreadable = await looked_up([record, wrong])
    shown = {
        "transaction_date": datetime(2026, 1, 31, 12),  # noqa: DTZ001  # as it came
        "delivery_information_delivery_city": "Köln",
        "delivery_information_extra": '{"floor": 3}',
        "subscription_result_contract_name": "monthly",
        "fraud_check_result": '[{"check_items": "ip", "status": "ACCEPT"}]',
        "extra": '{"card_number": "***", "risk": {"score": 7, "cvv": "***"}}',
        "unreadable": None,
    }
    assert {name: row[f"record_{name}"] for name in shown} == shown
    assert (unreadable["record_amount"], unreadable["record_fraud_check_result"]) == (None, None)
    assert json.loads(unreadable["record_unreadable"]) == {"amount": "ten"}
    assert {type(value) for value in (*row.values(), *unreadable.values())} <= PLAIN


def test_no_field_of_an_order_hides_another_key() -> None:
    for row in OPERATIONS.values():
        if row.takes_batch:
            assert not set(names(row.order_class)) & set(OUTCOME)
            assert not [name for name in names(row.order_class) if name.startswith("record_")]
