"""Every operation over real HTTP, against a gateway with books of its own; a client's life."""

import functools
import gc
import weakref
from decimal import Decimal
from typing import Any

import attrs
import pytest
from aiohttp import web

from gateway_async import (
    ApmPayment,
    BatchPolicy,
    BatchResult,
    ConfigurationError,
    DirectPayment,
    GatewayClient,
    HmacSigner,
    InvalidOrderError,
    OutcomeStatus,
    RedirectPayment,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ReturnStatus
from tests.support import examples
from tests.support.books import effects
from tests.support.examples import paid_by_card
from tests.support.memory import MemoryTransport, all_done, client_over
from tests.support.orders import (
    CARD,
    MONEY_OPERATIONS,
    PAYMENT,
    client_at,
    client_of,
    made_up,
    orders_for,
    refunds,
    seeded,
)
from tests.support.servers import answering

FORM = "application/x-www-form-urlencoded"
READINGS: dict[str, dict[str, Any]] = {
    "the usual one": {},
    "forms with brackets": {
        "form_nesting": "brackets",
        "body_formats": dict.fromkeys([*MONEY_OPERATIONS, "payout"], FORM),
    },
    "JSON under the content type of a form": {"json_content_type": FORM},
}
"""Of section 4, which the sandbox reads all."""


@pytest.mark.parametrize("reading", READINGS)
async def test_an_order_is_done_once_and_one_that_the_gateway_does_not_know_declined(
    sandbox: Sandbox, reading: str
) -> None:
    dialect = attrs.evolve(sandbox.dialect, **READINGS[reading])
    sandbox.credentials = attrs.evolve(
        sandbox.credentials, signer=HmacSigner(sandbox.secret, check_replies=True)
    )
    async with client_of(sandbox, dialect=dialect) as gateway:
        for operation in MONEY_OPERATIONS:
            orders = [*seeded(sandbox, 101, operation), *orders_for(operation, made_up(2))]
            result: BatchResult[Any, Any] = await gateway.batch(operation, orders)
            assert effects(sandbox, orders, operation) == [1] * 101 + [0] * 2
            assert sandbox.requests[operation] == (2 if operation == "review" else 3)
            for outcome in result.succeeded:
                assert getattr(outcome.record, "transaction_id", "") == outcome.order.transaction_id
            code = "2001" if operation == "refund" else "0"  # other texts come without a code
            for outcome in result[101:]:
                assert isinstance(outcome.error, RejectedError)
                assert (outcome.error.code, outcome.error.text) == (code, "unknown transaction")
        paid_out = await gateway.payout(examples.payout_request())
        paid = await gateway.pay_direct(paid_by_card())
    assert paid_out.beneficiary is not None
    assert paid_out.beneficiary.person_documents[0].labels == ("passport", "front")
    assert (paid.order_status, paid.contract_name) == ("1", "<contract_name>")


async def test_pages_list_recent_records_or_raise(sandbox: Sandbox, gateway: GatewayClient) -> None:
    seeded = sandbox.seed(130, status="captured")
    await gateway.refund(orders_for("refund", seeded))
    transactions = await gateway.recent_transactions()
    refunded = await gateway.recent_refunds()
    assert len(transactions.records) == len(refunded.records) == 100
    assert (transactions.return_status, transactions.return_message) == ("1", "OK")
    assert transactions.extra == {}
    assert (transactions.merchant_id, transactions.account_id) == ("M1", "A1")
    assert transactions.records[0].order_no == seeded[-1].order_no
    assert {record.refund_amount for record in refunded.records} == {Decimal("1.00")}
    sandbox.faults.add("*", ReturnStatus("77", "not registered"))
    for page in (gateway.recent_transactions, gateway.recent_refunds):
        with pytest.raises(RejectedError, match="not registered") as caught:
            await page()
        assert (caught.value.code, caught.value.text) == ("77", "not registered")


async def test_a_reply_without_a_list_is_no_empty_page() -> None:
    reply: dict[str, Any] = {"return_status": "1"}
    gateway = client_over(MemoryTransport(lambda _: reply))
    for reply["orders_list"] in ([], None, ""):
        assert (await gateway.recent_transactions()).records == ()
    reply["orders_list"] = "[]"
    with pytest.raises(ReplyUnreadableError, match="no list of records"):
        await gateway.recent_transactions()


async def test_payments_of_every_kind_come_back(sandbox: Sandbox, gateway: GatewayClient) -> None:
    items = "SKU-1#,#Tea#,#2#,#9.90#;#SKU-2#,#Cup#,#1#,#4.00"
    payment = DirectPayment(**PAYMENT, **CARD, items=items, token_flag="YES")
    first = await gateway.pay_direct(payment)
    (entry,) = sandbox.ledger.payments_of("N1")
    assert entry.details["items"] == items
    assert (first.order_no, first.currency, first.amount) == ("N1", "EUR", Decimal("12.50"))
    second = await gateway.pay_direct(DirectPayment(**PAYMENT, token_id=first.token_id))
    assert (first.order_status, second.order_status) == ("1", "1")
    assert second.token_id == first.token_id
    third = await gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix"))
    assert str(third.issuer_url).startswith(sandbox.base_url)
    page = await gateway.checkout(RedirectPayment(**PAYMENT))
    assert page.action == f"{sandbox.base_url}/v1/checkout"
    assert "N1" in page.html
    assert "N1" not in repr(page)


PATHS = (
    *("https://elsewhere.example/v1", "//elsewhere.example", "v1/refund", "/v1/%2e%2e/admin"),
    *("/v1/refund?x=1", "/v1\\refund", "/v1/\r\nHost: x", "/größe", 7),
)
DEEP: list[Any] = functools.reduce(lambda inner, _: [inner], range(10_000), [])
VALUES = (1.5, "\ud800", [b"x"], DEEP, Decimal("NaN"), Decimal("1E+9999"), 10**5_000)
WRONG_CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("path: ", {"path": path}) for path in PATHS),
    ("body: ", {"body": "xml"}),
    ("reply: ", {"reply": "yaml"}),
    ("repeatable: ", {"repeatable": "no"}),
    *(("field", {"fields": {name: "x"}}) for name in ("merchant_id", "")),
    *((r"fields\['a'\]", {"fields": {"a": value}}) for value in VALUES),
]


