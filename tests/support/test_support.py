"""What the support of the tests promises."""

import subprocess
import sys
from typing import Any

import pytest

from tests.support.slow import missing, server_is_used


def test_a_test_without_the_marker_starts_no_process_and_uses_no_server() -> None:
    with pytest.raises(RuntimeError, match="starts a process: mark it"):
        subprocess.Popen([sys.executable, "-c", ""])
    with pytest.raises(RuntimeError, match="needs a server: mark it"):
        server_is_used("PostgreSQL")


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail), ("", pytest.skip)])
def test_without_a_server_a_test_is_skipped_but_fails_in_ci(
    ci: str, outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome.Exception, match="no Chromium"):
        missing("no Chromium")
