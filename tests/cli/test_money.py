"""A file of orders is a job: given again, after whatever happened, it doubles nothing."""

import json
import random
import re
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from gateway_async.cli.jobs import name_of_orders
from gateway_async.cli.settings import Settings
from gateway_async.sandbox.faults import DropReply, Latency, ResetBeforeEffect
from tests.cli.running import Shell, names, write
from tests.journal.tables import Tables
from tests.support.orders import COLUMNS

UTC_TEXT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
KEPT = "--journal sqlite:///jobs.db"
LINE = f"refund orders.csv --out out.csv {KEPT}"
STOPPING = "--concurrency 1 --stop-after-unknown 1"


def rewrite(shell: Shell, rows: list[dict[str, str]], name: str = "orders.csv") -> None:
    """Write a file of orders, with the columns of its first row."""
    write(shell.folder / name, [*rows[0]], [[row[column] for column in rows[0]] for row in rows])


async def test_the_same_orders_again_move_no_money_and_write_the_outcomes(shell: Shell) -> None:
    shell.refunds(120)
    sandbox = shell.sandbox
    sandbox.faults.add("refund", DropReply(times=1))  # which the run settles by itself
    news = "columns that are not sent: 'customer'\nnew job refund-"
    first = await shell.installed(f"{LINE} --yes", 0, news)
    assert (first.stdout, sandbox.secret in first.stderr) == ("", False)
    rows, given = shell.rows(), shell.rows("orders.csv")
    assert [row["customer"] for row in rows] == [f"customer {number}" for number in range(120)]
    assert all(row["refund_reference_id"] == row["transaction_id"] + "-01" for row in rows)
    assert shell.statuses() == {"succeeded": 120}
    assert names(shell.folder) == ["jobs.db", "orders.csv", "out.csv"]
    requests = sandbox.requests["refund"]

    longer = [{**row, "refund_amount": f"{row['refund_amount']}0"} for row in given]
    rewrite(shell, [dict([*row.items()][::-1]) for row in longer], "turned.csv")
    lines = [json.dumps({**row, "customer": {"number": n}}) for n, row in enumerate(given)]
    text = "\n".join(lines).replace('"refund_amount": "1.00"', '"refund_amount": 1.000')
    done = "is done: 120 succeeded; no order is sent"
    await shell(f"refund turned.csv --out out.csv {KEPT}", 0, done)  # no question is asked
    assert shell.statuses() == {"succeeded": 120}
    piped = await shell(f"refund - --out - {KEPT}", 0, done, stdin=text)
    (shell.folder / "out.jsonl").write_text(piped.stdout)
    await shell("search-refunds out.jsonl --out found.jsonl")
    outs = piped.stdout.splitlines()
    founds = (shell.folder / "found.jsonl").read_text().splitlines()
    for row, out, found in zip(given, map(json.loads, outs), map(json.loads, founds), strict=True):
        assert {**out, "order_no": row["order_no"], "status": "succeeded", "error": None} == out
        assert found["record_refund_amount"] == "1.00"
    assert '"customer.number":59,"transaction_id":' in outs[59]
    assert '"refund_amount":1.000,' in outs[59]
    assert (sandbox.requests["refund"], shell.effects()) == (requests, {1})


