import re
from typing import Any

import pytest

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox


async def test_it_listens_on_this_machine_only_and_once() -> None:
    sandbox = Sandbox()
    with pytest.raises(ConfigurationError, match="not started"):
        _ = sandbox.base_url
    async with sandbox:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", sandbox.base_url)
        with pytest.raises(ConfigurationError, match="twice"):
            await sandbox.__aenter__()
        for port in (int(sandbox.base_url.rsplit(":", 1)[1]), 65536):
            with pytest.raises(ConfigurationError, match=f"cannot listen .* port {port}"):
                await Sandbox(port=port).__aenter__()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("merchant_id", ""),
        ("account_id", None),
        ("secret", b"a secret"),
        ("notify_format", "yaml"),
        ("return_url", "javascript:x"),
    ],
)
def test_a_wrong_setting_is_named_at_once(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^\w+\.{name}: ") as refusal:
        Sandbox(**{name: value})
    assert "a secret" not in str(refusal.value)


def test_seeding_knows_its_statuses_and_amounts() -> None:
    with pytest.raises(ConfigurationError, match="authorised"):
        Sandbox().seed(1, status="paid")
    assert Sandbox().seed(0) == []
    assert [Sandbox().seed(1, amount=ten)[0].amount for ten in (10, "10")] == [10, 10]  # type: ignore[arg-type]  # as an order's
