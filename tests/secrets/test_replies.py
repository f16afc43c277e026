"""A gateway that repeats what it should keep to itself: nothing of it shows or is stored."""

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    DirectPayment,
    GatewayClient,
    RecoveryPolicy,
    RedirectPayment,
    RefundOrder,
)
from gateway_async.models.values import mask_card
from tests.support.books import streamed
from tests.support.collaborators import Limiter, raising
from tests.support.dragnet import Dragnet
from tests.support.examples import CARD, SECURITY_CODE, SINGLES, full
from tests.support.memory import QUICK, Asked, HttpResponse, client_over, respon, rewritten
from tests.support.orders import LIST_FIELDS, made_up, orders_for, refunds

SIGNED = "a1b2c3d4e5f60718" * 4
SIGNS: dict[str, Any] = {"encryption_data": SIGNED}
DEEP = {"one": [{"two": SIGNS}]}
SPACED = " ".join(CARD[n : n + 4] for n in range(0, 16, 4))
MARKS = {**SIGNS, "signInfo": SIGNED, "cvv": SECURITY_CODE, "cardNumber": CARD}
ORDERS = made_up(3)
Reply = dict[str, Any]
Change = Callable[[Reply, str], object]


def _every(reply: Reply, name: str, **more: Any) -> Reply:
    """Return a reply each item of which says more."""
    return {**reply, name: [{**item, **more} for item in reply[name]]}


def _everywhere(reply: Reply, name: str) -> object:
    strangers = [{"transaction_id": "stranger", **SIGNS}, [SIGNS], [[SIGNS]]]
    said = _every(reply, name, **SIGNS, more=DEEP)
    return {**said, **SIGNS, "more": DEEP, name: [*strangers, *said[name]]}


def _beside(text: str) -> Change:
    """Return a change that puts a text, with SIGNED for the signature, behind all of a reply."""
    return lambda reply, _: f"{json.dumps(reply)[:-1]},{text.replace('SIGNED', SIGNED)}}}"


def _in_statuses(reply: Reply, name: str) -> object:
    said = _every(reply, name, amount=SIGNS, capture_status=SIGNS, query_result=SIGNS)
    return {**said, "return_status": SIGNS, "return_message": [SIGNS]}


def _with_card(reply: Reply, name: str) -> object:
    marks = {"card": CARD, "securityCode": SECURITY_CODE, "allParams": f"card={CARD}"}
    said = _every(reply, name, **marks)
    return {**said, name: [{"transaction_id": "X", **marks}, [marks], *said[name]]}


def _quoting(said: object, status: str) -> Change:
    """Return a change that puts a card number into every text."""
    text = f"E1:refused {said}" if isinstance(said, str) else said

    def change(reply: Reply, name: str) -> object:
        kind = name.removesuffix("_orders")
        marks = {f"{kind}_status": status, f"{kind}_message": text, "error_message": text}
        items = _every(reply, name, **marks, said={"more": text})[name][1:]
        return {**reply, "return_message": text, name: [*items, [text], {"order_no": [text]}]}

    return change


SIGNATURES: dict[str, Change] = {
    "nowhere but in the envelope": lambda reply, _: {**reply, **SIGNS},
    "everywhere": _everywhere,
    "twice": _beside('"encryption_data":"SIGNED", "encryption_data" \n :\t ""'),
    "in a list named twice": _beside('"items":[{"encryption_data":["SIGNED"]}],"items":[]'),
    "nested deep": _beside('"x":' + '{"encryption_data":"SIGNED","a":' * 30 + "1" + "}" * 30),
    "with escapes": lambda reply, _: {**reply, "encryption_data": f'"\\é{SIGNED}"\\'},
    "in statuses": _in_statuses,
    "no text": lambda reply, name: {
        **_every(reply, name, encryption_data=[SIGNED, {"v": SIGNED}]),
        "encryption_data": {"value": SIGNED},
    },
}
CARDS: dict[str, Change] = {
    "in fields": _with_card,
    "where a text should be": lambda reply, name: _every(
        reply, name, order_no={"cvv": SECURITY_CODE}
    ),
    "as a name": lambda reply, name: {
        **_every(reply, name, more={CARD: {SPACED: 1}}),
        name: [{CARD: 1}, [{CARD: 1}], *_every(reply, name, **{CARD: "x"})[name]],
    },
    "in groups": _quoting(SPACED, "1"),
    "within more digits": _quoting(f"7{CARD}99", "3"),
    "as a number": _quoting(int(CARD), "1"),
}


