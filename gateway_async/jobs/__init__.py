"""Jobs: batches over a journal, which survive the process that runs them.

A job is sent like any other batch; its orders come from the journal (`NewOrders`), and a recorder
writes to it. Its orders are stored first. Then, under its lease: what is unknown is looked up, what
is final already is yielded, what is new is sent, and what is still unknown is looked up once more.

An order leaves only after its intent is durable, and only while the lease is ours; its outcome is
yielded only after it is durable. What succeeded or was declined is yielded at once, the rest at the
end, under the lease: while another process has the job, nothing of it is called `not_sent`.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from gateway_async.batching.batch import Batch, check_batch, check_size
from gateway_async.batching.runner import BatchRunner
from gateway_async.jobs.job_feed import JobInput
from gateway_async.jobs.work import JobWork
from gateway_async.journal import Job
from gateway_async.journal.codec import job_operation
from gateway_async.operations import OPERATIONS
from gateway_async.settings import expect

if TYPE_CHECKING:
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy


def job_batch(  # noqa: PLR0913  # what is sent, and how
    session: "Session",
    job: Job,
    policy: "BatchPolicy",
    *,
    operation: "Operation | None" = None,
    orders: object = None,
    slice_number: int = 0,
) -> Batch[Any, Any]:
    """Make a batch of a job, or of one of its slices.

    Args:
        session: The way to the gateway.
        job: The job.
        policy: How it is sent.
        operation: The operation; None, as the orders, where the journal has them.
        orders: The orders, to be stored first; see `check_batch`.
        slice_number: Which slice; 0 for all of a job that has none.

    Raises:
        ConfigurationError: If `job` is no `Job`, or the operation cannot be one.
    """
    job = expect("job", job, Job)
    name = f"job {job.name!r}"
    if operation is not None:
        operation = job_operation(operation.name)
        name = f"{operation} {name}"
        check_batch(operation, orders, policy)

    async def open_run() -> BatchRunner:
        known = operation or OPERATIONS[(await job.head()).operation]
        check_size(known, policy)
        run = BatchRunner(session, known, policy)
        given = None if orders is None else JobInput(session, known, policy, job, orders)
        run.work = JobWork(run, job, given, slice_number)
        return run.reported(session.instrumentation.batch(known.name, orders, policy, job=job.name))

    return Batch(name, open_run)


async def submit_orders(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    name: str,
    orders: object,
    job: Job,
    *,
    policy: "BatchPolicy",
    slice_size: int,
) -> int:
    """Keep the orders of a job, cut into slices, and send nothing; return how many they are.

    Raises:
        ConfigurationError: If `job` is no `Job`, or the operation cannot be one.
        InvalidOrderError: If any order is wrong; nothing is stored.
    """
    job, operation = expect("job", job, Job), job_operation(name)
    check_batch(operation, orders, policy)
    async with aclosing(
        JobInput(session, operation, policy, job, orders, slice_size=slice_size)
    ) as given:
        await given.check()
        return await given.submit()
