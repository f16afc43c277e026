"""`reconcile`: many lines, with differences of each kind planted, and exactly those found."""

import random

from gateway_async.reconciliation import Kind, LedgerEntry
from gateway_async.sandbox.faults import ExtraItems, Status
from tests.cli.running import Shell, write
from tests.reconciliation.books import PLANTS, entry_of, pay, plant
from tests.report.test_page import Read
from tests.support.orders import COLUMNS

HEADER = ("order_no", "transaction_id", "currency", "amount", "refunded", "state", "booked_by")
CONFIGURED = "reconcile ledger.csv --out out.csv --config config.toml"
CONFIG = """
[reconcile]
states = { "3000" = ["paid", "refunded"], "4100" = "reserved" }
"""


def cells(entry: LedgerEntry, clerk: str) -> tuple[object, ...]:
    return (*(getattr(entry, name) for name in HEADER[:-1]), clerk)


def write_ledger(shell: Shell, *lines: tuple[object, ...]) -> None:
    write(shell.folder / "ledger.csv", HEADER, lines)


async def test_every_planted_difference_is_found_and_no_other(shell: Shell) -> None:
    assert {*Kind} == {*PLANTS, "unanswered"}
    planted = [*PLANTS] * 3
    kinds = [*planted, *[""] * (2_000 - len(planted))]
    random.Random(7).shuffle(kinds)
    # A payment may stand in several lines: so the books are the smaller part of the work.
    fitting = [entry_of(pay(shell.sandbox, f"first {n}", refunds=["1.50"])) for n in range(40)]
    entries = [
        plant(shell.sandbox, kind, f"N{number}") if kind else fitting[number // 50]
        for number, kind in enumerate(kinds)
    ]
    write_ledger(shell, *(cells(one, f"clerk {number}") for number, one in enumerate(entries)))
    (shell.folder / "config.toml").write_text(CONFIG)
    matched = f"{2_000 - len(planted):,} matched, {len(planted)} differing, 0 unanswered"
    await shell(CONFIGURED, 1, f"2,000 entries: {matched}")
    found = [(row["ledger_line"], row["difference"], row["booked_by"]) for row in shell.rows()]
    assert found == [
        (str(number + 2), kind, f"clerk {number}") for number, kind in enumerate(kinds) if kind
    ]


async def test_what_is_not_answered_exits_3_and_what_nobody_asked_for_1(shell: Shell) -> None:
    write_ledger(shell, cells(entry_of(pay(shell.sandbox, "N1", refunds=["0.70", "0.30"])), "Ann"))
    shell.sandbox.faults.add("search_refunds", ExtraItems(times=1))
    await shell(
        *("reconcile ledger.csv --out -", 1, "records that were not asked for: 1"),
        "1 entry: 1 matched, 0 differing",
        *(f"EUR {side}: 1 payment, 10.00 in all, refunded 1.00" for side in ("ledger", "gateway")),
    )
    (shell.folder / "config.toml").write_text("[retry]\nattempts = 1\n")
    shell.sandbox.faults.add("query", Status(503, "1"))
    await shell(CONFIGURED, 3, "0 matched, 0 differing, 1 unanswered", "1 x ")  # and why
    assert [row["difference"] for row in shell.rows()] == ["unanswered"]


async def test_differences_that_find_no_room_are_counted_all_the_same(shell: Shell) -> None:
    entry = entry_of(pay(shell.sandbox, "N1"), amount="9")
    write_ledger(shell, cells(entry, "A" * 100_000))  # more than is buffered
    full = "1 entry: 0 matched, 1 differing", "cannot be written: No space", "report: books.html"
    await shell.installed("reconcile ledger.csv --out - --report books.html >/dev/full", 3, *full)


async def test_states_that_cannot_be_compared_are_warned_of(shell: Shell) -> None:
    lines = [cells(entry_of(pay(shell.sandbox, "N1")), "Ann")]
    (shell.folder / "config.toml").write_text(CONFIG)
    write(shell.folder / "ledger.csv", (*HEADER[:-3], "refund_amount", "phase", HEADER[-1]), lines)
    await shell(
        *(CONFIGURED, 0, "warning: the ledger has no column state, so no state is compared"),
        "columns that are not read: 'refund_amount', 'phase', 'booked_by'",
    )
    write_ledger(shell, *lines)
    unset = "states; reconcile.states is not set, so no state is compared"
    await shell("reconcile ledger.csv --out -", 0, unset)


async def test_a_report_lists_the_differences(shell: Shell) -> None:
    seeded = shell.sandbox.seed(30, status="captured", amount="9.00", currency="EUR")
    rows = [[p.transaction_id, p.order_no, p.currency, "9.00", "0"] for p in seeded]
    rows[3][3], rows[7][4] = "9.01", "2.00"
    hostile = "<script>alert(1)</script>"
    rows.append(["nobody", hostile, "EUR", "1.00", "0"])
    write(shell.folder / "ledger.csv", (*COLUMNS, "refunded"), rows)
    await shell("reconcile ledger.csv --out out.csv --report books.html", 1)
    read = Read((shell.folder / "books.html").read_text(encoding="utf-8"))
    assert [step.partition("):")[0] for step in read.left()] == [
        "amount differs: 1 (EUR 0.01",
        "refund absent at gateway: 1 (EUR 2.00",  # the refund, and not its payment
        "absent at gateway: 1 (EUR 1.00",
    ]
    assert [row["ledger_line"] for row in shell.rows()] == read.column("Line") == ["5", "9", "32"]
    assert read.column("Differs by") == ["EUR\xa00.01", "EUR\xa02.00"]
    assert read.column("Amount") == ["EUR\xa01.00"]
    assert read.column("Ledger")[0] == "9.01"
    assert read.column("Order")[2] == hostile
    assert "script" not in read.tags
    headline = "28 of 31 entries match, and the totals differ: "
    assert read.texts["h1"] == [f"{headline}payments by EUR\xa01.01, refunds by EUR\xa02.00."]
    assert [row[:2] for row in read.tables["bars"][0]] == [["matched", "28"], ["differing", "3"]]
    assert read.tables["money"][0][1] == ["EUR payments", "271.0131", "270.0030", "1.01"]
