"""An eleventh operation, and a new field of refunds, in every room: run on a copy of the library.

``python -m tests.client.rooms FOLDER``; it asserts what it shows.
"""

import asyncio
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from gateway_async import BatchPolicy, Journal
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.cli.running import COLUMNS, Shell, write
from tests.orders import client_of, orders_for

POLICY = BatchPolicy(concurrency=1, chunk_size=4)


async def use_by_the_client(sandbox: Sandbox, folder: Path) -> None:
    """Use the operation in a batch and in a job, and the field in a job."""
    row, seeded = OPERATIONS["adjust"], sandbox.seed(6, status="captured")
    columns = [{name: getattr(one, name) for name in COLUMNS} for one in seeded]
    orders = [row.order_class(**one, adjusted_amount="9.00") for one in columns]
    journal = Journal.open(f"sqlite:///{folder}/jobs.db")
    async with client_of(sandbox, policy=POLICY) as gateway, journal:
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
        noted = orders_for("refund", seeded, refund_fee="0.50", refund_note="torn")
        assert (await gateway.refund(noted, job=journal.job("noting"))).ok
        kept = await gateway.resume(journal.job("noting"))
        assert [outcome.order for outcome in kept] == noted


async def use_by_the_command_line(sandbox: Sandbox, folder: Path) -> None:
    """Use the operation with a file of orders."""
    seeded = sandbox.seed(6)
    rows = [[*(getattr(one, name) for name in COLUMNS), "9.00"] for one in seeded]
    write(folder / "orders.csv", [*COLUMNS, "adjusted_amount"], rows)
    shell = Shell(sandbox, folder)
    await shell("adjust orders.csv --out out.csv --yes")
    assert shell.statuses() == {"succeeded": 6}
    assert "Adjust orders." in (await shell("--help")).stdout
    assert {sandbox.ledger.effects("adjust", one.transaction_id) for one in seeded} == {1}


async def main(folder: Path) -> None:
    async with Sandbox() as sandbox:
        await use_by_the_client(sandbox, folder)
        await use_by_the_command_line(sandbox, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
