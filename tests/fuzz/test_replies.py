"""Whatever a gateway answers comes to outcomes, or to an error of ours."""

import asyncio
import pickle
from collections import Counter
from random import Random

import pytest

from gateway_async import BatchPolicy, CheckoutPage, GatewayError, Reply
from tests.fuzz.conftest import times
from tests.fuzz.mutations import wild
from tests.support.calls import SINGLES
from tests.support.memory import QUICK, MemoryTransport, client_over, rewritten
from tests.support.orders import LOOK_UPS, MONEY_OPERATIONS, made_up, orders_for

ORDERS = made_up(5)


@pytest.mark.parametrize("name", [*MONEY_OPERATIONS, *LOOK_UPS])
async def test_a_batch_ends_in_one_outcome_an_order(name: str) -> None:
    random = Random(name)
    for _ in range(times(30)):
        transport = MemoryTransport(rewritten(lambda _, right: wild(random, right)))
        policy = BatchPolicy(chunk_size=3, concurrency=1)
        client = client_over(transport, retry=QUICK, policy=policy)
        result = await client.batch(name, orders_for(name, ORDERS))
        assert [outcome.index for outcome in result] == list(range(len(ORDERS)))
        counts = {status: count for status, count in result.counts.items() if count}
        assert Counter(outcome.status for outcome in result) == counts
        for status, count in result.counts.items():
            view = getattr(result, status.value)
            assert len(view) == len(list(view)) == count
        for outcome in result:
            assert outcome.error is None or isinstance(outcome.error, GatewayError)
            assert (outcome.error is None) == (outcome.status in ("succeeded", "absent"))
            assert len(str(outcome.error)) < 10_000
            repr((outcome, outcome.record))
        assert name in LOOK_UPS or max(transport.effects.values(), default=0) <= 1


@pytest.mark.parametrize("name", [name for name in SINGLES if name != "payouts"])
async def test_a_single_call_gives_a_result_or_an_error_of_ours(name: str) -> None:
    random = Random(name)
    for _ in range(times(40)):
        transport = MemoryTransport(rewritten(lambda _, right: wild(random, right)))
        call = SINGLES[name](client_over(transport, retry=QUICK))
        made: object = (await asyncio.gather(call, return_exceptions=True))[0]
        if isinstance(made, BaseException):
            assert isinstance(made, GatewayError)
            assert len(str(made)) < 10_000
            assert made.__context__ is None
        assert repr(made)
        if not isinstance(made, CheckoutPage | Reply):  # these may repeat the signature, and refuse
            assert type(pickle.loads(pickle.dumps(made))) is type(made)  # noqa: S301  # our own
