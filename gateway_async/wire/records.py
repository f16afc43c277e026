"""The one converter that reads records from decoded replies.

Reading a record never raises. What cannot be read is None in the record, with its text
in `unreadable`; what the interface does not list is in `extra`.
"""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import attrs
import orjson

from gateway_async.models.records import NOTHING, Page, Record
from gateway_async.models.values import MASK, MaskedCard, SignatureText

if TYPE_CHECKING:
    import cattrs

_Hook = Callable[..., Any]
_Fields = list[tuple[str, Any, object]]
_RecordType = TypeVar("_RecordType", bound=Record)

_ADDED_FIELDS = frozenset(attrs.fields_dict(Record))
_SECRET_TYPES = (MaskedCard, SignatureText)
_EXACT_FLOATS = 2.0**53
_DATE_LENGTH = len("YYYY-MM-DD")
_DATE_TIME_DIGITS = len("YYYYMMDDhhmmss")
_LONGEST_SHOWN = 1_000
_DEEPEST_KEPT = 16
_SECRET_NAME = re.compile(
    r"card|cvv|cvc|cavv|security_?code|encryption|^sign|signature|secret|password|^pan$|allparams",
    re.IGNORECASE,
)


class _UnreadableError(ValueError):
    """The value is not what the field holds."""


class _UnreadableEntriesError(_UnreadableError):
    """Some entries of a list are not what it holds.

    Attributes:
        known: The others, read.
        unreadable: Those, by their position.
    """

    def __init__(self, known: tuple[object, ...], unreadable: Mapping[int, object]) -> None:
        super().__init__()
        self.known = known
        self.unreadable = unreadable


def read_record(model: type[_RecordType], value: object) -> _RecordType:
    """Return a record from what a reply holds in its place, whatever that is."""
    if not isinstance(value, dict):
        return _blank_record(value, model)
    record: _RecordType = _reader(model)(value)  # type: ignore[arg-type]  # classes can be hashed
    return record


def read_page(
    model: type[_RecordType], reply: Mapping[str, object], list_field: str
) -> Page[_RecordType]:
    """Return the page of records that a look-up's reply is.

    Args:
        model: What each record is.
        reply: The decoded reply.
        list_field: The field that holds the records.
    """
    envelope = {name: value for name, value in reply.items() if name != list_field}
    elements = _reader(tuple[model, ...])(reply.get(list_field))  # type: ignore[valid-type]  # made at run time
    page: Page[_RecordType] = read_record(Page, envelope)
    return attrs.evolve(page, records=elements)


@functools.cache
def _reader(wanted: Any) -> _Hook:  # noqa: ANN401  # any annotation
    """Return what reads such a value; made when first needed."""
    return _converter().get_structure_hook(wanted)


@functools.cache
def _converter() -> "cattrs.Converter":
    import cattrs  # noqa: PLC0415  # only who reads records needs it

    converter = cattrs.Converter()
    configure_values(converter)
    configure_lists(converter)
    configure_records(converter)
    return converter


def configure_values(converter: "cattrs.Converter") -> None:
    """Teach a converter the values that the fields of a record are made of."""
    for value_type, read in _VALUE_READERS.items():
        converter.register_structure_hook(value_type, read)


def configure_lists(converter: "cattrs.Converter") -> None:
    """Teach a converter tuples: from a list, from a single element, and from nothing."""
    converter.register_structure_hook_factory(_is_tuple, _list_reader)


def configure_records(converter: "cattrs.Converter") -> None:
    """Teach a converter every subclass of `Record`; each is compiled when first read."""
    converter.register_structure_hook_factory(_is_record, _record_reader)


def _is_tuple(wanted: Any) -> bool:  # noqa: ANN401  # any annotation
    origin: object = get_origin(wanted)
    return origin is tuple


def _is_record(wanted: Any) -> bool:  # noqa: ANN401  # any annotation
    return isinstance(wanted, type) and issubclass(wanted, Record)