async def test_rows_in_another_order_are_the_same_job_and_keep_their_order(shell: Shell) -> None:
    shell.refunds(60)
    rows = shell.rows("orders.csv")
    twins = [{**rows[52], "customer": "twin"}, {**rows[55], "refund_amount": "2.00"}, rows[58]]
    rows += twins
    rewrite(shell, rows)
    turned = random.Random(7).sample(rows, len(rows))
    rewrite(shell, turned, "turned.csv")
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    line = f"--duplicates serialize --yes {KEPT}"
    await shell(f"refund orders.csv --out out.csv {line} {STOPPING}", 3)
    assert shell.statuses() == {"unknown": 50, "not_sent": 13}
    (job,) = {row["in_job"] for row in shell.rows()}
    await shell(f"refund turned.csv --out done.csv {line} --report page.html", 3)
    done = shell.rows("done.csv")
    assert [{name: row[name] for name in rows[0]} for row in done] == turned
    assert Counter(row["state"] for row in done) == {"held": 50, "succeeded": 13}
    assert {row["in_job"] for row in done} == {job}
    paid = Counter(row["transaction_id"] for row in done if row["status"] == "succeeded")
    assert paid == Counter(row["transaction_id"] for row in rows[50:])
    assert all(shell.sandbox.ledger.effects("refund", one) == count for one, count in paid.items())
    assert sorted(int(row["index"]) for row in done) == [*range(63)]
    for row in done:
        for name in ("transaction_id", "refund_amount"):
            assert rows[int(row["index"])][name] == row[name]


async def test_a_job_is_made_again_only_where_asked_for_and_once_done(shell: Shell) -> None:
    shell.refunds(60)
    shell.sandbox.faults.add("refund", DropReply(times=1))
    pace = f"--rate 50 --deadline 90s {STOPPING}"
    stopped = await shell(f"{LINE} --again --yes {pace}", 3, "go on with:\n  gateway-async jobs ")
    line = stopped.advice("jobs resume refund-.*")  # at the same pace
    for option in ("--rate 50.0", "--deadline 90.000000s", *STOPPING.split(" -")):
        assert option in line
    await shell(f"{LINE} --again --yes")  # not again: it was not done
    asked = "has 60 succeeded): refund 60 orders, EUR 60.00 at"
    await shell(f"{LINE} --again", 2, "AGAIN, as new job refund-", asked)
    assert shell.effects() == {1}
    await shell(f"{LINE} --again --yes")
    assert {row["in_job"].endswith("-again-2") for row in shell.rows()} == {True}
    assert shell.effects() == {2}
    (shell.folder / "out.csv").unlink()  # as after a kill, when all was sent
    plain = await shell(f"{LINE} --yes")
    made = r"-again-2 of .* \(made by --again: job refund-.*60 succeeded; .* are held\);"
    assert re.search(made, plain.stderr)
    assert {row["in_job"].endswith("-again-2") for row in shell.rows()} == {True}
    assert shell.effects() == {2}


async def test_the_rest_of_a_repeated_or_copied_job_is_held(shell: Shell) -> None:
    shell.refunds(60)
    shell.sandbox.clock = lambda: datetime.now(UTC) - timedelta(hours=5)  # it has no zone
    await shell(f"{LINE} --yes")
    shell.sandbox.faults.add("refund", DropReply(times=1))
    await shell(f"{LINE} --yes --again {STOPPING}", 3)
    assert shell.effects() == {1, 2}
    (job,) = {row["in_job"] for row in shell.rows()}
    copy = (shell.folder / "jobs.db").read_bytes()
    again, by_name = f"{LINE} --yes --again", f"jobs resume {job} --out out.csv --yes {KEPT}"
    await shell(again, 3)
    assert shell.statuses() == {"succeeded": 50, "not_sent": 10}
    await shell(f"jobs resolve {job} not_sent --state held --note again {KEPT}")
    await shell(by_name)
    assert shell.effects() == {2}
    for line in (again, by_name):
        (shell.folder / "jobs.db").write_bytes(copy)
        await shell(line, 3)
        assert shell.effects() == {2}


