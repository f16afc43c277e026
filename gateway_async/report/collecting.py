"""What a report is made of, collected one outcome at a time.

Law: everything is counted, and memory does not grow with the run: of what needs a look the first
are kept, and the rest is counted.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from gateway_async.errors import RejectedError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.reconciliation.differences import Difference, Unanswered, Unreadable
from gateway_async.report.advice import KINDS, Advice, advise
from gateway_async.report.elements import LONGEST_TEXT
from gateway_async.report.latencies import Latencies
from gateway_async.report.money import Money, moved_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.errors import GatewayError

KEPT_OF_EACH = 1000
"""Orders of each status, and differences of each kind, that are shown one by one."""

_REASONS_KEPT = 200
_OTHER_REASONS = "other reasons"
_REFERENCES = ("order_no", "transaction_id")


class Told(Protocol):
    """What became of one order; see `Outcome`."""

    @property
    def order(self) -> Any:  # noqa: ANN401  # any order
        """The order."""
        ...

    @property
    def index(self) -> int:
        """Its position in the input, from 0."""
        ...

    @property
    def status(self) -> OutcomeStatus:
        """What became of it."""
        ...

    @property
    def error(self) -> "GatewayError | None":
        """Why it did not succeed."""
        ...

    @property
    def record(self) -> Any:  # noqa: ANN401  # any record
        """What the gateway says of it."""
        ...


@attrs.frozen(kw_only=True)
class Row:
    """An order that did not succeed, or a difference, as it is shown.

    Attributes:
        place: The index of the order, from 0, as the journal of a job has it; of a difference, the
            line of its entry, or else its index.
        order_no: Its order number, or the `request_id` of a payout.
        transaction_id: Its transaction.
        kind: Its status, or the kind of difference.
        currency: Of what it moves; None for a look-up.
        amount: What it moves; None for a look-up.
        code: The gateway's code, if it gave one.
        reason: Why it did not succeed.
        ledger: What the ledger says, of a difference.
        gateway: What the gateway says, of a difference.
        advice: What to do about it.
    """

    place: int
    order_no: str
    transaction_id: str
    kind: str
    currency: str | None = None
    amount: object = None
    code: str = ""
    reason: str = ""
    ledger: str = ""
    gateway: str = ""
    advice: Advice


class Report:
    """Collects a run, and writes it as one page.

    Args:
        operation: The client's method, or ``"reconcile"``.
        job: The name of the job, if it is one: what is to be done depends on it.
        kept_of_each: Orders of each status, and differences of each kind, that are shown.

    Attributes:
        latencies: Counts how long the gateway took: give it to the client as ``telemetry=``.
        counts: Orders by status, or differences by kind.
        reasons: How many orders did not succeed, by status, reason and what to do about it.
        rows: What is shown one by one.
        money: What amounts add up to.
    """

    def __init__(
        self, operation: str, *, job: str | None = None, kept_of_each: int = KEPT_OF_EACH
    ) -> None:
        self.operation = operation
        self.latencies: Latencies = Latencies()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str, Advice]] = Counter()
        self.rows: list[Row] = []
        self.money: Money = Money()
        self._job = job
        self._kept_of_each = kept_of_each

    @property
    def is_of_books(self) -> bool:
        """Whether it is a reconciliation, and its rows are differences."""
        return self.operation == "reconcile"

    def see(self, outcome: Told, index: int | None = None) -> None:
        """Take in what became of one order; once each.

        Args:
            outcome: What became of it.
            index: Where it stands in the input, from 0, if the outcome does not say so.
        """
        status = str(outcome.status)
        self.counts[status] += 1
        self.money.add(status, outcome)
        if outcome.status is OutcomeStatus.SUCCEEDED:
            return
        code, reason = _said(outcome.error)
        advice = advise(self.operation, status, job=self._job, error=outcome.error)
        self._note_reason(status, reason, advice)
        if self.counts[status] <= self._kept_of_each:
            order_no, transaction_id = _references(outcome.order)
            currency, amount = moved_by(outcome.order) or (None, None)
            self.rows.append(
                Row(
                    place=outcome.index if index is None else index,
                    order_no=order_no,
                    transaction_id=transaction_id,
                    kind=status,
                    currency=currency,
                    amount=amount,
                    code=code,
                    reason=reason,
                    advice=advice,
                )
            )

    def miss(self, count: int, status: OutcomeStatus, reason: str) -> None:
        """Take in orders that no outcome came for, and why."""
        if count > 0:
            self.counts[str(status)] += count
            advice = advise(self.operation, str(status), job=self._job, error=None)
            self.reasons[str(status), reason, advice] += count

    def see_difference(self, difference: Difference, line: int | None = None) -> None:
        """Take in one difference of a reconciliation.

        Args:
            difference: The difference.
            line: The line of the file that its entry stands in, if it comes from one.
        """
        kind = difference.kind
        self.counts[kind] += 1
        advice = KINDS[kind]
        self.reasons[kind, "", advice] += 1
        if self.counts[kind] <= self._kept_of_each:
            order_no, transaction_id = _references(difference.entry)
            self.rows.append(
                Row(
                    place=difference.index if line is None else line,
                    order_no=order_no,
                    transaction_id=transaction_id,
                    kind=kind,
                    currency=difference.entry.currency,
                    amount=difference.entry.amount,
                    reason=_reason_of(difference),
                    ledger=_shown(difference.ledger),
                    gateway=_shown(difference.gateway),
                    advice=advice,
                )
            )

    def _note_reason(self, status: str, reason: str, advice: Advice) -> None:
        key = (status, reason, advice)
        if key not in self.reasons and len(self.reasons) >= _REASONS_KEPT:
            key = (status, _OTHER_REASONS, advice)
        self.reasons[key] += 1


def _said(error: "GatewayError | None") -> tuple[str, str]:
    """Return the gateway's code and the reason why an order did not succeed."""
    if isinstance(error, RejectedError):
        return _cut(error.code), _cut(error.text or str(error))
    return "", "" if error is None else _cut(str(error))


def _references(value: object) -> tuple[str, str]:
    order_no, transaction_id = (getattr(value, name, None) for name in _REFERENCES)
    return _cut(order_no or getattr(value, "request_id", "")), _cut(transaction_id or "")


def _reason_of(difference: Difference) -> str:
    if isinstance(difference, Unanswered):
        return _cut(str(difference.error))
    return _cut(difference.field) if isinstance(difference, Unreadable) else ""


def _shown(value: object) -> str:
    values: Sequence[object] = value if isinstance(value, tuple) else (value,)
    return _cut(", ".join("nothing" if one is None else str(one) for one in values[:10]))


def _cut(value: object) -> str:
    """Keep no more of a text than is shown."""
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
