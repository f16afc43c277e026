"""The net itself catches what it is there to catch."""

import logging

import attrs
import pytest

from gateway_async import GatewayError, OutcomeUnknownError
from tests.secrets.data import CARD, CODE, SIGNER_SECRET
from tests.secrets.dragnet import Dragnet

SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))


@attrs.frozen
class Talkative:
    secret: str


@attrs.frozen
class Pickled:
    secret: str = attrs.field(repr=False)


def fail(secret: str) -> None:
    raise OutcomeUnknownError(f"lost, {len(secret)} characters long")


def raised(secret: str) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        fail(secret)
    return caught.value


def chained(secret: str) -> GatewayError:
    error = GatewayError("outer")
    error.__context__ = raised(secret)
    error.__suppress_context__ = True
    return error


@pytest.mark.parametrize("secret", [CARD, SPACED, CODE, SIGNER_SECRET, "f00dfeed" * 8])
def test_each_secret_is_found(secret: str) -> None:
    net = Dragnet()
    net.signatures.add("f00dfeed" * 8)
    net.add("here", f"<{secret}>")
    assert len(net.hits()) >= 1


@pytest.mark.parametrize("make", [raised, chained])
def test_local_variables_are_found(make: type[GatewayError]) -> None:
    net = Dragnet()
    net.catch_error("here", make(CARD))
    assert any("traceback" in hit for hit in net.hits())
    assert any("rich" in hit for hit in net.hits())


def test_a_drawn_traceback_is_found() -> None:
    net = Dragnet()
    net.draw_error("here", raised(CARD))
    assert len(net.hits()) >= 1


def test_a_repr_is_found() -> None:
    net = Dragnet()
    net.catch_object("here", Talkative(CARD))
    assert len(net.hits()) >= 1


def test_a_pickle_is_found() -> None:
    net = Dragnet()
    net.catch_object("here", Pickled(CARD))
    assert any("pickled" in hit for hit in net.hits())


def test_log_lines_are_found() -> None:
    net = Dragnet()
    net.handle(logging.makeLogRecord({"msg": "sent %s", "args": (CARD,)}))
    assert len(net.hits()) >= 1


def test_four_digits_of_something_else_are_not_found() -> None:
    net = Dragnet()
    net.add("here", f"<object at 0x7f{CODE}0>, 0.{CODE} seconds, Task-{CODE}")
    assert net.hits() == []
