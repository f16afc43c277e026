"""Programs: quiet unless asked, without the extra, and with the example of the page."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def _run(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nothing_is_imported_or_printed_unless_the_program_asks_for_it() -> None:
    script = """
        import logging, sys
        import gateway_async, gateway_async.telemetry
        logging.getLogger("gateway_async.requests").warning("lost")
        print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
    """
    assert _run("-c", textwrap.dedent(script)) == "[]\n"


def test_the_client_works_where_it_is_not_installed() -> None:
    script = """
        import asyncio
        import sys

        sys.modules["opentelemetry"] = None  # as good as not installed

        from gateway_async.sandbox import Sandbox
        from tests.orders import client_of, orders_for


        async def main():
            async with Sandbox() as sandbox, client_of(sandbox) as gateway:
                print((await gateway.query(orders_for("query", sandbox.seed(1)))).ok)


        asyncio.run(main())
        try:
            import gateway_async.otel
        except ModuleNotFoundError as error:
            print(error)
    """
    assert _run("-c", textwrap.dedent(script)).splitlines() == [
        "True",
        "gateway_async.otel needs opentelemetry: pip install 'gateway-async[otel]'",
    ]


def test_the_example_prints_what_its_page_says() -> None:
    printed = _run(str(ROOT / "docs" / "examples" / "telemetry.py"))
    assert printed in (ROOT / "docs" / "how-to" / "telemetry.md").read_text()
    assert printed.splitlines() == [
        "refund: {'unknown': 50} ERROR",
        "refund: {'succeeded': 50} UNSET",
        "refund: {'succeeded': 20} UNSET",
        "refund batch: {'succeeded': 70, 'unknown': 50} ERROR",
    ]
