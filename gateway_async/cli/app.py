"""Capture, cancel, review, refund, pay out or look up orders, and get one outcome for each.

The gateway is named by options, by environment variables (GATEWAY_BASE_URL, GATEWAY_MERCHANT_ID,
GATEWAY_ACCOUNT_ID, GATEWAY_SECRET) or by a TOML file. Exit codes: 0, all orders succeeded; 1,
some were declined, are absent, or differ; 2, the command or its file is wrong and nothing was
sent; 3, some outcomes are unknown, some orders were not sent, or the outcomes could not be written.
"""
# This is the help of `gateway-async`; below are its commands, as one table.

import asyncio
import inspect
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import attrs
from cyclopts import App, CycloptsError, Group, Parameter

from gateway_async.cli.console import Console, Exit
from gateway_async.cli.files import TableError
from gateway_async.cli.options import Config
from gateway_async.errors import GatewayError, JobBusyError
from gateway_async.models.values import MODEL
from gateway_async.operations import OPERATIONS

GROUPS = {
    "Money": {name: "money:send" for name, row in OPERATIONS.items() if row.takes_jobs},
    "Look-ups": {
        **dict.fromkeys(("query", "search-refunds"), "money:look_up"),
        "reconcile": "money:reconcile",
    },
    "Jobs": {name: f"jobs:{name}" for name in ("jobs", "watch", "submit", "worker")},
    "Try": {"check": "check:check", "demo": "trying:demo", "sandbox": "trying:sandbox"},
}
"""By group and name, where each command is."""
COMMANDS = {name: place for commands in GROUPS.values() for name, place in commands.items()}


def _help(name: str) -> str | None:
    """Return the help of a command that shares its function; None for another."""
    if COMMANDS[name] not in ("money:send", "money:look_up"):
        return None
    text, out = f"{name.replace('out', ' out').capitalize()} orders.", "outcomes.csv"
    if COMMANDS[name] == "money:look_up":
        what = "transactions" if name == "query" else "refunds"
        text, out = f"Look up {what}, by order_no or transaction_id.", "found.csv"
    fields = attrs.fields(OPERATIONS[name.replace("-", "_")].order_class)
    names = [f"{field.name}{'.*' if MODEL in field.metadata else ''}" for field in fields]
    columns = f"Columns of the file: {', '.join(names)}."
    return f"{text}\n\n{columns}\n\nExample: `gateway-async {name} orders.csv --out {out}`"


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if os.environ.get("COLUMNS") == "0":  # as some programs set it; rich would show nothing
        del os.environ["COLUMNS"]
    stdout: Any = sys.stdout
    stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # as its files, in any locale
    try:
        app = make_app()
        for name in COMMANDS if not arguments or arguments[0] in ("--help", "-h") else ():
            app[name].help  # noqa: B018  # its first line is read from the command
        command, bound, left_out = app.parse_args(arguments, exit_on_error=False)  # imports it
    except CycloptsError:
        return Exit.WRONG
    except KeyboardInterrupt:
        sys.stderr.write("gateway-async: stopped\n")
        return Exit.WRONG
    said = bound.arguments.get("given") or Config()
    line = shlex.join(("gateway-async", *arguments))
    console = Console(line, said.quiet, said.verbose, said.log_format == "json")
    more = {one: console if one == "console" else arguments[0] for one in left_out}
    try:
        if not inspect.iscoroutinefunction(command):  # such as --help
            return int(command(*bound.args, **bound.kwargs) or Exit.DONE)
        with console.passing_on_logs():
            return int(asyncio.run(command(*bound.args, **bound.kwargs, **more)) or Exit.DONE)
    except (TableError, GatewayError) as error:  # it could not begin
        problem = str(error)
        code = Exit.UNSETTLED if isinstance(error, JobBusyError) else Exit.WRONG
    except KeyboardInterrupt:
        problem, code = "stopped; this command sent nothing to your gateway", Exit.WRONG
        if console.has_begun:
            problem, code = "stopped", Exit.UNSETTLED
    except OSError as error:  # such as a disk that is full, or a reader that went away
        problem, code = f"it ended early: {error}", Exit.UNSETTLED
    console.say(f"gateway-async: {problem}", "ERROR")
    return code


def make_app() -> App:
    """Return the application; cyclopts imports a command when it is named."""
    app = App(
        name="gateway-async",
        help=__doc__,
        version=lambda: version("gateway-async"),
        default_parameter=Parameter(negative=(), show_default=_shown_default),
    )
    app.register_install_completion_command()
    for number, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for rank, (name, place) in enumerate(commands.items()):
            where = f"gateway_async.cli.{place}"
            app.command(where, name=name, help=_help(name), group=group, sort_key=rank)
    return app


def _shown_default(value: object) -> str | None:
    """Return a default as the help shows it; None for one that says nothing."""
    return None if value is None or value is False or value in ((), "", timedelta()) else str(value)
