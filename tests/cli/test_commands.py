"""Help, usage, look-ups and dry runs; wrong lines; what is said while a command works or fails."""

import asyncio
import contextlib
import io
import itertools
import json
import logging
import re
import runpy
import signal
import stat
import sys
import tracemalloc
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

from gateway_async import GatewayClient
from gateway_async.cli.app import COMMANDS
from gateway_async.cli.console import Console, output, plain_console, progress
from gateway_async.cli.files import result_columns
from gateway_async.cli.kept import Kept
from gateway_async.cli.settings import VARIABLES
from gateway_async.operations import OPERATIONS, QUERY, REFUND
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.cli.running import REFUND_COLUMNS, Here, Shell, names, write
from tests.support.interface_fields import FIELDS
from tests.support.orders import COLUMNS

JOBS = ("list", "show", "outcomes", "resolve", "resume")

# Help and usage


def test_help_names_commands_settings_and_exit_codes(here: Here) -> None:
    told = here("--help").stdout
    for word in (*COMMANDS, "GATEWAY_SECRET", "unknown"):
        assert word in told


@pytest.mark.parametrize("command", [*COMMANDS, *(f"jobs {one}" for one in JOBS)])
def test_every_command_has_help_with_an_example_and_none_takes_a_secret(
    command: str, here: Here
) -> None:
    told = here(f"{command} --help").stdout
    assert re.search(rf"^Example: gateway-async {command}\b", told, re.MULTILINE)
    for nothing in ("[default: ()]", "[default: False]", "[default: None]", "[default: ]", "--no-"):
        assert nothing not in told
    assert not re.search(r"--secret(?!-file|-env)", told)
    for name, variable in VARIABLES.items() if "--config" in told else ():
        assert (f"--{name.replace('_', '-')}" in told) <= (variable in told)


