"""What `import gateway_async` loads, where its names are, and what a missing extra says."""

import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

import gateway_async
from gateway_async import GatewayError
from gateway_async.errors import JobBusyError, require_extra
from gateway_async.models import payments

_ROOMS = (
    *("coalescer", "jobs", "journal", "models.payments", "models.payouts", "models.records"),
    *("notifications", "payments", "reconciliation", "recovery", "sandbox"),
)
SELDOM = {"cattrs", "html.parser", "opentelemetry", "sqlalchemy"}
SELDOM |= {f"gateway_async.{room}" for room in _ROOMS}
_STAGES = """
import sys
import gateway_async.cli
print(*sys.modules)
gateway_async.PayoutRequest
print(*sys.modules)
me = gateway_async.Credentials(merchant_id="M", account_id="A", signer=lambda *_: "")
gateway_async.GatewayClient("https://gateway.example", me)
print(*sys.modules)
import gateway_async.workers
gateway_async.journal.Journal.open("postgresql://user@host/db").job("x")
print(*sys.modules)
from gateway_async import *
print(*dir())
import logging
logging.getLogger("gateway_async.requests").warning("which is not printed")
"""


@pytest.mark.slow
def test_each_stage_loads_what_it_needs_and_no_more() -> None:
    """A log that was not set up prints nothing. Where `main` loads aiohttp, it takes a Ctrl-C."""
    done = subprocess.run([sys.executable, "-c", _STAGES], capture_output=True, check=True)  # noqa: S603  # this interpreter
    assert done.stderr == b""
    stages = done.stdout.decode().splitlines()
    imported, named, made, opened, names = (set(line.split()) for line in stages)
    assert imported & {*SELDOM, "aiohttp", "attr", "gateway_async.client"} == set()
    assert "gateway_async.models.payouts" in named - imported
    assert named & {"gateway_async.payments", "gateway_async.models.payments"} == set()
    # What requests need is there before any is sent.
    assert {"gateway_async.wire.records", "gateway_async.wire.decode"} <= made - named
    assert "opentelemetry" not in made
    assert not opened & {"sqlalchemy", "psycopg", "sqlite3", "taskiq"}  # neither database nor queue
    assert set(vars(gateway_async)["__all__"]) <= names


def test_the_public_names_are_there_in_order_and_are_the_very_classes() -> None:
    names = vars(gateway_async)["__all__"]
    assert sorted(names) == names
    assert set(names) <= set(dir(gateway_async))
    assert gateway_async.DirectPayment is payments.DirectPayment
    assert gateway_async.__version__ == metadata.version("gateway-async")
    with pytest.raises(AttributeError, match="no attribute 'GatewayErrors'"):
        gateway_async.GatewayErrors  # type: ignore[attr-defined]  # noqa: B018  # on purpose


@pytest.mark.parametrize(
    ("module", "missing", "install"),
    [
        ("gateway_async.workers.rabbit", "taskiq_aio_pika", "'gateway-async[workers]'"),
        ("gateway_async.testing", "pytest", "pytest"),
        ("gateway_async.otel", "opentelemetry", "'gateway-async[otel]'"),
    ],
)
def test_a_module_names_the_extra_that_it_needs(
    module: str, missing: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = (f"{module}.", f"{missing}.")
    for name in [name for name in sys.modules if f"{name}.".startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert str(caught.value) == f"{module} needs {missing}: pip install {install}"
    assert caught.value.name == missing
    another = pytest.raises(ModuleNotFoundError, match="No module named 'another'")
    with another, require_extra(module, missing, install=install):
        importlib.import_module("another")


# Errors go from one process to another as they are


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
