"""Settings, checked as they are made: an error names field and value, and what is wanted. Pure."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    import attrs


def check(
    accepts: "Callable[[Any], bool]", expected: str
) -> "Callable[[object, attrs.Attribute[Any], Any], None]":
    """Return a validator of a field.

    Args:
        accepts: Says whether a value is as wanted.
        expected: What is wanted, for the error.
    """

    def validator(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        if not accepts(value):
            raise ConfigurationError(
                f"{type(instance).__name__}.{attribute.name}: expected {expected}, "
                f"got {value!r} ({type(value).__name__})"
            )

    return validator


def is_list(value: object) -> bool:
    """Say whether a value is several: neither one text nor a table."""
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def to_set(value: "Iterable[Any]") -> "frozenset[Any] | Iterable[Any]":
    """Return several as a set; what cannot be one is left to the validator."""
    if not is_list(value):
        return value
    values = tuple(value)
    try:
        return frozenset(values)
    except TypeError:  # one of them cannot be hashed
        return values


is_flag = check(lambda value: isinstance(value, bool), "True or False")
is_text = check(lambda value: isinstance(value, str), "a str")
