"""`gateway-async sandbox`, as a user starts it."""

import csv
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway_async.cli import app
from gateway_async.cli.settings import read_settings
from gateway_async.sandbox import Sandbox, faults
from tests.cli.running import SCRIPT


@contextmanager
def served(*options: object) -> Iterator[str]:
    """Run the command, yield what it says first, and end it by a signal; it must end with 0."""
    command = [str(SCRIPT), "sandbox", "--port", "0", *map(str, options)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GATEWAY_")}
    with subprocess.Popen(  # noqa: S603  # our own command
        command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = ""
        while "export GATEWAY_CONFIG" not in said:  # the last line
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        try:
            yield said
        finally:
            process.send_signal(signal.SIGINT)
        assert (process.wait(), process.stdout.read()) == (0, "")
        listening = r"sandbox listening on http://127\.0\.0\.1:\d+; in a second terminal, run:\n"
        assert re.fullmatch(listening, process.stderr.read())


def exported(said: str) -> dict[str, str]:
    """Return what the `export` lines set, as a shell reads them."""
    lines = "\n".join(re.findall(r"^export .*", said, re.MULTILINE))
    shell = ("/bin/sh", "-c", f"{lines}\nexec env -0")
    done = subprocess.run(shell, env={}, check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


@pytest.mark.slow
def test_it_says_how_to_reach_it_and_its_file_is_one_for_the_command_line(tmp_path: Path) -> None:
    orders, out = tmp_path / "orders.csv", tmp_path / "out.csv"
    with served("--orders", 3, "--orders-csv", orders) as said:
        assert all(line.startswith("export GATEWAY_") for line in said.splitlines())
        variables = {**exported(said), "XDG_STATE_HOME": str(tmp_path)}
        assert read_settings({}, variables).dialect == Sandbox().dialect
        refund = (SCRIPT, "refund", orders, "--yes", "--out", out)
        subprocess.run(refund, env={**os.environ, **variables}, check=True, capture_output=True)  # noqa: S603  # our own
        assert not (tmp_path / "gateway-async").exists()  # the journal of real jobs
    with out.open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert [row["order_no"] for row in rows] == [f"S0000000{number}" for number in (1, 2, 3)]
    assert {(row["status"], row["amount"], row["refund_amount"]) for row in rows} == {
        ("succeeded", "10.00", "2.50")  # so that `--again` can be tried
    }
    assert not Path(variables["GATEWAY_CONFIG"]).exists()


def test_options_become_settings_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    made, added = list[Sandbox](), list[object]()

    async def begin(sandbox: Sandbox) -> None:
        made.append(sandbox)
        raise KeyboardInterrupt

    monkeypatch.setattr(Sandbox, "__aenter__", begin)
    monkeypatch.setattr(faults.Faults, "add", lambda _, *given: added.append(given))
    app.run(["sandbox", "--drop-reply", "0.01", "--latency", "50ms", "--port", "8801"])
    assert added == [("*", faults.Latency(0.05)), ("*", faults.DropReply(probability=0.01))]
    (one,) = made
    assert one.port == 8801
