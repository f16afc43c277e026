"""A new operation is its models and one row, and a new field one line: shown on a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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


@pytest.mark.slow
def test_an_operation_is_its_models_and_one_row_and_a_field_one_line(tmp_path: Path) -> None:
    package = tmp_path / "gateway_async"
    shutil.copytree(ROOT / "gateway_async", package)
    for name, behind, within, at_the_end in (
        ("operations.py", "            REFUND,\n", ROW, ""),
        ("models/orders.py", '    refund_reason: str = ""\n', FIELD, ORDER),
        ("models/records.py", "", "", RECORD),
    ):
        source = (package / name).read_text()
        changed = source.replace(behind, behind + within) if behind else source
        (package / name).write_text(changed + at_the_end)
    done = subprocess.run(  # noqa: S603  # this very interpreter
        (sys.executable, "-W", "error", "-m", "tests.client.rooms", tmp_path),
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "",  # several processes use the copy
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
