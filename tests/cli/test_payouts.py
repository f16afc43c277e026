"""`payout`: every payout once, by its `request_id`."""

import re
import shlex
import uuid
from pathlib import Path

from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.cli.running import outcomes, run, statuses, write

IBAN = "DE89370400440532013000"
HEADER = (
    *("request_id", "payment_amount", "payment_currency", "payment_date", "note"),
    *("beneficiary.company_name", "beneficiary.bank_details.iban"),
)
KEPT = ("--journal", "sqlite:///j.db")
LINE = ("payout", "payouts.csv", "--out", "out.csv", "--yes", *KEPT)
STOPPING = ("--concurrency", 1, "--stop-after-unknown", 1)


def key(number: int) -> str:
    return str(uuid.UUID(int=number))


def cells(number: int) -> tuple[str, ...]:
    return (key(number), "10.00", "EUR", "2026-11-20", f"note {number}", "Example Ltd", IBAN)


def write_payouts(path: Path, *numbers: int) -> None:
    write(path / "payouts.csv", HEADER, [cells(number) for number in numbers])


def paid(sandbox: Sandbox, count: int) -> list[int]:
    """Return how often each of the first payouts was made."""
    return [len(sandbox.ledger.payouts_of(key(number))) for number in range(count)]


async def test_a_lost_reply_is_held_for_a_person_and_never_paid_again(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_payouts(tmp_path, *range(20))
    sandbox.faults.add("payout", DropReply(times=1))
    page = tmp_path / "n.html"
    ended = await run(sandbox, *LINE, "--concurrency", 1000, "--report", page, cwd=tmp_path)
    assert ended.code == 3, ended.stderr
    held = "1 order is held for your decision; ask the gateway by request_id. What is held is"
    assert held in ended.stderr
    assert re.search(r"^  gateway-async jobs resolve \S+ INDEX OUTCOME", ended.stderr, re.MULTILINE)
    assert "go on with" not in ended.stderr
    assert "the next run of the job cannot find out" in page.read_text(encoding="utf-8")
    rows = outcomes(tmp_path / "out.csv")
    assert [row["note"] for row in rows] == [f"note {number}" for number in range(20)]
    (unknown,) = [row for row in rows if row["status"] == "unknown"]
    assert unknown["request_id"] in unknown["error"]
    assert {row["record_status"] for row in rows if row is not unknown} == {"COMPLETED"}

    again = await run(sandbox, *LINE, "--again", cwd=tmp_path)
    assert again.code == 3
    assert "goes on: 19 succeeded, 1 held" in again.stderr
    (line,) = re.findall(r"^  gateway-async (jobs show .*)$", again.stderr, re.MULTILINE)
    shown = await run(sandbox, *shlex.split(line), cwd=tmp_path)
    assert unknown["request_id"] in shown.stdout
    job = shlex.split(line)[2]
    which, decision = unknown["request_id"].upper(), ("succeeded", "--note", "asked", *KEPT)
    decided, stranger = [("jobs", "resolve", job, one, *decision) for one in (which, key(99))]
    assert "has no order '00000000-" in (await run(sandbox, *stranger, cwd=tmp_path)).stderr
    assert (await run(sandbox, *decided, cwd=tmp_path)).code == 0
    ended = await run(sandbox, *LINE, cwd=tmp_path)
    assert (ended.code, statuses(tmp_path / "out.csv")) == (0, {"succeeded": 20}), ended.stderr
    assert (
        await run(sandbox, "jobs", "outcomes", job, "--out", "all.csv", *KEPT, cwd=tmp_path)
    ).code == 0
    rows = outcomes(tmp_path / "all.csv")
    assert {row["request_id"]: row["decision_note"] for row in rows if row["decision_note"]} == {
        unknown["request_id"]: "asked"
    }
    assert {row["beneficiary.bank_details.iban"] for row in rows} == {IBAN}
    assert "beneficiary" not in rows[0]
    assert paid(sandbox, 20) == [1] * 20


async def test_a_payout_of_another_job_is_not_paid_again_unasked_however_it_is_written(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_payouts(tmp_path, 0, 1, 2)
    asked = await run(sandbox, *[word for word in LINE if word != "--yes"], cwd=tmp_path)
    assert (asked.code, "payout 3 orders, EUR 30.00 at" in asked.stderr) == (2, True)
    named = ("--job", f"payout-{sandbox.merchant_id}-november")
    assert (await run(sandbox, *LINE, *named, cwd=tmp_path)).code == 0
    rows = [(key(2).upper(), *cells(2)[1:]), cells(3), cells(4)]
    write(tmp_path / "payouts.csv", HEADER, rows)
    for more in ((), ("--job", "december")):
        ended = await run(sandbox, *LINE, *more, cwd=tmp_path)
        assert ended.code == 2, ended.stderr
        words = f"{key(2)!r}, which stands in job 'payout-{sandbox.merchant_id}-november'"
        assert f"its order 0 (line 2) has the request_id {words}" in ended.stderr
    listed = await run(sandbox, "jobs", *KEPT, cwd=tmp_path)  # what was refused left no job
    assert (listed.stdout.count("payout-"), "december" in listed.stdout) == (1, False)
    assert paid(sandbox, 5) == [1, 1, 1, 0, 0]
    ended = await run(sandbox, *LINE, "--again", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    assert paid(sandbox, 2) == [1, 1]
    assert sandbox.requests["payout"] == 6
