"""The commands as a user runs them: a process of its own, against the sandbox."""

import asyncio
import json
import re
import sys
import uuid
from pathlib import Path

import pytest

from gateway_async.cli.app import COMMANDS, run as run_here
from gateway_async.cli.settings import VARIABLES
from gateway_async.sandbox import Sandbox, SeededOrder
from tests.cli.running import (
    COLUMNS,
    REFUND_COLUMNS,
    names,
    outcomes,
    run,
    run_installed,
    start,
    statuses,
    write,
    write_refunds,
)


async def test_refund_writes_every_outcome_in_the_order_of_the_input(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 120), tmp_path / "out.csv"
    ended = await run_installed(sandbox, "refund", orders, "--yes", "--out", out)
    assert ended.code == 0, ended.stderr
    rows = outcomes(out)
    assert [row["customer"] for row in rows] == [f"customer {i}" for i in range(120)]
    assert all(row["refund_reference_id"] == row["transaction_id"] + "-01" for row in rows)
    assert {row["status"] for row in rows} == {"succeeded"}
    assert "120" in ended.stderr
    assert ended.stdout == ""
    assert sandbox.secret not in ended.stderr
    assert names(tmp_path) == ["orders.csv", "out.csv"]


async def test_capture_cancel_and_review(sandbox: Sandbox, tmp_path: Path) -> None:
    seeded = sandbox.seed(3, status="authorised")
    rows = [(p.transaction_id, p.order_no, p.currency, p.amount) for p in seeded]
    for command, row in zip(("capture", "cancel", "review"), rows, strict=True):
        columns = (*COLUMNS, "review_flag") if command == "review" else COLUMNS
        cells = (*row, "1") if command == "review" else row
        orders, out = write(tmp_path / f"{command}.in", columns, [cells]), tmp_path / command
        assert (await run(sandbox, command, orders, "--out", out)).code == 0
        assert statuses(out) == {"succeeded": 1}
        assert sandbox.ledger.effects(command, str(row[0])) == 1


async def test_a_review_without_a_verdict_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    (seeded,) = sandbox.seed(1, status="authorised")
    row = (seeded.transaction_id, seeded.order_no, seeded.currency, seeded.amount)
    orders = write(tmp_path / "orders.csv", COLUMNS, [row])
    ended = await run(sandbox, "review", orders, "--out", tmp_path / "out.csv")
    assert ended.code == 2
    assert "column review_flag: missing" in ended.stderr
    assert sandbox.requests["review"] == 0


