"""Files that are read and written: every problem by line and column, and nothing lost."""

import io
import json
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway_async.cli.orders import LAYOUTS, OrderFile
from gateway_async.cli.tables import (
    KEPT_PROBLEMS,
    LONGEST_LINE,
    SHOWN_PROBLEMS,
    Format,
    OutFile,
    Problem,
    Table,
    TableError,
    format_of,
    open_table,
    out_file,
    to_text,
)
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import OrderRef, RefundOrder

CSV, JSONL = Format.CSV, Format.JSONL
HEADER = "transaction_id,order_no,currency,amount,refund_amount,refund_reason"
CELLS = {
    "transaction_id": "T1",
    "order_no": "O1",
    "currency": "EUR",
    "amount": "10.00",
    "refund_amount": "2.50",
}
ORDER = RefundOrder(**CELLS)
IBAN, ACCOUNT = "DE89370400440532013000", "1234567890123"


def read(body: str | bytes, command: str = "refund", kind: Format = CSV, **dialect: Any) -> Any:
    raw = body.encode() if isinstance(body, str) else body
    table = Table(format=kind, file=io.BytesIO(raw))
    return OrderFile(table, LAYOUTS[command], Dialect(**dialect), repeats=False)


def rows(*lines: str) -> str:
    return "\n".join((HEADER, *lines))


def json_lines(*objects: object) -> str:
    return "\n".join(map(json.dumps, objects))


def problems(*given: Any, **dialect: Any) -> list[str]:
    with pytest.raises(TableError) as caught:
        read(*given, **dialect)
    return [str(problem) for problem in caught.value.problems]


# CSV


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_rows_of_csv_are_orders_with_cells_and_lines(ending: str) -> None:
    lines = (HEADER, "", "T1,O1,EUR,10.00,2.50,é", "5E12,20261120000000000001,eur,3,3,")
    file = read(b"\xef\xbb\xbf" + ending.join(lines).encode())
    first, second = file.orders()
    assert (first.refund_reason, first.amount) == ("é", Decimal("10.00"))
    assert (second.transaction_id, second.order_no) == ("5E12", "20261120000000000001")
    assert [row.line for row in file.rows()] == [3, 4]
    assert [*next(file.rows()).cells.values()] == ["T1", "O1", "EUR", "10.00", "2.50", "é"]
    assert str(file.totals) == "2 orders, EUR 5.50"


