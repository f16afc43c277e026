"""Jobs: batches over a journal, which survive the process that runs them.

A job is sent like any other batch. Its orders come from the journal, and a recorder writes there.

Who calls whom, for an awaited job:

    Batch._complete            opens the run, as `job_batch` says
    BatchRunner.complete       checks a list and starts the work (`start`), waits for it, and
                               finishes; a cancellation drains before that
    JobWork.run                is the work of a job:
        JobInput.submit          stores the orders, or compares them with those that are stored
        Lease                    is taken, and renewed until the end
        JobWork._recover         looks up what is unknown
        JobWork._yield           yields what earlier runs have finished
        in rounds, as long as recovery makes orders new again:
            WorkerPool.run           sends what is new, as for any batch: `NewOrders` reads it
            JournalIntent.record     records each chunk before its first byte
            JournalRecorder.conclude records its outcomes, and then adds them
            JobWork._recover         looks up what is unknown, and holds what stays unclear
        JobWork._yield_remaining yields the rest, as the journal has it

`input` stores orders, `work` runs a job, `recorder` reads and writes its chunks.
"""

from gateway_async.jobs.input import submit_orders
from gateway_async.jobs.work import job_batch

__all__ = ["job_batch", "submit_orders"]
