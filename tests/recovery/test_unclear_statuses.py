"""Statuses that the dialect does not know, settled over HTTP by the gateway's own records."""

import asyncio
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    NotDoneError,
    OutcomeUnknownError,
    RecoveryPolicy,
)
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import UnknownItemStatus
from tests.orders import client_of, seeded
from tests.recovery.books import REFERENCES
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, check_books, statuses

PENDING = "P0001:Request accepted, in process"
ONE_BY_ONE = BatchPolicy(concurrency=1, chunk_size=2)
NO_SETTINGS = Dialect()


def pending_and_refused(sandbox: Sandbox) -> list[Any]:
    """Return refunds: the first is called pending and is done, the last two are refused."""
    sandbox.faults.add("refund", UnknownItemStatus("2", PENDING, count=1, times=1))
    return [*seeded(sandbox, 4), *seeded(sandbox, 2, amount="99.00")]


def client(sandbox: Sandbox, recovery: RecoveryPolicy = REFERENCES) -> Any:
    return client_of(sandbox, dialect=NO_SETTINGS, recovery=recovery, policy=ONE_BY_ONE)


def code_of(refusal: OutcomeUnknownError) -> str:
    """Return the sandbox's code of a refusal."""
    assert refusal.code.isdigit()
    assert refusal.text
    return refusal.code


async def test_a_batch_with_a_baseline_is_settled_without_any_setting(sandbox: Sandbox) -> None:
    orders = pending_and_refused(sandbox)
    async with client(sandbox) as gateway:
        result = await gateway.refund(orders)
        assert statuses(result) == [UNKNOWN, *[SUCCEEDED] * 3, UNKNOWN, UNKNOWN]
        assert "Request accepted, in process" in str(result[0].error)
        assert [outcome.record.refund_status for outcome in result.unknown] == ["2", "0", "0"]

        recovered = await gateway.recover(result)

    assert statuses(recovered) == [*[SUCCEEDED] * 4, NOT_SENT, NOT_SENT]
    check_books(sandbox, recovered)
    for before, after in zip(result[4:], recovered[4:], strict=True):
        assert isinstance(after.error, NotDoneError)
        assert isinstance(before.error, OutcomeUnknownError)
        assert (after.error.code, after.error.text) == (code_of(before.error), before.error.text)
        assert f"{before.error.code}: {before.error.text}" in str(after.error)
        assert after.reply is before.reply
    assert sandbox.requests["refund"] == 3


async def test_what_the_gateway_said_survives_the_process(sandbox: Sandbox, tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    orders, waits = pending_and_refused(sandbox), RecoveryPolicy(settle_seconds=60)
    async with Journal.open(url) as journal, client(sandbox, waits) as gateway:
        running = asyncio.ensure_future(gateway.refund(orders, job=journal.job("job")))
        unknown = 0
        while unknown < 3:
            await asyncio.sleep(0.01)  # a journal has no event for it
            jobs = await journal.jobs()
            unknown = jobs[0].counts[JobState.UNKNOWN] if jobs else 0
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        before: list[Any] = [outcome async for outcome in journal.outcomes("job")]
    assert [one.status for one in before] == [UNKNOWN, *[SUCCEEDED] * 3, UNKNOWN, UNKNOWN]
    assert "Request accepted, in process" in str(before[0].error)
    assert (before[0].error.code, before[0].error.text) == tuple(PENDING.split(":"))

    at_once = RecoveryPolicy(settle_seconds=0)
    async with Journal.open(url) as journal, client(sandbox, at_once) as gateway:
        for _ in range(2):
            result = await gateway.resume(journal.job("job"))
            assert statuses(result) == [*[SUCCEEDED] * 4, NOT_SENT, NOT_SENT]
            for outcome, unclear in zip(result.not_sent, before[4:], strict=True):
                error: Any = outcome.error
                assert isinstance(error, NotDoneError)
                assert str(error).endswith(f"; before: {unclear.error}")
                assert (error.code, error.text) == (code_of(unclear.error), unclear.error.text)
    check_books(sandbox, result)
    assert sandbox.requests["refund"] == 3
