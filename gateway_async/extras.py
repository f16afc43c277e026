"""Packages that come with an extra, imported where they are needed: without them, it is named."""

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def needed(by: str, *packages: str, install: str) -> "Iterator[None]":
    """Import within this what an extra brings.

    Args:
        by: The name of the module that cannot do without.
        packages: What is imported, by its top-level names.
        install: What brings it, as pip is told.

    Raises:
        ModuleNotFoundError: If one of them is missing, saying how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in packages:
            raise
        raise ModuleNotFoundError(
            f"{by} needs {package}: pip install {install}", name=error.name
        ) from None
