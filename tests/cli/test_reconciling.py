"""`reconcile`: many lines, with differences of each kind planted, and exactly those found."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_async.reconciliation import LedgerEntry
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ExtraItems, Status
from tests.cli.running import outcomes, run, write
from tests.reconciliation.planting import PLANTS, entry_of, pay

LINES = 6_000
LINES_OF_A_PAYMENT = 50
"""A payment may stand in several lines: so the books are the smaller part of the work."""
HEADER = ("order_no", "transaction_id", "currency", "amount", "refunded", "state", "booked_by")
CONFIG = """
[reconcile]
states = { "3000" = ["paid", "refunded"], "4100" = "reserved" }
"""


def cells(entry: LedgerEntry, clerk: str) -> tuple[object, ...]:
    return (*(getattr(entry, name) for name in HEADER[:-1]), clerk)


def ledger(sandbox: Sandbox, kinds: list[str]) -> Iterator[tuple[object, ...]]:
    """Yield lines that fit, and in between those that do not."""
    fitting = entry_of(pay(sandbox, "first"))
    for number, kind in enumerate(kinds):
        if kind:
            yield cells(PLANTS[kind](sandbox, f"N{number}"), f"clerk {number}")
            continue
        if number % LINES_OF_A_PAYMENT == 0:
            fitting = entry_of(pay(sandbox, f"N{number}", refunds=["1.50"]))
        yield cells(fitting, f"clerk {number}")


async def test_every_planted_difference_is_found_among_many_lines_and_no_other(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    planted = [*PLANTS] * 7
    kinds = [*planted, *[""] * (LINES - len(planted))]
    random.Random(7).shuffle(kinds)
    file = write(tmp_path / "ledger.csv", HEADER, [*ledger(sandbox, kinds)])
    config, out = tmp_path / "config.toml", tmp_path / "differences.csv"
    config.write_text(CONFIG)
    ended = await run(sandbox, "reconcile", file, "--out", out, "--config", config)
    assert ended.code == 1, ended.stderr
    rows = outcomes(out)
    assert [(int(row["ledger_line"]) - 2, row["difference"]) for row in rows] == [
        (number, kind) for number, kind in enumerate(kinds) if kind
    ]
    assert all(row["booked_by"] == f"clerk {int(row['ledger_line']) - 2}" for row in rows)
    matched = f"{LINES - len(planted):,} matched, {len(planted)} differing, 0 unanswered"
    assert f"{LINES:,} entries: {matched}" in ended.stderr
    assert Counter(row["difference"] for row in rows) == dict.fromkeys(PLANTS, 7)


@pytest.mark.parametrize("meaning", ["3000=paid,refunded", " 3000 = refunded, paid "])
async def test_differences_are_printed_where_there_is_no_file_for_them(
    sandbox: Sandbox, tmp_path: Path, meaning: str
) -> None:
    lines = [
        cells(PLANTS["amount"](sandbox, "N1"), "Ann"),
        cells(entry_of(pay(sandbox, "N2"), state="reserved"), "Bob"),
    ]
    file = write(tmp_path / "ledger.csv", HEADER, lines)
    ended = await run(sandbox, "reconcile", file, "--state", meaning)
    assert ended.code == 1, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first.startswith("line 2: ")
    assert first.endswith("amount: ledger 10.01, gateway 10.00")
    assert second.endswith("state: ledger reserved, gateway 3000")


async def test_what_is_not_answered_exits_3_and_what_nobody_asked_for_1(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    lines = [cells(entry_of(pay(sandbox, "N1", refunds=["1.00"])), "Ann")]
    file = write(tmp_path / "ledger.csv", HEADER, lines)
    sandbox.faults.add("search_refunds", ExtraItems(times=1))
    ended = await run(sandbox, "reconcile", file)
    assert ended.code == 1, ended.stderr
    assert "records that were not asked for: 1" in ended.stderr
    assert "1 entry: 1 matched, 0 differing" in ended.stderr
    assert "EUR ledger: 1 payment of 10.00" in ended.stderr
    config, out = tmp_path / "config.toml", tmp_path / "differences.csv"
    config.write_text("[retry]\nattempts = 1\n")
    sandbox.faults.add("query", Status(503, "1"))
    ended = await run(sandbox, "reconcile", file, "--out", out, "--config", config)
    assert ended.code == 3, ended.stderr
    assert [row["difference"] for row in outcomes(out)] == ["unanswered"]
    assert "0 matched, 0 differing, 1 unanswered" in ended.stderr
    assert "1 x " in ended.stderr  # and why


@pytest.mark.parametrize(
    ("header", "options", "warning"),
    [
        (HEADER, (), "no state is compared: say what a payment_status means"),
        (HEADER, ("--state", "3000=paid"), ""),
        ((*HEADER[:-2], "phase", HEADER[-1]), ("--state", "3000=paid"), "has no column state"),
        ((*HEADER[:-1], "refund"), ("--state", "3000=paid"), ""),  # it has `refunded`
        (
            (*HEADER[:4], "refund", *HEADER[5:]),
            ("--state", "3000=paid"),
            "'refund' (did you mean refunded?)",
        ),
    ],
)
async def test_states_that_cannot_be_compared_are_warned_of(
    sandbox: Sandbox, tmp_path: Path, header: tuple[str, ...], options: list[str], warning: str
) -> None:
    file = write(tmp_path / "ledger.csv", header, [cells(entry_of(pay(sandbox, "N1")), "Ann")])
    ended = await run(sandbox, "reconcile", file, *options)
    assert warning in ended.stderr
    assert ("warning: " in ended.stderr) == bool(warning)
