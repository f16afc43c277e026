"""`jobs`: what a journal holds, decided on and gone on with."""

import csv
import io
import json
import re
from collections import Counter

from gateway_async.sandbox.faults import ResetBeforeEffect, Status
from tests.cli.running import Ended, Shell, names, write
from tests.journal.tables import Tables

KEPT = "--journal sqlite:///j.db"
UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
CONFIGURED = "--config config.toml"


async def held(shell: Shell) -> Ended:
    """Run a job of 60 refunds whose first 50 are held."""
    shell.refunds(60)
    config = f'journal = "sqlite:///{shell.folder}/jobs.db"\n[recovery]\nsettle_seconds = 0.1\n'
    (shell.folder / "config.toml").write_text(config)
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    line = "refund orders.csv --yes --out out.csv --job night --chunk-size 50 --concurrency 1"
    ran = await shell(f"{line} --report night.html {CONFIGURED}", 3)
    assert shell.statuses() == {"not_sent": 50, "succeeded": 10}, ran.stderr
    assert {(row["status"], row["state"]) for row in shell.rows()} == {
        ("not_sent", "held"),
        ("succeeded", "succeeded"),
    }
    return ran


async def test_a_job_is_listed_shown_decided_on_and_finished(shell: Shell) -> None:
    ran = await held(shell)
    assert (
        "50 held for your decision, 0 not known yet; see them with:\n  gateway-async jobs show"
        in ran.stderr
    )
    decide = "gateway-async jobs resolve night OUTCOME INDEX --note WHY"
    assert decide in ran.stderr
    page = (shell.folder / "night.html").read_text(encoding="utf-8")
    assert "Decide on them" in page
    assert "Run the job again" not in page

    async def jobs(line: str, code: int = 0) -> Ended:
        return await shell(f"jobs {line} {CONFIGURED}", code)

    listed = await jobs("list")
    at, url = r"20\d\d-\d\d-\d\d \d\d:\d\d", re.escape(shell.sandbox.base_url)
    assert re.fullmatch(
        rf"job night of {at}: refund at {url}\n  10 succeeded, 50 held\n", listed.stdout
    )
    shown = await jobs("show night")
    assert re.match(rf"job night of {at}: refund at {url}\n", shown.stdout)
    assert "\n  10 succeeded (EUR 10.00), 50 held (EUR 50.00)\n" in shown.stdout
    row = shell.rows("orders.csv")[7]
    held_order = f"\n7  held  {row['transaction_id']}  {row['order_no']}  recovery proved "
    assert held_order in shown.stdout
    assert shown.stdout.count("proved") == 50

    facts = json.loads((await jobs("show night --json")).stdout)
    assert re.fullmatch(UTC, facts["created_at"])
    assert (facts["job"], facts["orders"], facts["in_doubt_count"]) == ("night", 60, 50)
    assert facts["states"] == {"succeeded": 10, "held": 50}
    assert facts["in_doubt"][7]["transaction_id"] == row["transaction_id"]
    assert facts["amounts"] == {"succeeded": {"EUR": "10.00"}, "held": {"EUR": "50.00"}}
    kept = {name: facts[name] for name in facts if name not in ("in_doubt", "in_doubt_count")}
    del kept["amounts"]
    assert json.loads((await jobs("list --json")).stdout) == [kept]

    config = (shell.folder / "config.toml").read_text() + "resend_absent = true\n"
    (shell.folder / "resending.toml").write_text(config)
    resent = await shell("jobs resume night --out end.csv --config resending.toml", 2)
    assert "refund 50 orders, EUR 50.00 at" in resent.stderr
    await jobs("resolve night not_sent 7 --note 'seen in the portal'")
    written = await jobs("outcomes night --out -", 3)
    assert written.stdout.count(",held,") == 49
    refused = await jobs("resume night --out end.csv", 2)
    assert "jobs.db goes on: 10 succeeded, 49 held, 1 new: refund 1 order" in refused.stderr
    resumed = await jobs("resume night --out end.csv --yes", 3)
    assert "49 held for your decision" in resumed.stderr
    assert "go on with" not in resumed.stderr.partition("succeeded")[2]
    assert f"gateway-async jobs show night --config {shell.folder}/config.toml" in resumed.stderr
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
    for words in ("held.csv", "held.csv --job other", "out.csv"):
        refused = await shell(f"refund {words} --yes --out o.csv {CONFIGURED}", 2)
        assert "column in_job: this order is in job 'night': go on" in refused.stderr
    assert shell.sandbox.requests["refund"] == requests

    async def resolve(words: str, code: int = 0) -> str:
        return (await shell(f"jobs resolve night {words} {CONFIGURED}", code)).stderr

    async def states() -> list[str]:
        await shell(f"jobs outcomes night --out states.csv {CONFIGURED}", 3)
        return [row["state"] for row in shell.rows("states.csv")]

    before = ["held"] * 50 + ["succeeded"] * 10
    for words, reason in (
        ("declined 49 50 --note no", "resolve order 50, which is 'succeeded': that is final"),
        ("declined 0 60 --note no", "job 'night' has no order 60"),
        ("declined 3 a-b --note no", 'unable to convert "a-b" into int'),
        ("declined 3 --state held --note no", "expected orders, or --state, and not both"),
        ("succeed 3 --note no", "succeed"),
        ("declined --note no", "expected orders, or --state, and not both"),
        ("declined --state unknown --note no", "no order is named that could be decided on"),
        ("declined 3", "--note"),
        ("declined 3 --note ' '", "note: expected a text that says why"),
    ):
        assert reason in await resolve(words, 2)
    assert await states() == before

    done = await resolve("declined 3 7 9 11 12 13 --note 'not theirs'")
    assert done == "job night: 6 orders declined\n"
    declined = {3, 7, 9, 11, 12, 13}
    assert await states() == ["declined" if i in declined else s for i, s in enumerate(before)]
    await resolve(f"not_sent {' '.join(map(str, range(40, 50)))} --note mistyped")
    done = await resolve(f"succeeded {' '.join(map(str, range(40, 50)))} --note seen")
    assert done == "job night: 10 orders succeeded\n"  # a slip is taken back, as nothing was sent
    done = await resolve("declined --state held --state unknown --note no")
    assert done == "job night: 34 orders declined\n"
    await shell(f"jobs resume night --out end.csv --yes {CONFIGURED}", 1)
    assert shell.statuses("end.csv") == {"succeeded": 20, "declined": 40}


