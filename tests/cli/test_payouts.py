"""`payout`: every payout once, told by its `request_id`."""

import io
import json
import re
import shlex
import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.orders import InputFile, Reader, check_file
from gateway_async.cli.tables import Format, Table, TableError
from gateway_async.dialect import Dialect
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.cli.running import outcomes, run, statuses, write

HEADER = (
    *("request_id", "payment_amount", "payment_currency", "payment_date", "note"),
    *("beneficiary.company_name", "beneficiary.bank_details.iban"),
)
IBAN = "DE89370400440532013000"
ACCOUNT = "1234567890123"


def key(number: int) -> str:
    return str(uuid.UUID(int=number))


def cells(number: int, amount: str = "10.00") -> tuple[str, ...]:
    return (key(number), amount, "EUR", "2026-11-20", f"note {number}", "Example Ltd", IBAN)


async def test_payouts_are_told_one_by_one_and_an_unknown_one_is_not_sent_again(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    payouts, out = tmp_path / "payouts.csv", tmp_path / "out.csv"
    write(payouts, HEADER, [cells(number) for number in range(20)])
    sandbox.faults.add("payout", DropReply(times=1))
    ended = await run(sandbox, "payout", payouts, "--yes", "--out", out, "--concurrency", 10**12)
    assert ended.code == 3, ended.stderr
    assert "gateway-async jobs show payout-" in ended.stderr
    rows = outcomes(out)
    assert [row["note"] for row in rows] == [f"note {number}" for number in range(20)]
    (unknown,) = [row for row in rows if row["status"] == "unknown"]
    assert unknown["request_id"] in unknown["error"]
    done = [row for row in rows if row["status"] == "succeeded"]
    assert {row["payout_status"] for row in done} == {"COMPLETED"}
    assert all(len(sandbox.ledger.payouts_of(row["request_id"])) == 1 for row in rows)


async def test_payouts_that_were_not_made_are_made_by_the_same_command(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(3)])
    sandbox.faults.add("payout", DropReply(times=1))
    options = ("--journal", "sqlite:///j.db")
    line = ("payout", "payouts.csv", "--out", "out.csv", "--yes", "--job", "november", *options)
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1)
    ended = await run(sandbox, *line, *stopping, cwd=tmp_path)
    assert ended.code == 3, ended.stderr
    ended = await run(sandbox, *line, cwd=tmp_path)
    assert statuses(tmp_path / "out.csv") == {"succeeded": 2, "unknown": 1}, ended.stderr
    rows = outcomes(tmp_path / "out.csv")
    assert [len(sandbox.ledger.payouts_of(row["request_id"])) for row in rows] == [1, 1, 1]
    (held,) = [row for row in rows if row["status"] == "unknown"]
    assert held["request_id"] in held["error"]
    shown = await run(sandbox, "jobs", "show", "november", *options, cwd=tmp_path)
    assert held["request_id"] in shown.stdout
    decided = ("jobs", "resolve", "november", "0", "succeeded", "--note", "asked the gateway")
    assert (await run(sandbox, *decided, *options, cwd=tmp_path)).code == 0
    ended = await run(sandbox, *line, cwd=tmp_path)
    assert (ended.code, statuses(tmp_path / "out.csv")) == (0, {"succeeded": 3}), ended.stderr
    written = ("jobs", "outcomes", "november", "--out", "all.csv")
    assert (await run(sandbox, *written, *options, cwd=tmp_path)).code == 0
    rows = outcomes(tmp_path / "all.csv")
    assert {row["beneficiary.bank_details.iban"] for row in rows} == {IBAN}
    assert "beneficiary" not in rows[0]


async def test_a_payout_of_another_job_is_not_paid_again_unasked(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(3)])
    line = ("payout", "payouts.csv", "--out", "out.csv", "--yes", "--journal", "sqlite:///j.db")
    assert (await run(sandbox, *line, cwd=tmp_path)).code == 0
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(2, 5)])
    for more in ((), ("--job", "december"), ("--dry-run",)):
        ended = await run(sandbox, *line, *more, cwd=tmp_path)
        assert ended.code == 2
        assert f"request_id {key(2)} stands in job payout-" in ended.stderr
    assert sandbox.requests["payout"] == 3
    ended = await run(sandbox, *line, "--again", cwd=tmp_path)
    assert (ended.code, sandbox.requests["payout"]) == (0, 6), ended.stderr


