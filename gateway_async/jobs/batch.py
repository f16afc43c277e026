"""`Batch`es whose orders are a job."""

from typing import TYPE_CHECKING, Any

from gateway_async.batching.batch import Batch, check_batch, check_size
from gateway_async.batching.feed import OrderFeed
from gateway_async.errors import ConfigurationError, JobConflictError
from gateway_async.jobs.run import JobRun
from gateway_async.jobs.submitting import submit_job
from gateway_async.journal import Job
from gateway_async.journal.rows import codec_of
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy


def job_batch(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    operation: "Operation",
    orders: object,
    job: object,
    *,
    policy: "BatchPolicy",
    recovery: "RecoveryPolicy",
) -> Batch[Any, Any]:
    """Make a batch that is kept in a journal; see `check_batch`.

    Raises:
        ConfigurationError: If `job` is none, or the operation is none of a job.
    """
    known = _checked(job)
    codec_of(operation.name)
    check_batch(operation, orders, policy)

    async def open_run() -> JobRun:
        run = JobRun(session, operation, known, orders, policy=policy, recovery=recovery)
        name = operation.name
        return run.reported(session.observer.batch(name, orders, policy, job=known.name))

    return Batch(f"{operation.name} job {known.name!r}", open_run)


def resumed_batch(
    session: "Session",
    job: object,
    *,
    policy: "BatchPolicy",
    recovery: "RecoveryPolicy",
    slice_number: int = 0,
) -> Batch[Any, Any]:
    """Make a batch of a job whose orders are in the journal, or of one of its slices.

    Raises:
        ConfigurationError: If `job` is none.
    """
    known = _checked(job)

    async def open_run() -> JobRun:
        head = await known.head()
        who = session.credentials
        if (head.merchant_id, head.account_id) != (who.merchant_id, who.account_id):
            raise JobConflictError(
                f"job {known.name!r} is of merchant_id {head.merchant_id!r}, account_id "
                f"{head.account_id!r}; this client speaks for {who.merchant_id!r}, "
                f"{who.account_id!r}",
                job=known.name,
            )
        operation = OPERATIONS[head.operation]
        check_size(operation, policy)
        run = JobRun(
            session,
            operation,
            known,
            None,
            policy=policy,
            recovery=recovery,
            slice_number=slice_number,
        )
        name = operation.name
        return run.reported(session.observer.batch(name, None, policy, job=known.name))

    part = f", slice {slice_number}" if slice_number else ""
    return Batch(f"job {known.name!r}{part}", open_run)


async def keep_orders(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    name: str,
    orders: object,
    job: object,
    *,
    policy: "BatchPolicy",
    slice_size: int,
) -> int:
    """Keep the orders of a job, cut into slices, and send nothing; return how many they are.

    Raises:
        ConfigurationError: If `job` is none, or the operation is none of a job.
        InvalidOrderError: If any order is wrong; nothing is kept.
    """
    known = _checked(job)
    operation = codec_of(name).operation
    check_batch(operation, orders, policy)
    feed = OrderFeed(operation, session.dialect, policy, orders)
    try:
        await feed.check_all()
        return await submit_job(session, operation, known, feed, slice_size=slice_size)
    finally:
        await feed.aclose()


def _checked(job: object) -> Job:
    if not isinstance(job, Job):
        raise ConfigurationError(
            f"job: expected journal.job(name) of a gateway_async Journal, got {type(job).__name__}"
        )
    return job
