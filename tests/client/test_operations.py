"""Every call: over real HTTP with books of its own, with replies that leave doubt; its life.

Of what a reply leaves open, nothing is guessed.
"""

import functools
import gc
import json
import weakref
from collections.abc import Awaitable, Callable
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
    Dialect,
    DirectPayment,
    DuplicateOrderError,
    GatewayClient,
    HmacSigner,
    InvalidOrderError,
    OutcomeStatus,
    OutcomeUnknownError,
    PayoutRequest,
    RedirectPayment,
    RejectedError,
    ReplyUnreadableError,
    RetryPolicy,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import ReturnStatus
from tests.support.books import effects
from tests.support.collaborators import Verifier
from tests.support.examples import full, paid_by_card
from tests.support.memory import QUICK, Asked, MemoryTransport, client_over, respon
from tests.support.orders import (
    CARD,
    MONEY_OPERATIONS,
    PAYMENT,
    REQUEST_ID,
    client_at,
    client_of,
    direct_payment,
    made_up,
    orders_for,
    payout_request,
    references,
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
        paid_out = await gateway.payout(full(PayoutRequest))
        paid = await gateway.pay_direct(paid_by_card())
    assert paid_out.beneficiary is not None
    assert paid_out.beneficiary.person_documents[0].labels == ("passport", "front")
    assert paid.order_status == "1"


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
    gateway = client_over(lambda _: reply)
    for reply["orders_list"] in ([], None, ""):
        assert (await gateway.recent_transactions()).records == ()
    reply["orders_list"] = "[]"
    with pytest.raises(ReplyUnreadableError, match="no list of records"):
        await gateway.recent_transactions()


@pytest.mark.parametrize("status", [{}, {"return_status": None}, {"return_status": 1.5}])
async def test_a_page_without_a_return_status_is_no_refusal(status: dict[str, object]) -> None:
    reply = {"return_message": "no route", "orders_list": [], **status}
    with pytest.raises(ReplyUnreadableError, match=r"no readable return_status; .*'no route'"):
        await client_over(lambda _: reply).recent_transactions()
    lenient = Dialect(done_return_statuses={"1", ""})
    assert not (await client_over(lambda _: reply, dialect=lenient).recent_transactions()).records


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


# Replies that leave open whether a payment or payout was made

Call = Callable[[GatewayClient], Awaitable[Any]]
SINGLES: dict[str, Call] = {
    "pay_direct": lambda gateway: gateway.pay_direct(direct_payment()),
    "pay_apm": lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix")),
    "payout": lambda gateway: gateway.payout(payout_request()),
}
CALLS: dict[str, Call] = {
    **SINGLES,
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "query": lambda gateway: gateway.query(references(1)),
    "payouts": lambda gateway: gateway.payouts([payout_request()]),
    "page": lambda gateway: gateway.recent_transactions(),
}


def right(asked: Asked, **changes: Any) -> bytes:
    """Return the reply that says that all was done, with some fields changed."""
    if asked.operation.name in ("pay_direct", "pay_apm"):
        changes = {name: "" if value is None else value for name, value in changes.items()}
        return respon({**asked.fields, "order_status": "1", "transaction_id": "T1", **changes})
    return json.dumps(asked.done(**changes)).encode()


async def error_of(call: str, **changes: Any) -> tuple[Exception | None, int]:
    """Return what a call raises, or the error of a batch of one, and how often it was sent."""
    transport = MemoryTransport(lambda asked: right(asked, **changes))
    retry, error = RetryPolicy(attempts=3, first_pause_seconds=0), None
    try:
        result = await CALLS[call](client_over(transport, retry=retry))
        error = result[0].error if hasattr(result, "counts") else None
    except OutcomeUnknownError as raised:
        error = raised
    return error, len(transport.asked)


@pytest.mark.parametrize("call", CALLS)
async def test_a_reply_for_another_merchant_says_nothing(call: str) -> None:
    others: list[tuple[str, Any]] = [("merchant_id", "X2"), ("merchant_id", ["M1"])]
    for name, value in (*others, ("account_id", "X2")):
        error, sent = await error_of(call, **{name: value})
        assert isinstance(error, ReplyUnreadableError)
        assert f"the reply is for another {name}" in str(error)
        assert sent == (3 if call in ("query", "page") else 1)
    for value in (None, "", " M1 "):
        assert await error_of(call, merchant_id=value) == (None, 1)


ECHOES: list[tuple[str, str, list[object], list[object]]] = [
    ("pay_direct", "amount", ["12.51"], [" 12.5 ", "12.50", ""]),
    ("pay_direct", "currency", ["USD"], ["eur"]),
    ("pay_direct", "order_no", ["N2"], []),
    ("payout", "payment_amount", ["2500", 99], [25.0, "25.0", "", None]),
    ("payout", "payment_currency", ["USD"], ["Eur", None]),
    ("payout", "request_id", ["x"], []),
]
"""Fields that are repeated: otherwise, and alike or not at all."""


async def test_an_echo_is_compared_with_the_request() -> None:
    for call, field, others, alike in ECHOES:
        named = ("N1", None) if call == "pay_direct" else (None, payout_request().request_id)
        for value in others:
            error, sent = await error_of(call, **{field: value})
            assert type(error) is ReplyUnreadableError
            assert f"{field} was " in str(error)
            assert f"says {value}" in str(error)
            assert (error.order_no, error.request_id) == named
            assert sent == 1
        for value in alike:
            assert await error_of(call, **{field: value}) == (None, 1)


async def test_what_the_gateway_adds_to_a_payout_contradicts_nothing() -> None:
    added = {"payment_amount": "21.60", "payment_currency": "USD"}
    gateway = client_over(lambda asked: asked.done(**added))
    request = PayoutRequest(request_id=REQUEST_ID, source_amount=20, source_currency="EUR")
    assert (await gateway.payout(request)).payment_amount == Decimal("21.60")


@pytest.mark.parametrize("call", SINGLES)
async def test_a_reply_that_only_repeats_the_request_is_no_result(call: str) -> None:
    """Not even where it says why; the dialect may say that nothing was done."""

    def repeated(asked: Asked) -> bytes:
        fields = {**asked.fields, "return_status": "77", "return_message": "wrong signature"}
        return json.dumps(fields).encode() if call == "payout" else respon(fields)

    transport = MemoryTransport(repeated)
    with pytest.raises(ReplyUnreadableError, match=r"does not say.*'77'.*'wrong signature'"):
        await SINGLES[call](client_over(transport))
    dialect = Dialect(nothing_done_return_statuses={"77"})
    with pytest.raises(RejectedError, match="did nothing") as caught:
        await SINGLES[call](client_over(transport, dialect=dialect))
    assert (caught.value.code, caught.value.text) == ("77", "wrong signature")


async def test_the_same_payout_twice_is_refused_in_any_letter_case() -> None:
    payouts = [PayoutRequest(request_id=text) for text in (REQUEST_ID, REQUEST_ID.upper())]
    transport = MemoryTransport()
    for duplicates in ("reject", "serialize", "allow"):
        gateway = client_over(transport, policy=BatchPolicy(duplicates=duplicates))
        with pytest.raises(DuplicateOrderError, match="give each its own request_id"):
            await gateway.payouts(payouts)
    assert transport.asked == []


DONE = {"status": "COMPLETED"}
REFUSED = {"status": "REFUSED", "failure_reason": "used before"}
USED = {**DONE, "failure_reason": "used before"}
DIALECT = Dialect(
    payout_declined_statuses={"REFUSED"},
    pending_statuses={"PENDING"},
    nothing_done_return_statuses={"9"},
)


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({**DONE, "failure_reason": " ", "failure_type": "UNKNOWN"}, "succeeded", ""),
        ({**REFUSED, "failure_reason": "no: 1", "failure_type": "T7"}, "declined", "T7: no"),
        ({**DONE, "failure_reason": ["?"]}, "unknown", "contradict"),
        ({**DONE, "payment_amount": "9"}, "unknown", "payment_amount was 25.00"),
        ({**DONE, "return_status": "9"}, "unknown", "contradicts itself"),
        ({"status": "PENDING"}, "unknown", "not done: status 'PENDING'"),
        ({"status": "FAILED", "failure_reason": "x"}, "unknown", "payout_declined_statuses"),
        ({"transaction_id": "5"}, "unknown", "no readable status"),
        ({"return_status": "1"}, "unknown", "does not say whether it was done"),
        ({"return_status": "9", "return_message": "no"}, "declined", "did nothing"),
    ],
)
async def test_a_payouts_end_is_not_guessed(said: dict[str, Any], status: str, words: str) -> None:
    client = client_over(lambda asked: {**asked.fields, **said}, dialect=DIALECT)
    (outcome,) = await client.payouts([payout_request()])
    assert outcome.status == status
    assert words in str(outcome.error or "")
    if status == "unknown":
        assert "cannot be looked up: ask the gateway" in str(outcome.error)
        assert getattr(outcome.error, "request_id", None) == outcome.order.request_id


