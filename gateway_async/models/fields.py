"""How the fields of models are declared.

A field that must be given, and one that takes other types than it holds, is an `attrs.field` with
one of the converters `as_...`: of these, type checkers know what `__init__` takes. The other fields
are declared by one function a kind of value. What a value is converted to, and what is wrong with
it, is known to `values`.
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
    from datetime import date
    from decimal import Decimal
    from uuid import UUID

AMOUNT = {CURRENCY: "currency"}
"""Metadata of an amount in the currency that the field `currency` holds."""
PLAIN_NUMBER = {NUMBER: True}
"""Metadata of what the interface calls a number."""


def converter(convert: "Callable[[Any, Any, attrs.Attribute[Any]], object]") -> Any:  # noqa: ANN401  # typed below
    """Return what attrs calls with a value, its model and its field."""
    return attrs.Converter(convert, takes_self=True, takes_field=True)


def text_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a text."""
    return attrs.field(converter=converter(to_text), **options)


def identifier_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an identifier: text that is not empty."""
    return attrs.field(converter=converter(to_identifier), **options)


def secret_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a text that is never shown."""
    return attrs.field(converter=converter(to_secret), **options)


def card_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a card number: digits, shown as the first six and last four of them."""
    return attrs.field(converter=converter(to_card), **options)


def integer_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an integer."""
    return attrs.field(converter=converter(to_integer), **options)


def object_field(model: type, **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a nested object: an instance of `model`."""

    def to_object(value: object, instance: object, field: "attrs.Attribute[Any]") -> object:
        if isinstance(value, model) or is_left_out(value, field):
            return value
        raise wrong_type(instance, field, f"{model.__name__}(...)", value)

    return attrs.field(converter=converter(to_object), **options)


def objects_field(model: type, *, or_text: bool = False, **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare an array: any iterable of `model`, kept as a tuple.

    Args:
        model: What its elements are.
        or_text: Whether a text may stand in its place.
        options: What `attrs.field` takes.
    """

    def to_objects(
        value: object, instance: object, field: "attrs.Attribute[Any]"
    ) -> tuple[Any, ...] | str | None:
        if or_text and isinstance(value, str):
            return to_text(value, instance, field)
        return _to_tuple(value, instance, field, model, ", or a str" if or_text else "")

    return attrs.field(converter=converter(to_objects), **options)


def _to_tuple(
    value: object,
    instance: object,
    field: "attrs.Attribute[Any]",
    model: type,
    alternative: str = "",
) -> tuple[Any, ...] | None:
    if is_left_out(value, field):
        return None
    expected = f"an iterable of {model.__name__}{alternative}"
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong_type(instance, field, expected, value)
    elements = tuple(value)
    for element in elements:
        if not isinstance(element, model):
            raise wrong_type(instance, field, f"{expected}, every one", element)
    return elements


def _to_texts(
    value: object, instance: object, field: "attrs.Attribute[Any]"
) -> tuple[str, ...] | None:
    texts = _to_tuple(value, instance, field, str)
    for text in texts or ():
        check_encodable(text, instance, field.name)
    return texts


if TYPE_CHECKING:  # type checkers read what a plain function takes, and not what a Converter does

    def as_amount(value: Decimal | str | int) -> Decimal:
        """Convert an amount that must be given; see `to_amount`."""

    def as_optional_amount(value: Decimal | str | int | None) -> Decimal | None:
        """Convert an amount; see `to_amount`."""

    def as_optional_number(value: Decimal | str | int | None) -> Decimal | None:
        """Convert a number; see `to_number`."""

    def as_optional_date(value: date | str | None) -> date | None:
        """Convert a date; see `to_date`."""

    def as_optional_texts(value: Iterable[str] | None) -> tuple[str, ...] | None:
        """Convert an array of texts."""

    def as_identifier(value: str) -> str:
        """Check an identifier that must be given; see `to_identifier`."""

    def as_text(value: str) -> str:
        """Check a text that must be given; see `to_text`."""

    def as_uuid_text(value: UUID | str) -> str:
        """Convert an identifier in UUID format; see `to_uuid_text`."""
else:
    as_amount = as_optional_amount = converter(to_amount)
    as_optional_number = converter(to_number)
    as_optional_date = converter(to_date)
    as_optional_texts = converter(_to_texts)
    as_identifier = converter(to_identifier)
    as_text = converter(to_text)
    as_uuid_text = converter(to_uuid_text)
