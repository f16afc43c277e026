"""The command line, `gateway-async`; it needs the extra `gateway-async[cli]`."""

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from gateway_async.errors import require_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRONG, _UNSETTLED = 2, 3  # as in `console.Exit`, which needs the extra


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        arguments: What stands behind the command's name; by default the process's own arguments.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):  # `2>&-`: the next file would take its number
        if sys.stderr is not None:
            sys.stderr.write("gateway-async: a standard stream is closed; use /dev/null for it\n")
        sys.exit(_WRONG)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until `stoppable` takes both
    code = _WRONG
    try:
        with require_extra("the command line", "cyclopts", "rich", install="'gateway-async[cli]'"):
            from gateway_async.cli.app import run
        code = _UNSETTLED
        code = run(sys.argv[1:] if arguments is None else arguments)
    except Exception as error:  # noqa: BLE001  # of a defect, 1 would say that some were declined
        if isinstance(error, ModuleNotFoundError) and "pip install" in str(error):
            sys.stderr.write(f"gateway-async: {error}\n")
            code = _WRONG
        else:
            code = _UNSETTLED
            traceback.print_exc()
    except KeyboardInterrupt:  # before `run` takes it, as while it is imported
        sys.stderr.write("gateway-async: stopped\n")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # where that fails, the interpreter would flush again, and exit with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