async def test_the_same_orders_under_another_name_are_held_as_alike(shell: Shell) -> None:
    shell.refunds(3)
    await shell(f"{LINE} --yes")
    name = "other: its order 99"  # which reads like a message
    show = f"gateway-async jobs show '{name}' --journal sqlite:///"
    await shell(f"{LINE} --yes --job '{name}'", 3, show)
    assert (shell.statuses(), shell.effects()) == ({"not_sent": 3}, {1})

    rows = (shell.folder / "orders.csv").read_text().splitlines(keepends=True)
    (shell.folder / "fewer.csv").write_text("".join(rows[:-1]))
    for words, difference in (
        ("refund fewer.csv", "exists already: it has 3 in all, and 2 were given; nothing was chan"),
        ("cancel orders.csv", "exists already: its operation is 'refund', not 'cancel'; nothing w"),
        ("refund orders.csv --account-id A2", "not this client's: its account_id is 'A1', not 'A2"),
    ):
        await shell(f"{words} --yes --out o.csv --job '{name}' {KEPT}", 2, difference)
    for count, more in ((2, ""), (4, "--deadline 0.001s")):  # a job has no outcomes of another file
        shell.refunds(count)
        before, there = shell.sandbox.requests["refund"], names(shell.folder)
        differing = await shell(
            *(f"{LINE} --yes --job '{name}' {more}", 2),
            f"gateway-async: job {name!r} exists already: its order 0 ",
            "differs in transaction_id, order_no; nothing",
        )
        assert "goes on" not in differing.stderr
        assert (shell.sandbox.requests["refund"], names(shell.folder)) == (before, there)


async def test_captures_cancels_and_reviews(shell: Shell) -> None:
    payments = shell.sandbox.seed(3, status="authorised")
    for command, one in zip(("cancel", "review", "capture"), payments, strict=True):
        cells = (one.transaction_id, one.order_no, one.currency, one.amount, "1")
        count = 5 if command == "review" else 4
        write(shell.folder / "orders.csv", (*COLUMNS, "review_flag")[:count], [cells[:count]])
        await shell(f"{command} orders.csv --out out.csv {KEPT}")
        assert shell.statuses() == {"succeeded": 1}
        assert shell.sandbox.ledger.effects(command, one.transaction_id) == 1
    await shell(f"capture orders.csv --out out.csv --again {KEPT}", 2, "AGAIN, as new job capture-")


async def test_captures_of_workers_and_of_a_run_are_asked_about(shell: Shell) -> None:
    """Whichever has them first."""
    (paid,) = shell.sandbox.seed(1, status="authorised")
    row = [*(getattr(paid, name) for name in COLUMNS), "Ada"]
    write(shell.folder / "orders.csv", (*COLUMNS, "customer"), [row])
    capture = f"capture orders.csv --out out.csv {KEPT}"
    submit = f"submit orders.csv --operation capture {KEPT} --job"
    await shell(f"{submit} night")
    asked = ("has 1 order of this file (1 new)", "not sent: 'customer'", "Give --yes to go on")
    await shell(capture, 2, *asked)
    assert shell.sandbox.requests.total() == 0
    await shell(f"{capture} --yes")
    await shell(f"{submit} later", 2, "has 1 order of this file (1 succeeded)", *asked[1:])
    await shell(f"jobs show later {KEPT}", 2, "no job 'later'")
    await shell(f"{submit} later --yes")
    await shell(f"{submit} later")  # it has the orders already


