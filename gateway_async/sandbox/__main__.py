"""The sandbox as a command: `python -m gateway_async.sandbox --port 8800`."""

import argparse
import asyncio
import csv
import io
import itertools
import os
import re
import signal
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox.entries import PaymentStatus
from gateway_async.sandbox.faults import DropReply, LateEffect, Latency, MissingItems, Status
from gateway_async.sandbox.notices import NotifyFormat
from gateway_async.sandbox.server import LOOPBACK, Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway_async.sandbox.entries import Transaction

_COMMAND = "python -m gateway_async.sandbox"
SECRET_VARIABLE = "GATEWAY_SECRET"  # noqa: S105  # the name of a variable
_DEFAULT_SECRET = "sandbox-secret"  # noqa: S105  # of a gateway that moves no money
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)?")
_COLUMNS = {name: name for name in ("transaction_id", "order_no", "currency", "amount")}
_COLUMNS_OF: "Mapping[str, Mapping[str, str]]" = MappingProxyType(
    {"authorised": _COLUMNS, "captured": {**_COLUMNS, "refund_amount": "captured_amount"}}
)
"""By the status of the orders, the columns of their file, and what of an order each holds."""


def to_seconds(text: str) -> float:
    """Read a duration: `50ms`, `0.05s`, or seconds without a unit."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 50ms or 0.05s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def to_count(text: str) -> int:
    """Read a number of orders, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of orders; write 0 or more")
    return int(text)


def to_probability(text: str) -> float:
    """Read a probability, 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no probability; write 0 to 1")
    return value


def make_parser(prog: str = _COMMAND) -> argparse.ArgumentParser:
    """Describe the options of the command that is called so."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="A payment gateway on this machine, to develop and test against.",
    )
    add = parser.add_argument
    add("--host", default=LOOPBACK, help="address to listen on (default: this machine only)")
    add("--port", type=int, default=8800, help="port to listen on; 0 is a free one")
    add("--merchant-id", default="M1")
    add("--account-id", default="A1")
    add("--secret-env", metavar="NAME", help="environment variable that holds the secret")
    add("--orders", type=to_count, default=0, metavar="N", help="orders to have from the start")
    add("--orders-status", default="captured", choices=tuple(_COLUMNS_OF))
    orders = (
        "write those of that status to a CSV file; captured ones with a refund_amount, all of it"
    )
    add("--orders-csv", type=Path, metavar="FILE", help=orders)
    add("--state", type=Path, metavar="FILE", help="SQLite file in which the books survive")
    add("--seed", type=int, metavar="N", help="make faults repeatable")
    add("--deduplicate-payouts", action="store_true", help="pay a request_id once only")
    _add_shopper(parser)
    _add_faults(parser)
    return parser


def _add_shopper(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("shoppers and notifications").add_argument
    add("--return-url", default="", metavar="URL", help="where shoppers go once they have chosen")
    add("--cancel-url", default="", metavar="URL", help="where they go when they leave")
    formats = [str(one) for one in NotifyFormat]
    add("--notify-format", default="form", choices=formats, help="how notifications are written")
    add("--notify-unsigned", action="store_true", help="send them without encryption_data")


def _add_faults(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("faults").add_argument
    chance = {"type": to_probability, "default": 0.0, "metavar": "P"}
    add("--latency", type=to_seconds, default=0.0, metavar="TIME", help="such as 50ms")
    add("--drop-reply", **chance, help="carry out, and close without a reply")  # type: ignore[arg-type]  # shared
    add("--late-effect", **chance, help="close without a reply, carry out later")  # type: ignore[arg-type]  # shared
    add("--late-seconds", type=to_seconds, default=2.0, metavar="TIME", help="how much later")
    add("--error-rate", **chance, help="answer 503 and do nothing")  # type: ignore[arg-type]  # shared
    add("--missing-item", **chance, help="leave an order out of the reply")  # type: ignore[arg-type]  # shared


def _secret(variable: str | None) -> str:
    secret = os.environ.get(variable or SECRET_VARIABLE, "")
    if variable and not secret:
        raise ConfigurationError(f"--secret-env: the variable {variable} is not set")
    return secret or _DEFAULT_SECRET


def _add_chosen(sandbox: Sandbox, options: argparse.Namespace) -> None:
    chosen = (
        (options.drop_reply, DropReply(probability=options.drop_reply)),
        (
            options.late_effect,
            LateEffect(options.late_seconds, probability=options.late_effect),
        ),
        (options.error_rate, Status(503, "1", probability=options.error_rate)),
        (options.missing_item, MissingItems(probability=options.missing_item)),
        (options.latency, Latency(options.latency)),
    )
    for wanted, fault in chosen:
        if wanted:
            sandbox.faults.add("*", fault)


def make_sandbox(options: argparse.Namespace) -> Sandbox:
    """Make the sandbox that the options ask for, not started yet."""
    sandbox = Sandbox(
        merchant_id=options.merchant_id,
        account_id=options.account_id,
        secret=_secret(options.secret_env),
        host=options.host,
        port=options.port,
        state=options.state,
        random_seed=options.seed,
        deduplicate_payouts=options.deduplicate_payouts,
        return_url=options.return_url,
        cancel_url=options.cancel_url,
        notify_format=options.notify_format,
        notify_signed=not options.notify_unsigned,
    )
    _add_chosen(sandbox, options)
    return sandbox


def _write_csv(path: Path, payments: "Iterable[Transaction]", status: str) -> None:
    columns, wanted = _COLUMNS_OF[status], PaymentStatus[status.upper()]
    orders = (one for one in payments if one.status is wanted and not one.refunds)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([getattr(order, name) for name in columns.values()] for order in orders)
    written = text.getvalue().encode()
    if path.is_file() and path.stat().st_size:
        if path.read_bytes() == written:  # by an earlier start, with the same books
            return
        _set_aside(path)
    path.write_bytes(written)


def _set_aside(path: Path) -> None:
    others = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    other = next(one for one in others if not one.exists())
    path.rename(other)
    sys.stderr.write(f"{path} was there already; it is now {other}\n")


def _dialect_hint(sandbox: Sandbox) -> str:
    statuses = ", ".join(f'"{status}"' for status in sorted(sandbox.dialect.declined_statuses))
    return (
        "for its refusals to be declined, write into the client's config.toml:\n"
        f"[dialect]\ndeclined_statuses = [{statuses}]\n"
    )


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is asked to end."""
    sandbox = make_sandbox(options)
    missing = max(0, options.orders - len(sandbox.ledger))
    sandbox.seed(missing, status=options.orders_status)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with sandbox:
        if options.orders_csv is not None:
            _write_csv(options.orders_csv, sandbox.ledger, options.orders_status)
        sys.stdout.write(f"sandbox listening on {sandbox.base_url}\n{_dialect_hint(sandbox)}")
        sys.stdout.flush()
        await ended.wait()


def main(arguments: "Sequence[str] | None" = None, prog: str = _COMMAND) -> int:
    """Run the command; the exit status is 2 where the options cannot be met."""
    options = make_parser(prog).parse_args(arguments)
    try:
        asyncio.run(serve(options))
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
