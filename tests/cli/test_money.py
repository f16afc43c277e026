"""A file of orders is a job: given again, after whatever happened, it doubles nothing."""

import asyncio
import json
import re
import shlex
import signal
import stat
from pathlib import Path

import pytest

from gateway_async.cli.jobs import name_of_orders
from gateway_async.cli.settings import Settings
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Latency
from tests.cli.running import (
    COLUMNS,
    names,
    outcomes,
    run,
    run_installed,
    start,
    statuses,
    write,
    write_refunds,
)

UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
KEPT = ("--journal", "sqlite:///jobs.db")


def effects(sandbox: Sandbox, orders: Path) -> set[int]:
    """Return how often the refunds of a file were done."""
    rows = outcomes(orders)
    return {sandbox.ledger.effects("refund", row["transaction_id"]) for row in rows}


async def test_the_same_orders_again_move_no_money_and_write_the_outcomes(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 120), tmp_path / "out.csv"
    kept = ("--journal", f"sqlite:///{tmp_path}/jobs.db")
    sandbox.faults.add("refund", DropReply(times=1))  # which the run settles by itself
    first = await run_installed(sandbox, "refund", orders, "--out", out, "--yes", *kept)
    assert (first.code, first.stdout) == (0, ""), first.stderr
    assert "columns that are not sent: 'customer'\nnew job refund-" in first.stderr
    assert sandbox.secret not in first.stderr
    rows = outcomes(out)
    assert [row["customer"] for row in rows] == [f"customer {number}" for number in range(120)]
    assert all(row["refund_reference_id"] == row["transaction_id"] + "-01" for row in rows)
    assert statuses(out) == {"succeeded": 120}
    assert names(tmp_path) == ["jobs.db", "orders.csv", "out.csv"]
    requests = sandbox.requests.total()

    header = [*outcomes(orders)[0]][::-1]
    longer = [{**row, "refund_amount": f"{row['refund_amount']}0"} for row in outcomes(orders)]
    write(tmp_path / "turned.csv", header, [[row[name] for name in header] for row in longer])
    for name in ("orders.csv", "turned.csv"):  # no question is asked
        again = await run(sandbox, "refund", name, "--out", "out.csv", *kept, cwd=tmp_path)
        assert again.code == 0, again.stderr
        assert "is done: 120 succeeded; nothing is sent" in again.stderr
        assert statuses(out) == {"succeeded": 120}
    assert {"out.csv.1"} <= {*names(tmp_path)}
    assert sandbox.requests.total() == requests
    assert effects(sandbox, orders) == {1}


async def test_a_job_is_made_again_only_where_that_is_asked_for_and_it_is_done(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 60)
    line = ("refund", "orders.csv", "--out", "out.csv", "--again", *KEPT)
    sandbox.faults.add("refund", DropReply(times=1))
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1, "--yes")
    stopped = await run(sandbox, *line, *stopping, cwd=tmp_path)
    assert stopped.code == 3, stopped.stderr
    assert "gateway-async jobs resume refund-" in stopped.stderr  # and not the same line

    rest = await run(sandbox, *line, "--yes", cwd=tmp_path)  # not again: it was not done
    assert rest.code == 0, rest.stderr
    assert effects(sandbox, orders) == {1}

    asked = await run(sandbox, *line, cwd=tmp_path)
    assert asked.code == 2
    assert "AGAIN, as new job refund-" in asked.stderr
    assert "has 60 succeeded): refund 60 orders, EUR 60.00 at" in asked.stderr
    assert effects(sandbox, orders) == {1}

    again = await run(sandbox, *line, "--yes", cwd=tmp_path)
    assert again.code == 0, again.stderr
    rows = outcomes(tmp_path / "out.csv")
    assert {row["in_job"].endswith("-again-2") for row in rows} == {True}
    assert effects(sandbox, orders) == {2}
    (tmp_path / "out.csv").unlink()  # as after a kill, when all was sent
    plain = [word for word in line if word != "--again"]
    rest = await run(sandbox, *plain, "--yes", cwd=tmp_path)
    assert rest.code == 0, rest.stderr
    assert {row["in_job"].endswith("-again-2") for row in outcomes(tmp_path / "out.csv")} == {True}
    assert effects(sandbox, orders) == {2}
    named = await run(sandbox, *line, "--yes", "--job", "night", cwd=tmp_path)
    assert "under another --job" in named.stderr


