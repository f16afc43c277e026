import re
from decimal import Decimal
from typing import Any

import pytest

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox
from tests.sandbox.conftest import sign


async def test_it_listens_on_this_machine_only_and_once() -> None:
    sandbox = Sandbox()
    with pytest.raises(ConfigurationError, match="not started"):
        _ = sandbox.base_url
    async with sandbox:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", sandbox.base_url)
        with pytest.raises(ConfigurationError, match="twice"):
            await sandbox.__aenter__()
        port = int(sandbox.base_url.rsplit(":", 1)[1])
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await Sandbox(port=port).__aenter__()


@pytest.mark.parametrize("port", [65536, -1, "8800"])
async def test_what_is_no_port_is_refused(port: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}"):
        await Sandbox(port=port).__aenter__()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("merchant_id", ""),
        ("account_id", None),
        ("secret", b"a secret"),
        ("random_seed", []),
        ("deduplicate_payouts", "no"),
        ("clock", 5),
        ("notify_signed", "no"),
        ("notify_pauses", 5),
        ("notify_pauses", (float("nan"),)),
        ("notify_format", "yaml"),
        ("return_url", "javascript:x"),
    ],
)
def test_a_wrong_setting_is_named_at_once(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^Sandbox\.{name}: ") as refusal:
        Sandbox(**{name: value})
    assert "a secret" not in str(refusal.value)


def test_seeding_knows_its_counts_statuses_and_amounts() -> None:
    for count in (-1, 1.0, True):
        with pytest.raises(ConfigurationError, match=r"Sandbox\.seed: .* is no count"):
            Sandbox().seed(count)  # type: ignore[arg-type]  # on purpose
    assert Sandbox().seed(0) == []
    with pytest.raises(ConfigurationError, match="authorised"):
        Sandbox().seed(1, status="paid")
    for amount in ("ten", 0.1, "-1", Decimal("NaN"), None):
        with pytest.raises(ConfigurationError, match=r"Sandbox\.seed: .* is no amount"):
            Sandbox().seed(1, amount=amount)  # type: ignore[arg-type]  # on purpose
    for amount in (10, "10", Decimal("1E1")):
        assert Sandbox().seed(1, amount=amount)[0].amount == 10  # type: ignore[arg-type]  # as an order's


def test_the_hand_written_signature_is_the_documented_one() -> None:
    # printf 'a=1&b=2' | openssl dgst -sha256 -hmac k
    expected = "acaa976e196269880b8b3898a5ec2f3881696e4570890e89538ba5a0cbfe2829"
    assert sign({"b": "2", "a": "1"}, "k") == expected
