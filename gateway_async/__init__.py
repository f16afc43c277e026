"""An asyncio client for a merchant payment gateway, honest about every single order.

The public names are listed in `__init__.pyi` alone. The module of a name is loaded when the name is
first used: few users need payments, payouts and a journal in one process. So the command line, too,
can take a Ctrl-C while aiohttp is loaded.
"""

import ast
from importlib import import_module, resources

_MODULES = {
    alias.name: statement.module or ""
    for statement in ast.parse(resources.files(__name__).joinpath("__init__.pyi").read_text()).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # type checkers read the other file


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("gateway-async")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
