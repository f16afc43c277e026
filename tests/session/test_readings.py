"""Two readings of section 4: forms with brackets, and JSON under the content type of a form."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import attrs
import pytest

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
from gateway_async.operations import REFUND, Operation
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, client_over
from tests.orders import (
    MONEY_OPERATIONS,
    PAYMENT,
    client_of,
    direct_payment,
    payout_request,
    references,
    refunds,
    seeded,
)
from tests.support.books import effects

FORM = "application/x-www-form-urlencoded"
BRACKETS = Dialect(form_nesting="brackets")
ALL_FORMS = Dialect(
    form_nesting="brackets",
    body_formats=dict.fromkeys(("capture", "cancel", "review", "refund", "payout"), FORM),  # type: ignore[arg-type]  # its text
)
READINGS = {"brackets": ALL_FORMS, "JSON as form": Dialect(json_content_type=FORM)}

CART = CartItem(
    basic_item_data=BasicItemData(
        name="Tea & cake [large]",
        quantity="2",
        price=Price(amount_usd=Decimal("10.80"), currency="USD"),
    )
)
ITEM = {
    "[name]": "Tea & cake [large]",
    "[quantity]": "2",
    "[price][amount_usd]": "10.80",  # digit by digit, as in JSON
    "[price][currency]": "USD",
}
SUBSCRIPTION = Subscription(contract_name="gold", billing_cycle=12)
DOCUMENTS = PersonDocuments(
    file_type="ID",
    labels=Labels(bank_account=BankAccount(account_number="77", bank=Bank(code="001"))),
)
FIELDS: dict[str, object] = {
    "plan": {"days": [1, 2.5, None, True], "none": None, "empty": []},
    "text": '{"a": 1}',
    "nothing": {},
    "count": 3,
}
ACCOUNT = "person[documents][labels][bank_account]"
SENT: dict[str, tuple[Callable[[GatewayClient], Any], dict[str, str]]] = {
    "a cart and a subscription": (
        lambda gateway: gateway.pay_direct(
            DirectPayment(
                **{**PAYMENT, "token_id": "tok-1", "checkout_time": 120},
                cart_items=[CART, CART],
                subscription=SUBSCRIPTION,
            )
        ),
        {
            **PAYMENT,
            "token_id": "tok-1",
            "checkout_time": "120",
            **{f"cart_items[{n}][basic_item_data]{k}": v for n in (0, 1) for k, v in ITEM.items()},
            "subscription[contract_name]": "gold",
            "subscription[billing_cycle]": "12",
        },
    ),
    "a person": (
        lambda gateway: gateway.pay_apm(
            ApmPayment(
                **PAYMENT,
                payment_method="pix",
                person=Person(email="a@b.example", documents=DOCUMENTS),
            )
        ),
        {
            **PAYMENT,
            "payment_method": "pix",
            "person[email]": "a@b.example",
            "person[documents][file_type]": "ID",
            f"{ACCOUNT}[account_number]": "77",
            f"{ACCOUNT}[bank][code]": "001",
        },
    ),
    "the fields of a call": (
        lambda gateway: gateway.call("/v1/payout", FIELDS),
        {
            "plan[days][0]": "1",
            "plan[days][1]": "2.5",
            "plan[days][3]": "true",
            "text": '{"a": 1}',
            "count": "3",
        },
    ),
}


@pytest.mark.parametrize("name", SENT)
async def test_nested_parts_go_out_in_brackets_and_are_signed_by_these_names(name: str) -> None:
    act, fields = SENT[name]
    signed: list[dict[str, str]] = []

    def sign(operation: Operation, given: Mapping[str, str]) -> str:
        signed.append(dict(given))
        return HmacSigner("s3cret").sign(operation, given)

    transport = MemoryTransport()
    await act(client_over(transport, signer=sign, dialect=BRACKETS))
    body = transport.asked[0].message.body.decode()
    pairs = parse_qsl(body, keep_blank_values=True, strict_parsing=True)
    sent = {"merchant_id": "M1", "account_id": "A1", **fields}
    assert signed == [sent]
    assert len(pairs) == len(sent) + 1
    assert dict(pairs) == {**sent, "encryption_data": HmacSigner("s3cret").sign(REFUND, sent)}
    assert "[" not in body


async def test_two_fields_of_one_name_are_refused() -> None:
    transport = MemoryTransport()
    gateway = client_over(transport, dialect=BRACKETS)
    with pytest.raises(ConfigurationError, match="the same name in brackets; they are a, a"):
        await gateway.call("/v1/payout", {"a": {"b": "1"}, "a[b]": "2"})
    assert transport.asked == []


@pytest.mark.parametrize("name", READINGS)
async def test_the_sandbox_reads_every_operation_in_each_reading(
    sandbox: Sandbox, name: str
) -> None:
    payout = payout_request()
    assert payout.beneficiary is not None
    document = PersonDocument(file_type="ID", labels=("a", "b"))
    beneficiary = attrs.evolve(payout.beneficiary, person_documents=[document])
    payment = attrs.evolve(direct_payment(), cart_items=[CART], subscription=SUBSCRIPTION)
    async with client_of(sandbox, dialect=READINGS[name]) as gateway:
        for operation in MONEY_OPERATIONS:
            orders = seeded(sandbox, 12, operation)
            assert (await gateway.batch(operation, orders)).ok
            assert effects(sandbox, orders, operation) == [1] * 12
        paid_out = await gateway.payout(attrs.evolve(payout, beneficiary=beneficiary))
        paid = await gateway.pay_direct(payment)
    assert paid_out.status == "COMPLETED"
    assert paid_out.beneficiary is not None
    (document,) = paid_out.beneficiary.person_documents
    assert document.labels == ("a", "b")
    assert (paid.order_status, paid.contract_name) == ("1", "gold")


@pytest.mark.parametrize("content_type", [FORM, "text/json", "application/json; charset=utf-8"])
async def test_json_under_any_content_type(content_type: Any) -> None:
    """What goes out as JSON has no brackets."""
    bodies: list[tuple[str, bytes]] = []

    def note(asked: Any) -> dict[str, Any]:
        bodies.append((asked.message.content_type, asked.message.body))
        return {"return_status": "1"}

    dialect = Dialect(json_content_type=content_type, form_nesting="brackets")
    gateway = client_over(MemoryTransport(note), dialect=dialect)
    await gateway.refund(refunds(1))
    await gateway.query(references(1))
    (json_type, refund), (form_type, query) = bodies
    assert (json_type, form_type) == (content_type, FORM)
    assert json.loads(refund)["refund_orders"][0]["transaction_id"] == "T000000"
    assert b"transaction_id=T000000" in query
