"""`jobs`: what a journal holds, decided on and gone on with."""

import json
import re
import shlex
from pathlib import Path

import pytest

from gateway_async.cli.app import run as run_here
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.cli.running import (
    REFUND_COLUMNS,
    Ended,
    names,
    outcomes,
    run,
    statuses,
    write,
    write_refunds,
)

NOWHERE = ("--journal", "sqlite:///j.db")
REFUND = ("refund", "orders.csv", "--yes", "--out", "o.csv")
CONFIG = 'journal = "sqlite:///jobs.db"\n[recovery]\nsettle_seconds = 0.1\n'


async def test_a_job_is_listed_shown_decided_on_and_finished(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 60)
    (tmp_path / "config.toml").write_text(CONFIG)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    configured = ("--config", "config.toml")
    ran = await run(
        *(sandbox, "refund", "orders.csv", "--yes", "--out", "out.csv", "--job", "night"),
        *("--chunk-size", 50, "--concurrency", 1, "--report", "night.html", *configured),
        cwd=tmp_path,
    )
    assert ran.code == 3, ran.stderr
    assert "50 are held: they wait for your decision" in ran.stderr
    page = (tmp_path / "night.html").read_text(encoding="utf-8")
    assert "Decide on it" in page
    assert "Run the job again" not in page
    assert statuses(tmp_path / "out.csv") == {"not_sent": 50, "succeeded": 10}
    assert "gateway-async jobs show night" in ran.stderr

    listed = await run(sandbox, "jobs", *configured, cwd=tmp_path)
    assert "night  refund" in listed.stdout
    assert "10 succeeded, 50 held" in listed.stdout

    shown = await run(sandbox, "jobs", "show", "night", *configured, cwd=tmp_path)
    row = outcomes(tmp_path / "orders.csv")[7]
    (line,) = [line for line in shown.stdout.splitlines() if row["transaction_id"] in line]
    assert line.split()[:2] == ["7", "held"]
    assert "proved" in shown.stdout

    machine = await run(sandbox, "jobs", "show", "night", "--json", *configured, cwd=tmp_path)
    facts = json.loads(machine.stdout)
    assert (facts["job"], facts["orders"], facts["in_doubt_count"]) == ("night", 60, 50)
    assert facts["states"] == {"succeeded": 10, "held": 50}
    assert facts["in_doubt"][7]["transaction_id"] == row["transaction_id"]
    listed = await run(sandbox, "jobs", "list", "--json", *configured, cwd=tmp_path)
    only_shown = {"in_doubt", "in_doubt_count"}
    assert json.loads(listed.stdout) == [
        {name: fact for name, fact in facts.items() if name not in only_shown}
    ]

    resolved = await run(
        *(sandbox, "jobs", "resolve", "night", 7, "not_sent", "--note", "seen in the portal"),
        *configured,
        cwd=tmp_path,
    )
    assert resolved.code == 0, resolved.stderr

    written = await run(
        *(sandbox, "jobs", "outcomes", "night", "--state", "held", "--out", "-", *configured),
        cwd=tmp_path,
    )
    assert len(written.stdout.splitlines()) == 1 + 49

    asked = ("jobs", "resume", "night", "--out", "end.csv", *configured)
    refused = await run(sandbox, *asked, cwd=tmp_path)
    assert refused.code == 2
    assert "jobs.db goes on: 1 new, 10 succeeded, 49 held: refund 1 order" in refused.stderr
    resumed = await run(sandbox, *asked, "--yes", cwd=tmp_path)
    assert resumed.code == 3, resumed.stderr
    assert "49 are held" in resumed.stderr
    assert "go on with" not in resumed.stderr.partition("succeeded")[2]
    assert f"gateway-async jobs show night --config {tmp_path}/config.toml" in resumed.stderr
    end = outcomes(tmp_path / "end.csv")
    assert [int(row["index"]) for row in end] == [*range(60)]
    assert {end[7]["state"], end[7]["status"]} == {"succeeded"}
    assert statuses(tmp_path / "end.csv") == {"not_sent": 49, "succeeded": 11}
    done = [sandbox.ledger.effects("refund", row["transaction_id"]) for row in end]
    assert done == [int(row["status"] == "succeeded") for row in end]


