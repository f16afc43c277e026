"""The commands of `gateway-async`."""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App, CycloptsError

from gateway_async.cli.demo import run_demo
from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.runs import USAGE, run_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway_async.cli.layouts import Layout

_HELP = """Capture, cancel, review, refund or look up any number of orders, and learn what became
of every single one.

The gateway is named by the environment variables GATEWAY_BASE_URL, GATEWAY_MERCHANT_ID,
GATEWAY_ACCOUNT_ID and GATEWAY_SECRET. Exit codes: 0, all orders succeeded; 1, some were declined
or are absent; 2, the command or its file is wrong and nothing was sent; 3, some outcomes are
unknown or some orders were not sent."""


def run(arguments: "Sequence[str]") -> int:
    """Run one command and return its exit code."""
    try:
        code = make_app()(list(arguments), exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return USAGE
    return code if isinstance(code, int) else 0


def make_app() -> App:
    """Return the application with all its commands."""
    app = App(name="gateway-async", help=_HELP, version=_version)
    app.command(run_demo, name="demo")
    for layout in LAYOUTS.values():
        make = _look_up_command if layout.looks_up else _order_command
        app.command(make(layout), name=layout.operation, help=layout.help)
    return app


def _version() -> str:
    return version("gateway-async")


def _order_command(layout: "Layout") -> "Callable[..., int]":
    def command(orders: Path, /, *, out: Path) -> int:
        """Work on the orders of a file.

        Args:
            orders: The CSV file with the orders: a header, then one order in each line.
            out: The CSV file for the outcomes, in the order of the input. It must not exist yet.
        """
        return run_file(layout, orders, out)

    return command


def _look_up_command(layout: "Layout") -> "Callable[..., int]":
    def command(
        orders: Path,
        /,
        *,
        out: Path,
        by: Literal["order_no", "transaction_id"] | None = None,
    ) -> int:
        """Look up the orders of a file.

        Args:
            orders: The CSV file with the orders: a header, then one order in each line.
            out: The CSV file for the outcomes, in the order of the input.
            by: The column to look up by, where the file has both filled.
        """
        return run_file(layout.by(by) if by else layout, orders, out)

    return command
