"""What `import gateway_async` loads, and where its names are."""

import subprocess
import sys
from importlib import metadata

import pytest

import gateway_async
from gateway_async import DirectPayment, GatewayError
from gateway_async.models import payments

SELDOM = (
    "cattrs",
    "gateway_async.payments",
    "gateway_async.coalescer",
    "gateway_async.jobs",
    "gateway_async.journal",
    "gateway_async.models.payments",
    "gateway_async.models.payouts",
    "gateway_async.models.records",
    "gateway_async.notifications",
    "gateway_async.reconciliation",
    "gateway_async.recovery",
    "gateway_async.sandbox",
    "html.parser",
    "psycopg",
    "opentelemetry",
)


_STAGES = """
import sys
import gateway_async
print(*sys.modules)
gateway_async.PayoutRequest
print(*sys.modules)
me = gateway_async.Credentials(merchant_id="M", account_id="A", signer=lambda *_: "")
gateway_async.GatewayClient("https://gateway.example", me)
print(*sys.modules)
from gateway_async import *
print(*dir())
import logging
logging.getLogger("gateway_async.requests").warning("which is not printed")
"""


@pytest.mark.slow
def test_each_stage_loads_what_it_needs_and_no_more() -> None:
    """A log that was not set up prints nothing."""
    done = subprocess.run([sys.executable, "-c", _STAGES], capture_output=True, check=True)  # noqa: S603  # this interpreter
    assert done.stderr == b""
    imported, named, made, names = (set(line.split()) for line in done.stdout.decode().splitlines())
    assert "gateway_async.client" in imported
    assert imported & set(SELDOM) == set()
    assert "gateway_async.models.payouts" in named - imported
    assert named & {"gateway_async.payments", "gateway_async.models.payments"} == set()
    # What requests need is there before any is sent.
    assert {"gateway_async.wire.records", "gateway_async.wire.documents"} <= made - named
    assert "opentelemetry" not in made
    assert set(vars(gateway_async)["__all__"]) <= names


def test_every_public_name_is_there_in_order() -> None:
    assert sorted(vars(gateway_async)["__all__"]) == vars(gateway_async)["__all__"]
    assert set(vars(gateway_async)["__all__"]) <= set(dir(gateway_async))


def test_names_that_load_later_are_the_very_classes() -> None:
    assert DirectPayment is payments.DirectPayment


def test_the_version_is_that_of_the_package() -> None:
    assert gateway_async.__version__ == metadata.version("gateway-async")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GatewayErrors'"):
        getattr(gateway_async, GatewayError.__name__ + "s")