def _read_text(value: object, _: object = None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _UnreadableError


def _read_decimal(value: object, _: object = None) -> Decimal | None:
    try:
        number = Decimal(value if type(value) is str else _number_text(value))
    except InvalidOperation:
        _require_blank(_read_text(value))
        return None
    if number.is_finite():
        return number
    raise _UnreadableError


def _number_text(value: object) -> str:
    if not isinstance(value, float):
        return _read_text(value)
    # Beyond this a float has lost digits, and its repr would make some up.
    if not -_EXACT_FLOATS < value < _EXACT_FLOATS:
        raise _UnreadableError
    return repr(value)


def _require_blank(text: str) -> None:
    if text.strip():
        raise _UnreadableError


def _read_datetime(value: object, _: object = None) -> datetime | None:
    """Read `YYYYMMDDhhmmss` without a zone, and ISO 8601 with the offset that it has."""
    text = value if type(value) is str else _read_text(value)
    if len(text) == _DATE_TIME_DIGITS and text.isdigit():
        return datetime.fromisoformat(f"{text[:8]}T{text[8:]}")
    text = text.strip()
    if len(text) > _DATE_LENGTH and text[4] == "-":
        return datetime.fromisoformat(text)
    _require_blank(text)
    return None


def _read_date(value: object, _: object = None) -> date | None:
    text = _read_text(value).strip()
    if len(text) == _DATE_LENGTH and text[4] == "-":
        return date.fromisoformat(text)
    _require_blank(text)
    return None


def _read_signature(value: object, _: object = None) -> SignatureText:
    return SignatureText(_read_text(value))


def _read_card(value: object, _: object = None) -> MaskedCard:
    return MaskedCard(_read_text(value))


_VALUE_READERS: dict[type, _Hook] = {
    str: _read_text,
    Decimal: _read_decimal,
    datetime: _read_datetime,
    date: _read_date,
    SignatureText: _read_signature,
    MaskedCard: _read_card,
}


def _list_reader(wanted: Any, converter: "cattrs.BaseConverter") -> _Hook:  # noqa: ANN401  # a generic alias
    element_type = get_args(wanted)[0]
    if isinstance(element_type, TypeVar):
        element_type = element_type.__bound__
    read: _Hook = converter.get_structure_hook(element_type)
    read_other = _blank_record if issubclass(element_type, Record) else read

    def read_list(value: object, _: object = None) -> tuple[object, ...]:
        if type(value) is not list:
            value = () if value is None or value == "" else (value,)
        read_all = []
        unreadable = {}
        for position, element in enumerate(value):
            # One element that is no object, or cannot be read, does not spoil the others.
            read_one = read if type(element) is dict else read_other
            try:
                read_all.append(read_one(element, element_type))
            except ValueError:
                unreadable[position] = element
        if unreadable:
            raise _UnreadableEntriesError(tuple(read_all), unreadable)
        return tuple(read_all)

    return read_list


def _blank_record(value: object, model: type[_RecordType]) -> _RecordType:
    return model(unreadable={"record": _shown(value)})


def _record_reader(model: type[Record], converter: "cattrs.BaseConverter") -> _Hook:
    """Compile the reader of one class.

    What it reads is clean; anything else is left to the careful reader, from the start. What
    lacks fields is filled up, or where it lacks the same as others of its size, as is the rule,
    read by a reader of just the fields that came.
    """
    fields = _own_fields(model)
    # orjson makes equal keys one object, which a dict finds without comparing texts.
    blank = orjson.loads(orjson.dumps(dict.fromkeys(name for name, _, _ in fields)))
    readers: dict[int, _Hook] = {}
    read_carefully = _careful_reader(model, converter)

    def read_other(value: dict[str, Any]) -> object:
        whole = blank | value
        if len(whole) > len(blank) or len(value) == len(blank):
            return read_carefully(value)
        size = len(value)
        # What comes in several kinds of one size is filled up from then on.
        readers[size] = read_other if size in readers else _compiled(fields, value, names)
        return readers[len(blank)](whole)

    names: dict[str, Any] = {
        "model": model,
        "NOTHING": NOTHING,
        "Decimal": Decimal,
        "InvalidOperation": InvalidOperation,
        "Unfrozen": _unfrozen(model),
        "read_carefully": read_carefully,
        "read_other": read_other,
        "readers": readers,
        **{f"key_{name}": name for name in blank},
        **{f"read_{name}": converter.get_structure_hook(wanted) for name, wanted, _ in fields},
    }
    readers[len(blank)] = _compiled(fields, blank, names)
    return readers[len(blank)]


def _compiled(fields: _Fields, present: Mapping[str, object], names: dict[str, Any]) -> _Hook:
    """Write a reader out field by field: a loop would take most of its time."""
    lines = [
        _field_source(wanted, came=name in present).format(name=name, default=default)
        for name, wanted, default in fields
    ]
    scope = {**names}
    exec(_READER.format(size=len(present), fields="".join(lines)), scope)  # noqa: S102  # of the templates below and our own fields' names
    read: _Hook = scope["read"]
    return read


def _field_source(wanted: object, *, came: bool) -> str:
    if not came:
        return _LACKING_FIELD
    return _FIELDS.get(wanted, _OTHER_FIELD)


_READER = """
def read(value, wanted=None):
    if type(value) is not dict:
        return read_carefully(value)
    if len(value) != {size}:
        return readers.get(len(value), read_other)(value)
    record = Unfrozen()
    try:
        {fields}
        record.extra = record.unreadable = NOTHING
    except KeyError:
        return read_other(value)
    except (ValueError, InvalidOperation):
        return read_carefully(value)
    record.__class__ = model
    return record
"""
_TEXT_FIELD = """
        record.{name} = found = value[key_{name}]
        if type(found) is not str and found is not None:
            return read_carefully(value)
"""
_AMOUNT_FIELD = """
        found = value[key_{name}]
        if type(found) is str and found:
            record.{name} = found = Decimal(found)
            if not found.is_finite():
                return read_carefully(value)
        else:
            record.{name} = {default} if found is None else read_{name}(found)
"""
_FIELDS: dict[object, str] = {str: _TEXT_FIELD, Decimal: _AMOUNT_FIELD}
_OTHER_FIELD = """
        found = value[key_{name}]
        record.{name} = {default} if found is None else read_{name}(found)
"""
_LACKING_FIELD = """
        record.{name} = {default}
"""


def _careful_reader(model: type[Record], converter: "cattrs.BaseConverter") -> _Hook:
    """Return what reads any value in the place of an object, field by field."""
    fields = _own_fields(model)
    blank = {name: default for name, _, default in fields}
    readers: list[tuple[str, _Hook]] = [
        (name, converter.get_structure_hook(wanted)) for name, wanted, _ in fields
    ]
    hidden = {name for name, wanted, _ in fields if wanted in _SECRET_TYPES}
    unfrozen = _unfrozen(model)

    def read(value: object, _: object = None) -> object:
        if type(value) is not dict:
            return _read_stranger(read, value)
        unreadable: dict[str, str] = {}
        record = unfrozen()
        for name, read_value in readers:
            found = value.get(name)
            try:
                known = blank[name] if found is None else read_value(found)
            except _UnreadableEntriesError as error:
                known = error.known
                unreadable |= {f"{name}[{n}]": _shown(one) for n, one in error.unreadable.items()}
            except ValueError:
                known = blank[name]
                unreadable[name] = MASK if name in hidden else _shown(found)
            setattr(record, name, known)
        record.extra = _extra(value, blank)
        record.unreadable = unreadable
        record.__class__ = model
        return record

    return read


def _own_fields(model: type[Record]) -> _Fields:
    """Return name, type and default of each field that a reply may have."""
    return [
        (field.name, _without_none(field.type), field.default)
        for field in attrs.fields(model)
        if field.name not in _ADDED_FIELDS
    ]


def _unfrozen(model: type[Record]) -> type[Any]:
    """Return a class whose empty instances are filled and then made records.

    A frozen instance costs over twice as much to fill.
    """
    kept = {name: getattr(object, name) for name in ("__init__", "__setattr__", "__delattr__")}
    return type(model.__name__, (model,), {"__slots__": (), **kept})


def _read_stranger(read: _Hook, value: object) -> object:
    """Read what stands in the place of an object: some writers put a list around it."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return read(value[0])
    if value in ("", []):
        return None
    raise _UnreadableError


def _without_none(wanted: Any) -> Any:  # noqa: ANN401  # any annotation
    if isinstance(wanted, UnionType):
        return next(part for part in get_args(wanted) if part is not NoneType)
    return wanted


def _extra(value: Mapping[str, Any], known: Mapping[str, object]) -> dict[str, object]:
    return {
        name: without_secrets({name: element})[name]
        for name, element in value.items()
        if name not in known
    }


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value[:_LONGEST_SHOWN]
    shown = without_secrets(value)
    try:
        text = orjson.dumps(shown).decode()
    except orjson.JSONEncodeError:
        text = repr(shown)
    return text[:_LONGEST_SHOWN]


def without_secrets(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  # any JSON value
    """Return a JSON value with `***` for what is named like card data or a signature.

    What is nested more than 16 deep is `***` too.
    """
    if not isinstance(value, dict | list):
        return value
    if depth > _DEEPEST_KEPT:
        return MASK
    if isinstance(value, list):
        return [without_secrets(element, depth + 1) for element in value]
    return {
        name: MASK if _SECRET_NAME.search(name) else without_secrets(element, depth + 1)
        for name, element in value.items()
    }
