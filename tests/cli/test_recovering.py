"""`recover`: what is unknown in an outcome file is settled by what the file itself carries."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway_async.cli.commands.recovering import find_evidence
from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.problems import TableError
from gateway_async.cli.files.snapshot import Snapshot
from gateway_async.cli.layouts import EVIDENCE_COLUMNS
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect
from tests.cli.running import (
    REFUND_COLUMNS,
    outcomes,
    run,
    statuses,
    write_refunds,
)

QUICKLY = "[recovery]\nsettle_seconds = 0.2\n"


async def test_lost_refunds_are_settled_and_what_was_not_done_is_sent(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 150), tmp_path / "out.jsonl"
    config = tmp_path / "config.toml"
    config.write_text(QUICKLY)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    sent = await run(sandbox, "refund", orders, "--yes", "--out", out)
    assert sent.code == 3, sent.stderr
    recovered = tmp_path / "recovered.csv"
    ended = await run(sandbox, "recover", out, "--out", recovered, "--config", config)
    assert ended.code == 3, ended.stderr
    assert "100 unknown" in ended.stderr
    rows = outcomes(recovered)
    assert [row["customer"] for row in rows] == [f"customer {i}" for i in range(150)]
    for row in rows:
        done = sandbox.ledger.effects("refund", row["transaction_id"])
        assert row["status"] == ("succeeded" if done else "not_sent")
        assert bool(row["refund_reference_id"]) == bool(done)
    assert statuses(recovered) == {"succeeded": 100, "not_sent": 50}
    assert sandbox.requests["refund"] == 3

    rest = tmp_path / "rest.csv"
    again = await run(sandbox, "refund", recovered, "--only", "not_sent", "--yes", "--out", rest)
    assert again.code == 0, again.stderr
    assert {sandbox.ledger.effects("refund", row["transaction_id"]) for row in rows} == {1}
    assert sandbox.secret not in out.read_text() + recovered.read_text() + ended.stderr


async def test_every_command_that_is_named_may_be_given_and_nothing_is_sent_twice(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 300), tmp_path / "out.csv"
    config = tmp_path / "config.toml"
    config.write_text(QUICKLY)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("refund", ResetBeforeEffect(times=2))
    how = ("--config", config, "--yes", "--concurrency", 1)
    assert (await run(sandbox, "refund", orders, *how, "--out", out)).code == 3
    assert statuses(out) == {"unknown": 150, "not_sent": 150}

    recovered = tmp_path / "out-recovered.csv"
    ended = await run(sandbox, "recover", out, "--out", recovered, "--config", config)
    rest = tmp_path / "out-recovered-rest.csv"
    assert f"refund {recovered} --only not_sent --out {rest}" in ended.stderr
    assert (
        f"150 were not sent before, and are copies here: they are sent from {out}" in ended.stderr
    )
    first = await run(
        sandbox, "refund", out, "--only", "not_sent", *how, "--out", f"{out}-rest.csv"
    )
    second = await run(sandbox, "refund", recovered, "--only", "not_sent", *how, "--out", rest)
    assert (first.code, second.code) == (0, 0), second.stderr
    assert (
        f"150 rows of {recovered} are copies, and left out: send them from {out}" in second.stderr
    )
    assert "status_from" not in outcomes(rest)[0]
    done = [sandbox.ledger.effects("refund", row["transaction_id"]) for row in outcomes(out)]
    assert done == [1] * 300

    copies = tmp_path / "copies.csv"
    assert (await run(sandbox, "recover", recovered, "--out", copies)).code == 3
    asked = sandbox.requests.total()
    for only in ((), ("--only", "not_sent")):
        ended = await run(sandbox, "refund", copies, *only, *how, "--out", tmp_path / "never.csv")
        assert ended.code == 2
    assert f"all rows of that status are copies: send them from {recovered}, {out}" in ended.stderr
    assert sandbox.requests.total() == asked


@pytest.mark.parametrize(("status", "code"), [("succeeded", 0), ("declined", 1), ("not_sent", 3)])
async def test_a_file_without_anything_unknown_is_passed_on_and_asks_nothing(
    status: str, code: int, sandbox: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    out.write_text(f"{HEADER}\n{row(status)}\n")
    ended = await run(sandbox, "recover", out, "--out", tmp_path / "recovered.csv")
    assert ended.code == code
    assert "no order that is unknown" in ended.stderr
    assert sandbox.requests.total() == 0
    (passed,) = outcomes(tmp_path / "recovered.csv")
    assert passed.pop("status_from") == ("" if status == "succeeded" else str(out))
    assert [passed] == outcomes(out)


HEADER = ",".join((*REFUND_COLUMNS, "status", "error", "refund_reference_id", *EVIDENCE_COLUMNS))


def row(
    status: str,
    name: str = "T1",
    *,
    reference: str = "",
    evidence: Sequence[str] = ("refund", "0", "2026-11-20T03:00:00+00:00", "yes", "", "[]"),
) -> str:
    order = (name, "O1", "EUR", "9.00", "1.00", "", status, "", reference)
    return ",".join((*order, *evidence))


def evidence_of(*rows: str) -> dict[int, str]:
    body = "\n".join([HEADER, *rows]).encode()
    taken = Snapshot(name="out.csv", format=Format.CSV, file=io.BytesIO(body))
    _, evidence = find_evidence(taken)
    assert evidence is not None
    return {position: str(found.status) for position, found in evidence.found.items()}


def test_only_what_recovery_must_know_is_held() -> None:
    assert evidence_of(
        row("unknown", "T1"),
        row("succeeded", "T2"),
        row("succeeded", "T3", reference="T3-01"),
        row("succeeded", "T4", reference="T4-01"),
        row("succeeded", "T1", reference="T1-01"),
        row("declined", "T5", evidence=("",) * 6),
        row("not_sent", "T1", evidence=("",) * 6),
    ) == {0: "unknown", 2: "succeeded", 4: "succeeded"}


def test_a_file_that_is_no_outcome_file_is_refused_in_one_line() -> None:
    with pytest.raises(TableError) as caught:
        find_evidence(
            Snapshot(name="in.csv", format=Format.CSV, file=io.BytesIO(b"order_no\nO1\nO2\nO3\n"))
        )
    (line,) = str(caught.value).splitlines()[1:]
    assert line.startswith("lines 2 to 4, column status: missing; is this an outcome file")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("lost")], "line 2, column status: expected one of succeeded"),
        ([row("unknown", evidence=("",) * 6)], "no row says by sent_operation"),
        ([row("unknown"), row("unknown", evidence=("capture", "1", "", "", "", ""))], "several"),
        ([row("unknown", evidence=("query", "0", "", "", "", ""))], "'query' is no command"),
        ([row("unknown", evidence=("refund", "0", "once", "", "", ""))], "column sent_ended_at"),
        ([row("unknown", "")], "column transaction_id"),
    ],
)
def test_a_file_that_cannot_be_recovered_is_refused_by_line(rows: list[str], words: str) -> None:
    with pytest.raises(TableError) as caught:
        evidence_of(*rows)
    assert words in str(caught.value)
