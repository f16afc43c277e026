"""Errors go from one process to another as they are."""

import pickle
from collections.abc import Iterator

import pytest

from gateway_async import GatewayError
from gateway_async.errors import JobBusyError


def kinds_of(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds_of(one)


@pytest.mark.parametrize(
    "error",
    [
        *(kind("why") for kind in dict.fromkeys(kinds_of(GatewayError))),
        JobBusyError("why", job="job", seconds_left=2.5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling(error: GatewayError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