def test_the_dialect_knows_currencies() -> None:
    body = rows("T1,O1,KWD,1.005,1.005,", "T2,O2,usdt,1,1,")
    first, second = read(body, currency_places={"KWD": 3, "USDT": 2}).orders()
    assert (first.amount, second.currency) == (Decimal("1.005"), "usdt")


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (",O1,EUR,1,1,", "transaction_id", "empty"),
        ("T1, ,EUR,1,1,", "order_no", "empty"),
        ("T1,O1 ,EUR,1,1,", "order_no", "white space"),
        ("T1,O1,,1,1,", "currency", "empty"),
        ("T1,O1,euro,1,1,", "currency", "'euro' is not a code of three letters such as EUR"),
        ("T1,O1,E R,1,1,", "currency", "three letters"),
        ("2.02611E+21,O1,EUR,1,1,", "transaction_id", "digits a spreadsheet cut off"),
        ('T1,"2,02611E+21",EUR,1,1,', "order_no", "digits a spreadsheet cut off"),
        ("T1,1e+21,EUR,1,1,", "order_no", "digits a spreadsheet cut off"),
        ("T1,O1,EUR,,1,", "amount", "empty"),
        ('T1,O1,EUR,"12,50",1,', "amount", "write it like 12.50"),
        ("T1,O1,EUR,1,1e0,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,1,-1,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,1,NaN,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,\u0661,1,", "amount", "not an amount"),
        ("T1,O1,EUR,1,0.005,", "refund_amount", "more than 2 decimal places"),
        ("T1,O1,EUR,1,1.01,", "refund_amount", "more than the order's amount"),
        ("T0,O3,EUR,1,1,", "transaction_id", "the same order as in line 2; if both are meant"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(row: str, column: str, reason: str) -> None:
    (found,) = problems(rows("T0,O0,EUR,1,1,", row))
    assert found.startswith(f"line 3, column {column}: ")
    assert reason in found


@pytest.mark.parametrize(
    ("command", "body", "expected"),
    [
        ("refund", b"", "line 1: the file is empty"),
        ("refund", b"\xef\xbb\xbf", "line 1: the file is empty"),
        ("refund", b" \r\n\n", "line 1: the file is empty"),
        ("refund", HEADER, "line 1: there is no row below it"),
        ("refund", f"{HEADER},amount\nT1,O1,EUR,1,1,,1", "column amount: more than one column has"),
        ("refund", f"{HEADER},,\nT1,O1,EUR,1,1,,,", "line 1: more than one column has no name"),
        ("refund", HEADER.replace(",", ";"), "line 1: separate the cells by ',' in place of ';'"),
        ("refund", rows("T1,O1,EUR,1,1"), "line 2: 5 cells where the header has 6"),
        ("refund", rows("T1,O1,EUR,1,1,a,b"), "line 2: 7 cells where the header has 6"),
        ("refund", rows('T1,O1,EUR,1,1,"two', 'lines"', "T2,O2,EUR,x,1,"), "line 4, column amount"),
        ("refund", rows("T1,Ö1,EUR,1,1,").encode("latin-1"), "line 2: character 4 is not UTF-8"),
        ("refund", rows("T1,O1,EUR,1,1,").encode("utf-16"), "line 1: the file is UTF-16"),
        ("refund", rows("T1,O1,EUR,1,1,\0"), "line 2: a NUL byte"),
        ("refund", rows(f"T1,O1,EUR,1,1,{'x' * LONGEST_LINE}"), "line 2: more than 65536 charact"),
        ("refund", rows('T1,O1,EUR,1,1,"open', "T2"), "line 2: not CSV from here on"),
        ("refund", rows('T1,O1,EUR,1,1,"a"b'), "line 2: not CSV from here on"),
        ("refund", f"{HEADER},status\nT1,O1,EUR,1,1,,succeeded", "line 2, column status: "),
        ("refund", f"{HEADER},status\nT1,O1,EUR,1,1,, Unknown", "line 2, column status: "),
        ("review", "transaction_id,order_no,currency,amount\nT1,O1,EUR,1", "review_flag: missing"),
        (
            "review",
            "transaction_id,order_no,currency,amount,review_flag\nT,O,EUR,1,",
            "flag: empty",
        ),
        ("query", "order_no,transaction_id\nO1,T1", "2 are filled; or choose: --by transaction_id"),
        (
            "query",
            "order_no,transaction_id\n,",
            "order_no or transaction_id: fill one of the two, ",
        ),
        ("query", "note\nx", "line 1, column order_no or transaction_id: missing"),
    ],
)
def test_a_file_that_cannot_be_used(command: str, body: str | bytes, expected: str) -> None:
    (found,) = problems(body, command)
    assert expected in found


def test_missing_columns_are_all_named_beside_those_that_are_there() -> None:
    found = problems("transaction_id,order_no,curency\nT1,O1,EUR")
    names = ("currency", "amount", "refund_amount")
    there = "missing; there are: 'transaction_id', 'order_no', 'curency'"
    assert found == [f"line 1, column {name}: {there}" for name in names]


def test_columns_that_are_not_read_are_named_as_far_as_a_line_has_room() -> None:
    names = [f"note {number}" for number in range(25)]
    file = read(",".join([HEADER, *names]) + "\nT1,O1,EUR,1,1," + "," * 25)
    assert file.unread.startswith("'note 0', 'note 1', ")
    assert file.unread.endswith("'note 19' and 5 more")
    assert read(f"{HEADER},Status\nT1,O1,EUR,1,1,,shipped").unread == "'Status'"


def test_rows_of_outcomes_that_may_be_sent_again_and_look_ups() -> None:
    assert [*read(f"{HEADER},status\nT1,O1,EUR,1,1,,not_sent\nT2,O2,EUR,1,1,,declined").orders()]
    looked_up = read("order_no,transaction_id\nO1,\n,T2", "query").orders()
    assert [*looked_up] == [OrderRef(order_no="O1"), OrderRef(transaction_id="T2")]
    table = Table(format=CSV, file=io.BytesIO(b"order_no,transaction_id\nO1,T1\n"))
    chosen = OrderFile(table, LAYOUTS["query"].by("transaction_id"), Dialect())
    assert [*chosen.orders()] == [OrderRef(transaction_id="T1")]


# JSON Lines


def test_json_lines_are_orders_and_numbers_are_exact() -> None:
    body = (
        '\ufeff\n{"note": [1], "transaction_id": "T1", "order_no": "O1", '
        '"currency": "EUR", "amount": 10.00, "refund_amount": 2.5}\n\n'
    )
    file = read(body, "refund", JSONL)
    assert [*file.orders()] == [ORDER]
    assert (str(file.totals), [row.line for row in file.rows()]) == ("1 order, EUR 2.5", [2])
    (long,) = read(
        json_lines({**CELLS, "order_no": 2023051612301234567890}), "refund", JSONL
    ).orders()
    assert long.order_no == "2023051612301234567890"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "line 1: the file is empty"),
        ("\n \n", "line 1: the file is empty"),
        ('{"amount": 1', "line 1: not JSON: Expecting ',' delimiter, at character 13"),
        ('{"amount": 1\n', "line 1: not JSON: Expecting ',' delimiter, at character 14"),
        ("[1]", 'line 1: not an object; a line is like {"order_no": "O1"}'),
        ('{"amount": NaN}', "line 1: NaN is not a number of JSON"),
        ('{"amount": 1e999999999}', "line 1: 1e999999999 has more than 100 digits"),
        ('{"amount": 1e99999999999999999999}', "line 1: 1e99999999999999999999 has more than"),
        ('{"note": "\\ud800"}', "line 1: half a surrogate pair"),
        ('{"note": ' + "[" * 300 + "]" * 300 + "}", "line 1: half a surrogate pair, or nested"),
        (json_lines({str(n): n for n in range(1001)}), "line 1: more than 1,000 different names"),
        ('{"a": 1, "b": 1, "a": 2}', "line 1: 'a' stands in one object more than once"),
        ("[" * 60_000, "line 1: nested too deeply"),
        ('{"note": "é"}'.encode("latin-1"), "line 1: character 11 is not UTF-8"),
        ('{"note": "é"}'.encode("utf-16"), "line 1: the file is UTF-16"),
        ('{"note": "\0"}', "line 1: a NUL byte"),
        ('{"note": "' + "x" * LONGEST_LINE + '"}', "line 1: more than 65536 characters"),
        (json_lines(CELLS, {"order_no": "O2"}), "line 2, column transaction_id: missing; there"),
        (json_lines({**CELLS, "amount": "1,5"}), "line 1, column amount: '1,5' is not an amount"),
        (json_lines({**CELLS, "amount": True}), "line 1, column amount: 'true' is not an amount"),
        (json_lines({**CELLS, "amount": 1.005}), "'1.005' has more than 2 decimal places"),
        (json_lines({**CELLS, "order_no": None}), "line 1, column order_no: empty"),
        (json_lines({**CELLS, "order_no": 1.5}), "line 1, column order_no: expected a text"),
        (json_lines({**CELLS, "order_no": {}}), "line 1, column order_no: expected a text"),
        (json_lines({**CELLS, "refund_reason": [1]}), "line 1, column refund_reason: expected a"),
        (json_lines(CELLS, CELLS), "line 2, column transaction_id: the same order as in line 1"),
    ],
)
def test_json_lines_that_are_wrong_are_named(body: str | bytes, words: str) -> None:
    assert words in problems(body, "refund", JSONL)[0]


