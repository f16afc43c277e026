"""Durable storage of jobs, in SQLite or PostgreSQL.

PostgreSQL, and a journal of an earlier version, need the extra `gateway-async[journal]`. Importing
this loads no database library; entering a `Journal` does.

Read it from the caller down to the tables:

- `journal`: what a caller sees.
- `database`: the thread on which every action runs in a transaction. `engines`: where the journal
  is, and how it connects.
- `leases`: what a process holds of a job, or of a slice of one; it writes and reads under it.
- `submit`: how orders come in. `chunk_store`: the orders and what is known of them.
- `schema`: the tables, and `versions` from one of their versions to the next. `codec`: orders as
  text. `rows`: what is known of orders, and the outcomes of that.
- `states`: what an order can be, and how that may change: one table.
"""

from gateway_async.journal.journal import Job, Journal
from gateway_async.journal.rows import JobStatus, SliceStatus
from gateway_async.journal.states import OrderState

__all__ = ["Job", "JobStatus", "Journal", "OrderState", "SliceStatus"]
