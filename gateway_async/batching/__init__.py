"""Batches: orders in, chunks out, one outcome an order back.

The way of an order: `batch.Batch` is awaited or streamed, and opens a `runner.BatchRunner`, whose
orders a `runner.WorkerPool` sends. Each of its workers takes a chunk from the `feed`, looks up its
earlier refunds where asked to (`earlier`), and gives it to the `sender`. That has the session send
it, and the reply judged: at a `glance`, or by `judge`. `chunks` keeps the outcomes of a chunk,
`results` those of a batch, `table` makes rows of them. The recorder of a job writes to its journal
before the first byte of a chunk, and before its outcomes are seen; that of a batch records nothing.

Who calls whom, for an awaited batch:

    Batch._complete            opens the run: `plain_batch` says how, or `job_batch` for a job
    BatchRunner.complete       checks a list and starts the work (`start`), waits for it, and
                               finishes; a cancellation drains before that
    WorkerPool.run             is the work of a batch: it starts the workers
    WorkerPool._work           is each worker, in a loop:
        OrderFeed.fill, take     pull, check and encode orders: a `Chunk`
        look_up_earlier          only for refunds whose earlier ones are looked up
        Sender.send              has `Attempts.run` call back: `_request` writes, `_read` judges
        Recorder.conclude        adds the outcomes; in a job, once they are recorded
    WorkerPool._add_and_release  gets an `AnsweredChunk` or `FailedChunk`; both are `ChunkResult`s
    BatchRunner.add            has `Results` count and keep it; in a job, `JobWork._add_chunk` does

Read `batch`, `runner`, `feed` and `sender` in this order; `chunks` and `results` say what comes
out. `judge` decides on replies, and needs none of these. `earlier` matters for looked-up refunds
alone.
"""
