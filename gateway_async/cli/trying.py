"""`demo` and `sandbox`: a gateway on this machine, to see it all work and to try things at.

The demo is a day of a shop. Orders are paid, captured, refunded and looked up; one reply is lost on
purpose after its refunds were done. At the end every outcome is compared with the gateway's own
books.
"""

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console as RichConsole

from gateway_async.cli import options
from gateway_async.cli.console import Console, Stage, summary_table
from gateway_async.cli.run import DONE, NOT_ALL_DONE
from gateway_async.cli.settings import default_path, to_toml
from gateway_async.cli.tables import Format, out_file
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import CaptureOrder, OrderRef, RefundOrder
from gateway_async.models.payments import DirectPayment
from gateway_async.models.values import CardNumber, SensitiveText
from gateway_async.sandbox import Sandbox, SeededOrder
from gateway_async.sandbox.faults import DropReply, Fault, LateEffect, Latency, MissingItems, Status
from gateway_async.settings import BatchPolicy, RecoveryPolicy
from gateway_async.signing import Credentials, HmacSigner

# The demo

_GOOD_CARD, _DECLINED_CARD = "4111111111111111", "4000000000000002"
_DECLINED_EVERY = 100
_REFUNDED_EVERY = 3
_PAYMENTS_IN_FLIGHT = 16
_FEW_IN_A_REQUEST = BatchPolicy(chunk_size=10)
_EFFECTS = {"succeeded": (1,), "declined": (0,), "unknown": (0, 1), "not_sent": (0,)}
"""How often the effect may have happened, by what the outcome says."""


async def demo(*, orders: Annotated[int, options.AtLeastOne] = 3000) -> int:
    """See it all work: pay, capture, refund and look up, at a gateway inside this command.

    Args:
        orders: How many orders.
    """
    console, stages = Console(rich=RichConsole()), list[Stage]()

    async def run(name: str, batch: Any) -> Any:
        """Run one batch as a stage of its own."""
        started, result = time.monotonic(), await batch
        counts = {str(status): count for status, count in result.counts.items()}
        seconds = time.monotonic() - started
        stages.append((name, counts, result.requests, result.retries, seconds))
        return result

    async with Sandbox() as sandbox:
        console.tell("demo", f"A gateway listens at {sandbox.base_url}; {orders} orders go to it.")
        async with GatewayClient(
            sandbox.base_url,
            Credentials(
                merchant_id=sandbox.merchant_id,
                account_id=sandbox.account_id,
                signer=HmacSigner(sandbox.secret),
            ),
            recovery=RecoveryPolicy(settle_seconds=0.5, record_baseline=True),
            dialect=sandbox.dialect,
        ) as gateway:
            started = time.monotonic()
            paid = await _pay(orders, gateway)
            counts = {"succeeded": len(paid), "declined": orders - len(paid)}
            stages.append(("pay", counts, orders, 0, time.monotonic() - started))
            captures = await run("capture", gateway.capture(paid))
            captured = [one.order for one in captures.succeeded]
            sandbox.faults.add("refund", DropReply(times=1))
            refunds = [
                RefundOrder(**attrs.asdict(one), refund_amount="5.00", refund_reason="sent back")
                for one in captured[::_REFUNDED_EVERY]
            ]
            lost = await run("refund", gateway.refund(refunds, policy=_FEW_IN_A_REQUEST))
            settled = await run("recover", gateway.recover(lost))
            refs = [OrderRef(transaction_id=one.transaction_id) for one in paid]
            await run("query", gateway.query(refs))
            refs = [OrderRef(transaction_id=one.order.transaction_id) for one in settled.succeeded]
            await run("search-refunds", gateway.search_refunds(refs))
    console.rich.print(summary_table(stages))
    mistakes = [
        f"{operation} of {one.order.transaction_id}: {one.status}, but done {effects} times"
        for operation, outcomes in (("capture", captures), ("refund", settled))
        for one in outcomes
        if (effects := sandbox.ledger.effects(operation, one.order.transaction_id))
        not in _EFFECTS[one.status]
    ]
    if mistakes:
        console.tell("demo", "The gateway's books disagree:\n" + "\n".join(mistakes))
        return NOT_ALL_DONE
    console.tell(
        "demo",
        "One reply was lost on purpose. Its refunds were unknown and were not sent again; the "
        "gateway's\nown records settled them. The gateway's books agree with every outcome.",
    )
    return DONE


