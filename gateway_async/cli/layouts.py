"""What the files of each command hold, as data.

Input columns carry the interface's field names. This module does no input or output.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.models.orders import (
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATUS = "status"
"""The result column that carries the outcome's status."""

OUTCOME_COLUMNS = (STATUS, "code", "error")
"""The result columns of every command, before those of its records."""

EVIDENCE_COLUMNS = (
    "sent_operation",
    "sent_index",
    "sent_ended_at",
    "sent_alone",
    "sent_marker",
    "sent_references_before",
)
"""The result columns by which `recover` settles what is unknown: no secret is among them."""

STATUS_FROM = "status_from"
"""The column that names, in a copy, the file in which an order has its status: a row is sent again
only from there, so that no two files send it."""

_RECOVERABLE = frozenset({"capture", "cancel", "review", "refund"})


@attrs.frozen(kw_only=True)
class Layout:
    """The columns of one command's files.

    Attributes:
        operation: The command.
        order: The class of an order.
        required: Columns that must be there and filled.
        optional: Columns that are used where they are there and filled.
        either: Columns of which at least one must be there, and exactly one filled in each row.
        amounts: Which of the columns hold amounts.
        identity: Columns by which two rows are the same order.
        total: The column whose amounts are what the command moves.
        results: Columns written from the gateway's records, by the field of the record. Where a
            column could hide one of the input's, its name begins with `found_`.
        confirms: Whether the command asks before it sends: money leaves the merchant.
    """

    operation: str
    order: "Callable[..., Any]"
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    amounts: frozenset[str] = frozenset({"amount", "refund_amount"})
    identity: tuple[str, ...] = ()
    total: str = "amount"
    results: "Mapping[str, str]"
    confirms: bool = False

    @property
    def method(self) -> str:
        """The name of the client's method."""
        return self.operation.replace("-", "_")

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that the command reads."""
        return (*self.required, *self.optional, *self.either)

    @property
    def looks_up(self) -> bool:
        """Whether the command only reads."""
        return self.order is OrderRef

    @property
    def keeps_evidence(self) -> bool:
        """Whether what is unknown may be settled later, by columns beside its outcome."""
        return self.operation in _RECOVERABLE

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The columns that the command writes beside those of the input."""
        evidence = EVIDENCE_COLUMNS if self.keeps_evidence else ()
        return (*OUTCOME_COLUMNS, *self.results, *evidence)

    def by(self, column: str) -> "Layout":
        """Return the layout of a look-up that goes by one column only."""
        return attrs.evolve(self, required=(column,), either=(), identity=(column,))


_ORDER = ("transaction_id", "order_no", "currency", "amount")
_REFERENCES = ("order_no", "transaction_id")
_FOUND = {
    "found_transaction_id": "transaction_id",
    "found_order_no": "order_no",
    "found_amount": "amount",
    "found_currency": "currency",
    "payment_status": "payment_status",
}


def _same(*fields: str) -> dict[str, str]:
    return {field: field for field in fields}


_LAYOUTS = (
    Layout(
        operation="capture",
        order=CaptureOrder,
        required=_ORDER,
        identity=("transaction_id",),
        results=_same("capture_status", "error_message"),
    ),
    Layout(
        operation="cancel",
        order=CancelOrder,
        required=_ORDER,
        identity=("transaction_id",),
        results=_same("cancel_status", "error_message"),
    ),
    Layout(
        operation="review",
        order=ReviewOrder,
        required=(*_ORDER, "review_flag"),
        identity=("transaction_id",),
        results=_same("review_status", "error_message"),
    ),
    Layout(
        operation="refund",
        order=RefundOrder,
        required=(*_ORDER, "refund_amount"),
        optional=("refund_reason",),
        identity=("transaction_id",),
        total="refund_amount",
        results=_same("refund_status", "refund_reference", "refund_reference_id", "refund_message"),
        confirms=True,
    ),
    Layout(
        operation="query",
        order=OrderRef,
        either=_REFERENCES,
        identity=_REFERENCES,
        results={**_FOUND, **_same("query_result", "reference_no", "transaction_date")},
    ),
    Layout(
        operation="search-refunds",
        order=OrderRef,
        either=_REFERENCES,
        identity=_REFERENCES,
        results={
            **_FOUND,
            "found_refund_amount": "refund_amount",
            **_same("refund_status", "refund_reference_id", "refund_date"),
        },
    ),
)

LAYOUTS: "Mapping[str, Layout]" = MappingProxyType(
    {layout.operation: layout for layout in _LAYOUTS}
)
"""The layout of each command that sends a batch of orders."""

WRITTEN = frozenset(
    [STATUS_FROM, *EVIDENCE_COLUMNS, *(name for one in _LAYOUTS for name in one.result_columns)]
)
"""All columns that these commands write."""
