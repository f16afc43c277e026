"""Orders as they stand in a request: written once, then signed, sent and compared as they are.

Law: what is compared with the reply is what was sent. This module is pure.
"""

from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.markers import marked, whole_marker
from gateway_async.batching.matching import sent_of
from gateway_async.errors import GatewayError
from gateway_async.wire.encoding import (
    amounts_are_plain,
    batch_field,
    order_rows,
    selection_fields,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.batching.matching import Sent
    from gateway_async.batching.plans import Plan
    from gateway_async.dialect import Dialect
    from gateway_async.wire.encoding import Row


@attrs.frozen
class Sheet:
    """The orders of one request, written.

    Attributes:
        indices: Their positions in the input.
        fields: The fields of the request that carry them.
        sent: What a reply is to repeat of each; None for look-ups, which are matched otherwise.
    """

    indices: "Sequence[int]"
    fields: "Mapping[str, str]" = attrs.field(repr=False)
    sent: "Sent | None" = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class SheetWriter:
    """Writes the orders of one batch.

    Attributes:
        plan: What the batch is made of.
        dialect: What the interface leaves open.
        marker: What the marker of each refund begins with, if any is sent.
    """

    plan: "Plan"
    dialect: "Dialect"
    marker: str | None = None

    def write(self, orders: "Sequence[Any]", indices: "Sequence[int]") -> Sheet:
        """Write orders.

        Args:
            orders: The orders.
            indices: Their positions in the input.

        Raises:
            InvalidOrderError: If one of them cannot be sent.
        """
        operation = self.plan.operation
        if self.plan.is_look_up:
            return Sheet(indices, selection_fields(orders, self.dialect))
        rows = order_rows(orders, self.dialect)
        if self.marker is not None:
            rows = _with_markers(rows, self.marker, indices)
        name = operation.list_field or ""
        fields = {self.dialect.wire_names.get(name, name): batch_field(rows, self.dialect)}
        return Sheet(indices, fields, sent_of(operation, rows, self.dialect))

    def write_if_right(self, orders: "Sequence[Any]", indices: "Sequence[int]") -> Sheet | None:
        """Write orders if `Plan.check` finds fault with none of them; else None."""
        if set(map(type, orders)) != {self.plan.order_class}:
            return None
        try:
            return self.write(orders, indices)
        except GatewayError:  # whoever looks at each of them says why
            return None

    def are_right(self, orders: "Sequence[Any]") -> bool:
        """Say whether it is seen at a glance that `Plan.check` finds fault with none of them."""
        if set(map(type, orders)) != {self.plan.order_class}:
            return False
        if self.plan.is_look_up:
            return self.write_if_right(orders, range(len(orders))) is not None
        return amounts_are_plain(orders, self.dialect)


def _with_markers(rows: "Sequence[Row]", marker: str, indices: "Sequence[int]") -> "list[Row]":
    """Put a marker before the reason of each refund."""
    return [
        {**row, "refund_reason": marked(row["refund_reason"], whole_marker(marker, index))}
        for index, row in zip(indices, rows, strict=True)
    ]
