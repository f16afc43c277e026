"""What a row or a field of the table is to every room: run beside a copy of the library.

``python -m tests.client.rooms SCENE FOLDER``; each scene asserts what it shows.
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
from tests.cli.running import COLUMNS, run_installed, statuses, write
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, orders_for


def client(sandbox: Sandbox) -> GatewayClient:
    return client_of(sandbox, policy=BatchPolicy(concurrency=1, chunk_size=4))


def journal_in(folder: Path) -> Journal:
    return Journal.open(f"sqlite:///{folder}/jobs.db")


def texts_of(seeded: Transaction, **more: str) -> dict[str, str]:
    """Return the fields of an order as a file has them."""
    return {**{name: str(getattr(seeded, name)) for name in COLUMNS}, **more}


async def keep_refunds(folder: Path) -> None:
    """Do a job whose orders have the fields that they have now."""
    async with Sandbox() as sandbox, client(sandbox) as gateway, journal_in(folder) as journal:
        orders = orders_for("refund", sandbox.seed(3, status="captured"))
        assert (await gateway.refund(orders, job=journal.job("before"))).ok


async def show_the_operation(folder: Path) -> None:
    """Use the eleventh batch operation by client, journal, command line and sandbox."""
    row = OPERATIONS["adjust"]
    async with Sandbox() as sandbox, client(sandbox) as gateway, journal_in(folder) as journal:
        fields = [texts_of(one, adjusted_amount="9.00") for one in sandbox.seed(6)]
        orders = [row.order_class(**order) for order in fields]
        result = await gateway.batch("adjust", orders)
        assert result.ok
        records = [outcome.record for outcome in result]
        assert all(type(record) is row.record_class for record in records)
        assert [record.adjusted_amount for record in records if record] == [Decimal(9)] * 6
        assert sandbox.requests["adjust"] == 2

        sandbox.faults.add("adjust", DropReply(times=1))
        job = journal.job("adjusting")
        assert len((await gateway.batch("adjust", orders, job=job)).unknown) == 4
        again = await gateway.resume(job)
        assert len(again.unknown) == 4
        assert [outcome.order for outcome in again] == orders
        assert sandbox.requests["adjust"] == 4

        out = folder / "out.csv"
        path = write(folder / "orders.csv", [*fields[0]], [[*one.values()] for one in fields])
        ended = await run_installed(sandbox, "adjust", path, "--out", out, "--yes")
        assert ended.code == 0, ended
        assert statuses(out) == {"succeeded": 6}
        assert "Adjust orders." in (await run_installed(sandbox, "--help")).stdout
        for order in orders:
            assert sandbox.ledger.effects("adjust", order.transaction_id) == 3


async def show_the_field(folder: Path) -> None:
    """Use the new field of a refund by client, journal and command line."""
    async with Sandbox() as sandbox, client(sandbox) as gateway, journal_in(folder) as journal:
        earlier: Any = [outcome.order async for outcome in journal.outcomes("before")]
        assert [order.refund_note for order in earlier] == [""] * 3
        seeded = sandbox.seed(3, status="captured")
        orders = orders_for("refund", seeded, refund_fee=Decimal("0.50"), refund_note="torn")
        assert (await gateway.refund(orders, job=journal.job("after"))).ok
        kept = await gateway.resume(journal.job("after"))
        assert [outcome.order for outcome in kept] == orders
        assert isinstance(kept[0].order.refund_fee, Decimal)
        fields = texts_of(seeded[0], refund_amount="1.00", refund_note="torn at the seam")
        path = write(folder / "refunds.csv", [*fields], [[*fields.values()]])
        ended = await run_installed(sandbox, "refund", path, "--dry-run")
        assert '"refund_note":"torn at the seam"' in ended.stdout, ended
        wire = MemoryTransport()
        assert (await client_over(wire).refund(orders)).ok
        sent = wire.asked[0].fields["refund_orders"]
        assert [one["refund_note"] for one in sent] == ["torn"] * 3


if __name__ == "__main__":
    scene, place = sys.argv[1:]
    asyncio.run(globals()[scene](Path(place)))
