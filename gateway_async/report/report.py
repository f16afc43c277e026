"""A run as one page of HTML: how many orders, how much money, and what is left to do.

Counts and sums are exact. Alike orders are folded, with some of them as examples, so that memory
does not grow with the run. All text is escaped by the template. Data in, text out: nothing here
writes a file, asks for the time or knows a gateway.
"""

import hashlib
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs

from gateway_async import errors
from gateway_async.dialect import Dialect
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.records import RefundRecord
from gateway_async.models.values import written_amount
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation.differences import EXACT, Difference
from gateway_async.reconciliation.summary import Summary
from gateway_async.telemetry import RequestEnd, RequestStart, Telemetry

_EXAMPLES = 10
_REASONS = 100
_OTHER_REASONS = "other reasons"
_LONGEST_TEXT = 600
# What HTML does not allow, and halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_CURRENCIES = 100
_OTHER_CURRENCIES = "other currencies"
# An amount or an identifier; shorter numbers, such as an HTTP status, distinguish reasons.
_AMOUNT = re.compile(r"\b([A-Z]{3}) (\d)")
_NUMBER = re.compile(r"\d+(?:[.,:-]\d+)+|\d{4,}")
_NOUNS = {
    name: "look-ups" if row.is_look_up else f"{name}s"
    for name, row in OPERATIONS.items()
    if row.takes_batch
} | {"cancel": "cancellations", "payouts": "payouts"}
_OF_AMOUNTS = ("amount", "refunded_total", "refund_unknown_to_ledger", "refund_absent_at_gateway")
_URGENCY = ("unknown", "unanswered", "not_sent", "declined", "absent")


@attrs.define(kw_only=True)
class Head:
    """The run that a report is about.

    Attributes:
        command: What was run, such as ``"refund"``.
        started_at: When it began.
        ended_at: When it ended.
        gateway: The gateway's host; None where none was asked.
        source: Where the orders came from, such as the name of a file.
        out: Where every single outcome is written.
        job: The name of the job, if it was one.
        next_lines: What is left to do, and the command to give for it.
        failure: Why it ended early, if it did.
        requests: Requests of which something was sent; None where they were not counted.
        retries: Attempts beyond the first; None where they were not counted.
        unexpected: Records that came back and belong to no order.
    """

    command: str
    started_at: datetime
    ended_at: datetime
    gateway: str | None = None
    source: str | None = None
    out: str | None = None
    job: str | None = None
    next_lines: tuple[tuple[str, str], ...] = ()
    failure: str | None = None
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended_at - self.started_at).total_seconds()


