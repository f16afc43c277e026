"""Programs: quiet unless asked, without the extra, and with the example of the page."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
WITHOUT_EXTRA = """
import asyncio, logging, sys

sys.modules["opentelemetry"] = None  # as good as not installed

from gateway_async.sandbox import Sandbox
from tests.orders import client_of, orders_for


async def main():
    async with Sandbox() as sandbox, client_of(sandbox) as gateway:
        print((await gateway.query(orders_for("query", sandbox.seed(1)))).ok)


asyncio.run(main())
logging.getLogger("gateway_async.requests").warning("which is not printed")
try:
    import gateway_async.otel
except ModuleNotFoundError as error:
    print(error)
"""


def _run(*arguments: str) -> list[str]:
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_client_works_where_it_is_not_installed_and_prints_nothing() -> None:
    assert _run("-c", WITHOUT_EXTRA) == [
        "True",
        "gateway_async.otel needs opentelemetry: pip install 'gateway-async[otel]'",
    ]


def test_the_example_prints_what_its_page_says() -> None:
    printed = _run(str(ROOT / "docs" / "examples" / "telemetry.py"))
    assert "\n".join(printed) in (ROOT / "docs" / "how-to" / "telemetry.md").read_text()
    assert printed[0] == "refund: {'unknown': 50} ERROR"
    assert printed[-1] == "refund batch: {'succeeded': 70, 'unknown': 50} ERROR"