async def test_a_job_of_another_release_keeps_no_other_file_from_being_sent(shell: Shell) -> None:
    shell.refunds(1)
    line = f"refund orders.csv --yes --out out.csv {KEPT} --job"
    await shell(f"{line} night")
    change = "UPDATE gateway_orders SET bodies = replace(bodies, 'refund_reason', 'why')"
    Tables(f"sqlite:///{shell.folder}/j.db").run(change)
    shell.refunds(1)
    told = (await shell(f"{line} day")).stderr
    assert "may have orders of this file, too: job 'night': its orders were stored by" in told


async def test_a_dry_run_says_how_far_a_job_has_come_and_makes_no_journal(shell: Shell) -> None:
    shell.refunds(3)
    journal = shell.folder / "j.db"

    async def dry(more: str = "") -> Ended:
        line = f"refund orders.csv --dry-run --job night {KEPT} {more}"
        return await shell(line)

    assert (await dry()).stdout.startswith(f"new job night in {journal}\nrefund 3 orders")
    assert names(shell.folder) == ["orders.csv"]
    await shell(f"refund orders.csv --yes --out o.csv --job night {KEPT}")
    before = journal.read_bytes()
    again = await dry()
    assert f" in {journal} is done: 3 succeeded\n" in again.stdout
    assert journal.read_bytes() == before
    assert again.stdout.endswith("\nnothing is left to send\n")
    facts = json.loads((await dry("--json")).stdout)
    assert (facts["job"], facts["states"]) == ("night", {"succeeded": 3})
    nothing = {"orders": 0, "amounts": {}, "requests": 0}
    assert {name: facts[name] for name in nothing} == nothing

    rows = shell.rows("orders.csv")
    rows[1]["refund_amount"] = "2.00"  # which is another job, and not alike
    write(shell.folder / "orders.csv", [*rows[0]], [[*row.values()] for row in rows])
    for more, code in (("--dry-run", 0), ("--out out.csv", 2)):
        planned = await shell(f"refund orders.csv {KEPT} {more}", code)
        which = r"^(gateway-async: )?job night of 20[-0-9]+ [0-9:]+ has 3 orders of this file "
        told = planned.stdout + planned.stderr.partition("'customer'\n")[2]
        done = r"\(3 succeeded\)\nnew job refund-\S+ in "
        assert re.search(f"{which}{done}{journal}", told, re.MULTILINE)


