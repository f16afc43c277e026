"""Two readings of section 4: forms with brackets, and JSON under the content type of a form."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import attrs
import pytest
from aiohttp import web

from gateway_async import (
    ApmPayment,
    Bank,
    BankAccount,
    BasicItemData,
    CartItem,
    ConfigurationError,
    Dialect,
    DirectPayment,
    GatewayClient,
    HmacSigner,
    Labels,
    Person,
    PersonDocument,
    PersonDocuments,
    Price,
    Subscription,
)
from gateway_async.operations import OPERATIONS, Operation
from gateway_async.sandbox import Sandbox
from tests.jobs.books import effects, seeded
from tests.orders import (
    MONEY_OPERATIONS,
    PAYMENT,
    client_at,
    client_of,
    direct_payment,
    made_up,
    orders_for,
    payout_request,
)
from tests.support.servers import answering

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
BRACKETS = Dialect(form_nesting="brackets")
ALL_FORMS = Dialect(
    form_nesting="brackets",
    body_formats=dict.fromkeys(("capture", "cancel", "review", "refund", "payout"), FORM),  # type: ignore[arg-type]  # its text
)
SAMPLE_HEADERS = Dialect(json_content_type=FORM)
IDENTITY = frozenset({"merchant_id", "account_id", "encryption_data"})


class Noting:
    """A signer that keeps what it signs."""

    def __init__(self) -> None:
        self.signed: list[dict[str, str]] = []

    def sign(self, operation: Operation, fields: Mapping[str, str]) -> str:
        self.signed.append(dict(fields))
        return HmacSigner("s3cret").sign(operation, fields)


class Listening:
    """A gateway that keeps what comes, and a client of it."""

    def __init__(self) -> None:
        self.signer = Noting()
        self.bodies: list[str] = []
        self.content_types: list[str] = []

    @property
    def sent(self) -> dict[str, str]:
        """The fields of the one form that came."""
        (body,) = self.bodies
        fields = parse_qsl(body, keep_blank_values=True, strict_parsing=True)
        assert len(dict(fields)) == len(fields)
        return dict(fields)

    async def _take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.text())
        self.content_types.append(request.headers["Content-Type"])
        if request.path == "/v1/authorise":
            text = "<respon><order_no>N1</order_no><order_status>1</order_status></respon>"
            return web.Response(text=text, content_type="text/xml")
        return web.json_response({"return_status": "1"})

    @asynccontextmanager
    async def client(self, dialect: Dialect) -> AsyncIterator[GatewayClient]:
        async with (
            answering(self._take) as url,
            client_at(url, signer=self.signer, dialect=dialect) as gateway,
        ):
            yield gateway

    def check_signature(self) -> None:
        """The signer was given each field as it came, by the name that it had."""
        sent = self.sent
        signature = sent.pop("encryption_data")
        assert self.signer.signed == [sent]
        assert signature == HmacSigner("s3cret").sign(OPERATIONS["pay_direct"], sent)


CART = CartItem(
    basic_item_data=BasicItemData(
        name="Tea & cake [large]",
        quantity="2",
        price=Price(amount_usd=Decimal("10.80"), currency="USD"),
    )
)


async def test_the_parts_of_a_payment_go_out_in_brackets() -> None:
    listening = Listening()
    payment = DirectPayment(
        **PAYMENT,
        token_id="tok-1",
        checkout_time=120,
        cart_items=[CART, CART],
        subscription=Subscription(contract_name="gold", billing_cycle=12),
    )
    async with listening.client(BRACKETS) as gateway:
        await gateway.pay_direct(payment)
    item = {
        "[name]": "Tea & cake [large]",
        "[quantity]": "2",
        "[price][amount_usd]": "10.80",  # digit by digit, as in JSON
        "[price][currency]": "USD",
    }
    sent = listening.sent
    signature = sent["encryption_data"]
    assert sent == {
        "merchant_id": "M1",
        "account_id": "A1",
        **PAYMENT,
        "token_id": "tok-1",
        "checkout_time": "120",
        **{f"cart_items[0][basic_item_data]{name}": text for name, text in item.items()},
        **{f"cart_items[1][basic_item_data]{name}": text for name, text in item.items()},
        "subscription[contract_name]": "gold",
        "subscription[billing_cycle]": "12",
        "encryption_data": signature,
    }
    assert "cart_items%5B0%5D%5Bbasic_item_data%5D%5Bname%5D=Tea" in listening.bodies[0]
    listening.check_signature()


async def test_the_person_of_an_apm_payment_goes_out_in_brackets() -> None:
    listening = Listening()
    account = BankAccount(account_number="77", bank=Bank(code="001"))
    documents = PersonDocuments(file_type="ID", labels=Labels(bank_account=account))
    payment = ApmPayment(
        **PAYMENT, payment_method="pix", person=Person(email="a@b.example", documents=documents)
    )
    async with listening.client(BRACKETS) as gateway:
        await gateway.pay_apm(payment)
    within = "person[documents][labels][bank_account]"
    assert {name: text for name, text in listening.sent.items() if "[" in name} == {
        "person[email]": "a@b.example",
        "person[documents][file_type]": "ID",
        f"{within}[account_number]": "77",
        f"{within}[bank][code]": "001",
    }
    listening.check_signature()


async def test_the_fields_of_a_call_go_out_in_brackets() -> None:
    listening = Listening()
    fields: dict[str, object] = {
        "plan": {"days": [1, 2.5, None, True], "none": None, "empty": []},
        "text": '{"a": 1}',
        "nothing": {},
        "count": 3,
    }
    async with listening.client(BRACKETS) as gateway:
        await gateway.call("/v1/other", fields)
    sent = listening.sent
    assert {name: sent[name] for name in sent if name not in IDENTITY} == {
        "plan[days][0]": "1",
        "plan[days][1]": "2.5",
        "plan[days][3]": "true",
        "text": '{"a": 1}',
        "count": "3",
    }
    listening.check_signature()


async def test_two_fields_of_one_name_are_refused() -> None:
    listening = Listening()
    async with listening.client(BRACKETS) as gateway:
        with pytest.raises(ConfigurationError, match="the same name in brackets; they are a, a"):
            await gateway.call("/v1/other", {"a": {"b": "1"}, "a[b]": "2"})
    assert listening.bodies == []


async def test_what_goes_out_as_json_has_no_brackets() -> None:
    listening = Listening()
    async with listening.client(BRACKETS) as gateway:
        await gateway.call("/v1/other", {"a": {"b": [1]}}, body="json")
    assert '"a":{"b":[1]}' in listening.bodies[0]
    assert listening.content_types == [JSON]


@pytest.mark.parametrize("dialect", [ALL_FORMS, SAMPLE_HEADERS], ids=["brackets", "JSON as form"])
@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_a_batch_in_each_reading(sandbox: Sandbox, operation: str, dialect: Dialect) -> None:
    orders = seeded(sandbox, 12, operation)
    async with client_of(sandbox, dialect=dialect) as gateway:
        assert (await getattr(gateway, operation)(orders)).ok
    assert effects(sandbox, orders, operation) == [1] * 12


@pytest.mark.parametrize("dialect", [ALL_FORMS, SAMPLE_HEADERS], ids=["brackets", "JSON as form"])
async def test_payouts_and_payments_in_each_reading(sandbox: Sandbox, dialect: Dialect) -> None:
    payout = payout_request()
    assert payout.beneficiary is not None
    document = PersonDocument(file_type="ID", labels=("a", "b"))
    beneficiary = attrs.evolve(payout.beneficiary, person_documents=[document])
    payout = attrs.evolve(payout, beneficiary=beneficiary)
    subscription = Subscription(contract_name="gold")
    payment = attrs.evolve(direct_payment(), cart_items=[CART], subscription=subscription)
    async with client_of(sandbox, dialect=dialect) as gateway:
        paid_out = await gateway.payout(payout)
        paid = await gateway.pay_direct(payment)
    assert paid_out.status == "COMPLETED"
    assert paid_out.beneficiary is not None
    (document,) = paid_out.beneficiary.person_documents
    assert document.labels == ("a", "b")
    assert (paid.order_status, paid.contract_name) == ("1", "gold")


@pytest.mark.parametrize("content_type", [FORM, "text/json", "application/json; charset=utf-8"])
async def test_json_under_any_content_type(content_type: Any) -> None:
    listening = Listening()
    async with listening.client(Dialect(json_content_type=content_type)) as gateway:
        await gateway.refund(orders_for("refund", made_up(1)))
        await gateway.query(orders_for("query", made_up(1)))
    refund, query = listening.bodies
    assert json.loads(refund)["refund_orders"][0]["transaction_id"] == "T000000"
    assert "transaction_id=T000000" in query
    assert listening.content_types == [content_type, FORM]
