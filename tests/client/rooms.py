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

from gateway_async import BatchPolicy, GatewayClient, HmacSigner, Journal, RefundOrder
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.signing import Credentials
from tests.memory import MemoryTransport, client_over

COMMAND = (sys.executable, "-P", "-c", "from gateway_async.cli import main; main()")


def client_of(sandbox: Sandbox) -> GatewayClient:
    signer = HmacSigner(sandbox.secret)
    who = Credentials(merchant_id=sandbox.merchant_id, account_id=sandbox.account_id, signer=signer)
    return GatewayClient(
        sandbox.base_url, who, dialect=sandbox.dialect, policy=BatchPolicy(concurrency=1)
    )


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


def write(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


async def keep_refunds(folder: Path) -> None:
    """Do a job whose orders have the fields that they have now."""
    async with Sandbox() as sandbox, client_of(sandbox) as gateway, journal_in(folder) as journal:
        orders = [_refund(one) for one in sandbox.seed(3, status="captured")]
        assert (await gateway.refund(orders, job=journal.job("before"))).ok


def _refund(seeded: Any, **more: Any) -> RefundOrder:
    return RefundOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
        refund_amount="1.00",
        **more,
    )


async def show_the_operation(folder: Path) -> None:
    """Use the eleventh batch operation by client, journal, command line and sandbox."""
    row = OPERATIONS["adjust"]
    async with Sandbox() as sandbox, client_of(sandbox) as gateway, journal_in(folder) as journal:
        fields = [
            {
                "transaction_id": one.transaction_id,
                "order_no": one.order_no,
                "currency": one.currency,
                "amount": str(one.amount),
                "adjusted_amount": "9.00",
            }
            for one in sandbox.seed(6)
        ]
        orders = [row.order_class(**order) for order in fields]
        result = await gateway.batch("adjust", orders, policy=BatchPolicy(chunk_size=4))
        assert result.ok
        records = [outcome.record for outcome in result]
        assert all(type(record) is row.record_class for record in records)
        assert [record.adjusted_amount for record in records if record] == [Decimal(9)] * 6
        assert sandbox.requests["adjust"] == 2

        sandbox.faults.add("adjust", DropReply(times=1))
        policy = BatchPolicy(concurrency=1, chunk_size=3)
        job = journal.job("adjusting")
        result = await gateway.batch("adjust", orders, policy=policy, job=job)
        assert len(result.unknown) == 3
        again = await gateway.resume(job)
        assert len(again.unknown) == 3
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
    async with Sandbox() as sandbox, client_of(sandbox) as gateway, journal_in(folder) as journal:
        earlier: Any = [outcome.order async for outcome in journal.outcomes("before")]
        assert [order.refund_note for order in earlier] == [""] * 3
        seeded = sandbox.seed(3, status="captured")
        fee = {"refund_fee": Decimal("0.50")}
        orders: list[Any] = [
            _refund(one, refund_note=f"note {one.order_no}", **fee) for one in seeded
        ]
        assert (await gateway.refund(orders, job=journal.job("after"))).ok
        kept = await gateway.resume(journal.job("after"))
        assert [outcome.order for outcome in kept] == orders
        assert isinstance(kept[0].order.refund_fee, Decimal)
        fields = {
            "transaction_id": seeded[0].transaction_id,
            "order_no": seeded[0].order_no,
            "currency": "EUR",
            "amount": "10.00",
            "refund_amount": "1.00",
            "refund_note": "torn at the seam",
        }
        path = write(folder / "refunds.csv", [fields])
        code, said = await command(sandbox, "refund", path, "--dry-run")
        assert code == 0, said
        assert '"refund_note":"torn at the seam"' in said, said
        wire = MemoryTransport()
        assert (await client_over(wire).refund(orders)).ok
        sent = wire.asked[0].fields["refund_orders"]
        assert [one["refund_note"] for one in sent] == [one.refund_note for one in orders]


if __name__ == "__main__":
    scene, place = sys.argv[1:]
    asyncio.run(globals()[scene](Path(place)))
