"""Keeps secrets out of tracebacks."""

import functools
from typing import Any, TypeVar

from gateway_async.errors import GatewayError

_Model = TypeVar("_Model", bound=type)


def hide_arguments(model: _Model) -> _Model:
    """Keep what a class is called with out of the tracebacks of its own errors.

    A traceback holds the local variables of its frames, and those of `__init__` would be the
    secrets before they are wrapped, and an instance that is too unfinished for its `repr`.
    """
    initialise = model.__init__  # type: ignore[misc]  # of the class itself, not of an instance

    @functools.wraps(initialise)
    def __init__(self: object, *values: Any, **fields: Any) -> None:  # noqa: ANN401, N807  # stands in for it
        problem: Exception | None = None
        try:
            initialise(self, *values, **fields)
        except (TypeError, GatewayError) as error:
            problem = error.with_traceback(None)
        if problem is not None:
            del self, values, fields
            raise problem

    model.__init__ = __init__  # type: ignore[misc]  # as above
    return model
