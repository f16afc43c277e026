"""JSON Lines in and out; CSV is in `test_inputs`."""

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.orders import InputFile, Reader, check_file
from gateway_async.cli.tables import (
    LONGEST_LINE,
    Format,
    OutFile,
    Table,
    TableError,
    format_of,
    open_table,
)
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import RefundOrder

CELLS = {
    "transaction_id": "T1",
    "order_no": "O1",
    "currency": "EUR",
    "amount": "10.00",
    "refund_amount": "2.50",
}
ORDER = RefundOrder(
    transaction_id="T1",
    order_no="O1",
    currency="EUR",
    amount=Decimal("10.00"),
    refund_amount=Decimal("2.50"),
)


def check(body: bytes, kind: Format) -> InputFile:
    table = Table(format=kind, file=io.BytesIO(body))
    return check_file(table, Reader(LAYOUTS["refund"], Dialect(), repeats=False))


def problem(body: bytes, kind: Format) -> str:
    with pytest.raises(TableError) as caught:
        check(body, kind)
    return str(caught.value.problems[0])


def json_lines(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def test_json_lines_are_orders_and_numbers_are_exact() -> None:
    body = (
        b'\xef\xbb\xbf\n{"note": [1], "transaction_id": "T1", "order_no": "O1", '
        b'"currency": "EUR", "amount": 10.00, "refund_amount": 2.5}\n\n'
    )
    file = check(body, Format.JSONL)
    assert [*file.orders()] == [ORDER]
    assert str(file.totals) == "1 order, EUR 2.5"
    assert [row.line for row in file.rows()] == [2]
    assert file.passed_through({"currency"}) == [
        *("note", "transaction_id", "order_no", "amount", "refund_amount")
    ]


def test_a_long_whole_number_is_an_identifier_digit_by_digit() -> None:
    body = json_lines({**CELLS, "transaction_id": 2023051612301234567890})
    (order,) = check(body, Format.JSONL).orders()
    assert order.transaction_id == "2023051612301234567890"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "line 1: the file is empty"),
        (b"\n \n", "line 1: the file is empty"),
        (b'{"amount": 1', "line 1: not JSON: Expecting ',' delimiter, at character 13"),
        (b'{"amount": 1\n', "line 1: not JSON: Expecting ',' delimiter, at character 14"),
        (b"[1]", 'line 1: not an object; a line is like {"order_no": "O1"}'),
        (b'{"amount": NaN}', "line 1: NaN is not a number of JSON"),
        (b'{"amount": 1e999999999}', "line 1: 1e999999999 has more than 100 digits"),
        (b'{"amount": 1e99999999999999999999}', "line 1: 1e99999999999999999999 has more than"),
        (b'{"note": "\\ud800"}', "line 1: half a surrogate pair"),
        (b'{"note": ' + b"[" * 300 + b"]" * 300 + b"}", "line 1: half a surrogate pair, or nested"),
        (json_lines({str(n): n for n in range(1001)}), "line 1: more than 1,000 different names"),
        (b'{"a": 1, "b": 1, "a": 2}', "line 1: 'a' stands in one object more than once"),
        (b"[" * 60_000, "line 1: nested too deeply"),
        ('{"note": "é"}'.encode("latin-1"), "line 1: character 11 is not UTF-8"),
        ('{"note": "é"}'.encode("utf-16"), "line 1: the file is UTF-16"),
        (b'{"note": "\0"}', "line 1: a NUL byte"),
        (b'{"note": "' + b"x" * LONGEST_LINE + b'"}', "line 1: more than 65536 characters"),
        (json_lines(CELLS, {"order_no": "O2"}), "line 2, column transaction_id: missing; there"),
        (json_lines({**CELLS, "amount": "1,5"}), "line 1, column amount: '1,5' is not an amount"),
        (json_lines({**CELLS, "amount": True}), "line 1, column amount: 'True' is not an amount"),
        (json_lines({**CELLS, "amount": 1.005}), "'1.005' has more than 2 decimal places"),
        (json_lines({**CELLS, "order_no": None}), "line 1, column order_no: empty"),
        (json_lines({**CELLS, "order_no": 1.5}), "line 1, column order_no: expected a text"),
        (json_lines({**CELLS, "order_no": {}}), "line 1, column order_no: expected a text"),
        (json_lines({**CELLS, "refund_reason": [1]}), "line 1, column refund_reason: expected a"),
        (json_lines(CELLS, CELLS), "line 2, column transaction_id: the same order as in line 1"),
    ],
)
def test_json_lines_that_are_wrong_are_named(body: bytes, words: str) -> None:
    assert problem(body, Format.JSONL).startswith(words) or words in problem(body, Format.JSONL)


