import asyncio
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from defusedxml.ElementTree import fromstring
from markupsafe import escape

from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.notifier import is_loopback
from tests.sandbox.conftest import Merchant, item, sign

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CARD = "4111111111111111"
NASTY = "</script><script>x(\"&amp;' 🎉\u2028"
PAYMENT = {"order_no": "N-1", "currency": "EUR", "amount": "12.30"}
DIRECT = {**PAYMENT, "card": CARD, "expiration_month": "12", "security_code": "987"}
INPUTS = (
    *("gbc_id", "connector_code", "account_name", "webSite", "pm_id", "apm_type"),
    *("descriptor", "orderprefix", "rrtimezone", "ordernumlength", "sendbgoods"),
    *("replacename", "send_bank_website", "replace_up_id", "replace_match_address"),
    *("to_pass_page", "source_request_ip", "default_lang", "defaultLang"),
    *("verifyBillingAddress", "verify_billing_address", "merSendLogoNo", "logo_name"),
    *("gatewayNo", "order_no", "amount", "currency", "notify_url", "shopper_email"),
    *("items", "encryption_data", "open3d", "token_flag", "token_id", "price_id"),
    *("quote_id", "quote_price", "color_depth", "platform_source", "device_type"),
    *("custom", "note", "discount", "shipping", "handling", "insurance", "item_total"),
    *("tax_total", "shipping_discount", "shopper_id", "shopper_level", "first_name"),
    *("last_name", "shopper_phone", "merchant_id", "account_id", "orderNo"),
    *("orderAmount", "orderCurrency", "merNo", "signInfo", "firstName", "lastName"),
    *("email", "phone", "country", "state", "city", "zip", "address", "shipFirstName"),
    *("shipLastName", "shipCountry", "shipState", "shipCity", "shipZip", "shipAddress"),
    *("shipFee", "itemTotal", "taxTotal", "shippingDiscount", "goodsInfo", "remark"),
    *("notifyUrl", "returnUrl", "return_url", "cancelUrl", "cancel_url"),
    *("source_notify_url", "paymentToken", "cardType", "card_type", "token", "shopperId"),
    *("shopperLevel", "isOpen3D", "APMType", "payment_method", "allParams"),
)


async def pay(merchant: Merchant, fields: dict[str, Any], *, form: bool = True) -> dict[str, Any]:
    async with merchant.post("pay", fields, form=form) as response:
        assert response.status == 200
        assert response.content_type == "text/xml"
        root = fromstring(await response.text())
    assert root.tag == "respon"
    return {e.tag: {c.tag: c.text for c in e} if len(e) else e.text or "" for e in root}


@pytest.mark.parametrize("form", [True, False])
async def test_a_card_payment_is_authorised(merchant: Merchant, *, form: bool) -> None:
    result = await pay(merchant, {**DIRECT, "note": "<&> 🎉"}, form=form)
    assert set(result) == {
        *("merchant_id", "account_id", "order_no", "amount", "currency", "transaction_id"),
        *("card", "order_status", "result_info", "contract_name", "recurring_id", "note"),
        *("recurring_deduction_period", "recurring_deduction_time", "token_id", "connector"),
        *("threeds_result", "risk_action", "risk_score", "risk_reasons", "encryption_data"),
    }
    assert (result["order_status"], result["result_info"]) == ("1", "0000:success")
    assert (result["card"], result["note"]) == ("411111******1111", "<&> 🎉")
    (payment,) = merchant.sandbox.ledger.payments_of("N-1")
    assert (payment.amount, payment.status) == (Decimal("12.30"), PaymentStatus.AUTHORISED)
    assert merchant.sandbox.ledger.effects("pay_direct", result["transaction_id"]) == 1


async def test_a_payment_result_is_signed(merchant: Merchant) -> None:
    result = await pay(merchant, {**DIRECT, "note": "a\r\nb\x01 ü"})
    assert result["note"] == "a\r\nb ü"
    signature = result.pop("encryption_data")
    reasons = json.dumps(result["risk_reasons"], separators=(",", ":"))
    assert signature == sign({**result, "risk_reasons": reasons})


async def test_the_same_payment_twice_is_two_payments(merchant: Merchant) -> None:
    await pay(merchant, DIRECT)
    await pay(merchant, DIRECT)
    assert len(merchant.sandbox.ledger.payments_of("N-1")) == 2


