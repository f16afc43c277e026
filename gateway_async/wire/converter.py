"""The one converter that reads records from decoded replies.

Its law: reading a record never raises. What cannot be read is None in the record, with its text
in `unreadable`; what the interface does not list is in `extra`.
"""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

import attrs
import cattrs
import orjson

from gateway_async.models.records import Page, Record
from gateway_async.models.values import MASK, MaskedCard, SignatureText

_Hook = Callable[[Any, Any], Any]
_RecordType = TypeVar("_RecordType", bound=Record)

_ADDED_FIELDS = frozenset(attrs.fields_dict(Record))
_PLAIN_TYPES = frozenset((str, NoneType))
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


def read_record(model: type[_RecordType], value: object) -> _RecordType:
    """Return a record from what a reply holds in its place, whatever that is."""
    if not isinstance(value, dict):
        return _blank_record(value, model)
    record: _RecordType = _converter().get_structure_hook(model)(value, None)
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
    elements = _converter().get_structure_hook(tuple[model, ...])(reply.get(list_field), None)  # type: ignore[valid-type]  # made at run time
    page: Page[_RecordType] = read_record(Page, envelope)
    return attrs.evolve(page, records=elements)


@functools.cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter()
    configure_values(converter)
    configure_lists(converter)
    configure_records(converter)
    return converter


def configure_values(converter: cattrs.Converter) -> None:
    """Teach a converter the values that the fields of a record are made of."""
    for value_type, read in _VALUE_READERS.items():
        converter.register_structure_hook(value_type, read)


def configure_lists(converter: cattrs.Converter) -> None:
    """Teach a converter tuples: from a list, from a single element, and from nothing."""
    converter.register_structure_hook_factory(_is_tuple, _list_reader)


def configure_records(converter: cattrs.Converter) -> None:
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
    if isinstance(value, float):
        # Beyond this a float has lost digits, and its repr would make some up.
        if not -_EXACT_FLOATS < value < _EXACT_FLOATS:
            raise _UnreadableError
        return Decimal(repr(value))
    text = value if type(value) is str else _read_text(value)
    try:
        number = Decimal(text)
    except InvalidOperation:
        _require_blank(text)
        return None
    if number.is_finite():
        return number
    raise _UnreadableError


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


def _list_reader(wanted: Any, converter: cattrs.BaseConverter) -> _Hook:  # noqa: ANN401  # a generic alias
    element_type = get_args(wanted)[0]
    if isinstance(element_type, TypeVar):
        element_type = element_type.__bound__
    read = converter.get_structure_hook(element_type)
    read_other = _blank_record if issubclass(element_type, Record) else read

    def read_list(value: object, _: object = None) -> tuple[object, ...]:
        if value is None or value == "":
            return ()
        elements = value if isinstance(value, list | tuple) else [value]
        # One element that is no object does not spoil the others.
        return tuple(
            [
                read(element, None) if type(element) is dict else read_other(element, element_type)
                for element in elements
            ]
        )

    return read_list


def _blank_record(value: object, model: type[_RecordType]) -> _RecordType:
    return model(unreadable={"record": _shown(value)})


class _Unfrozen:
    """An instance to fill in one step, then made a record: a record itself is frozen."""


def _record_reader(model: type[Record], converter: cattrs.BaseConverter) -> _Hook:
    """Compile the reader of one class.

    All texts are checked in one step and all fields set in one step: a loop over each field
    would take most of the time that reading takes.
    """
    fields = [field for field in attrs.fields(model) if field.name not in _ADDED_FIELDS]
    types = {field.name: _without_none(field.type) for field in fields}
    blank = {field.name: field.default for field in fields}
    size = len(blank)
    texts = [name for name, wanted in types.items() if wanted is str]
    others = [
        (name, converter.get_structure_hook(wanted))
        for name, wanted in types.items()
        if wanted is not str
    ]
    every = [*others, *((name, _read_text) for name in texts)]
    texts_of = itemgetter(*texts) if others else dict.values

    def read(value: object, _: object = None) -> object:
        if type(value) is not dict:
            return _read_stranger(read, value)
        values = blank | value
        extra = {} if len(values) == size else _take_extra(values, blank)
        unreadable: dict[str, str] = {}
        for name, read_value in (
            others if _PLAIN_TYPES.issuperset(map(type, texts_of(values))) else every
        ):
            if (raw := values[name]) is None:
                values[name] = blank[name]
                continue
            try:
                values[name] = read_value(raw, None)
            except ValueError:
                values[name] = blank[name]
                unreadable[name] = _shown(raw) if types[name] not in _SECRET_TYPES else MASK
        values["extra"] = extra
        values["unreadable"] = unreadable
        record = _Unfrozen()
        record.__dict__ = values
        record.__class__ = model  # type: ignore[assignment]  # same layout: neither has slots
        return record

    return read


def _read_stranger(read: _Hook, value: object) -> object:
    """Read what stands in the place of an object: some writers put a list around it."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return read(value[0], None)
    if value in ("", []):
        return None
    raise _UnreadableError


def _without_none(wanted: Any) -> Any:  # noqa: ANN401  # any annotation
    if isinstance(wanted, UnionType):
        return next(part for part in get_args(wanted) if part is not NoneType)
    return wanted


def _take_extra(values: dict[str, Any], known: Mapping[str, object]) -> dict[str, object]:
    names = [name for name in values if name not in known]
    return {
        name: without_secrets({name: value})[name]
        for name, value in ((name, values.pop(name)) for name in names)
    }


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value[:_LONGEST_SHOWN]
    try:
        text = orjson.dumps(without_secrets(value)).decode()
    except orjson.JSONEncodeError:
        text = repr(value)
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
