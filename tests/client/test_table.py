"""A new operation is its models and one row, and a new field one line: shown on a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client import rooms

ROOT = Path(__file__).parents[2]

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
ROW = """            Operation(
                name="adjust",
                path="/v1/adjust",
                limit=20,
                list_field="adjust_orders",
                status_field="adjust_status",
                order_class="gateway_async.models.orders.AdjustOrder",
                record_class="gateway_async.models.records.AdjustRecord",
                echo_fields=(*_ORDER_ECHO, "adjusted_amount"),
                result_fields=("adjust_status", "error_message"),
            ),
"""
FIELD = """    refund_note: str = ""
    refund_fee: Decimal = attrs.field(default=Decimal("0.00"), converter=to_amount)
"""


def show(scene: str, folder: Path, **added: tuple[str, str]) -> None:
    """Run a scene with a copy of the library that has text added behind other text."""
    copy = folder / "copy"
    shutil.copytree(ROOT / "gateway_async", copy / "gateway_async")
    for name, (behind, text) in added.items():
        path = copy / "gateway_async" / f"{name.replace('__', '/')}.py"
        source = path.read_text()
        assert source.count(behind) == 1
        path.write_text(source.replace(behind, behind + text))
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # several processes use the copy
    done = subprocess.run(  # noqa: S603  # this very interpreter
        (sys.executable, "-W", "error", "-m", "tests.client.rooms", scene, folder),
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_an_eleventh_batch_operation_is_its_models_and_one_row(tmp_path: Path) -> None:
    orders = (ROOT / "gateway_async/models/orders.py").read_text()
    records = (ROOT / "gateway_async/models/records.py").read_text()
    show(
        "show_the_operation",
        tmp_path,
        operations=("            REFUND,\n", ROW),
        models__orders=(orders[orders.index("class RefundOrder") :], ORDER),
        models__records=(records[records.index("class Page") :], RECORD),
    )


@pytest.mark.slow
async def test_a_new_field_of_an_order_is_one_line(tmp_path: Path) -> None:
    await rooms.keep_refunds(tmp_path)
    behind = '    refund_reason: str = ""\n'
    show("show_the_field", tmp_path, models__orders=(behind, FIELD))
