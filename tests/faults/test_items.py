"""Replies that can be read and do not fit the request: items missing, doubled, strange, changed."""

import json
import re
from collections.abc import Callable

import pytest

from gateway_async import (
    RecoveryPolicy,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.sandbox import faults
from tests.faults.deeds import DECLINED, SUCCEEDED, UNKNOWN, Told, Trial
from tests.support.servers import Proxy, Rewrite, body_of, with_body


@pytest.mark.parametrize("trial", ["query"], indirect=True)
async def test_a_look_up_that_ignores_what_it_was_asked_for(trial: Trial) -> None:
    """The orders are not among the hundred most recent: nothing is known of them."""
    older = trial.kind(trial.sandbox)
    trial.sandbox.seed(100)
    trial.sandbox.faults.add("query", faults.IgnoreSelection())
    async with trial.client() as gateway:
        told = await older.do(gateway)
    assert told.statuses == [UNKNOWN] * 3
    assert all(isinstance(error, ReplyUnreadableError) for error in told.errors)


def crowded(reply: bytes) -> bytes:
    """Fill a reply to a look-up of two: two records of the second, and strangers."""
    payload = json.loads(body_of(reply))
    (name,) = (name for name, value in payload.items() if isinstance(value, list))
    first, second = payload[name]
    strangers = [{**first, "order_no": f"other-{n}", "transaction_id": f"9{n}"} for n in range(97)]
    payload[name] = [first, second, {**second, "amount": "1.00"}, *strangers]
    return with_body(reply, json.dumps(payload).encode())


@pytest.mark.parametrize("trial", ["query"], indirect=True)
async def test_a_full_look_up_reply_that_may_lack_records(trial: Trial, proxy: Proxy) -> None:
    proxy.once(Rewrite(crowded))
    async with trial.client(proxy.base_url) as gateway:
        told = await trial.run_with(gateway, size=2)
    assert told.statuses == [SUCCEEDED, UNKNOWN]
    assert told.result is not None
    assert [len(outcome.items) for outcome in told.result] == [1, 2]
    assert told.result.unexpected.count == 97
    assert "may lack records" in str(told.errors[1])


# Replies that say nothing of this request

SENT = {
    *("merchant_id", "account_id", "order_no", "currency", "amount"),
    *("request_id", "payment_amount", "payment_currency"),
}


def what_was_sent(reply: bytes) -> bytes:
    """Leave of a result the fields that the request had."""
    body = body_of(reply)
    if body.startswith(b"{"):
        kept = {name: value for name, value in json.loads(body).items() if name in SENT}
        return with_body(reply, json.dumps(kept).encode())
    elements = re.finditer(rb"<(\w+)>[^<]*</\1>", body)
    echoed = b"".join(element[0] for element in elements if element[1].decode() in SENT)
    return with_body(reply, b"<respon>%s</respon>" % echoed)


@pytest.mark.parametrize("trial", ["pay_direct", "payout"], indirect=True)
async def test_a_result_that_only_repeats_what_was_sent(trial: Trial, proxy: Proxy) -> None:
    proxy.once(Rewrite(what_was_sent))
    told = await trial.run(proxy.base_url)
    assert told.status is UNKNOWN
    assert isinstance(told.error, ReplyUnreadableError)
    assert trial.effects == [1]


@pytest.mark.parametrize("trial", ["refund"], indirect=True)
async def test_the_reply_to_an_earlier_refund_of_the_same_orders(
    trial: Trial, proxy: Proxy
) -> None:
    """Before each of the two there is a search."""
    replies: list[bytes] = []

    def first_again(reply: bytes) -> bytes:
        replies.append(reply)
        return replies[1] if len(replies) == 4 else reply

    proxy.always(Rewrite(first_again))
    deed = trial.kind(trial.sandbox)
    recovery = RecoveryPolicy(record_baseline=True, hold_alike_hours=None)
    async with trial.client(proxy.base_url, recovery=recovery) as gateway:
        said: list[Told] = [await deed.do(gateway) for _ in range(2)]
    assert [told.status for told in said] == [SUCCEEDED, UNKNOWN]
    assert isinstance(said[1].error, ReplyUnreadableError)
    assert deed.effects() == [2, 2, 2]


# Echoes


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(reply: bytes) -> bytes:
        assert old in reply
        return with_body(reply, body_of(reply).replace(old, new))

    return change


ECHOES = {
    ("pay_direct", "amount"): (b"<amount>10.00<", b"<amount>10.01<", "10.00", "10.01"),
    ("pay_direct", "currency"): (b"<currency>EUR<", b"<currency>USD<", "EUR", "USD"),
    ("pay_direct", "order_no"): (b"<order_no>P-", b"<order_no>Q-", "P-", "Q-"),
    ("payout", "payment_amount"): (b'"25.00"', b'"2500"', "25.00", "2500"),
    ("payout", "payment_currency"): (b'"EUR"', b'"USD"', "EUR", "USD"),
    ("payout", "request_id"): (b'"request_id"', b'"request_id":"x","was"', "", "x"),
    ("refund", "refund_amount"): (b'"4.00"', b'"40.00"', "4.00", "40.00"),
    ("refund", "amount"): (b'"10.00"', b'"9.99"', "10.00", "9.99"),
    ("refund", "currency"): (b'"EUR"', b'"USD"', "EUR", "USD"),
    ("refund", "order_no"): (b'"order_no":"S', b'"order_no":"T', "S", "T"),
}


@pytest.mark.parametrize(
    ("trial", "field", "echo"),
    [(operation, field, echo) for (operation, field), echo in ECHOES.items()],
    indirect=["trial"],
    ids=[" ".join(key) for key in ECHOES],
)
async def test_an_echo_that_contradicts_the_request(
    trial: Trial, proxy: Proxy, field: str, echo: tuple[bytes, bytes, str, str]
) -> None:
    old, new, sent, said = echo
    proxy.once(Rewrite(replaced(old, new)))
    told = await trial.run(proxy.base_url)
    assert told.status is UNKNOWN
    assert proxy.requests == 1
    for error in told.errors:
        assert type(error) is ReplyUnreadableError
        assert field in str(error)
        assert f"was {sent}" in str(error)
        assert f"says {said}" in str(error)


SAME = {
    "pay_direct": [(b"<amount>10.00<", b"<amount> 10.0 <"), (b">EUR<", b">eur<")],
    "payout": [(b'"25.00"', b"25"), (b'"EUR"', b'"Eur"'), (b'"25.00"', b'""'), (b'"EUR"', b"null")],
    "refund": [(b'"4.00"', b"4"), (b'"EUR"', b'"eur"'), (b'"10.00"', b"null"), (b'"4.00"', b'""')],
}


@pytest.mark.parametrize(
    ("trial", "old", "new"),
    [(operation, *pair) for operation, pairs in SAME.items() for pair in pairs],
    indirect=["trial"],
)
async def test_an_echo_that_is_the_same_or_says_nothing(
    trial: Trial, proxy: Proxy, old: bytes, new: bytes
) -> None:
    proxy.once(Rewrite(replaced(old, new)))
    told = await trial.run(proxy.base_url)
    assert told.status is SUCCEEDED


# Declined


@pytest.mark.parametrize("trial", ["refund"], indirect=True)
async def test_what_the_gateway_declines_item_by_item(trial: Trial) -> None:
    """The refunds ask for 4.00 of 10.00: the third of each is above what is left."""
    deed = trial.kind(trial.sandbox)
    async with trial.client() as gateway:
        said: list[Told] = [await deed.do(gateway) for _ in range(3)]
    assert [told.status for told in said] == [SUCCEEDED, SUCCEEDED, DECLINED]
    assert all(isinstance(error, RejectedError) for error in said[-1].errors)
    assert deed.effects() == [2, 2, 2]