async def test_the_same_orders_under_another_name_are_held_as_alike(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 3)
    line = ("refund", "orders.csv", "--yes", "--out", "out.csv", *KEPT)
    assert (await run(sandbox, *line, cwd=tmp_path)).code == 0
    name = "other: its order 99"  # which reads like a message
    other = await run(sandbox, *line, "--job", name, cwd=tmp_path)
    assert other.code == 3, other.stderr
    assert statuses(tmp_path / "out.csv") == {"not_sent": 3}
    assert f"gateway-async jobs show '{name}' --journal sqlite:///" in other.stderr
    assert effects(sandbox, orders) == {1}

    for count in (2, 3, 4):  # a job has no outcomes of another file
        write_refunds(sandbox, orders, count)
        before, there = sandbox.requests["refund"], names(tmp_path)
        for more in ((), ("--deadline", "0.001s")):  # which is over before the orders are compared
            differing = await run(sandbox, *line, "--job", name, *more, cwd=tmp_path)
            assert differing.code == 2, differing.stderr
            if count == 3 and not more:
                assert "its order 0 (line 2) is " in differing.stderr
                assert "which differs in " in differing.stderr
            assert (sandbox.requests["refund"], names(tmp_path)) == (before, there)


@pytest.mark.parametrize("left_out", [["in_job"], []])
async def test_what_a_file_of_outcomes_says_was_done_is_not_sent_again(
    sandbox: Sandbox, tmp_path: Path, left_out: list[str]
) -> None:
    """With a row less, so that it is no job that is there; another operation takes its orders."""
    payments = sandbox.seed(3, status="authorised", amount="9.00")
    rows = [(p.transaction_id, p.order_no, p.currency, p.amount, "1.00") for p in payments]
    write(tmp_path / "orders.csv", (*COLUMNS, "refund_amount"), rows)
    line = ("--yes", "--out", "out.csv", *KEPT)
    assert (await run(sandbox, "capture", "orders.csv", *line, cwd=tmp_path)).code == 0

    def without(*columns: str) -> None:
        kept = [name for name in outcomes(tmp_path / "out.csv")[0] if name not in columns]
        done = outcomes(tmp_path / "out.csv")[1:]
        write(tmp_path / "fewer.csv", kept, [[row[name] for name in kept] for row in done])

    without(*left_out)
    for command in ("capture", "refund"):
        refused = await run(sandbox, command, "fewer.csv", *line, cwd=tmp_path)
        assert refused.code == 2, refused.stderr
        assert "only for another operation, take out the columns" in refused.stderr
        assert ("this order succeeded in the run that wrote" in refused.stderr) == bool(left_out)
    assert sandbox.requests["capture"] == 1
    assert sandbox.requests["refund"] == 0
    without("status", "code", "error", "in_job", "decision_note")
    refunded = await run(sandbox, "refund", "fewer.csv", *line, cwd=tmp_path)
    assert refunded.code == 0, refunded.stderr
    for payment in payments[1:]:
        assert sandbox.ledger.effects("refund", payment.transaction_id) == 1
        assert sandbox.ledger.effects("capture", payment.transaction_id) == 1


