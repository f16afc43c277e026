"""Models to the very text that is sent (sections 2 and 4 of the interface).

Everything here gives the fields of a request as text, each exactly as it will stand in the body,
so that what is signed and what is sent cannot differ; secrets become plain text here. It knows no
credentials, no signature and no network. The fields of a model are the only list of what is sent
of it.
"""

import functools
import json
import re
import string
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import marked
from gateway_async.models.values import (
    JOINED,
    SensitiveText,
    converter_of,
    currency_field,
    describe,
    is_encodable,
    to_identifier,
    to_text,
)
from gateway_async.operations import BodyFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef
    from gateway_async.operations import Operation

_MOST_DIGITS = 30
_PLAIN = bytes({*range(0x20, 0x100)} - {*b'"\\}'})
"""What stands in a JSON string as it is, and is no closing brace."""

_EQUALS, _NEXT_PAIR = "\udcfe", "\udcff"
"""Stand for `=` and `&` while a form is escaped; so encoded, they are bytes foreign to UTF-8."""
_KEPT = f"{string.ascii_letters}{string.digits}_.-~% ".encode() + b"\xfe\xff"
"""What is not escaped, or not as the others are."""
_ESCAPES = tuple((bytes([byte]), b"%%%02X" % byte) for byte in range(256))


class JsonText(str):
    """Text that is JSON already: it goes into a JSON body as it is, without quotes."""

    __slots__ = ()


def encode_fields(model: object, dialect: "Dialect") -> dict[str, str]:
    """Return the fields of a payment or payout as text, by their names on the wire.

    Nested structures and integers are `JsonText`; None and empty arrays are left out.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    return {
        name: value if type(value) is str else _text(value)
        for name, value in _values(model, model.__class__, dialect, model).items()
    }


@attrs.define(eq=False)  # a frozen one takes four times as long to make
class EncodedChunk:
    """The orders of one request, as they go out.

    Attributes:
        fields: The fields of the request that carry them.
        listed: The JSON array among them, with one closing brace an order; empty where it has more,
            and for look-ups, which have none.
    """

    fields: "Mapping[str, str]" = attrs.field(repr=False)
    listed: bytes = attrs.field(default=b"", repr=False)


def encode_chunk(
    operation: "Operation",
    orders: "Sequence[Any]",
    dialect: "Dialect",
    markers: "Sequence[str]" = (),
) -> EncodedChunk:
    """Write the orders of one request.

    Args:
        operation: What is asked for.
        orders: The orders, all of the operation's class.
        dialect: Names and decimal places.
        markers: What is put before the reason of each refund, if anything is.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has, or a
            reference that contains the separator between two references.
    """
    if operation.is_look_up:
        return EncodedChunk(selection_fields(orders, dialect))
    if operation.list_field is None:
        return EncodedChunk(encode_fields(orders[0], dialect))
    if markers:
        orders = [
            attrs.evolve(order, refund_reason=marked(order.refund_reason, marker))
            for order, marker in zip(orders, markers, strict=True)
        ]
    model, name = operation.order_class, operation.list_field
    if (plain := _written_plainly(model, orders, dialect)) is not None:
        text, listed = plain
        return EncodedChunk({name: text}, listed)
    listed = orjson.dumps([_values(order, model, dialect, order) for order in orders])
    fields = {dialect.wire_names.get(name, name): JsonText(listed.decode())}
    return EncodedChunk(fields, listed if listed.count(b"}") == len(orders) else b"")


def amounts_are_plain(orders: "Sequence[Any]", dialect: "Dialect") -> bool:
    """Return whether `str` writes each amount of orders of one class as it must go out."""
    return _plain_amounts(orders[0].__class__, orders, dialect) is not None


def check_amounts(order: Any, dialect: "Dialect") -> None:  # noqa: ANN401  # any order
    """Check that the amounts of an order can be written.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    for field in attrs.fields(order.__class__):
        if name := currency_field(field):
            value = getattr(order, field.name)
            _amount(value, order, dialect, order, field=field.name, currency_name=name)


def selection_fields(refs: "Iterable[OrderRef]", dialect: "Dialect") -> dict[str, str]:
    """Return the form fields that ask a look-up for these orders.

    Raises:
        InvalidOrderError: For a reference that contains the separator between two references.
    """
    separator = dialect.selection_separator
    chosen: dict[str, list[str]] = {}
    for ref in refs:
        if separator in ref.value:
            raise InvalidOrderError(
                f"{describe(ref)}.{ref.kind}: contains {separator!r}, which separates two "
                "references in a look-up; look it up by its other reference"
            )
        chosen.setdefault(dialect.selection_fields[ref.kind], []).append(ref.value)
    return {name: separator.join(values) for name, values in chosen.items()}