class Latencies(Telemetry):
    """Counts the exchanges with the gateway by duration; give it to a client as `telemetry=`.

    Durations are counted to three digits, up to a quarter of an hour: in some thousand counters.

    Attributes:
        count: Exchanges in all.
        failed: Exchanges without a readable reply.
        longest: The longest, in seconds.
    """

    _SHORTEST, _LONGEST = 0.001, 900.0

    def __init__(self) -> None:
        self.count: int = 0
        self.failed: int = 0
        self.longest: float = 0.0
        self._seen = Counter[float]()

    def request_ended(self, request: RequestStart, end: RequestEnd, token: object) -> None:
        """Count the exchanges of a request."""
        del request, token
        for attempt in end.attempts:
            self.add(attempt.seconds, failed=attempt.error is not None)

    def add(self, seconds: float, *, failed: bool = False) -> None:
        """Count one exchange."""
        self._seen[float(f"{min(max(seconds, self._SHORTEST), self._LONGEST):.3g}")] += 1
        self.count += 1
        self.failed += failed
        self.longest = max(self.longest, seconds)

    def percentile(self, percent: int) -> float | None:
        """Return within how many seconds so many percent ended; None without any exchange."""
        wanted, seen = -(-self.count * percent // 100), 0
        for seconds, count in sorted(self._seen.items()):
            seen += count
            if seen >= wanted:
                return min(seconds, self.longest)  # which is not cut to three digits
        return None


@attrs.define
class Sum:
    """How many amounts, and what they add up to."""

    count: int = 0
    amount: Decimal = Decimal(0)

    def add(self, other: "Sum") -> None:
        """Add without rounding."""
        self.count += other.count
        self.amount = EXACT.add(self.amount, other.amount)


@attrs.define(kw_only=True)
class Totals:
    """How many orders, and how much money by currency.

    Attributes:
        dialect: Says how many decimal places an amount has at least.
        orders: How many orders.
        sums: By currency, their amounts; beyond a hundred, those of others together.
    """

    dialect: Dialect = attrs.field(factory=Dialect)
    orders: int = 0
    sums: dict[str, Sum] = attrs.field(factory=dict)

    def add(self, *moved: tuple[str | None, Decimal | None] | None) -> None:
        """Count an order, with each currency and amount that it moves, if it moves any."""
        self.orders += 1
        for currency, amount in filter(None, moved):
            if amount is not None:
                self._add_sum((currency or "").upper(), Sum(1, amount))

    def include(self, other: "Totals") -> None:
        """Add all that others come to."""
        self.orders += other.orders
        for currency, one in other.sums.items():
            self._add_sum(currency, one)

    def _add_sum(self, currency: str, other: Sum) -> None:
        is_other = currency not in self.sums and len(self.sums) >= _CURRENCIES
        self.sums.setdefault(_OTHER_CURRENCIES if is_other else currency, Sum()).add(other)

    @property
    def amounts(self) -> dict[str, str]:
        """By currency, the sum with all of its decimal places, and no separators."""
        return {code: text.replace(",", "") for code, text in self._written()}

    @property
    def money(self) -> str:
        """The sums as people read them; empty where nothing is moved."""
        return ", ".join(f"{code} {text}" for code, text in self._written())

    def _written(self) -> Iterator[tuple[str, str]]:
        for code, one in sorted(self.sums.items()):
            places = self.dialect.places(code)
            yield code or "without currency", written_amount(one.amount, places)

    def __str__(self) -> str:
        count = f"{self.orders:,} order{'s' * (self.orders != 1)}"
        return ", ".join(filter(None, [count, self.money]))


@attrs.frozen
class Example:
    """One order or entry, by its index from 0, and by its line if it comes from a file."""

    index: int
    line: int | None
    order_no: str
    transaction_id: str
    currency: str | None
    amount: Decimal | None
    reason: str
    ledger: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()


@attrs.define(kw_only=True)
class Group(Totals):
    """Orders or entries that are alike but for identifiers and amounts.

    Attributes:
        code: The gateway's code, where the reason does not have it.
        reason: Why the first did not succeed, or what cannot be read of it.
        varies: Whether others have another reason.
        examples: The first of them.
    """

    code: str
    reason: str
    varies: bool = False
    examples: list[Example] = attrs.field(factory=list)

    def __str__(self) -> str:
        reason = ": ".join(filter(None, (self.code and f"code {self.code}", self.reason)))
        return f"for example, {reason}" if self.varies else reason


@attrs.define(kw_only=True)
class Step(Totals):
    """All orders of one status, or differences of one kind, with the same thing to do.

    Attributes:
        kind: The status, or the kind of difference.
        advice: What to do, as the template names it; empty for nothing.
        groups: By code and folded reason.
    """

    kind: str
    advice: str
    groups: dict[tuple[str, str], Group] = attrs.field(factory=dict)

    def keep(self, code: str, example: Example) -> None:
        """Count an order in the group of its reason; after a hundred groups, in that of others."""
        reason = folded = example.reason
        moved = example.currency, example.amount
        for shown in (example.order_no, example.transaction_id, *map(str, moved)):
            if len(shown) > 2:  # noqa: PLR2004  # a shorter one may be a part of any word
                folded = folded.replace(shown, "")
        key = code, _NUMBER.sub("", folded)
        if key not in self.groups and len(self.groups) >= _REASONS:
            code, reason = key = "", _OTHER_REASONS
        if (group := self.groups.get(key)) is None:
            group = self.groups[key] = Group(dialect=self.dialect, code=code, reason=reason)
        group.varies |= reason != group.reason
        group.add(moved)
        if len(group.examples) < _EXAMPLES:
            group.examples.append(example)


@attrs.define(eq=False, repr=False)
class Report:
    """Collects a run, one outcome or difference at a time.

    Args:
        operation: The client's method, or ``"reconcile"``.
        job: The name of the job, if it is one: what is left to do depends on it.
        dialect: Says how many decimal places an amount has at least.

    Attributes:
        latencies: Counts how long the gateway took: give it to the client as ``telemetry=``.
        steps: What was collected, by kind and by what to do.
    """

    operation: str
    _job: str | None = attrs.field(default=None, kw_only=True)
    dialect: Dialect = attrs.field(factory=Dialect, kw_only=True)
    latencies: Latencies = attrs.field(factory=Latencies, init=False)
    steps: dict[tuple[str, str], Step] = attrs.field(factory=dict, init=False)

    @property
    def totals(self) -> dict[str, Totals]:
        """By status, or by kind of difference, how many and how much."""
        found = defaultdict[str, Totals](lambda: Totals(dialect=self.dialect))
        for step in self.steps.values():
            found[step.kind].include(step)
        return found

    @property
    def counts(self) -> Counter[str]:
        """Orders by status, or differences by kind."""
        return Counter({kind: one.orders for kind, one in self.totals.items()})

    @property
    def reasons(self) -> list[tuple[int, str, str]]:
        """How many have each kind and reason, the most frequent first."""
        found = Counter[tuple[str, str]]()
        for step in self.steps.values():
            for group in step.groups.values():
                found[step.kind, str(group)] += group.orders
        return [(count, *named) for named, count in found.most_common() if named[1]]

    def see(self, outcome: Outcome[Any, Any], line: int | None = None) -> None:
        """Take in the outcome of one order; once each.

        Args:
            outcome: The outcome.
            line: The line of the file that its order stands in, if it comes from one.
        """
        order, error, status = outcome.order, outcome.error, str(outcome.status)
        step, moved = self._step(status, self._advise(status, error)), _moved_by(order)
        step.add(*([moved] if moved is not None else _listed(outcome.record)))
        if step.advice:
            code, reason = _cut(getattr(error, "code", "")), _cut(reason_of(error))
            currency, amount = moved or (None, None)
            example = Example(outcome.index, line, *_names(order), currency, amount, reason)
            step.keep("" if code in reason else code, example)

    def see_difference(self, difference: Difference, line: int | None = None) -> None:
        """Take in one difference of a reconciliation.

        Args:
            difference: The difference.
            line: The line of the file that its entry stands in, if it comes from one.
        """
        entry, amount = difference.entry, difference.entry.amount
        if difference.kind in _OF_AMOUNTS:  # by how much they differ
            ledger, gateway = Decimal(str(difference.ledger)), Decimal(str(difference.gateway))
            amount = EXACT.subtract(ledger, gateway).copy_abs()
        step = self._step(difference.kind, difference.kind)
        step.add((entry.currency, amount))
        currency, reason = entry.currency, _cut(difference.error or difference.field or "")
        ours = self._sides(difference.ledger, currency)
        theirs = self._sides(difference.gateway, currency)
        named = difference.index, line, *_names(entry), currency, amount, reason
        step.keep("", Example(*named, ours, theirs))

    def shown(self, amount: Decimal, currency: str | None) -> str:
        """Write an amount with the decimal places of its currency, or with more if it has them."""
        return written_amount(amount, self.dialect.places(currency or ""))

    def _sides(self, value: object, currency: str) -> tuple[str, ...]:
        """Return the values of one side of a difference as text, ten at most."""
        values = value if isinstance(value, tuple) else (value,)
        return tuple(
            self.shown(one, currency) if isinstance(one, Decimal) else _cut(one)
            for one in [one for one in values if one is not None][:10]
        )

    def _step(self, kind: str, advice: str) -> Step:
        if (step := self.steps.get((kind, advice))) is None:
            step = Step(kind=kind, advice=advice, dialect=self.dialect)
            self.steps[kind, advice] = step
        return step

    def _advise(self, status: str, error: Exception | None) -> str:
        """Return what to do about an order, as the template names it: the first row that holds."""
        in_job, is_unsent = self._job is not None, status == "not_sent"
        is_look_up = _NOUNS.get(self.operation) == "look-ups"
        is_held = isinstance(error, errors.NotDoneError | errors.AlikeRefundError)
        rows = (
            (status == "succeeded", ""),
            (in_job and is_held, "held"),
            (isinstance(error, errors.InvalidOrderError), "invalid"),
            (status == "unknown" and is_look_up, "look_again"),
            (status == "unknown", "job" if in_job else "recover"),
            (is_unsent and in_job, "not_sent_in_job"),
            (isinstance(error, errors.AlikeRefundError), "alike"),
        )
        return next((advice for holds, advice in rows if holds), status)


def reason_of(error: Exception | None) -> str:
    """Return why an order did not succeed: what the gateway said, or else the client."""
    return (error.text if isinstance(error, errors.RejectedError) else "") or str(error or "")


def _names(order: object) -> tuple[str, str]:
    """Return what people know an order or entry by, and its transaction."""
    known = [_cut(getattr(order, name, None) or "") for name in ("order_no", "request_id")]
    return known[0] or known[1], _cut(getattr(order, "transaction_id", None) or "")


def _moved_by(order: object) -> tuple[str | None, Decimal] | None:
    """Return currency and amount that an order of any operation moves; None for a look-up."""
    row = next((row for row in OPERATIONS.values() if isinstance(order, row.order_class)), None)
    return None if row is None else row.moved_by(order)


def _listed(record: object) -> Iterable[tuple[str | None, Decimal | None]]:
    """Return the amounts that the gateway lists for an order that was looked up."""
    for one in record if isinstance(record, tuple) else ():
        yield one.currency, one.refund_amount if isinstance(one, RefundRecord) else one.amount


def _cut(value: object) -> str:
    text = " ".join(str(value).split())  # a gateway's line break begins no line
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


# The page


def render(report: Report, head: Head, summary: Summary | None = None) -> str:
    """Return a report as one page that needs nothing else.

    Args:
        report: What was collected.
        head: The run as a whole.
        summary: The summary of a reconciliation, if it was one.
    """
    with errors.require_extra("a report", "jinja2", install="'gateway-async[cli]'"):
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  # an extra
    environment = Environment(
        loader=PackageLoader("gateway_async", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "amount": report.shown,
        "digest": lambda css: b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        "number": lambda number: f"{number:,}",
        "seconds": lambda seconds: f"{seconds:,.3f}\u00a0s",
        "words": lambda name: name.replace("_", " "),
    }
    steps = [step for step in report.steps.values() if step.advice]
    steps.sort(key=lambda step: (*(step.kind != kind for kind in _URGENCY), -step.orders))
    for group in (group for step in steps for group in step.groups.values()):
        group.examples.sort(key=lambda one: one.index)
    money = {} if summary is not None else _by_currency(report.totals)
    kinds = [kind for kind in OutcomeStatus if any(kind in row for row in money.values())]
    names = OutcomeStatus if summary is None else ("matched", "differing", "unanswered")
    counts = report.counts if summary is None else attrs.asdict(summary)
    shape = "%Y-%m-%d %H:%M:%S"
    lasted = timedelta(seconds=round(head.seconds))
    is_whole = head.failure is None
    headline = _books_headline(report, summary) if summary else _headline(report, is_whole=is_whole)
    page = environment.get_template("report.html.jinja").render(
        head=head,
        headline=_AMOUNT.sub("\\1\u00a0\\2", headline),
        when=(f"{head.started_at:{shape} %Z} to", f"{head.ended_at:{shape} %Z},", lasted),
        bars={str(name): counts[name] for name in names if counts[name]},
        latencies=report.latencies,
        kinds=kinds,
        money=money,
        of_amounts=_OF_AMOUNTS,
        steps=steps,
        summary=summary,
    )
    return _UNPRINTABLE.sub("\ufffd", page)


def _headline(report: Report, *, is_whole: bool) -> str:
    """Say how many orders are done, and how much money that is.

    Args:
        report: What was collected.
        is_whole: Whether that is all of the run.
    """
    counts, noun = report.counts, _NOUNS.get(report.operation, "orders")
    total, done = counts.total(), counts["succeeded"]
    if not total:
        return "No orders" if is_whole else "No outcomes"
    share = f"{done:,} of {total:,}"
    if 1 < done == total:
        share = f"All {total:,}" if is_whole else f"{done:,}"
    done_words = "found" if noun == "look-ups" else "done"
    text = f"{share} {noun if total > 1 else noun[:-1]} {done_words}"
    money = report.totals["succeeded"].money
    return f"{text}: {money}" if money else text


def _books_headline(report: Report, summary: Summary) -> str:
    """Say how many entries match, and by how much money ledger and gateway differ."""
    share = "All" if summary.matched == summary.entries > 1 else f"{summary.matched:,} of"
    match = "entry matches" if summary.entries == 1 else "entries match"
    gaps = [
        f"{name} by {code} {report.shown(abs(ledger - gateway), code)}"
        for code, one in summary.currencies.items()
        for name, ledger, gateway in (
            ("payments", one.ledger_amount, one.gateway_amount),
            ("refunds", one.ledger_refunded, one.gateway_refunded),
        )
        if ledger != gateway
    ]
    money = f"the totals differ: {', '.join(gaps)}" if gaps else "the totals agree"
    early = "" if summary.exhausted else "; the ledger was not taken to its end"
    return f"{share} {summary.entries:,} {match}, and {money}{early}"


def _by_currency(totals: Mapping[str, Totals]) -> Mapping[str, Mapping[str, Sum]]:
    """Return sums by currency and status, and by currency alone under ``"all"``."""
    found = defaultdict[str, dict[str, Sum]](dict)
    for kind, total in totals.items():
        for code, one in total.sums.items():
            found[code][kind] = one
            found[code].setdefault("all", Sum()).add(one)
    return dict(sorted(found.items()))
