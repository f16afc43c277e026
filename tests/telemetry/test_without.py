"""Without the extra: nothing of it is imported, and the client works."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow


def _run(script: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(  # noqa: S603  # our own script
        command, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_does_not_import_opentelemetry() -> None:
    script = """
        import sys
        import gateway_async, gateway_async.telemetry
        print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
    """
    assert _run(script).strip() == "[]"


def test_the_client_works_where_it_is_not_installed() -> None:
    script = """
        import asyncio
        import sys

        sys.modules["opentelemetry"] = None  # as good as not installed

        from gateway_async import Credentials, GatewayClient, HmacSigner, OrderRef
        from gateway_async.sandbox import Sandbox


        async def main():
            async with Sandbox() as sandbox:
                credentials = Credentials(
                    merchant_id=sandbox.merchant_id,
                    account_id=sandbox.account_id,
                    signer=HmacSigner(sandbox.secret),
                )
                (order,) = sandbox.seed(1)
                async with GatewayClient(sandbox.base_url, credentials) as gateway:
                    print((await gateway.query([OrderRef(order_no=order.order_no)])).ok)


        asyncio.run(main())
        try:
            import gateway_async.otel
        except ModuleNotFoundError as error:
            print(error)
    """
    assert _run(script).splitlines() == [
        "True",
        "gateway_async.otel needs opentelemetry: pip install 'gateway-async[otel]'",
    ]
