"""The commands of `gateway-async`, as one table."""

import itertools
from collections.abc import Sequence
from importlib.metadata import version

import attrs
from cyclopts import App, CycloptsError, Group, Parameter

from gateway_async.cli.console import Console
from gateway_async.cli.run import USAGE, guarded
from gateway_async.operations import OPERATIONS

_HELP = """Capture, cancel, review, refund, pay out or look up any number of orders, and get one
outcome for every order.

The gateway is named by options, by environment variables (GATEWAY_BASE_URL, GATEWAY_MERCHANT_ID,
GATEWAY_ACCOUNT_ID, GATEWAY_SECRET) or by a TOML file. Exit codes: 0, all orders succeeded; 1,
some were declined, are absent, or differ; 2, the command or its file is wrong and nothing was
sent; 3, some outcomes are unknown, some orders were not sent, or the outcomes had to be written
elsewhere."""

GROUPS = {
    "Money": {
        **{
            name: (
                "money:send",
                f"{name.capitalize()} orders: {', '.join(attrs.fields_dict(row.order_class))}.",
                f"{name} {name}s.csv --out outcomes.csv",
            )
            for name, row in OPERATIONS.items()
            if row.is_money_batch
        },
        "payout": (
            "money:send",
            "Pay out: request_id, and any field of a payout.",
            "payout payouts.jsonl --out outcomes.jsonl",
        ),
    },
    "Look-ups": {
        "query": (
            "money:look_up",
            "Look up transactions: order_no or transaction_id.",
            "query orders.csv --out found.csv",
        ),
        "search-refunds": (
            "money:look_up",
            "Look up refunds: order_no or transaction_id.",
            "search-refunds orders.csv --out found.csv",
        ),
        "reconcile": (
            "reconcile:reconcile",
            "Compare a ledger with the gateway's records.",
            "reconcile ledger.csv --out differences.csv --state 3000=paid",
        ),
    },
    "Jobs": {
        "jobs": (
            "jobs:jobs",
            "List, show, resolve and resume the jobs of a journal.",
            "jobs show NAME",
        ),
        "watch": (
            "workers:watch",
            "Show how far a job has come that workers run, until it is done.",
            "watch monday",
        ),
        "submit": (
            "workers:submit",
            "Keep the orders of a file in the journal, for workers to send.",
            "submit refunds.csv --job monday --journal postgresql://me@db.example/gateway",
        ),
        "worker": (
            "workers:worker",
            "Run slices of jobs that many machines share, until it is stopped.",
            "worker --broker amqp://mq.example/ --journal postgresql://me@db.example/gateway",
        ),
    },
    "Try": {
        "check": (
            "check:check",
            "Look whether the gateway can be reached and is understood. It never moves money.",
            "check --order-no A-1 --write config.toml",
        ),
        "demo": (
            "trying:demo",
            "See it all work, against a gateway inside this command.",
            "demo --orders 1000",
        ),
        "sandbox": (
            "trying:sandbox",
            "Run a gateway on this machine, to try things at, until Ctrl-C.",
            "sandbox --orders 1000 --orders-csv orders.csv --drop-reply 0.01",
        ),
    },
}
"""By group and name, where each command is, what it does, and an example of it."""

COMMANDS = {name: row for commands in GROUPS.values() for name, row in commands.items()}

_JSON = ("--log-format", "json")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    given = list(arguments)
    is_json = _JSON in itertools.pairwise(given) or "=".join(_JSON) in given
    try:
        command, bound, left_out = make_app().parse_args(
            given, exit_on_error=False, print_error=not is_json
        )
    except CycloptsError as error:
        if is_json:
            Console(is_json=True).refuse(str(error))
        return USAGE
    except KeyboardInterrupt:
        return USAGE
    if command.__module__.partition(".")[0] != __name__.partition(".")[0]:  # such as --help
        return int(command(*bound.args, **bound.kwargs) or 0)
    gateway = bound.arguments.get("gateway")
    console = gateway.console() if gateway else Console()
    beside = {"console": console, "name": given[0]}
    beside = {one: beside[one] for one in left_out}
    return guarded(console, lambda: int(command(*bound.args, **bound.kwargs, **beside)))


def make_app() -> App:
    """Return the application; cyclopts imports a command when it is named."""
    app = App(
        name="gateway-async",
        help=_HELP,
        version=lambda: version("gateway-async"),
        default_parameter=Parameter(negative=(), show_default=_shown_default),
    )
    app.register_install_completion_command(
        help="Install completion for your shell, and print where it is."
    )
    for number, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for rank, (name, (place, text, example)) in enumerate(commands.items()):
            app.command(
                f"gateway_async.cli.{place}",
                name=name,
                help=f"{text}\n\nExample: `gateway-async {example}`",
                group=group,
                sort_key=rank,
            )
    return app


def _shown_default(value: object) -> str | None:
    """Return a default as the help shows it; None for one that says nothing."""
    return None if value is None or value is False or value in ((), "") else str(value)
