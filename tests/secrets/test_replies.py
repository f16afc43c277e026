"""A gateway that repeats what it should keep to itself: nothing of it shows or is stored."""

import json
import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from gateway_async import (
    CaptureOrder,
    Dialect,
    GatewayClient,
    GatewayError,
    OrderRef,
    RefundOrder,
)
from gateway_async.models.values import SignatureText, mask_card
from tests.memory import QUICK, Asked, HttpResponse, MemoryTransport, client_over, rewritten
from tests.secrets.data import CARD, CODE, direct_payment, payout_request, redirect_payment
from tests.secrets.dragnet import Dragnet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Change = Callable[[dict[str, Any], str], object]

SIGNED = "a1b2c3d4e5f60718" * 4
ORDERS = [
    {"transaction_id": f"T{n}", "order_no": f"N{n}", "currency": "EUR", "amount": "10.00"}
    for n in range(3)
]


SIGNS: dict[str, Any] = {"encryption_data": SIGNED}
DEEP = {"one": [{"two": SIGNS}]}


SPACED = " ".join(CARD[n : n + 4] for n in range(0, 16, 4))
MARKS = {"encryption_data": SIGNED, "signInfo": SIGNED, "cvv": CODE, "cardNumber": CARD}


def _every(reply: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    """Return a reply each item of which says more."""
    return {**reply, name: [{**item, **more} for item in reply[name]]}


def _with(reply: dict[str, Any], name: str, *strangers: object) -> dict[str, Any]:
    """Return a reply with strangers before its items."""
    return {**reply, name: [*strangers, *reply[name]]}


def _escaped(reply: dict[str, Any], name: str) -> str:
    text = json.dumps({**_every(reply, name, **SIGNS), **SIGNS})
    return text.replace("encryption_data", r"encryption\u005fdata")


def _with_card(reply: dict[str, Any], name: str) -> object:
    marks = {"card": CARD, "securityCode": CODE, "cvv": CODE, "allParams": f"card={CARD}"}
    return _with(_every(reply, name, **marks), name, {"transaction_id": "X", **marks}, [marks])


def _quoting(said: object, status: str) -> "Change":
    """Return a change that puts a card number into every text."""
    text = f"E1:refused {said}" if isinstance(said, str) else said

    def change(reply: dict[str, Any], name: str) -> object:
        kind = name.removesuffix("_orders")
        marks = {f"{kind}_status": status, f"{kind}_message": text, "error_message": text}
        items = _every(reply, name, **marks, said={"more": text})[name][1:]
        return {**reply, "return_message": text, name: [*items, [text], {"order_no": [text]}]}

    return change


SIGNATURES: "dict[str, Change]" = {
    "in the envelope": lambda reply, _: {**reply, **SIGNS},
    "twice": lambda reply, _: (
        json.dumps({**reply, **SIGNS})[:-1] + f', "encryption_data" \n :\t "{SIGNED}"}}'
    ),
    "with quotes": lambda reply, _: {**reply, "encryption_data": f'"\\{SIGNED}"\\'},
    "in items": lambda reply, name: _every(reply, name, **SIGNS),
    "in one item": lambda reply, name: {
        **reply,
        name: [{**reply[name][0], **SIGNS}, *reply[name][1:]],
    },
    "in strangers": lambda reply, name: _with(
        reply, name, {"transaction_id": "stranger", **SIGNS}, [SIGNS], [[SIGNS]]
    ),
    "deep inside": lambda reply, name: {**_every(reply, name, more=DEEP), "more": DEEP},
    "for an amount": lambda reply, name: _every(reply, name, amount=SIGNS),
    "in statuses": lambda reply, name: {
        **_every(reply, name, capture_status=SIGNS, query_result=SIGNS),
        "return_status": SIGNS,
        "return_message": [SIGNS],
    },
    "escaped": _escaped,
    "no text": lambda reply, name: {
        **_every(reply, name, encryption_data=[SIGNED, {"v": SIGNED}]),
        "encryption_data": {"value": SIGNED},
    },
}
CARDS: "dict[str, Change]" = {
    "in fields": _with_card,
    **{f"{CARD} under {status}": _quoting(CARD, status) for status in "123"},
    "in groups": _quoting(SPACED, "1"),
    "among others": _quoting(f"12 {CARD} 0527", "2"),
    "within more digits": _quoting(f"7{CARD}99", "3"),
    "as a number": _quoting(int(CARD), "1"),
}
BATCHES: "dict[str, Callable[[GatewayClient], Any]]" = {
    "capture_orders": lambda client: client.capture([CaptureOrder(**o) for o in ORDERS]),
    "refund_orders": lambda client: client.refund(
        [RefundOrder(**o, refund_amount="1.00") for o in ORDERS]
    ),
    "orders_list": lambda client: client.query([OrderRef(order_no=o["order_no"]) for o in ORDERS]),
}


def _client(rewrite: "Callable[[Asked, HttpResponse], object]", **settings: Any) -> GatewayClient:
    """Return a client of a gateway whose replies have another body."""

    def respond(asked: Asked, reply: HttpResponse) -> HttpResponse:
        body = rewrite(asked, reply)
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        return attrs.evolve(reply, body=text.encode() if isinstance(text, str) else text)

    return client_over(MemoryTransport(rewritten(respond)), retry=QUICK, **settings)


def _changing(change: "Change", name: str) -> GatewayClient:
    dialect = Dialect(declined_statuses={"3"})
    return _client(lambda _, reply: change(json.loads(reply.body), name), dialect=dialect)


async def _catch(net: Dragnet, call: "Awaitable[object]") -> None:
    try:
        net.catch_object("result", await call, deep=True)
    except GatewayError as error:
        net.catch_error("result", error)


@pytest.mark.parametrize("change", [*SIGNATURES, *CARDS])
@pytest.mark.parametrize("name", BATCHES)
async def test_a_batch_or_page_keeps_no_secret_of_a_reply(
    net: Dragnet, change: str, name: str
) -> None:
    net.signatures.add(SIGNED)
    client = _changing((SIGNATURES | CARDS)[change], name)
    result = await BATCHES[name](client)
    async with BATCHES[name](client) as batch:
        streamed = [outcome async for outcome in batch]
    assert len(result) == len(streamed) == len(ORDERS)
    for kept in (result, streamed, result.unexpected):
        # The reply within is no secret by itself, but for its signature.
        net.catch_object("kept", kept, deep=change in SIGNATURES)
        net.catch_object("unpickled", pickle.loads(pickle.dumps(kept)), deep=True)  # noqa: S301  # our own
    for outcome in (*result, *streamed):
        net.add("outcome", f"{outcome!r}")
        for part in (outcome.record, outcome.error, outcome.reply):
            net.catch_object("part", part, deep=True)
    net.add("rows", repr(result.to_dicts()))
    if name == "orders_list" and change in SIGNATURES:
        await _catch(net, client.recent_transactions())
        await _catch(net, client.call("/v1/retrievalTrans", {"order_no": "1"}))


async def test_a_number_that_names_an_order_is_no_card_number() -> None:
    orders = [RefundOrder(**{**ORDERS[0], "order_no": CARD}, refund_amount="1.00")]
    result = await client_over(MemoryTransport()).refund(orders)
    for outcomes in (result, pickle.loads(pickle.dumps(result))):  # noqa: S301  # our own
        assert [each.record and each.record.order_no for each in outcomes] == [CARD]


async def test_a_signature_that_differs_does_not_make_an_item_another(net: Dragnet) -> None:
    def twice(reply: dict[str, Any], name: str) -> object:
        items = [{**item, "encryption_data": f"{SIGNED}{n}"} for n in "12" for item in reply[name]]
        return {**reply, name: items}

    net.signatures.add(SIGNED)
    result = await BATCHES["capture_orders"](_changing(twice, "capture_orders"))
    assert result.counts["succeeded"] == len(result.succeeded) == len(list(result.succeeded)) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"card": CARD},
        {"card": SPACED},
        {"card": f"card {CARD} is fine"},
        {"card": {"number": CARD}},
        {"risk_reasons": {"card": CARD, "name": "x"}},
        {"risk_reasons": [MARKS, MARKS]},
        *({name: MARKS} for name in ("amount", "order_no", "encryption_data", "threeds_result")),
        *(
            {name: f"0005: {said} is refused"}
            for name in ("result_info", "note", "transaction_id", "order_no", "amount")
            for said in (CARD, SPACED, SPACED.replace(" ", "-"))
        ),
    ],
)
async def test_a_payment_keeps_no_secret_of_a_reply(net: Dragnet, more: dict[str, Any]) -> None:
    net.signatures.add(SIGNED)

    def rewrite(asked: Asked, reply: HttpResponse) -> object:
        if asked.message.path == "/v1/payout":
            return {**json.loads(reply.body), **MARKS, **more}
        fields = {"order_no": "N-1", "amount": "12.30", "currency": "EUR"}
        return _xml({"respon": {**fields, **MARKS, **more}})

    client = _client(rewrite)
    await _catch(net, client.pay_direct(direct_payment()))
    if "transaction_id" not in more:  # that of a payout is kept as it came
        await _catch(net, client.payout(payout_request()))


