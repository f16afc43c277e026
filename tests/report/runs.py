"""Reports of made-up runs, with everything in them that a page must stand."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway_async import (
    GatewayError,
    InvalidOrderError,
    NotSentError,
    Outcome,
    OutcomeStatus,
    OutcomeUnknownError,
    RefundOrder,
    RejectedError,
)
from gateway_async.report import Head, Report

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
_NOTHING: GatewayError | None = None
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
    for number in range(count):
        order = refund(number)
        status, error = OutcomeStatus.SUCCEEDED, _NOTHING
        if number % 97 == 5:
            status, error = OutcomeStatus.UNKNOWN, OutcomeUnknownError(LOST)
        elif number % 61 == 7:
            text = said[number % len(said)]
            code = f"1{number % 7:03d}"
            status = OutcomeStatus.DECLINED
            error = RejectedError(f"{code}: {text}", code=code, text=text)
        elif number % 211 == 9:
            status, error = OutcomeStatus.NOT_SENT, NotSentError("nothing was sent: 3 in a row")
        elif number % 307 == 11:
            status, error = OutcomeStatus.NOT_SENT, InvalidOrderError("refund_amount: too much")
        yield Outcome(order=order, index=number, status=status, error=error)


def night(count: int = 2_000) -> Report:
    """Return a report of refunds."""
    report = Report("refund")
    for outcome in outcomes(count):
        report.see(outcome)
    for number in range(204):
        report.latencies.add(0.02 + (number * 37 % 100) ** 2 / 40_000, failed=number % 40 == 3)
    return report


def hostile() -> Report:
    """Return a report in which every text is an attack."""
    report = Report("refund")
    texts = (*HOSTILE, *KINDLY)
    for number, text in enumerate(texts):
        order_no = texts[number - 1].replace("\ud800", "")
        order = refund(number, order_no=order_no, transaction_id=f"T{number}")
        error = RejectedError(text, code=text, text=text)
        status = OutcomeStatus.DECLINED
        report.see(Outcome(order=order, index=number, status=status, error=error))
    return report
