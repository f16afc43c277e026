"""The values that fields are made of, how models check them, and what must not be shown.

A `Model` converts and checks each field by the function in its metadata under `CONVERTER`. A field
gets it by its type: `str`, `int`, `Identifier`, `Secret`, a nested model, or a sequence of models.
Where type checkers are to allow more than a field holds, such as text for an amount, it is named:
``attrs.field(converter=to_amount)``. None passes where it is the default. A converter knows neither
model nor field.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NoReturn,
    SupportsIndex,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)
from uuid import UUID

import attrs

from gateway_async.errors import InvalidOrderError

_Field: TypeAlias = "attrs.Attribute[Any]"
_Convert = Callable[[Any], Any]

CONVERTER = "converter"
"""Metadata of a field: what converts and checks its value."""
CURRENCY = "currency"
"""Metadata of an amount: the name of the field with its currency."""
MODEL = "model"
"""Metadata of a nested object, or of an array of objects: their class."""
IS_LIST = "is list"
"""Metadata of an array."""
MASK = "***"
_SHOWN_HEAD, _SHOWN_TAIL = 6, 4
SHORTEST_CARD = 12
_LONGEST_CARD = 19
_ODD_IN_NUMBER = re.compile(r"[_\s]").search
_SURROGATE = re.compile("[\ud800-\udfff]").search


def plain_text(text: str) -> str:
    """Return text as just a `str`: a member of a text enumeration shows as its name."""
    return text if type(text) is str else str.__str__(text)


def mask_card(number: str) -> str:
    """Return a card number as its first six and last four digits, and nothing of a short one."""
    return MASK if len(number) < SHORTEST_CARD else remask_card(number)


def remask_card(text: str) -> str:
    """Return a card number as a reply shows it, with six and four digits left at most."""
    head = text[:_SHOWN_HEAD] if len(text) >= SHORTEST_CARD else ""
    hidden = re.sub(r"\d+", lambda found: "*" * len(found[0]), text[len(head) : -_SHOWN_TAIL])
    return f"{head}{hidden}{text[-_SHOWN_TAIL:]}"


_LONG_NUMBER = re.compile(r"[0-9](?:[\s./_\u2010-\u2015-]{0,3}[0-9]){11,}")
_AMONG_DIGITS = re.compile(
    r"(?=((?:4\d\d\d|5[1-5]\d\d|2[2-7]\d\d|6(?:011|[25]\d\d))\d{12}|3[47]\d{13}))"
)
"""What a card number looks like within more digits."""
_BRANDS = re.compile(
    r"4\d{12,18}|[56]\d{11,18}|2[2-7]\d{14,17}|3\d{13,18}|(?:8[126]|9[78])\d{14,17}"
)
"""How a card number begins: a value that is nothing but another number is left whole."""
_MOST_DIGITS, _LONGEST_TEXT = 64, 10_000
"""Beyond these, nothing is looked for: all of a long number is masked but its ends."""
_NO_NUMBER, _MOST_PLACES = Decimal("NaN"), 100
"""How far from its point a number may begin: written out, 1e999999999 would fill the memory."""
_DOUBLED = str.maketrans("0123456789", "0246813579")
"""Each digit doubled, as the sum of the digits that this makes."""


def mask_cards(text: str) -> str:
    """Mask each card number in a text of the gateway's, however its digits are grouped.

    Length and check digit distinguish it from other numbers; where it is the whole text, or more
    digits stand right beside it, it must also begin as numbers of its brand do.
    """
    return _LONG_NUMBER.sub(_mask_number, text)


def _mask_number(found: re.Match[str]) -> str:
    number = found[0]
    first = number[: 4 * _MOST_DIGITS]  # three characters at most stand between two digits
    if len(found.string) > _LONGEST_TEXT or sum(map(str.isdigit, first)) > _MOST_DIGITS:
        return remask_card(number)
    places = [place for place, character in enumerate(number) if character.isdigit()]
    digits = "".join([number[place] for place in places])
    apart = [n for n in range(1, len(digits)) if places[n] - places[n - 1] > 1]
    borders, is_whole = [0, *apart, len(digits)], number == found.string
    spans = {match.span(1) for match in _AMONG_DIGITS.finditer(digits)}
    spans |= {
        (start, end)
        for n, start in enumerate(borders)
        for end in borders[n + 1 :][:_LONGEST_CARD]
        if SHORTEST_CARD <= end - start <= _LONGEST_CARD
        and (not is_whole or _BRANDS.fullmatch(digits, start, end))
    }
    hidden: set[int] = set()
    for start, end in spans:
        card = digits[start:end]  # from its check digit, the last, every other digit doubles
        if sum(map(int, card[::-2] + card[-2::-2].translate(_DOUBLED))) % 10 == 0:
            hidden.update(places[start + _SHOWN_HEAD : end - _SHOWN_TAIL])
    return "".join(["*" if place in hidden else each for place, each in enumerate(number)])


class Unpicklable:
    """What is not pickled or copied, since a secret would go with it."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise TypeError(f"{type(self).__name__} may hold a secret and is not pickled or copied")


