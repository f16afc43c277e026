"""Every field that the interface documents is in the output of look-ups and payouts."""

import json
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway_async.models.payouts import PayoutResult
from gateway_async.models.records import RefundRecord, TransactionRecord
from tests.cli.running import outcomes, run, write
from tests.interface_fields import RESULT_FIELDS

NOT_OF_THE_INTERFACE = {"extra", "unreadable"}
NEVER_WRITTEN = {"encryption_data"}
"""No signature is in an output."""

OFFSET = "2026-01-31T03:04:05+08:00"
TIME, READ_TIME = "20260131030405", "2026-01-31T03:04:05"
TYPED: list[tuple[type, str]] = [(Decimal, "12.50"), (datetime, TIME), (date, "2026-01-31")]
REQUEST_ID = str(uuid.UUID(int=7))


def written(model: type, **known: Any) -> dict[str, Any]:
    """Return a record as a gateway writes it that fills every field in, each with its own text."""
    made: dict[str, Any] = {}
    for field in attrs.fields(model):
        kinds = get_args(field.type) or (field.type,)
        part = next((kind for kind in kinds if attrs.has(kind)), None)
        if field.name in NOT_OF_THE_INTERFACE:
            continue
        if field.name in known:
            made[field.name] = known[field.name]
        elif field.name in {"created_at", "last_updated_at"}:
            made[field.name] = OFFSET
        elif field.name == "labels":
            made[field.name] = ["label 1", "label 2"]
        elif part is not None:
            element = written(part)
            made[field.name] = [element] if get_origin(field.type) is tuple else element
        else:
            typed = [text for kind, text in TYPED if kind in kinds]
            made[field.name] = typed[0] if typed else f"{model.__name__}, {field.name}"
    return made


def leaves(record: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record, those of objects with dots; lists are one field."""
    for name, value in record.items():
        if name in NEVER_WRITTEN:
            continue
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", READ_TIME if value == TIME else value


@attrs.frozen
class Replies:
    """A gateway that answers each operation with the same records, and knows no signature."""

    records: dict[str, Any]
    base_url: str = ""
    merchant_id: str = "M1"
    account_id: str = "A1"
    secret: str = "secret"


@pytest.fixture
async def gateway() -> AsyncIterator[Any]:
    """A gateway whose replies have every field that the interface documents."""
    envelope = {"merchant_id": "M1", "account_id": "A1", "return_status": "1"}
    first = written(TransactionRecord, transaction_id="T1", order_no="O1", query_result="1")
    replies = {
        "/v1/retrievalTrans": {
            **envelope,
            "orders_list": [
                first,
                {**first, "transaction_id": "T2", "order_no": "O2"},
                {"transaction_id": "T2", "order_no": "O2", "query_result": "1", "website": "w2"},
            ],
        },
        "/v1/retrievalRefund": {
            **envelope,
            "refund_orders": [written(RefundRecord, transaction_id="T1", order_no="O1")],
        },
        "/v1/payout": written(
            PayoutResult,
            request_id=REQUEST_ID,
            payment_currency="EUR",
            merchant_id="M1",
            account_id="A1",
            status="COMPLETED",
            failure_reason="",
        ),
    }

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(replies[request.path])

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        base_url = str(server.make_url("")).rstrip("/")
        yield Replies(replies, base_url)


CASES = {
    "query": (TransactionRecord, "/v1/retrievalTrans", "orders_list"),
    "search-refunds": (RefundRecord, "/v1/retrievalRefund", "refund_orders"),
    "payout": (PayoutResult, "/v1/payout", ""),
}
GIVEN: dict[str, list[Sequence[str]]] = {
    "payout": [
        ("request_id", "payment_amount", "payment_currency"),
        (REQUEST_ID, "12.50", "EUR"),
    ]
}


def column_of(path: str, columns: Any) -> str:
    """Return the column of a field: with a word before it where the input has one of its name."""
    names = (f"found_{path}", f"payout_{path}", path)
    return next((name for name in names if name in columns), f"{path} has no column")


async def look(gateway: Replies, command: str, source: Path, ending: str) -> Path:
    out = source.with_name(f"{source.stem}-out.{ending}")
    journal = ("--yes", "--journal", f"sqlite:///{source.parent}/{ending}.db")
    options = journal if command == "payout" else ()
    ended = await run(gateway, command, source, "--out", out, *options)  # type: ignore[arg-type]  # all that a command is told of it
    assert ended.code == 0, ended.stderr
    return out


@pytest.mark.parametrize("command", CASES)
async def test_every_field_has_a_column_and_an_output_is_taken_as_input_again(
    gateway: Replies, tmp_path: Path, command: str
) -> None:
    model, path, listed = CASES[command]
    header, *rows = GIVEN.get(command, [("transaction_id",), ("T1",)])
    source = write(tmp_path / "in.csv", header, rows)
    reply = gateway.records[path]
    record = reply[listed][0] if listed else reply
    assert {*record} | NEVER_WRITTEN >= RESULT_FIELDS[model.__name__]

    table = await look(gateway, command, source, "csv")
    (cells,) = outcomes(table)
    for name, value in leaves(record):
        cell = cells[column_of(name, cells)]
        assert (json.loads(cell) if isinstance(value, list) else cell or "") == value, name
    assert not [name for name in cells if "encryption_data" in name]

    lines = await look(gateway, command, source, "jsonl")
    row = json.loads(lines.read_text())
    for name in {*record} - NEVER_WRITTEN:
        expected = READ_TIME if record[name] == TIME else record[name] or None
        assert row[column_of(name, row)] == expected, name
    assert not [name for name in row if "." in name]

    if command != "payout":  # what has an outcome is not paid again
        for first, kind in ((table, "csv"), (lines, "jsonl")):
            assert (await look(gateway, command, first, kind)).read_text() == first.read_text()
        again = await look(gateway, command, lines, "csv")
        assert "delivery_information" not in again.read_text().partition("\n")[0].split(",")
        again = await look(gateway, command, table, "jsonl")
        assert not [name for name in json.loads(again.read_text()) if "." in name]


async def test_several_records_of_one_order(gateway: Replies, tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", ("transaction_id",), [("T1",), ("T2",)])
    _, row = outcomes(await look(gateway, "query", source, "csv"))
    first = gateway.records["/v1/retrievalTrans"]["orders_list"][0]
    assert row["website"] == f"{first['website']};w2"
    delivery = first["delivery_information"]["delivery_city"]
    assert row["delivery_information.delivery_city"] == f"{delivery};"
    assert json.loads(row["fraud_check_result"]) == [first["fraud_check_result"], []]
