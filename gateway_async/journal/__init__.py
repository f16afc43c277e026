"""Durable storage of jobs, in SQLite or PostgreSQL; it needs the extra `gateway-async[journal]`.

Importing this loads no database library; entering a `Journal` does.
"""

from gateway_async.journal.job import Job, JobHead, JobStatus, SliceStatus
from gateway_async.journal.journal import Journal
from gateway_async.journal.states import JobState

__all__ = ["Job", "JobHead", "JobState", "JobStatus", "Journal", "SliceStatus"]
