"""Replies for another merchant or account than ours say nothing of our orders."""

import json
from decimal import Decimal

import pytest

from gateway_async import ApmPayment, OutcomeUnknownError, ReplyUnreadableError
from gateway_async.sandbox import Sandbox
from tests.faults.deeds import ATTEMPTS, DEEDS, SUCCEEDED, UNKNOWN, Trial, client, with_deeds
from tests.support.servers import Proxy, Rewrite, body_of, with_body

every_deed = pytest.mark.parametrize("trial", DEEDS, indirect=True)
OTHERS = [("merchant_id", "M2"), ("account_id", "A2")]


def owned(name: str, value: object) -> Rewrite:
    """Name another owner in every reply, be it JSON or XML."""

    def change(reply: bytes) -> bytes:
        body = body_of(reply)
        if body.startswith(b"{"):
            return with_body(reply, json.dumps({**json.loads(body), name: value}).encode())
        start, end = f"<{name}>".encode(), f"</{name}>".encode()
        before, _, rest = body.partition(start)
        assert rest
        return with_body(reply, before + start + str(value).encode() + end + rest.partition(end)[2])

    return Rewrite(change)


@every_deed
@pytest.mark.parametrize(("name", "other"), OTHERS)
async def test_a_reply_for_another_merchant_is_unreadable(
    trial: Trial, proxy: Proxy, name: str, other: str
) -> None:
    proxy.always(owned(name, other))
    told = await trial.run(proxy.base_url)
    assert told.status is UNKNOWN
    assert proxy.requests == trial.by_kind(read=ATTEMPTS, money=1)
    for error in told.errors:
        assert isinstance(error, ReplyUnreadableError)
        assert f"the reply is for another {name}" in str(error)
        assert repr(other) in str(error)


@with_deeds("value", [["M1"], 7, True, {"id": "M1"}])
async def test_an_owner_that_is_none_is_another(trial: Trial, proxy: Proxy, value: object) -> None:
    proxy.always(owned("merchant_id", value))
    assert (await trial.run(proxy.base_url)).status is UNKNOWN


@pytest.mark.parametrize("trial", ["query", "refund", "payout"], indirect=True)
@pytest.mark.parametrize("value", [None, "", "  ", " M1 ", [], {}])
async def test_an_owner_that_is_missing_or_empty_is_ours(
    trial: Trial, proxy: Proxy, value: object
) -> None:
    proxy.always(owned("merchant_id", value))
    assert (await trial.run(proxy.base_url)).status is SUCCEEDED


async def test_a_read_is_repeated_until_the_reply_is_ours(sandbox: Sandbox, proxy: Proxy) -> None:
    sandbox.seed(2)
    proxy.once(owned("merchant_id", "M2"))
    async with client(sandbox, proxy.base_url) as gateway:
        assert len((await gateway.recent_transactions()).records) == 2
        assert proxy.requests == 2
        proxy.always(owned("account_id", "A2"))
        with pytest.raises(ReplyUnreadableError, match="another account_id"):
            await gateway.recent_refunds()


async def test_an_apm_payment_is_unknown(sandbox: Sandbox, proxy: Proxy) -> None:
    proxy.always(owned("merchant_id", "M2"))
    payment = ApmPayment(
        order_no="A-1", currency="EUR", amount=Decimal("1.00"), payment_method="pix"
    )
    async with client(sandbox, proxy.base_url) as gateway:
        with pytest.raises(OutcomeUnknownError, match="another merchant_id"):
            await gateway.pay_apm(payment)
