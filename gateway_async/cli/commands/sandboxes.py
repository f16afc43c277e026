"""`sandbox`: what `python -m gateway_async.sandbox` does."""

from typing import Annotated

from cyclopts import Parameter

from gateway_async.sandbox.__main__ import main


def sandbox(
    *options: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> int:
    """Run a gateway on this machine, to develop and to try things at.

    Its options are those of `python -m gateway_async.sandbox`; --help lists them.
    """
    return main(options, "gateway-async sandbox")