async def test_what_a_call_is_given_is_checked(sandbox: Sandbox, gateway: GatewayClient) -> None:
    for name, given in WRONG_CALLS:
        with pytest.raises(ConfigurationError, match=name):
            await gateway.call(**{"path": "/v1/x", "fields": {}, **given})
    for method in ("pay_direct", "payout"):
        with pytest.raises(InvalidOrderError, match="got RefundOrder"):
            await getattr(gateway, method)(*refunds(1))
    for name in ("adjust", "checkout"):
        with pytest.raises(ConfigurationError, match=f"one of 'query', 'capture', .*got '{name}'"):
            gateway.batch(name, refunds(1))
    assert sandbox.requests.total() == 0


# The life of a client


async def test_a_prefix_of_the_address_is_kept() -> None:
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({"return_status": "1", "orders_list": []})

    async with answering(answer) as url, client_at(f"{url}/pay/eu/") as gateway:
        await gateway.recent_transactions()
    assert paths == ["/pay/eu/v1/retrievalTrans"]


async def test_a_closed_client_refuses_every_call_and_sends_no_batch(sandbox: Sandbox) -> None:
    async with client_of(sandbox) as gateway:
        batch = gateway.refund(seeded(sandbox, 3))
    calls: Any = (
        lambda: gateway.refund([]),
        gateway.recent_transactions,
        lambda: gateway.call("/v1/x", {}),
        lambda: gateway.recover([]),
        lambda: gateway.resume(None),  # type: ignore[arg-type]  # it is not looked at
        lambda: gateway.submit("refund", [], job=None),  # type: ignore[arg-type]  # likewise
    )
    for call in calls:
        with pytest.raises(ConfigurationError, match="closed; enter it again"):
            await call()
    assert (await batch).counts[OutcomeStatus.NOT_SENT] == 3
    assert sandbox.requests.total() == 0
    async with gateway:
        assert len((await gateway.recent_transactions()).records) == 3


async def test_a_batch_that_is_over_is_not_kept_until_its_deadline() -> None:
    gateway = client_over(MemoryTransport(all_done), policy=BatchPolicy(deadline_seconds=3600))
    orders = (order for order in refunds(3))
    kept, batch = weakref.ref(orders), gateway.refund(orders)
    result = await batch
    del batch, orders
    gc.collect()
    assert result.ok
    assert kept() is None
