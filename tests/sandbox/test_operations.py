"""What the merchant asks for, written by hand from the interface, and what the books say then.

At the end, its settings, and `gateway-async sandbox`, as a user starts it.
"""

import re
import signal
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway_async.cli import app
from gateway_async.cli.settings import read_settings
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import PaymentStatus, Sandbox, Transaction, faults
from tests.cli.running import Shell
from tests.sandbox.conftest import CARD, DIRECT, PAYMENT, PAYOUT, Merchant, item, merchant_of
from tests.support.interface_fields import FIELDS

OF_A_SEARCH = {"payment_status", "refund_date", "refund_processing_date"}


def one(merchant: Merchant, status: str = "captured") -> Transaction:
    return merchant.sandbox.seed(1, status=status)[0]


# Batches


async def test_a_refund_is_carried_out_each_time_while_money_is_left(merchant: Merchant) -> None:
    order, ledger = one(merchant), merchant.sandbox.ledger
    reply = await merchant.ask("refund", {"refund_orders": [item(order)]})
    assert (reply["merchant_id"], reply["account_id"]) == ("M1", "A1")
    assert (reply["return_status"], reply["return_message"]) == ("1", "OK")
    (record,) = reply["refund_orders"]
    assert set(record) == FIELDS["RefundRecord"] - OF_A_SEARCH
    (found,) = (await merchant.ask("search_refunds"))["refund_orders"]
    assert set(found) == FIELDS["RefundRecord"] - {"refund_message"}
    for shown in (record, found):
        assert (shown["refund_status"], shown["refund_amount"]) == ("1", "4.00")
        assert shown["refund_reference_id"] == f"{order.transaction_id}-01"
    messages = [(await merchant.order("refund", order))[0]["refund_message"] for _ in range(2)]
    assert [message.split(":")[0] for message in messages] == ["V0000", "2203"]
    booked = ledger.transaction(order.transaction_id)
    assert (merchant.effects(order), booked.refusals["refund"]) == ([2], 1)
    assert booked.refunded_amount == Decimal("8.00")
    assert [one.reason for one in booked.refunds] == ["returned"] * 2


Step = tuple[str, dict[str, str], str]
REFUNDS: list[tuple[dict[str, str], str]] = [
    ({"transaction_id": "1"}, "2001:"),
    ({"order_no": "other"}, "2002:"),
    ({"currency": "USD"}, "2003:"),
    ({"amount": "9.99"}, "2005:"),
    ({"refund_amount": "0.00"}, "2202:"),
    ({"refund_amount": "10.01"}, "2203:"),
]


@pytest.mark.parametrize(
    ("status", "steps", "then", "captured"),
    [
        ("authorised", [("capture", {"amount": "7.50"}, "")], "CAPTURED", "7.50"),
        ("authorised", [("capture", {}, ""), ("capture", {}, "already capt")], "CAPTURED", "10"),
        ("authorised", [("capture", {"amount": "10.01"}, "amount is not")], "AUTHORISED", "0"),
        ("authorised", [("cancel", {}, ""), ("capture", {}, "already canc")], "CANCELLED", "0"),
        ("authorised", [("refund", {}, "2201:")], "AUTHORISED", "0"),
        ("captured", [("review", {"review_flag": "2"}, "")], "CAPTURED", "10"),
        *(("captured", [("refund", *wrong)], "CAPTURED", "10") for wrong in REFUNDS),
    ],
)
async def test_an_order_goes_from_state_to_state_or_is_refused(
    merchant: Merchant, status: str, steps: list[Step], then: str, captured: str
) -> None:
    order = one(merchant, status)
    for operation, changes, refusal in steps:
        (record,) = await merchant.order(operation, order, **changes)
        assert record[f"{operation}_status"] == ("0" if refusal else "1")
        text = record["refund_message" if operation == "refund" else "error_message"]
        assert text.startswith(refusal)
        assert bool(text) == bool(refusal)
    transaction = merchant.sandbox.ledger.transaction(order.transaction_id)
    assert (transaction.status.name, transaction.captured_amount) == (then, Decimal(captured))
    assert transaction.effects.total() == sum(not refusal for *_, refusal in steps)
    assert transaction.review_flag == steps[-1][1].get("review_flag", "")


