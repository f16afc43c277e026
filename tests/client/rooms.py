"""What a row or a field of the table is to every room: run beside a copy of the library.

``python -m tests.client.rooms SCENE FOLDER``; each scene asserts what it shows.
"""

import asyncio
import csv
import os
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from gateway_async import BatchPolicy, GatewayClient, Journal
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox, SeededOrder
from gateway_async.sandbox.faults import DropReply
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, orders_for

COMMAND = (sys.executable, "-P", "-c", "from gateway_async.cli import main; main()")


def client(sandbox: Sandbox) -> GatewayClient:
    return client_of(sandbox, policy=BatchPolicy(concurrency=1, chunk_size=4))


def journal_in(folder: Path) -> Journal:
    return Journal.open(f"sqlite:///{folder}/jobs.db")


async def command(sandbox: Sandbox, *words: object) -> tuple[int | None, str]:
    """Run a command to its end; return its exit code and all that it says."""
    environment = {
        **os.environ,
        "GATEWAY_BASE_URL": sandbox.base_url,
        "GATEWAY_MERCHANT_ID": sandbox.merchant_id,
        "GATEWAY_ACCOUNT_ID": sandbox.account_id,
        "GATEWAY_SECRET": sandbox.secret,
        "COLUMNS": "200",
    }
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *map(str, words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def write(path: Path, fields: Sequence[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields[0])
        writer.writeheader()
        writer.writerows(fields)
    return path


def texts_of(seeded: SeededOrder, **more: str) -> dict[str, str]:
    """Return the fields of an order as a file has them."""
    names = ("transaction_id", "order_no", "currency", "amount")
    return {**{name: str(getattr(seeded, name)) for name in names}, **more}


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
        code, said = await command(
            sandbox, "adjust", write(folder / "orders.csv", fields), "--out", out, "--yes"
        )
        assert code == 0, said
        with out.open(newline="") as file:
            assert {line["status"] for line in csv.DictReader(file)} == {"succeeded"}
        code, said = await command(sandbox, "--help")
        assert "Adjust orders." in said
        for order in orders:
            assert sandbox.ledger.effects("adjust", order.transaction_id) == 3


async def show_the_field(folder: Path) -> None:
    """Use the new field of a refund by client, journal and command line."""
    async with Sandbox() as sandbox, client(sandbox) as gateway, journal_in(folder) as journal:
        earlier: Any = [outcome.order async for outcome in journal.outcomes("before")]
        assert [order.refund_note for order in earlier] == [""] * 3
        seeded = sandbox.seed(3, status="captured")
        more = {"refund_fee": Decimal("0.50"), "refund_note": "torn"}
        orders = orders_for("refund", seeded, **more)
        assert (await gateway.refund(orders, job=journal.job("after"))).ok
        kept = await gateway.resume(journal.job("after"))
        assert [outcome.order for outcome in kept] == orders
        assert isinstance(kept[0].order.refund_fee, Decimal)
        fields = texts_of(seeded[0], refund_amount="1.00", refund_note="torn at the seam")
        path = write(folder / "refunds.csv", [fields])
        code, said = await command(sandbox, "refund", path, "--dry-run")
        assert code == 0, said
        assert '"refund_note":"torn at the seam"' in said, said
        wire = MemoryTransport()
        assert (await client_over(wire).refund(orders)).ok
        sent = wire.asked[0].fields["refund_orders"]
        assert [one["refund_note"] for one in sent] == ["torn"] * 3


if __name__ == "__main__":
    scene, place = sys.argv[1:]
    asyncio.run(globals()[scene](Path(place)))
