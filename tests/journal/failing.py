"""Databases that fail at a statement or commit, as a broken disk or a lost server does."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from gateway_async.journal import Journal

CALLS = ("execute", "executemany", "commit")


@attrs.define
class Failures:
    """The statements and commits of drivers' connections that fail, by their number from 0.

    How they fail: they are "refused"; a commit is done and "in doubt"; or the file is "full".
    """

    fails: Callable[[int], bool]
    how: str = "refused"
    of: tuple[str, ...] = CALLS  # which calls are counted, and may fail
    counts: Counter[str] = attrs.field(factory=Counter)
    failed: int = 0

    def over(self, connect: Callable[[Any], Any]) -> Callable[[Any], "FailingDriver"]:
        """Return what connects as a database's engine does."""
        return lambda engine: FailingDriver(connect(engine), engine.error, self)

    def strike(self, journal: Journal) -> None:
        """Let them fail in a journal that is open."""
        database: Any = journal.database
        engine, connect = database._engine, database._engine.connect
        engine.connect = lambda: FailingDriver(connect(), engine.error, self)
        database._driver = FailingDriver(database._driver, engine.error, self)

    def call(self, failing: "FailingDriver", name: str, *given: Any) -> Any:
        call: Callable[..., Any] = getattr(failing.driver, name)
        number = sum(self.counts[each] for each in self.of)
        self.counts[name] += 1
        if name not in self.of or not self.fails(number):
            return call(*given)
        self.failed += 1
        if self.how == "refused":
            raise failing.error("disk I/O error")
        if self.how == "full":
            failing.driver.execute("PRAGMA max_page_count = 1")  # or as many as it has
            return call(*given)
        call()
        raise failing.error("the server is gone")


@attrs.frozen
class FailingDriver:
    """A driver's connection, or a cursor of it."""

    driver: Any
    error: type[Exception]
    failures: Failures

    def cursor(self) -> "FailingDriver":
        return attrs.evolve(self, driver=self.driver.cursor())

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            return functools.partial(self.failures.call, self, name)
        return getattr(self.driver, name)
