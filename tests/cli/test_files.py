"""Files that are read and written: every problem by line and column, and nothing lost."""

import contextlib
import csv
import io
import json
import os
import sqlite3
import stat
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway_async.cli.files import OrderFile, TableError, open_orders, out_file, row_writer
from gateway_async.cli.settings import Settings
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import OrderRef, RefundOrder
from gateway_async.operations import OPERATIONS

HEADER = "transaction_id,order_no,currency,amount,refund_amount,refund_reason"
CELLS = dict(zip(HEADER.split(","), ("T1", "O1", "EUR", "10.00", "2.50"), strict=False))
ORDER = RefundOrder(**CELLS)
OPENED = contextlib.ExitStack()
"""Closes what the tests read."""
IBAN, ACCOUNT = "DE89370400440532013000", "1234567890123"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with OPENED:
        yield


def read(
    body: str | bytes, command: str = "refund", *, name: str = "", **dialect: Any
) -> OrderFile:
    """Read a file that holds some text."""
    path, settings = Path(name or f"{uuid.uuid4()}"), Settings(dialect=Dialect(**dialect))
    path.write_bytes(body.encode(errors="surrogateescape") if isinstance(body, str) else body)
    return OPENED.enter_context(open_orders(path, OPERATIONS[command], settings))


def rows(*lines: str) -> str:
    return "\n".join((HEADER, *lines))


def problems(body: str | bytes, command: str = "refund", name: str = "") -> list[str]:
    with pytest.raises(TableError) as caught:
        read(body, command, name=name)
    found = str(caught.value).splitlines()[1:]
    assert max(map(len, found), default=0) < 1100  # characters
    return found


def payout(number: int = 1, /, **fields: str) -> dict[str, str]:
    key = str(uuid.UUID(int=number))
    return {"request_id": key, "payment_amount": "10", "payment_currency": "EUR", **fields}


def csv_of(*payouts: Mapping[str, str]) -> str:
    """Write payouts as CSV, with all columns that one of them has."""
    columns = list(dict.fromkeys(name for one in payouts for name in one))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(payouts)
    return text.getvalue()


# What is wrong

