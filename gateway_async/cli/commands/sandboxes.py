"""`sandbox`: a gateway on this machine, served until Ctrl-C or SIGTERM."""

import asyncio
import csv
import itertools
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from gateway_async.cli.options import Seconds
from gateway_async.cli.run import DONE, USAGE
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, LateEffect, Latency, MissingItems, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway_async.sandbox import SeededOrder
    from gateway_async.sandbox.faults import Fault

_SECRET_VARIABLE = "GATEWAY_SECRET"  # noqa: S105  # the name of a variable
_DEFAULT_SECRET = "sandbox-secret"  # noqa: S105  # of a gateway that moves no money
_COLUMNS = ("transaction_id", "order_no", "currency", "amount")


_Count = Annotated[int, Parameter(validator=Number(gte=0))]
_Probability = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


@Parameter(name="*", group="Gateway")
@attrs.frozen(kw_only=True)
class ServerOptions:
    """Where the sandbox listens, and which merchant it knows.

    Attributes:
        host: The address to listen on; 127.0.0.1 is reached from this machine only.
        port: The port to listen on; 0 is a free one.
        merchant_id: The merchant identifier.
        account_id: The merchant account identifier.
        secret_env: The environment variable that holds the signing secret; by default
            GATEWAY_SECRET, and where that is not set the secret is sandbox-secret.
        deduplicate_payouts: Pay a request_id once only.
    """

    host: str = "127.0.0.1"
    port: int = 8800
    merchant_id: str = "M1"
    account_id: str = "A1"
    secret_env: str | None = None
    deduplicate_payouts: bool = False

    @property
    def secret(self) -> str | None:
        """The secret of the environment, or None where there is none.

        Raises:
            ConfigurationError: If `secret_env` names a variable that is not set.
        """
        secret = os.environ.get(self.secret_env or _SECRET_VARIABLE) or None
        if self.secret_env and secret is None:
            raise ConfigurationError(f"--secret-env: the variable {self.secret_env} is not set")
        return secret


@Parameter(name="*", group="Orders")
@attrs.frozen(kw_only=True)
class OrderOptions:
    """Which orders the sandbox has from the start.

    Attributes:
        orders: How many.
        orders_status: Captured orders can be refunded; authorised ones captured or cancelled.
        orders_csv: The CSV file to write them to; captured ones get a refund_amount, all of the
            amount. A file of that name is renamed first.
    """

    orders: _Count = 0
    orders_status: Literal["authorised", "captured"] = "captured"
    orders_csv: Path | None = None

    def write(self, orders: "Sequence[SeededOrder]") -> None:
        """Write the orders to the file, if one is named."""
        path = self.orders_csv
        if path is None:
            return
        if path.is_file() and path.stat().st_size:
            others = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
            other = next(one for one in others if not one.exists())
            path.rename(other)
            sys.stderr.write(f"{path} existed already; it is now {other}\n")
        is_captured = self.orders_status == "captured"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*_COLUMNS, *(["refund_amount"] if is_captured else [])])
            for order in orders:
                row = [getattr(order, name) for name in _COLUMNS]
                writer.writerow([*row, *([order.amount] if is_captured else [])])


@Parameter(name="*", group="Shoppers and notifications")
@attrs.frozen(kw_only=True)
class ShopperOptions:
    """Where shoppers go, and how the merchant is notified.

    Attributes:
        return_url: Where shoppers go once they have paid or declined; {order_no} stands for the
            order number.
        cancel_url: Where they go when they leave without a choice.
        notify_format: How notifications are written.
        notify_unsigned: Send them without encryption_data.
    """

    return_url: str = ""
    cancel_url: str = ""
    notify_format: Literal["form", "json", "xml"] = "form"
    notify_unsigned: bool = False


