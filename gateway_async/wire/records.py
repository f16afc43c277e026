"""Records from decoded replies.

Reading a record never raises. What cannot be read is None in the record, or missing in its list,
with its text in `unreadable`; what the interface does not list is in `extra`.

Each class has a `_Reader`. It writes out a function for objects with the very fields that one had:
a loop over the fields would take most of the time.
"""

import contextlib
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar, get_args, get_origin

import attrs

from gateway_async.models.records import MaskedCard, Message, Page, Record
from gateway_async.models.values import (
    MASK,
    SignatureText,
    mask_cards,
    remask_card,
    to_date,
    to_number,
    unfrozen,
    without_none,
)

_Read = Callable[[Any], Any]
_RecordType = TypeVar("_RecordType", bound=Record)

_ADDED_FIELDS = frozenset(attrs.fields_dict(Record))
_NO_SECRETS = frozenset((str, Decimal, datetime, date))
"""Types of fields of which none holds card data or a text that the gateway made."""
_EXACT_FLOATS = 2.0**53
_DATE_LENGTH = len("YYYY-MM-DD")
_DATE_TIME_DIGITS = len("YYYYMMDDhhmmss")
_LONGEST_SHOWN = 1_000
_DEEPEST_KEPT = 16
_LONGEST_KNOWN, _MOST_KNOWN = 40, 1_000
_MOST_FUNCTIONS = 16
_SECRET_NAME = re.compile(
    r"card|cvv|cvc|cavv|security_?code|encryption|^sign|signature|secret|password|^pan$|allparams",
    re.IGNORECASE,
)


def read_record(model: type[_RecordType], value: object) -> _RecordType:
    """Return a record from what a reply holds in its place, whatever that is."""
    if not isinstance(value, dict):
        return model(unreadable={"record": _shown(value)})
    record: _RecordType = _reader(model).read(value)  # type: ignore[arg-type]  # classes can be hashed
    return record


def read_records(model: type[_RecordType], values: Sequence[object]) -> list[_RecordType]:
    """Return the records of a list of a reply, whatever is in it."""
    try:
        return list(map(_reader(model).usual, values))  # type: ignore[arg-type]  # likewise
    except KeyError:
        return [read_record(model, value) for value in values]


def read_page(
    model: type[_RecordType], reply: Mapping[str, object], list_field: str, listed: Sequence[object]
) -> Page[_RecordType]:
    """Return the page of records that a look-up's reply is.

    Args:
        model: What each record is.
        reply: The decoded reply.
        list_field: The field that holds the records.
        listed: What it holds.
    """
    envelope = {name: value for name, value in reply.items() if name != list_field}
    page: Page[_RecordType] = read_record(Page, envelope)
    return attrs.evolve(page, records=tuple(read_records(model, listed)))


