"""No command of these tests sees the settings or the journal of the person who runs them."""

from pathlib import Path

import pytest

from gateway_async.sandbox import Sandbox
from tests.cli.running import Shell


@pytest.fixture(autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("XDG_CONFIG_HOME", home)


@pytest.fixture
def shell(sandbox: Sandbox, tmp_path: Path) -> Shell:
    """Where the lines of a test run."""
    return Shell(sandbox, tmp_path)
