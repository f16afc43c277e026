"""The commands of `gateway-async`, as one table."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version

import attrs
from cyclopts import App, CycloptsError, Group, Parameter

from gateway_async.cli.console import Console
from gateway_async.cli.tables import TableError
from gateway_async.errors import GatewayError
from gateway_async.operations import OPERATIONS

_HELP = """Capture, cancel, review, refund, pay out or look up any number of orders, and get one
outcome for every order.

The gateway is named by options, by environment variables (GATEWAY_BASE_URL, GATEWAY_MERCHANT_ID,
GATEWAY_ACCOUNT_ID, GATEWAY_SECRET) or by a TOML file. Exit codes: 0, all orders succeeded; 1,
some were declined, are absent, or differ; 2, the command or its file is wrong and nothing was
sent; 3, some outcomes are unknown, some orders were not sent, or the outcomes had to be written
elsewhere."""

_CELLS = {
    "transaction_id": "2026112017210500000001",
    "order_no": "A-1",
    "currency": "EUR",
    "amount": "25.00",
    "refund_amount": "5.00",
    "refund_reason": "broken",
}
_COLUMNS: dict[str, list[str]] = {
    name: [field.name for field in attrs.fields(row.order_class)]
    for name, row in OPERATIONS.items()
    if row.is_money_batch
}
_ORDERS: dict[str, tuple[str, str]] = {
    name: (",".join(columns), ",".join([_CELLS.get(column, "1") for column in columns]))
    for name, columns in _COLUMNS.items()
}
_FILES: dict[str, tuple[str, str]] = {
    **_ORDERS,
    "submit": _ORDERS["refund"],
    "payout": (
        "request_id,payment_amount,payment_currency,beneficiary.bank_details.iban",
        "6f1c2b0e-8f0a-4b5e-9c51-1d2f3a4b5c6d,25.00,EUR,DE89370400440532013000",
    ),
    **dict.fromkeys(("query", "search-refunds"), ("order_no", "A-1")),
    "reconcile": ("order_no,currency,amount,refunded,state", "A-1,EUR,25.00,5.00,paid"),
}
"""By command, header and first row of a file that it takes."""

_BY = "order_no or transaction_id"
GROUPS = {
    "Money": {
        **{
            name: ("money:send", f"{name.capitalize()} orders.", f"{name}s.csv --out outcomes.csv")
            for name, row in OPERATIONS.items()
            if row.is_money_batch
        },
        "refund": (
            "money:send",
            "Refund orders; refund_reason may be left out.",
            "refunds.csv --out outcomes.csv",
        ),
        "payout": (
            "money:send",
            "Pay out: request_id, and any field of a payout.",
            "payouts.csv --out outcomes.csv",
        ),
    },
    "Look-ups": {
        **{
            name: ("money:look_up", f"Look up {what}, by {_BY}.", "orders.csv --out found.csv")
            for name, what in (("query", "transactions"), ("search-refunds", "refunds"))
        },
        "reconcile": (
            "reconcile:reconcile",
            "Compare a ledger with the gateway's records.",
            "ledger.csv --out differences.csv --state 3000=paid",
        ),
    },
    "Jobs": {
        "jobs": ("jobs:jobs", "List, show, resolve and resume jobs of a journal.", "show NAME"),
        "watch": ("workers:watch", "Show how far a job of workers has come.", "monday"),
        "submit": (
            "workers:submit",
            "Keep the orders of a file in the journal, for workers to send.",
            "refunds.csv --job monday --journal postgresql://me@db.example/gateway",
        ),
        "worker": (
            "workers:worker",
            "Run slices of jobs that many machines share, until it is stopped.",
            "--broker amqp://mq.example/ --journal postgresql://me@db.example/gateway",
        ),
    },
    "Try": {
        "check": (
            "check:check",
            "Look whether the gateway can be reached and is understood. It never moves money.",
            "--order-no A-1 --write config.toml",
        ),
        "demo": ("trying:demo", "See it all work, without a gateway.", "--orders 1000"),
        "sandbox": (
            "trying:sandbox",
            "Run a gateway on this machine, until Ctrl-C; its secret is GATEWAY_SECRET's, if any.",
            "--orders 1000 --orders-csv orders.csv --drop-reply 0.01",
        ),
    },
}
"""By group and name, where each command is, what it does, and an example of what it is given."""

COMMANDS = {name: row for commands in GROUPS.values() for name, row in commands.items()}


USAGE, UNSETTLED = 2, 3


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    given = list(arguments)
    try:
        command, bound, left_out = make_app().parse_args(given, exit_on_error=False)
    except (CycloptsError, KeyboardInterrupt):
        return USAGE
    if command.__module__.partition(".")[0] != __name__.partition(".")[0]:  # such as --help
        return int(command(*bound.args, **bound.kwargs) or 0)
    gateway = bound.arguments.get("gateway")
    console = Console()
    if gateway:
        console = Console(is_quiet=gateway.quiet, is_verbose=gateway.verbose)
    beside = {"console": console, "name": given[0]}
    more = {one: beside[one] for one in left_out}
    try:
        with console.passing_on_logs():
            done = command(*bound.args, **bound.kwargs, **more)
            return int(asyncio.run(done) if asyncio.iscoroutine(done) else done)
    except (TableError, GatewayError) as error:  # it could not begin
        problem, code = str(error), USAGE
    except ModuleNotFoundError as error:
        problem, code = str(error), USAGE
        if "pip install" not in problem:  # as where an extra is missing
            raise
    except KeyboardInterrupt:
        problem, code = "stopped", UNSETTLED
    except OSError as error:  # such as a disk that is full, or `| head`
        problem, code = f"it ended early: {error}", UNSETTLED
    console.refuse(problem)
    return code


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
            rows = "\n".join(_FILES.get(name, ()))
            file = f"```text\n{rows}\n```\n\n" if rows else ""
            app.command(
                f"gateway_async.cli.{place}",
                name=name,
                help=f"{text}\n\n{file}Example: `gateway-async {name} {example}`",
                group=group,
                sort_key=rank,
            )
    return app


def _shown_default(value: object) -> str | None:
    """Return a default as the help shows it; None for one that says nothing."""
    return None if value is None or value is False or value in ((), "") else str(value)
