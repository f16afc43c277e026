"""How the fields of models are declared: one function a kind of value.

What a value is converted to, and what is wrong with it, is known to `values`.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.models.values import (
    CURRENCY,
    NUMBER,
    check_encodable,
    is_left_out,
    to_amount,
    to_card,
    to_date,
    to_identifier,
    to_integer,
    to_number,
    to_secret,
    to_text,
    to_uuid_text,
    wrong_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _field(converter: "Callable[..., Any]", **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    return attrs.field(
        converter=attrs.Converter(converter, takes_self=True, takes_field=True), **options
    )


def amount_field(*, currency: str = "currency", **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an amount: `Decimal`, converted from `str` or `int`.

    Args:
        currency: The name of the field that holds the currency of the amount.
        options: What `attrs.field` takes.
    """
    return _field(to_amount, metadata={CURRENCY: currency}, **options)


def text_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a text."""
    return _field(to_text, **options)


def identifier_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an identifier: text that is not empty."""
    return _field(to_identifier, **options)


def secret_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a text that is never shown."""
    return _field(to_secret, **options)


def card_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a card number: digits, shown as the first six and last four of them."""
    return _field(to_card, **options)


def number_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare what the interface calls a number: `Decimal`, converted from `str` or `int`."""
    return _field(to_number, metadata={NUMBER: True}, **options)


def integer_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an integer."""
    return _field(to_integer, **options)


def date_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a date, on the wire `YYYY-MM-DD`."""
    return _field(to_date, **options)


def uuid_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an identifier in UUID format."""
    return _field(to_uuid_text, **options)


def texts_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an array of texts: any iterable of `str`, kept as a tuple."""

    def check(
        instance: object, field: "attrs.Attribute[Any]", texts: tuple[str, ...] | None
    ) -> None:
        for text in texts or ():
            check_encodable(text, instance, field.name)

    return objects_field(str, validator=check, **options)


def object_field(model: type, **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a nested object: an instance of `model`."""

    def to_object(value: object, instance: object, field: "attrs.Attribute[Any]") -> object:
        if isinstance(value, model) or is_left_out(value, field):
            return value
        raise wrong_type(instance, field, f"{model.__name__}(...)", value)

    return _field(to_object, **options)


def objects_field(model: type, *, or_text: bool = False, **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an array: any iterable of `model`, kept as a tuple.

    Args:
        model: What its elements are.
        or_text: Whether a text may stand in its place.
        options: What `attrs.field` takes.
    """
    expected = f"an iterable of {model.__name__}" + (", or a str" if or_text else "")

    def to_objects(
        value: object, instance: object, field: "attrs.Attribute[Any]"
    ) -> tuple[object, ...] | str | None:
        if is_left_out(value, field):
            return None
        if or_text and isinstance(value, str):
            return to_text(value, instance, field)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise wrong_type(instance, field, expected, value)
        elements = tuple(value)
        for element in elements:
            if not isinstance(element, model):
                raise wrong_type(instance, field, f"{expected}, every one", element)
        return elements

    return _field(to_objects, **options)