def storable_item(model: type[Record], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a reply without secrets; a number is left where the model has a field."""
    listed = _reader(model).listed  # type: ignore[arg-type]  # likewise
    kept = {
        name: value
        for name, value in item.items()
        if listed.get(name) in _NO_SECRETS and not isinstance(value, dict | list)
    }
    others = {name: value for name, value in item.items() if name not in kept}
    return {**kept, **without_secrets(others)}


def without_secrets(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  # any JSON value
    """Return a JSON value with `***` for what is named like card data or a signature.

    Card numbers in names, texts and integers are masked. What is nested more than 16 deep is `***`
    too.
    """
    if isinstance(value, str | int):
        masked = mask_cards(str(value))
        return value if masked == str(value) else masked
    if not isinstance(value, dict | list):
        return value
    if depth > _DEEPEST_KEPT:
        return MASK
    if isinstance(value, list):
        return [without_secrets(element, depth + 1) for element in value]
    return {
        mask_cards(name): MASK if _SECRET_NAME.search(name) else without_secrets(element, depth + 1)
        for name, element in value.items()
    }


# Values: each function returns what a field holds, or raises `ValueError`.


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError


def _unless_blank(read: _Read) -> _Read:
    """Return what reads a text without white space around it, and a blank one as None."""

    def read_text(value: object) -> object:
        # Beyond 2**53 a float has lost digits, and its repr would make some up.
        if read is to_number and isinstance(value, float) and abs(value) < _EXACT_FLOATS:
            value = repr(value)
        text = _read_text(value).strip()
        return read(text) if text else None

    return read_text


def _read_datetime(text: str) -> datetime:
    """Read `YYYYMMDDhhmmss` without a zone, and ISO 8601 with the offset that it has."""
    if len(text) == _DATE_TIME_DIGITS and text.isdigit():
        return datetime.fromisoformat(f"{text[:8]}T{text[8:]}")
    if len(text) > _DATE_LENGTH and text[4] == "-":
        return datetime.fromisoformat(text)
    raise ValueError


_VALUES: dict[object, _Read] = {
    str: _read_text,
    Message: lambda value: mask_cards(_read_text(value)),
    Decimal: _unless_blank(to_number),
    datetime: _unless_blank(_read_datetime),
    date: _unless_blank(to_date),
    SignatureText: lambda value: SignatureText(_read_text(value)),
    MaskedCard: lambda value: remask_card(_read_text(value)),
}


def _value_reader(wanted: Any) -> _Read:  # noqa: ANN401  # any annotation
    """Return what reads the value of a field."""
    if get_origin(wanted) is not tuple:
        return _VALUES[wanted] if wanted in _VALUES else _reader(wanted).read
    element = get_args(wanted)[0]
    element = getattr(element, "__bound__", element)
    if element in _VALUES:
        return functools.partial(_read_list, _VALUES[element])
    return lambda value: tuple(read_records(element, _elements(value)))


class _PartlyReadError(ValueError):
    """A list of which some elements cannot be read; `readable` has the others."""

    def __init__(self, readable: tuple[object, ...]) -> None:
        super().__init__()
        self.readable = readable


def _read_list(read: _Read, value: object) -> tuple[object, ...]:
    elements, readable = _elements(value), list[object]()
    for element in elements:
        with contextlib.suppress(ValueError):
            readable.append(read(element))
    if len(readable) < len(elements):
        raise _PartlyReadError(tuple(readable))
    return tuple(readable)


def _elements(value: object) -> Sequence[object]:
    """Return a list, or what stands in its place: a single element, or nothing."""
    if isinstance(value, list):
        return value
    return () if value == "" else (value,)


# Records


class _Known(dict[object, Any]):
    """What short texts were read as, since many are alike; it forgets them once it is full."""

    def __init__(self, read: _Read) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, value: object) -> object:
        known = None if value is None else self._read(value)
        # Of what is no text, 1 and True would be one key; a text that was masked is not kept.
        is_kept = known == value if isinstance(known, str) else type(value) is str
        if is_kept and len(value) <= _LONGEST_KNOWN:  # type: ignore[arg-type]  # a text
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[value] = known
        return known


_READ = """
def read(value):
    if type(value) is not dict or len(value) != {size}{others}:
        raise KeyError
    record, unreadable = Unfrozen(), {{}}
    {fields}
    record.extra = {extra}
    record.unreadable = unreadable
    record.__class__ = model
    return record
"""
_LACKING_FIELD = """
    record.{name} = default_{name}"""
_FIELD = """
    found = {found}
    try:
        record.{name} = {reading}
    except (ValueError, TypeError) as error:  # the latter of a list, which is no key
        record.{name} = getattr(error, "readable", default_{name})
        unreadable = {{**unreadable, "{name}": shown_{name}(found)}}"""
_KNOWN = "known_{name}[found]"
_READINGS: dict[object, str] = {
    str: "found if type(found) is str or found is None else read_{name}(found)",
    Decimal: _KNOWN,
    Message: _KNOWN,
}
_OTHER_READING = "default_{name} if found is None else read_{name}(found)"


class _Reader:
    """Reads the records of one class.

    Attributes:
        listed: The type of each field that a reply may have, by name.
        usual: Reads objects of the fields that one had; raises `KeyError` for anything else.
    """

    def __init__(self, model: type[Record]) -> None:
        fields = [field for field in attrs.fields(model) if field.name not in _ADDED_FIELDS]
        self.listed = {field.name: without_none(field.type) for field in fields}
        self._scope: dict[str, Any] = {
            "model": model,
            "Unfrozen": unfrozen(model),
            "unlisted": self._unlisted,
        }
        for name, wanted in self.listed.items():
            read, is_secret = _value_reader(wanted), wanted in (MaskedCard, SignatureText)
            self._scope[f"default_{name}"] = attrs.fields_dict(model)[name].default
            self._scope[f"read_{name}"], self._scope[f"known_{name}"] = read, _Known(read)
            self._scope[f"shown_{name}"] = (lambda _: MASK) if is_secret else _shown
        self._functions: dict[tuple[str, ...], _Read] = {}
        self.usual = self._function_for(tuple(self.listed))

    def read(self, value: object) -> Any:  # noqa: ANN401  # a record, or None for nothing
        """Return the record of an object; raise `ValueError` for anything else."""
        try:
            return self.usual(value)  # all mostly have the same fields
        except KeyError:
            if isinstance(value, dict):
                self.usual = self._function_for(tuple(value))
                return self.usual(value)
        if value in ("", []):
            return None
        raise ValueError

    def _function_for(self, present: tuple[str, ...]) -> _Read:
        """Return what reads objects of these fields, and raises `KeyError` for others."""
        if present not in self._functions:
            if len(self._functions) >= _MOST_FUNCTIONS:
                return self._compiled(None)
            self._functions[present] = self._compiled(present)
        return self._functions[present]

    def _compiled(self, present: tuple[str, ...] | None) -> _Read:
        """Write a function for objects of these fields; of any fields, which is slower."""
        fields, scope = "", {**self._scope}
        for name, wanted in self.listed.items():
            template = _FIELD if present is None or name in present else _LACKING_FIELD
            reading = _READINGS.get(wanted, _OTHER_READING).format(name=name)
            found = f"value[key_{name}]" if present else f"value.get(key_{name})"
            fields += template.format(name=name, found=found, reading=reading)
        # orjson makes equal keys one object, which a dict finds without comparing texts.
        scope |= {f"key_{name}": name for name in present or self.listed}
        scope["others"] = set(present or ()) - self.listed.keys()
        others = " or not others <= value.keys()" if scope["others"] else ""
        extra = "unlisted(value)" if present is None or others else "{}"
        size = "len(value)" if present is None else len(present)
        source = _READ.format(size=size, others=others, fields=fields, extra=extra)
        exec(source, scope)  # noqa: S102  # of the templates above and our own fields' names
        compiled: _Read = scope["read"]
        return compiled

    def _unlisted(self, value: Mapping[str, Any]) -> Any:  # noqa: ANN401  # a mapping
        found = {name: one for name, one in value.items() if name not in self.listed}
        return without_secrets(found)


_reader = functools.cache(_Reader)


def _shown(value: object) -> str:
    shown = without_secrets(value)
    if not isinstance(shown, str):
        shown = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    return shown[:_LONGEST_SHOWN]
