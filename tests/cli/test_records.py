"""Every field that the interface documents is in the output of look-ups and payouts."""

import asyncio
import contextlib
import csv
import io
import json
import tempfile
import uuid
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
import pytest

from gateway_async.batching.results import Exchange, Outcome
from gateway_async.cli.orders import LAYOUTS, OrderFile
from gateway_async.cli.outcomes import Kept, result_cells, write_found
from gateway_async.cli.run import Run
from gateway_async.cli.tables import Table
from gateway_async.dialect import Dialect
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.payouts import PayoutResult
from gateway_async.models.records import RefundRecord, TransactionRecord
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


FIRST = written(TransactionRecord, transaction_id="T1", order_no="O1", query_result="1")
SECOND = {"transaction_id": "T2", "order_no": "O2", "query_result": "1"}
CASES: dict[str, tuple[type, str, list[dict[str, Any]]]] = {
    "query": (
        TransactionRecord,
        "transaction_id\nT1\nT2\n",
        [FIRST, {**FIRST, **SECOND}, {**SECOND, "website": "w2"}],
    ),
    "search-refunds": (
        RefundRecord,
        "transaction_id\nT1\n",
        [written(RefundRecord, transaction_id="T1", order_no="O1")],
    ),
    "payout": (
        PayoutResult,
        f"request_id,payment_amount,payment_currency\n{REQUEST_ID},12.50,EUR\n",
        [written(PayoutResult, request_id=REQUEST_ID, payment_currency="EUR")],
    ),
}
"""By command: the class of its records, a file, and what the gateway answers to it."""


def look(command: str, source: str) -> str:
    """Return the file of outcomes that a command makes of a file, whose orders all succeed."""
    model, _, items = CASES[command]
    layout = LAYOUTS[command]
    with tempfile.NamedTemporaryFile() as given, contextlib.closing(Kept()) as found:
        Path(given.name).write_text(source)
        file = OrderFile(Table(Path(given.name)), layout, Dialect())
        for index, order in enumerate(file.orders()):
            key = attrs.asdict(order).get("transaction_id")
            outcome = Outcome[Any, Any](
                order=order,
                index=index,
                status=OutcomeStatus.SUCCEEDED,
                items=tuple(one for one in items if key in (None, one["transaction_id"])),
                exchange=Exchange(record_class=model, many=command != "payout"),
            )
            found[index] = json.dumps(result_cells(outcome, layout)).encode()
        out = io.StringIO()
        asyncio.run(write_found(Run(command=command), file, found, out))
        return out.getvalue()


@pytest.mark.parametrize("command", CASES)
def test_every_field_has_a_column_and_an_output_is_taken_as_input_again(command: str) -> None:
    model, source, (record, *_) = CASES[command]
    assert {*record} | NEVER_WRITTEN >= RESULT_FIELDS[model.__name__]
    table = look(command, source)
    cells = next(csv.DictReader(io.StringIO(table)))
    for name, value in leaves(record):
        cell = cells[f"record_{name.replace('.', '_')}"]
        assert (json.loads(cell) if isinstance(value, list) else cell or "") == value, name
    assert not [name for name in cells if "encryption_data" in name]
    if command != "payout":  # what has an outcome is not paid again
        assert look(command, table) == table


def test_several_records_of_one_order() -> None:
    table = look("query", CASES["query"][1])
    _, row = csv.DictReader(io.StringIO(table))
    assert row["record_website"] == f"{FIRST['website']};w2"
    delivery = FIRST["delivery_information"]["delivery_city"]
    assert row["record_delivery_information_delivery_city"] == f"{delivery};"
    checks, nothing = row["record_fraud_check_result"].split(";")
    assert (json.loads(checks), nothing) == (FIRST["fraud_check_result"], "")