class SensitiveText(Unpicklable, str):
    """Text that shows as `***`, in `repr`, `str` and format alike; `reveal` gives the text.

    It is a `str`: what reads the characters themselves, as `json.dumps` does, gets the text.
    """

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


def describe(instance: object) -> str:
    """Name an order or payment by the identifiers that it carries, and by nothing else."""
    parts = [
        f"{name}={value!r}"
        for name in ("order_no", "transaction_id", "request_id")
        if isinstance(value := getattr(instance, name, None), str)
    ]
    return f"{type(instance).__name__}({', '.join(parts)})"


def moves_nothing(instance: object, name: str) -> InvalidOrderError:
    """Return the error of an amount of 0 where money is to move."""
    reason = "0 moves nothing, and a gateway may take it for all of the amount"
    return InvalidOrderError(f"{describe(instance)}.{name}: {reason}")


class WrongValueError(ValueError):
    """A value is not what its field holds; a `Model` names the field and itself beside it."""


def _not(expected: str, value: object) -> WrongValueError:
    return WrongValueError(f"expected {expected}, got {type(value).__name__}")


def is_encodable(text: str) -> bool:
    """Say whether UTF-8 can carry the text: half a surrogate pair it cannot."""
    return text.isascii() or _SURROGATE(text) is None


# Converters: each returns what a field holds, or raises `WrongValueError`.


def to_text(value: object) -> str:
    """Let text pass that UTF-8 can carry."""
    if not isinstance(value, str):
        raise _not('str, such as "12"', value)
    if not is_encodable(value):
        raise WrongValueError("holds half a surrogate pair, which UTF-8 cannot carry")
    return plain_text(value)


def to_identifier(value: object) -> str:
    """Let non-empty text pass, without white space around it, which no reply would match."""
    text = to_text(value)
    if not text or text != text.strip():
        raise WrongValueError(
            f"{text!r} must be a non-empty identifier without white space around it"
        )
    return text


def to_secret(value: object) -> SensitiveText:
    """Convert text to `SensitiveText`, which shows as `***`; no error quotes it."""
    return SensitiveText(to_text(value))


def to_card(value: object) -> CardNumber:
    """Convert digits to `CardNumber`, which shows the first six and last four; never quoted."""
    number = to_secret(value)
    if not (number.isascii() and number.isdigit()):
        raise WrongValueError("a card number is digits only; take spaces and hyphens out")
    return CardNumber(number.reveal())


def to_number(value: object) -> Decimal:
    """Convert `str` and `int` to `Decimal`; a `float` cannot hold cents exactly, and is refused."""
    if isinstance(value, bool) or not isinstance(value, Decimal | str | int):
        raise _not('Decimal, str or int, such as "12.50"', value)
    if isinstance(value, int):
        value = to_integer(value)
    # Decimal also takes digits of other scripts, underscores and white space around them.
    is_plain = not isinstance(value, str) or (value.isascii() and not _ODD_IN_NUMBER(value))
    with contextlib.suppress(InvalidOperation, ValueError):
        number = Decimal(value) if is_plain else _NO_NUMBER
        if number.is_finite() and abs(number.adjusted()) <= _MOST_PLACES:
            return number
    raise WrongValueError(f"{value!r:.60} is no plain finite number; write it like '12.50'")


def to_amount(value: Decimal | str | int) -> Decimal:
    """Convert as `to_number`, and refuse what is negative."""
    amount = to_number(value)
    if amount.is_signed():
        raise WrongValueError(f"{amount!s:.60} is negative; an amount never is")
    return amount


def written_amount(amount: Decimal, places: int) -> str:
    """Write an amount with so many decimal places, or more where it has more."""
    own = f"{amount:f}".partition(".")[2]
    return f"{amount:,.{max(places, len(own))}f}"


def to_integer(value: object) -> int:
    """Let an `int` pass, and no `bool`; one of a million digits takes Python minutes to convert."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _not("int", value)
    if abs(value) >= 10**_MOST_PLACES:
        raise WrongValueError(f"has more than {_MOST_PLACES} digits")
    return int(value)  # of a number with a name, only the number


def to_date(value: object) -> date:
    """Let a `date` pass, and read text as it is on the wire: `YYYY-MM-DD`.

    A `datetime` is refused: its time of day would be lost.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise _not('date or str, such as "2026-01-31"', value)
    with contextlib.suppress(ValueError):
        found = date.fromisoformat(value)
        if found.isoformat() == value:  # Python reads weeks and bare digits, too
            return found
    raise WrongValueError(f"{value!r:.60} is not a date; write it like '2026-01-31'")


def to_uuid_text(value: UUID | str) -> str:
    """Let text in UUID format pass as it is, and write a `UUID` as text."""
    if not isinstance(value, UUID | str):
        raise _not("UUID or str", value)
    text = plain_text(str(value))
    with contextlib.suppress(ValueError):
        if str(UUID(text)) == text.lower():
            return text
    raise WrongValueError(f"{text!r:.60} is no UUID; use uuid.uuid4()")


