"""`--report`, as a user gives it: one page that tells what the command wrote elsewhere."""

from decimal import Decimal

from tests.cli.running import Shell, names, write
from tests.report.test_page import Read
from tests.support.orders import COLUMNS


async def test_a_reconciliation_lists_its_differences(shell: Shell) -> None:
    header = (*COLUMNS, "refunded")
    seeded = shell.sandbox.seed(30, status="captured", amount="9.00", currency="EUR")
    rows = [
        (p.transaction_id, p.order_no, p.currency, "9.01" if n == 3 else p.amount, "0")
        for n, p in enumerate(seeded)
    ]
    rows[7] = (*rows[7][:-1], "2.00")
    hostile = "<script>alert(1)</script>"
    rows.append(("nobody", hostile, "EUR", Decimal("1.00"), "0"))
    write(shell.folder / "ledger.csv", header, rows)
    await shell("reconcile ledger.csv --out out.csv --report books.html", 1)
    read = Read((shell.folder / "books.html").read_text(encoding="utf-8"))
    assert [step.partition("):")[0] for step in read.left()] == [
        "amount differs: 1 (EUR 0.01",
        "refund absent at gateway: 1 (EUR 2.00",  # the refund, and not its payment
        "absent at gateway: 1 (EUR 1.00",
    ]
    assert read.column("Line") == ["5", "9", "32"]
    assert read.column("Differs by") == ["EUR\xa00.01", "EUR\xa02.00"]
    assert read.column("Amount") == ["EUR\xa01.00"]
    assert [row["ledger_line"] for row in shell.rows()] == ["5", "9", "32"]
    assert read.column("Ledger")[0] == "9.01"
    assert read.column("Order")[2] == hostile
    assert "script" not in read.tags
    headline = "28 of 31 entries match, and the totals differ: "
    headline += "payments by EUR\u00a01.01, refunds by EUR\u00a02.00."
    assert read.texts["h1"] == [headline]
    bars = [row[:2] for row in read.tables["bars"][0]]
    assert bars == [["matched", "28"], ["differing", "3"]]
    assert read.tables["money"][0][1] == ["EUR payments", "271.0131", "270.0030", "1.01"]


async def test_a_report_has_a_file_of_its_own(shell: Shell) -> None:
    orders, page = shell.refunds(1), shell.folder / "night.html"
    page.write_text("another record")
    before = orders.read_bytes()
    (shell.folder / "own.toml").touch()
    files = "--config own.toml --journal sqlite:///night.db --out out.csv"
    line = f"refund orders.csv --job night {files} --report"
    for place in ("night.db", "./night.db-wal", "nowhere/night.html", "./out.csv", "./own.toml"):
        await shell(f"{line} {place} --yes", 2, place.removeprefix("./"))
    await shell(f"{line} night.html", 2)  # it never began
    assert names(shell.folder) == ["night.html", "orders.csv", "own.toml"]
    assert orders.read_bytes() == before
    assert shell.sandbox.requests["refund"] == 0
    await shell(f"{line} night.html --yes")
    assert "<!DOCTYPE html>" in page.read_text()