async def test_captures_cancels_and_reviews(sandbox: Sandbox, tmp_path: Path) -> None:
    rows = [
        (p.transaction_id, p.order_no, p.currency, p.amount)
        for p in sandbox.seed(3, status="authorised")
    ]
    for command, row in zip(("capture", "cancel", "review"), rows, strict=True):
        columns = (*COLUMNS, "review_flag") if command == "review" else COLUMNS
        cells = (*row, "1") if command == "review" else row
        write(tmp_path / "orders.csv", columns, [cells])
        line = (command, "orders.csv", "--out", "out.csv", *KEPT)
        assert (await run(sandbox, *line, cwd=tmp_path)).code == 0
        assert statuses(tmp_path / "out.csv") == {"succeeded": 1}
        asked = await run(sandbox, *line, "--again", cwd=tmp_path)
        assert asked.code == 2
        assert f"AGAIN, as new job {command}-" in asked.stderr
        assert sandbox.ledger.effects(command, str(row[0])) == 1


async def test_json_is_one_object_with_counts_job_and_files(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 60)
    sandbox.faults.add("refund", DropReply(times=1))
    stopping = ("--concurrency", 1, "--stop-after-unknown", 1)
    line = ("--json", "--out", "out.csv", "--yes", *KEPT)
    stopped = await run(sandbox, "refund", "orders.csv", *line, *stopping, cwd=tmp_path)
    facts = json.loads(stopped.stdout)
    assert stopped.code == 3
    assert facts["counts"].keys() <= {"succeeded", "unknown", "not_sent"}
    assert (facts["orders"], facts["source"], facts["out"]) == (60, "orders.csv", "out.csv")
    given = ("refund", "orders.csv", *line, *stopping)
    assert facts["next"] == [shlex.join(("gateway-async", *map(str, given)))]
    assert all(re.fullmatch(UTC, facts[name]) for name in ("started_at", "ended_at"))

    resume = ("jobs", "resume", facts["job"], *line)
    resumed = json.loads((await run(sandbox, *resume, cwd=tmp_path)).stdout)
    assert (resumed["job"], resumed["counts"]) == (facts["job"], {"succeeded": 60})
    assert resumed["journal"] == str(tmp_path / "jobs.db")
    look_up = ("query", "orders.csv", "--by", "order_no", "--json", "--out", "found.csv")
    found = json.loads((await run(sandbox, *look_up, cwd=tmp_path)).stdout)
    assert (found["command"], found["counts"]) == ("query", {"succeeded": 60})
    books = ("reconcile", "orders.csv", "--json", "--out", "differences.csv")
    differing = json.loads((await run(sandbox, *books, cwd=tmp_path)).stdout)
    assert (differing["counts"]["differing"], differing["differences"]) == (
        60,
        {"refund_unknown_to_ledger": 60},
    )
    planned = await run(sandbox, "refund", "orders.csv", "--dry-run", "--json", cwd=tmp_path)
    assert json.loads(planned.stdout)["amounts"] == {"EUR": "60.00"}
    mixed = await run(sandbox, "refund", "orders.csv", "--json", "--out", "-", cwd=tmp_path)
    assert (mixed.code, mixed.stdout) == (2, "")
    assert effects(sandbox, orders) == {1}


async def test_a_refusal_is_held_until_it_is_decided_on_unless_the_dialect_lists_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (payment,) = sandbox.seed(1, status="authorised", amount="9.00")
    row = (*(getattr(payment, name) for name in COLUMNS), "1.00")
    write(tmp_path / "orders.csv", (*COLUMNS, "refund_amount"), [row])
    line = ("refund", "orders.csv", "--yes", "--config", "config.toml", "--out", "out.csv", *KEPT)
    resolve = ("jobs", "resolve", "night", "0", "declined", "--note", "refused", *KEPT)
    listed = '[dialect]\ndeclined_statuses = ["0"]\n'
    show = ("jobs", "show", "night", *KEPT)
    for command, dialect, code, status in (
        ((*line, "--job", "night"), "", 3, "unknown"),
        ((*line, "--job", "night"), listed, 3, "unknown"),  # its reply is not read once more
        (show, listed, 0, "unknown"),
        (resolve, listed, 0, "unknown"),
        ((*line, "--job", "night"), listed, 1, "declined"),
        ((*line, "--job", "other"), listed, 1, "declined"),
    ):
        (tmp_path / "config.toml").write_text(f"[recovery]\nsettle_seconds = 0.1\n{dialect}")
        ended = await run(sandbox, *command, cwd=tmp_path)
        assert ended.code == code, ended.stderr
        (found,) = outcomes(tmp_path / "out.csv")
        assert found["status"] == status
        assert ("declined_statuses" in found["error"]) == (status == "unknown")
        told = ended.stderr + ended.stdout
        counts = "What you write under [dialect] counts for later replies only"
        assert (counts in told and "1 order is held" in told) == (code == 3)
        assert ("declined_statuses" in told) == (code == 3 or command == show)
        assert "go on with" not in told


