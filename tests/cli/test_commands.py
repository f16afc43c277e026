"""Help, usage, look-ups and dry runs."""

import contextlib
import json
import re
import subprocess
import sys
import tracemalloc
from datetime import datetime
from importlib.metadata import version

import pytest

from gateway_async.cli.app import COMMANDS, run as run_here
from gateway_async.cli.files import result_columns
from gateway_async.cli.kept import Kept
from gateway_async.cli.settings import VARIABLES
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox.faults import ResetBeforeEffect
from tests.cli.running import Shell, names, write
from tests.support.interface_fields import FIELDS

JOBS = ("list", "show", "outcomes", "resolve", "resume")

# Help and usage


def test_help_names_commands_settings_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(["--help"]) == 0
    told = capsys.readouterr().out
    for word in (*COMMANDS, "GATEWAY_SECRET", "unknown"):
        assert word in told


@pytest.mark.parametrize("command", [*COMMANDS, *(f"jobs {one}" for one in JOBS)])
def test_every_command_has_help_with_an_example_and_none_takes_a_secret(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run_here([*command.split(), "--help"]) == 0
    told = capsys.readouterr().out
    assert re.search(rf"^Example: gateway-async {command}\b", told, re.MULTILINE)
    for nothing in ("[default: ()]", "[default: False]", "[default: None]", "[default: ]", "--no-"):
        assert nothing not in told
    assert not re.search(r"--secret(?!-file|-env)", told)
    for name, variable in VARIABLES.items() if "--config" in told else ():
        assert (f"--{name.replace('_', '-')}" in told) <= (variable in told)


async def test_completion_is_installed_for_a_shell(shell: Shell) -> None:
    line = "--install-completion --shell bash --output completion"
    await shell(line, 0, "completion", env={"HOME": str(shell.folder)})
    text = (shell.folder / "completion").read_text()
    assert all(word in text for word in (*COMMANDS, "--stop-after-unknown", "resolve"))


async def test_all_that_is_said_can_be_lines_of_json(shell: Shell) -> None:
    shell.refunds(60)
    shell.sandbox.faults.add("refund", ResetBeforeEffect())
    line = "refund orders.csv --yes --out out.csv --log-format json --concurrency 1"
    ended = await shell.installed(line, 3)
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


async def test_no_columns_hide_nothing(shell: Shell) -> None:
    """Some programs set COLUMNS=0, by which rich would show nothing."""
    await shell("query missing.csv --out out.csv", 2, "cannot read", env={"COLUMNS": "0"})
    await shell("query --help", 0, "--stop-after-unknown", env={"COLUMNS": "0"})


async def test_quiet_and_verbose(shell: Shell) -> None:
    shell.refunds(2)
    line = "refund orders.csv --yes --out out.csv"
    await shell(line, 0, "job refund")
    assert "job refund" not in (await shell(f"{line} -q --again", 0, "succeeded")).stderr
    told = await shell(f"{line} -v --again", 0, "refund of 2 orders: answered")
    assert shell.sandbox.secret not in told.stderr


def test_the_demo_settles_losses_and_agrees_with_books(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(["demo", "--orders", "200"]) == 0
    out = capsys.readouterr().out
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
            for index in range(20_000):
                kept[index] = b"stopped"
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept.get(19_999) == b"stopped"
    assert held < 10 * 20_000


@pytest.mark.parametrize(
    ("module", "option", "said"),
    [
        ("gateway_async", "--version", f"{version('gateway-async')}\n"),
        ("gateway_async.sandbox", "--help", "Usage: gateway-async sandbox [OPTIONS]\n"),
    ],
)
def test_the_packages_are_commands(module: str, option: str, said: str) -> None:
    line = [sys.executable, "-m", module, option]
    assert subprocess.check_output(line, text=True).startswith(said)  # noqa: S603  # our own


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
        *(f"request {number}: 40 orders, the first of them" for number in (1, 2, 3)),
        "nothing was sent",
    ]
    for line, row in zip(lines[3::2], shell.rows("orders.csv")[:120:40], strict=True):
        sent = {name: cell for name, cell in row.items() if name != "customer"}
        assert line == "  " + ", ".join(f"{name} {cell}" for name, cell in sent.items())
    assert shell.sandbox.requests.total() == 0
    assert names(shell.folder) == ["orders.csv"]
