"""Batches: orders in, chunks out, one outcome an order back.

Read in this order: `statuses` (what can become of an order), `chunks` (how orders are cut),
`matching` (how a reply is judged), `outcomes` (what is kept), `batch` (what runs them).
"""
