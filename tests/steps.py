"""How much work something is, in a measure that no load of the machine changes."""

import gc
import sys
from collections.abc import Callable

_TIMES = 3


def count_calls(act: Callable[[], object]) -> int:
    """Count the calls of functions while something is done, those written in C included.

    It is done thrice, and the fewest count: what an earlier test left may end meanwhile.
    """
    return min(_count(act) for _ in range(_TIMES))


def _count(act: Callable[[], object]) -> int:
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what an earlier test left behind is finalized by calls, too
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls
