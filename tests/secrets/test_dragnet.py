"""The net itself catches what it is there to catch."""

import logging
from collections.abc import Callable

import attrs
import pytest

from gateway_async import GatewayError, OutcomeUnknownError
from tests.secrets.data import CARD, CODE, SIGNER_SECRET
from tests.secrets.dragnet import Dragnet

SIGNATURE = "f00dfeed" * 8
SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))


@attrs.frozen
class Talkative:
    secret: str


@attrs.frozen
class Pickled:
    secret: str = attrs.field(repr=False)


def raised(secret: str) -> GatewayError:
    def fail(text: str) -> None:
        raise OutcomeUnknownError(f"lost, {len(text)} characters long")

    with pytest.raises(GatewayError) as caught:
        fail(secret)
    return caught.value


def chained(secret: str) -> GatewayError:
    error = GatewayError("outer")
    error.__context__ = raised(secret)
    error.__suppress_context__ = True
    return error


@pytest.mark.parametrize(
    ("catch", "labels"),
    [
        *(
            (lambda net, secret=secret: net.add("text", f"<{secret}>"), ["text"])
            for secret in (CARD, SPACED, CODE, SIGNER_SECRET, SIGNATURE)
        ),
        (lambda net: net.catch_error("error", raised(CARD)), ["traceback", "rich"]),
        (lambda net: net.catch_error("error", chained(CARD)), ["traceback", "rich"]),
        (lambda net: net.catch_object("repr", Talkative(CARD)), ["repr"]),
        (lambda net: net.catch_object("object", Pickled(CARD)), ["pickled"]),
        (
            lambda net: net.handle(logging.makeLogRecord({"msg": "sent %s", "args": (CARD,)})),
            ["log"],
        ),
    ],
)
def test_a_secret_is_found(catch: Callable[[Dragnet], None], labels: list[str]) -> None:
    net = Dragnet()
    net.signatures.add(SIGNATURE)
    catch(net)
    for label in labels:
        assert any(label in hit for hit in net.hits())


def test_four_digits_of_something_else_are_not_found() -> None:
    net = Dragnet()
    net.add("here", f"<object at 0x7f{CODE}0>, 0.{CODE} seconds, Task-{CODE}")
    assert net.hits() == []
