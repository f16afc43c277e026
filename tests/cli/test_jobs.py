"""`jobs`: what a journal holds, decided on and gone on with; and payouts, each made once."""

import csv
import io
import re
import shlex
import uuid
from datetime import datetime, timedelta

from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect, Status
from tests.cli.running import Ended, Shell, names, write
from tests.journal.tables import Tables

KEPT = "--journal sqlite:///j.db"
AT = r"20\d\d-\d\d-\d\d \d\d:\d\d"
CONFIGURED = "--config config.toml"
STOPPING = "--concurrency 1 --stop-after-unknown 1"


async def held(shell: Shell) -> None:
    """Run a job of 60 refunds whose first 50 are held."""
    shell.refunds(60)
    config = f'journal = "sqlite:///{shell.folder}/jobs.db"\n[recovery]\nsettle_seconds = 0.1\n'
    (shell.folder / "config.toml").write_text(config)
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    line = "refund orders.csv --yes --out out.csv --job night --chunk-size 50 --concurrency 1"
    await shell(
        f"{line} --report night.html {CONFIGURED}",
        3,
        "50 held for your decision; see them with:\n  gateway-async jobs show",
        "gateway-async jobs resolve night OUTCOME INDEX --note WHY",
    )
    ended = [("not_sent", "held")] * 50 + [("succeeded", "succeeded")] * 10
    assert [(row["status"], row["state"]) for row in shell.rows()] == ended


async def test_a_job_is_listed_shown_decided_on_and_finished(shell: Shell) -> None:
    await held(shell)
    page = (shell.folder / "night.html").read_text(encoding="utf-8")
    assert ("Decide on them" in page, "Run the job again" in page) == (True, False)

    async def jobs(line: str, code: int = 0, *words: str) -> Ended:
        return await shell(f"jobs {line} {CONFIGURED}", code, *words)

    head = rf"job night of {AT}: refund at {re.escape(shell.sandbox.base_url)}\n"
    row = shell.rows("orders.csv")[7]
    shown = await jobs(
        *("show night", 0, "\n  10 succeeded (EUR 10.00), 50 held (EUR 50.00)\n"),
        f"\n7  held  {row['transaction_id']}  {row['order_no']}  recovery proved ",
    )
    assert re.match(head, shown.stdout)
    assert shown.stdout.count("proved") == 50

    facts = (await jobs("show night --json")).facts
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["created_at"])
    assert (facts["job"], facts["orders"]) == ("night", 60)
    assert facts["states"] == {"succeeded": 10, "held": 50}
    assert facts.pop("amounts") == {"succeeded": {"EUR": "10.00"}, "held": {"EUR": "50.00"}}
    assert facts.pop("in_doubt_count") == 50
    assert facts.pop("in_doubt")[7]["transaction_id"] == row["transaction_id"]
    assert (await jobs("list --json")).facts == [facts]
    ahead = (await shell(f"jobs list {CONFIGURED}", env={"TZ": "UTC-5"})).stdout
    at = datetime.fromisoformat(facts["created_at"]) + timedelta(hours=5)
    assert ahead.startswith(f"job night of {at:%Y-%m-%d %H:%M}: ")
    assert re.fullmatch(rf"{head}  10 succeeded, 50 held\n", ahead)

    config = (shell.folder / "config.toml").read_text() + "resend_absent = true\n"
    (shell.folder / "resending.toml").write_text(config)
    resend = "jobs resume night --out end.csv --config resending.toml"
    await shell(resend, 2, "refund 50 orders, EUR 50.00 at")
    await jobs("resolve night not_sent 7 7 --note 'seen in the portal'", 0, "night: 1 order not_se")
    assert (await jobs("outcomes night --out -", 3)).stdout.count(",held,") == 49
    goes_on = "jobs.db goes on: 10 succeeded, 49 held, 1 new: refund 1 order"
    await jobs("resume night --out end.csv", 2, goes_on)
    show = f"gateway-async jobs show night --config {shell.folder}/config.toml"
    resumed = await jobs("resume night --out end.csv --yes", 3, "49 held for your decision", show)
    assert "go on with" not in resumed.stderr.partition("succeeded")[2]
    end = shell.rows("end.csv")
    assert [int(row["index"]) for row in end] == [*range(60)]
    assert {end[7]["state"], end[7]["status"]} == {"succeeded"}
    assert shell.statuses("end.csv") == {"not_sent": 49, "succeeded": 11}
    done = [shell.sandbox.ledger.effects("refund", row["transaction_id"]) for row in end]
    assert done == [int(row["status"] == "succeeded") for row in end]


