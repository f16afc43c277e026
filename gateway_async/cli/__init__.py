"""The command line, `gateway-async`; it needs the extra `gateway-async[cli]`."""

import io
import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EXTRA = frozenset({"cyclopts", "rich"})
_USAGE, _UNSETTLED = 2, 3


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        arguments: What stands behind the command's name; by default the process's own arguments.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):  # `2>&-`: the next file would take its number
        if sys.stderr is not None:
            sys.stderr.write("gateway-async: a standard stream is closed; use /dev/null for it\n")
        sys.exit(_USAGE)
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error does by itself
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _load()(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = _UNSETTLED
    except Exception:  # noqa: BLE001  # of a defect, 1 would say that some orders were declined
        traceback.print_exc()
        code = _UNSETTLED
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # where that fails, the interpreter would flush again, and exit with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _load() -> "Callable[[Sequence[str]], int]":
    """Import the commands; without the extra, say what to install."""
    try:
        from gateway_async.cli.app import run
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"gateway-async: the command line needs {error.name}; "
            "install it with: pip install 'gateway-async[cli]'\n"
        )
        sys.exit(_USAGE)
    return run
