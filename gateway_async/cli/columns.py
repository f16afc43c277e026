"""Names of columns: which one was meant by a name that is not known. Pure."""

import difflib
import functools

_ALIKE = 0.82
_APART = str.maketrans("", "", "_-. ")


@functools.lru_cache(maxsize=4096)
def likely(name: str, names: tuple[str, ...]) -> str | None:
    """Return which of the names is likely meant by one, whatever its case and its `_`."""
    by_core = {_core(one): one for one in names}
    found = difflib.get_close_matches(_core(name), by_core, n=1, cutoff=_ALIKE)
    return by_core[found[0]] if found else None


def _core(name: str) -> str:
    return name.lower().translate(_APART)