async def test_another_file_under_the_same_name_sends_nothing(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    write_refunds(sandbox, tmp_path / "orders.csv", 2)
    write_refunds(sandbox, tmp_path / "others.csv", 2)
    job = ("--yes", "--job", "night", "--config", "config.toml", "--out")
    first = await run(sandbox, "refund", "orders.csv", *job, "out.csv", cwd=tmp_path)
    assert first.code == 0, first.stderr
    before = sandbox.requests["refund"]
    second = await run(sandbox, "refund", "others.csv", *job, "other.csv", cwd=tmp_path)
    assert second.code == 2, second.stderr
    assert "which differs in " in second.stderr
    assert sandbox.requests["refund"] == before
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs",), "there is no journal sqlite:////"),
        (("jobs", "list"), "there is no journal sqlite:////"),
        (("jobs", "--journal", "sqlite:///j.db"), "there is no journal sqlite:////"),
        (("jobs", "show", "night", "--journal", "sqlite:///j.db"), "there is no journal"),
        (("jobs", "outcomes", "night", "--out", "o.csv", *NOWHERE), "there is no journal"),
        (("jobs", "resolve", "night", "1", "declined", "--note", "x", *NOWHERE), "no journal"),
        (("jobs", "resume", "night", "--out", "o.csv", *NOWHERE), "there is no journal"),
        (("watch", "night", *NOWHERE), "there is no journal"),
        ((*REFUND, "--job", "", *NOWHERE), "job: expected a name"),
        ((*REFUND, "--job", "night", "--journal", "mysql://db/x"), "the scheme 'mysql'"),
        (("jobs", "--journal", "postgresql://me:word@db/x"), "a password in an option shows"),
        (("jobs", "--journal", "postgresql://me:a/word@db/x"), "a password in an option shows"),
        (("jobs", "--journal", "postgresql://db/x?sslPassword=word@"), "a password in an option"),
        (("jobs", "night"), "night"),
    ],
)
def test_what_is_wrong_with_a_journal_is_said(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID", "SECRET"):
        monkeypatch.setenv(f"GATEWAY_{name}", "http://127.0.0.1:1")
    write(tmp_path / "orders.csv", REFUND_COLUMNS, [("T1", "O1", "EUR", "1", "1", "")])
    assert run_here(list(arguments)) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "word@" not in said
    assert names(tmp_path) == ["orders.csv"]


async def held(sandbox: Sandbox, cwd: Path, orders: int = 60) -> tuple[str, ...]:
    """Leave a job whose orders are held, 10 in the end excepted; return the options for it."""
    write_refunds(sandbox, cwd / "orders.csv", orders)
    (cwd / "config.toml").write_text(CONFIG)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    ran = await run(
        *(sandbox, "refund", "orders.csv", "--yes", "--out", "out.csv", "--job", "night"),
        *("--chunk-size", 50, "--concurrency", 1, "--config", "config.toml"),
        cwd=cwd,
    )
    assert statuses(cwd / "out.csv") == {"not_sent": 50, "succeeded": 10}, ran.stderr
    return ("--config", "config.toml")


async def test_several_orders_are_decided_on_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    configured = await held(sandbox, tmp_path)

    async def resolve(*words: object) -> Ended:
        return await run(sandbox, "jobs", "resolve", "night", *words, *configured, cwd=tmp_path)

    async def states() -> list[str]:
        told = ("jobs", "outcomes", "night", "--out", "states.csv", *configured)
        assert (await run(sandbox, *told, cwd=tmp_path)).code == 0
        return [row["state"] for row in outcomes(tmp_path / "states.csv")]

    before = ["held"] * 50 + ["succeeded"] * 10
    for words, reason in (
        (("45-55", "declined", "--note", "no"), "order 50 of job 'night' is 'succeeded'"),
        (("0", "60", "declined", "--note", "no"), "has 60 orders, from 0 to 59; there is no 60"),
        (("9-3", "declined", "--note", "no"), "the lower position first, got '9-3'"),
        (("3-", "declined", "--note", "no"), "such as 17 or 151-199, got '3-'"),
        (("declined", "--note", "no"), "index: say which orders"),
        (("3", "--note", "no"), "status: expected one of succeeded, declined, not_sent, unknown"),
        (("--note", "no"), "status: expected one of"),
        (("55-59", "declined", "--note", "no", "--state", "held"), "no order of them in job night"),
        (("3", "declined"), "--note: say why, such as"),
    ):
        refused = await resolve(*words)
        assert refused.code == 2
        assert reason in refused.stderr
    assert await states() == before

    done = await resolve("3", "7,9", "11-13", "declined", "--note", "not theirs")
    assert "job night: 6 orders are declined: 3 (order_no S00000004), 7 (" in done.stderr
    assert done.stderr.endswith(" and 1 more\n")
    declined = {3, 7, 9, 11, 12, 13}
    assert await states() == ["declined" if i in declined else s for i, s in enumerate(before)]
    done = await resolve("40-59", "succeeded", "--state", "held", "--note", "seen")
    assert "10 orders are succeeded" in done.stderr
    done = await resolve("not_sent", "--state", "held", "--state", "unknown", "--note", "not seen")
    assert "34 orders are not_sent" in done.stderr
    again = await run(
        sandbox, "jobs", "resume", "night", "--out", "end.csv", "--yes", *configured, cwd=tmp_path
    )
    assert again.code == 1, again.stderr
    assert statuses(tmp_path / "end.csv") == {"succeeded": 54, "declined": 6}


async def test_what_a_job_has_is_not_sent_past_it(sandbox: Sandbox, tmp_path: Path) -> None:
    configured = await held(sandbox, tmp_path)
    told = ("jobs", "outcomes", "night", "--state", "held", "--out", "held.csv", *configured)
    assert (await run(sandbox, *told, cwd=tmp_path)).code == 0
    before = sandbox.requests["refund"]
    for path, more in (
        ("held.csv", ()),
        ("held.csv", ("--job", "other")),
        ("out.csv", ()),
    ):
        refused = await run(
            *(sandbox, "refund", path, "--yes", "--out", "o.csv", *more, *configured), cwd=tmp_path
        )
        assert refused.code == 2
        assert "column in_job: this order is in job 'night', which may send it" in refused.stderr
        assert "jobs resume" in refused.stderr
    assert sandbox.requests["refund"] == before

    resolved = await run(
        *(sandbox, "jobs", "resolve", "night", "declined", "--state", "held", "--note", "no"),
        *configured,
        cwd=tmp_path,
    )
    assert resolved.code == 0, resolved.stderr
    declined = (*told[:3], "--state", "declined", "--out", "declined.csv", *configured)
    assert (await run(sandbox, *declined, cwd=tmp_path)).code == 0
    sent = await run(
        sandbox, "refund", "declined.csv", "--yes", "--out", "o.csv", *configured, cwd=tmp_path
    )
    assert sent.code == 0, sent.stderr
    assert statuses(tmp_path / "o.csv") == {"succeeded": 50}


async def test_a_job_in_slices_is_left_to_workers(sandbox: Sandbox, tmp_path: Path) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    kept = await run(
        sandbox, "submit", "orders.csv", "--job", "night", "--yes", *NOWHERE, cwd=tmp_path
    )
    assert kept.code == 0, kept.stderr
    refused = await run(
        sandbox, "jobs", "resume", "night", "--out", "o.csv", "--yes", *NOWHERE, cwd=tmp_path
    )
    assert refused.code == 2
    assert "was cut into slices, which workers run: start one" in refused.stderr
    assert sandbox.requests["refund"] == 0


async def test_a_dry_run_says_how_far_a_job_has_come_and_makes_no_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    dry = ("refund", "orders.csv", "--dry-run", "--job", "night", *NOWHERE)
    new = await run(None, *dry, cwd=tmp_path)
    assert (new.code, new.stderr) == (0, f"new job night in {tmp_path}/j.db\n")
    assert names(tmp_path) == ["orders.csv"]

    assert (await run(sandbox, *REFUND, "--job", "night", *NOWHERE, cwd=tmp_path)).code == 0
    before = (tmp_path / "j.db").read_bytes()
    again = await run(None, *dry, cwd=tmp_path)
    assert again.code == 0
    done = "is done: 3 succeeded; nothing would be sent"
    assert again.stderr.endswith(f" in {tmp_path}/j.db {done}\n")
    assert (tmp_path / "j.db").read_bytes() == before

    (tmp_path / "j.db").write_text("no journal")
    broken = await run(None, *dry, cwd=tmp_path)
    assert broken.code == 0
    assert broken.stderr.startswith("warning: the job was not looked for: ")


async def test_a_job_from_standard_input_goes_on_from_its_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 60)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1, *NOWHERE)
    stopped = await run(
        *(sandbox, "refund", "-", "--yes", "--out", "out.csv", *stopping),
        cwd=tmp_path,
        stdin=(tmp_path / "orders.csv").read_text(),
    )
    assert stopped.code == 3, stopped.stderr
    (line,) = re.findall(r"^  (gateway-async jobs resume .*)$", stopped.stderr, re.MULTILINE)
    resumed = await run(sandbox, *shlex.split(line)[1:], "--yes", cwd=tmp_path)
    assert statuses(tmp_path / "out.csv")["succeeded"] == 10, resumed.stderr
