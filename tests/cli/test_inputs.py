import io
from decimal import Decimal
from typing import Any

import pytest

from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.orders import InputFile, Reader, check_file
from gateway_async.cli.tables import LONGEST_LINE, Format, Table, TableError
from gateway_async.dialect import Dialect
from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import OrderRef, RefundOrder

HEADER = "transaction_id,order_no,currency,amount,refund_amount,refund_reason"
REFUND, QUERY = LAYOUTS["refund"], LAYOUTS["query"]


def read_bytes(body: bytes, layout: Layout, dialect: Dialect) -> InputFile:
    table = Table(format=Format.CSV, file=io.BytesIO(body))
    return check_file(table, Reader(layout, dialect, repeats=False))


def read(*lines: str, command: str = "refund") -> InputFile:
    return read_bytes("\n".join(lines).encode(), LAYOUTS[command], Dialect())


def orders(file: InputFile) -> list[Any]:
    return list(file.orders())


def problems(*lines: str, command: str = "refund") -> list[str]:
    with pytest.raises(TableError) as caught:
        read(*lines, command=command)
    return [str(problem) for problem in caught.value.problems]


def test_orders_come_with_their_cells_and_lines() -> None:
    table = read(HEADER, "", "T1,O1,EUR,10.00,2.50,broken", "T2,O2,EUR,3,3,")
    assert orders(table) == [
        RefundOrder(
            transaction_id="T1",
            order_no="O1",
            currency="EUR",
            amount=Decimal("10.00"),
            refund_amount=Decimal("2.50"),
            refund_reason="broken",
        ),
        RefundOrder(
            transaction_id="T2",
            order_no="O2",
            currency="EUR",
            amount=Decimal(3),
            refund_amount=Decimal(3),
        ),
    ]
    first, second = table.rows()
    assert [first.line, second.line] == [3, 4]
    assert [*first.cells.values()] == ["T1", "O1", "EUR", "10.00", "2.50", "broken"]
    assert str(table.totals) == "2 orders, EUR 5.50"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_byte_order_mark_and_any_line_ending_are_fine(ending: str) -> None:
    text = ending.join([HEADER, "T1,O1,EUR,1,1,é", ""])
    table = read_bytes(b"\xef\xbb\xbf" + text.encode(), REFUND, Dialect())
    assert [order.refund_reason for order in table.orders()] == ["é"]


def test_a_cell_may_span_lines_and_lines_are_still_those_of_the_file() -> None:
    found = problems(HEADER, 'T1,O1,EUR,1,1,"two', 'lines"', "T2,O2,EUR,x,1,")
    assert found == ["line 4, column amount: 'x' is not an amount; write it like 12.50"]


@pytest.mark.parametrize("body", [b"", b"\xef\xbb\xbf", b" \r\n\n"])
def test_an_empty_file(body: bytes) -> None:
    with pytest.raises(TableError, match="line 1: the file is empty"):
        read_bytes(body, REFUND, Dialect())


def test_only_a_header() -> None:
    assert problems(HEADER) == ["line 1: there is no row below it"]


def test_missing_columns_are_all_named_beside_those_that_are_there() -> None:
    found = problems("transaction_id,order_no,curency", "T1,O1,EUR")
    assert [line.partition(":")[0] for line in found] == [
        "line 1, column currency",
        "line 1, column amount",
        "line 1, column refund_amount",
    ]
    assert "'curency'" in found[0]


def test_columns_that_are_not_read_are_named_as_far_as_a_line_has_room() -> None:
    names = [f"note {number}" for number in range(25)]
    table = read(",".join([HEADER, *names]), "T1,O1,EUR,1,1," + "," * 25)
    assert table.unread.startswith("'note 0', 'note 1', ")
    assert table.unread.endswith("'note 19' and 5 more")


def test_a_column_twice() -> None:
    assert problems(HEADER + ",amount", "T1,O1,EUR,1,1,,1") == [
        "line 1, column amount: more than one column has this name"
    ]
    assert problems(HEADER + ",,", "T1,O1,EUR,1,1,,,") == [
        "line 1: more than one column has no name"
    ]


