"""Durable storage of jobs, in SQLite or PostgreSQL; it needs the extra `gateway-async[journal]`.

Importing this loads no database library; entering a `Journal` does.

Read it from the caller down to the tables:

- `journal` and `job`: what a caller sees. `location` reads the URL.
- `store`: an open journal. What it is asked for runs as an operation on the thread of the `writer`,
  which has one connection (`engines`, `postgres`), in a transaction.
- `lease`: what a run holds of a job, or of a slice of one; it writes and reads through the same
  thread, each time under its lease.
- operations: `leases` (who may write), `importing` (orders come in; `cutting` shares them out among
  slices), `writing` (what became of a request), `deciding` (what an operator says), `slices` (which
  of them wait for somebody), `reading`.
- rows: `schema` has the tables. `stretches` says what changes of orders that are alike, and
  `redrawing` writes it. `codec` writes orders as text; `rows` makes outcomes of what was read.
- `states`: what an order can be, and how that may change: one table.
"""

from gateway_async.journal.job import Job, JobHead, JobStatus, SliceStatus
from gateway_async.journal.journal import Journal
from gateway_async.journal.states import JobState

__all__ = ["Job", "JobHead", "JobState", "JobStatus", "Journal", "SliceStatus"]
