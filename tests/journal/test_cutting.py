"""Which order of a job is in which slice."""

import random
from collections import Counter, defaultdict

from gateway_async.journal.submit import share_out


def test_orders_of_different_transactions_are_cut_into_ranges() -> None:
    assert list(share_out(range(10), 4)) == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert list(share_out([7, 7, 8, 8], 2)) == [1, 1, 2, 2]
    assert list(share_out([], 4)) == []


def test_transactions_of_several_ranges_are_gathered_behind_them() -> None:
    assert list(share_out([1, 2, 3, 4, 1, 5, 6, 3], 2)) == [5, 1, 6, 2, 5, 3, 4, 6]
    assert list(share_out([1, 1, 1, 1], 2)) == [3, 3, 3, 3]


def test_no_transaction_is_in_two_slices() -> None:
    drawing = random.Random(1)
    for _ in range(200):
        keys = [drawing.randrange(30) for _ in range(drawing.randrange(60))]
        size = drawing.randrange(1, 12)
        numbers = share_out(keys, size)
        of_key: dict[int, set[int]] = defaultdict(set)
        for key, number in zip(keys, numbers, strict=True):
            of_key[key].add(number)
        assert all(len(found) == 1 for found in of_key.values())
        assert all(number >= 1 for number in numbers)
        most = max(Counter(keys).values(), default=0)
        assert all(count < size + most for count in Counter(numbers).values())