async def test_a_signature_shows_nowhere_that_a_refusal_quotes(net: Dragnet) -> None:
    """As gateways do that say that it is wrong."""

    def refuse(asked: Asked, _: HttpResponse) -> object:
        text = f"no: {asked.fields['encryption_data']}"
        said = {"return_status": "7", "return_message": text}
        if asked.message.path != "/v1/authorise":
            return said
        return _xml({"respon": {**said, "order_no": "N-1", "result_info": text}})

    client = _client(refuse)
    for run in BATCHES.values():
        result = await run(client)
        net.catch_object("outcomes", list(result), deep=True)
        net.catch_object("errors", [outcome.error for outcome in result], deep=True)
        assert all("no: ***" in str(outcome.error) for outcome in result)
    await _catch(net, client.recent_refunds())
    await _catch(net, client.pay_direct(direct_payment()))
    await _catch(net, client.payout(payout_request()))
    await _catch(net, client.call("/v1/retrievalTrans", {"order_no": "1"}))


async def test_nothing_that_a_payment_was_sent_with_shows_of_a_reply_in_utf_16(
    net: Dragnet,
) -> None:
    def quote(asked: Asked, _: HttpResponse) -> object:
        said = f"0005: {CARD} {asked.fields['encryption_data']}"
        return _xml({"respon": {"result_info": said}}).encode("utf-16")

    result = await _client(quote).pay_direct(direct_payment())
    net.catch_object("result", result, deep=True)
    assert result.result_info == f"0005: {mask_card(CARD)} ***"


