"""No command of these tests sees the settings or the journal of the person who runs them."""

import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gateway_async.cli import main
from gateway_async.sandbox import Sandbox
from tests.cli.running import Ended, Here, Shell


@pytest.fixture(autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("XDG_CONFIG_HOME", home)


@pytest.fixture
def shell(sandbox: Sandbox, tmp_path: Path) -> Shell:
    """Where the lines of a test run."""
    return Shell(sandbox, tmp_path)


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Here:
    """Run lines in this process and the test's folder, with a gateway that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("BASE_URL", "MERCHANT_ID", "ACCOUNT_ID", "SECRET"):
        monkeypatch.setenv(f"GATEWAY_{name}", "http://127.0.0.1:1")

    def run(line: str, code: int = 0, command: Callable[[Sequence[str]], object] = main) -> Ended:
        taken = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as ended:
                command(shlex.split(line))
        finally:  # this process goes on to take signals
            signal.signal(signal.SIGTERM, taken)
        output = capsys.readouterr()
        assert ended.value.code == code, output.err
        return Ended(code, *output)

    return run
