"""`payout`: every payout once, by its `request_id`."""

import re
import shlex
import uuid

from gateway_async.sandbox.faults import DropReply
from tests.cli.running import Shell, write

IBAN = "DE89370400440532013000"
HEADER = (
    *("request_id", "payment_amount", "payment_currency", "payment_date", "note"),
    *("beneficiary.company_name", "beneficiary.bank_details.iban"),
)
KEPT = "--journal sqlite:///j.db"
ASKED = f"payout payouts.csv --out out.csv {KEPT}"
LINE = f"{ASKED} --yes"


def key(number: int) -> str:
    return str(uuid.UUID(int=number))


def cells(number: int) -> tuple[str, ...]:
    return (key(number), "10.00", "EUR", "2026-11-20", f"note {number}", "Example Ltd", IBAN)


def write_payouts(shell: Shell, *rows: tuple[str, ...]) -> None:
    write(shell.folder / "payouts.csv", HEADER, rows)


def paid(shell: Shell, count: int) -> list[int]:
    """Return how often each of the first payouts was made."""
    return [len(shell.sandbox.ledger.payouts_of(key(number))) for number in range(count)]


async def test_a_lost_reply_is_held_for_a_person_and_never_paid_again(shell: Shell) -> None:
    write_payouts(shell, *map(cells, range(20)))
    shell.sandbox.faults.add("payout", DropReply(times=1))
    told = (await shell(f"{LINE} --concurrency 1000 --report n.html", 3)).stderr
    assert "1 held for your decision" in told
    assert re.search(r"^  gateway-async jobs resolve \S+ OUTCOME INDEX", told, re.MULTILINE)
    assert "go on with" not in told
    page = (shell.folder / "n.html").read_text(encoding="utf-8")
    assert "which have no payouts and reviews" in page
    rows = shell.rows()
    assert [row["note"] for row in rows] == [f"note {number}" for number in range(20)]
    (unknown,) = [row for row in rows if row["status"] == "unknown"]
    assert unknown["request_id"] in unknown["error"]
    assert {row["record_status"] for row in rows if row is not unknown} == {"COMPLETED"}

    again = await shell(f"{LINE} --again", 3)
    assert "goes on: 19 succeeded, 1 held" in again.stderr
    (line,) = re.findall(r"^  gateway-async (jobs show .*)$", again.stderr, re.MULTILINE)
    assert f"{unknown['index']}  held  {unknown['request_id']}" in (await shell(line)).stdout
    job = shlex.split(line)[2]
    await shell(f"jobs resolve {job} succeeded {unknown['index']} --note asked {KEPT}")
    await shell(LINE)
    assert shell.statuses() == {"succeeded": 20}
    await shell(f"jobs outcomes {job} --out all.csv {KEPT}")
    rows = shell.rows("all.csv")
    assert {row["request_id"]: row["decision_note"] for row in rows if row["decision_note"]} == {
        unknown["request_id"]: "asked"
    }
    assert {row["beneficiary.bank_details.iban"] for row in rows} == {IBAN}
    assert "beneficiary" not in rows[0]
    assert paid(shell, 20) == [1] * 20


async def test_a_payout_of_another_job_is_not_paid_again_however_written(shell: Shell) -> None:
    write_payouts(shell, *map(cells, range(3)))
    assert "payout 3 orders, EUR 30.00 at" in (await shell(ASKED, 2)).stderr
    await shell(f"{LINE} --job payout-{shell.sandbox.merchant_id}-november")
    write_payouts(shell, (key(2).upper(), *cells(2)[1:]), cells(3), cells(4))
    planned = await shell(f"payout payouts.csv --dry-run --again {KEPT}")
    assert "payout 3 orders, EUR 30.00: at least 3 requests" in planned.stdout
    assert f"  request_id {key(2).upper()}, payment_amount 10.00, payment_c" in planned.stdout
    assert "beneficiary.bank_details.iban ***" in planned.stdout
    assert IBAN not in planned.stdout
    for line in (LINE, f"{LINE} --job december"):
        refused = await shell(line, 2)
        stands = f"which stands in job 'payout-{shell.sandbox.merchant_id}-november', and may be"
        assert f"its order 0 has the request_id {key(2).upper()!r}, {stands}" in refused.stderr
    listed = (await shell(f"jobs list {KEPT}")).stdout  # what was refused left no job
    wrong = await shell(f"jobs show nihgt {KEPT}", 2)
    assert "the journal has no job 'nihgt'" in wrong.stderr
    assert (listed.count("payout-"), "december" in listed) == (1, False)
    assert paid(shell, 5) == [1, 1, 1, 0, 0]
    dead = (await shell(f"{LINE} --again", 3, env={"GATEWAY_PROXY": "http://127.0.0.1:9"})).stderr
    (go_on,) = re.findall(r"^  gateway-async (jobs resume .*)$", dead, re.MULTILINE)
    assert "EUR 30.00 at http" in (await shell(go_on, 2)).stderr
    await shell(f"{go_on} --yes")
    assert paid(shell, 5) == [1, 1, 2, 1, 1]
    other = "GB82WEST12345698765432"
    write_payouts(shell, cells(0), (*cells(1)[:-1], other), cells(2))
    differing = (await shell(f"{LINE} --job payout-{shell.sandbox.merchant_id}-november", 2)).stderr
    assert "differs in beneficiary; nothing was changed" in differing


async def test_a_wrong_secret_and_a_dead_gateway_are_told_as_they_are(shell: Shell) -> None:
    write_payouts(shell, *map(cells, range(2)))
    unclear = (await shell(f"{LINE} --job unclear", 3, env={"GATEWAY_SECRET": "wrong"})).stderr
    assert "2 x unknown: for example, ask the gateway" in unclear
    write_payouts(shell, *map(cells, range(2, 4)))
    dialect = '[dialect]\npayout_declined_statuses = ["FAILED"]\n'
    (shell.folder / "config.toml").write_text(dialect)
    line = f"{LINE} --config config.toml --merchant-id M1"
    told = (await shell(line, 1, env={"GATEWAY_SECRET": "wrong"})).stderr
    assert "2 x declined: code UNKNOWN: " in told
    dead = f"{LINE} --again --base-url http://127.0.0.1:9 --concurrency 1"
    assert "; 0 requests sent, 6 attempts repeated; " in (await shell(dead, 3)).stderr
    assert paid(shell, 4) == [0] * 4
