"""Batches: orders in, chunks out, one outcome an order back.

The way of an order: `batch.Batch` is awaited or streamed, and opens a `runner.BatchRunner`, whose
orders a `runner.WorkerPool` sends. Each of its workers takes a chunk from the `feed`, looks up its
earlier refunds where asked to (`baseline`), and gives it to the `sender`. That has the session send
it, and the reply judged: at a `glance`, or by `judge`. `chunks` keeps the outcomes of a chunk,
`results` those of a batch, `table` makes rows of them. The recorder of a job writes to its journal
before the first byte of a chunk, and before its outcomes are seen; that of a batch records nothing.
"""