@pytest.mark.parametrize("between", [" ", ".", "\u00a0", "\t", " - ", "\u2013", "  "])
async def test_the_card_of_a_payment_is_masked_however_its_reply_groups_it(between: str) -> None:
    grouped = SPACED.replace(" ", between)

    def quote(_: Asked, __: HttpResponse) -> object:
        texts = {"note": f"no. {grouped}", "connector": CARD * 500}
        return _xml({"respon": {"result_info": "0005: no", **texts}})

    result = await _client(quote).pay_direct(direct_payment())
    assert result.note == f"no. {mask_card(CARD)}"
    assert result.connector == mask_card(CARD) * 500


async def test_a_page_keeps_the_signature_that_the_gateway_is_to_get_from_it() -> None:
    sent: list[str] = []

    def repeat(asked: Asked, _: HttpResponse) -> object:
        sent.append(asked.fields["encryption_data"])
        return f"<title>Loading</title><form><input name='signInfo' value='{sent[0]}'></form>"

    page = await _client(repeat).checkout(redirect_payment())
    assert sent[0] in page.html


def _xml(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"<element>{_xml(one)}</element>" for one in value)
    if isinstance(value, dict):
        return "".join(f"<{name}>{_xml(one)}</{name}>" for name, one in value.items())
    return str(value)


def test_a_long_signature_does_not_show_where_tools_cut_it(net: Dragnet) -> None:
    signature = SIGNED * 4
    net.signatures.add(signature)
    net.catch_object("signature", SignatureText(signature), deep=True)
    net.catch_object("in a list", [SignatureText(signature)], deep=True)