async def _pay(orders: int, gateway: GatewayClient) -> list[CaptureOrder]:
    """Authorise card payments; return what can be captured."""
    in_flight = asyncio.Semaphore(_PAYMENTS_IN_FLIGHT)

    async def pay(number: int) -> CaptureOrder | None:
        order_no, amount = f"demo-{number:06}", 10 + number % 90
        is_declined = number % _DECLINED_EVERY == _DECLINED_EVERY - 1
        payment = DirectPayment(
            order_no=order_no,
            currency="EUR",
            amount=amount,
            card=CardNumber(_DECLINED_CARD if is_declined else _GOOD_CARD),
            expiration_month="12",
            expiration_year="2031",
            security_code=SensitiveText("123"),
        )
        async with in_flight:
            result = await gateway.pay_direct(payment)
        paid = result.transaction_id
        if result.order_status != "1" or paid is None:
            return None
        return CaptureOrder(transaction_id=paid, order_no=order_no, currency="EUR", amount=amount)

    return [one for one in await asyncio.gather(*map(pay, range(orders))) if one is not None]


# The sandbox

_SECRET_VARIABLE = "GATEWAY_SECRET"  # noqa: S105  # the name of a variable
_DEFAULT_SECRET = "sandbox-secret"  # noqa: S105  # of a gateway that moves no money
_COLUMNS = ("transaction_id", "order_no", "currency", "amount")
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

    orders: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    orders_status: Literal["authorised", "captured"] = "captured"
    orders_csv: Path | None = None

    def write(self, orders: Sequence[SeededOrder], console: Console) -> None:
        """Write the orders to the file, if one is named."""
        if self.orders_csv is None:
            return
        amounts = ["refund_amount"] if self.orders_status == "captured" else []
        with (
            out_file(self.orders_csv, Format.CSV, console.warn) as file,
            file.writing([*_COLUMNS, *amounts]) as write,
        ):
            for order in orders:
                row = {name: getattr(order, name) for name in _COLUMNS}
                write({**row, **dict.fromkeys(amounts, order.amount)})


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

    latency: options.Seconds = 0.0
    drop_reply: _Probability = 0.0
    late_effect: _Probability = 0.0
    late_seconds: options.Seconds = 2.0
    error_rate: _Probability = 0.0
    missing_item: _Probability = 0.0
    seed: int | None = None

    def chosen(self) -> Iterator[Fault]:
        """Yield the faults that the options ask for."""
        wanted = (
            (self.drop_reply, DropReply(probability=self.drop_reply)),
            (self.late_effect, LateEffect(self.late_seconds, probability=self.late_effect)),
            (self.error_rate, Status(503, "1", probability=self.error_rate)),
            (self.missing_item, MissingItems(probability=self.missing_item)),
            (self.latency, Latency(self.latency)),
        )
        return (fault for probability, fault in wanted if probability)


async def sandbox(
    *,
    server: ServerOptions = ServerOptions(),
    orders: OrderOptions = OrderOptions(),
    shoppers: ShopperOptions = ShopperOptions(),
    faults: FaultOptions = FaultOptions(),
    console: options.Shown,
) -> int:
    """Run a gateway on this machine, to try things at, until Ctrl-C or SIGTERM.

    The exit code is 2 where an option is wrong.

    """
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    made = make_sandbox(server, shoppers, faults)
    async with made:
        for number in (signal.SIGINT, signal.SIGTERM):  # Windows: no `loop.add_signal_handler`
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
        orders.write(made.seed(orders.orders, status=orders.orders_status), console)
        sys.stdout.write(how_to_reach(made, server, orders))
        sys.stdout.flush()
        await ended.wait()
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


def how_to_reach(made: Sandbox, where: ServerOptions, wanted: OrderOptions) -> str:
    """Return what a user writes to reach the sandbox, and what it has."""
    variables = {
        "GATEWAY_BASE_URL": shlex.quote(made.base_url),
        "GATEWAY_MERCHANT_ID": shlex.quote(made.merchant_id),
        "GATEWAY_ACCOUNT_ID": shlex.quote(made.account_id),
    }
    secret = f"# {_SECRET_VARIABLE} is not shown: give it the value that it has here\n"
    if where.secret_env:
        secret = f'export {_SECRET_VARIABLE}="${where.secret_env}"\n'
    elif where.secret is None:
        secret = f"export {_SECRET_VARIABLE}={shlex.quote(made.secret)}\n"
    had = f"it has {wanted.orders:,} orders" if wanted.orders else "it has no orders yet"
    if not (wanted.orders and wanted.orders_csv):
        had += "; --orders 100 --orders-csv orders.csv makes some, and a file of them"
    usual, own = (attrs.asdict(one, recurse=False) for one in (Dialect(), made.dialect))
    fields = (f"{name} = {to_toml(one)}\n" for name, one in own.items() if one != usual[name])
    return (
        f"sandbox listening on {made.base_url}\n"
        + "".join(f"export {name}={value}\n" for name, value in variables.items())
        + f"{secret}{had}\n"
        "for its answers to be understood, write these lines under [dialect] into "
        f"{default_path(os.environ)}, or into a file that you name by --config (add the heading "
        f"only if the file has none):\n[dialect]\n{''.join(fields)}"
    )
