"""An eleventh operation, and a new field of refunds, in every room: run on a copy of the library.

``python -m tests.client.rooms FOLDER``; it asserts what it shows.
"""

import asyncio
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from gateway_async import BatchPolicy, GatewayClient, Journal
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox, Transaction
from gateway_async.sandbox.faults import DropReply
from tests.cli.running import COLUMNS, Shell, write
from tests.orders import client_of, orders_for


def client(sandbox: Sandbox) -> GatewayClient:
    return client_of(sandbox, policy=BatchPolicy(concurrency=1, chunk_size=4))


def journal_in(folder: Path) -> Journal:
    return Journal.open(f"sqlite:///{folder}/jobs.db")


async def keep_refunds(folder: Path) -> None:
    """Do a job whose orders have the fields that they have now."""
    async with Sandbox() as sandbox, client(sandbox) as gateway, journal_in(folder) as journal:
        orders = orders_for("refund", sandbox.seed(3, status="captured"))
        assert (await gateway.refund(orders, job=journal.job("before"))).ok


def write_orders(path: Path, orders: list[Transaction], **more: str) -> None:
    """Write a file of orders as they are seeded, with more columns."""
    rows = [[*(getattr(one, name) for name in COLUMNS), *more.values()] for one in orders]
    write(path, [*COLUMNS, *more], rows)


async def use_the_operation(sandbox: Sandbox, journal: Journal, folder: Path) -> None:
    """Use it by client, journal, command line and sandbox."""
    row, seeded = OPERATIONS["adjust"], sandbox.seed(6)
    columns = [{name: getattr(one, name) for name in COLUMNS} for one in seeded]
    orders = [row.order_class(**one, adjusted_amount="9.00") for one in columns]
    async with client(sandbox) as gateway:
        result = await gateway.batch("adjust", orders)
        assert result.ok
        records: list[Any] = [outcome.record for outcome in result]
        assert {type(record) for record in records} == {row.record_class}
        assert {record.adjusted_amount for record in records} == {Decimal(9)}
        sandbox.faults.add("adjust", DropReply(times=1))
        job = journal.job("adjusting")
        assert len((await gateway.batch("adjust", orders, job=job)).unknown) == 4
        again = await gateway.resume(job)
        assert (len(again.unknown), [outcome.order for outcome in again]) == (4, orders)
        assert sandbox.requests["adjust"] == 4
    shell = Shell(sandbox, folder)
    write_orders(folder / "orders.csv", seeded, adjusted_amount="9.00")
    await shell("adjust orders.csv --out out.csv --yes")
    assert shell.statuses() == {"succeeded": 6}
    assert "Adjust orders." in (await shell("--help")).stdout
    assert {sandbox.ledger.effects("adjust", one.transaction_id) for one in seeded} == {3}


async def use_the_field(sandbox: Sandbox, journal: Journal, folder: Path) -> None:
    """Use it by client, journal and command line, which shows what would be sent."""
    earlier: Any = [outcome.order async for outcome in journal.outcomes("before")]
    assert [order.refund_note for order in earlier] == [""] * 3
    seeded = sandbox.seed(3, status="captured")
    orders = orders_for("refund", seeded, refund_fee="0.50", refund_note="torn")
    async with client(sandbox) as gateway:
        assert (await gateway.refund(orders, job=journal.job("after"))).ok
        kept = await gateway.resume(journal.job("after"))
    assert [outcome.order for outcome in kept] == orders
    more = {"refund_amount": "1.00", "refund_note": "torn at the seam"}
    write_orders(folder / "refunds.csv", seeded, **more)
    ended = await Shell(sandbox, folder)("refund refunds.csv --dry-run")
    assert '"refund_note":"torn at the seam"' in ended.stdout, ended


async def main(folder: Path) -> None:
    async with Sandbox() as sandbox, journal_in(folder) as journal:
        await use_the_operation(sandbox, journal, folder)
        await use_the_field(sandbox, journal, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
