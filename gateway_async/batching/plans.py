"""What a batch of each operation is made of: one row an operation. Pure."""

import functools
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.chunks import reference_identity, transaction_identity
from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import (
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
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
from gateway_async.wire.encoding import check_amounts, selection_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.batching.chunks import Identify
    from gateway_async.dialect import Dialect


@attrs.frozen(kw_only=True)
class Plan:
    """How the orders of one operation are checked and named.

    Attributes:
        operation: The operation.
        order_class: What its orders are.
        record_name: The class that the gateway's records of them are read as.
    """

    operation: Operation
    order_class: type[Any]
    record_name: str

    @property
    def is_look_up(self) -> bool:
        """Whether orders are only looked up; an order may then have several records."""
        return self.operation.kind is OperationClass.READ

    @property
    def record_class(self) -> type[Any]:
        """What the gateway's records of them are read as."""
        return _record_class(self.record_name)

    @property
    def limit(self) -> int:
        """Orders in one request at most (section 8)."""
        return self.operation.limit or 1

    @property
    def identity(self) -> "Identify":
        """What names an order: two orders of the same name are duplicates."""
        return reference_identity if self.is_look_up else transaction_identity

    @property
    def kind(self) -> "Callable[[Any], str] | None":
        """What orders must have in common to share a request; None where any may."""
        return attrgetter("kind") if self.is_look_up else None

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


@functools.cache
def _record_class(name: str) -> type[Any]:
    from gateway_async.models import records  # noqa: PLC0415  # only who sends a batch needs it

    record_class: type[Any] = getattr(records, name)
    return record_class


PLANS: "Mapping[str, Plan]" = MappingProxyType(
    {
        operation.name: Plan(operation=operation, order_class=order_class, record_name=record_name)
        for operation, order_class, record_name in (
            (CAPTURE, CaptureOrder, "CaptureRecord"),
            (CANCEL, CancelOrder, "CancelRecord"),
            (REVIEW, ReviewOrder, "ReviewRecord"),
            (REFUND, RefundOrder, "RefundRecord"),
            (QUERY, OrderRef, "TransactionRecord"),
            (SEARCH_REFUNDS, OrderRef, "RefundRecord"),
        )
    }
)
"""The plan of each operation that takes a batch, by its name."""