async def test_what_a_job_holds_is_not_sent_past_it_until_it_is_decided_on(shell: Shell) -> None:
    await held(shell)
    told = "jobs outcomes night --out held.csv --report held.html"
    elsewhere = {"GATEWAY_BASE_URL": "http://me:hush/hush@gateway.example"}  # not that of the job
    ended = await shell(f"{told} {CONFIGURED}", 3, env=elsewhere)
    counts = "60 orders, 10 succeeded (EUR 10.00), 50 not_sent (EUR 50.00); 0."
    assert ended.stderr.startswith(f"jobs outcomes: {counts}")
    report = (shell.folder / "held.html").read_text(encoding="utf-8")
    assert f"<bdi>{shell.sandbox.base_url.partition('//')[2]}</bdi>" in report
    assert "gateway.example" not in report
    requests = shell.sandbox.requests["refund"]
    for words in ("held.csv --job other", "out.csv"):
        line = f"refund {words} --yes --out o.csv {CONFIGURED}"
        await shell(line, 2, "column in_job: this order is in job 'night': go on")
    assert shell.sandbox.requests["refund"] == requests

    for words, reason in (
        ("declined 49 50 --note no", "resolve order 50, which is 'succeeded': that is final"),
        ("declined --state unknown --note no", "no order is named that could be decided on"),
        ("declined 3 --note ' '", "note: expected a text that says why"),
    ):
        await shell(f"jobs resolve night {words} {CONFIGURED}", 2, reason)
    forties = " ".join(map(str, range(40, 50)))
    for words, done in (
        ("succeeded 3 7 9 --note 'seen in the portal'", "3 orders succeeded"),
        (f"not_sent {forties} --note mistyped", "10 orders not_sent"),
        # a slip is taken back, as nothing was sent
        (f"succeeded {forties} --note seen", "10 orders succeeded"),
        ("declined --state held --state unknown --note no", "37 orders declined"),
    ):
        ended = await shell(f"jobs resolve night {words} {CONFIGURED}")
        assert re.split("[;\n]", ended.stderr)[0] == f"job night: {done}"
    await shell(f"jobs resume night --out end.csv --yes {CONFIGURED}", 1)
    assert [row["state"] for row in shell.rows("end.csv")] == [
        "succeeded" if index in {3, 7, 9, *range(40, 60)} else "declined" for index in range(60)
    ]


async def test_a_job_of_another_release_keeps_no_other_file_from_being_sent(shell: Shell) -> None:
    shell.refunds(1)
    line = f"refund orders.csv --yes --out out.csv {KEPT} --job"
    await shell(f"{line} night")
    change = "UPDATE gateway_orders SET bodies = replace(bodies, 'refund_reason', 'why')"
    Tables(f"sqlite:///{shell.folder}/j.db").run(change)
    shell.refunds(1)
    told = "may have orders of this file, too: job 'night': its orders were stored by"
    await shell(f"{line} day", 0, told)


async def test_a_dry_run_says_how_far_a_job_has_come_and_makes_no_journal(shell: Shell) -> None:
    shell.refunds(3)
    journal = shell.folder / "j.db"
    dry = f"refund orders.csv --dry-run --job night {KEPT}"
    planned = await shell(dry)
    assert planned.stdout.startswith(f"new job night in {journal}\nrefund 3 orders")
    assert names(shell.folder) == ["orders.csv"]
    await shell(f"refund orders.csv --yes --out o.csv --job night {KEPT}")
    before = journal.read_bytes()
    again = await shell(dry, 0, f" in {journal} is done: 3 succeeded\n")
    assert journal.read_bytes() == before
    assert again.stdout.endswith("\nnothing is left to send\n")
    facts = (await shell(f"{dry} --json")).facts
    nothing = {"orders": 0, "amounts": {}, "requests": 0}
    assert {**facts, "job": "night", "states": {"succeeded": 3}, **nothing} == facts

    rows = shell.rows("orders.csv")
    rows[1]["refund_amount"] = "2.00"  # which is another job, and not alike
    write(shell.folder / "orders.csv", [*rows[0]], [[*row.values()] for row in rows])
    for more, code in (("--dry-run", 0), ("--out out.csv", 2)):
        planned = await shell(f"refund orders.csv {KEPT} {more}", code)
        told = planned.stdout + planned.stderr.partition("'customer'\n")[2]
        which = rf"^(gateway-async: )?job night of {AT} has 3 orders of this file "
        done = r"\(3 succeeded\)\nnew job refund-\S+ in "
        assert re.search(f"{which}{done}{journal}", told, re.MULTILINE)


