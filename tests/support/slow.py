"""The marker `slow`: tests that need a server or a process of their own, or take long.

`pytest -m "not slow"` is the quick round.
"""

import os
from collections.abc import Sequence
from typing import NoReturn

import pytest

_FOLDERS = ("tests/browser/", "tests/cli/", "tests/examples/", "tests/kills/", "tests/typed/")


def missing(reason: str) -> NoReturn:
    """Skip the test that runs now, or fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def mark_slow(items: Sequence[pytest.Item]) -> None:
    """Mark tests by folder, and those that have a PostgreSQL."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        has_server = "postgres" in getattr(item, "fixturenames", ())
        if (
            item.nodeid.startswith(_FOLDERS)
            or has_server
            or any(isinstance(one, str) and one == "postgresql" for one in parameters.values())
        ):
            item.add_marker("slow")