def to_object(model: type, value: object) -> object:
    """Let an instance of a model pass."""
    if not isinstance(value, model):
        raise _not(f"{model.__name__}(...)", value)
    return value


def to_objects(model: type, value: object) -> tuple[Any, ...]:
    """Make a tuple of any iterable of instances of a class."""
    expected = f"an iterable of {model.__name__}"
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _not(expected, value)
    elements = tuple(value)
    for element in elements:
        if not isinstance(element, model):
            raise _not(f"{expected}, every one", element)
    return elements


def to_texts(value: object) -> tuple[str, ...]:
    """Make a tuple of any iterable of text."""
    return tuple(map(to_text, to_objects(str, value)))


Identifier = Annotated[str, to_identifier]
"""Text that is not empty, and has no white space around it."""
Secret = Annotated[str, to_secret]
"""Text that is never shown."""
_BY_TYPE: dict[object, _Convert] = {str: to_text, int: to_integer}

if (
    TYPE_CHECKING
):  # type checkers read here that `__init__` takes None, too, which no converter is given

    def as_optional_amount(value: Decimal | str | int | None) -> Decimal | None:
        """Convert an amount; see `to_amount`."""

    def as_optional_number(value: Decimal | str | int | None) -> Decimal | None:
        """Convert a number; see `to_number`."""

    def as_optional_date(value: date | str | None) -> date | None:
        """Convert a date; see `to_date`."""

    def as_optional_texts(value: Iterable[str] | None) -> tuple[str, ...] | None:
        """Convert an array of texts; see `to_texts`."""
else:
    as_optional_amount, as_optional_number = to_amount, to_number
    as_optional_date, as_optional_texts = to_date, to_texts


_PLAIN = {
    to_identifier: "type(v := o.{}) is str and v and v.isascii() and v.strip() is v",
    to_text: "type(v := o.{}) is str and v.isascii()",
    to_amount: "type(v := o.{}) is Decimal and v.is_finite() and not v.is_signed()",
}
"""By converter, when a value is right as it is, as most are."""


def checked(model: Any, fields: "list[_Field]") -> "list[_Field]":  # noqa: ANN401  # any model
    """Note how a `Model` converts each field: its `field_transformer`."""
    names = {field.name for field in fields}
    noted = [field if CONVERTER in field.metadata else _noted(field, names) for field in fields]
    model._conversions = [  # noqa: SLF001  # of a `Model`, before attrs has made it
        (field.name, field.metadata[CONVERTER], field.default is None) for field in noted
    ]
    checks = []
    for name, convert, is_optional in model._conversions:  # noqa: SLF001  # likewise
        check = _PLAIN.get(convert, "False").format(name)
        checks.append(f"(o.{name} is None or {check})" if is_optional else check)
    model._is_plain = eval(f"lambda o: {' and '.join(checks)}", {"Decimal": Decimal})  # noqa: S307, SLF001  # from the table above
    return noted


def _noted(field: "_Field", names: set[str]) -> "_Field":
    wanted = without_none(field.type)
    origin, arguments = get_origin(wanted), get_args(wanted)
    convert: Any = field.converter or _BY_TYPE.get(wanted)
    metadata = {**field.metadata}
    if origin is Annotated:
        convert = arguments[1]
    elif attrs.has(wanted):
        convert, metadata[MODEL] = partial(to_object, wanted), wanted
    elif origin is Sequence:
        convert, metadata[MODEL] = partial(to_objects, arguments[0]), arguments[0]
    if origin in (Sequence, tuple):
        metadata[IS_LIST] = True
    if convert is to_amount:
        own = field.name.replace("amount", "currency")
        metadata[CURRENCY] = own if own in names - {field.name} else "currency"
    return field.evolve(converter=None, metadata={**metadata, CONVERTER: convert})


def without_none(wanted: Any) -> Any:  # noqa: ANN401  # any annotation
    """Return what a field holds unless it holds None."""
    if get_origin(wanted) not in (Union, UnionType):
        return wanted
    return next(part for part in get_args(wanted) if part is not NoneType)


class Model:
    """What has its fields converted and checked; usual values are checked all at once."""

    __slots__ = ()
    _conversions: ClassVar[list[tuple[str, _Convert, bool]]]
    _is_plain: Callable[[], bool]

    def __attrs_post_init__(self) -> None:
        if not self._is_plain():
            self._convert()

    def _convert(self) -> None:
        """Convert and check each field.

        Raises:
            InvalidOrderError: Naming the field of a wrong value, and the reason.
        """
        for name, convert, is_optional in self._conversions:
            value, problem = getattr(self, name), ""
            if value is None and is_optional:
                continue
            try:
                object.__setattr__(self, name, convert(value))
            except WrongValueError as error:
                problem = str(error)
            if problem:  # and no more of the error, whose frames hold the value
                raise InvalidOrderError(f"{describe(self)}.{name}: {problem}")


def unfrozen(model: type) -> type[Any]:
    """Return a class like a frozen one, to fill and then make one: it takes half the time."""
    own = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(model.__name__, (model,), {"__slots__": (), **own})
