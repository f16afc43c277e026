"""Batches: orders in, chunks out, one outcome an order back.

Read it from the caller down to the gateway, and back:

- `batch`: `Batch`, which is awaited, or streamed. It opens a run, and knows no request.
- `lifecycle`: how any run waits, drains and ends. `running` has the `Run` of orders from an input;
  `jobs.run` that of a job, which has a `Run` of its own for what it sends.
- `running`: its workers. Each takes chunks from the intake, one after the other, and has the
  sender send them, until the input ends or something stops all of them.
- `intake`: orders are pulled (`sources`), checked (`plans`: a row an operation), written (`sheets`)
  and cut into chunks (`chunks`).
- `sending`: the `Sender` of one chunk tells the journal (`log`) that it leaves, makes the call, has
  the reply judged, tells the journal what came of it, and records that as a block.
- below: `attempts` makes the call and repeats what may be; `session` signs, writes and reads;
  `gate` says whether anything may leave; `transport` sends it, and knows whether anything left.
- `matching`: what the reply says of each order, by identity.
- `outcomes`: blocks, which keep what became of a chunk, and the `Outcome`s that are made of them.
- `tally` counts blocks as they come; `results` is what the caller reads in the end.
- `statuses` and `markers` are words that all of them share.

Only `batch`, `lifecycle`, `running`, `intake`, `sources` and `sending` know an event loop.
"""
