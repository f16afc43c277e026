"""A name belongs to one job: whatever else is asked of it is refused, and nothing is sent."""

from typing import Any

import attrs
import pytest

from gateway_async import ConfigurationError, Credentials, GatewayClient, HmacSigner
from gateway_async.errors import JobConflictError, JobNotFoundError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.rows import Merchant
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.jobs.books import counts, streamed
from tests.journal.tables import Tables, on_a_file
from tests.orders import LOOK_UPS, Make, make_client, references, seeded


async def _refused(batch: Any, said: str) -> None:
    with pytest.raises(JobConflictError, match=said) as caught:
        await batch
    assert caught.value.job == "job"


async def test_other_orders_or_subject(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    given, job = seeded(sandbox, 4), journal.job("job")
    await make().refund(given, job=job)
    sandbox.requests.clear()
    more = seeded(sandbox, 1)
    for orders, said in (
        (given[:3], "it has 4 in all, and 3 were given"),
        (given + more, "more were given"),
        (given[:3] + more, "which differs in "),
        (given[::-1], "its order 0 is .*which differs in "),
        (
            [*given[:3], attrs.evolve(given[3], refund_amount="2.00")],
            "which differs in refund_amount;",
        ),
        (
            [*given[:3], attrs.evolve(given[3], refund_reason="torn")],
            "which differs in refund_reason;",
        ),
        ([], "and 0 were given"),
        (iter(given[:3]), "it has 4 in all, and 3"),
    ):
        refused = f"{said}.*sent again"
        await _refused(make().refund(orders, job=job), refused)
    captures = seeded(sandbox, 4, "capture")
    await _refused(make().capture(captures, job=job), "operation is 'refund'")
    batch = make().refund(given[1:], job=job)
    await _refused(streamed(batch), "which differs in ")
    assert sum(batch.result.counts.values()) in {0, 3}
    credentials = Credentials(merchant_id="M2", account_id="A1", signer=HmacSigner("x"))
    async with GatewayClient(sandbox.base_url, credentials) as stranger:
        await _refused(stranger.refund(given, job=job), "merchant_id is 'M1'")
        await _refused(stranger.resume(job), "'M2'")
    assert sandbox.requests.total() == 0
    assert await counts(journal) == {OrderState.SUCCEEDED: 4}


@pytest.mark.parametrize("sends", [False, True], ids=["kept", "in doubt"])
async def test_another_gateway(
    make: Make, journal: Journal, tables: Tables, sandbox: Sandbox, sends: bool
) -> None:
    orders, first = seeded(sandbox, 2), make()
    job, number = journal.job("job"), 0 if sends else 1
    async with Sandbox() as elsewhere, make_client(elsewhere) as other:
        if sends:
            sandbox.faults.add("refund", DropReply(times=1))
            await first.refund(orders, job=job)
            tables.put(state="unknown")
        else:
            await first.submit("refund", orders, job=job, slice_size=2)
        before = tables.snapshot()
        with pytest.raises(JobConflictError) as caught:
            await other.resume(job, slice_number=number)
        assert first.gateway in str(caught.value)
        assert other.gateway in str(caught.value)
        await _refused(other.refund(orders, job=job), "its gateway is")
        assert await journal.claim_due(Merchant("M1", "A1", other.gateway), 60) == []
        assert tables.snapshot() == before
        assert elsewhere.requests.total() == 0
    tables.run("UPDATE gateway_jobs SET gateway = ''")  # of an earlier version: the next client's
    assert (await make().resume(job, slice_number=number)).ok
    assert (await job.head()).gateway == first.gateway


@on_a_file
async def test_what_is_no_job(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    gateway: Any = make()
    for job in ("job", 7):
        for begin in (lambda job: gateway.refund(seeded(sandbox), job=job), gateway.resume):
            with pytest.raises(ConfigurationError, match="job: expected Job, got "):
                begin(job)
    for operation in LOOK_UPS:
        with pytest.raises(TypeError, match="job"):
            getattr(gateway, operation)(references(1), job=None)
    with pytest.raises(JobNotFoundError, match="'job'"):
        await gateway.resume(journal.job("job"))
