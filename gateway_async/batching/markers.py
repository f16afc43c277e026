"""Markers: what tells a refund of ours from any other, in its `refund_reason`. Pure."""

import re

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
