"""Commands that are asked, watched, stopped, hung up or closed: every outcome is written."""

import asyncio
import json
import os
import re
import resource
import signal

import pytest

from gateway_async.journal import Journal
from gateway_async.sandbox.faults import (
    Drip,
    Latency,
    NoReply,
    ResetBeforeEffect,
    UnknownItemStatus,
)
from tests.cli.running import CTRL_C, Shell, Terminal, names, write
from tests.journal.tables import MERCHANT, Tables
from tests.report.test_page import Read
from tests.support.interruptions import until
from tests.support.orders import COLUMNS

# In a terminal


async def test_a_refund_asks_with_its_totals_and_takes_no_for_an_answer(shell: Shell) -> None:
    shell.refunds(3)
    asked = f"refund 3 orders, EUR 3.00 at {shell.sandbox.base_url}. Go on? [y/N]"
    for key in ("\r", CTRL_C):
        async with Terminal(shell, "refund orders.csv --out out.csv") as terminal:
            await terminal.until(asked)
            assert "columns that are not sent: 'customer'" in terminal.text
            assert names(shell.folder) == ["orders.csv"]  # a kill now leaves nothing behind
            assert await terminal.ended_by(key) == 2
        assert "gateway-async: nothing was sent" in terminal.text
    assert shell.sandbox.requests.total() == 0
    assert names(shell.folder) == ["orders.csv"]


async def test_a_bar_shows_what_became_of_orders_until_two_ctrl_c_end_it(shell: Shell) -> None:
    shell.refunds(500)
    shell.sandbox.faults.add("refund", Drip(100_000, 0.0, times=3))
    shell.sandbox.faults.add("refund", NoReply())
    patient = "[policy]\ndrain_seconds = 3600\n[timeouts]\nreply_seconds = 3600\n"
    (shell.folder / "config.toml").write_text(f"{patient}total_seconds = 3600\n")
    files = "--journal sqlite:///j.db --out out.csv --report night.html"
    line = f"refund orders.csv --job november --config config.toml --concurrency 1 {files}"
    async with Terminal(shell, line) as terminal, asyncio.timeout(600):
        await terminal.until("Go on? [y/N]")
        terminal.type("yes\r")
        await terminal.until("150 of 500")
        await terminal.until("150 succeeded")
        assert re.search(r"150 of 500, [\d,]+\.\d a second, 150 succeeded", terminal.text)
        await until(lambda: shell.sandbox.requests["refund"] >= 4)
        terminal.type(CTRL_C)
        await terminal.until("stopping: waiting for what is in flight")
        terminal.type(CTRL_C)
        await terminal.until("stopping at once")
        assert await terminal.ended() == 3
    assert shell.statuses() == {"succeeded": 150, "unknown": 50, "not_sent": 300}
    shown = " ".join(terminal.text.split())
    assert f"go on with: gateway-async {line}" in shown
    assert "gateway-async jobs show november" in shown
    assert shell.sandbox.secret not in terminal.text
    page = Read((shell.folder / "night.html").read_text(encoding="utf-8"))
    assert "november" in page.text
    assert int(page.tables["latencies"][0][1][0]) > 0
    assert any(f"gateway-async {line}" in one for one in page.texts["pre"])
    assert "Never send again; run the job again." in page.texts["strong"]
    # Told again from the journal, with the indexes that `jobs resolve` takes.
    await shell(f"jobs outcomes november {files}", 3)
    page = Read((shell.folder / "night.html").read_text(encoding="utf-8"))
    assert page.texts["h1"] == ["150 of 500 refunds done: EUR\u00a0150.00."]
    known = {row["transaction_id"]: row["index"] for row in shell.rows()}
    listed = dict(zip(page.column("Transaction"), page.column("Index"), strict=True))
    assert len(listed) >= 10
    assert listed.items() <= known.items()


# Stopped


