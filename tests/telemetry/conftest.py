"""The journal and the clients of the tests of jobs."""

from tests.jobs.conftest import make
from tests.journal.conftest import journal, postgres, url

__all__ = ["journal", "make", "postgres", "url"]
