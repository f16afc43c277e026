import asyncio
import contextlib
import csv
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway_async import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.__main__ import main, make_parser, make_sandbox, to_seconds
from tests.cli.running import run
from tests.sandbox.conftest import Merchant, sign
from tests.sandbox.test_payments import DIRECT, PAYOUT, pay

ROOT = Path(__file__).parents[2]


async def test_the_books_survive_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "books.sqlite"
    async with aiohttp.ClientSession() as http:
        async with Sandbox(state=state) as first:
            merchant = Merchant(sandbox=first, http=http)
            orders = first.seed(2, status="captured")
            await merchant.refund(*orders)
            await merchant.refund(orders[0], currency="USD")
            await pay(merchant, DIRECT)
            await merchant.ask("payout", PAYOUT)
        async with Sandbox(state=state) as second:
            assert list(second.ledger) == list(first.ledger)
            assert second.ledger.recent_refunds() == first.ledger.recent_refunds()
            assert second.ledger.refusals("refund", orders[0].transaction_id) == 1
            assert len(second.ledger.payouts_of(str(PAYOUT["request_id"]))) == 1
            (record,) = await Merchant(sandbox=second, http=http).refund(orders[0])
            assert record["refund_reference_id"].endswith("-02")
            (new,) = second.seed(1)
            assert [t.transaction_id for t in second.ledger].count(new.transaction_id) == 1


async def test_a_state_file_holds_no_card(tmp_path: Path) -> None:
    state = tmp_path / "books.sqlite"
    async with aiohttp.ClientSession() as http, Sandbox(state=state) as sandbox:
        await pay(Merchant(sandbox=sandbox, http=http), DIRECT)
    assert DIRECT["card"].encode() not in state.read_bytes()


async def test_it_listens_on_this_machine_only_and_once() -> None:
    sandbox = Sandbox()
    with pytest.raises(ConfigurationError, match="not started"):
        _ = sandbox.base_url
    async with sandbox:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", sandbox.base_url)
        with pytest.raises(ConfigurationError, match="twice"):
            await sandbox.__aenter__()
        port = int(sandbox.base_url.rsplit(":", 1)[1])
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await Sandbox(port=port).__aenter__()


@pytest.mark.parametrize("port", [65536, -1, "8800"])
async def test_what_is_no_port_is_refused(port: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}"):
        await Sandbox(port=port).__aenter__()


