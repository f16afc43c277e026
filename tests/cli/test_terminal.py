"""The commands in a terminal: they ask, show a bar, and can be stopped."""

from pathlib import Path

from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Drip, Latency, NoReply
from tests.cli.running import names, outcomes, statuses, write, write_refunds
from tests.cli.terminal import CTRL_C, Terminal


async def test_a_refund_asks_with_its_totals_and_takes_no_for_an_answer(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 3)
    async with Terminal(sandbox, "refund", orders, "--out", "out.csv", cwd=tmp_path) as terminal:
        unread = "(columns that are not sent: 'customer')"
        asked = f"refund 3 orders, EUR 3.00 at {sandbox.base_url} {unread}. Go on? [y/N]"
        await terminal.until(asked)
        terminal.type("\r")
        assert await terminal.ended() == 2
    assert "nothing was sent" in terminal.text
    assert sandbox.requests.total() == 0
    assert names(tmp_path) == ["orders.csv"]


async def test_a_bar_shows_what_became_of_orders_until_two_ctrl_c_end_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 500)
    sandbox.faults.add("refund", Drip(100_000, 0.0, times=3))
    sandbox.faults.add("refund", NoReply())
    command = ("refund", orders, "--out", "out.csv", "--concurrency", 1)
    async with Terminal(sandbox, *command, cwd=tmp_path) as terminal:
        await terminal.until("Go on? [y/N]")
        terminal.type("yes\r")
        await terminal.until("150/500")
        await terminal.until("150 succeeded")
        assert "/s " in terminal.text
        terminal.type(CTRL_C)
        await terminal.until("stopping: waiting for what is in flight")
        terminal.type(CTRL_C)
        await terminal.until("stopping at once")
        assert await terminal.ended() == 3
    assert statuses(tmp_path / "out.csv") == {"succeeded": 150, "unknown": 50, "not_sent": 300}
    shown = " ".join(terminal.text.split())
    assert "the same command" in shown
    assert "gateway-async jobs show refund-" in shown
    assert sandbox.secret not in terminal.text


async def test_ctrl_c_at_the_question_sends_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 1)
    async with Terminal(sandbox, "refund", orders, "--out", "out.csv", cwd=tmp_path) as terminal:
        await terminal.until("Go on? [y/N]")
        assert await terminal.ended_by(CTRL_C) == 2
    assert "stopped before anything was sent" in terminal.text
    assert names(tmp_path) == ["orders.csv"]


async def test_every_outcome_is_written_where_the_terminal_is_closed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 500)
    sandbox.faults.add("refund", Latency(0.3))
    command = ("refund", orders, "--yes", "--out", "out.csv", "--concurrency", 1)
    async with Terminal(sandbox, *command, cwd=tmp_path) as terminal:
        await terminal.until("50/500")
        assert await terminal.hung_up() == 3
    found = statuses(tmp_path / "out.csv")
    assert found.keys() == {"succeeded", "not_sent"}
    assert found.total() == 500
    assert found["succeeded"] == sum(
        sandbox.ledger.effects("refund", row["transaction_id"]) for row in outcomes(orders)
    )


async def test_differences_go_where_standard_output_goes(sandbox: Sandbox, tmp_path: Path) -> None:
    rows = [(one.order_no, one.currency, "8.00") for one in sandbox.seed(3, amount="9.00")]
    write(tmp_path / "ledger.csv", ("order_no", "currency", "amount"), rows)
    command, output = ("reconcile", "ledger.csv"), tmp_path / "differences.txt"
    async with Terminal(sandbox, *command, cwd=tmp_path, output=output) as terminal:
        assert await terminal.ended() == 1
    assert [line.partition(":")[0] for line in output.read_text().splitlines()] == [
        "line 2",
        "line 3",
        "line 4",
    ]
    assert "ledger 8.00" not in terminal.text
    assert "3/3" in terminal.text
