"""The tables of the page, each complete without a script."""

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from gateway_async.models.orders import OutcomeStatus
from gateway_async.report.elements import Markup, element, foreign, joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from gateway_async.reconciliation.summary import Summary
    from gateway_async.report.advice import Advice
    from gateway_async.report.collecting import Report, Row
    from gateway_async.report.heads import Head
    from gateway_async.report.latencies import Class, Latencies
    from gateway_async.report.money import Sum

_STATUSES = tuple(str(status) for status in OutcomeStatus)
_BARS = (*_STATUSES, "matched", "differing", "unanswered")
_SHADES = {"matched": "succeeded", "unanswered": "unknown"}
_URGENCY = ("unknown", "not_sent", "declined", "absent")
_REASONS_SHOWN = 8
_SHARES = ((0.5, "half"), (0.95, "95 of 100"), (0.99, "99 of 100"))
_MILLISECONDS_BELOW = 1.0


def status_bars(counts: "Mapping[str, int]") -> Markup | None:
    """Return a bar for each status that any order or entry has."""
    counts = {status: counts[status] for status in _BARS if counts.get(status)}
    total = sum(counts.values())
    if not total:
        return None
    rows = [
        _bar_row(
            _words(status), f"{count:,}", f"{count / total:.1%}", [(_shade(status), count / total)]
        )
        for status, count in counts.items()
    ]
    return _scrolled(
        element("table", element("tbody", *rows), class_="bars"), "How many have each status"
    )


def next_steps(report: "Report", head: "Head") -> Markup | None:
    """Return what to do about everything that did not succeed, the most urgent first."""
    grouped: dict[tuple[str, Advice], dict[str, int]] = defaultdict(dict)
    for (kind, reason, advice), count in report.reasons.most_common():
        grouped[kind, advice][reason] = count
    if not grouped:
        return None
    steps = [
        _step(kind, advice, reasons)
        for (kind, advice), reasons in sorted(
            grouped.items(), key=lambda found: _urgency(found[0][0])
        )
    ]
    lines = [element("pre", element("code", line)) for line in head.next_lines]
    if lines:
        lines.insert(0, element("p", "To go on, give:"))
    return joined(*lines, element("ul", *steps, class_="next"))


def _step(kind: str, advice: "Advice", reasons: "Mapping[str, int]") -> Markup:
    count = element("strong", f"{sum(reasons.values()):,}")
    said = [
        element("li", f"{number:,} times: ", foreign(reason))
        for reason, number in islice(reasons.items(), _REASONS_SHOWN)
        if reason
    ]
    if (left := len(reasons) - _REASONS_SHOWN) > 0:
        said.append(element("li", f"and for {left:,} more reasons"))
    return element(
        "li",
        element("p", _mark(kind), Markup(" "), count),
        element("p", advice.text),
        element("ul", *said, class_="soft") if said else Markup(),
    )


def money_table(report: "Report") -> Markup | None:
    """Return what the amounts of the orders add up to, by currency and status."""
    sums = report.money.by_currency()
    if not sums:
        return None
    statuses = [name for name in _STATUSES if any(name in of_one for of_one in sums.values())]
    heads = ["Currency", "All", *(_words(name).capitalize() for name in statuses)]
    rows = [
        element(
            "tr",
            element("th", code, scope="row"),
            _money_cell(report.money.total(of_one)),
            *(_money_cell(of_one.get(status)) for status in statuses),
        )
        for code, of_one in sums.items()
    ]
    return _table(heads, rows, caption="Amounts, and how many they are", numbers_from=1)


def books(summary: "Summary") -> Markup | None:
    """Return both sides of a reconciliation, by currency."""
    rows = []
    for code, totals in summary.currencies.items():
        sides = [
            ("Payments", totals.ledger_amount, totals.gateway_amount),
            ("Refunded", totals.ledger_refunded, totals.gateway_refunded),
        ]
        counts = (totals.ledger_count, totals.gateway_count)
        rows += [
            element(
                "tr",
                element("th", f"{code} {name.lower()}", scope="row"),
                *(
                    element("td", _amount(amount), *_small(count, name), class_="number")
                    for amount, count in zip((ledger, gateway), counts, strict=True)
                ),
                element("td", _amount(ledger - gateway), class_="number"),
            )
            for name, ledger, gateway in sides
        ]
    heads = ["Currency", "Your ledger", "The gateway", "Ledger less gateway"]
    return _table(
        heads,
        rows,
        caption="Every entry, and what the gateway lists for those that were answered",
        numbers_from=1,
    )


def listing(report: "Report", head: "Head") -> Markup | None:
    """Return what needs a look, one by one; the script makes it sortable."""
    if not report.rows:
        return None
    columns = _columns(report.rows, _ENTRY if report.is_of_books else _INDEX)
    rows = sorted(report.rows, key=lambda row: (_urgency(row.kind), row.place))
    body = [
        element("tr", *(_cell(name, row) for name in columns), data_kind=row.kind) for row in rows
    ]
    heads = [
        element("th", name, scope="col", class_="number" if name in _NUMBERS else None)
        for name in columns
    ]
    table = element(
        "table",
        element("caption", _caption(report, head)),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="listing",
        data_kinds="Difference" if report.is_of_books else "Status",
    )
    return _scrolled(table, "What needs a look")


