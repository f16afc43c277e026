"""The values that fields are made of, how fields of them are declared, and what must not be shown.

A field that must be given, and one that takes other types than it holds, is an `attrs.field` with
one of the converters `as_...`: of these, type checkers know what `__init__` takes. The other fields
are declared by one function a kind of value. Nothing here knows which model a field belongs to,
except for naming it in an error.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex
from uuid import UUID

import attrs

from gateway_async.errors import InvalidOrderError

if TYPE_CHECKING:
    from collections.abc import Callable


AMOUNT_HINT = 'use Decimal("12.50") or "12.50"'
AMOUNT_IN = "currency field"
"""Metadata of an amount whose currency stands in another field than `currency`: its name."""
CONVERTER = "converter"
"""Metadata of a field of an order: what converts and checks its value."""
JOINED = "joined"
"""Metadata of an array that goes out as one text: what makes the text."""
MODEL = "model"
"""Metadata of a nested object, or of an array of objects: their class."""
MASK = "***"
_SHOWN_HEAD, _SHOWN_TAIL = 6, 4
SHORTEST_CARD = 12
_LONGEST_SHOWN = 60


def plain_text(text: str) -> str:
    """Return text as just a `str`: a member of a text enumeration shows as its name."""
    return text if type(text) is str else str.__str__(text)


def mask_card(number: str) -> str:
    """Return a card number as its first six and last four digits, and nothing of a short one."""
    if len(number) < SHORTEST_CARD:
        return MASK
    hidden = "*" * (len(number) - _SHOWN_HEAD - _SHOWN_TAIL)
    return f"{number[:_SHOWN_HEAD]}{hidden}{number[-_SHOWN_TAIL:]}"


_LONG_NUMBER = re.compile(r"[0-9](?:[ -]?[0-9]){13,}")
_STANDING_ALONE = re.compile(
    r"4\d{15}(?:\d{3})?|[56]\d{15,18}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12}|35\d{14}"
)
_AMONG_DIGITS = re.compile(r"(?:4\d\d\d|5[1-5]\d\d|2[2-7]\d\d|6(?:011|[25]\d\d))\d{12}|3[47]\d{13}")
"""What a card number looks like: with no digit right beside it, and within more digits."""
_MOST_DIGITS, _LONGEST_TEXT = 64, 10_000
"""Beyond these, nothing is looked for: all of a long number is masked but its ends."""


def mask_cards(text: str) -> str:
    """Mask each card number in a text of the gateway's, with blanks or hyphens in it or without.

    Told from other numbers by how those of its brand begin, by its length, and by its check digit.
    """
    return _LONG_NUMBER.sub(_mask_number, text)


def _mask_number(found: re.Match[str]) -> str:
    number = found[0]
    places = [place for place, character in enumerate(number) if character.isdigit()]
    digits = "".join([number[place] for place in places])
    borders = {0, len(digits)} | {n for n in range(1, len(digits)) if places[n] - places[n - 1] > 1}
    hidden: set[int] = set()
    if len(digits) > _MOST_DIGITS or len(found.string) > _LONGEST_TEXT:
        hidden.update(places[_SHOWN_HEAD:-_SHOWN_TAIL])
        digits = ""
    for start in range(len(digits)):
        for end in range(start + 14, min(start + 19, len(digits)) + 1):
            pattern = _STANDING_ALONE if {start, end} <= borders else _AMONG_DIGITS
            if pattern.fullmatch(digits, start, end) and _has_check_digit(digits[start:end]):
                hidden.update(places[start + _SHOWN_HEAD : end - _SHOWN_TAIL])
    return "".join(["*" if place in hidden else each for place, each in enumerate(number)])


def _has_check_digit(number: str) -> bool:
    """Say whether the check digit is right, as it is of every card."""
    digits = list(map(int, reversed(number)))
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


class SensitiveText(str):
    """Text that shows as `***`, in `repr`, `str` and format alike; `reveal` gives the text."""

    __slots__ = ()

    def shown(self) -> str:
        """Return what may be shown in its place."""
        return MASK

    def reveal(self) -> str:
        """Return the text itself, as a plain `str`."""
        return str.__str__(self)

    def __getitem__(self, key: SupportsIndex | slice) -> "SensitiveText":
        # Tools that show local variables cut long text first, and show what is left.
        return SensitiveText(str.__getitem__(self, key))

    def __repr__(self) -> str:
        return repr(self.shown())

    def __str__(self) -> str:
        return self.shown()

    def __format__(self, spec: str) -> str:
        return format(self.shown(), spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise TypeError(f"{type(self).__name__} holds a secret and is not pickled or copied")


class CardNumber(SensitiveText):
    """A card number: shows its first six and last four digits."""

    __slots__ = ()

    def shown(self) -> str:
        """Return the first six and last four digits."""
        return mask_card(self.reveal())


class SignatureText(SensitiveText):
    """A signature that came with a reply; pickles as no text at all."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> tuple[type["SignatureText"], tuple[()]]:  # type: ignore[override]  # others refuse
        del protocol
        return (SignatureText, ())