@pytest.mark.parametrize(
    ("line", "count", "how", "advice"),
    [
        (
            "refund orders.csv --yes --job night --journal sqlite:///jobs.db --chunk-size 10",
            *(300, signal.SIGTERM),
            "not all is done; go on with:\n  gateway-async {line}",
        ),
        ("query orders.csv", 2000, signal.SIGINT, "with:\n  gateway-async {line}"),
    ],
)
async def test_what_a_stopped_run_did_not_come_to_was_not_sent(
    line: str, count: int, how: signal.Signals, advice: str, shell: Shell
) -> None:
    shell.refunds(count)
    shell.sandbox.faults.add("*", Latency(seconds=0.05))
    line += " --out out.csv --concurrency 1 --report night.html"
    process, ended = await shell.under_way(line, 4)
    process.send_signal(how)
    said = (await ended)[1].decode()
    assert process.returncode == 3, said
    rows = shell.rows()
    left = sum(row["status"] == "not_sent" for row in rows)
    assert count / 2 < left < count == len(rows)
    for row in rows:
        done = shell.sandbox.ledger.effects("refund", row["transaction_id"])
        is_done = row["status"] == "succeeded"
        assert is_done or row["status"] == "not_sent"
        assert done == (is_done and "refund" in line), said
    assert advice.format(left=left, line=line) in said
    in_job = "the job has not come to it yet"
    last = in_job if "--job" in line else "nothing was sent: the run ended"
    assert rows[-1]["error"].startswith(last)
    assert re.search(rf"^[\d,]+ x not sent: (for example, )?{last}", said, re.MULTILINE), said
    page = (shell.folder / "night.html").read_text(encoding="utf-8")
    assert f"{left:,}" in page
    assert "may have been done" not in page


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_while_the_file_is_read_sends_nothing(
    shell: Shell, how: signal.Signals
) -> None:
    rows = shell.refunds(60).read_bytes()
    (there, ours), stderr = os.pipe(), shell.folder / "stderr"
    with stderr.open("wb") as errors, os.fdopen(ours, "wb", 0) as pipe:
        process = shell.start_with((there, 1, errors.fileno()), "refund - --yes --out out.csv")
        os.close(there)
        for _ in range(100):  # more than a pipe holds: then it reads
            await asyncio.to_thread(pipe.write, rows)
        ended = asyncio.ensure_future(process.wait())
        while not ended.done():  # one that comes right before it reads goes by
            process.send_signal(how)
            await asyncio.wait({ended}, timeout=10)
        assert ended.result() == 2
    told = "gateway-async: stopped; this command sent nothing to your gateway\n"
    assert stderr.read_text() == told
    assert shell.sandbox.requests.total() == 0


async def test_while_another_process_has_the_job_nothing_is_called_not_sent(shell: Shell) -> None:
    shell.refunds(60)
    url, out = f"sqlite:///{shell.folder}/j.db", shell.folder / "out.csv"
    line = f"refund orders.csv --yes --out out.csv --job night --journal {url}"
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    await shell(f"{line} --concurrency 1 --stop-after-unknown 1", 3, "10 not_sent")
    assert out.read_text().count("(stop_after_unknown)") == 10
    async with Journal.open(url, lease_seconds=4) as journal:
        lease = await journal.job("night").take(MERCHANT)
        keeper = asyncio.ensure_future(lease.keep())
        process = await shell.start(line)
        await process.stderr.readuntil(b"waits")
        keeper.cancel()
        Tables(url).end_leases_in(3600)  # as if it were renewed, however slow this machine is
        _, busy = await process.communicate()
        await lease.release()
    assert process.returncode == 3
    assert b"wait until that process has ended, or run the job again later" in busy
    async with Journal.open(url, lease_seconds=300) as journal:
        await journal.job("night").take(MERCHANT)
        running = "running, or its process ended within seconds"
        await shell(f"jobs list --journal {url}", 0, running)
        process = await shell.start(line)
        await process.stderr.readuntil(b"waits")
        process.send_signal(signal.SIGINT)
        assert b"stopped before anything was sent" in (await process.communicate())[1]
        assert process.returncode == 2
        await shell(f"jobs outcomes night --out out.csv --journal {url}", 3)
    assert shell.statuses() == {"unknown": 60}
    assert "another process may send it" in out.read_text()
    assert shell.sandbox.requests["refund"] == 1


@pytest.mark.parametrize("command", ["search-refunds", "refund --yes"])
async def test_outcomes_that_cannot_be_put_in_place_are_told_by_the_exit_code(
    shell: Shell, command: str
) -> None:
    shell.refunds(3)
    shell.sandbox.faults.add("*", Latency(seconds=0.5))
    process, ended = await shell.under_way(f"{command} orders.csv --out out.csv")
    (shell.folder / "out.csv").mkdir()
    said = (await ended)[1].decode()
    assert (process.returncode, "the outcomes cannot be written: Is a dir" in said) == (3, True)
    assert "outcomes were read" not in said  # all of them were
    assert names(shell.folder) == ["orders.csv", "out.csv"]


