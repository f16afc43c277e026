"""`jobs`: what a journal holds, decided on and gone on with."""

import csv
import io
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway_async import RefundOrder
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.cli.running import Ended, names, outcomes, run, start, statuses, write, write_refunds
from tests.journal.tables import submit

KEPT = ("--journal", "sqlite:///j.db")
REFUND = ("refund", "orders.csv", "--yes", "--out", "o.csv")
UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
CONFIGURED = ("--config", "config.toml")


async def held(sandbox: Sandbox, cwd: Path) -> Ended:
    """Run a job of 60 refunds whose first 50 are held."""
    write_refunds(sandbox, cwd / "orders.csv", 60)
    config = f'journal = "sqlite:///{cwd}/jobs.db"\n[recovery]\nsettle_seconds = 0.1\n'
    (cwd / "config.toml").write_text(config)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    ran = await run(
        *(sandbox, "refund", "orders.csv", "--yes", "--out", "out.csv", "--job", "night"),
        *("--chunk-size", 50, "--concurrency", 1, "--report", "night.html", *CONFIGURED),
        cwd=cwd,
    )
    assert statuses(cwd / "out.csv") == {"not_sent": 50, "succeeded": 10}, ran.stderr
    return ran


async def test_a_job_is_listed_shown_decided_on_and_finished(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    ran = await held(sandbox, tmp_path)
    assert ran.code == 3, ran.stderr
    assert "50 orders are held for your decision" in ran.stderr
    assert "gateway-async jobs show night" in ran.stderr
    page = (tmp_path / "night.html").read_text(encoding="utf-8")
    assert "Decide on them" in page
    assert "Run the job again" not in page

    async def jobs(*words: object) -> Ended:
        return await run(sandbox, "jobs", *words, *CONFIGURED, cwd=tmp_path)

    listed = await jobs()
    assert "night  refund" in listed.stdout
    assert "10 succeeded, 50 held" in listed.stdout
    shown = await jobs("show", "night")
    row = outcomes(tmp_path / "orders.csv")[7]
    (line,) = [line for line in shown.stdout.splitlines() if row["transaction_id"] in line]
    assert line.split()[:2] == ["7", "held"]
    assert "proved" in shown.stdout

    facts = json.loads((await jobs("show", "night", "--json")).stdout)
    assert re.fullmatch(UTC, facts["created_at"])
    assert (facts["job"], facts["orders"], facts["in_doubt_count"]) == ("night", 60, 50)
    assert facts["states"] == {"succeeded": 10, "held": 50}
    assert facts["in_doubt"][7]["transaction_id"] == row["transaction_id"]
    kept = {name: facts[name] for name in facts if name not in ("in_doubt", "in_doubt_count")}
    assert json.loads((await jobs("list", "--json")).stdout) == [kept]

    resolved = await jobs("resolve", "night", 7, "not_sent", "--note", "seen in the portal")
    assert resolved.code == 0, resolved.stderr
    written = await jobs("outcomes", "night", "--state", "held", "--out", "-")
    assert len(written.stdout.splitlines()) == 1 + 49

    refused = await jobs("resume", "night", "--out", "end.csv")
    assert refused.code == 2
    assert "jobs.db goes on: 1 new, 10 succeeded, 49 held: refund 1 order" in refused.stderr
    resumed = await jobs("resume", "night", "--out", "end.csv", "--yes")
    assert resumed.code == 3, resumed.stderr
    assert "49 orders are held" in resumed.stderr
    assert "go on with" not in resumed.stderr.partition("succeeded")[2]
    assert f"gateway-async jobs show night --config {tmp_path}/config.toml" in resumed.stderr
    end = outcomes(tmp_path / "end.csv")
    assert [int(row["index"]) for row in end] == [*range(60)]
    assert {end[7]["state"], end[7]["status"]} == {"succeeded"}
    assert statuses(tmp_path / "end.csv") == {"not_sent": 49, "succeeded": 11}
    done = [sandbox.ledger.effects("refund", row["transaction_id"]) for row in end]
    assert done == [int(row["status"] == "succeeded") for row in end]


async def test_what_a_job_holds_is_not_sent_past_it_until_many_orders_are_decided_on(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    await held(sandbox, tmp_path)
    told = ("jobs", "outcomes", "night", "--state", "held", "--out", "held.csv", *CONFIGURED)
    elsewhere = {"GATEWAY_BASE_URL": "http://me:hush/hush@gateway.example"}  # not that of the job
    process = await start(None, *told, "--report", "held.html", cwd=tmp_path, env=elsewhere)
    assert (await process.communicate())[1] == b"report: held.html\n"
    report = (tmp_path / "held.html").read_text(encoding="utf-8")
    assert process.returncode == 0
    assert f"<bdi>{sandbox.base_url.partition('//')[2]}</bdi>" in report
    assert "gateway.example" not in report
    requests = sandbox.requests["refund"]
    for path, more in (("held.csv", ()), ("held.csv", ("--job", "other")), ("out.csv", ())):
        line = ("refund", path, "--yes", "--out", "o.csv", *more, *CONFIGURED)
        refused = await run(sandbox, *line, cwd=tmp_path)
        assert refused.code == 2
        assert "column in_job: this order is in job 'night': go on" in refused.stderr
        assert "jobs resume" in refused.stderr
    assert sandbox.requests["refund"] == requests

    async def resolve(*words: object) -> Ended:
        return await run(sandbox, "jobs", "resolve", "night", *words, *CONFIGURED, cwd=tmp_path)

    async def states() -> list[str]:
        every = ("jobs", "outcomes", "night", "--out", "states.csv", *CONFIGURED)
        assert (await run(sandbox, *every, cwd=tmp_path)).code == 0
        return [row["state"] for row in outcomes(tmp_path / "states.csv")]

    before = ["held"] * 50 + ["succeeded"] * 10
    for words, reason in (
        ("45-55 declined --note no", "order 50 of job 'night' is 'succeeded'"),
        ("0 60 declined --note no", "no order '60'; its 60 orders count from 0 to 59"),
        ("9-3 declined --note no", "job night has no order '9-3'"),
        ("3- declined --note no", "job night has no order '3-'"),
        ("declined --note no", "name the orders and then their outcome"),
        ("3 --note no", "one of succeeded, declined, not_sent, unknown"),
        ("--note no", "name the orders and then their outcome"),
        ("55-59 declined --note no --state held", "job night has no held order '55'"),
        ("3 declined", "note: expected a text that says why"),
    ):
        refused = await resolve(*words.split())
        assert refused.code == 2
        assert reason in refused.stderr
    assert await states() == before

    done = await resolve("3", "7", "9", "11-13", "declined", "--note", "not theirs")
    assert "job night: 6 orders are declined: 3 (order_no S00000004), 7 (" in done.stderr
    assert done.stderr.endswith(" and 1 more\n")
    declined = {3, 7, 9, 11, 12, 13}
    assert await states() == ["declined" if i in declined else s for i, s in enumerate(before)]
    done = await resolve("40-59", "succeeded", "--state", "held", "--note", "seen")
    assert "10 orders are succeeded" in done.stderr
    await resolve("declined", "--state", "held", "--state", "unknown", "--note", "no")
    resume = ("jobs", "resume", "night", "--out", "end.csv", "--yes", *CONFIGURED)
    again = await run(sandbox, *resume, cwd=tmp_path)
    assert again.code == 1, again.stderr
    assert statuses(tmp_path / "end.csv") == {"succeeded": 20, "declined": 40}

    page = ("--report", "declined.html", *CONFIGURED)
    declined_ones = (*told[:3], "--state", "declined", "--out", "declined.csv", *page)
    assert (await run(sandbox, *declined_ones, cwd=tmp_path)).code == 0
    rows = outcomes(tmp_path / "declined.csv")
    assert {row["error"] for row in rows} == {
        "decided by a person: no",
        "decided by a person: not theirs",
    }
    assert "or a person decided so" in (tmp_path / "declined.html").read_text(encoding="utf-8")
    columns = [name for name in rows[0] if name != "in_job"]  # what was declined may be sent
    write(tmp_path / "again.csv", columns, [[row[name] for name in columns] for row in rows])
    line = ("refund", "again.csv", "--yes", "--out", "o.csv", *CONFIGURED)
    sent = await run(sandbox, *line, cwd=tmp_path)
    assert sent.code == 0, sent.stderr
    assert statuses(tmp_path / "o.csv") == {"succeeded": 40}


async def test_a_job_that_was_never_submitted_to_its_end_is_not_done(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    async def killed() -> AsyncIterator[list[RefundOrder]]:
        yield []
        raise EOFError

    async with Journal.open(f"sqlite:///{tmp_path}/j.db") as journal:
        whose = sandbox.merchant_id, sandbox.account_id, ""
        with pytest.raises(EOFError):
            await submit(journal.job("night"), killed(), whose=whose)
    line = ("jobs", "resume", "night", "--out", "out.csv", "--yes", *KEPT)
    resumed = await run(sandbox, *line, cwd=tmp_path)
    assert resumed.code != 0
    assert "was not submitted to its end: submit all of its orders again" in resumed.stderr


async def test_a_job_in_slices_is_left_to_workers(sandbox: Sandbox, tmp_path: Path) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    submit = ("submit", "orders.csv", "--job", "night", "--yes", *KEPT)
    kept = await run(sandbox, *submit, cwd=tmp_path)
    assert kept.code == 0, kept.stderr
    resume = ("jobs", "resume", "night", "--out", "o.csv", "--yes", *KEPT)
    for line in ((*REFUND, "--job", "night", *KEPT), resume):
        refused = await run(sandbox, *line, cwd=tmp_path)
        assert refused.code == 2, refused.stderr
        assert "is left to workers: 3 new. `submit` cut it into slices, which" in refused.stderr
    assert sandbox.requests["refund"] == 0


async def test_a_dry_run_says_how_far_a_job_has_come_and_makes_no_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    dry = ("refund", "orders.csv", "--dry-run", "--job", "night", *KEPT)
    new = await run(None, *dry, cwd=tmp_path)
    assert (new.code, new.stderr) == (0, f"new job night in {tmp_path}/j.db\n")
    assert names(tmp_path) == ["orders.csv"]

    assert (await run(sandbox, *REFUND, "--job", "night", *KEPT, cwd=tmp_path)).code == 0
    before = (tmp_path / "j.db").read_bytes()
    again = await run(None, *dry, cwd=tmp_path)
    done = "is done: 3 succeeded; nothing would be sent"
    assert (again.code, again.stderr.endswith(f" in {tmp_path}/j.db {done}\n")) == (0, True)
    assert (tmp_path / "j.db").read_bytes() == before
    assert "3 orders, EUR" in again.stdout
    assert "in the file, 0 of them new" in again.stdout
    assert "request 1" not in again.stdout
    facts = json.loads((await run(None, *dry, "--json", cwd=tmp_path)).stdout)
    assert (facts["job"], facts["states"], facts["requests"]) == ("night", {"succeeded": 3}, 0)

    (tmp_path / "j.db").write_text("no journal")
    broken = await run(None, *dry, cwd=tmp_path)
    assert broken.code == 0
    assert broken.stderr.startswith("warning: the job was not looked for: ")


async def test_a_job_from_standard_input_goes_on_from_its_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 60)
    rows = (tmp_path / "orders.csv").read_text()
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1, *KEPT)
    line = ("refund", "-", "--yes", "--out", "-", *stopping)
    stopped = await run(sandbox, *line, cwd=tmp_path, stdin=rows)
    assert stopped.code == 3, stopped.stderr
    (printed,) = re.findall(r"^  (gateway-async jobs resume .*)$", stopped.stderr, re.MULTILINE)
    resumed = await run(sandbox, *shlex.split(printed)[1:], "--yes", cwd=tmp_path)
    found = [row["status"] for row in csv.DictReader(io.StringIO(resumed.stdout))]
    assert (found.count("succeeded"), len(found)) == (10, 60), resumed.stderr
