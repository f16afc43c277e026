"""What is on the page, as a parser reads it."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from random import Random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from defusedxml.ElementTree import fromstring

from gateway_async import (
    AlikeRefundError,
    BankDetails,
    Beneficiary,
    Dialect,
    GatewayError,
    InvalidOrderError,
    NotDoneError,
    NotSentError,
    OrderRef,
    Outcome,
    OutcomeStatus,
    OutcomeUnknownError,
    RefundOrder,
    RefundRecord,
    RejectedError,
    TransactionRecord,
)
from gateway_async.report import Head, Latencies, Report, render
from tests.support.orders import payout_request

DECLINED, UNKNOWN = OutcomeStatus.DECLINED, OutcomeStatus.UNKNOWN
NOT_SENT, SUCCEEDED = OutcomeStatus.NOT_SENT, OutcomeStatus.SUCCEEDED
BIG = Decimal("9" * 30 + ".99")
HOSTILE = (
    "<script>document.title='owned';alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "'-alert(4)-'",
    "</style><style>*{display:none}</style>",
    "--><!--<h1>taken over</h1>",
    "{{7*7}} ${7*7} &lt;b&gt; &amp;",
    "javascript:alert(5)",
)
KINDLY = (
    *("Zoë & Søn", "退款已拒绝,余额不足", "رُفض الطلب — غير كافٍ"),
    *("refus 🙅🏽‍♀️ «non»", "a\u202eb\x00c\ud800d"),
)
LOST = "the request was sent and its reply was lost: ServerDisconnectedError: Server disconnected"
HEAD = Head(
    command="refund",
    gateway="gateway.example",
    started_at=datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC),
    ended_at=datetime(2026, 11, 21, 3, 4, 12, tzinfo=UTC),
    source="refunds-2026-11-20.csv",
    out="outcomes.csv",
    next_lines=(("go on with", "gateway-async jobs resume november --out outcomes.csv"),),
    requests=204,
    retries=3,
    unexpected=2,
)


def refund(number: int, **changes: Any) -> RefundOrder:
    """Make a refund."""
    fields: dict[str, Any] = {
        "transaction_id": f"T{number:08d}",
        "order_no": f"N-{number}",
        "currency": ("EUR", "USD", "JPY")[number % 3],
        "amount": Decimal(50),
        "refund_amount": Decimal(number % 40 + 1) + Decimal("0.10"),
        **changes,
    }
    return RefundOrder(**fields)


def outcomes(count: int) -> Iterator[Outcome[RefundOrder, None]]:
    """Yield outcomes: most succeed; some have what they have to say in every script."""
    said = [*KINDLY, *HOSTILE, "insufficient balance"]
    kinds: dict[int, tuple[OutcomeStatus, GatewayError]] = {
        5: (UNKNOWN, OutcomeUnknownError(LOST)),
        9: (NOT_SENT, NotSentError("nothing was sent: 3 in a row")),
        11: (NOT_SENT, InvalidOrderError("refund_amount: too much")),
    }
    for number in range(count):
        text = said[number // 40 % len(said)]
        kinds[7] = DECLINED, RejectedError(f"1001: {text}", code="1001", text=text)
        status, error = kinds.get(number % 40, (SUCCEEDED, None))
        yield Outcome(order=refund(number), index=number, status=status, error=error)


def night(count: int = 2_000) -> Report:
    """Return a report of refunds."""
    report = Report("refund")
    for outcome in outcomes(count):
        report.see(outcome)
    for number in range(204):
        report.latencies.add(0.02 + (number * 37 % 100) ** 2 / 40_000, failed=number % 40 == 3)
    return report


class Read:
    """A page as a parser reads it, which must be well formed."""

    def __init__(self, page: str) -> None:
        root = fromstring(page.replace("&nbsp;", "\xa0"))
        for style in root.iter("style"):
            style.text = ""
        elements = list(root.iter())
        self.tags = Counter(one.tag for one in elements)  # how often each element occurs
        self.attributes = [pair for one in elements for pair in one.items()]  # all attributes
        self.texts: dict[str, list[str]] = defaultdict(list)  # by element, the texts
        # by class, the tables: rows of texts of cells
        self.tables: dict[str, list[list[list[str]]]] = defaultdict(list)
        for one in elements:
            self.texts[one.tag].append(text_of(one))
            if one.tag == "table":
                rows = [[text_of(cell) for cell in row] for row in one.iter("tr")]
                self.tables[one.attrib["class"]].append(rows)
        self.text = text_of(root)  # all text

    def column(self, name: str) -> list[str]:
        """Return a column of the examples, of all groups that have it."""
        found = []
        for heads, *rows in self.tables["rows"]:
            if name in heads:
                found += [row[heads.index(name)].strip() for row in rows]
        return found

    def left(self) -> list[str]:
        """Return what is left to do, as the first lines have it."""
        return [text.replace("\xa0", " ") for text in self.texts["li"]]


def text_of(element: Any) -> str:
    return "".join(element.itertext())


def read(report: Report, **changes: Any) -> Read:
    """Render a report, and read it."""
    return Read(render(report, attrs.evolve(HEAD, **changes)))


def seen(
    *errors: GatewayError | None,
    status: OutcomeStatus = UNKNOWN,
    operation: str = "refund",
    job: str | None = None,
) -> Report:
    """Make a report of refunds of one status."""
    report = Report(operation, job=job)
    for index, error in enumerate(errors):
        report.see(Outcome(order=refund(index), index=index, status=status, error=error))
    return report


@pytest.mark.parametrize(
    ("seconds", "took", "latency"),
    [
        (0.0123456, "0:00:00", "0.012 s"),
        (59.96, "0:01:00", "59.960 s"),
        (12345, "3:25:45", "12,345.000 s"),
    ],
)
def test_a_duration_is_rounded_as_a_whole(seconds: float, took: str, latency: str) -> None:
    report = Report("refund")
    report.latencies.add(seconds)
    found = read(report, ended_at=HEAD.started_at + timedelta(seconds=seconds))
    assert f" UTC, {took}" in found.text
    assert found.tables["latencies"][0][1][4].replace("\xa0", " ") == latency


def test_all_is_counted_and_added_up_exactly() -> None:
    made, currencies = [*outcomes(2000)], ["EUR", "JPY", "USD"]
    made.append(attrs.evolve(made[0], order=refund(0, amount=BIG, refund_amount=BIG)))
    report = night()
    report.see(made[-1])
    found = read(report)
    counts, errors = Counter(one.status for one in made), Counter(type(one.error) for one in made)
    bars = [(kind, count) for kind, count, _ in found.tables["bars"][0]]
    kinds = [kind for kind in OutcomeStatus if counts[kind]]
    assert bars == [(kind.replace("_", " "), f"{counts[kind]:,}") for kind in kinds]

    amounts: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for one in made:
        for column in (one.status.replace("_", " ").capitalize(), "All"):
            amounts[one.order.currency, column].append(one.order.refund_amount)
    with localcontext(prec=60):
        totals = {key: f"{sum(each, Decimal(0)):,f}" for key, each in amounts.items()}
    (_, *heads), *rows = found.tables["money"][0]
    assert [row[0] for row in rows] == currencies
    cells = {
        (row[0], head): cell for row in rows for head, cell in zip(heads, row[1:], strict=True)
    }
    expected = {key: f"{totals[key]}{len(each):,}" for key, each in amounts.items()}
    assert {key: cell for key, cell in cells.items() if cell} == expected
    done = ", ".join(f"{one}\u00a0{totals[one, 'Succeeded']}" for one in currencies)
    assert found.texts["h1"] == [f"{counts[SUCCEEDED]:,} of 2,001 refunds done: {done}."]
    assert [text.split(" (")[0] for text in found.left()] == [
        f"{errors[OutcomeUnknownError]} unknown",
        f"{errors[NotSentError]} not sent",
        f"{errors[InvalidOrderError]} not sent",
        f"{errors[RejectedError]} declined",
    ]
    assert found.left()[1].endswith("): send again.")


@pytest.mark.parametrize(
    ("operation", "job", "status", "error", "advice"),
    [
        ("refund", None, UNKNOWN, OutcomeUnknownError, "Never send again; recover"),
        ("refund", "november", UNKNOWN, OutcomeUnknownError, "Never send again; run the job again"),
        ("query", None, UNKNOWN, OutcomeUnknownError, "Look up again"),
        ("refund", None, NOT_SENT, NotSentError, "Send again"),
        ("refund", None, NOT_SENT, NotDoneError, "Send again"),
        ("refund", None, NOT_SENT, AlikeRefundError, "Look at the refund that is listed"),
        ("refund", None, NOT_SENT, InvalidOrderError, "Correct, then send"),
        ("refund", "november", NOT_SENT, NotSentError, "Run the job again"),
        ("refund", "november", NOT_SENT, NotDoneError, "Decide on them"),
        ("refund", "november", NOT_SENT, AlikeRefundError, "Decide on them"),
        ("refund", "november", NOT_SENT, InvalidOrderError, "Correct, then send"),
        ("refund", None, DECLINED, RejectedError, "See the reason"),
        ("refund", "november", DECLINED, RejectedError, "See the reason"),
        ("query", None, OutcomeStatus.ABSENT, None, "Check the number"),
    ],
)
def test_the_advice_is_that_of_operation_and_error(
    operation: str,
    job: str | None,
    status: OutcomeStatus,
    error: type[GatewayError] | None,
    advice: str,
) -> None:
    made = None if error is None else error("why")
    found = read(seen(made, status=status, operation=operation, job=job), job=job)
    assert found.texts["strong"] == [f"{advice}."]
    assert found.left()[0].lower().endswith(f": {advice.lower()}.")
    assert ("not sent, held" in found.left()[0]) is (advice == "Decide on them")
    assert (found.texts["summary"] or ["1 time: why"]) == ["1 time: why"]


def test_of_a_payout_only_its_key_and_amount_are_shown() -> None:
    beneficiary = Beneficiary(bank_details=BankDetails(account_number="account-of-theirs-77"))
    payout = attrs.evolve(payout_request(), beneficiary=beneficiary)
    report, error = Report("payout"), OutcomeUnknownError(LOST)
    for index, order in enumerate((payout, attrs.evolve(payout, payment_currency=None))):
        report.see(Outcome(order=order, index=index, status=UNKNOWN, error=error))
    found = read(report)
    assert [row[0] for row in found.tables["money"][0][1:]] == ["without currency", "EUR"]
    assert found.column("Order") == [payout.request_id] * 2
    assert "account-of-theirs" not in render(report, HEAD)


def test_foreign_texts_are_shown_as_they_are_and_the_page_needs_nothing_else() -> None:
    texts, report = (*HOSTILE, *KINDLY), Report("refund")
    for number, text in enumerate(texts):
        order_no = texts[number - 1].replace("\ud800", "")
        order = refund(number, order_no=order_no, transaction_id=f"T{number}")
        error = RejectedError(text, code=text, text=text)
        report.see(Outcome(order=order, index=number, status=DECLINED, error=error))
    names = ("command", "gateway", "source", "out", "job", "failure")
    attack: dict[str, Any] = dict(zip(names, HOSTILE, strict=False))
    attack["next_lines"] = [*zip(HOSTILE, HOSTILE, strict=True)]
    page = render(report, attrs.evolve(HEAD, **attack))
    found = Read(page)
    assert {"script", "img", "b", "iframe", "object", "form", "base"}.isdisjoint(found.tags)
    ids = {f"#{value}" for name, value in found.attributes if name == "id"}
    for name, value in found.attributes:
        assert name not in ("src", "action", "style", "srcset")
        assert not name.startswith("on")
        assert name != "href" or value == "data:," or value in ids
    assert not re.search(r"https?://|@import|url\(", page)
    assert any((value or "").startswith("default-src 'none'; ") for _, value in found.attributes)
    assert found.texts["title"] == [f"{HOSTILE[0]}: 0 of 13 refunds done"]
    assert found.column("Order")[1 : len(HOSTILE) + 1] == list(HOSTILE)
    assert found.column("Transaction") == [f"T{number}" for number in range(13)]
    assert found.tags["style"] == found.tags["h1"] == 1
    for text in (*HOSTILE, *KINDLY[:-1], "a\u202eb\ufffdc\ufffdd"):
        assert f"1 time: {text}" in "\n".join(found.texts["summary"])
    assert all(text in found.text for text in HOSTILE)
    found.text.encode()


def test_alike_orders_are_one_line_with_examples() -> None:
    report = Report("query")
    for number in range(1200):
        order = OrderRef(order_no=f"N-{number}")
        report.see(Outcome(order=order, index=number, status=OutcomeStatus.ABSENT))
    found = read(report)
    assert found.left() == ["1,200 absent: check the number."]
    assert found.column("Order") == [f"N-{number}" for number in range(10)]
    assert found.column("Index") == [f"{number}" for number in range(10)]
    assert "and 1,190 more; outcomes.csv has every one" in found.text


def test_reasons_are_alike_but_for_what_the_row_shows_beside_them() -> None:
    errors = [
        *(InvalidOrderError(f"order N-{n}: {refund(n).refund_amount} is too much") for n in (0, 1)),
        *(InvalidOrderError(f"HTTP {status}") for status in (500, 503, 503)),
        *(InvalidOrderError(f"asked for {amount}") for amount in ("12.50", "1,300.00")),
        *(InvalidOrderError(f"refunded 2026-11-{day} 09:11:{day}") for day in (27, 28)),
    ]
    found = read(seen(*errors, status=NOT_SENT))
    assert [text.replace("\u00a0", " ") for text in found.texts["summary"]] == [
        "2 times: for example, order N-0: 1.10 is too much · EUR 1.10, USD 2.10",
        "2 times: HTTP 503 · EUR 4.10, USD 5.10",
        "2 times: for example, asked for 12.50 · EUR 7.10, JPY 6.10",
        "2 times: for example, refunded 2026-11-27 09:11:27 · JPY 9.10, USD 8.10",
        "1 time: HTTP 500 · JPY 3.10",
    ]
    assert found.column("Reason") == [
        *(f"order N-{n}: {refund(n).refund_amount} is too much" for n in (0, 1)),
        *("asked for 12.50", "asked for 1,300.00"),
        *(f"refunded 2026-11-{day} 09:11:{day}" for day in (27, 28)),
    ]
    codes = [RejectedError("it said", code=code, text="no") for code in ("1001", "1002", "1001")]
    found = read(seen(*codes, status=DECLINED))
    shown = [text.partition(" ·")[0] for text in found.texts["summary"]]
    assert shown == ["2 times: code 1001: no", "1 time: code 1002: no"]


def test_amounts_have_the_places_of_the_dialect_and_short_identifiers_change_no_reason() -> None:
    report = Report("refund", dialect=Dialect(currency_places={"KWD": 3}))
    for number in (5, 3):
        order = refund(number, order_no=str(number), currency="KWD")
        for status, error in ((SUCCEEDED, None), (UNKNOWN, OutcomeUnknownError("HTTP 503"))):
            report.see(Outcome(order=order, index=number, status=status, error=error))
    found = read(report)
    assert "2 times: HTTP 503" in found.text
    assert found.column("Index") == ["3", "5"]
    assert {*re.findall(r"KWD\u00a0([\d.]+)\d", found.text)} == {"4.10", "6.10", "10.20"}
    assert found.tables["money"][0][1] == ["KWD", *["10.2002"] * 2, "20.4004"]


def test_an_identifier_is_not_broken_at_its_hyphens() -> None:
    page = render(seen(OutcomeUnknownError("it lists T-1-01"), status=UNKNOWN), HEAD)
    assert '<bdi>it lists <span class="id">T-1-01</span></bdi>' in page


def test_memory_is_bounded_by_lengths_and_varieties_too() -> None:
    report = Report("refund")
    for number in [*range(2999), 0]:
        word = "".join(chr(97 + number // 26**place % 26) for place in range(3))
        error = OutcomeUnknownError(f"{word} {'x' * 10_000}")
        order = refund(number, currency=f"C{number}")
        report.see(Outcome(order=order, index=number, status=UNKNOWN, error=error))
    (step,) = report.steps.values()
    assert len(step.groups) == 101
    assert sum(len(group.examples) for group in step.groups.values()) == 111
    assert (len(step.sums), step.sums["other currencies"].count) == (101, 2899)
    assert report.counts == {"unknown": 3000}
    found = read(report)
    assert len(found.text) < 100_000
    assert "2899 times: other reasons" in found.text.replace(",", "")


def test_a_run_without_anything_to_do_says_so() -> None:
    text = read(seen(None, None, status=SUCCEEDED), unexpected=0, retries=1).text
    text = text.replace("\u00a0", " ")
    assert "repeated 1 time\n" in text
    assert "All 2 refunds done: EUR 1.10, USD 2.10." in text
    assert "Nothing is left to do." in text
    report = Report("query")
    records = (
        TransactionRecord(currency="EUR", amount=Decimal(2)),
        TransactionRecord(currency="USD", amount=Decimal("0.005")),
        RefundRecord(currency="EUR", amount=Decimal(9), refund_amount=Decimal(1)),
    )
    order, found = OrderRef(order_no="A"), {"status": SUCCEEDED, "record": records}
    report.see(SimpleNamespace(order=order, index=0, error=None, **found))  # type: ignore[arg-type]
    assert "1 of 1 look-up found: EUR\u00a03.00, USD\u00a00.005." in read(report).text
    assert "1 of 1 refund done: EUR\u00a01.10." in read(seen(None, status=SUCCEEDED)).text
    assert "No orders." in read(Report("refund")).text
    ended = read(Report("refund"), failure="the journal is gone").text
    assert "It ended early: the journal is gone" in ended
    assert "No outcomes." in ended
    assert "Nothing is left to do" not in ended
    partial = read(seen(None, None, status=SUCCEEDED), failure="2 of 9 outcomes were read")
    assert partial.texts["h1"] == ["2 refunds done: EUR\u00a01.10, USD\u00a02.10."]


def test_percentiles_are_right_to_three_digits() -> None:
    assert Latencies().percentile(50) is None
    random = Random(3)
    taken = [min(max(random.lognormvariate(-2, 1.5), 0.001), 800) for _ in range(1234)]
    found = Latencies()
    for seconds in taken:
        found.add(seconds, failed=seconds > 1)
    taken.sort()
    for percent in (1, 50, 95, 99, 100):
        exact = taken[math.ceil(len(taken) * percent / 100) - 1]
        shown = found.percentile(percent)
        assert shown is not None
        assert abs(shown - exact) <= exact * 0.005
        assert shown <= found.longest
    assert (found.count, found.failed) == (1234, sum(one > 1 for one in taken))