async def test_a_payout_of_a_job_with_a_name_is_not_paid_again_however_it_is_written(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    rows = [cells(number) for number in range(2)]
    write(tmp_path / "payouts.csv", HEADER, rows)
    line = ("payout", "payouts.csv", "--out", "out.csv", "--yes", "--journal", "sqlite:///j.db")
    named = ("--job", f"payout-{sandbox.merchant_id}-november")
    assert (await run(sandbox, *line, *named, cwd=tmp_path)).code == 0
    write(tmp_path / "payouts.csv", HEADER, [[key(0).upper(), *rows[0][1:]]])
    ended = await run(sandbox, *line, cwd=tmp_path)
    assert (ended.code, sandbox.requests["payout"]) == (2, 2), ended.stderr


async def test_a_job_with_a_held_payout_is_not_made_again(sandbox: Sandbox, tmp_path: Path) -> None:
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(3)])
    sandbox.faults.add("payout", DropReply(times=1))
    line = ("payout", "payouts.csv", "--out", "out.csv", "--yes", "--journal", "sqlite:///j.db")
    assert (await run(sandbox, *line, cwd=tmp_path)).code == 3
    again = await run(sandbox, *line, "--again", cwd=tmp_path)
    assert again.code == 3
    assert "goes on: 2 succeeded, 1 held" in again.stderr
    assert [len(sandbox.ledger.payouts_of(key(number))) for number in range(3)] == [1, 1, 1]


async def test_payouts_from_standard_input_go_on_from_their_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(3)])
    sandbox.faults.add("payout", DropReply(times=1))
    line = ("payout", "-", "--out", "out.csv", "--yes", "--journal", "sqlite:///j.db")
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1)
    stdin = (tmp_path / "payouts.csv").read_text()
    ended = await run(sandbox, *line, *stopping, cwd=tmp_path, stdin=stdin)
    (printed,) = re.findall(r"^  gateway-async (jobs resume .*)$", ended.stderr, re.MULTILINE)
    asked = await run(sandbox, *shlex.split(printed), cwd=tmp_path)
    assert asked.code == 2
    assert "payout 2 orders, EUR 20.00 at" in asked.stderr
    ended = await run(sandbox, *shlex.split(printed), "--yes", cwd=tmp_path)
    assert statuses(tmp_path / "out.csv") == {"succeeded": 2, "unknown": 1}, ended.stderr
    paid = [len(sandbox.ledger.payouts_of(key(number))) for number in range(3)]
    assert paid == [1, 1, 1]


def read(rows: list[dict[str, Any]]) -> InputFile:
    body = "\n".join(map(json.dumps, rows)).encode()
    table = Table(format=Format.JSONL, file=io.BytesIO(body))
    return check_file(table, Reader(LAYOUTS["payout"], Dialect(), repeats=False))


def row(number: int = 1, /, **fields: Any) -> dict[str, Any]:
    return {"request_id": key(number), "payment_amount": "10", "payment_currency": "EUR", **fields}