def written_fields(
    fields: "Mapping[str, str]", body_format: BodyFormat, dialect: "Dialect"
) -> "Mapping[str, str]":
    """Return fields as a body of this format has them: nested parts of a form may be bracketed.

    Raises:
        ConfigurationError: Where two fields would have the same name.
    """
    if body_format is BodyFormat.JSON or dialect.form_nesting != "brackets":
        return fields
    pairs = [
        pair
        for name, text in fields.items()
        for pair in _bracketed(
            name,
            json.loads(text, parse_float=str, parse_int=str)  # digit by digit as they are
            if isinstance(text, JsonText)
            else text,
        )
    ]
    written = dict(pairs)
    if len(written) < len(pairs):
        raise ConfigurationError(
            "nothing was sent: two fields would have the same name in brackets; "
            f"they are {', '.join(fields)}"
        )
    return written


def _bracketed(name: str, value: Any) -> "Iterator[tuple[str, str]]":  # noqa: ANN401  # as JSON has it
    """Give each text in a value its name, as PHP writes it."""
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            yield from _bracketed(f"{name}[{key}]", member)
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


def encode_json(fields: "Mapping[str, str]") -> bytes:
    """Return a JSON body: `JsonText` as it is, other text as JSON strings.

    Raises:
        InvalidOrderError: For text that UTF-8 cannot carry.
    """
    _check_encodable(fields)
    return orjson.dumps(
        {
            name: orjson.Fragment(text.encode()) if isinstance(text, JsonText) else text
            for name, text in fields.items()
        }
    )


def encode_form(fields: "Mapping[str, str]") -> bytes:
    """Return a form-urlencoded body in UTF-8.

    Raises:
        InvalidOrderError: For text that UTF-8 cannot carry.
    """
    _check_encodable(fields)
    pairs = _NEXT_PAIR.join([f"{name}{_EQUALS}{text}" for name, text in fields.items()])
    form = pairs.encode(errors="surrogateescape").replace(b"%", b"%25")
    for byte in set(form.translate(None, _KEPT)):
        form = form.replace(*_ESCAPES[byte])
    return form.replace(b" ", b"+").replace(b"\xfe", b"=").replace(b"\xff", b"&")


def amount_text(amount: Decimal, places: int) -> str | None:
    """Return an amount with exactly so many decimal places; None if that would change it."""
    text = str(amount)
    if places < len(text) <= _MOST_DIGITS and text[-places - 1] == "." and "E" not in text:
        return text  # as it nearly always is written
    if amount and not -_MOST_DIGITS < amount.adjusted() < _MOST_DIGITS:
        return None
    whole, _, fraction = format(amount or Decimal(0), "f").partition(".")
    if fraction[places:].strip("0"):
        return None
    return f"{whole}.{fraction[:places].ljust(places, '0')}" if places else whole


def _check_encodable(fields: "Mapping[str, str]") -> None:
    for name, text in fields.items():
        if not (is_encodable(name) and is_encodable(text)):
            raise InvalidOrderError(
                f"{name!r}: holds half a surrogate pair, which UTF-8 cannot carry"
            )


def _written_plainly(
    model: type, orders: "Sequence[Any]", dialect: "Dialect"
) -> tuple[JsonText, bytes] | None:
    """Write orders by one template, in half the time; None where a value needs more than that.

    The template is right where nothing needs an escape: then its own quotes are the only ones.
    """
    write, quotes = _template(model)
    amounts = None if dialect.wire_names else _plain_amounts(model, orders, dialect)
    if amounts is None or not quotes:
        return None
    text = JsonText(f"[{write(orders, amounts)}]")
    listed = text.encode()
    is_plain = listed.translate(None, _PLAIN) == (b'"' * quotes + b"}") * len(orders)
    return (text, listed) if is_plain else None


def _plain_amounts(
    model: type, orders: "Sequence[Any]", dialect: "Dialect"
) -> "Sequence[Sequence[str]] | None":
    """Return the texts of amounts, field by field; None where some have other decimal places."""
    places = {dialect.places(currency) for currency in {order.currency for order in orders}}
    texts = _amount_texts(model)(orders)
    if len(places) != 1:
        return None
    joined = " ".join([" ".join(each) for each in texts])
    return texts if _amounts_with(*places).fullmatch(f"{joined} ") else None


@functools.cache
def _amounts_with(places: int) -> re.Pattern[str]:
    """Return what amounts look like that have so many decimal places, a blank after each."""
    fraction = r"\." + "[0-9]" * places if places else ""
    return re.compile(rf"(?:[0-9]{{1,{_MOST_DIGITS}}}+{fraction} )++")