class MaskedCard(str):
    """A card number as a reply shows it: whatever came, six and four digits are left at most."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Hide every digit that is not among the first six or the last four characters."""
        head = text[:_SHOWN_HEAD] if len(text) >= SHORTEST_CARD else ""
        hidden = text[len(head) : -_SHOWN_TAIL]
        stars = "".join("*" if character.isdigit() else character for character in hidden)
        return super().__new__(cls, f"{head}{stars}{text[-_SHOWN_TAIL:]}")


def describe(instance: object) -> str:
    """Name an order or payment by the identifiers that it carries, and by nothing else."""
    parts = [
        f"{name}={value!r}"
        for name in ("order_no", "transaction_id", "request_id")
        if isinstance(value := getattr(instance, name, None), str)
    ]
    return f"{type(instance).__name__}({', '.join(parts)})"


def _wrong(instance: object, field: str, reason: str) -> InvalidOrderError:
    return InvalidOrderError(f"{describe(instance)}.{field}: {reason}")


def wrong_type(
    instance: object, field: "attrs.Attribute[Any]", expected: str, value: object, advice: str = ""
) -> InvalidOrderError:
    """Name the field that a value is of the wrong type for, and the type that would be right."""
    reason = f"expected {expected}, got {type(value).__name__}"
    return _wrong(instance, field.name, f"{reason}; {advice}" if advice else reason)


def _shown(value: Decimal | str | int) -> str:
    """Show the beginning of a value; Python refuses to write out an `int` of many digits."""
    return (str(Decimal(value)) if isinstance(value, int) else repr(value))[:_LONGEST_SHOWN]


def _decimal(value: Decimal | str | int) -> Decimal | None:
    """Read a number; None for text that is none."""
    # Decimal also takes digits of other scripts, underscores and white space around them.
    if isinstance(value, str) and (not value.isascii() or "_" in value or value != value.strip()):
        return None
    try:
        return Decimal(value)
    except (InvalidOperation, ValueError):
        return None


def is_left_out(value: object, field: "attrs.Attribute[Any]") -> bool:
    """Say whether the value is the None of a field that is None where it is not given."""
    return value is None and field.default is None