@pytest.mark.parametrize(
    ("card", "info"),
    [
        ("4000000000000002", "2001:declined"),
        ("4000 0000 0000 9995", "2011:insufficient funds"),
        ("4100000000000019", "2015:blocked by the fraud check"),
        ("not a card", "2000:not a card number"),
    ],
)
async def test_test_cards_are_declined(merchant: Merchant, card: str, info: str) -> None:
    result = await pay(merchant, {**DIRECT, "card": card})
    assert (result["order_status"], result["result_info"]) == ("0", info)
    (payment,) = merchant.sandbox.ledger.payments_of("N-1")
    assert payment.status is PaymentStatus.DECLINED


async def test_a_token_stands_for_the_card_it_was_given_for(merchant: Merchant) -> None:
    token = (await pay(merchant, {**DIRECT, "token_flag": "YES"}))["token_id"]
    by_token = {**PAYMENT, "token_id": token}
    assert (await pay(merchant, by_token))["result_info"] == "0000:success"
    for unknown in (token[1:], "T1"):
        declined = await pay(merchant, {**by_token, "token_id": unknown})
        assert (declined["order_status"], declined["result_info"]) == ("0", "2016:unknown token")
    assert (await pay(merchant, PAYMENT))["result_info"] == "2000:not a card number"


async def test_card_data_is_kept_nowhere(merchant: Merchant) -> None:
    await pay(merchant, DIRECT)
    sandbox = merchant.sandbox
    kept = repr((sandbox, list(sandbox.ledger), sandbox.requests, sandbox.faults))
    assert CARD not in kept
    assert not re.search(r"\b987\b", kept)  # as a number of its own: it is in many a time of day
    assert sandbox.secret not in kept


async def test_a_subscription_is_described(merchant: Merchant) -> None:
    contract = {"contract_name": "monthly", "interval": "day"}
    result = await pay(merchant, {**DIRECT, "subscription": contract})
    assert (result["contract_name"], result["recurring_deduction_period"]) == ("monthly", "day")
    reply = await merchant.ask("query", {"order_no": "N-1"}, form=True)
    subscription = reply["orders_list"][0]["subscription_result"]
    assert subscription["recurring_id"] == result["recurring_id"]


@pytest.mark.parametrize("changes", [{"amount": "x"}, {"order_no": ""}, {"currency": ""}])
async def test_a_wrong_payment_is_refused(merchant: Merchant, changes: dict[str, str]) -> None:
    result = await pay(merchant, {**DIRECT, **changes})
    assert result["order_status"] == "0"
    assert next(iter(changes)) in result["result_info"]
    assert len(merchant.sandbox.ledger) == 0


# What the shopper does


@pytest.fixture
async def shop() -> "AsyncIterator[tuple[str, asyncio.Queue[dict[str, str]]]]":
    """A merchant's server that fails once and then takes notifications."""
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    failures = [503]

    async def notify(request: web.Request) -> web.Response:
        if failures:
            return web.Response(status=failures.pop())
        await told.put({name: str(value) for name, value in (await request.post()).items()})
        return web.Response()

    app = web.Application()
    app.router.add_post("/notify", notify)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("/notify")), told


async def decide(merchant: Merchant, page_url: str, choice: str) -> tuple[int, str]:
    async with merchant.http.post(
        page_url, data={"choice": choice}, allow_redirects=False
    ) as response:
        return response.status, response.headers.get("Location", "")