async def test_json_is_one_object_with_counts_job_and_files(shell: Shell) -> None:
    shell.refunds(60)
    shell.sandbox.faults.add("refund", DropReply(times=1))
    line = f"refund orders.csv --json --out out.csv --yes {KEPT} {STOPPING}"
    facts = (await shell(line, 3)).facts
    assert facts["counts"].keys() <= {"succeeded", "unknown", "not_sent"}
    counts = facts["counts"].items()
    assert facts["amounts"] == {status: {"EUR": f"{count}.00"} for status, count in counts}
    assert (facts["orders"], facts["source"], facts["out"]) == (60, "orders.csv", "out.csv")
    assert facts["next"] == [f"gateway-async {line}"]
    assert all(re.fullmatch(UTC_TEXT, facts[name]) for name in ("started_at", "ended_at"))

    resume = f"jobs resume {facts['job']} --json --out out.csv --yes {KEPT}"
    resumed = (await shell(resume)).facts
    assert (resumed["job"], resumed["counts"]) == (facts["job"], {"succeeded": 60})
    assert resumed["journal"] == str(shell.folder / "jobs.db")
    look_up = "query orders.csv --json --out found.csv --chunk-size 20 --rate 20"
    found = (await shell(look_up)).facts
    assert {**found, "command": "query", "counts": {"succeeded": 60}, "requests": 3} == found
    assert found["seconds"] >= 2 / 20  # however fast the gateway is
    differing = (await shell("reconcile orders.csv --json --out differences.csv", 1)).facts
    assert differing["differing"] == differing["differences"]["refund_unknown_to_ledger"] == 60
    assert (differing["entries"], differing["retries"]) == (60, 0)
    assert differing["currencies"]["EUR"]["ledger_amount"] == "540.00"
    assert not {"orders", "counts", "amounts"} & {*differing}
    planned = (await shell("refund orders.csv --dry-run --json")).facts
    assert planned["amounts"] == {"EUR": "60.00"}
    assert shell.effects() == {1}


async def test_a_refusal_is_held_until_decided_unless_the_dialect_lists_it(shell: Shell) -> None:
    (payment,) = shell.sandbox.seed(1, status="authorised", amount="9.00")
    row = (*(getattr(payment, name) for name in COLUMNS), "1.00")
    write(shell.folder / "orders.csv", (*COLUMNS, "refund_amount"), [row])
    line = f"refund orders.csv --yes --config config.toml --out out.csv {KEPT} --job"
    listed, show = '[dialect]\ndeclined_statuses = ["0"]\n', f"jobs show night {KEPT}"
    for command, dialect, code, status in (
        (f"{line} night", "", 3, "unknown"),
        (f"{line} night", listed, 3, "unknown"),  # its reply is not read once more
        (show, listed, 0, "unknown"),
        (f"jobs resolve night declined 0 --note refused {KEPT}", listed, 0, "unknown"),
        (f"{line} night", listed, 1, "declined"),
        (f"{line} other", listed, 1, "declined"),
    ):
        (shell.folder / "config.toml").write_text(f"[recovery]\nsettle_seconds = 0.1\n{dialect}")
        ended = await shell(command, code)
        (found,) = shell.rows()
        assert found["status"] == status
        assert ("in Dialect.done_statuses, declined" in found["error"]) == (status == "unknown")
        told = ended.stderr + ended.stdout
        assert ("1 held for your decision" in told) == (code == 3)
        assert ("Dialect.done_statuses" in told) == (code == 3 or command == show)
        assert "go on with" not in told


@pytest.mark.slow
async def test_the_same_line_goes_on_after_a_kill(shell: Shell) -> None:
    shell.refunds(300)
    sandbox, tables = shell.sandbox, Tables(f"sqlite:///{shell.folder}/jobs.db")
    sandbox.faults.add("refund", Latency(seconds=0.05))
    line = f"{LINE} --yes"
    journal = {f"jobs.db{end}" for end in ("", "-shm", "-wal", "-journal")}
    for requests in (10, 22):  # of which each second moves money
        more = sandbox.requests.total() + requests
        process, ended = await shell.under_way(f"{line} --chunk-size 10 --concurrency 3", more)
        process.send_signal(signal.SIGKILL)
        await ended
        left = [name for name in names(shell.folder) if not name.endswith(".out.csv")]
        assert {*left} <= {"orders.csv"} | journal
        # The next run waits for the dead process's lease, which has little left.
        tables.end_leases_in(1)
    stderr = (await shell(line, None)).stderr
    assert shell.effects() <= {0, 1}, stderr
    for row in shell.rows():
        done = sandbox.ledger.effects("refund", row["transaction_id"])
        assert (row["status"], done) in {("succeeded", 1), ("not_sent", 0)}, stderr


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