OF_CELLS = [
    ("T1, ,EUR,1,1,", "order_no", "empty"),
    ("T1,O1 ,EUR,1,1,", "order_no", "'O1 ' must be a non-empty identifier without white space"),
    ("2.02611E+21,O1,EUR,1,1,", "transaction_id", "a number whose last digits a spreadsheet cut"),
    ('T1,O1,EUR,"12,50",1,', "amount", "'12,50' is no amount; write it like '12.50'"),
    ("T1,O1,EUR,1,0.005,", "refund_amount", "0.005 cannot be written with 2 decimal places"),
    ("T0,O3,EUR,1,1,", "transaction_id", "the same order as in line 2; if both are meant"),
]
REVIEW = "transaction_id,order_no,currency,amount"
OF_FILES: list[tuple[str, str | bytes, str]] = [
    *(("refund", empty, "line 1: the file is empty") for empty in ("", "\ufeff", " \r\n\n")),
    ("refund", HEADER, "line 1: there is no row below it"),
    ("refund", '[{"order_no": "O1"}]', "line 1: not an object; a line is like"),
    ("refund", HEADER.replace(",", ";"), "line 1: columns are separated by ';'; save the"),
    ("refund", rows("T1,O1,EUR,1,1,").encode("utf-16"), "line 1: is not UTF-8, or is no text"),
    ("refund", f"{HEADER},amount\nT1,O1,EUR,1,1,,1", "line 1, column amount: more than one column"),
    ("refund", f"{HEADER},,\nT1,O1,EUR,1,1,,,", "line 1: more than one column has an empty name"),
    ("refund", f"{HEADER},{'x' * 200_000}\nT1,O1,EUR,1,1,,", "line 1: 200,000 characters are too"),
    ("query", f"{'x' * 100_000},y\n1,2", "line 1: no column is one of order_no"),
    ("refund", rows("T1,O1,EUR,1,1"), "line 2: 5 cells where the header has 6"),
    ("refund", rows("T1,O1,EUR,1,1,a,b"), "line 2: 7 cells where the header has 6"),
    ("refund", rows('T1,O1,EUR,1,1,"two', 'lines"', "T2,O2,EUR,x,1,"), "line 4, column amount"),
    ("refund", rows("T1,Ö1,EUR,1,1,").encode("latin-1"), "line 2, column order_no: is not UTF-8"),
    ("refund", rows("T1,O1,EUR,1,1,\0"), "line 2, column refund_reason: is not UTF-8, or is no"),
    ("refund", rows(f"T1,O1,EUR,1,1,{'x' * 17_000_000}"), "line 2: not CSV from here on: field"),
    ("refund", rows('T1,O1,EUR,1,1,"open', "T2"), "line 2: not CSV from here on"),
    ("refund", f"{HEADER},in_job\nT1,O1,EUR,1,1,,night", "line 2, column in_job: "),
    ("review", f"{REVIEW}\nT1,O1,EUR,1", "line 1, column review_flag: missing"),
    ("query", "order_no,note\n,x", "line 2: give order_no or transaction_id, one of the two"),
    ("query", "order\nx", "line 1: no column is one of order_no, transaction_id; there are: 'o"),
]
TEXTS = '{"transaction_id": "T1", "order_no": "O1", "currency": "EUR", %s}'
AMOUNTS = TEXTS % '"amount": 1, "refund_amount": 1, %s'
OF_JSON = [
    ("", "line 1: the file is empty"),
    ("{", "line 1: not a JSON object: Expecting property name"),
    ("{}".encode("utf-16"), "line 1: is not UTF-8, or is no text"),
    ("[" * 100_000, "line 1: "),
    (TEXTS % '"amount": NaN', "line 1: NaN is no number of JSON"),
    (TEXTS % '"amount": 1, "amount": 1', "line 1, column amount: more than one field has this"),
    (TEXTS % '"a.b": 1, "a": {"b": 1}', "line 1, column a.b: more than one field has this name"),
    (TEXTS % '"note": ["\\ud800"]', "line 1: str is not valid UTF-8: surrogates not allowed"),
    (AMOUNTS % '"note": "\\ud800"', "line 1, column note: is not UTF-8"),
    (AMOUNTS % f'"{"x" * 200_000}": ""', f"line 1, column {'x' * 900}"),
    (AMOUNTS % '"note\\ud800": ""', "line 1, column note\ud800: is not UTF-8"),
    (TEXTS % '"amount": 1e3, "refund_amount": 1', "line 1, column amount: '1e3' is no amount"),
    (TEXTS % '"amount": 1.005, "refund_amount": 1', "line 1, column amount: 1.005"),
    *(
        ((AMOUNTS % '"x": 1').replace('"O1"', value), "line 1, column order_no: expected text")
        for value in ("[1]", "true", "2.02e21", "2E5")
    ),
]
BANK, DOCUMENTS = "beneficiary.bank_details", "beneficiary.person_documents"
OF_PAYOUTS: list[tuple[dict[str, str], str]] = [
    ({"request_id": "17"}, "line 3, column request_id: '17' is no UUID"),
    ({"request_id": str(uuid.UUID(int=1))}, "the same order as in line 2"),
    ({"payment_currency": ""}, "column payment_currency: missing or empty, beside payment_am"),
    ({"source_amount": "1"}, "column source_currency: missing or empty, beside source_amount"),
    ({DOCUMENTS: "x"}, 'person_documents: expected a list, as JSON such as [{"file_type": "..."}]'),
    *(
        ({DOCUMENTS: f"[{one}]"}, f"column {DOCUMENTS}: expected objects that have only file_type")
        for one in ('{"size": 1}', "1")
    ),
    ({f"{BANK}.account_number": "1.2E+12"}, "account_number: a number whose last digits"),
    ({"payer.date_of_birth": "2000-02-30"}, "line 3, column payer.date_of_birth: '2000-02-30' is"),
    ({DOCUMENTS: '[{"file_type": 1}]'}, f"line 3, column {DOCUMENTS}.file_type: expected str"),
    ({"in_job": "night"}, "column in_job: this order is in job 'night'"),
    *(
        ({name: ACCOUNT}, f"line 1, column {name}: not known; a part has columns of its own")
        for name in (
            *("iban", "bank_details.iban", f"{BANK}.ibann", f"{BANK.title()}.iban"),
            *("beneficiary", "payer", BANK, "beneficiary_bank_details_iban"),
        )
    ),
    ({"payer.adress.city": "x"}, "payer.adress.city: not known; a part has columns of its own"),
]