def test_cells_separated_by_semicolons() -> None:
    assert problems(HEADER.replace(",", ";"), "T1;O1;EUR;1;1;") == [
        "line 1: separate the cells by ',' in place of ';'"
    ]


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
        ("T1,O1,EUR,,1,", "amount", "not an amount"),
        ('T1,O1,EUR,"12,50",1,', "amount", "write it like 12.50"),
        ("T1,O1,EUR,1,1e0,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,1,-1,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,1,NaN,", "refund_amount", "not an amount"),
        ("T1,O1,EUR,\u0661,1,", "amount", "not an amount"),
        ("T1,O1,EUR,1,0.005,", "refund_amount", "more than 2 decimal places"),
        ("T1,O1,EUR,1,1.01,", "refund_amount", "more than the order's amount"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(row: str, column: str, reason: str) -> None:
    (found,) = problems(HEADER, "T0,O0,EUR,1,1,", row)
    assert found.startswith(f"line 3, column {column}: ")
    assert reason in found


def test_the_dialect_says_how_precise_an_amount_may_be() -> None:
    body = f"{HEADER}\nT1,O1,KWD,1.005,1.005,\n".encode()
    options: dict[str, Any] = {"currency_places": {"KWD": 3}}
    table = read_bytes(body, REFUND, Dialect(**options))
    assert orders(table)[0].amount == Decimal("1.005")


def test_an_identifier_of_digits_and_letters_is_no_number() -> None:
    table = read(HEADER, "5E12,1E+1x,eur,1,1,", "20261120000000000001,7e5,EUR,1,1,")
    assert [order.transaction_id for order in table.orders()] == ["5E12", "20261120000000000001"]


def test_the_dialect_may_name_a_currency_of_more_letters() -> None:
    options: dict[str, Any] = {"currency_places": {"USDT": 2}}
    table = read_bytes(f"{HEADER}\nT1,O1,usdt,1,1,\n".encode(), REFUND, Dialect(**options))
    assert orders(table)[0].currency == "usdt"


@pytest.mark.parametrize(("row", "cells"), [("T1,O1,EUR,1,1", 5), ("T1,O1,EUR,1,1,a,b", 7)])
def test_a_ragged_row(row: str, cells: int) -> None:
    assert problems(HEADER, row) == [f"line 2: {cells} cells where the header has 6"]


def test_the_same_transaction_twice_names_the_first_line() -> None:
    (found,) = problems(HEADER, "T1,O1,EUR,1,1,", "T2,O2,EUR,1,1,", "T1,O3,EUR,1,1,")
    assert found.startswith("line 4, column transaction_id: the same order as in line 2; if both")


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        (f"{HEADER}\nT1,Ö1,EUR,1,1,\n".encode("latin-1"), 2, "not UTF-8"),
        (f"{HEADER}\nT1,O1,EUR,1,1,\n".encode("utf-16"), 1, "UTF-16"),
        (f"{HEADER}\nT1,O1,EUR,1,1,\0\n".encode(), 2, "NUL"),
        (f"{HEADER}\nT1,O1,EUR,1,1,{'x' * LONGEST_LINE}\n".encode(), 2, "characters; a line"),
        (f'{HEADER}\nT1,O1,EUR,1,1,"open\nT2\n'.encode(), 2, "not CSV from here on"),
        (f'{HEADER}\nT1,O1,EUR,1,1,"a"b\n'.encode(), 2, "not CSV from here on"),
    ],
)
def test_a_damaged_file(body: bytes, line: int, reason: str) -> None:
    with pytest.raises(TableError) as caught:
        read_bytes(body, REFUND, Dialect())
    (problem,) = caught.value.problems
    assert problem.line == line
    assert reason in problem.reason


@pytest.mark.parametrize("status", ["succeeded", "unknown", " Unknown"])
def test_a_money_command_refuses_rows_of_outcomes_that_must_not_be_sent_again(
    status: str,
) -> None:
    (found,) = problems(HEADER + ",status", f"T1,O1,EUR,1,1,,{status}")
    assert found.startswith("line 2, column status: ")


def test_a_money_command_takes_rows_of_outcomes_that_may_be_sent_again() -> None:
    rows = ["T1,O1,EUR,1,1,,not_sent", "T2,O2,EUR,1,1,,declined"]
    assert len(orders(read(HEADER + ",status", *rows))) == 2


def test_a_look_up_takes_one_reference_a_row() -> None:
    table = read("order_no,transaction_id", "O1,", ",T2", command="query")
    assert orders(table) == [OrderRef(order_no="O1"), OrderRef(transaction_id="T2")]


@pytest.mark.parametrize(
    ("row", "filled"), [("O1,T1", "2 are filled; or choose: --by "), (",", "0 are filled")]
)
def test_a_look_up_of_two_references_or_none(row: str, filled: str) -> None:
    (found,) = problems("order_no,transaction_id", row, command="query")
    begin = "line 2, column order_no or transaction_id: fill one of the two, "
    assert found.startswith(begin + filled)


def test_a_look_up_without_either_column() -> None:
    (found,) = problems("note", "x", command="query")
    assert found.startswith("line 1, column order_no or transaction_id: missing")


def test_a_look_up_may_go_by_one_of_two_filled_columns() -> None:
    body = b"order_no,transaction_id\nO1,T1\n"
    table = read_bytes(body, QUERY.by("transaction_id"), Dialect())
    assert orders(table) == [OrderRef(transaction_id="T1")]


def test_a_review_has_no_verdict_by_default() -> None:
    header = "transaction_id,order_no,currency,amount"
    (found,) = problems(header, "T1,O1,EUR,1", command="review")
    assert found.startswith("line 1, column review_flag: missing; there are: 'transaction_id'")
    (found,) = problems(f"{header},review_flag", "T1,O1,EUR,1,", command="review")
    assert found == "line 2, column review_flag: empty"
    table = read(f"{header},review_flag", "T1,O1,EUR,1,2", command="review")
    assert orders(table)[0].review_flag == "2"


def test_orders_that_the_client_refuses_are_named_by_line() -> None:
    table = read(HEADER, "", "T1,O1,EUR,1,1,")
    wrong = InvalidOrderError("RefundOrder(order_no='O1').amount: too precise")
    error = table.problems_of(InvalidOrderError("1 wrong", problems={0: wrong}))
    assert str(error.problems[0]) == "line 3, column amount: too precise"


def test_a_column_of_the_merchant_may_be_called_so() -> None:
    assert read(f"{HEADER},Status", "T1,O1,EUR,10.00,2.50,broken,shipped").unread == "'Status'"
