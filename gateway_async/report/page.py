"""The page: its parts in their order, and what a browser may do with it, which is nothing else."""

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING

from gateway_async.report.elements import Markup, element, foreign, joined, raw
from gateway_async.report.script import SCRIPT
from gateway_async.report.style import STYLE
from gateway_async.report.tables import (
    books,
    latency_bars,
    listing,
    money_table,
    next_steps,
    status_bars,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gateway_async.reconciliation.summary import Summary
    from gateway_async.report.collecting import Report
    from gateway_async.report.heads import Head

BEGINNING = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
    '<meta http-equiv="Content-Security-Policy"'
)
"""How every report begins, by which one is known."""

_UNCLEAR = ("unknown", "not_sent")
_LOADS_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:"


def page(report: "Report", head: "Head", summary: "Summary | None" = None) -> str:
    """Return a report as one page that needs nothing else.

    Args:
        report: What was collected.
        head: The run as a whole.
        summary: What a reconciliation came to, if it was one.
    """
    title = f"{head.command}: {_verdict(report, head, summary)[1]}"
    body = element(
        "main",
        element("h1", f"gateway-async {head.command}"),
        element("p", _when(head.started_at, head.ended_at), class_="soft"),
        _verdict_line(report, head, summary),
        _facts(head),
        *_sections(report, head, summary),
    )
    top = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        raw("style", STYLE),
    )
    whole = element("html", top, element("body", body, raw("script", SCRIPT)), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def _sections(report: "Report", head: "Head", summary: "Summary | None") -> list[Markup]:
    sections = [
        ("What became of the entries", None if summary is None else status_bars(_entries(summary))),
        ("What became of the orders", status_bars(report.counts) if summary is None else None),
        ("What to do next", next_steps(report, head)),
        ("Totals by currency", money_table(report) if summary is None else books(summary)),
        ("Differences" if summary is not None else "Orders to look at", listing(report, head)),
        ("How long the gateway took", latency_bars(report.latencies)),
    ]
    return [
        element("section", element("h2", name), content)
        for name, content in sections
        if content is not None
    ]


def _entries(summary: "Summary") -> "Mapping[str, int]":
    names = ("matched", "differing", "unanswered")
    return {name: getattr(summary, name) for name in names}


def _policy() -> str:
    """Allow our own style and script, by their hashes, and nothing else."""
    return f"{_LOADS_NOTHING}; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


def _verdict(report: "Report", head: "Head", summary: "Summary | None") -> tuple[str, str]:
    """Say in a sentence what it came to, and whether that is good."""
    if summary is not None:
        return _verdict_on_books(summary, head)
    counts = {status: count for status, count in report.counts.items() if count}
    total = sum(counts.values())
    if not head.failure and set(counts) <= {"succeeded"}:
        return "", f"all {total:,} orders succeeded" if total else "no orders"
    listed = ", ".join(f"{count:,} {_words(status)}" for status, count in counts.items())
    is_bad = head.failure or any(status in counts for status in _UNCLEAR)
    return "bad" if is_bad else "some", f"{total:,} orders: {listed}"


def _verdict_on_books(summary: "Summary", head: "Head") -> tuple[str, str]:
    text = (
        f"{summary.entries:,} entries: {summary.matched:,} matched, {summary.differing:,} "
        f"differing, {summary.unanswered:,} unanswered"
    )
    if not summary.exhausted:
        return "bad", f"{text}; the ledger was not taken to its end"
    if head.failure or summary.unanswered:
        return "bad", text
    return "" if summary.ok else "some", text


def _verdict_line(report: "Report", head: "Head", summary: "Summary | None") -> Markup:
    kind, text = _verdict(report, head, summary)
    classes = " ".join(filter(None, ("verdict", kind)))
    return element("p", f"{text[0].upper()}{text[1:]}.", class_=classes)


def _when(started: "datetime", ended: "datetime") -> str:
    shape = "%Y-%m-%d %H:%M:%S"
    lasted = (ended - started).total_seconds()
    return f"{started:{shape} %Z} to {ended:{shape} %Z}, {_duration(lasted)}"


def _duration(seconds: float) -> str:
    if round(seconds, 1) < 60:  # noqa: PLR2004  # seconds of a minute
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min {rest} s" if hours else f"{minutes} min {rest} s"


def _facts(head: "Head") -> Markup:
    facts: dict[str, object] = {
        "Gateway": head.gateway,
        "Job": head.job,
        "Input": head.source,
        "Every outcome": head.out,
        "Requests": None if head.requests is None else _requests(head),
        "Unexpected": _unexpected(head.unexpected) if head.unexpected else None,
        "Ended early": head.failure,
    }
    return element(
        "dl",
        *(
            joined(element("dt", name), element("dd", foreign(value)))
            for name, value in facts.items()
            if value is not None
        ),
    )


def _requests(head: "Head") -> str:
    return (
        f"{head.requests:,}, and {head.retries:,} tries more"
        if head.retries
        else f"{head.requests:,}"
    )


def _unexpected(count: int) -> str:
    return f"{count:,} records came back that belong to no order"


def _words(name: str) -> str:
    return name.replace("_", " ")
