"""The command line, as `python -m gateway_async`."""

from gateway_async.cli import main

main()
