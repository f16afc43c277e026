"""What is on the page, and that it is all there without a script."""

import re
from datetime import timedelta
from decimal import Decimal
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import attrs
import pytest

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
)
from gateway_async.report import Report
from gateway_async.report.elements import element, foreign, raw
from gateway_async.report.page import page as render
from gateway_async.sandbox import faults
from tests.orders import client_of, orders_for
from tests.report.runs import (
    HEAD,
    HOSTILE,
    KINDLY,
    LOST,
    Made,
    absent,
    hostile,
    night,
    outcomes,
    refund,
)
from tests.secrets.data import payout_request

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox

VOID = {"meta", "link", "rect", "br"}


class Read(HTMLParser):
    """A page as a parser reads it.

    Attributes:
        tags: How often each element occurs.
        tables: The texts of the cells of each table, row by row.
        text: All text, but for style and script.
        problems: What is not well formed.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.problems: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.problems += [f"<{name}> is not closed" for name in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.problems.append(f"<{tag}/>")
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("style", "script"):
            return
        self.text += data
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data

    def column(self, name: str) -> list[str]:
        """Return a column of the listing."""
        heads, *rows = next(t for t in self.tables if t and "What" in t[0])
        return [row[heads.index(name)] for row in rows]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (119.6, "2 min 0 s"),
        (3599.9, "1 h 0 min 0 s"),
        (7322, "2 h 2 min 2 s"),
    ],
)
def test_how_long_it_took_is_rounded_as_a_whole(seconds: float, expected: str) -> None:
    head = attrs.evolve(HEAD, ended_at=HEAD.started_at + timedelta(seconds=seconds))
    assert f" UTC, {expected}" in Read(render(Report("refund"), head)).text


def test_the_page_is_well_formed_and_needs_nothing_else() -> None:
    page = render(night(), HEAD)
    read = Read(page)
    assert read.problems == []
    assert read.tags["script"] == read.tags["style"] == 1
    assert {"img", "iframe", "object", "form", "base"}.isdisjoint(read.tags)
    for name, value in read.attributes:
        assert name not in ("src", "action", "style", "srcset")
        assert not name.startswith("on")
        assert name != "href" or value == "data:,"
    assert not re.search(r"https?://|@import|url\(|fetch\(|innerHTML|eval\(", page)
    assert any((value or "").startswith("default-src 'none'; ") for _, value in read.attributes)


def test_all_is_counted_and_added_up() -> None:
    made = list(outcomes(2000))
    report = night()
    read = Read(render(report, HEAD))
    statuses, money = read.tables[0], read.tables[1]
    counts = {row[0]: int(row[2].replace(",", "")) for row in statuses}
    for status in OutcomeStatus:
        count = sum(one.status is status for one in made)
        assert counts.get(status.replace("_", " "), 0) == count
    assert [row[0] for row in money[1:]] == ["EUR", "JPY", "USD"]
    for row in money[1:]:
        cells = dict(zip(money[0], row, strict=True))
        for status in OutcomeStatus:
            of_status = [
                one.order.refund_amount
                for one in made
                if one.status is status and one.order.currency == row[0]
            ]
            name = status.replace("_", " ").capitalize()
            expected = f"{sum(of_status):,f}{len(of_status):,}" if of_status else ""
            assert cells.get(name, "") == expected


def test_amounts_are_exact() -> None:
    report = Report("refund")
    big = Decimal("9" * 30 + ".99")
    for index, amount in enumerate((big, Decimal("0.01"), big)):
        order = refund(0, amount=big, refund_amount=amount)
        report.see(Made(order=order, index=index, status=OutcomeStatus.SUCCEEDED))
    assert f"{2 * 10**30 - 1:,}.99" in Read(render(report, HEAD)).text


def test_every_unknown_order_says_what_to_do() -> None:
    read = Read(render(night(), HEAD))
    rows = list(zip(read.column("What"), read.column("Next"), strict=True))
    assert [advice for what, advice in rows if what == "unknown"] == [
        "Never send again; recover"
    ] * 21
    assert {what for what, _ in rows} == {"unknown", "not sent", "declined"}
    assert {advice for what, advice in rows if what == "not sent"} == {
        "Send again",
        "Mend it, then send",
    }
    assert HEAD.next_lines[0] in read.text
    assert "Never send it again as it is: recover it first" in read.text


@pytest.mark.parametrize(
    ("operation", "job", "advice"),
    [
        ("refund", None, "Never send again; recover"),
        ("refund", "november", "Never send again; run the job again"),
        ("review", None, "Never send again; ask the gateway"),
        ("payout", None, "Never send again; ask the gateway"),
        ("query", None, "Look up again"),
    ],
)
def test_the_advice_is_that_of_the_operation(operation: str, job: str | None, advice: str) -> None:
    report = Report(operation, job=job)
    error = OutcomeUnknownError(LOST)
    report.see(Made(order=refund(1), index=0, status=OutcomeStatus.UNKNOWN, error=error))
    assert Read(render(report, HEAD)).column("Next") == [advice]


def test_what_was_never_known_is_counted() -> None:
    report = Report("refund")
    report.see(Made(order=refund(1), index=0, status=OutcomeStatus.SUCCEEDED))
    report.miss(2, OutcomeStatus.UNKNOWN, "the run ended before the outcome was known")
    report.miss(0, OutcomeStatus.NOT_SENT, "it was never taken")
    text = Read(render(report, HEAD)).text
    assert "3 orders: 1 succeeded, 2 unknown." in text
    assert "the run ended before the outcome was known" in text


def test_of_a_payout_only_its_key_and_amount_are_shown() -> None:
    account = "account-of-theirs-77"
    beneficiary = Beneficiary(bank_details=BankDetails(account_number=account))
    payout = attrs.evolve(payout_request(), beneficiary=beneficiary)
    report = Report("payout")
    error = OutcomeUnknownError(LOST)
    report.see(Made(order=payout, index=0, status=OutcomeStatus.UNKNOWN, error=error))
    page = render(report, HEAD)
    assert Read(page).column("Order") == [payout.request_id]
    assert Read(page).column("Next") == ["Never send again; ask the gateway"]
    assert account not in page


def test_foreign_texts_are_shown_as_they_are() -> None:
    read = Read(render(hostile(), HEAD))
    assert read.problems == []
    assert read.tags["script"] == 1
    assert read.column("Reason")[: len(HOSTILE)] == list(HOSTILE)
    kindly = read.column("Reason")[len(HOSTILE) :]
    assert kindly[:-1] == list(KINDLY[:-1])
    assert kindly[-1] == "a\u202eb\ufffdc\ufffdd"
    read.text.encode()


def test_what_is_shown_one_by_one_is_bounded_and_the_rest_is_counted() -> None:
    report = absent(1200)
    unknown = Made(
        order=refund(1), index=1300, status=OutcomeStatus.UNKNOWN, error=OutcomeUnknownError(LOST)
    )
    report.see(unknown)
    assert len(report.rows) == 1001
    read = Read(render(report, HEAD))
    assert read.column("What") == ["unknown", *["absent"] * 1000]
    assert "The first 1,001; 200 more are not shown here; outcomes.csv has every one" in read.text


def test_memory_is_bounded_by_lengths_and_varieties_too() -> None:
    report = Report("refund")
    for number in range(3000):
        error = OutcomeUnknownError(f"{number} {'x' * 10_000}")
        status = OutcomeStatus.UNKNOWN
        order = refund(number, currency=f"C{number}")
        report.see(Made(order=order, index=number, status=status, error=error))
    page = render(report, HEAD)
    assert len(report.rows) == 1000
    assert len(report.reasons) <= 202
    assert len(page) < 2_000_000
    assert sum(report.reasons.values()) == report.counts["unknown"] == 3000


def test_a_line_to_give_is_never_cut() -> None:
    line = f"gateway-async recover {'x' * 1000}.csv --out y.csv"
    page = render(night(10), attrs.evolve(HEAD, next_lines=(line,)))
    assert line in Read(page).text


def test_a_run_without_anything_to_do_says_so() -> None:
    report = Report("refund")
    report.see(Made(order=refund(1), index=0, status=OutcomeStatus.SUCCEEDED))
    text = Read(render(report, attrs.evolve(HEAD, next_lines=()))).text
    assert "All 1 orders succeeded." in text
    assert "What to do next" not in text
    assert "No orders." in Read(render(Report("refund"), HEAD)).text


async def test_outcomes_and_latencies_of_a_real_run(sandbox: "Sandbox") -> None:
    sandbox.faults.add("refund", faults.DropReply(times=1))
    sandbox.faults.add("*", faults.Latency(seconds=0.03))
    report = Report("refund")
    settings = {
        "telemetry": report.latencies,
        "policy": BatchPolicy(chunk_size=2, concurrency=1),
        "recovery": RecoveryPolicy(record_baseline=True),
    }
    orders = orders_for("refund", sandbox.seed(6, status="captured"))
    async with client_of(sandbox, **settings) as gateway:
        async with gateway.refund(orders) as batch:
            async for outcome in batch:
                report.see(outcome)
        found = Report("query")
        async with gateway.query(orders_for("query", [*sandbox.ledger])) as batch:
            async for looked_up in batch:
                found.see(looked_up)
    assert report.latencies.count == 3 + 3 + 3  # baselines, refunds, queries
    assert report.latencies.longest > 0.03
    assert sum(one.failed for one in report.latencies.classes()) == 1
    read = Read(render(report, HEAD))
    assert "9 exchanges: half within " in read.text
    assert read.column("What") == ["unknown"] * 2
    assert "Succeeded" in Read(render(found, HEAD)).text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0123456, "12.3 ms"), (0.9999, "1,000 ms"), (4.5678, "4.57 s"), (12345, "12,300 s")],
)
def test_a_latency_is_written_without_an_exponent(seconds: float, expected: str) -> None:
    report = Report("refund")
    report.latencies.add(seconds)
    assert f"the longest took {expected}." in Read(render(report, HEAD)).text


def test_latencies_are_shares_of_all() -> None:
    report = Report("query")
    for number in range(100):
        report.latencies.add(0.0009 if number < 50 else 0.04, failed=number == 99)
    report.latencies.add(4000)
    classes = report.latencies.classes()
    assert (classes[0].count, classes[0].up_to) == (50, 0.001)
    assert (classes[-1].count, classes[-1].up_to) == (1, None)
    assert report.latencies.most_took(0.95) == 0.05
    assert report.latencies.most_took(1) == 4000
    assert Report("query").latencies.most_took(0.5) is None


def test_elements_escape_everything_but_elements() -> None:
    assert element("p", "<b>", element("br"), 1, class_='a"b') == (
        '<p class="a&quot;b">&lt;b&gt;<br/>1</p>'
    )
    assert element("td", hidden=True, title=None, data_value=False) == "<td hidden></td>"
    assert foreign("x" * 400) == f"<bdi>{'x' * 300}…</bdi>"
    with pytest.raises(ValueError, match="could end"):
        raw("script", "'</script>'")