@functools.cache
def _amount_texts(model: type) -> "Callable[[Sequence[Any]], Sequence[Sequence[str]]]":
    """Compile what writes the amounts of orders, field by field."""
    names = [field.name for field in attrs.fields(model) if currency_field(field)]
    texts = ", ".join(f"[str(o.{name}) for o in orders]" for name in names)
    write: Callable[[Sequence[Any]], Sequence[Sequence[str]]] = eval(f"lambda orders: [{texts}]")  # noqa: S307  # of our own fields' names
    return write


@functools.cache
def _template(model: type) -> "tuple[Callable[..., str], int]":
    """Compile what writes orders; a loop over their fields would take three times as long.

    Returns:
        It, and the quotes in its text of one order: none if some field is more than a text.
    """
    fields = attrs.fields(model)
    amounts = [field.name for field in fields if currency_field(field)]
    texts = [
        field.name
        for field in fields
        if converter_of(field) in (to_text, to_identifier) and field.default is not None
    ]
    members = ",".join(
        f'"{field.name}":"{{{"" if field.name in amounts else "o."}{field.name}}}"'
        for field in fields
    )
    loop = f"for {', '.join(['o', *amounts])} in zip(orders, *amounts)"
    write = eval(f"lambda orders, amounts: ','.join([f'{{{{{members}}}}}' {loop}])")  # noqa: S307  # likewise
    return write, 4 * len(fields) if len(amounts) + len(texts) == len(fields) else 0


def _values(
    instance: Any,  # noqa: ANN401  # any model
    model: type,
    dialect: "Dialect",
    owner: object,
) -> dict[str, Any]:
    """Return what is set of a model, by wire name, each value as orjson takes it.

    Secrets stay wrapped: an error on the way must not find one in a local variable.

    Args:
        instance: The order, payment or payout, or a structure nested in it.
        model: The class whose fields are sent.
        dialect: Names and decimal places.
        owner: The order, payment or payout, for errors.

    Raises:
        ConfigurationError: Where two fields would have the same name.
    """
    values: dict[str, Any] = {}
    get, writers = _writers(model)
    for (name, write), value in zip(writers, get(instance), strict=False):
        if type(value) is str:  # as most are
            values[name] = value
        elif value is not None and not (type(value) is tuple and not value):
            values[name] = write(value, instance, dialect, owner)
    if not (names := dialect.wire_names):
        return values
    renamed = {names.get(name, name): value for name, value in values.items()}
    if len(renamed) < len(values):
        raise ConfigurationError(
            "Dialect.wire_names: two fields of one structure would have the same name on the wire; "
            f"they are {', '.join(values)}"
        )
    return renamed


@functools.cache
def _writers(model: type) -> "tuple[Callable[[Any], Any], list[tuple[str, Callable[..., Any]]]]":
    """Return what gets all values of a model, one more at their end, and what writes each."""
    writers = [(field.name, _writer(field)) for field in attrs.fields(model)]
    # Of a single name, it would get no tuple.
    return attrgetter(*dict(writers), "__class__"), writers


def _writer(field: "attrs.Attribute[Any]") -> "Callable[..., Any]":
    if name := currency_field(field):
        return functools.partial(_amount, field=field.name, currency_name=name)
    if join := field.metadata.get(JOINED):
        return lambda value, *_: join(value)
    return _value


def _amount(  # noqa: PLR0913  # what any value is written by, and two names
    value: Decimal,
    instance: object,
    dialect: "Dialect",
    owner: object,
    *,
    field: str,
    currency_name: str,
) -> str:
    currency = getattr(instance, currency_name, "") or getattr(owner, currency_name, "") or ""
    places = dialect.places(currency)
    text = amount_text(value, places)
    if text is not None:
        return text
    nested = "" if owner is instance else f".{type(instance).__name__}"
    raise InvalidOrderError(
        f"{describe(owner)}{nested}.{field}: {value} cannot be written with {places} decimal "
        f"places ({currency or 'no currency'}); round it yourself"
    )


def _value(value: Any, instance: object, dialect: "Dialect", owner: object) -> Any:  # noqa: ANN401  # any value
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal):
        return orjson.Fragment(str(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_value(element, instance, dialect, owner) for element in value]
    return _values(value, value.__class__, dialect, owner)


def _text(value: Any) -> str:  # noqa: ANN401  # whatever `_values` gives
    if isinstance(value, SensitiveText):
        return value.reveal()
    return value if isinstance(value, str) else JsonText(orjson.dumps(value).decode())
