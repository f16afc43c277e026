"""`jobs`: what a journal holds, decided on and gone on with."""

from pathlib import Path

import pytest

from gateway_async.cli.app import run as run_here
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.cli.running import REFUND_COLUMNS, outcomes, run, statuses, write, write_refunds

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
    assert "50 were proved not to be done, and are held: they wait for your decision" in ran.stderr
    assert "go on with" not in ran.stderr.partition("are held")[2]
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
    assert "job night: refund 1 order, EUR 1.00" in refused.stderr
    resumed = await run(sandbox, *asked, "--yes", cwd=tmp_path)
    assert resumed.code == 3, resumed.stderr
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
    assert "are not those given" in second.stderr
    assert sandbox.requests["refund"] == before
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs",), "say where jobs are kept"),
        (("jobs", "show", "night", "--journal", "sqlite:///j.db"), "no job"),
        (("jobs", "--journal", "postgresql://me:word@db/x"), "a password in an option shows"),
        (("jobs", "--journal", "postgresql://me:a/word@db/x"), "a password in an option shows"),
        (("jobs", "--journal", "postgresql://db/x?sslPassword=word@"), "a password in an option"),
        (("refund", "orders.csv", "--job", "night", "--yes", "--out", "o.csv"), "where jobs are"),
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
    assert not (tmp_path / "o.csv").exists()