@pytest.mark.parametrize(
    "line",
    [("refund", "orders.csv", "--yes", *KEPT), ("query", "orders.csv", "--by", "order_no")],
    ids=lambda line: line[0],
)
async def test_a_wrong_secret_points_to_check(
    line: tuple[str, ...], sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 1)
    line = (*line, "--out", "out.csv", "--merchant-id", "M1")
    process = await start(sandbox, *line, cwd=tmp_path, env={"GATEWAY_SECRET": "wrong"})
    told = (await process.communicate())[1].decode()
    assert process.returncode == 3
    assert "no reply was accepted; see why with:\n  gateway-async check --merchant-id M1\n" in told


@pytest.mark.slow
async def test_the_same_line_goes_on_after_a_kill(sandbox: Sandbox, tmp_path: Path) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 300)
    (tmp_path / "config.toml").write_text(
        "journal_lease_seconds = 1\n[recovery]\nsettle_seconds = 0.1\n"
    )
    sandbox.faults.add("refund", Latency(seconds=0.05))
    line = ("refund", "orders.csv", "--yes", "--out", "out.csv", "--config", "config.toml", *KEPT)
    for requests in (5, 11):
        before = sandbox.requests["refund"]
        process = await start(sandbox, *line, "--chunk-size", 10, "--concurrency", 3, cwd=tmp_path)
        ended = asyncio.ensure_future(process.communicate())
        while sandbox.requests["refund"] < before + requests and not ended.done():
            await asyncio.wait({ended}, timeout=0.002)
        process.send_signal(signal.SIGKILL)
        await ended
        assert not (tmp_path / "out.csv").exists()
    last = await run(sandbox, *line, cwd=tmp_path)
    assert effects(sandbox, orders) <= {0, 1}, last.stderr
    for row in outcomes(tmp_path / "out.csv"):
        done = sandbox.ledger.effects("refund", row["transaction_id"])
        assert (row["status"], done) in {("succeeded", 1), ("not_sent", 0)}, last.stderr


async def test_the_default_journal_is_for_its_user_alone(sandbox: Sandbox, tmp_path: Path) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 1)
    process = await start(
        sandbox,
        *("refund", "orders.csv", "--yes", "--out", "-"),
        cwd=tmp_path,
        env={"XDG_STATE_HOME": str(tmp_path / "state")},
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr
    assert b",succeeded," in stdout
    journal = tmp_path / "state" / "gateway-async" / "journal.db"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "url", ["https://gateway.example", "https://GATEWAY.example:443/", "https://gateway.example/"]
)
def test_a_gateway_has_one_name_however_its_address_is_written(url: str) -> None:
    def name_at(url: str) -> str:
        settings = Settings(base_url=url, merchant_id="M1", account_id="A1", allow_http=True)
        return name_of_orders("refund", settings, "digest")

    # Another one would send each file once more.
    assert name_at(url) == "refund-M1-gateway.example-283d1e67ced97b95"
    for other in ("https://gateway.example:8443", "http://gateway.example:443", f"{url}/test"):
        assert name_at(other) != name_at(url)