def _client(rewrite: Callable[[Asked, HttpResponse], object], **settings: Any) -> GatewayClient:
    """Return a client of a gateway whose replies have another body."""

    def respond(asked: Asked, reply: HttpResponse) -> HttpResponse:
        body = rewrite(asked, reply)
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        return attrs.evolve(reply, body=text.encode() if isinstance(text, str) else text)

    return client_over(rewritten(respond), retry=QUICK, **settings)


async def _catch(net: Dragnet, client: GatewayClient, *names: str) -> None:
    """Make single calls, and catch what comes of them."""
    calls = [SINGLES[name](client) for name in names]
    for came in await asyncio.gather(*calls, return_exceptions=True):
        net.catch("result", came)


@pytest.mark.parametrize("change", [*SIGNATURES, *CARDS])
@pytest.mark.parametrize("name", ["capture", "refund", "query"])
async def test_no_secret_of_a_reply_is_kept(net: Dragnet, change: str, name: str) -> None:
    def rewrite(_: Asked, reply: HttpResponse) -> object:
        return (SIGNATURES | CARDS)[change](json.loads(reply.body), LIST_FIELDS[name])

    net.signatures.add(SIGNED)
    client = _client(rewrite, dialect=Dialect(declined_statuses={"3"}))
    result = await client.batch(name, orders_for(name, ORDERS))
    told = await streamed(client.batch(name, orders_for(name, ORDERS)))
    assert len(result) == len(told) == len(ORDERS)
    for kept in (result, told, result.unexpected):
        # The reply within is no secret by itself, but for its signature.
        net.catch("kept", kept, deep=change in SIGNATURES)
        net.catch("unpickled", pickle.loads(pickle.dumps(kept)))  # noqa: S301  # our own
    for outcome in (*result, *told):
        net.catch("parts", [repr(outcome), outcome.record, outcome.error, outcome.reply])
    net.add("rows", repr(result.to_dicts()))
    if name == "query" and change in SIGNATURES:
        await _catch(net, client, "recent_transactions", "call for JSON")