def latency_bars(latencies: "Latencies") -> Markup | None:
    """Return a histogram of the exchanges with the gateway."""
    classes = latencies.classes()
    if not classes:
        return None
    most = max(one.count for one in classes)
    rows = [
        _bar_row(
            _span(one),
            f"{one.count:,}",
            f"{one.failed:,} without an answer" if one.failed else "",
            [("answered", one.answered / most), ("unknown", one.failed / most)],
        )
        for one in classes
    ]
    shares = [
        f"{words} within {_seconds(seconds)}"
        for share, words in _SHARES
        if (seconds := latencies.most_took(share)) is not None
    ]
    said = f"{latencies.count:,} exchanges: {', '.join(shares)}; the longest took "
    return joined(
        element("p", f"{said}{_seconds(latencies.longest)}."),
        _scrolled(
            element("table", element("tbody", *rows), class_="bars"), "Exchanges by duration"
        ),
    )


# Listing

_INDEX, _ENTRY = "Index", "Entry"
_NUMBERS = frozenset({_INDEX, _ENTRY, "Amount"})


def _columns(rows: "Sequence[Row]", place: str) -> list[str]:
    """Return the columns that have anything to show."""
    filled = {
        place: True,
        "What": True,
        "Order": any(row.order_no for row in rows),
        "Transaction": any(row.transaction_id for row in rows),
        "Amount": any(row.amount is not None for row in rows),
        "Ledger": any(row.ledger for row in rows),
        "Gateway": any(row.gateway for row in rows),
        "Code": any(row.code for row in rows),
        "Reason": any(row.reason for row in rows),
        "Next": True,
    }
    return [name for name, is_filled in filled.items() if is_filled]


def _cell(column: str, row: "Row") -> Markup:
    if column in (_INDEX, _ENTRY):
        return _td(column, str(row.place), class_="number", data_value=row.place)
    if column == "What":
        return _td(column, _mark(row.kind))
    if column == "Amount":
        return _amount_cell(row)
    text = {
        "Order": row.order_no,
        "Transaction": row.transaction_id,
        "Ledger": row.ledger,
        "Gateway": row.gateway,
        "Code": row.code,
        "Reason": row.reason,
    }.get(column)
    if text is None:
        return _td(column, row.advice.short, class_="action")
    shown = [foreign(text)] if text else []
    return _td(column, *shown, class_="text wide" if column == "Reason" else "text")


def _amount_cell(row: "Row") -> Markup:
    if row.amount is None:
        return _td("Amount", class_="number", data_value=0)
    shown = foreign(f"{row.amount:,f} {row.currency or ''}")
    return _td("Amount", shown, class_="number", data_value=f"{row.amount:f}")


def _td(column: str, *content: object, **attributes: object) -> Markup:
    return element("td", *content, data_label=column, **attributes)


def _caption(report: "Report", head: "Head") -> str:
    left = sum(report.counts[kind] for kind in report.counts if kind != "succeeded")
    left -= len(report.rows)
    if left <= 0:
        order = "in the order of the ledger" if report.is_of_books else "the most urgent first"
        return f"All {len(report.rows):,}, {order}"
    elsewhere = f"; {head.out} has every one" if head.out else ""
    return f"The first {len(report.rows):,}; {left:,} more are not shown here{elsewhere}"


# Parts


def _table(
    heads: "Sequence[str]", rows: "Sequence[Markup]", *, caption: str, numbers_from: int
) -> Markup | None:
    if not rows:
        return None
    titles = [
        element("th", name, scope="col", class_="number" if place >= numbers_from else None)
        for place, name in enumerate(heads)
    ]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *titles)),
        element("tbody", *rows),
    )
    return _scrolled(table, caption)


def _scrolled(table: Markup, name: str) -> Markup:
    return element("div", table, class_="scroll", role="region", aria_label=name, tabindex="0")


def _bar_row(name: str, count: str, remark: str, parts: "Sequence[tuple[str, float]]") -> Markup:
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", _bar(parts)),
        element("td", count, class_="number"),
        element("td", remark, class_="number soft"),
    )


def _bar(parts: "Sequence[tuple[str, float]]") -> Markup:
    """Draw parts of a whole beside each other; the numbers beside it say the same."""
    drawn = [_rect("track", 0.0, 1.0)]
    start = 0.0
    for name, share in parts:
        drawn.append(_rect(name, start, share))
        start += share
    return element("svg", *drawn, aria_hidden="true")


def _rect(name: str, start: float, share: float) -> Markup:
    return element("rect", class_=name, x=f"{start:.2%}", width=f"{share:.2%}", height="100%")


def _mark(kind: str) -> Markup:
    dot = element("svg", _rect(_shade(kind), 0.0, 1.0), aria_hidden="true")
    return element("span", dot, _words(kind), class_="mark")


def _shade(kind: str) -> str:
    return kind if kind in _STATUSES else _SHADES.get(kind, "difference")


def _money_cell(found: "Sum | None") -> Markup:
    if found is None:
        return element("td", class_="number")
    return element(
        "td", _amount(found.amount), element("small", f"{found.count:,}"), class_="number"
    )


def _small(count: int, name: str) -> list[Markup]:
    return [element("small", f"{count:,}")] if name == "Payments" else []


def _amount(amount: "Decimal") -> str:
    return f"{amount:,f}"


def _urgency(kind: str) -> int:
    return _URGENCY.index(kind) if kind in _URGENCY else len(_URGENCY)


def _span(one: "Class") -> str:
    if one.up_to is None:
        return f"over {_seconds(one.above)}"
    return f"up to {_seconds(one.up_to)}"


def _seconds(seconds: float) -> str:
    if seconds < _MILLISECONDS_BELOW:
        return f"{_rounded(seconds * 1000)} ms"
    return f"{_rounded(seconds)} s"


def _rounded(number: float) -> str:
    """Write three digits that count, and never an exponent."""
    return f"{float(f'{number:.3g}'):,g}"


def _words(name: str) -> str:
    return name.replace("_", " ")
