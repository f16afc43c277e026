"""What a batch of each operation is made of: one row an operation. Pure."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.chunks import reference_identity, transaction_identity
from gateway_async.batching.markers import marked, whole_marker
from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import (
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
)
from gateway_async.models.records import (
    CancelRecord,
    CaptureRecord,
    RefundRecord,
    ReviewRecord,
    TransactionRecord,
)
from gateway_async.operations import (
    CANCEL,
    CAPTURE,
    QUERY,
    REFUND,
    REVIEW,
    SEARCH_REFUNDS,
    Operation,
    OperationClass,
)
from gateway_async.wire.encoding import batch_field, check_amounts, order_rows, selection_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.batching.chunks import Chunk, Identity
    from gateway_async.dialect import Dialect
    from gateway_async.wire.encoding import Row


@attrs.frozen(kw_only=True)
class Plan:
    """How the orders of one operation are checked, written and named.

    Attributes:
        operation: The operation.
        order_class: What its orders are.
        record_class: What the gateway's records of them are read as.
    """

    operation: Operation
    order_class: type[Any]
    record_class: type[Any]

    @property
    def is_look_up(self) -> bool:
        """Whether orders are only looked up; an order may then have several records."""
        return self.operation.kind is OperationClass.READ

    @property
    def limit(self) -> int:
        """Orders in one request at most (section 8)."""
        return self.operation.limit or 1

    @property
    def identity(self) -> "Identity":
        """What names an order: two orders of the same name are duplicates."""
        return reference_identity if self.is_look_up else transaction_identity

    def check(self, order: object, dialect: "Dialect") -> InvalidOrderError | None:
        """Return why an order cannot be sent, or None."""
        if not isinstance(order, self.order_class):
            return InvalidOrderError(
                f"expected {self.order_class.__name__}, got {type(order).__name__}"
            )
        try:
            if self.is_look_up:
                selection_fields([order], dialect)
            else:
                check_amounts(order, dialect)
        except InvalidOrderError as error:
            return error.with_traceback(None)
        return None

    def rows(self, orders: "Sequence[Any]", dialect: "Dialect") -> "list[Row]":
        """Write orders as they stand in a request, each by itself; for look-ups there is nothing.

        Raises:
            InvalidOrderError: If an order cannot be sent.
        """
        if self.is_look_up:
            selection_fields(orders, dialect)
            return []
        return order_rows(orders, dialect)

    def rows_if_right(self, orders: "Sequence[object]", dialect: "Dialect") -> "list[Row] | None":
        """Write orders if `check` finds fault with none of them; else None."""
        if not set(map(type, orders)) <= {self.order_class}:
            return None
        try:
            return self.rows(orders, dialect)
        except InvalidOrderError:
            return None

    def fields(
        self, chunk: "Chunk", rows: "Sequence[Row]", dialect: "Dialect"
    ) -> "Mapping[str, str]":
        """Write the orders of one chunk as fields of a request.

        Args:
            chunk: The orders.
            rows: The same as they are written.
            dialect: What the interface leaves open.
        """
        if self.is_look_up:
            return selection_fields(chunk.orders, dialect)
        return {self.operation.list_field or "": batch_field(rows, dialect)}


def with_markers(rows: "Sequence[Row]", marker: str, indices: "Sequence[int]") -> "list[Row]":
    """Put a marker before the reason of each refund."""
    return [
        {**row, "refund_reason": marked(row["refund_reason"], whole_marker(marker, index))}
        for index, row in zip(indices, rows, strict=True)
    ]


PLANS: "Mapping[str, Plan]" = MappingProxyType(
    {
        operation.name: Plan(
            operation=operation, order_class=order_class, record_class=record_class
        )
        for operation, order_class, record_class in (
            (CAPTURE, CaptureOrder, CaptureRecord),
            (CANCEL, CancelOrder, CancelRecord),
            (REVIEW, ReviewOrder, ReviewRecord),
            (REFUND, RefundOrder, RefundRecord),
            (QUERY, OrderRef, TransactionRecord),
            (SEARCH_REFUNDS, OrderRef, RefundRecord),
        )
    }
)
"""The plan of each operation that takes a batch, by its name."""