@Parameter(name="*", group="Faults")
@attrs.frozen(kw_only=True)
class FaultOptions:
    """What goes wrong: each probability, 0 to 1, is that of one request.

    Attributes:
        latency: How long each request waits before it is carried out, such as 50ms or 0.05s.
        drop_reply: Probability: carry out, and close the connection without a reply.
        late_effect: Probability: close the connection without a reply, and carry out later.
        late_seconds: How much later.
        error_rate: Probability: answer 503, and do nothing.
        missing_item: Probability: carry out, and leave the first order out of the reply.
        seed: Makes the faults repeatable.
    """

    latency: Seconds = 0.0
    drop_reply: _Probability = 0.0
    late_effect: _Probability = 0.0
    late_seconds: Seconds = 2.0
    error_rate: _Probability = 0.0
    missing_item: _Probability = 0.0
    seed: int | None = None

    def chosen(self) -> "Iterator[Fault]":
        """Yield the faults that the options ask for."""
        wanted = (
            (self.drop_reply, DropReply(probability=self.drop_reply)),
            (self.late_effect, LateEffect(self.late_seconds, probability=self.late_effect)),
            (self.error_rate, Status(503, "1", probability=self.error_rate)),
            (self.missing_item, MissingItems(probability=self.missing_item)),
            (self.latency, Latency(self.latency)),
        )
        return (fault for probability, fault in wanted if probability)


def sandbox(
    *,
    server: ServerOptions | None = None,
    orders: OrderOptions | None = None,
    shoppers: ShopperOptions | None = None,
    faults: FaultOptions | None = None,
) -> int:
    """Run a gateway until Ctrl-C or SIGTERM; the exit code is 2 where an option is wrong."""
    where, wanted = server or ServerOptions(), orders or OrderOptions()
    try:
        made = make_sandbox(where, shoppers or ShopperOptions(), faults or FaultOptions())
        asyncio.run(_serve(made, where, wanted))
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    return DONE


def make_sandbox(where: ServerOptions, shoppers: ShopperOptions, faults: FaultOptions) -> Sandbox:
    """Make the sandbox that the options ask for, not started yet.

    Raises:
        ConfigurationError: If an option is wrong.
    """
    made = Sandbox(
        merchant_id=where.merchant_id,
        account_id=where.account_id,
        secret=where.secret or _DEFAULT_SECRET,
        host=where.host,
        port=where.port,
        random_seed=faults.seed,
        deduplicate_payouts=where.deduplicate_payouts,
        return_url=shoppers.return_url,
        cancel_url=shoppers.cancel_url,
        notify_format=shoppers.notify_format,
        notify_signed=not shoppers.notify_unsigned,
    )
    for fault in faults.chosen():
        made.faults.add("*", fault)
    return made


async def _serve(made: Sandbox, where: ServerOptions, wanted: OrderOptions) -> None:
    """Serve until the process is asked to end."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    async with made:
        for number in (signal.SIGINT, signal.SIGTERM):  # Windows has no `loop.add_signal_handler`
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
        wanted.write(made.seed(wanted.orders, status=wanted.orders_status))
        sys.stdout.write(_how_to_reach(made, where))
        sys.stdout.flush()
        await ended.wait()


def _how_to_reach(made: Sandbox, where: ServerOptions) -> str:
    variables = {
        "GATEWAY_BASE_URL": shlex.quote(made.base_url),
        "GATEWAY_MERCHANT_ID": shlex.quote(made.merchant_id),
        "GATEWAY_ACCOUNT_ID": shlex.quote(made.account_id),
        # A secret of yours is not shown, only the variable that holds it.
        _SECRET_VARIABLE: shlex.quote(made.secret)
        if where.secret is None
        else f'"${where.secret_env or _SECRET_VARIABLE}"',
    }
    statuses = ", ".join(f'"{status}"' for status in sorted(made.dialect.declined_statuses))
    return (
        f"sandbox listening on {made.base_url}\n"
        + "".join(f"export {name}={value}\n" for name, value in variables.items())
        + "for its refusals to be declined, write into the client's config.toml:\n"
        f"[dialect]\ndeclined_statuses = [{statuses}]\n"
    )