@pytest.mark.parametrize(
    ("command", "name", "body", "words"),
    [
        *(
            ("refund", "", rows("T0,O0,EUR,1,1,", row), f"line 3, column {column}: {words}")
            for row, column, words in OF_CELLS
        ),
        *((command, "", body, words) for command, body, words in OF_FILES),
        *(("refund", "orders.JSONL", line, words) for line, words in OF_JSON),
        *(
            ("payout", "", csv_of(payout(1), payout(2, **fields)), words)
            for fields, words in OF_PAYOUTS
        ),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(
    command: str, name: str, body: str | bytes, words: str
) -> None:
    found, *more = problems(body, command, name)
    assert words in found
    assert not more or name
    assert ACCOUNT not in found


# CSV


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_rows_of_csv_are_orders_with_cells_and_lines(ending: str) -> None:
    lines = (HEADER, "", "T1,O1,EUR,10.00,2.50,é", "5E12,20261120000000000001,eur,3,3,")
    file = read(b"\xef\xbb\xbf" + ending.join(lines).encode())
    first, second = file.orders()
    assert (first.refund_reason, first.amount) == ("é", Decimal("10.00"))
    assert (second.transaction_id, second.order_no) == ("5E12", "20261120000000000001")
    assert [row.line for row in file.rows] == [3, 4]
    assert [*file.rows.get(0).cells.values()] == ["T1", "O1", "EUR", "10.00", "2.50", "é"]
    assert str(file.totals) == "2 orders, EUR 5.50"
    assert str(read(rows("T1,O1,EUR,3,2,")).totals) == "1 order, EUR 2.00"


def test_the_dialect_knows_currencies() -> None:
    body = rows("T1,O1,KWD,1.005,1.005,", "T2,O2,usdt,1,1,")
    first, second = read(body, currency_places={"KWD": 3, "USDT": 2}).orders()
    assert (first.amount, second.currency) == (Decimal("1.005"), "usdt")


def test_a_huge_cell_is_too_long_and_ends_nothing() -> None:
    huge = "x" * 500_000
    words = "column refund_reason: 500,000 characters are too long; at most 131,072 are read"
    found = problems(rows(f"T1,O1,EUR,1,1,{huge}", "T2,O2,EUR,1,1,", "T3,O3,EUR,x,1,"))
    assert found[0] == f"line 2, {words}"
    assert found[1].startswith("line 4, column amount: 'x' is no amount")
    in_json = json.dumps({**CELLS, "refund_reason": huge})
    assert problems(f"{in_json}\n[]", name="orders.jsonl")[0] == f"line 1, {words}"


def test_missing_columns_are_all_named_beside_those_that_are_there() -> None:
    found = problems("transaction_id,order_no,curency\nT1,O1,EUR")
    names = ("currency", "amount", "refund_amount")
    there = "; there are: 'transaction_id', 'order_no', 'curency'"
    assert found == [f"line 1, column {name}: missing{there}" for name in names]


def test_columns_that_are_not_read_are_named() -> None:
    assert read(f"{HEADER},note,in_job\nT1,O1,EUR,1,1,,late,").unread == "'note'"
    assert read(f"{REVIEW},refund_amount,reason,hue\nT1,O1,EUR,1,1,,").unread == "'reason', 'hue'"


def test_rows_of_outcomes_that_may_be_sent_again_and_look_ups() -> None:
    assert [*read(f"{HEADER},status,in_job\nT1,O1,EUR,1,1,,not_sent,").orders()]
    looked_up = read("order_no,transaction_id\nO1,\n,T2", "query").orders()
    assert [*looked_up] == [OrderRef(order_no="O1"), OrderRef(transaction_id="T2")]
    both = read("order_no,transaction_id\nO1,T1", "query").orders()
    assert [*both] == [OrderRef(transaction_id="T1")]


# JSON Lines


def test_json_lines_are_written_as_they_were_read(tmp_path: Path) -> None:
    text = '{"order_no":12345678901234567890.50,"note":[1.10,{"a":1e5}],"x.y":true,"none":null}\n'
    again = tmp_path / "again.jsonl"
    file = read(text, "query")
    assert written(again, [row.cells for row in file.rows], file.header).decode() == text
    row = {"index": 0, "day": date(2026, 11, 20), "sum": Decimal("1.50")}
    assert json.loads(written(again, [row], [*row, "code"])) == {
        "index": 0,
        "day": "2026-11-20",
        "sum": "1.50",
        "code": None,
    }


# Payouts

PASSPORT = [{"file_type": "pdf", "labels": ["passport"]}]


def test_nested_parts_are_dotted_columns_and_lists_json() -> None:
    dotted = {
        "payment_date": "2026-11-20",
        "beneficiary.first_name": "Ann",
        "beneficiary.last_name": "",
        f"{BANK}.iban": IBAN,
        f"{BANK}.account_number": ACCOUNT,
        DOCUMENTS: json.dumps(PASSPORT),
        "payer.address.city": "",
        "remark": "passes through",
    }
    (one,) = read(csv_of(payout(1, **dotted)), "payout").orders()
    assert one.beneficiary.first_name == "Ann"
    assert one.beneficiary.bank_details.iban == IBAN
    assert one.beneficiary.person_documents[0].labels == ("passport",)
    assert (one.payment_date, one.payer) == (date(2026, 11, 20), None)


def test_a_part_of_a_payout_that_is_null_is_left_out() -> None:
    for part in (None, {"bank_details": None}):
        line = json.dumps({**payout(), "beneficiary": part, "payer": {"first_name": "Ada"}})
        (order,) = read(line, "payout", name="payouts.jsonl").orders()
        assert order.beneficiary is None
        assert order.payer.first_name == "Ada"


def test_the_same_payouts_as_json_lines_have_the_same_digest() -> None:
    dotted = {f"{BANK}.iban": IBAN, DOCUMENTS: json.dumps(PASSPORT)}
    parts = {"bank_details": {"iban": IBAN}, "person_documents": PASSPORT}
    nested = [
        {**payout(1), "payment_amount": 10.0, "beneficiary": parts, "payer": {}, "remark": None},
        {**payout(2), **dotted},
    ]
    ours = read("\n\n".join(map(json.dumps, nested)), "payout")
    theirs = read(csv_of(payout(2, **dotted), payout(1, **dotted)), "payout")
    assert sorted([*ours.orders()], key=str) == sorted([*theirs.orders()], key=str)
    assert ours.digest == theirs.digest
    assert [row.line for row in ours.rows] == [1, 3]


def test_a_payout_may_be_fixed_on_either_side() -> None:
    source = {"payment_amount": "", "source_amount": "20", "source_currency": "USD"}
    file = read(csv_of(payout(1), payout(2, **source)), "payout")
    assert str(file.totals) == "2 orders, EUR 10.00, USD 20.00"
    assert [order.payment_amount for order in file.orders()] == [10, None]


# Problems, formats and copies


def test_every_problem_is_named_up_to_a_hundred() -> None:
    with pytest.raises(TableError) as caught:
        read(rows(*["T1"] * 2000))
    first, *lines, last = str(caught.value).splitlines()
    assert (first, last) == ("2,000 problems, nothing was done", "... and 1,900 more")
    assert [one.partition(":")[0] for one in lines] == [f"line {n}" for n in range(2, 102)]


def test_what_changes_in_a_file_meanwhile_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(",".join(CELLS) + "\n" + ",".join(CELLS.values()) + "\n")
    with open_orders(path, OPERATIONS["refund"], Settings()) as file:
        path.write_text("order_no\nO1\n")
        assert [*file.orders()] == [ORDER]

    def connect(name: str) -> sqlite3.Connection:
        full = real(name)
        full.execute("PRAGMA max_page_count = 2")
        return full

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    path.write_text("order_no,note\n" + f"O1,{'x' * 5000}\n" * 3)
    words = r"cannot read .*orders\.csv: a temporary file takes no more: database or disk is full"
    with pytest.raises(ConfigurationError, match=words):
        read(path.read_text(), "query", name=path.name)


# Writing


def written(path: Path, found: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    with out_file(path) as file:
        write = row_writer(file, columns)
        for row in found:
            write(row)
    return path.read_bytes()


def test_csv_has_every_column_as_text(tmp_path: Path) -> None:
    columns = ("order_no", "price", "day", "note")
    found: list[dict[str, Any]] = [
        {"order_no": "O1", "price": Decimal("1.1e3"), "day": date(2026, 11, 20)},
        {"order_no": 'x,"\n', "note": None, "price": None},
    ]
    assert written(tmp_path / "out.csv", found, columns).decode() == (
        'order_no,price,day,note\nO1,1100,2026-11-20,\n"x,""\n",,,\n'
    )


@pytest.mark.parametrize("text", ["a\rT9,O9", "a\r\nb", "a\nb", '"a", "b"', "\r", "=1+1", "no\0"])
def test_no_text_of_the_gateway_ends_a_row_of_csv(text: str, tmp_path: Path) -> None:
    row = {"order_no": "O1", "error": text, "note": "N1"}
    (found,) = read(written(tmp_path / "out.csv", [row], [*row]), "query").rows
    assert found.cells == {**row, "error": text.replace("\0", "\ufffd")}  # a NUL would be refused


def put(path: Path, text: str) -> None:
    with out_file(path) as out:
        out.write(f"{text}\n")


def test_a_file_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    for text in ("one", "two"):
        put(path, text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def end(error: BaseException) -> None:
        with out_file(path) as out:
            out.write("order_no\n")
            raise error

    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            end(error)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"out.csv": "two\n"}
    for place in (tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigurationError, match="is no file"):
            put(place, "order_no")