async def test_declined_orders_come_with_their_reason_and_exit_1(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (payment,) = sandbox.seed(1, status="authorised", amount="9.00")
    row = (payment.transaction_id, payment.order_no, payment.currency, payment.amount, "1.00")
    orders = write(tmp_path / "orders.csv", (*COLUMNS, "refund_amount"), [row])
    config = tmp_path / "config.toml"
    config.write_text('[dialect]\ndeclined_statuses = ["0"]\n')
    command = ("refund", orders, "--yes", "--config", config)
    ended = await run(sandbox, *command, "--out", tmp_path / "out.csv")
    assert ended.code == 1
    (found,) = outcomes(tmp_path / "out.csv")
    assert found["status"] == "declined"
    assert found["error"]


async def test_a_refusal_that_the_dialect_does_not_know_is_unknown_with_its_reason(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (payment,) = sandbox.seed(1, status="authorised", amount="9.00")
    row = (payment.transaction_id, payment.order_no, payment.currency, payment.amount, "1.00")
    orders = write(tmp_path / "orders.csv", (*COLUMNS, "refund_amount"), [row])
    ended = await run(sandbox, "refund", orders, "--yes", "--out", tmp_path / "out.csv")
    assert ended.code == 3
    (found,) = outcomes(tmp_path / "out.csv")
    assert found["status"] == "unknown"
    assert found["code"].isdigit()
    assert found["code"] in found["error"]
    assert "declined_statuses" in found["error"]


async def test_look_ups_find_what_there_is_and_exit_1_for_what_is_absent(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (payment,) = sandbox.seed(1, status="captured", amount="9.00", currency="EUR")
    rows = [(payment.order_no,), ("stranger",)]
    orders, out = write(tmp_path / "orders.csv", ("order_no",), rows), tmp_path / "out.csv"
    assert (await run(sandbox, "query", orders, "--out", out)).code == 1
    found, absent = outcomes(out)
    assert (found["status"], found["found_transaction_id"], found["found_amount"]) == (
        *("succeeded", payment.transaction_id),
        "9.00",
    )
    assert (absent["order_no"], absent["status"]) == ("stranger", "absent")


async def test_the_outcomes_of_a_refund_can_be_looked_up(sandbox: Sandbox, tmp_path: Path) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 2), tmp_path / "out.csv"
    assert (await run(sandbox, "refund", orders, "--yes", "--out", out)).code == 0
    looked_up = tmp_path / "found.csv"
    ended = await run(sandbox, "search-refunds", out, "--out", looked_up, "--by", "transaction_id")
    assert ended.code == 0, ended.stderr
    assert [row["found_refund_amount"] for row in outcomes(looked_up)] == ["1.00", "1.00"]


def test_without_settings_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID", "SECRET"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)
    orders = write(tmp_path / "orders.csv", ("order_no",), [("O1",)])
    assert run_here(["query", str(orders), "--out", str(tmp_path / "out.csv")]) == 2
    said = capsys.readouterr().err
    assert "GATEWAY_BASE_URL" in said
    assert "GATEWAY_SECRET" in said
    assert not (tmp_path / "out.csv").exists()


async def test_a_bad_file_sends_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 60)
    with orders.open("a") as file:
        file.write("c,T,O,EUR,much,1.00,\n")
    ended = await run(sandbox, "refund", orders, "--yes", "--out", tmp_path / "out.csv")
    assert ended.code == 2
    assert "line 62, column amount: 'much' is not an amount" in ended.stderr
    assert not (tmp_path / "out.csv").exists()
    assert not sandbox.requests["refund"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("refund", "missing.csv", "--out", "out.csv"), "cannot read missing.csv"),
        (("refund", "missing.csv"), "--out"),
        (("rob",), "rob"),
        (("demo", "--orders", "0"), "orders"),
        (("query", "a.csv", "--out", "b.csv", "--by", "colour"), "colour"),
    ],
)
def test_wrong_usage_exits_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert not told.out


async def test_an_unwritable_outcome_file_sends_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 1)
    ended = await run(sandbox, "refund", orders, "--yes", "--out", tmp_path / "missing" / "out.csv")
    assert ended.code == 2
    assert "cannot write" in ended.stderr
    assert not sandbox.requests["refund"]


def test_help_names_commands_settings_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(["--help"]) == 0
    told = capsys.readouterr().out
    for word in (*COMMANDS, "GATEWAY_SECRET", "unknown"):
        assert word in told


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, *(f"jobs {one}" for one in ("list", "show", "outcomes", "resolve", "resume"))],
)
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


async def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    place = tmp_path / "completion"
    command = ("--install-completion", "--shell", "bash", "--output", place)
    process = await start(None, *command, env={"HOME": str(tmp_path)})
    stdout, _ = await process.communicate()
    assert process.returncode == 0
    assert str(place) in stdout.decode()
    text = place.read_text()
    assert all(word in text for word in (*COMMANDS, "--stop-after-unknown", "resolve"))


async def test_quiet_says_only_how_it_ended(sandbox: Sandbox, tmp_path: Path) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 2)
    command = ("refund", orders, "--yes", "--out", tmp_path / "out.csv")
    usual, quiet = [
        (await run(sandbox, *command, *options)).stderr for options in ((), ("-q", "--again"))
    ]
    assert "job refund" in usual
    assert "job refund" not in quiet
    assert "succeeded" in quiet
    ended = await run(sandbox, "refund", tmp_path / "missing.csv", "--out", "o.csv", "-q")
    assert "missing.csv" in ended.stderr


async def test_verbose_says_what_is_logged_without_a_secret(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 2)
    out = tmp_path / "out.csv"
    ended = await run(sandbox, "refund", orders, "--yes", "--out", out, "-v", "--log-format=json")
    logged = [line for line in map(json.loads, ended.stderr.splitlines()) if line["event"] == "log"]
    assert {line["level"] for line in logged} == {"DEBUG", "INFO"}
    assert any(
        line["logger"] == "gateway_async.requests"
        and "refund of 2 orders: answered" in line["message"]
        for line in logged
    )
    assert sandbox.secret not in ended.stderr


