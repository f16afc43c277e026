"""How much work something is, in a measure that no load of the machine changes."""

import sys
from collections.abc import Callable


def count_calls(act: Callable[[], object]) -> int:
    """Count the calls of functions while something is done, those written in C included."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls
