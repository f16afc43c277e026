"""Names of columns: which one was meant by a name that is not known, or written otherwise. Pure."""

import difflib
import functools
from typing import TYPE_CHECKING, Any

from gateway_async.cli.cells import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIKE = 0.82
_APART = str.maketrans("", "", "_-. ")


@functools.lru_cache(maxsize=4096)
def likely(name: str, names: tuple[str, ...]) -> str | None:
    """Return which of the names is likely meant by one, whatever its case and its `_`."""
    by_core = {_core(one): one for one in names}
    found = difflib.get_close_matches(_core(name), by_core, n=1, cutoff=_ALIKE)
    return by_core[found[0]] if found else None


def written(cells: "Mapping[str, Any]", column: str) -> str:
    """Return a cell that a command wrote, whatever became of the case of its column since."""
    texts = (to_text(cells[name]).strip() for name in _spellings(column, tuple(cells)))
    return next(filter(None, texts), "")


@functools.lru_cache(maxsize=4096)
def _spellings(column: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name.strip().lower() == column)


def _core(name: str) -> str:
    return name.lower().translate(_APART)