@pytest.mark.parametrize("orders", [1, 200])
def test_the_demo_settles_what_was_lost_and_agrees_with_the_books(
    orders: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(["demo", "--orders", str(orders)]) == 0
    assert "books agree" in capsys.readouterr().out


async def test_without_the_extra_one_line_says_what_to_install() -> None:
    blocked = (
        "import sys; sys.modules['cyclopts'] = None; from gateway_async.cli import main; main()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", blocked, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert stderr.decode() == (
        "gateway-async: the command line needs cyclopts; "
        "install it with: pip install 'gateway-async[cli]'\n"
    )


async def test_a_dry_run_shows_what_would_be_sent_and_needs_no_gateway(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 120)
    ended = await run(None, "refund", orders, "--dry-run", "--chunk-size", 40)
    assert (ended.code, ended.stderr) == (0, "")
    assert "refund: 120 orders, EUR 120.00\ncolumns that are not sent: 'customer'" in ended.stdout
    assert (
        "3 requests to /v1/refund of a gateway that is not named yet: 3 with 40 orders"
        in ended.stdout
    )
    for number, text in enumerate(ended.stdout.split("refund_orders = ")[1:]):
        sent = text.partition("\n]")[0] + "]"
        assert len(sent.splitlines()) == 41  # an order a line
        assert len(json.loads(sent)) == 40, number
    assert ended.stdout.endswith("nothing was sent\n")
    assert sandbox.requests.total() == 0
    assert names(tmp_path) == ["orders.csv"]


def test_a_dry_run_refuses_what_the_run_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    journal = f"sqlite:///{tmp_path}/jobs.db"
    for options, words in (
        (["--chunk-size", "80"], "80 is above the 50 orders"),
        (["--out", str(orders), "--job", "j", "--journal", journal], "is the file with the orders"),
        (["--out", str(tmp_path / "nowhere" / "out.csv")], "there is no directory"),
    ):
        assert run_here(["refund", str(orders), "--dry-run", *options]) == 2
        assert words in capsys.readouterr().err


def test_markers_need_no_look_up_before_each_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    config = tmp_path / "config.toml"
    for table, looks in (("", True), ('refund_evidence = "marker"', False)):
        config.write_text(f"[recovery]\n{table}\n")
        assert run_here(["refund", str(orders), "--dry-run", "--config", str(config)]) == 0
        assert ("are looked up" in capsys.readouterr().out) is looks


async def test_money_is_not_sent_where_nobody_can_confirm_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 2)
    ended = await run(sandbox, "refund", orders, "--out", tmp_path / "out.csv")
    assert ended.code == 2
    assert "refund 2 orders, EUR 2.00 at http://127.0.0.1" in ended.stderr
    assert " (columns that are not sent: 'customer'): there is no terminal" in ended.stderr
    assert "--yes" in ended.stderr
    assert sandbox.requests.total() == 0
    assert names(tmp_path) == ["orders.csv"]


async def test_a_pipe_of_json_lines_in_and_out(sandbox: Sandbox) -> None:
    (payment,) = sandbox.seed(1, status="captured", amount="9.00")
    order = dict(zip(REFUND_COLUMNS, (*payment_cells(payment), "1.00", "late"), strict=True))
    line = json.dumps({"customer": {"id": 7}, "price": 1.10, **order})
    ended = await run(
        *(sandbox, "refund", "-", "--format", "jsonl", "--yes", "--out", "-"),
        *("--log-format", "json", "--rate", 100, "--concurrency", 1),
        stdin=line.replace('"9.00"', "9.00") + "\n",
    )
    assert ended.code == 0, ended.stderr
    (row,) = map(json.loads, ended.stdout.splitlines())
    assert (row["customer"], row["price"], row["amount"]) == ({"id": 7}, 1.1, 9.0)
    assert row["status"] == "succeeded"
    said = [json.loads(line) for line in ended.stderr.splitlines()]
    assert said[-1]["event"] == "summary"
    assert said[-1]["counts"] == {"succeeded": 1}


def payment_cells(payment: SeededOrder) -> list[str]:
    return [str(getattr(payment, name)) for name in COLUMNS]


ROW = ("T1", "O1", "EUR", "9.00", "1.00", "late")


def test_repeated_transactions_may_be_sent_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW, ROW])
    asked = ["refund", str(orders), "--dry-run"]
    assert run_here(asked) == 2
    assert "--duplicates serialize" in capsys.readouterr().err
    assert run_here([*asked, "--duplicates", "serialize"]) == 0
    assert "2 requests to /v1/refund of a gateway that is not named yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("deadline", "code"), [("90", 0), ("90s", 0), ("1.5h", 0), ("0", 2), ("soon", 2), ("5d", 2)]
)
def test_a_deadline_is_a_duration(
    deadline: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    assert run_here(["refund", str(orders), "--dry-run", "--deadline", deadline]) == code
    assert ("write 50ms" in capsys.readouterr().err) == bool(code)


def test_a_dry_run_refuses_an_address_that_holds_a_password_and_does_not_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    address = "https://me:hush@gateway.example"
    assert run_here(["refund", str(orders), "--dry-run", "--base-url", address]) == 2
    shown = capsys.readouterr()
    assert "base_url: expected scheme, host and path alone" in shown.err
    assert "hush" not in shown.out + shown.err


def test_a_dry_run_shows_the_names_in_brackets_that_would_go_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = write(tmp_path / "orders.csv", COLUMNS, [("T1", "N1", "EUR", "9.00")])
    config = tmp_path / "config.toml"
    config.write_text(
        '[dialect]\nform_nesting = "brackets"\n'
        'body_formats = { capture = "application/x-www-form-urlencoded" }\n'
    )
    assert run_here(["capture", str(orders), "--dry-run", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert "capture_orders[0][transaction_id] = T1\n" in shown
    assert "capture_orders[0][amount] = 9.00\nnothing was sent\n" in shown


def test_a_dry_run_of_payouts_shows_the_first_and_no_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = "beneficiary.bank_details"
    header = (
        *("request_id", "payment_amount", "payment_currency", "note", "beneficiary.company_name"),
        *(f"{bank}.bank_name", f"{bank}.iban"),
    )
    row = (
        *(str(uuid.UUID(int=1)), "12.5", "EUR", "urgent", "Example Ltd"),
        *("Example Bank", "DE89370400440532013000"),
    )
    payouts = write(tmp_path / "payouts.csv", header, [row])
    assert run_here(["payout", str(payouts), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("payout: 1 order, EUR 12.5\ncolumns that are not sent: 'note'\n")
    assert f"request_id = {row[0]}\npayment_amount = 12.50\n" in told
    beneficiary = told.partition("beneficiary = ")[2].partition("\nnothing was sent")[0]
    assert json.loads(beneficiary) == {
        "company_name": "Example Ltd",
        "bank_details": {"bank_name": "Example Bank", "iban": "***"},
    }
    assert row[-1] not in told


async def test_a_look_up_may_repeat_an_order(sandbox: Sandbox, tmp_path: Path) -> None:
    (payment,) = sandbox.seed(1, status="captured", amount="9.00")
    orders = write(tmp_path / "orders.csv", ["order_no"], [[payment.order_no]] * 3)
    for command in ("query", "search-refunds"):
        out = tmp_path / f"{command}.csv"
        ended = await run(sandbox, command, orders, "--out", out)
        assert ended.code in {0, 1}, ended.stderr
        assert len(statuses(out)) == 1
        assert statuses(out).total() == 3


def test_the_file_of_settings_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('base_url = "https://named.example"\n[dialect]\namount_places = 0\n')
    monkeypatch.setenv("GATEWAY_CONFIG", str(config))
    monkeypatch.delenv("GATEWAY_BASE_URL", raising=False)
    orders = write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    assert run_here(["refund", str(orders), "--dry-run"]) == 0
    assert "https://named.example/v1/refund" in capsys.readouterr().out
    write(orders, REFUND_COLUMNS, [(*ROW[:4], "1.50", "")])
    assert run_here(["refund", str(orders), "--dry-run"]) == 2
    assert "more than 0 decimal places" in capsys.readouterr().err