@pytest.mark.parametrize("kind", Format)
@pytest.mark.parametrize("size", [LONGEST_LINE + 1, 3 << 20])
def test_a_line_without_an_end_is_not_read_to_its_end(kind: Format, size: int) -> None:
    file = io.BytesIO(b"x" * size + b"\n" + b"y" * size)
    with pytest.raises(TableError, match="line 1: more than 65536 characters"):
        OrderFile(Table(format=kind, file=file), LAYOUTS["refund"], Dialect())
    assert file.tell() <= 2 << 20


# Payouts


def payout(number: int = 1, /, **fields: Any) -> dict[str, Any]:
    key = str(uuid.UUID(int=number))
    return {"request_id": key, "payment_amount": "10", "payment_currency": "EUR", **fields}


def read_payouts(*objects: dict[str, Any]) -> OrderFile:
    file: OrderFile = read(json_lines(*objects), "payout", JSONL)
    return file


def test_nested_parts_are_dotted_columns_or_objects() -> None:
    documents = [{"file_type": "pdf", "labels": ["passport"]}]
    nested = payout(
        payment_date="2026-11-20",
        beneficiary={
            "first_name": "Ann",
            "bank_details": {"iban": IBAN, "account_number": ACCOUNT},
            "person_documents": documents,
        },
        remark="passes through",
    )
    dotted = payout(
        payment_date="2026-11-20",
        **{
            "beneficiary.first_name": "Ann",
            "beneficiary.last_name": "",
            "beneficiary.bank_details.iban": IBAN,
            "beneficiary.bank_details.account_number": ACCOUNT,
            "beneficiary.person_documents": json.dumps(documents),
            "payer.address.city": "",
        },
    )
    (one,), (other,) = read_payouts(nested).orders(), read_payouts(dotted).orders()
    assert one == other
    assert one.beneficiary.person_documents[0].labels == ("passport",)
    assert (one.payment_date, one.payer) == (date(2026, 11, 20), None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"request_id": "17"}, "column request_id: '17' is no UUID"),
        ({"request_id": str(uuid.UUID(int=1))}, "the same order as in line 1"),
        ({"payment_amount": "ten"}, "column payment_amount: 'ten' is not an amount"),
        ({"payment_amount": 1.005}, "column payment_amount: '1.005' has more than 2 decimal"),
        ({"payment_amount": 1.5, "payment_currency": 9}, "payment_currency: '9' is not a code"),
        ({"source_amount": "1.001", "source_currency": "EUR"}, "column source_amount"),
        ({"payment_date": "20.11.2026"}, "payment_date: '20.11.2026' is not a date"),
        ({"beneficiary": {"frist_name": "Ann"}}, "column beneficiary.frist_name: not known"),
        ({"beneficiary": "Ann"}, "column beneficiary: expected columns such as"),
        ({"beneficiary": {"address": [1]}}, "column beneficiary.address: expected columns"),
        ({"beneficiary": {"person_documents": "x"}}, "column beneficiary.person_documents"),
        ({"beneficiary": {"labels": "x"}}, "column beneficiary.labels"),
        ({"beneficiary": {"bank_details": {"iban": 1.5}}}, "bank_details.iban: expected a text"),
        ({"beneficiary": {}, "beneficiary.first_name": "A", "payer": "P"}, "column payer"),
        ({"beneficiary.bank_detail.iban": ""}, "column beneficiary.bank_detail.iban: not known"),
        ({"receiver.name": "Ann"}, "column receiver.name: not known: there is no such part"),
        ({"payment_currency": "euro"}, "column payment_currency: 'euro' is not a code of three"),
        ({"source_currency": "euro"}, "column source_currency: 'euro' is not a code of three"),
        ({"beneficiary": {"bank_details": {"account_number": 1e22}}}, "account_number: expected"),
        ({"beneficiary.bank_details.account_number": "1.2E+12"}, "account_number: a number such"),
        ({"beneficiary": {"bank_details": {"account_number": [ACCOUNT]}}}, "account_number: exp"),
        ({"status": "unknown"}, "column status: this order may be done"),
    ],
)
def test_what_is_wrong_with_a_payout_is_named_by_column(fields: dict[str, Any], words: str) -> None:
    (found,) = problems(json_lines(payout(1), payout(2, **fields)), "payout", JSONL)
    assert found.startswith("line 2, ")
    assert words in found
    assert ACCOUNT not in found


