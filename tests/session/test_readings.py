"""Two readings of section 4: forms with brackets, and JSON under the content type of a form."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway_async import ConfigurationError, Dialect, HmacSigner
from gateway_async.operations import REFUND, Operation
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, client_over
from tests.models import examples
from tests.orders import MONEY_OPERATIONS, client_of, references, refunds, seeded
from tests.support.books import effects
from tests.support.calls import paid_by_card

FORM = "application/x-www-form-urlencoded"
BRACKETS = Dialect(form_nesting="brackets")
ALL_FORMS = Dialect(
    form_nesting="brackets",
    body_formats=dict.fromkeys(("capture", "cancel", "review", "refund", "payout"), FORM),  # type: ignore[arg-type]  # its text
)
READINGS = {"brackets": ALL_FORMS, "JSON as form": Dialect(json_content_type=FORM)}


async def test_nested_fields_go_out_in_brackets_and_are_signed_by_these_names() -> None:
    signed: list[dict[str, str]] = []

    def sign(operation: Operation, given: Mapping[str, str]) -> str:
        signed.append(dict(given))
        return HmacSigner("s3cret").sign(operation, given)

    transport = MemoryTransport()
    fields: dict[str, object] = {
        "plan": {"days": [1, 2.5, None, True], "none": None, "empty": []},
        "text": '{"a": 1}',
        "nothing": {},
        "count": 3,
    }
    await client_over(transport, signer=sign, dialect=BRACKETS).call("/v1/payout", fields)
    sent = {
        "merchant_id": "M1",
        "account_id": "A1",
        "plan[days][0]": "1",
        "plan[days][1]": "2.5",
        "plan[days][3]": "true",
        "text": '{"a": 1}',
        "count": "3",
    }
    (asked,) = transport.asked
    assert signed == [sent]
    assert asked.fields == {**sent, "encryption_data": HmacSigner("s3cret").sign(REFUND, sent)}
    assert b"[" not in asked.message.body


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
    async with client_of(sandbox, dialect=READINGS[name]) as gateway:
        for operation in MONEY_OPERATIONS:
            orders = seeded(sandbox, 12, operation)
            assert (await gateway.batch(operation, orders)).ok
            assert effects(sandbox, orders, operation) == [1] * 12
        paid_out = await gateway.payout(examples.payout_request())
        paid = await gateway.pay_direct(paid_by_card())
    assert paid_out.status == "COMPLETED"
    assert paid_out.beneficiary is not None
    assert paid_out.beneficiary.person_documents[0].labels == ("passport", "front")
    assert (paid.order_status, paid.contract_name) == ("1", "<contract_name>")


@pytest.mark.parametrize("content_type", [FORM, "text/json", "application/json; charset=utf-8"])
async def test_json_under_any_content_type(content_type: Any) -> None:
    """What goes out as JSON has no brackets."""
    transport = MemoryTransport(lambda _: {"return_status": "1"})
    dialect = Dialect(json_content_type=content_type, form_nesting="brackets")
    gateway = client_over(transport, dialect=dialect)
    await gateway.refund(refunds(1))
    await gateway.query(references(1))
    refund, query = (asked.message for asked in transport.asked)
    assert (refund.content_type, query.content_type) == (content_type, FORM)
    assert json.loads(refund.body)["refund_orders"][0]["transaction_id"] == "T000000"
    assert b"transaction_id=T000000" in query.body