async def test_an_apm_payment_is_decided_by_the_shopper(
    merchant: Merchant, shop: "tuple[str, asyncio.Queue[dict[str, str]]]"
) -> None:
    notify_url, told = shop
    back = "https://shop.example/back?a=1&b=2"
    apm = {"payment_method": "boleto", "return_url": back, "notify_url": notify_url}
    result = await pay(merchant, {**PAYMENT, **apm})
    assert set(result) == {"merchant_id", "account_id", *PAYMENT, "issuer_url"}
    assert status_of(merchant) == "waiting"
    async with merchant.http.get(result["issuer_url"]) as page:
        text = await page.text()
    assert all(f'value="{choice}"' in text for choice in ("pay", "decline", "leave"))
    assert await decide(merchant, result["issuer_url"], "leave") == (303, back)
    assert status_of(merchant) == "waiting"
    assert await decide(merchant, result["issuer_url"], "pay") == (303, back)
    assert await decide(merchant, result["issuer_url"], "decline") == (303, back)
    notification = await told.get()
    signature = notification.pop("encryption_data")
    assert signature == sign(notification)
    assert (notification["order_no"], notification["order_status"]) == ("N-1", "1")
    assert status_of(merchant) == "authorised"
    capture = {**PAYMENT, "transaction_id": notification["transaction_id"]}
    reply = await merchant.ask("capture", {"capture_orders": [capture]})
    assert reply["capture_orders"][0]["capture_status"] == "1"


def status_of(merchant: Merchant) -> str:
    (payment,) = merchant.sandbox.ledger.payments_of("N-1")
    return payment.status.name.lower()


async def test_a_declined_payment_stays_declined(merchant: Merchant) -> None:
    result = await pay(merchant, {**PAYMENT, "payment_method": "boleto"})
    assert (await decide(merchant, result["issuer_url"], "decline"))[0] == 200
    assert (await decide(merchant, result["issuer_url"], "pay"))[0] == 200
    (payment,) = merchant.sandbox.ledger.payments_of("N-1")
    assert payment.status is PaymentStatus.DECLINED


async def test_no_other_machine_is_notified(merchant: Merchant) -> None:
    fields = {"payment_method": "boleto", "notify_url": "http://192.0.2.1/notify"}
    result = await pay(merchant, {**PAYMENT, **fields})
    await decide(merchant, result["issuer_url"], "pay")
    (notification,) = merchant.sandbox.notifications
    assert (notification.delivered, notification.attempts) == (False, 0)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:80/n", True),
        ("http://127.9.9.9/n", True),
        ("https://[::1]/n", True),
        ("http://localhost/n", True),
        ("http://127.0.0.1.example.com/n", False),
        ("http://localhost.example.com/n", False),
        ("http://127.0.0.1@example.com/n", False),
        ("http://[::1/n", False),
        ("ftp://127.0.0.1/n", False),
        ("", False),
    ],
)
def test_what_is_on_this_machine(url: str, *, expected: bool) -> None:
    assert is_loopback(url) is expected


async def test_the_loading_page_has_every_input_and_leads_to_the_payment_page(
    merchant: Merchant,
) -> None:
    fields = {**PAYMENT, "order_no": NASTY, "note": NASTY, "shopper_email": "a@b.c"}
    async with merchant.post("checkout", fields, form=True) as response:
        assert response.content_type == "text/html"
        page = await response.text()
    assert "<title>Loading</title>" in page
    assert page.count("</script>") == 1
    (action,) = re.findall(r'method="post" action="([^"]+)"', page)
    assert action == f"{merchant.sandbox.base_url}/v1/checkout"
    inputs = json.loads(re.findall(r"var inputs = (\{.*\});", page)[0])
    assert [name for name in INPUTS if name not in inputs] == []
    assert inputs["order_no"] == inputs["orderNo"] == inputs["remark"] == NASTY
    assert inputs["signInfo"] == inputs["encryption_data"]
    assert "shopper_email=a@b.c" in inputs["allParams"]

    body = urlencode(inputs).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with merchant.http.post(action, data=body, headers=headers) as forwarded:
        payment_page = await forwarded.text()
    assert escape(NASTY) in payment_page
    (pay_url,) = re.findall(r'action="([^"]+)"', payment_page)
    assert (await decide(merchant, pay_url, "pay"))[0] == 200
    (payment,) = merchant.sandbox.ledger.payments_of(NASTY)
    assert payment.status is PaymentStatus.AUTHORISED
    assert merchant.sandbox.requests["checkout"] == 1


async def test_a_card_never_comes_back_in_the_loading_page(merchant: Merchant) -> None:
    async with merchant.post("checkout", DIRECT, form=True) as response:
        page = await response.text()
    assert CARD not in page
    assert not re.search(r"\b987\b", page)