def test_a_payout_may_be_fixed_on_either_side() -> None:
    source = {"source_amount": "20", "source_currency": "USD", "payment_currency": "EUR"}
    keys = [payout(number)["request_id"] for number in range(7)]
    file = read_payouts(
        payout(1),
        payout(2, source_amount="11", source_currency="USD"),
        payout(3, payment_amount="", **source),
        {"request_id": keys[4], **source},
        {"request_id": keys[5], "payment_amount": "7"},
        {"request_id": keys[6]},
    )
    assert str(file.totals) == "6 orders, without currency 7, EUR 20, USD 40"
    assert [order.payment_amount for order in file.orders()] == [10, 10, None, None, 7, None]
    assert [order.source_amount for order in file.orders()] == [None, 11, 20, 20, None, None]


# Problems, formats and copies


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([2], "line 2"),
        ([2, 3], "lines 2 to 3"),
        (range(2, 122), "lines 2 to 121"),
        ([2, 3, 5], "line 2 and 2 more"),
    ],
)
def test_what_is_wrong_for_one_reason_is_said_once(lines: Sequence[int], place: str) -> None:
    error = TableError(
        Problem(line=line, column=column, reason="empty") for column in "ab" for line in lines
    )
    assert str(error).splitlines() == [
        f"{2 * len(lines)} problems, nothing was sent",
        f"{place}, column a: empty",
        f"{place}, column b: empty",
    ]


