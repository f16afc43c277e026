"""What tells a refund from any other: its reference, or our marker in `refund_reason`. Pure."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_async.models.records import RefundRecord

ANY_MARKER = re.compile(r"\[ga-[0-9a-f]{12}-\d{10}\]")
"""What every marker looks like."""


def whole_marker(marker: str, index: int) -> str:
    """Return the marker of one order.

    All are equally long, so that a gateway that cuts reasons cuts all of them or none.

    Args:
        marker: What every marker of the batch begins with.
        index: The order's position in the input.
    """
    return f"[{marker}-{index:010}]"


def marked(reason: str, marker: str) -> str:
    """Put a marker before a reason: at its end it might be cut off."""
    return f"{marker} {reason}".rstrip()


def reference_of(record: "RefundRecord") -> str:
    """Return the gateway's reference of a refund; "" where it is missing or blank."""
    return (record.refund_reference_id or "").strip()
