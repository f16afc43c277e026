"""Jobs: batches over a journal, which survive the process that runs them.

`batch` makes the `Batch` of a job. Its run is `run.JobRun`: the orders are kept (`submitting`), the
lease is taken, what is unknown is looked up (`recovering`), what is new is sent by a `batching` run
that tells the journal and takes its orders from there (`log`), and what is settled is told
(`telling`).
"""
