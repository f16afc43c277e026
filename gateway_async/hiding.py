"""Keeps secrets out of tracebacks."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Model = TypeVar("_Model", bound=type)
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def hide_arguments(model: _Model) -> _Model:
    """Keep what a class is called with out of the tracebacks of its own errors.

    A traceback holds the local variables of its frames, and those of `__init__` would be the
    secrets before they are wrapped, and an instance that is too unfinished for its `repr`.
    """
    model.__init__ = hide_given(model.__init__)  # type: ignore[misc]  # of the class, not an instance
    return model


def hide_given(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Keep what a function is called with out of the tracebacks of its own errors."""

    @functools.wraps(function)
    def hiding(*values: _Given.args, **fields: _Given.kwargs) -> _Made:
        problem: Exception | None = None
        try:
            return function(*values, **fields)
        except Exception as error:  # noqa: BLE001  # raised below; the caller's own iterables may raise any
            problem = error.with_traceback(None)
        del values, fields
        raise problem

    return hiding
