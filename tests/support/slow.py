"""The marker `slow`: tests that need a server or a process of their own, or take long.

`pytest -m "not slow"` is the quick round. A test that is not marked, and starts a process or asks
a server for something, fails with what to do, so that the round stays quick.
"""

import os
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

_NEEDS = {
    "subprocess.Popen": "starts a process",
    "os.fork": "starts a process",
    "os.posix_spawn": "starts a process",
    "tests.server": "needs a server",
}
_FOLDERS = ("tests/browser/", "tests/cli/", "tests/examples/", "tests/kills/", "tests/typed/")
_FIXTURES = {"postgres"}
_PARAMETER = "postgresql"


def server_is_used(name: str) -> None:
    """Note that the test which runs now needs a server."""
    sys.audit("tests.server", name)


def missing(reason: str) -> NoReturn:
    """Skip the test that runs now, or fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class SlowMarker:
    """A plugin that marks tests by folder, fixture and parameter, and watches the others."""

    def __init__(self) -> None:
        self._watched = ""
        sys.addaudithook(self._check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            call = getattr(item, "callspec", None)
            parameters = call.params.values() if call is not None else ()
            if (
                item.nodeid.startswith(_FOLDERS)
                or _FIXTURES.intersection(getattr(item, "fixturenames", ()))
                or any(isinstance(one, str) and one == _PARAMETER for one in parameters)
            ):
                item.add_marker("slow")
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # the longest first

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._watched = "" if item.get_closest_marker("slow") else item.nodeid
        try:
            return (yield)
        finally:
            self._watched = ""

    def _check(self, event: str, _: tuple[object, ...]) -> None:
        if event in _NEEDS and self._watched:
            raise RuntimeError(f"{self._watched} {_NEEDS[event]}: mark it `pytest.mark.slow`")
