"""`payout`: every payout once, told by its `request_id`."""

import asyncio
import io
import json
import shlex
import uuid
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway_async import BatchPolicy, PayoutRequest, PayoutResult
from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.problems import TableError
from gateway_async.cli.files.snapshot import Snapshot
from gateway_async.cli.inputs import InputFile, check_file
from gateway_async.cli.payout_rows import PayoutReader
from gateway_async.cli.payouts import PayoutOutcome, Payouts, judge_payout
from gateway_async.dialect import Dialect
from gateway_async.errors import NotSentError, OutcomeUnknownError
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
    assert "1 payouts may have been made" in ended.stderr
    rows = outcomes(out)
    assert [row["note"] for row in rows] == [f"note {number}" for number in range(20)]
    (unknown,) = [row for row in rows if row["status"] == "unknown"]
    assert unknown["request_id"] in unknown["error"]
    done = [row for row in rows if row["status"] == "succeeded"]
    assert {row["payout_status"] for row in done} == {"COMPLETED"}
    assert all(len(sandbox.ledger.payouts_of(row["request_id"])) == 1 for row in rows)


async def test_the_command_that_is_printed_sends_the_payouts_that_were_not_sent_at_the_same_gateway(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write(tmp_path / "payouts.csv", HEADER, [cells(number) for number in range(3)])
    (tmp_path / "test.toml").write_text('[profiles.test]\nsecret_file = "secret"\n')
    (tmp_path / "secret").write_text(sandbox.secret)
    sandbox.faults.add("payout", DropReply(times=1))
    options = ("--yes", "--concurrency", 1, "--stop-after-unknown", 1)
    chosen = ("--config", "test.toml", "--profile", "test")
    ended = await run(
        sandbox, "payout", "payouts.csv", "--out", "out.csv", *options, *chosen, cwd=tmp_path
    )
    line = (
        f"gateway-async payout {tmp_path}/out.csv --only not_sent --out {tmp_path}/out-rest.csv "
        "--concurrency 1 --stop-after-unknown 1 "
        f"--config {tmp_path}/test.toml --profile test"
    )
    assert f"2 were not sent; send them:\n  {line}\n" in ended.stderr
    ended = await run(sandbox, *shlex.split(line)[1:], "--yes", cwd=tmp_path)
    assert (ended.code, statuses(tmp_path / "out-rest.csv")) == (0, {"succeeded": 2})
    paid = [
        len(sandbox.ledger.payouts_of(row["request_id"])) for row in outcomes(tmp_path / "out.csv")
    ]
    assert paid == [1, 1, 1]


def read(rows: list[dict[str, Any]]) -> InputFile:
    body = "\n".join(map(json.dumps, rows)).encode()
    taken = Snapshot(name="payouts.jsonl", format=Format.JSONL, file=io.BytesIO(body))
    return check_file(taken, PayoutReader(Dialect()))


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
        ({"beneficiary.bank_detail.iban": ""}, "did you mean beneficiary.bank_details.iban?"),
        ({"benificiary": {"first_name": "Ann"}}, "did you mean beneficiary"),
        ({"paymentdate": "2026-11-20"}, "column paymentdate: not known; did you mean payment_date"),
        ({"receiver.name": "Ann"}, "column receiver.name: not known; a name with a dot is a part"),
        ({"payment_currency": "euro"}, "column payment_currency: 'euro' is not a code of three"),
        ({"source_currency": "euro"}, "column source_currency: 'euro' is not a code of three"),
        ({"beneficiary": {"bank_details": {"account_number": 1e22}}}, "account_number: expected"),
        ({"beneficiary.bank_details.account_number": "1.2E+12"}, "account_number: a number such"),
        ({"status": "unknown"}, "column status: this order may have been done already"),
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
    columns = ["payment_date", "beneficiary.labels", "beneficiary.address.city"]
    assert [problem.column for problem in caught.value.problems] == columns


def test_particulars_of_an_account_are_in_no_message() -> None:
    wrong = {"bank_details": {"account_number": [ACCOUNT], "iban": IBAN, "bank": 1}}
    with pytest.raises(TableError) as caught:
        read([row(beneficiary=wrong)])
    assert ACCOUNT not in str(caught.value)
    assert IBAN not in str(caught.value)


def test_one_request_id_is_paid_once() -> None:
    with pytest.raises(TableError, match="the same payout as in line 1"):
        read([row(1), row(1, payment_amount="11")])


@pytest.mark.parametrize(
    ("result", "status", "words"),
    [
        ({"status": "COMPLETED"}, "succeeded", ""),
        ({"status": "COMPLETED", "failure_type": "UNKNOWN"}, "succeeded", ""),
        ({"status": "REFUSED", "failure_reason": "closed"}, "declined", "closed"),
        ({"status": "COMPLETED", "failure_reason": "closed"}, "unknown", "failure_reason 'closed'"),
        ({"status": "PENDING"}, "unknown", "status 'PENDING', which has no meaning here"),
        ({}, "unknown", "status ''"),
    ],
)
def test_what_a_payout_came_to_is_not_guessed(
    result: dict[str, Any], status: str, words: str
) -> None:
    found, error = judge_payout(PayoutResult(**result), frozenset({"COMPLETED"}))
    assert found == status
    assert words in str(error or "")


class Gateway:
    """Pays out as a test says."""

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.sent: list[int] = []
        self._answer = answer

    async def payout(self, request: PayoutRequest) -> PayoutResult:
        number = uuid.UUID(request.request_id).int
        self.sent.append(number)
        answer = self._answer(number)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return PayoutResult(status="COMPLETED")


def requests(count: int) -> Iterator[PayoutRequest]:
    for number in range(count):
        yield PayoutRequest(
            request_id=key(number), payment_amount=Decimal(1), payment_currency="EUR"
        )


async def collected(
    gateway: Gateway, count: int, policy: BatchPolicy, *, most: int | None = None
) -> list[PayoutOutcome]:
    payouts = Payouts(
        gateway,  # type: ignore[arg-type]  # a stand-in
        requests(count),
        policy=policy,
        done=frozenset({"COMPLETED"}),
    )
    told: list[PayoutOutcome] = []
    async with payouts:
        async for outcome in payouts:
            told.append(outcome)
            if len(told) == most:
                break
    told += payouts.result
    assert sorted(outcome.index for outcome in told) == list(range(count))
    assert all(uuid.UUID(outcome.order.request_id).int == outcome.index for outcome in told)
    return told


def counts(told: list[PayoutOutcome]) -> dict[str, int]:
    found = [str(outcome.status) for outcome in told]
    return {status: found.count(status) for status in found}


async def test_payouts_stop_after_so_many_without_a_reply() -> None:
    gateway = Gateway(lambda _: OutcomeUnknownError("the reply was lost"))
    told = await collected(gateway, 9, BatchPolicy(concurrency=1, stop_after_unknown=3))
    assert counts(told) == {"unknown": 3, "not_sent": 6}
    assert len(gateway.sent) == 3


async def test_a_reply_between_lost_ones_lets_payouts_go_on() -> None:
    gateway = Gateway(lambda n: OutcomeUnknownError("lost") if n % 3 else None)
    told = await collected(gateway, 9, BatchPolicy(concurrency=1, stop_after_unknown=3))
    assert counts(told) == {"succeeded": 3, "unknown": 6}


async def test_what_was_not_sent_is_told_so() -> None:
    gateway = Gateway(lambda n: NotSentError("no connection") if n == 1 else None)
    told = await collected(gateway, 3, BatchPolicy(concurrency=2))
    assert counts(told) == {"succeeded": 2, "not_sent": 1}


async def test_leaving_early_starts_no_more_and_tells_of_every_payout() -> None:
    gateway = Gateway(lambda _: asyncio.sleep(0))
    told = await collected(gateway, 50, BatchPolicy(concurrency=2), most=5)
    assert len(gateway.sent) < 10
    assert len(told) == 50


async def test_a_deadline_starts_no_more() -> None:
    gateway = Gateway(lambda _: asyncio.sleep(60))
    told = await collected(gateway, 5, BatchPolicy(concurrency=2, deadline_seconds=0.01))
    assert len(gateway.sent) == 2
    assert counts(told) == {"unknown": 2, "not_sent": 3}


async def test_a_defect_of_a_collaborator_is_raised_and_no_payout_is_lost() -> None:
    gateway = Gateway(lambda n: RuntimeError("a defect") if n == 2 else None)
    with pytest.raises(RuntimeError, match="a defect"):
        await collected(gateway, 9, BatchPolicy(concurrency=1))
    assert gateway.sent == [0, 1, 2]
