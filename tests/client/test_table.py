"""A new operation is its models and one row, and a new field one line: shown on a copy."""

import asyncio
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway_async import BatchPolicy, Journal
from gateway_async.cli.app import run
from gateway_async.operations import OPERATIONS
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.testing import threaded_sandbox
from tests.cli.running import Shell, write
from tests.support.orders import COLUMNS, client_of, orders_for
from tests.support.processes import ROOT

FIELD = """    refund_note: str = ""
    refund_fee: Decimal = attrs.field(default=Decimal("0.00"), converter=to_amount)
"""
ORDER = '''

@attrs.frozen(kw_only=True, field_transformer=checked)
class AdjustOrder(_Order):
    """One order to adjust."""

    adjusted_amount: Decimal = attrs.field(converter=to_amount)
'''
RECORD = '''

@attrs.frozen(kw_only=True, weakref_slot=False)
class AdjustRecord(_OrderRecord):
    """One adjusted order."""

    adjusted_amount: Decimal | None = None
    adjust_status: str | None = None
    error_message: str | None = None
'''
ROW = """ADJUST = Operation(
    name="adjust",
    path="/v1/adjust",
    limit=20,
    list_field="adjust_orders",
    status_field="adjust_status",
    order_class="gateway_async.models.orders.AdjustOrder",
    record_class="gateway_async.models.records.AdjustRecord",
    echo_fields=(*_ORDER_ECHO, "adjusted_amount"),
)
"""


@pytest.mark.slow
def test_an_operation_is_its_models_and_one_row_and_a_field_one_line(tmp_path: Path) -> None:
    package = tmp_path / "gateway_async"
    shutil.copytree(ROOT / "gateway_async", package)
    for name, behind, within, at_the_end in (
        ("operations.py", '_ORDER_ECHO = ("order_no", "currency", "amount")\n', ROW, ""),
        ("models/orders.py", '    refund_reason: str = ""\n', FIELD, ORDER),
        ("models/records.py", "", "", RECORD),
    ):
        source = (package / name).read_text()
        changed = source.replace(behind, behind + within) if behind else source
        (package / name).write_text(changed + at_the_end)
    done = subprocess.run(  # noqa: S603  # this interpreter, which finds the copy first
        [sys.executable, "-W", "error", "-m", __name__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Adjust orders." in done.stdout


# An eleventh operation, and a new field of refunds, in every room: run on a copy of the library

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


def use_by_the_command_line(sandbox: Sandbox, folder: Path) -> None:
    """Use the operation with a file of orders."""
    seeded, shell = sandbox.seed(6), Shell(sandbox, folder)
    rows = [[*(getattr(one, name) for name in COLUMNS), "9.00"] for one in seeded]
    write(folder / "orders.csv", [*COLUMNS, "adjusted_amount"], rows)
    os.environ.update(shell.environment)
    assert run(["adjust", "orders.csv", "--out", "out.csv", "--yes"]) == 0
    assert shell.statuses() == {"succeeded": 6}
    assert run(["--help"]) == 0
    assert run(["submit", "orders.csv", "--operation", "adjust", "--job", "workers", "--yes"]) == 0
    assert {sandbox.ledger.effects("adjust", one.transaction_id) for one in seeded} == {1}


if __name__ == "__main__":
    with threaded_sandbox() as sandbox:
        asyncio.run(use_by_the_client(sandbox, Path.cwd()))
        use_by_the_command_line(sandbox, Path.cwd())