@pytest.mark.parametrize("content", [None, b"no database" * 100, "CREATE TABLE entries (a)"])
def test_a_state_file_that_cannot_be_one_is_named(
    tmp_path: Path, content: bytes | str | None
) -> None:
    state = tmp_path / "books" if content else tmp_path / "nowhere" / "books"
    if isinstance(content, bytes):
        state.write_bytes(content)
    elif content:
        with contextlib.closing(sqlite3.connect(state)) as other:
            other.execute(content)
    with pytest.raises(ConfigurationError, match=rf"Sandbox\.state: .*{re.escape(str(state))}"):
        Sandbox(state=state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("merchant_id", ""),
        ("account_id", None),
        ("secret", b"a secret"),
        ("state", 5),
        ("random_seed", []),
        ("deduplicate_payouts", "no"),
        ("clock", 5),
        ("notify_signed", "no"),
        ("notify_pauses", 5),
        ("notify_pauses", (float("nan"),)),
    ],
)
def test_a_wrong_setting_is_named_at_once(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^Sandbox\.{name}: expected") as refusal:
        Sandbox(**{name: value})
    assert "a secret" not in str(refusal.value)


def test_seeding_knows_its_counts_statuses_and_amounts() -> None:
    for count in (-1, 1.0, True):
        with pytest.raises(ConfigurationError, match=r"Sandbox\.seed: .* is no count"):
            Sandbox().seed(count)  # type: ignore[arg-type]  # on purpose
    assert Sandbox().seed(0) == []
    with pytest.raises(ConfigurationError, match="authorised"):
        Sandbox().seed(1, status="paid")
    for amount in ("ten", 0.1, "-1", Decimal("NaN"), None):
        with pytest.raises(ConfigurationError, match=r"Sandbox\.seed: .* is no amount"):
            Sandbox().seed(1, amount=amount)  # type: ignore[arg-type]  # on purpose
    for amount in (10, "10", Decimal("1E1")):
        assert Sandbox().seed(1, amount=amount)[0].amount == 10  # type: ignore[arg-type]  # as an order's


def serve_and_end(*options: object) -> str:
    """Run the command, end it once it serves, and return what it said."""
    command = [sys.executable, "-m", "gateway_async.sandbox", "--port", "0", *map(str, options)]
    env = {**os.environ, "TEST_SECRET": "another"}
    with subprocess.Popen(  # noqa: S603  # our own command
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait() == 0
    return line + rest


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    listed = tmp_path / "orders.csv"
    told = ("--secret-env", "TEST_SECRET", "--seed", 1)
    said = serve_and_end("--orders", 3, "--orders-csv", listed, *told)
    assert re.match(r"sandbox listening on http://127\.0\.0\.1:\d+\n", said)
    _, table, hint = said.partition("[dialect]\n")
    assert Dialect(**tomllib.loads(hint)).declined_statuses == Sandbox().dialect.declined_statuses
    assert table
    with listed.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["order_no"] for row in rows] == ["S00000001", "S00000002", "S00000003"]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "command"), [("captured", "refund"), ("authorised", "capture")])
async def test_a_file_of_orders_is_one_for_the_command_line(
    tmp_path: Path, status: str, command: str
) -> None:
    orders, books = tmp_path / "orders.csv", tmp_path / "books.sqlite"
    options = ("--orders", 3, "--orders-status", status, "--orders-csv", orders, "--state", books)
    await asyncio.to_thread(serve_and_end, *options)
    assert b"\r" not in orders.read_bytes()
    async with Sandbox(state=books) as sandbox:
        ended = await run(sandbox, command, orders, "--yes", "--out", tmp_path / "out.csv")
    assert ended.code == 0, ended.stderr


@pytest.mark.slow
async def test_a_file_of_orders_is_of_what_the_books_have(tmp_path: Path) -> None:
    listed, books = tmp_path / "orders.csv", tmp_path / "books.sqlite"
    async with aiohttp.ClientSession() as http, Sandbox(state=books) as sandbox:
        (refunded,) = sandbox.seed(1, status="captured")
        await Merchant(sandbox=sandbox, http=http).refund(refunded)
    options = ("--orders", 3, "--orders-csv", listed, "--state", books)
    for _ in range(2):
        await asyncio.to_thread(serve_and_end, *options)
        rows = listed.read_text("utf-8").splitlines()[1:]
        assert [row.split(",")[1] for row in rows] == ["S00000002", "S00000003"]
    assert "orders.csv.1" not in await asyncio.to_thread(os.listdir, tmp_path)  # the same


@pytest.mark.slow
def test_a_file_that_is_there_already_is_kept(tmp_path: Path) -> None:
    listed, older = tmp_path / "orders.csv", tmp_path / "orders.csv.1"
    older.write_text("the oldest\n")
    listed.write_text("older\n")
    serve_and_end("--orders", 2, "--orders-csv", listed)
    assert len(listed.read_text().splitlines()) == 3
    assert older.read_text() == "the oldest\n"
    assert (tmp_path / "orders.csv.2").read_text() == "older\n"