def test_completion_is_installed_for_a_shell(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "completion"
    assert str(path) in here(f"--install-completion --shell bash --output {path}").stdout
    assert all(word in path.read_text() for word in (*COMMANDS, "--stop-after-unknown", "resolve"))


async def test_all_that_is_said_can_be_lines_of_json(shell: Shell) -> None:
    shell.refunds(60)
    shell.sandbox.faults.add("refund", ResetBeforeEffect())
    line = "refund orders.csv --yes --out out.csv --log-format json --concurrency 1"
    ended = await shell(line, 3)
    said = [json.loads(one) for one in ended.stderr.splitlines()]
    assert {(one["level"], one["logger"]) for one in said} == {
        ("INFO", "gateway_async.cli"),
        ("WARNING", "gateway_async.requests"),
    }
    assert sum(one["message"].startswith("refund of ") for one in said) == 2  # each is said
    assert said[0]["message"] == "columns that are not sent: 'customer'"
    assert datetime.fromisoformat(said[0]["time"]).tzinfo is not None
    missing = await shell("refund missing.csv --log-format json", 2)
    wrong = json.loads(missing.stderr.splitlines()[-1])
    assert (wrong["level"], wrong["message"][:26]) == ("ERROR", "gateway-async: cannot read")


def test_no_columns_hide_nothing(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs set COLUMNS=0, by which rich would show nothing."""
    monkeypatch.setenv("COLUMNS", "0")
    assert "cannot read" in here("query missing.csv --out out.csv", 2).stderr
    monkeypatch.setenv("COLUMNS", "0")  # the command before unset it
    assert "--stop-after-unknown" in here("query --help").stdout


async def test_quiet_and_verbose_and_a_journal_for_its_user_alone(shell: Shell) -> None:
    shell.refunds(2)
    line = "refund orders.csv --yes --out out.csv"
    await shell(line, 0, "job refund")
    state = shell.folder.with_name(f"{shell.folder.name}-state")
    journal = state / "gateway-async" / "journal.db"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.parent.stat().st_mode) == 0o700
    assert "job refund" not in (await shell(f"{line} -q --again", 0, "succeeded")).stderr
    told = await shell(f"{line} -v --again", 0, "refund of 2 orders: answered")
    assert shell.sandbox.secret not in told.stderr


def test_the_demo_settles_losses_and_agrees_with_books(here: Here) -> None:
    out = here("demo --orders 200").stdout
    assert "books have each of them once" in out
    row = r"^ +(\w+) +(\d+) +(\d+) +(-|10 unknown) +\d+ +\d+\.\d *$"
    assert re.findall(row, out, re.MULTILINE) == [
        ("capture", "200", "200", "-"),
        ("refund", "67", "57", "10 unknown"),
        ("recover", "10", "10", "-"),
        ("query", "200", "200", "-"),
    ]


# Look-ups


async def test_look_ups_find_what_there_is_and_exit_1_for_what_is_absent(shell: Shell) -> None:
    orders = shell.refunds(2)
    first = shell.rows("orders.csv")[0]["order_no"]
    for more in ("", "--again"):
        await shell(f"refund orders.csv --yes --out out.csv {more}")
    for command, column, value in (
        ("search-refunds", "record_refund_amount", "1.00;1.00"),  # of two records
        ("query", "record_amount", "9.00"),
    ):
        for source, to in (("out.csv", "found.csv"), ("found.csv", "again.csv")):  # as input again
            await shell(f"{command} {source} --out {to}")
            assert [row[column] for row in shell.rows(to)] == [value] * 2
    failed = "query of 2 orders: failed for 2\n"
    await shell("query orders.csv --out lost.csv", 3, failed, env={"GATEWAY_SECRET": "wrong"})
    write(orders, ("order_no",), [("stranger",), *[(first,)] * 3])  # it does no harm to ask twice
    await shell("query orders.csv --out found.csv", 1)
    assert [(row["order_no"], row["status"]) for row in shell.rows("found.csv")] == [
        ("stranger", "absent"),
        *[(first, "succeeded")] * 3,
    ]


@pytest.mark.parametrize("command", ["query", "search_refunds", "payout"])
def test_every_field_that_the_interface_documents_is_in_the_output(command: str) -> None:
    operation = OPERATIONS[command]
    columns = result_columns(operation)
    for name in FIELDS[operation.record_class.__name__] - {"encryption_data"}:
        column = f"record_{name}"  # or those of its parts
        assert any(f"{one}_".startswith(f"{column}_") for one in columns), name
    assert not any("encryption_data" in column for column in columns)


def test_memory_does_not_grow_with_the_rows() -> None:
    with contextlib.closing(Kept()) as kept:
        tracemalloc.start()
        try:
            for index in range(10_000):
                kept[index] = b"stopped"
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept.get(9_999) == b"stopped"
    assert held < 10 * 10_000


@pytest.mark.parametrize(
    ("module", "option", "said"),
    [
        ("gateway_async", "--version", f"{version('gateway-async')}\n"),
        ("gateway_async.sandbox", "--help", "Usage: gateway-async sandbox [OPTIONS]\n"),
    ],
)
def test_the_packages_are_commands(
    module: str, option: str, said: str, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [module, option])
    told = here(option, command=lambda _: runpy.run_module(module, run_name="__main__"))
    assert told.stdout.startswith(said)


# Dry runs


async def test_a_dry_run_shows_what_would_be_sent_and_asks_no_gateway(shell: Shell) -> None:
    shell.refunds(220)
    secretless = {"GATEWAY_SECRET": ""}
    ended = await shell("refund orders.csv --dry-run --chunk-size 40", env=secretless)
    assert ended.stderr == "columns that are not sent: 'customer'\n"
    lines, url = ended.stdout.splitlines(), shell.sandbox.base_url
    assert lines[0].startswith("new job refund-")
    assert lines[1] == f"refund 220 orders, EUR 220.00: at least 6 requests to {url}/v1/refund"
    assert lines[2::2] == [
        *(f"request {number}: at most 40 orders, the first of them" for number in (1, 2, 3)),
        "nothing was sent",
    ]
    for line, row in zip(lines[3::2], shell.rows("orders.csv")[:120:40], strict=True):
        sent = {name: cell for name, cell in row.items() if name != "customer"}
        assert line == "  " + ", ".join(f"{name} {cell}" for name, cell in sent.items())
    assert shell.sandbox.requests.total() == 0
    assert names(shell.folder) == ["orders.csv"]


# Lines that send nothing: what is wrong with each, and that no file is made

ROW = ("T1", "O1", "EUR", "9.00", "1.00", "late")
LEDGER = ("order_no", "transaction_id", "currency", "amount", "refunded")
LONG = "n" * 300
"""A name that no file can have; a folder that may not be entered is refused in the same way."""
KEPT = "--journal sqlite:///night.db"
UNNAMED = [
    ("query orders.csv --out b.csv", "GATEWAY_BASE_URL"),
    ("refund orders.csv --dry-run", "GATEWAY_BASE_URL"),
]
NAMED = [
    ("refund missing.csv --out out.csv", "cannot read missing.csv"),
    ("refund missing.csv --out out.csv -q", "cannot read missing.csv"),
    ("refund orders.csv", "--out: name the file for the outcomes, such as --out outcomes.csv\n"),
    ("demo --orders 0", "orders"),
    ("refund orders.csv --dry-run --deadline 1.5h", ""),
    ("refund orders.csv --dry-run --deadline 0s", "deadline_seconds: expected"),
    ("refund orders.csv --dry-run --deadline 50ms", ""),
    ("refund orders.csv --dry-run --deadline 5", "--deadline: expected a duration such as 50ms"),
    ("refund orders.csv --dry-run --chunk-size 80", "80 is above the 50 orders"),
    ("refund twice.csv --dry-run", "--duplicates serialize"),
    ("refund twice.csv --dry-run --duplicates serialize", ""),
    ("refund orders.csv --dry-run --base-url https://me:hush@x.y", "base_url: expected"),
    ("reconcile much.csv", "line 2, column amount: 'much' is no amount"),
    ("reconcile orders.csv --json --out -", "--out: name the file for the outcomes"),
    *(
        (f"{line} --journal sqlite:///j.db", "there is no journal")
        for line in (
            *("jobs list", "jobs show night", "jobs outcomes night --out o.csv", "watch night"),
            *("jobs resume night --out o.csv", "jobs resolve night declined 1 --note x"),
        )
    ),
    ("jobs list --journal postgresql://me:hush@db/x", "a password in an option shows"),
    ("jobs list --journal postgresql://me:a/hush@db/x", "a password in an option shows"),
    ("jobs list --journal postgresql://db/x?sslpassword=hush", "a password in an option shows"),
    ("refund orders.csv --dry-run --proxy http://me:hush@proxy.example", "a password in an option"),
    ("jobs lst", 'Unknown command "lst". Did you mean "list"?'),
    ("jobs list --base-url http://x.y", "--base-url"),
    ("jobs resolve night declined 1", "--note"),
    ("jobs resolve night succeed 3 --note no", "succeed"),
    *(
        (f"jobs resolve night declined {which} --note no", "expected orders, or --state, and not")
        for which in ("3 --state held", "")
    ),
    ("refund orders.csv --yes --out o.csv --again --job night", "under another --job"),
    *(
        (f"refund orders.csv --yes --out o.csv --config own.toml {KEPT} --report {one}", one[2:])
        for one in ("./night.db", "./night.db-wal", "./o.csv", "./own.toml", "nowhere/o.html")
    ),
    (f"refund orders.csv --out o.csv {KEPT} --report own.toml", "there is no terminal to confirm"),
    *(
        (f"query orders.csv --out secret {option} secret", "--out: secret is the file of ")
        for option in ("--secret-file", "--ca-file")
    ),
    ("refund --dryrun orders.csv --yes", "--dryrun stands where a file is expected"),
    ("refund orders.csv --yes --out --dry-run", "stands where a file is expected"),
    ("query orders.csv --out nowhere/o.csv", "cannot write nowhere/o.csv: No such"),
    *((f"query orders.csv --out {one}", f"{one} is no file; name one") for one in (".", "/", "..")),
    ("query orders.csv --out o.csv --merchant-id=", "merchant_id: expected a text"),
    ("check --account-id ' A1'", "account_id: expected a text"),
    ("query orders.csv --out o.csv --deadline 9999999999d", "expected a shorter duration"),
    (f"query orders.csv --out {LONG}", f"cannot write {LONG}: File name too long"),
    (f"query orders.csv --out o.csv --report {LONG}", f"cannot write {LONG}: File name too long"),
    (f"check --write {LONG}", f"--write: cannot write {LONG}: File name too long"),
    *(
        (f"{line} --journal sqlite:///{LONG}", "cannot open the journal")
        for line in ("jobs list", "refund orders.csv --yes --out o.csv")
    ),
    ("refund orders.csv --yes --out o.csv --job= --journal sqlite:///j.db", "expected a name"),
    ("refund orders.csv --yes --out o.csv --journal sqlite:///no/j.db", "cannot open the journal"),
    ("refund orders.csv --yes --out o.csv --journal mysql://db/x", "journal URL: expected sqlite"),
    *((f"jobs resolve x declined {one} --note n", f"not {one}") for one in ("17.5", "-1")),
    ("submit orders.csv --operation refund --job x", "there is no terminal to confirm it at"),
    ("submit orders.csv --job x --report x.html", "Unknown option: "),
    ("worker", "--broker: name the RabbitMQ to work for"),
    ("worker --broker amqp://me:hush@host/", "a password in an option shows"),
    ("worker --broker http://host/", "broker: expected amqp://user:password@host/"),
    ("worker --broker amqp://host:port/", "broker: expected amqp://user:password@host/"),
    ("worker --broker amqp://127.0.0.1:1/", "--broker: it cannot be reached"),
]


@pytest.mark.parametrize(
    ("line", "words", "is_named"),
    [(*one, False) for one in UNNAMED] + [(*one, True) for one in NAMED],
)
def test_a_line_that_sends_nothing(
    line: str,
    words: str,
    is_named: bool,
    here: Here,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in () if is_named else ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID", "SECRET"):
        monkeypatch.delenv(f"GATEWAY_{name}")
    write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    write(tmp_path / "twice.csv", REFUND_COLUMNS, [ROW, ROW])
    write(tmp_path / "much.csv", LEDGER, [("O1", "T1", "EUR", "much", "0")])
    (tmp_path / "own.toml").touch()
    (tmp_path / "secret").write_text("secret")
    there = {path: path.read_bytes() for path in tmp_path.iterdir()}
    told = here(line, 2 if words else 0)
    assert words in told.stderr
    assert "hush" not in told.stdout + told.stderr
    assert bool(told.stdout) == (not words)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == there


# What is shown


def told(*, is_quiet: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(is_quiet=is_quiet, rich=plain_console(file)), file


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("[bold]no markup[/bold]", "a, " * 200 + "b", "two\nlines")),
        *((text, text) for text in ("[/x]", "O:smile:1")),
        ("refused\x1b[2J\x9b2J\x07", "refused\\x1b[2J\\x9b2J\\x07"),  # it steers no terminal
    ],
)
def test_texts_are_shown_as_they_are(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console, file = told()
    console.say(text)
    assert file.getvalue() == f"{shown}\n"
    output(text)
    printed = capsys.readouterr().out
    assert shown.split(maxsplit=1)[0] in printed
    assert "\x1b[2J" not in printed


async def test_progress_without_a_terminal_is_a_line_from_time_to_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway_async.cli.console._SECONDS_BETWEEN_FRAMES", 0)
    monkeypatch.setattr("gateway_async.cli.console._FRAMES_BETWEEN_LINES", 3)
    done = itertools.count()
    for is_quiet in (False, True):
        console, file = told(is_quiet=is_quiet)
        with progress(console, "refund", 1000, lambda: ((n := next(done)), {"succeeded": n})):
            for _ in range(10):
                await asyncio.sleep(0)
        lines = file.getvalue().splitlines()
        assert len(lines) == (0 if is_quiet else 3)
        for line in lines:
            assert re.fullmatch(
                r"refund: \d+ of 1,000, [\d,]+\.\d a second, \d+ succeeded, [\d,]+ s left", line
            )


def test_warnings_are_told_once_and_counted_and_so_is_what_makes_a_job_wait() -> None:
    console, file = told()
    requests, jobs = (logging.getLogger(f"gateway_async.{name}") for name in ("requests", "jobs"))
    with console.passing_on_logs():
        for number in range(9):
            requests.warning("chunk %d is unknown", number)
        for operation in (REFUND, QUERY):
            requests.warning("%s failed", operation)
        logging.getLogger("gateway_async.batches").info("refund began")
        jobs.warning("job 'november' waits 14.0 s")
        logging.getLogger("gateway_async.recovery").info("looked at again in 60 s")
    jobs.warning("job 'december' waits 14.0 s")
    assert file.getvalue().splitlines() == [
        "chunk 0 is unknown",
        "refund failed",
        "query failed",  # which is of another kind: it moves no money
        "job 'november' waits 14.0 s",
        "looked at again in 60 s",
        "8 more of these, the last: chunk 8 is unknown",
    ]


# Interrupted or broken


@pytest.mark.parametrize("loads", ["gateway_async.cli.require_extra", "cyclopts.App.parse_args"])
def test_ctrl_c_while_a_command_is_loaded_ends_it_in_few_words(
    here: Here, monkeypatch: pytest.MonkeyPatch, loads: str
) -> None:
    monkeypatch.setattr(loads, Mock(side_effect=KeyboardInterrupt))
    assert here("jobs list", 2).stderr == "gateway-async: stopped\n"


def test_ctrl_c_ends_a_command_that_only_reads(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(1)

    (tmp_path / "j.db").touch()
    monkeypatch.setattr("gateway_async.cli.jobs.write_job", read)
    line = "jobs outcomes night --out o.csv --journal sqlite:///j.db"
    assert "stopped; this command sent nothing" in here(line, 2).stderr


def test_ctrl_c_in_submit_does_not_say_that_nothing_was_sent(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The orders may be in the journal by then, and workers send them."""
    write(tmp_path / "orders.csv", COLUMNS, [("T1", "O1", "EUR", "1.00")])
    monkeypatch.setattr(GatewayClient, "submit", Mock(side_effect=KeyboardInterrupt))
    submit = "submit orders.csv --operation capture --job night --yes --journal sqlite:///j.db"
    assert "nothing was sent" not in here(submit, 3).stderr


def test_a_command_that_has_a_defect_or_cannot_be_loaded(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway_async.cli.app.run", Mock(side_effect=RuntimeError("a defect")))
    told = here("refund", 3)  # 1 would say that orders were declined
    assert told.stderr.endswith("RuntimeError: a defect\n")
    monkeypatch.delitem(sys.modules, "gateway_async.cli.app")
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    needed = "the command line needs cyclopts: pip install 'gateway-async[cli]'"
    assert here("refund", 2).stderr == f"gateway-async: {needed}\n"
