"""`--report`, as a user gives it: one page that tells what the command wrote elsewhere."""

import asyncio
import shlex
import signal
from decimal import Decimal
from typing import TYPE_CHECKING

from gateway_async.sandbox.faults import NoReply
from tests.cli.running import COLUMNS, names, outcomes, run, start, write, write_refunds
from tests.report.test_page import Read

if TYPE_CHECKING:
    from pathlib import Path

    from gateway_async.sandbox import Sandbox


def _read(path: "Path") -> Read:
    return Read(path.read_text(encoding="utf-8"))


async def test_a_job_says_how_to_go_on_and_is_told_again_from_its_journal(
    sandbox: "Sandbox", tmp_path: "Path"
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 60)
    config = tmp_path / "config.toml"
    config.write_text("[policy]\ndrain_seconds = 3600\n")
    job = ("--job", "november", "--journal", f"sqlite:///{tmp_path / 'j.db'}")
    night, out = tmp_path / "night.html", tmp_path / "out.csv"
    sandbox.faults.add("refund", NoReply())
    line = ("refund", orders, "--yes", "--out", out, *job, "--report", night, "--config", config)
    process = await start(sandbox, *line)
    while not sandbox.requests["refund"]:  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0.01)
    ending = asyncio.create_task(process.communicate())
    for number in (signal.SIGINT, signal.SIGTERM):  # in one moment; the second does not wait
        process.send_signal(number)
    async with asyncio.timeout(120):
        await ending
    assert process.returncode == 3
    read = _read(night)
    assert "november" in read.text
    assert shlex.join(("gateway-async", *map(str, line))) in read.texts["pre"]
    assert "Never send again; run the job again." in read.texts["strong"]
    sandbox.faults.clear()
    ended = await run(
        sandbox, *("jobs", "outcomes", "november", *job[2:]), "--out", out, "--report", night
    )
    assert ended.code == 0, ended.stderr
    read = _read(night)
    assert read.texts["h1"] == ["0 of 60 refunds done."]
    known = {row["transaction_id"]: row["index"] for row in outcomes(out)}
    shown = dict(zip(read.column("Transaction"), read.column("Index"), strict=True))
    assert len(shown) >= 10
    assert shown.items() <= known.items()  # what `jobs resolve` takes


async def test_a_reconciliation_lists_its_differences(sandbox: "Sandbox", tmp_path: "Path") -> None:
    header = (*COLUMNS, "refunded")
    seeded = sandbox.seed(30, status="captured", amount="9.00", currency="EUR")
    rows = [
        (p.transaction_id, p.order_no, p.currency, "9.01" if n == 3 else p.amount, "0")
        for n, p in enumerate(seeded)
    ]
    rows[7] = (*rows[7][:-1], "2.00")
    hostile = "<script>alert(1)</script>"
    rows.append(("nobody", hostile, "EUR", Decimal("1.00"), "0"))
    ledger, page = write(tmp_path / "ledger.csv", header, rows), tmp_path / "books.html"
    ended = await run(sandbox, "reconcile", ledger, "--report", page)
    assert ended.code == 1, ended.stderr
    read = _read(page)
    assert [step.partition("):")[0] for step in read.left()] == [
        "amount: 1 (EUR 9.01",
        "refund absent at gateway: 1 (EUR 2.00",  # the refund, and not its payment
        "absent at gateway: 1 (EUR 1.00",
    ]
    assert read.column("Line") == ["5", "9", "32"]
    assert read.column("Amount") == ["EUR\xa09.01", "EUR\xa02.00", "EUR\xa01.00"]
    printed = [line.partition(":")[0] for line in ended.stdout.splitlines()]
    assert printed == ["line 5", "line 9", "line 32"]
    assert read.column("Ledger")[0] == "9.01"
    assert read.column("Order")[2] == hostile
    assert "script" not in read.tags
    headline = "28 of 31 entries match, and the totals differ: "
    headline += "payments by EUR\xa01.01 and refunds by EUR\xa02.00."
    assert read.texts["h1"] == [headline]
    assert read.tables["money"][0][1] == ["EUR payments", "271.0131", "270.0030", "1.01"]


async def test_a_report_has_a_file_of_its_own(sandbox: "Sandbox", tmp_path: "Path") -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 1), tmp_path / "out.csv"
    journal, page = tmp_path / "night.db", tmp_path / "night.html"
    page.write_text("another record")
    before = orders.read_bytes()
    job = ("--job", "night", "--journal", f"sqlite:///{journal}", "--out", out)
    wrong = (out, orders, tmp_path / "." / "out.csv", journal)
    for place in (*wrong, tmp_path / "nowhere" / "night.html"):
        ended = await run(sandbox, "refund", orders, "--yes", *job, f"--report={place}")
        assert ended.code == 2
        assert "--report: " in ended.stderr
    never_began = await run(sandbox, "refund", orders, *job, "--report", page)
    assert never_began.code == 2
    assert names(tmp_path) == ["night.html", "orders.csv"]
    assert orders.read_bytes() == before
    assert sandbox.requests["refund"] == 0
    assert (await run(sandbox, "refund", orders, "--yes", *job, "--report", page)).code == 0
    assert "<!DOCTYPE html>" in page.read_text()
    assert (tmp_path / "night.html.1").read_text() == "another record"