LOST_BEFORE = "an earlier attempt was sent and its reply lost"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (REFUSED, LOST_BEFORE),
        ({"return_status": "9"}, LOST_BEFORE),
        ({"status": "FAILED"}, "has no meaning in the Dialect"),
        (USED, "contradict each other"),
    ],
)
async def test_a_refusal_may_be_because_an_earlier_send_was_done(
    refusal: dict[str, Any], words: str
) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        if len(transport.asked) % 2:
            raise OutcomeUnknownError("the reply was lost")
        return {**asked.fields, **refusal}

    transport = MemoryTransport(answer)
    dialect = attrs.evolve(DIALECT, payout_deduplicates=True)
    client = client_over(transport, dialect=dialect, retry=QUICK)
    (outcome,) = await client.payouts([payout_request()])
    assert outcome.status is OutcomeStatus.UNKNOWN
    assert words in str(outcome.error)
    with pytest.raises(OutcomeUnknownError, match=r"lost.*; the payout .*: send it again"):
        await client.payout(payout_request())
    assert len(transport.asked) == 4


@pytest.mark.parametrize("said", [DONE, {"status": "PENDING"}])
async def test_a_payout_that_is_sent_again_and_not_refused_has_a_result(said: Any) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        if len(transport.asked) == 1:
            raise OutcomeUnknownError("the reply was lost")
        return {**asked.fields, **said}

    transport = MemoryTransport(answer)
    dialect = attrs.evolve(DIALECT, payout_deduplicates=True)
    client = client_over(transport, dialect=dialect, retry=QUICK)
    assert (await client.payout(payout_request())).status == said["status"]
    assert len(transport.asked) == 2


# The life of a client


async def test_a_prefix_of_the_address_is_kept_and_a_header_found_however_it_is_written() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path}, headers={"X-REQUEST-Id": "1"})

    async with answering(answer) as url, client_at(f"{url}/pay/eu/", signer=Verifier()) as gateway:
        reply = await gateway.call("/v1/payout", {})
    assert reply.data == {"path": "/pay/eu/v1/payout"}
    assert (reply.status, reply.headers["x-request-ID"]) == (200, "1")


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
    gateway = client_over(policy=BatchPolicy(deadline_seconds=3600))
    orders = (order for order in refunds(3))
    kept, batch = weakref.ref(orders), gateway.refund(orders)
    result = await batch
    del batch, orders
    gc.collect()
    assert result.ok
    assert kept() is None
