"""Jobs that many processes share: the journal is the truth, and a task queue wakes the workers.

Running slices on PostgreSQL needs the extra `gateway-async[journal]`; a taskiq broker needs
`gateway-async[workers]`, which has both. Importing this loads neither.
"""

from gateway_async.settings import WorkerPolicy
from gateway_async.workers.workers import SliceEnd, Workers

__all__ = ["SliceEnd", "WorkerPolicy", "Workers"]