def test_nested_parts_are_dotted_columns_or_objects() -> None:
    documents = [{"file_type": "pdf", "labels": ["passport"]}]
    bank = {"iban": IBAN, "account_number": ACCOUNT}
    (nested,) = read(
        [
            row(
                payment_date="2026-11-20",
                beneficiary={
                    "first_name": "Ann",
                    "date_of_birth": "1990-01-31",
                    "bank_details": bank,
                    "person_documents": documents,
                },
                remark="passes through",
            )
        ]
    ).orders()
    (dotted,) = read(
        [
            row(
                payment_date="2026-11-20",
                **{
                    "beneficiary.first_name": "Ann",
                    "beneficiary.last_name": "",
                    "beneficiary.date_of_birth": "1990-01-31",
                    "beneficiary.bank_details.iban": IBAN,
                    "beneficiary.bank_details.account_number": ACCOUNT,
                    "beneficiary.person_documents": json.dumps(documents),
                    "payer.address.city": "",
                },
            )
        ]
    ).orders()
    assert nested == dotted
    assert nested.beneficiary.person_documents[0].labels == ("passport",)
    assert (nested.payment_date, nested.payer) == (date(2026, 11, 20), None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"request_id": "17"}, "column request_id: '17' is no UUID"),
        ({"payment_amount": "ten"}, "column payment_amount: 'ten' is not an amount"),
        ({"payment_amount": 1.005}, "column payment_amount: '1.005' has more than 2 decimal"),
        ({"payment_amount": 1.5, "payment_currency": 9}, "payment_currency: '9' is not a code"),
        ({"source_amount": "ten"}, "column source_amount: 'ten' is not an amount"),
        ({"source_amount": "1.001", "source_currency": "EUR"}, "column source_amount"),
        ({"payment_date": "20.11.2026"}, "column payment_date: expected a date such as 2026-11-20"),
        ({"beneficiary": {"frist_name": "Ann"}}, "column beneficiary.frist_name: not known"),
        ({"beneficiary": "Ann"}, "column beneficiary: expected columns such as"),
        ({"beneficiary": {"address": [1]}}, "column beneficiary.address: expected columns"),
        ({"beneficiary": {"person_documents": "x"}}, "column beneficiary.person_documents"),
        ({"beneficiary": {"bank_details": {"iban": 1.5}}}, "bank_details.iban: expected a text"),
        ({"beneficiary": {}, "beneficiary.first_name": "A", "payer": "P"}, "column payer"),
        ({"beneficiary.bank_detail.iban": ""}, "column beneficiary.bank_detail.iban: not known"),
        ({"receiver.name": "Ann"}, "column receiver.name: not known: there is no such part"),
        ({"payment_currency": "euro"}, "column payment_currency: 'euro' is not a code of three"),
        ({"source_currency": "euro"}, "column source_currency: 'euro' is not a code of three"),
        ({"beneficiary": {"bank_details": {"account_number": 1e22}}}, "account_number: expected"),
        ({"beneficiary.bank_details.account_number": "1.2E+12"}, "account_number: a number such"),
        ({"status": "unknown"}, "column status: this order may be done"),
    ],
)
def test_what_is_wrong_with_a_payout_is_named_by_column(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(TableError) as caught:
        read([row(1), row(2, **fields)])
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert words in str(problem)


def test_a_payout_may_be_fixed_on_either_side() -> None:
    source = {"source_amount": "20", "source_currency": "USD", "payment_currency": "EUR"}
    only_source = {"payment_amount": "", **source}
    file = read(
        [
            row(1),
            row(2, source_amount="11", source_currency="USD"),
            row(3, **only_source),
            {"request_id": key(4), **source},
            {"request_id": key(5), "payment_amount": "7"},
            {"request_id": key(6)},
        ]
    )
    assert str(file.totals) == "6 orders, without currency 7, EUR 20, USD 40"
    assert [order.payment_amount for order in file.orders()] == [10, 10, None, None, 7, None]
    assert [order.source_amount for order in file.orders()] == [None, 11, 20, 20, None, None]


async def test_a_file_of_payouts_fixed_on_the_source_side_is_paid(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    header = ("request_id", "source_amount", "source_currency", "beneficiary.bank_details.iban")
    write(tmp_path / "payouts.csv", header, [(key(1), "20.00", "EUR", IBAN)])
    out = tmp_path / "out.csv"
    ended = await run(sandbox, "payout", tmp_path / "payouts.csv", "--yes", "--out", out)
    assert (ended.code, statuses(out)) == (0, {"succeeded": 1}), ended.stderr
    (paid,) = sandbox.ledger.payouts_of(key(1))
    assert (paid.amount, paid.currency) == (Decimal("20.00"), "EUR")


def test_every_wrong_cell_of_a_payout_is_named() -> None:
    wrong = {"payment_date": "1.2.26", "beneficiary": {"labels": "x", "address": {"city": 1.5}}}
    with pytest.raises(TableError) as caught:
        read([row(1, **wrong)])
    columns = {"payment_date", "beneficiary.labels", "beneficiary.address.city"}
    assert {problem.column for problem in caught.value.problems} == columns


def test_particulars_of_an_account_are_in_no_message() -> None:
    wrong = {"bank_details": {"account_number": [ACCOUNT], "iban": IBAN, "bank": 1}}
    with pytest.raises(TableError) as caught:
        read([row(beneficiary=wrong)])
    assert ACCOUNT not in str(caught.value)
    assert IBAN not in str(caught.value)


def test_one_request_id_is_paid_once() -> None:
    with pytest.raises(TableError, match="the same order as in line 1"):
        read([row(1), row(1, payment_amount="11")])
