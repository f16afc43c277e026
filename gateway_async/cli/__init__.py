"""The command line, `gateway-async`; it needs the extra `gateway-async[cli]`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXTRA = frozenset({"cyclopts", "rich"})
_USAGE = 2


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
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
