"""No command of these tests sees the settings or the journal of the person who runs them."""

import pytest


@pytest.fixture(autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("XDG_CONFIG_HOME", home)