def test_a_sandbox_that_cannot_start_leaves_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "orders.csv"
    listed.write_text("older\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1]), "--orders-csv", str(listed)]) == 2
    assert "cannot listen" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [listed]
    assert listed.read_text() == "older\n"


def test_options_become_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "from the environment")
    options = ["--drop-reply", "0.01", "--latency", "50ms", "--error-rate", "0.1"]
    options += ["--missing-item", "0.2", "--late-effect", "0.3", "--late-seconds", "1s"]
    sandbox = make_sandbox(make_parser().parse_args(options))
    assert sandbox.secret == "from the environment"
    shown = repr(sandbox.faults)
    for part in (
        "DropReply(times=None, probability=0.01)",
        "Latency(times=None, probability=1.0, seconds=0.05, jitter=0.0)",
        "MissingItems(times=None, probability=0.2, count=1)",
        "seconds=1.0",
        "status=503",
    ):
        assert part in shown


async def test_the_command_says_where_shoppers_go_and_how_merchants_are_told() -> None:
    options = ["--port", "0", "--notify-format", "json", "--notify-unsigned"]
    options += [
        "--return-url",
        "http://127.0.0.1:1/back",
        "--cancel-url",
        "http://127.0.0.1:1/left",
    ]
    fields = {**DIRECT, "notify_url": "http://127.0.0.1:1/n"}
    async with (
        aiohttp.ClientSession() as http,
        make_sandbox(make_parser().parse_args(options)) as sandbox,
    ):
        merchant = Merchant(sandbox=sandbox, http=http)
        await pay(merchant, fields)
        async with merchant.post("checkout", fields, form=True) as response:
            page = await response.text()
        await sandbox.deliver_notifications()
    assert '"http://127.0.0.1:1/back"' in page
    assert '"http://127.0.0.1:1/left"' in page
    (told,) = sandbox.notifications
    assert json.loads(told.body)["order_no"] == DIRECT["order_no"]
    assert b"encryption_data" not in told.body


@pytest.mark.parametrize(("text", "expected"), [("50ms", 0.05), ("2s", 2.0), ("0.5", 0.5)])
def test_durations(text: str, expected: float) -> None:
    assert to_seconds(text) == expected


@pytest.mark.parametrize(
    "options",
    [["--latency", "fast"], ["--drop-reply", "2"], ["--drop-reply", "x"], ["--orders", "-1"]],
)
def test_wrong_options_end_the_command(options: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_parser().parse_args(options)


def test_help_names_the_command_that_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    for prog in ("gateway-async sandbox", "python -m gateway_async.sandbox"):
        with pytest.raises(SystemExit, match="0"):
            main(["--help"], prog)
        assert capsys.readouterr().out.startswith(f"usage: {prog} ")


def test_a_secret_that_is_not_there_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    assert main(["--secret-env", "NOT_THERE"]) == 2
    assert "NOT_THERE" in capsys.readouterr().err


@pytest.mark.slow
def test_importing_one_does_not_import_the_other() -> None:
    script = (
        "import sys, gateway_async\n"
        "assert 'gateway_async.sandbox' not in sys.modules\n"
        "before = set(sys.modules)\n"
        "import gateway_async.sandbox.ledger, gateway_async.sandbox.faults\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)  # noqa: S603  # our own


def test_the_sandbox_stands_on_few_modules_of_the_package() -> None:
    """Its dialect is what its operator says of it; it reads none."""
    pattern = re.compile(r"^\s*(?:from|import) (gateway_async[.\w]*)", re.MULTILINE)
    shared = ("gateway_async.signing", "gateway_async.operations", "gateway_async.errors")
    for path in (ROOT / "gateway_async" / "sandbox").rglob("*.py"):
        allowed = (*shared, "gateway_async.dialect") if path.name == "server.py" else shared
        for name in pattern.findall(path.read_text(encoding="utf-8")):
            assert name in allowed or name.startswith("gateway_async.sandbox"), (path.name, name)


def test_the_hand_written_signature_is_the_documented_one() -> None:
    # printf 'a=1&b=2' | openssl dgst -sha256 -hmac k
    expected = "acaa976e196269880b8b3898a5ec2f3881696e4570890e89538ba5a0cbfe2829"
    assert sign({"b": "2", "a": "1"}, "k") == expected
