"""Batches: orders in, chunks out, one outcome an order back.

The way of an order: `batch.Batch` is awaited or streamed, and opens a `runner.BatchRunner`. Each of
its workers takes a chunk from the `feed`, has the session send it, and has the reply judged, at a
`glance` or by `judge`; `results` keeps the outcomes.
"""