@pytest.mark.parametrize(("operation", "limit"), [("refund", 50), ("review", 100)])
async def test_too_many_orders_are_refused(merchant: Merchant, operation: str, limit: int) -> None:
    orders = merchant.sandbox.seed(limit + 1, status="captured")
    assert await merchant.order(operation, *orders) == []
    assert {*merchant.effects(*orders, operation=operation)} == {0}
    allowed = await merchant.order(operation, *orders[1:])
    assert [record[f"{operation}_status"] for record in allowed] == ["1"] * limit


@pytest.mark.parametrize(("field", "form"), [("order_no", True), ("transaction_id", False)])
async def test_orders_are_selected(merchant: Merchant, field: str, form: bool) -> None:
    orders = merchant.sandbox.seed(5, status="captured")
    asked = ",".join([getattr(orders[3], field), "stranger", getattr(orders[1], field)])
    reply = await merchant.ask("query", {field: asked}, form=form)
    records = reply["orders_list"]
    assert [record["order_no"] for record in records] == [orders[3].order_no, orders[1].order_no]
    assert set(records[0]) == FIELDS["TransactionRecord"]
    assert (records[0]["query_result"], records[0]["payment_status"]) == ("1", "3000")
    assert re.fullmatch(r"\d{14}", records[0]["transaction_date"])
    assert "encryption_data" not in reply
    for count, status in ((100, "1"), (101, "0")):
        strangers = {field: ",".join(map(str, range(count)))}
        reply = await merchant.ask("query", strangers, form=form)
        assert (reply["return_status"], reply["orders_list"]) == (status, [])


# Payments and payouts


async def test_a_card_payment_is_authorised_each_time(merchant: Merchant) -> None:
    result = await merchant.pay({**DIRECT, "note": "<&> 🎉"})
    assert set(result) == FIELDS["DirectPaymentResult"]
    assert (result["order_status"], result["result_info"]) == ("1", "0000:success")
    assert (result["card"], result["note"]) == ("411111******1111", "<&> 🎉")
    await merchant.pay(DIRECT, form=False)
    sandbox = merchant.sandbox
    paid = [(payment.amount, payment.status) for payment in sandbox.ledger.payments_of("N-1")]
    assert paid == [(Decimal("12.30"), PaymentStatus.AUTHORISED)] * 2
    kept = repr((sandbox, list(sandbox.ledger), sandbox.requests, sandbox.faults))
    kept += await merchant.page("checkout", DIRECT)
    assert CARD not in kept
    assert not re.search(r"\b987\b", kept)  # as a number of its own: it is in many a time of day
    assert sandbox.secret not in kept
    assert (await merchant.pay({**DIRECT, "card": "12345678901"}))["card"] == "***"
    token = (await merchant.pay({**DIRECT, "token_flag": "YES"}))["token_id"]
    for given, info in ((token, "0000:success"), (token[1:], "2016:unknown token")):
        assert (await merchant.pay({**PAYMENT, "token_id": given}))["result_info"] == info


@pytest.mark.parametrize(("deduplicates", "paid"), [(False, 2), (True, 1)])
async def test_a_payout_is_paid_again_unless_deduplicated(deduplicates: bool, paid: int) -> None:
    async with merchant_of(deduplicate_payouts=deduplicates) as merchant:
        first, second = [await merchant.ask("payout", PAYOUT) for _ in range(2)]
        assert (first == second) is deduplicates
        assert len(merchant.sandbox.ledger.payouts_of(PAYOUT["request_id"])) == paid
    bank = first["beneficiary"]["bank_details"]
    assert bank == {"account_number": "1", "local_clearing_system": "SANDBOX"}
    assert (first["payer"], first["status"]) == ({"company_name": "Ünlü"}, "COMPLETED")
    assert first["request_id"] == PAYOUT["request_id"]
    assert (first["amount_beneficiary_receives"], first["amount_payer_pays"]) == (100.0, 98.1)
    assert first["fee_currency"] == "EUR"


REASONS = {"refund": "return_message", "pay": "result_info", "payout": "failure_reason"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("refund", {"merchant_id": "M2"}, "unknown merchant_id"),
    ("refund", {"encryption_data": "0" * 64}, "encryption_data does not match"),
    ("refund", {"encryption_data": "ü"}, "encryption_data does not match"),
    *(("refund", {"refund_orders": wrong}, "refund_orders") for wrong in ("[1]", "[]", "x", "5")),
    ("pay", {"card": "4000 0000 0000 9995"}, "2011:insufficient funds"),
    *(("pay", {"card": no}, "2000:not a card number") for no in ("not a card", "")),
    ("pay", {"amount": "x"}, "1000:missing or wrong: amount"),
    ("payout", {"payment_amount": "0"}, "payment_amount"),
    ("payout", {"beneficiary": "x"}, "bank_details"),
    ("payout", {"beneficiary": {"bank_details": {"account_number": "000000000"}}}, "closed"),
]


