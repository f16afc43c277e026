"""`demo` and `sandbox`: a gateway on this machine, to see it all work and to try things at.

The demo is a day of a shop. Orders are captured, refunded and looked up; one reply is lost on
purpose after its refunds were done. At the end the gateway's own books must have each of them once.
"""

import asyncio
import contextlib
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import attrs
from cyclopts.types import NonNegativeInt, NormFloat, PositiveInt
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from gateway_async.batching.batch import Batch
from gateway_async.cli import options
from gateway_async.cli.check import write_config
from gateway_async.cli.console import Exit, counted, listed, output, plain_console, progress
from gateway_async.cli.files import out_file, row_writer
from gateway_async.cli.settings import VARIABLES, Settings, to_toml
from gateway_async.client import GatewayClient
from gateway_async.models.orders import CaptureOrder, OrderRef, OutcomeStatus, RefundOrder
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Latency
from gateway_async.settings import BatchPolicy, RecoveryPolicy

_COLUMNS = ("transaction_id", "order_no", "currency", "amount")

# The demo

_REFUNDED_EVERY = 3
_FEW_IN_A_REQUEST = BatchPolicy(chunk_size=10)


async def demo(*, orders: PositiveInt = 3000, console: options.Shown) -> int:
    """See it all work: capture, refund and look up, at a gateway inside this command.

    Example: `gateway-async demo --orders 1000`

    Args:
        orders: How many orders.
    """
    numbers = ("orders", "succeeded", "other", "requests", "seconds")
    table = Table("stage", *(Column(one, justify="right") for one in numbers), box=SIMPLE_HEAD)

    async def run(name: str, count: int, batch: Any) -> Any:
        """Run one batch as a stage of its own, with a bar; a recovery has none."""

        def look() -> tuple[int, Mapping[str, int]]:
            return batch.progress.done, batch.progress.counts

        started = time.monotonic()
        has_bar = isinstance(batch, Batch)
        with progress(console, name, count, look) if has_bar else contextlib.nullcontext():
            result = await batch
        seconds = f"{time.monotonic() - started:.1f}"
        others = {one: of for one, of in result.counts.items() if one != "succeeded"}
        done = f"{result.counts[OutcomeStatus.SUCCEEDED]:,}"
        cells = (done, listed(others) or "-", f"{result.requests:,}", seconds)
        table.add_row(name, f"{count:,}", *cells)
        return result

    recovery = RecoveryPolicy(settle_seconds=0.5, record_baseline=True)
    async with (
        Sandbox() as sandbox,
        GatewayClient(
            sandbox.base_url, sandbox.credentials, recovery=recovery, dialect=sandbox.dialect
        ) as gateway,
    ):
        output(f"A gateway listens at {sandbox.base_url}; {counted(orders, 'order')} for it.")
        paid = [
            CaptureOrder(**{name: getattr(one, name) for name in _COLUMNS})
            for one in sandbox.seed(orders, status="authorised", amount="9.00")
        ]
        await run("capture", orders, gateway.capture(paid))
        sandbox.faults.add("refund", DropReply(times=1))
        refunds = [
            RefundOrder(**attrs.asdict(one), refund_amount="5.00", refund_reason="sent back")
            for one in paid[::_REFUNDED_EVERY]
        ]
        refunded = gateway.refund(refunds, policy=_FEW_IN_A_REQUEST)
        lost = (await run("refund", len(refunds), refunded)).unknown
        await run("recover", len(lost), gateway.recover(lost))
        looked_up = gateway.query([OrderRef(order_no=one.order_no) for one in paid])
        await run("query", orders, looked_up)
        sent = [("capture", one) for one in paid] + [("refund", one) for one in refunds]
        is_right = all(sandbox.ledger.effects(did, one.transaction_id) == 1 for did, one in sent)
    plain_console(sys.stdout).print(table)
    if not is_right:
        output("The gateway's books do not have each of them once.")
        return Exit.NOT_ALL_DONE
    output(
        "Each request had ten refunds, and followed a look-up of earlier ones. One reply was lost "
        "on purpose. Its\nrefunds were unknown and were not sent again; the gateway's own records "
        "settled them. The gateway's\nbooks have each of them once."
    )
    return Exit.DONE


# The sandbox


async def sandbox(
    *,
    host: str = "127.0.0.1",
    port: int = 8800,
    orders: NonNegativeInt = 0,
    orders_status: Literal["authorised", "captured"] = "captured",
    orders_csv: Path | None = None,
    latency: options.Duration = timedelta(),
    drop_reply: NormFloat = 0.0,
    console: options.Shown,
) -> None:
    """Run a gateway on this machine, to try things at, until Ctrl-C or SIGTERM.

    Its other settings and faults are those of the class `Sandbox`, for a program.

    Example: `gateway-async sandbox --orders 1000 --orders-csv orders.csv --drop-reply 0.01`

    Args:
        host: The address to listen on; 127.0.0.1 is reached from this machine only.
        port: The port to listen on; 0 is a free one.
        orders: How many orders it has from the start.
        orders_status: Captured orders can be refunded; authorised ones captured or cancelled.
        orders_csv: The file to write them to; captured ones get a refund_amount, a quarter of
            the amount.
        latency: How long each request waits before it is carried out, such as 50ms.
        drop_reply: Probability: carry out, and close the connection without a reply.
    """
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    made = Sandbox(host=host, port=port)
    made.faults.add("*", Latency(latency.total_seconds()))
    made.faults.add("*", DropReply(probability=drop_reply))
    with tempfile.TemporaryDirectory(prefix="gateway-sandbox-") as folder:
        async with made:
            for number in (signal.SIGINT, signal.SIGTERM):  # Windows: no `loop.add_signal_handler`
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
            seeded, config = made.seed(orders, status=orders_status), Path(folder, "config.toml")
            if orders_csv is not None:
                with out_file(orders_csv) as file:
                    amounts = ["refund_amount"] if orders_status == "captured" else []
                    write = row_writer(file, [*_COLUMNS, *amounts])
                    for one in seeded:
                        row = {name: getattr(one, name) for name in _COLUMNS}
                        write({**row, "refund_amount": (one.amount / 4).quantize(one.amount)})
            journal = f"sqlite:///{config.with_name('journal.db').absolute()}"  # for its jobs alone
            settings = Settings(dialect=made.dialect)
            with out_file(config) as file:
                file.write(f"journal = {to_toml(journal)}\n{write_config(settings)}")
            console.say(f"sandbox listening on {made.base_url}; in a second terminal, run:")
            for name in ("base_url", "merchant_id", "account_id", "secret"):
                output(f"export {VARIABLES[name]}={shlex.quote(getattr(made, name))}")
            output(f"export GATEWAY_CONFIG={shlex.quote(str(config))}")
            await ended.wait()