def test_problems_are_counted_beyond_those_that_are_kept() -> None:
    many = KEPT_PROBLEMS + 5
    error = TableError(
        Problem(line=line, reason=reason)
        for line in range(many)
        for reason in (f"bad {line}", "bad")
    )
    lines = str(error).splitlines()
    assert len(error.problems) == KEPT_PROBLEMS
    assert lines[0] == f"{2 * many:,} problems, nothing was sent"
    assert lines[2] == f"lines 0 to {many - 1}: bad"
    assert lines[-1] == f"... and {2 * many - (SHOWN_PROBLEMS - 1 + many):,} more"


def test_the_ending_is_that_of_the_format() -> None:
    names = {"a.csv": CSV, "a.JSONL": JSONL, "a.ndjson": JSONL, "a": CSV, "-": JSONL}
    for name, kind in names.items():
        assert format_of(Path(name), JSONL) == kind
    for name in ("a.xlsx", "a.json", "a.csv.gz"):
        with pytest.raises(ConfigurationError, match=r"expected a name that ends in \.csv"):
            format_of(Path(name), CSV)


def test_what_changes_in_a_file_meanwhile_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(",".join(CELLS) + "\n" + ",".join(CELLS.values()) + "\n")
    with open_table(path, CSV) as table:
        file = OrderFile(table, LAYOUTS["refund"], Dialect())
        path.write_text("order_no\nO1\n")  # so short that it stays in the buffer of its copy
        assert [*file.orders()] == [ORDER]
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(Path("/dev/full").open, "r+b"))
    words = r"cannot read .*orders\.csv: No space left"
    with pytest.raises(ConfigurationError, match=words), open_table(path, CSV):
        pytest.fail("a copy that is not whole was read")


# Writing


def written(kind: Format, found: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    with tempfile.TemporaryFile() as file:
        with OutFile(name="out", format=kind, file=file).writing(columns) as write_row:
            for row in found:
                write_row(row)
        file.seek(0)
        return file.read()


def test_csv_has_every_column_as_text_and_json_lines_keep_numbers_and_lists() -> None:
    columns = ("order_no", "price", "day", "tags", "note")
    found: list[dict[str, Any]] = [
        {"order_no": "O1", "price": Decimal("1.10"), "day": date(2026, 11, 20), "tags": ["a"]},
        {"order_no": 'x,"\n', "note": None, "price": Decimal("1e99999999")},
    ]
    assert written(CSV, found, columns).decode() == (
        'order_no,price,day,tags,note\nO1,1.10,2026-11-20,"[""a""]",\n"x,""\n",1E+99999999,,,\n'
    )
    assert written(JSONL, found, columns).decode().splitlines() == [
        '{"order_no":"O1","price":1.10,"day":"2026-11-20","tags":["a"]}',
        '{"order_no":"x,\\"\\n","note":null,"price":"1E+99999999"}',
    ]
    assert to_text(Decimal("1e99999999")) == "1E+99999999"
    assert to_text(Decimal("1e3")) == "1000"


@pytest.mark.parametrize("text", ["a\rT9,O9", "a\r\nb", "a\nb", '"a", "b"', "\r", "=1+1", "no\0"])
def test_no_text_of_the_gateway_ends_a_row_of_csv(text: str) -> None:
    row = {"order_no": "O1", "error": text, "note": "N1"}
    (found,) = Table(format=CSV, file=io.BytesIO(written(CSV, [row], [*row]))).rows()
    assert found.cells == {**row, "error": text.replace("\0", "\ufffd")}  # a NUL would be refused


def put(path: Path, text: str, warnings: list[str]) -> OutFile:
    with out_file(path, CSV, warnings.append) as out, out.writing([text]):
        pass
    return out


def test_a_file_is_put_in_place_whole_and_over_nothing(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    for text in ("one", "two", "three"):
        put(path, text, warnings)
    there = {"out.csv": "three\n", "out.csv.1": "one\n", "out.csv.2": "two\n"}
    assert warnings[0] == f"{path} was there already; it is now {path}.1"

    def end(error: BaseException) -> None:
        with out_file(path, CSV, print) as out, out.writing(["order_no"]) as add:
            add({"order_no": "O1"})
            raise error

    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            end(error)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == there
    for place in (tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigurationError, match="is no file"):
            put(place, "order_no", [])


def test_outcomes_that_cannot_be_put_in_place_stay_where_they_are(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    with out_file(path, CSV, warnings.append) as out:
        with out.writing(["order_no"]) as add:
            add({"order_no": "O1"})
        (path / "in the way").mkdir(parents=True)
    (warning,) = warnings
    assert out.problem in warning
    assert Path(warning.rpartition(" ")[2]).read_text() == "order_no\nO1\n"
