"""The commands of `gateway-async`, as one table."""

import importlib
import itertools
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import attrs
from cyclopts import App, CycloptsError, Group

from gateway_async.cli.console import Talk
from gateway_async.cli.run import USAGE
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """Capture, cancel, review, refund, pay out or look up any number of orders, and get one
outcome for every order.

The gateway is named by options, by environment variables (GATEWAY_BASE_URL, GATEWAY_MERCHANT_ID,
GATEWAY_ACCOUNT_ID, GATEWAY_SECRET) or by a TOML file. Exit codes: 0, all orders succeeded; 1,
some were declined, are absent, or differ; 2, the command or its file is wrong and nothing was
sent; 3, some outcomes are unknown, some orders were not sent, or the outcomes had to be written
elsewhere."""

_COMMANDS = "gateway_async.cli.commands"
GROUPS = {
    "Money": {
        **{
            name: (
                "money:commands",
                f"{name.capitalize()} orders: {', '.join(attrs.fields_dict(row.order_class))}.",
            )
            for name, row in OPERATIONS.items()
            if row.is_money_batch
        },
        "payout": ("money:commands", "Pay out: request_id, and any field of a payout."),
    },
    "Look-ups": {
        "query": ("money:commands", "Look up transactions: order_no or transaction_id."),
        "search-refunds": (
            "money:commands",
            "Look up refunds: order_no or transaction_id.",
        ),
        "reconcile": ("reconciling:reconcile", "Compare a ledger with the gateway's records."),
    },
    "Jobs": {
        "jobs": ("jobs:jobs", "List, show, resolve and resume the jobs of a journal."),
        "watch": ("workers:watch", "Show how far a job has come that workers run."),
        "submit": ("workers:submit", "Keep the orders of a file, for workers to send."),
        "worker": ("workers:worker", "Run slices of jobs that many machines share."),
    },
    "Try": {
        "check": ("check:check", "Look whether the gateway can be reached and is understood."),
        "demo": ("demo:demo", "See it all work, against a gateway inside this command."),
        "sandbox": ("sandboxes:sandbox", "Run a gateway on this machine, to try things at."),
    },
}
"""By group and name, where each command is, and what it does: it is imported when it is named."""

COMMANDS = {name: place for commands in GROUPS.values() for name, place in commands.items()}

_JSON = ("--log-format", "json")


def run(arguments: "Sequence[str]") -> int:
    """Run one command and return its exit code."""
    given = list(arguments)
    is_json = _JSON in itertools.pairwise(given) or "=".join(_JSON) in given
    try:
        command, bound, _ = make_app(given).parse_args(
            given, exit_on_error=False, print_error=not is_json
        )
    except CycloptsError as error:
        if is_json:
            Talk(is_json=True).refuse(str(error))
        return USAGE
    except KeyboardInterrupt:
        return USAGE
    code = command(*bound.args, **bound.kwargs)
    return code if isinstance(code, int) else 0


def make_app(arguments: "Sequence[str]") -> App:
    """Return the application: the command that is named, and the others only by their names.

    Args:
        arguments: What stands behind the command's name.
    """
    chosen = next((one for one in arguments if not one.startswith("-")), None)
    app = App(name="gateway-async", help=_HELP, version=_version)
    for number, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for rank, (name, (place, text)) in enumerate(commands.items()):
            found = _load(place, name) if name == chosen else _only_listed
            if isinstance(found, App):
                found.group, found.sort_key = (group,), rank
                app.command(found, name=name)
            else:
                app.command(found, name=name, help=text, group=group, sort_key=rank)
    return app


def _load(place: str, command: str) -> Any:  # noqa: ANN401  # a function, or an application of several
    module, _, name = place.partition(":")
    found = getattr(importlib.import_module(f"{_COMMANDS}.{module}"), name)
    return found[command] if isinstance(found, dict) else found


def _only_listed() -> int:
    """Stand for a command that was not named."""
    return USAGE


def _version() -> str:
    return version("gateway-async")