@pytest.mark.parametrize("kind", [Format.CSV, Format.JSONL])
@pytest.mark.parametrize("size", [LONGEST_LINE + 1, 3 << 20])
def test_a_line_without_an_end_is_not_read_to_its_end(kind: Format, size: int) -> None:
    file = io.BytesIO(b"x" * size + b"\n" + b"y" * size)
    with pytest.raises(TableError, match="line 1: more than 65536 characters"):
        check_file(Table(format=kind, file=file), Reader(LAYOUTS["refund"], Dialect()))
    assert file.tell() <= 2 << 20


def test_lines_are_whole_wherever_the_file_is_cut() -> None:
    lines = [{**CELLS, "transaction_id": f"T{n}", "note": "é" * 300} for n in range(4000)]
    body = b"\r\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines)
    assert len(body) > 2 << 20
    rows = [*check(body, Format.JSONL).rows()]
    assert [row.line for row in rows] == [*range(1, 4001)]
    assert all(row.cells == line for row, line in zip(rows, lines, strict=True))


def written(kind: Format, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    with tempfile.TemporaryFile() as file:
        with OutFile(name="out", format=kind, file=file).writing(columns) as write_row:
            for row in rows:
                write_row(row)
        file.seek(0)
        return file.read()


ROWS: list[dict[str, Any]] = [
    {"order_no": "O1", "price": Decimal("1.10"), "day": date(2026, 11, 20), "tags": ["a"]},
    {"order_no": 'x,"\n', "note": None},
]
COLUMNS = ("order_no", "price", "day", "tags", "note")


def test_csv_has_every_column_as_text() -> None:
    assert written(Format.CSV, ROWS, COLUMNS).decode() == (
        'order_no,price,day,tags,note\nO1,1.10,2026-11-20,"[""a""]",\n"x,""\n",,,,\n'
    )


def test_json_lines_keep_numbers_and_lists() -> None:
    assert written(Format.JSONL, ROWS, COLUMNS).decode().splitlines() == [
        '{"order_no":"O1","price":1.10,"day":"2026-11-20","tags":["a"]}',
        '{"order_no":"x,\\"\\n","note":null}',
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", "csv"), ("a.JSONL", "jsonl"), ("a.ndjson", "jsonl"), ("a", "csv"), ("-", "jsonl")],
)
def test_the_ending_says_the_format(name: str, kind: str) -> None:
    assert format_of(Path(name), Format.JSONL) == kind


@pytest.mark.parametrize("name", ["a.xlsx", "a.json", "a.csv.gz"])
def test_an_ending_of_another_format_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a name that ends in \.csv"):
        format_of(Path(name), Format.CSV)


def test_what_changes_in_a_file_meanwhile_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(",".join(CELLS) + "\n" + ",".join(CELLS.values()) + "\n")
    with open_table(path, Format.CSV) as table:
        file = check_file(table, Reader(LAYOUTS["refund"], Dialect()))
        path.write_text("")
        assert [*file.orders()] == [ORDER]


def test_a_disk_that_takes_no_copy_of_a_file_is_told_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("order_no\nO1\n")  # so short that it stays in the buffer of its copy
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(Path("/dev/full").open, "r+b"))
    words = r"cannot read .*orders\.csv: No space left"
    with pytest.raises(ConfigurationError, match=words), open_table(path, Format.CSV):
        pytest.fail("a copy that is not whole was read")


@pytest.mark.parametrize(
    ("text", "read"),
    [(t, t) for t in ("a\rT9,O9", "a\r\nb", "a\nb", '"a", "b"', "\r", "=1+1")]
    + [("no\0", "no\ufffd")],  # a file with a NUL would be refused
)
def test_no_text_of_the_gateway_ends_a_row_of_csv(text: str, read: str) -> None:
    body = written(
        Format.CSV,
        [{"order_no": "O1", "error": text, "note": "N1"}],
        ["order_no", "error", "note"],
    )
    (row,) = Table(format=Format.CSV, file=io.BytesIO(body)).rows()
    assert row.cells == {"order_no": "O1", "error": read, "note": "N1"}
