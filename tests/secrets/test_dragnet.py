"""The net itself catches what it is there to catch."""

import logging
from collections.abc import Callable

import pytest

from gateway_async import GatewayError
from tests.models.examples import CARD, SECURITY_CODE
from tests.support.dragnet import SIGNER_SECRET, Dragnet

SIGNATURE = "f00dfeed" * 8
SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))


def chained(secret: str) -> GatewayError:
    """Return an error that hides another, one of whose frames has a secret."""

    def fail(text: str) -> None:
        raise GatewayError(f"lost, {len(text)} characters long")

    error = GatewayError("outer")
    with pytest.raises(GatewayError) as caught:
        fail(secret)
    error.__context__, error.__suppress_context__ = caught.value, True
    return error


CATCHES: list[tuple[Callable[[Dragnet], object], list[str]]] = [
    *(
        (lambda net, secret=secret: net.catch("text", [secret]), ["text: list: list", "pickled"])
        for secret in (CARD, SPACED, SECURITY_CODE, SIGNER_SECRET, SIGNATURE)
    ),
    (lambda net: net.catch("error", chained(CARD)), ["traceback", "rich"]),
    (lambda net: net.handle(logging.makeLogRecord({"msg": "%s", "args": (CARD,)})), ["log"]),
]


@pytest.mark.parametrize(("catch", "labels"), CATCHES)
def test_a_secret_is_found_and_other_digits_are_not(
    catch: Callable[[Dragnet], object], labels: list[str]
) -> None:
    net, code = Dragnet(), SECURITY_CODE
    net.signatures.add(SIGNATURE)
    net.add("here", f"<object at 0x7f{code}0>, 0.{code} seconds, Task-{code}")
    assert net.hits() == []
    catch(net)
    for label in labels:
        assert any(label in hit for hit in net.hits())