async def test_what_is_left_of_a_job_is_asked_about_and_planned(shell: Shell) -> None:
    shell.refunds(110)
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    stopping = "--concurrency 1 --stop-after-unknown 1"
    await shell(f"refund orders.csv --yes --out o.csv --job night {KEPT} {stopping}", 3)
    assert Counter(row["state"] for row in shell.rows("o.csv")) == {"held": 50, "new": 60}
    for line in ("refund orders.csv --job night", "jobs resume night"):
        asked = await shell(f"{line} --out o.csv {KEPT}", 2)
        assert "goes on: 50 held, 60 new: refund 60 orders, EUR 60.00 at http" in asked.stderr
    line = f"refund orders.csv --job night --dry-run {KEPT}"
    facts = json.loads((await shell(f"{line} --json")).stdout)
    assert (facts["orders"], facts["amounts"], facts["requests"]) == (60, {"EUR": "60.00"}, 2)
    planned = (await shell(line)).stdout
    first = shell.rows("orders.csv")[50]["transaction_id"]
    shown = f"request 1: 50 orders, the first of them\n  transaction_id {first}, "
    assert shown in planned
    assert "\nrefund 60 orders, EUR 60.00: at least 2 requests" in planned

    shell.sandbox.faults.add("search_refunds", Status(503, times=1))  # recovery's look-up
    line = f"refund orders.csv --yes --out o.csv --job night {KEPT} --json"
    facts = json.loads((await shell(line, 3)).stdout)
    assert (facts["counts"], facts["retries"]) == ({"not_sent": 50, "succeeded": 60}, 1)


async def test_a_job_that_sent_nothing_is_not_named_beside_another(shell: Shell) -> None:
    shell.refunds(3)
    line = f"refund orders.csv --yes --out out.csv --job night {KEPT}"
    await shell(line, 3, env={"GATEWAY_SECRET": "wrong"})
    assert [(row["status"], row["state"]) for row in shell.rows()] == [("not_sent", "new")] * 3
    planned = await shell(f"refund orders.csv --dry-run {KEPT}")
    assert "night" not in planned.stdout


async def test_a_job_from_standard_input_goes_on_from_its_journal(shell: Shell) -> None:
    rows = shell.refunds(60).read_text()
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    line = f"refund - --yes --out - --concurrency 1 --stop-after-unknown 1 {KEPT}"
    stopped = await shell(line, 3, stdin=rows)
    (printed,) = re.findall(r"^  gateway-async (jobs resume .*)$", stopped.stderr, re.MULTILINE)
    resumed = await shell(f"{printed} --yes", 3)
    found = [row["status"] for row in csv.DictReader(io.StringIO(resumed.stdout))]
    assert (found.count("succeeded"), len(found)) == (10, 60), resumed.stderr