def is_encodable(text: str) -> bool:
    """Say whether UTF-8 can carry the text: half a surrogate pair it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_encodable(text: str, instance: object, name: str) -> None:
    """Refuse text that UTF-8 cannot carry.

    Raises:
        InvalidOrderError: For half a surrogate pair.
    """
    if not is_encodable(text):
        raise _wrong(instance, name, "holds half a surrogate pair, which UTF-8 cannot carry")


def to_text(value: object, instance: object, field: "attrs.Attribute[Any]") -> str | None:
    """Let text pass, and None where the field may be left out.

    Raises:
        InvalidOrderError: For anything else, and for text that UTF-8 cannot carry.
    """
    if isinstance(value, str):
        check_encodable(value, instance, field.name)
        return value if isinstance(value, SensitiveText) else plain_text(value)
    if is_left_out(value, field):
        return None
    raise wrong_type(instance, field, 'str, such as "12"', value)


def to_identifier(value: object, instance: object, field: "attrs.Attribute[Any]") -> str | None:
    """Let non-empty text pass: an identifier.

    Raises:
        InvalidOrderError: For anything but text, for empty text, and for white space around it,
            which no reply would match.
    """
    text = to_text(value, instance, field)
    if text is not None and (not text or text != text.strip()):
        raise _wrong(
            instance,
            field.name,
            f"{text!r} must be a non-empty identifier without white space around it",
        )
    return text


def to_secret(
    value: object, instance: object, field: "attrs.Attribute[Any]"
) -> SensitiveText | None:
    """Convert text to `SensitiveText`, which shows as `***`.

    Raises:
        InvalidOrderError: For anything but text that UTF-8 can carry. The text is not in the
            message.
    """
    if isinstance(value, str) and not isinstance(value, SensitiveText):
        value = SensitiveText(plain_text(value))
    to_text(value, instance, field)
    return value  # type: ignore[return-value]  # `to_text` let it pass


def to_card(value: object, instance: object, field: "attrs.Attribute[Any]") -> CardNumber | None:
    """Convert text to `CardNumber`, which shows its first six and last four digits.

    Raises:
        InvalidOrderError: For anything but text of digits. The text is not in the message.
    """
    value = to_secret(value, instance, field)
    if value is None or isinstance(value, CardNumber):
        return value
    if not (value.isascii() and value.isdigit()):
        raise _wrong(
            instance, field.name, "a card number is digits only; take spaces and hyphens out"
        )
    return CardNumber(value.reveal())


def to_number(value: object, instance: object, field: "attrs.Attribute[Any]") -> Decimal | None:
    """Convert `str` and `int` to `Decimal`, of either sign.

    Raises:
        InvalidOrderError: For a `float`, which cannot hold cents exactly, for any other type, for
            text that is no number, and for NaN and infinite numbers.
    """
    if is_left_out(value, field):
        return None
    if isinstance(value, bool) or not isinstance(value, Decimal | str | int):
        raise wrong_type(instance, field, "Decimal, str or int", value, AMOUNT_HINT)
    number = _decimal(value)
    if number is None or not number.is_finite():
        raise _wrong(instance, field.name, f"{_shown(value)} is not a finite number; {AMOUNT_HINT}")
    return number


def to_amount(value: object, instance: object, field: "attrs.Attribute[Any]") -> Decimal | None:
    """Convert `str` and `int` to `Decimal`, not below zero.

    Raises:
        InvalidOrderError: As `to_number`, and for a negative amount.
    """
    amount = to_number(value, instance, field)
    if amount is not None and amount.is_signed():
        raise _wrong(instance, field.name, f"{_shown(amount)} is negative; an amount never is")
    return amount


def to_integer(value: object, instance: object, field: "attrs.Attribute[Any]") -> int | None:
    """Let an `int` pass.

    Raises:
        InvalidOrderError: For anything else, `bool` included.
    """
    if is_left_out(value, field):
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(instance, field, "int", value)
    return int(value)  # of a number with a name, only the number


def to_date(value: object, instance: object, field: "attrs.Attribute[Any]") -> date | None:
    """Let a `date` pass, and read one from text as it is on the wire: `YYYY-MM-DD`.

    Raises:
        InvalidOrderError: For other text and types; for a `datetime` too, whose time of day would
            be lost.
    """
    if is_left_out(value, field):
        return None
    if isinstance(value, datetime):
        raise wrong_type(instance, field, "a date without a time of day", value, "use its date()")
    if isinstance(value, date):
        return value
    if not isinstance(value, str):
        raise wrong_type(instance, field, "date or str", value, 'use "2026-01-31"')
    with contextlib.suppress(ValueError):
        found = date.fromisoformat(value)
        if found.isoformat() == value:  # Python reads weeks and bare digits, too
            return found
    raise _wrong(instance, field.name, f"{_shown(value)} is not a date; write it like '2026-01-31'")


def to_uuid_text(value: object, instance: object, field: "attrs.Attribute[Any]") -> str:
    """Let text in UUID format pass as it is, and write a `UUID` as text.

    Raises:
        InvalidOrderError: For text in another format, and for any other type.
    """
    if not isinstance(value, UUID | str):
        raise wrong_type(instance, field, "UUID or str", value)
    text = plain_text(str(value))
    try:
        canonical = str(UUID(text))
    except ValueError:
        canonical = None
    if canonical != text.lower():
        raise _wrong(instance, field.name, f"{_shown(text)} is no UUID; use uuid.uuid4()")
    return text


def converter(convert: "Callable[[Any, Any, attrs.Attribute[Any]], object]") -> Any:  # noqa: ANN401  # typed below
    """Return what attrs calls with a value, its model and its field."""
    return attrs.Converter(convert, takes_self=True, takes_field=True)


def converter_of(field: "attrs.Attribute[Any]") -> object:
    """Return the function that converts the values of a field; None for a field without one."""
    return field.metadata.get(CONVERTER) or getattr(field.converter, "converter", None)


def currency_field(field: "attrs.Attribute[Any]") -> str | None:
    """Return the name of the field that holds an amount's currency; None if it is no amount."""
    is_amount = converter_of(field) is to_amount
    return field.metadata.get(AMOUNT_IN, "currency") if is_amount else None


def _declare(convert: "Callable[[Any, Any, attrs.Attribute[Any]], object]") -> "Callable[..., Any]":
    """Return what declares fields of one kind of value; it takes what `attrs.field` takes."""

    def declare(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
        return attrs.field(converter=converter(convert), **options)

    return declare


text_field: "Callable[..., Any]" = _declare(to_text)
identifier_field: "Callable[..., Any]" = _declare(to_identifier)
secret_field: "Callable[..., Any]" = _declare(to_secret)
card_field: "Callable[..., Any]" = _declare(to_card)
integer_field: "Callable[..., Any]" = _declare(to_integer)


def object_field(model: type, **options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a nested object: an instance of `model`."""

    def to_object(value: object, instance: object, field: "attrs.Attribute[Any]") -> object:
        if isinstance(value, model) or is_left_out(value, field):
            return value
        raise wrong_type(instance, field, f"{model.__name__}(...)", value)

    return _declare(to_object)(metadata={MODEL: model}, **options)


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

    metadata = {MODEL: model, **options.pop("metadata", {})}
    return _declare(to_objects)(metadata=metadata, **options)


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
