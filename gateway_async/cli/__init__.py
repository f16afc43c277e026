"""The command line, `gateway-async`; it needs the extra `gateway-async[cli]`."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXTRA = frozenset({"cyclopts", "rich"})
_USAGE, _STOPPED = 2, 3


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        arguments: What stands behind the command's name; by default the process's own arguments.
    """
    try:
        from gateway_async.cli.app import run  # noqa: PLC0415  # the extra may not be installed
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"gateway-async: the command line needs {error.name}; "
            "install it with: pip install 'gateway-async[cli]'\n"
        )
        sys.exit(_USAGE)
    except KeyboardInterrupt:
        sys.exit(_USAGE)
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = _STOPPED
    _give_up_what_nobody_reads()
    sys.exit(code)


def _give_up_what_nobody_reads() -> None:
    """Flush standard error; where that fails, the interpreter would fail too, and exit with 120."""
    try:
        sys.stderr.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)