@pytest.mark.parametrize(
    ("count", "is_lost", "limiter"),
    [
        (2, False, Limiter(leave=raising(LookupError("broke"), at=2))),  # behind the refund
        (100, True, Limiter(enter=raising(LookupError("broke"), at=6))),  # within the first look
        (2, True, Limiter(enter=raising(LookupError("broke"), at=7))),  # at the third
    ],
)
async def test_an_error_behind_a_reply_shows_no_card_that_it_quotes(
    net: Dragnet, count: int, is_lost: bool, limiter: Limiter
) -> None:
    """Such as a limiter's, whose frames hold what was read so far."""

    def quote(asked: Asked, reply: HttpResponse) -> object:
        if asked.operation.name != "refund":
            return _every(json.loads(reply.body), "refund_orders", said=CARD)
        return "{" if is_lost else _with_card(json.loads(reply.body), "refund_orders")

    client = _client(
        quote,
        limiter=limiter,
        policy=BatchPolicy(concurrency=1, chunk_size=count // 2),
        recovery=RecoveryPolicy(record_baseline=True, settle_seconds=0),
    )
    batch = client.refund(refunds(count))
    with net.raises(LookupError):
        await client.recover(await batch)
    net.add("chunks", repr(batch.result.chunks))


async def test_an_error_behind_a_cut_reply_shows_no_card_that_it_quotes(net: Dragnet) -> None:
    def fill(_: Asked, response: HttpResponse) -> object:
        reply = _every(json.loads(response.body), "orders_list", said=CARD)
        return {**reply, "return_message": CARD, "orders_list": reply["orders_list"] * 100}

    limiter = Limiter(enter=raising(LookupError("broke"), at=2))
    batch = _client(fill, limiter=limiter).query(orders_for("query", ORDERS))
    with net.raises(LookupError):
        await batch
    assert len(list(batch.result)) == len(ORDERS)


async def test_a_number_that_names_an_order_is_no_card_number() -> None:
    order = {"transaction_id": "T1", "order_no": CARD, "currency": "EUR", "amount": "10.00"}
    orders = [RefundOrder(**order, refund_amount="1.00")]
    result = await client_over().refund(orders)
    for outcomes in (result, pickle.loads(pickle.dumps(result))):  # noqa: S301  # our own
        assert [each.record and each.record.order_no for each in outcomes] == [CARD]


async def test_a_card_number_is_masked_alike_as_a_text_and_as_a_number() -> None:
    numbers = ("501800000009", CARD, f"12345{CARD}12345", "123456789015")

    def rewrite(_: Asked, response: HttpResponse) -> object:
        more = {"texts": numbers, "integers": [int(number) for number in numbers]}
        return _every(json.loads(response.body), "orders_list", **more)

    outcome, *_ = await _client(rewrite).query(orders_for("query", ORDERS))
    record: Any = outcome.record
    extra = record[0].extra
    assert extra["texts"] == ["501800**0009", mask_card(CARD), *extra["texts"][2:]]
    assert CARD not in extra["texts"][2]
    assert extra["integers"] == [*extra["texts"][:3], int(numbers[3])]


async def test_a_signature_that_differs_does_not_make_an_item_another() -> None:
    def twice(_: Asked, response: HttpResponse) -> object:
        reply, name = json.loads(response.body), "capture_orders"
        items = [{**item, "encryption_data": n} for n in "12" for item in reply[name]]
        return {**reply, name: items}

    result = await _client(twice).batch("capture", orders_for("capture", ORDERS))
    assert len(result.succeeded) == len(list(result.succeeded)) == len(ORDERS)


@pytest.mark.parametrize(
    "more",
    [
        {"card": {"number": CARD}, "risk_reasons": [MARKS, MARKS]},
        *({name: MARKS} for name in ("amount", "order_no", "encryption_data")),
        *(
            dict.fromkeys(("card", "result_info", "note", *names), f"0005: {said} is refused")
            for said in (CARD, SPACED)
            for names in ((), ("transaction_id",), ("order_no",))
        ),
    ],
)
async def test_a_payment_keeps_no_secret_of_a_reply(net: Dragnet, more: dict[str, Any]) -> None:
    net.signatures.add(SIGNED)

    def rewrite(asked: Asked, reply: HttpResponse) -> object:
        if asked.message.path == "/v1/payout":
            return {**json.loads(reply.body), **MARKS, **more}
        fields = {"order_no": "N-1", "amount": "12.30", "currency": "EUR"}
        return respon({**fields, **MARKS, **more})

    is_kept = "transaction_id" in more  # that of a payout is kept as it came
    await _catch(net, _client(rewrite), "pay_direct", *["payout"] * (not is_kept))


async def test_a_signature_shows_nowhere_that_a_refusal_quotes(net: Dragnet) -> None:
    """As gateways do that say that it is wrong."""

    def refuse(asked: Asked, _: HttpResponse) -> object:
        text = f"no: {asked.fields['encryption_data'].upper()}"
        said = {"return_status": "7", "return_message": text}
        if asked.message.path != "/v1/authorise":
            return said
        return respon({**said, "order_no": "N-1", "result_info": text})

    client = _client(refuse)
    for name in ("capture", "refund", "query"):
        result = await client.batch(name, orders_for(name, ORDERS))
        net.catch("outcomes", [*result, *(outcome.error for outcome in result)])
        assert all("no: ***" in str(outcome.error) for outcome in result)
    await _catch(net, client, "recent_refunds", "pay_direct", "payout", "call for JSON")


WRITTEN = (
    *(SPACED.replace(" ", between) for between in ("", " ", "\u00a0", " - ", "\u2013")),
    *(f"{CARD[:6]}{gap}{CARD[6:]}" for gap in ("<!-- 9 -->", "<?a 9?>", "<![CDATA[-]]>")),
    "".join(f"&#{ord(digit)};" for digit in CARD),
)


@pytest.mark.parametrize("written", WRITTEN)
async def test_the_card_of_a_payment_is_masked_however_it_is_written(
    net: Dragnet, written: str
) -> None:
    def quote(asked: Asked, _: HttpResponse) -> object:
        info = f"0005: {written} {asked.fields['encryption_data']}"
        more = {"note": written, "new": [written, CARD], "connector": CARD * 500}
        return respon({"result_info": info, **more}).decode().encode("utf-16")

    result = await _client(quote).pay_direct(full(DirectPayment))
    net.catch("result", result)
    assert (result.note, result.connector) == (mask_card(CARD), mask_card(CARD) * 500)
    assert result.result_info == f"0005: {mask_card(CARD)} ***"
    assert result.extra == {"new": {"element": [mask_card(CARD)] * 2}}


async def test_a_page_keeps_the_signature_that_the_gateway_is_to_get_from_it() -> None:
    sent: list[str] = []

    def repeat(asked: Asked, _: HttpResponse) -> object:
        sent.append(asked.fields["encryption_data"])
        return f"<title>Loading</title><form><input name='signInfo' value='{sent[0]}'></form>"

    page = await _client(repeat).checkout(full(RedirectPayment))
    assert sent[0] in page.html
