"""Lines that send nothing: what is wrong with each, and that no file is made."""

from pathlib import Path

import pytest

from gateway_async.cli.app import run
from tests.cli.running import REFUND_COLUMNS, names, write

ROW = ("T1", "O1", "EUR", "9.00", "1.00", "late")
LEDGER = ("order_no", "transaction_id", "currency", "amount", "refunded")
LEDGERS = {
    "much": ("O1", "T1", "EUR", "much", "0"),
    "less": ("O1", "T1", "EUR", "1", "-1"),
    "bare": ("O1", "T1", "", "1", "0"),
    "none": ("", "", "EUR", "1", "0"),
}
LONG = "n" * 300
"""A name that no file can have; a folder that may not be entered is refused in the same way."""
UNNAMED = [
    ("query orders.csv --out b.csv", "GATEWAY_BASE_URL"),
    ("query orders.csv --out b.csv", "GATEWAY_SECRET"),
    ("refund orders.csv --dry-run", "GATEWAY_BASE_URL"),
]
NAMED = [
    ("refund missing.csv --out out.csv", "cannot read missing.csv"),
    ("refund missing.csv --out out.csv -q", "cannot read missing.csv"),
    ("refund orders.csv", "--out: name the file for the outcomes, such as --out outcomes.csv\n"),
    ("refund bare.csv", "line 1, column refund_amount: missing"),
    ("query orders.csv", "--out: name the file for the outcomes"),
    ("demo --orders 0", "orders"),
    ("refund orders.csv --dry-run --deadline 90s", ""),
    ("refund orders.csv --dry-run --deadline 1.5h", ""),
    ("refund orders.csv --dry-run --deadline 0s", "deadline_seconds: expected"),
    ("refund orders.csv --dry-run --deadline 50ms", ""),
    ("refund orders.csv --dry-run --deadline 5", "--deadline: expected a duration such as 50ms"),
    ("refund orders.csv --dry-run --chunk-size 80", "80 is above the 50 orders"),
    ("refund twice.csv --dry-run", "--duplicates serialize"),
    ("refund twice.csv --dry-run --duplicates serialize", ""),
    ("refund orders.csv --dry-run --base-url https://me:hush@x.y", "base_url: expected"),
    ("reconcile much.csv", "line 2, column amount: 'much' is no amount"),
    ("reconcile less.csv", "line 2, column refunded: '-1' is no amount"),
    ("reconcile bare.csv", "line 2, column currency: empty"),
    ("reconcile none.csv", "line 2: order_no and transaction_id are both missing"),
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
    ("refund --dryrun orders.csv --yes", "--dryrun stands where a file is expected"),
    ("refund orders.csv --yes --out --dry-run", "stands where a file is expected"),
    ("query orders.csv --out nowhere/o.csv", "cannot write nowhere/o.csv: No such"),
    *((f"query orders.csv --out {one}", f"{one} is no file; name one") for one in (".", "/", "..")),
    ("query orders.csv --out o.csv --report .", ". is no file; name one"),
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
    *((f"jobs resolve x declined {one} --note n", f"not {one}") for one in ("17.5", "0x1f", "-1")),
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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID", "SECRET"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)
        if is_named:
            monkeypatch.setenv(f"GATEWAY_{name}", "http://127.0.0.1:1")
    write(tmp_path / "orders.csv", REFUND_COLUMNS, [ROW])
    write(tmp_path / "twice.csv", REFUND_COLUMNS, [ROW, ROW])
    for name, row in LEDGERS.items():
        write(tmp_path / f"{name}.csv", LEDGER, [row])
    there = names(tmp_path)
    code, told = run(line.split()), capsys.readouterr()
    assert code == (2 if words else 0)
    assert words in told.err
    assert "hush" not in told.out + told.err
    assert bool(told.out) == (not words)
    assert names(tmp_path) == there