async def test_outcomes_that_were_not_all_read_are_no_totals(shell: Shell) -> None:
    shell.captures(60)
    more = "A" * 100_000  # more than fits into memory
    rows = [[*row.values(), more] for row in shell.rows("orders.csv")]
    write(shell.folder / "orders.csv", (*COLUMNS, "more"), rows)
    line = "capture orders.csv --yes --out out.csv --journal sqlite:///j.db --json --report a.html"
    process, ended = await shell.under_way(line)
    resource.prlimit(process._number, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    facts = json.loads((await ended)[0])
    assert process.returncode == 3
    assert 0 < facts["orders"] < 60
    assert facts["failure"].startswith(f"{facts['orders']} of 60 outcomes were read: a temporary")
    assert facts["out"] is None
    page = Read((shell.folder / "a.html").read_text(encoding="utf-8"))
    assert page.texts["h1"] == [f"{facts['orders']} captures done: EUR\xa0{facts['orders']}.00."]
    assert "out.csv" not in page.texts["dd"]
    assert f"It ended early: {facts['failure']}" in page.text


async def test_a_journal_that_is_gone_is_to_be_put_back_first(shell: Shell) -> None:
    """In a new one, the same line would send each capture once more."""
    paid = shell.captures(100)
    shell.sandbox.faults.add("capture", Latency(seconds=0.3))
    line = "capture orders.csv --yes --out out.csv --concurrency 1 --journal sqlite:///j.db"
    process, ended = await shell.under_way(line)
    (shell.folder / "j.db").rename(shell.folder / "away.db")
    said = (await ended)[1].decode()
    assert process.returncode == 3
    assert "knows of no order that was sent; then go on with:" in said
    (shell.folder / "away.db").rename(shell.folder / "j.db")
    Tables(f"sqlite:///{shell.folder}/j.db").end_leases_in(0)
    await shell(line, None)
    counts = [shell.sandbox.ledger.effects("capture", one.transaction_id) for one in paid]
    assert max(counts) == 1


# Streams that are closed or full


async def test_outcomes_that_standard_output_does_not_take_are_in_the_journal(shell: Shell) -> None:
    shell.refunds(3)
    line = "refund orders.csv --yes --out - --journal sqlite:///j.db"
    ended = await shell.installed(f"{line} >/dev/full", 3)  # a script that reads it must notice
    line = ended.advice("jobs outcomes refund-.*").strip()
    resume = line.replace("outcomes", "resume", 1).replace("outcomes.csv", "- --yes")
    early, stderr = "gateway-async: it ended early: ", shell.folder / "stderr"
    full = os.open("/dev/full", os.O_WRONLY)
    for again, words in (
        (resume, "jobs outcomes"),
        ("refund orders.csv --dry-run", early),
        ("refund --help", early),
    ):
        with stderr.open("wb") as errors:
            process = shell.start_with((0, full, errors.fileno()), again)
        assert (await process.wait(), words in stderr.read_text()) == (3, True)
    os.close(full)
    await shell(line)
    assert shell.statuses("outcomes.csv") == {"succeeded": 3}


async def test_a_report_that_finds_no_room_is_named_and_the_outcomes_stay(shell: Shell) -> None:
    shell.refunds(3)
    process = await shell.start("query orders.csv --out out.csv --report night.html")
    resource.prlimit(process._number, resource.RLIMIT_FSIZE, (4096, 4096))
    said = (await process.communicate())[1].decode()
    assert process.returncode == 3
    assert "3 succeeded" in said
    assert "File too large: 'night.html'" in said
    assert shell.statuses() == {"succeeded": 3}
    assert not (shell.folder / "night.html").exists()


async def test_json_has_names_and_texts_that_are_no_text_in_utf_8(shell: Shell) -> None:
    name = os.fsdecode(b"r\xfcck.csv")
    shell.captures(3, name)
    shell.sandbox.faults.add("capture", UnknownItemStatus(value="7", text="E1:\x9b31m no"))
    line = f"capture {name} --yes --out o{name} --log-format json --journal sqlite:///j.db --json"
    ended = await shell(line, 3)
    assert (ended.facts["source"], ended.facts["counts"]) == (name, {"unknown": 3})
    assert [json.loads(line)["level"] for line in ended.stderr.splitlines()]
    assert shell.statuses(f"o{name}") == {"unknown": 3}
    show = await shell(f"jobs show {ended.facts['job']} --json --journal sqlite:///j.db")
    assert "\\u009b" in show.stdout
    assert "\x9b31m no" in show.facts["in_doubt"][0]["reason"]


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
async def test_nothing_is_sent_where_a_standard_stream_is_closed(shell: Shell, closed: str) -> None:
    shell.refunds(3)
    ended = await shell.installed(f"refund orders.csv --yes --out o {closed}", 2)
    assert ended.stdout == ""
    assert ("use /dev/null for it" in ended.stderr) == ("2>" not in closed)
    assert shell.sandbox.requests.total() == 0