@pytest.mark.parametrize(("operation", "changes", "reason"), REFUSED)
async def test_what_is_refused_has_a_reason_and_no_effect(
    merchant: Merchant, operation: str, changes: dict[str, Any], reason: str
) -> None:
    order = one(merchant)
    refund: dict[str, Any] = {"refund_orders": [item(order)]}
    asked = {**{"refund": refund, "pay": DIRECT, "payout": PAYOUT}[operation], **changes}
    reply = await (merchant.pay(asked) if operation == "pay" else merchant.ask(operation, asked))
    assert reason in reply[REASONS[operation]]
    said = {"return_status": "0", "refund_orders": [], "order_status": "0", "status": "FAILED"}
    assert {reply[name] == value for name, value in said.items() if name in reply} == {True}
    assert merchant.effects(order) == [0]
    declined = [PaymentStatus.DECLINED] if "card" in changes else []  # what is refused is none
    assert [payment.status for payment in merchant.sandbox.ledger][1:] == declined
    assert merchant.sandbox.ledger.payouts_of(PAYOUT["request_id"]) == []


UNREADABLE = ("", "[{}]", '{"a": "1"} x', '{"a": "1", "a": "2"}', '{"a": "\\ud800"}', "[" * 100_000)


@pytest.mark.parametrize(
    ("kind", "body"), [*(("json", body) for body in UNREADABLE), ("xml", "{}")]
)
async def test_an_unreadable_body_is_refused(merchant: Merchant, kind: str, body: str) -> None:
    async with merchant.send("refund", body, kind) as response:
        assert response.status == 200
        reply = await response.json()
    assert reply["return_status"] == "0"
    assert reply["return_message"].startswith("body: " if kind == "json" else "content type: ")


# Its settings


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


def test_a_wrong_setting_is_named_at_once() -> None:
    settings: dict[str, Any] = {"secret": b"a secret", "return_url": "javascript:x"}
    for name, value in settings.items():
        with pytest.raises(ConfigurationError, match=rf"^\w+\.{name}: ") as refusal:
            Sandbox(**{name: value})
        assert "a secret" not in str(refusal.value)


def exported(said: str) -> dict[str, str]:
    """Return what the `export` lines set, as a shell reads them."""
    shell = ("/bin/sh", "-c", f"{said}\nexec env -0")
    done = subprocess.run(shell, env={}, check=True, capture_output=True, text=True)  # noqa: S603  # ours
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


@pytest.mark.slow
async def test_it_says_how_to_reach_it_and_its_file_is_one_for_the_command_line(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    shell = Shell(sandbox, tmp_path)
    serving = await shell.start("sandbox --port 0 --orders 3 --orders-csv orders.csv")
    try:
        said = await serving.stdout.readuntil(b"export GATEWAY_CONFIG")  # the last line
        said += await serving.stdout.readline()
        assert all(line.startswith(b"export GATEWAY_") for line in said.splitlines())
        variables = exported(said.decode())
        assert read_settings({}, variables).dialect == sandbox.dialect
        await shell("refund orders.csv --yes --out out.csv", env=variables)
        assert not tmp_path.with_name(f"{tmp_path.name}-state").exists()  # the journal of real jobs
    finally:
        serving.send_signal(signal.SIGINT)
    stdout, stderr = await serving.communicate()
    assert (serving.returncode, stdout) == (0, b"")
    listening = rb"sandbox listening on http://127\.0\.0\.1:\d+; in a second terminal, run:\n"
    assert re.fullmatch(listening, stderr)
    rows = shell.rows()
    assert [row["order_no"] for row in rows] == [f"S0000000{number}" for number in (1, 2, 3)]
    assert {(row["status"], row["amount"], row["refund_amount"]) for row in rows} == {
        ("succeeded", "10.00", "2.50")  # so that `--again` can be tried
    }
    assert not (tmp_path / variables["GATEWAY_CONFIG"]).exists()


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
