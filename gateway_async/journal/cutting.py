"""Which order of a job is in which slice. Pure.

Law: all orders of one transaction are in one slice, and every order is in one. Some bytes an order
are enough to find that out, however many there are.
"""

from array import array
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOOKED_AT_ONCE = 200_000


def share_out(keys: "Sequence[int]", size: int) -> "array[int]":
    """Return the slice of each order, from 1: ranges, and behind them those gathered from several.

    Args:
        keys: By position, what stands for the transaction of an order: the same for the same, and
            seldom the same for others, who are then in one slice too.
        size: How many orders a slice has, but for those of one transaction.
    """
    numbers = array("I", (1 + position // size for position in range(len(keys))))
    number, filled = 2 + (len(keys) - 1) // size, 0
    for positions in _apart(keys, size):
        if filled >= size:
            number, filled = number + 1, 0
        for position in positions:
            numbers[position] = number
        filled += len(positions)
    return numbers


def _apart(keys: "Sequence[int]", size: int) -> "Iterator[list[int]]":
    """Yield the positions of each transaction that occurs in several ranges."""
    parts = 1 + len(keys) // _LOOKED_AT_ONCE
    for part in range(parts):
        first_range: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            own = position // size
            if key % parts == part and first_range.setdefault(key, own) != own:
                found[key] = []
        for position, key in enumerate(keys if found else ()):
            if key in found:
                found[key].append(position)
        yield from found.values()


def runs(numbers: "Sequence[int]", span: range, most: int) -> "Iterator[tuple[int, int, int]]":
    """Yield first position, last position and slice of orders side by side that share a slice.

    Args:
        numbers: The slice of each order, by position.
        span: Which positions.
        most: How many orders at most are told of together.
    """
    for number, alike in groupby(span, key=numbers.__getitem__):
        positions = list(alike)
        for start in range(0, len(positions), most):
            part = positions[start : start + most]
            yield part[0], part[-1], number
