"""`payout`: every payout once, by its `request_id`."""

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
    line = f"{LINE} --concurrency 1000 --report n.html"
    told = await shell(line, 3, "1 held for your decision", " OUTCOME INDEX")
    job = shlex.split(told.advice("jobs resolve"))[2]
    assert "go on with" not in told.stderr
    page = (shell.folder / "n.html").read_text(encoding="utf-8")
    assert "which have no payouts and reviews" in page
    rows = shell.rows()
    assert [row["note"] for row in rows] == [f"note {number}" for number in range(20)]
    (unknown,) = [row for row in rows if row["status"] == "unknown"]
    assert unknown["request_id"] in unknown["error"]
    assert {row["record_status"] for row in rows if row is not unknown} == {"COMPLETED"}

    again = await shell(f"{LINE} --again", 3, "goes on: 19 succeeded, 1 held")
    line = again.advice("jobs show")
    await shell(line, 0, f"{unknown['index']}  held  {unknown['request_id']}")
    given = (shell.folder / "payouts.csv").read_text().splitlines(keepends=True)
    (shell.folder / "fewer.csv").write_text("".join(given[:-1]))  # which is another job
    fewer = f"payout fewer.csv --again --out fewer.out.csv {KEPT}"
    for more in ("--yes", "--dry-run"):
        await shell(
            f"{fewer} {more}", 2, "are in doubt; decide on them first\njob payout-", "1 held"
        )
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
    await shell(ASKED, 2, "payout 3 orders, EUR 30.00 at")
    november = f"payout-{shell.sandbox.merchant_id}-november"
    await shell(f"{LINE} --job {november}")
    write_payouts(shell, (key(2).upper(), *cells(2)[1:]), cells(3), cells(4))
    planned = await shell(
        *(f"payout payouts.csv --dry-run --again {KEPT}", 0),
        "payout 3 orders, EUR 30.00: at least 3 requests",
        f"  request_id {key(2).upper()}, payment_amount 10.00, payment_c",
        "beneficiary.bank_details.iban ***",
    )
    assert IBAN not in planned.stdout
    refused = f"its order 0 has the request_id {key(2).upper()!r}, which stands in job {november!r}"
    for line in (LINE, f"{LINE} --job december"):
        await shell(line, 2, f"{refused}, and may be")
    listed = (await shell(f"jobs list {KEPT}")).stdout  # what was refused left no job
    await shell(f"jobs show nihgt {KEPT}", 2, "the journal has no job 'nihgt'")
    assert (listed.count("payout-"), "december" in listed) == (1, False)
    assert paid(shell, 5) == [1, 1, 1, 0, 0]
    dead = await shell(f"{LINE} --again", 3, env={"GATEWAY_PROXY": "http://127.0.0.1:9"})
    go_on = dead.advice("jobs resume")
    await shell(go_on, 2, "EUR 30.00 at http")
    await shell(f"{go_on} --yes")
    assert paid(shell, 5) == [1, 1, 2, 1, 1]
    other = "GB82WEST12345698765432"
    write_payouts(shell, cells(0), (*cells(1)[:-1], other), cells(2))
    await shell(f"{LINE} --job {november}", 2, "differs in beneficiary; nothing was changed")


async def test_a_wrong_secret_and_a_dead_gateway_are_told_as_they_are(shell: Shell) -> None:
    write_payouts(shell, *map(cells, range(2)))
    unclear, wrong = "2 x unknown: for example, ask the gateway", {"GATEWAY_SECRET": "wrong"}
    await shell(f"{LINE} --job unclear", 3, unclear, env=wrong)
    write_payouts(shell, *map(cells, range(2, 4)))
    dialect = '[dialect]\npayout_declined_statuses = ["FAILED"]\n'
    (shell.folder / "config.toml").write_text(dialect)
    line = f"{LINE} --config config.toml --merchant-id M1"
    await shell(line, 1, "2 x declined: code UNKNOWN: ", env=wrong)
    dead = f"{LINE} --again --base-url http://127.0.0.1:9 --concurrency 1"
    await shell(dead, 3, "; 0 requests sent, 6 attempts repeated; ")
    assert paid(shell, 4) == [0] * 4