@pytest.mark.parametrize("page_id", ["1", "1-2", "%C3%BC"])
async def test_a_payment_page_cannot_be_guessed(merchant: Merchant, page_id: str) -> None:
    (seeded,) = merchant.sandbox.seed(1, status="waiting")
    for guess in (page_id, seeded.transaction_id, f"{seeded.transaction_id}-{page_id}"):
        status, _ = await decide(merchant, f"{merchant.sandbox.base_url}/pay/{guess}", "pay")
        assert status == 404
    transaction = merchant.sandbox.ledger.transaction(seeded.transaction_id)
    assert transaction.status is PaymentStatus.WAITING


async def test_a_wrong_checkout_is_a_page_without_a_form(merchant: Merchant) -> None:
    async with merchant.post("checkout", {**PAYMENT, "amount": "<b>"}, form=True) as response:
        page = await response.text()
    assert "amount" in page
    assert "<form" not in page
    assert len(merchant.sandbox.ledger) == 0


# Payouts

PAYOUT = {
    "request_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
    "payment_amount": "100.00",
    "payment_currency": "USD",
    "source_amount": "93.10",
    "source_currency": "EUR",
    "beneficiary": {"bank_details": {"account_number": "1", "bank_code": "B"}},
    "payer": {"company_name": "Ünlü"},
}


@pytest.mark.parametrize("form", [True, False])
async def test_a_payout_is_echoed_with_what_the_gateway_adds(
    merchant: Merchant, *, form: bool
) -> None:
    reply = await merchant.ask("payout", PAYOUT, form=form)
    bank = reply["beneficiary"]["bank_details"]
    assert bank == {"account_number": "1", "local_clearing_system": "SANDBOX"}
    assert reply["payer"] == {"company_name": "Ünlü"}
    assert reply["request_id"] == PAYOUT["request_id"]
    assert reply["status"] == "COMPLETED"
    assert (reply["amount_beneficiary_receives"], reply["amount_payer_pays"]) == (100.0, 98.1)
    assert reply["created_at"].endswith("+00:00")
    assert reply["encryption_data"]


async def test_a_payout_may_be_fixed_on_the_source_side(merchant: Merchant) -> None:
    source = {n: v for n, v in PAYOUT.items() if not n.startswith("payment_")}
    reply = await merchant.ask("payout", source)
    assert reply["status"] == "COMPLETED"
    assert "payment_amount" not in reply
    assert (reply["amount_beneficiary_receives"], reply["amount_payer_pays"]) == (93.1, 98.1)
    (paid,) = merchant.sandbox.ledger.payouts_of(str(PAYOUT["request_id"]))
    assert (str(paid.amount), paid.currency) == ("93.10", "EUR")


async def test_payouts_are_repeated_by_default(merchant: Merchant) -> None:
    await merchant.ask("payout", PAYOUT)
    await merchant.ask("payout", PAYOUT)
    assert len(merchant.sandbox.ledger.payouts_of(str(PAYOUT["request_id"]))) == 2


async def test_payouts_can_be_deduplicated(merchant: Merchant) -> None:
    async with Sandbox(deduplicate_payouts=True) as sandbox:
        other = Merchant(sandbox=sandbox, http=merchant.http)
        first, second = [await other.ask("payout", PAYOUT) for _ in range(2)]
    assert first == second
    assert len(sandbox.ledger.payouts_of(str(PAYOUT["request_id"]))) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"request_id": ""}, "request_id"),
        ({"payment_amount": "0"}, "payment_amount"),
        ({"beneficiary": "x"}, "bank_details"),
        ({"beneficiary": {"bank_details": {"account_number": "000000000"}}}, "closed"),
    ],
)
async def test_a_wrong_payout_fails(
    merchant: Merchant, changes: dict[str, Any], reason: str
) -> None:
    reply = await merchant.ask("payout", {**PAYOUT, **changes})
    assert (reply["status"], reply["failure_type"]) == ("FAILED", "UNKNOWN")
    assert reason in reply["failure_reason"]
    assert merchant.sandbox.ledger.payouts_of(str(PAYOUT["request_id"])) == []


async def test_seeded_orders_can_be_used(merchant: Merchant) -> None:
    (order,) = merchant.sandbox.seed(1, status="captured", amount="3.333", currency="KWD")
    (record,) = await merchant.refund(order, refund_amount="3.333")
    assert record["refund_status"] == "1"
    assert item(order)["amount"] == "3.333"