async def test_what_is_left_of_a_job_is_asked_about_and_planned(shell: Shell) -> None:
    shell.refunds(110)
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    job = f"orders.csv --job night {KEPT}"
    await shell(f"refund {job} --yes --out o.csv {STOPPING}", 3)
    assert [row["state"] for row in shell.rows("o.csv")] == ["held"] * 50 + ["new"] * 60
    for line in (f"refund {job}", f"jobs resume night {KEPT}"):
        asked = "goes on: 50 held, 60 new: refund 60 orders, EUR 60.00 at http"
        await shell(f"{line} --out o.csv", 2, asked)
    facts = (await shell(f"refund {job} --dry-run --json")).facts
    assert (facts["orders"], facts["amounts"], facts["requests"]) == (60, {"EUR": "60.00"}, 2)
    first = shell.rows("orders.csv")[50]["transaction_id"]
    await shell(
        *(f"refund {job} --dry-run", 0),
        f"request 1: at most 50 orders, the first of them\n  transaction_id {first}, ",
        "\nrefund 60 orders, EUR 60.00: at least 2 requests",
    )
    shell.sandbox.faults.add("search_refunds", Status(503, times=1))  # recovery's look-up
    repeated = ", 1 attempt repeated; "
    facts = (await shell(f"refund {job} --yes --out o.csv --json", 3, repeated)).facts
    assert (facts["counts"], facts["retries"]) == ({"not_sent": 50, "succeeded": 60}, 1)


async def test_a_job_that_sent_nothing_is_not_named_beside_another(shell: Shell) -> None:
    shell.refunds(3)
    line = f"refund orders.csv --yes --out out.csv --job night {KEPT}"
    await shell(line, 3, env={"GATEWAY_SECRET": "wrong"})
    assert [(row["status"], row["state"]) for row in shell.rows()] == [("not_sent", "new")] * 3
    assert "night" not in (await shell(f"refund orders.csv --dry-run {KEPT}")).stdout


async def test_a_job_from_standard_input_goes_on_from_its_journal(shell: Shell) -> None:
    rows = shell.refunds(60).read_text()
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    stopped = await shell(f"refund - --yes --out - {STOPPING} {KEPT}", 3, stdin=rows)
    resumed = await shell(f"{stopped.advice('jobs resume')} --yes", 3)
    found = [row["status"] for row in csv.DictReader(io.StringIO(resumed.stdout))]
    assert (found.count("succeeded"), len(found)) == (10, 60), resumed.stderr


# Payouts

IBAN = "DE89370400440532013000"
HEADER = (
    *("request_id", "payment_amount", "payment_currency", "payment_date", "note"),
    *("beneficiary.company_name", "beneficiary.bank_details.iban"),
)
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
    show = again.advice("jobs show")
    await shell(show, 0, f"{unknown['index']}  held  {unknown['request_id']}")
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
    await shell(f"{LINE} --job december", 2, f"{refused}, and may be")
    listed = (await shell(f"jobs list {KEPT}")).stdout  # what was refused left no job
    await shell(f"jobs show nihgt {KEPT}", 2, "the journal has no job 'nihgt'")
    assert (listed.count("payout-"), "december" in listed) == (1, False)
    assert paid(shell, 5) == [1, 1, 1, 0, 0]
    dead = await shell(f"{LINE} --again", 3, env={"GATEWAY_PROXY": "http://127.0.0.1:9"})
    go_on = dead.advice("jobs resume")
    await shell(f"{go_on} --yes")
    assert paid(shell, 5) == [1, 1, 2, 1, 1]
    other = "GB82WEST12345698765432"
    write_payouts(shell, cells(0), (*cells(1)[:-1], other), cells(2))
    await shell(f"{LINE} --job {november}", 2, "differs in beneficiary; nothing was changed")
