"""Models to the very text that is sent (sections 2 and 4 of the interface).

Everything here gives the fields of a request as text, each exactly as it will stand in the body,
so that what is signed and what is sent cannot differ. This is the one place where a secret
becomes plain text. It knows no credentials, no signature and no network.
"""

import functools
import json
import re
import string
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import marked
from gateway_async.models.values import (
    CURRENCY,
    JOINED,
    NUMBER,
    SensitiveText,
    describe,
    is_encodable,
)
from gateway_async.operations import BodyFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef
    from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment
    from gateway_async.models.payouts import PayoutRequest
    from gateway_async.operations import Operation

    Row = dict[str, Any]

_MOST_DIGITS = 30

_EQUALS, _NEXT_PAIR = "\udcfe", "\udcff"
"""Stand for `=` and `&` while a form is escaped; so encoded, they are bytes foreign to UTF-8."""
_KEPT = f"{string.ascii_letters}{string.digits}_.-~% ".encode() + b"\xfe\xff"
"""What is not escaped, or not as the others are."""
_ESCAPES = tuple((bytes([byte]), b"%%%02X" % byte) for byte in range(256))


class JsonText(str):
    """Text that is JSON already: it goes into a JSON body as it is, without quotes."""

    __slots__ = ()


def payment_fields(
    payment: "DirectPayment | ApmPayment | RedirectPayment", dialect: "Dialect"
) -> dict[str, str]:
    """Return the fields of a payment request as text, by their names on the wire.

    Nested structures and integers are `JsonText`; None and empty arrays are left out.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    return _texts(_values(payment, dialect))


def payout_fields(request: "PayoutRequest", dialect: "Dialect") -> dict[str, str]:
    """Return the fields of a payout request as text, in the manner of `payment_fields`.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    return _texts(_values(request, dialect))


@attrs.frozen
class EncodedChunk:
    """The orders of one request, as they go out.

    Attributes:
        fields: The fields of the request that carry them.
        listed: The JSON array among them; empty for look-ups, which have none.
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
        return EncodedChunk(payout_fields(orders[0], dialect))
    model: type[Any] = operation.order_class or object
    rows = _rows_writer(model)(orders)  # type: ignore[arg-type]  # classes can be hashed
    currencies = {row["currency"] for row in rows}
    names = _amount_names(model)  # type: ignore[arg-type]  # classes can be hashed
    amounts = [row[name] for name in names for row in rows]
    if not _are_plain(amounts, currencies, dialect):
        rows = [_order_row(order, model, dialect) for order in orders]
    for row, marker in zip(rows, markers, strict=bool(markers)):
        row["refund_reason"] = marked(row["refund_reason"], marker)
    wire_names, name = dialect.wire_names, operation.list_field or ""
    listed = orjson.dumps([_renamed(row, wire_names) for row in rows] if wire_names else rows)
    return EncodedChunk({wire_names.get(name, name): JsonText(listed.decode())}, listed)


def amounts_are_plain(orders: "Sequence[Any]", dialect: "Dialect") -> bool:
    """Say whether orders of one class have amounts that are written just as they show."""
    currencies = {order.currency for order in orders}
    names = _amount_names(orders[0].__class__)
    return _are_plain(
        [str(getattr(o, name)) for name in names for o in orders], currencies, dialect
    )


def check_amounts(order: Any, dialect: "Dialect") -> None:  # noqa: ANN401  # any order
    """Check that the amounts of an order can be written.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    for field in _amount_fields(order.__class__):
        if (amount := getattr(order, field.name)) is not None:
            _amount(amount, order, dialect, order, field)


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
    if _plain_amounts(places).fullmatch(f"{text} "):
        return text
    if amount and not -_MOST_DIGITS < amount.adjusted() < _MOST_DIGITS:
        return None
    whole, _, fraction = format(amount or Decimal(0), "f").partition(".")
    if fraction[places:].strip("0"):
        return None
    return f"{whole}.{fraction[:places].ljust(places, '0')}" if places else whole


def _check_encodable(fields: "Mapping[str, str]") -> None:
    if is_encodable("".join((*fields, *fields.values()))):
        return
    for name, text in fields.items():
        if not is_encodable(name + text):
            raise InvalidOrderError(
                f"{name!r}: holds half a surrogate pair, which UTF-8 cannot carry"
            )


def _values(instance: Any, dialect: "Dialect", owner: object = None) -> dict[str, Any]:  # noqa: ANN401  # any model
    """Return what is set of a model, by wire name, each value as orjson takes it.

    Secrets stay wrapped: an error on the way must not find one in a local variable.

    Args:
        instance: The order, payment or payout, or a structure nested in it.
        dialect: Names and decimal places.
        owner: The payment or payout that a nested structure stands in.
    """
    names = dialect.wire_names
    owner = owner or instance
    values: dict[str, Any] = {}
    for name, write in _writers(instance.__class__):
        value = getattr(instance, name)
        if type(value) is str:  # as most are
            values[name] = value
        elif value is not None and not (type(value) is tuple and not value):
            values[name] = write(value, instance, dialect, owner)
    return _renamed(values, names) if names else values


def _renamed(values: "dict[str, Any]", names: "Mapping[str, str]") -> dict[str, Any]:
    """Give fields their names on the wire.

    Raises:
        ConfigurationError: Where two fields would have the same one.
    """
    renamed = {names.get(name, name): value for name, value in values.items()}
    if len(renamed) < len(values):
        raise ConfigurationError(
            "Dialect.wire_names: two fields of one structure would have the same name on the wire; "
            f"they are {', '.join(values)}"
        )
    return renamed


def _are_plain(texts: "Iterable[str]", currencies: "Collection[str]", dialect: "Dialect") -> bool:
    """Say whether amounts are written with the decimal places that their currencies all have."""
    places = set(map(dialect.places, currencies))
    if len(places) != 1:
        return False
    return _plain_amounts(*places).fullmatch(f"{' '.join(texts)} ") is not None


@functools.cache
def _rows_writer(model: type) -> "Callable[[Sequence[Any]], list[Row]]":
    """Compile what writes orders: a loop over their fields would take three times as long."""
    written = [
        f"{field.name!r}: {'str(o.{0})' if CURRENCY in field.metadata else 'o.{0}'}".format(
            field.name
        )
        for field in attrs.fields(model)
    ]
    source = f"lambda orders: [{{{', '.join(written)}}} for o in orders]"
    writer: Callable[[Sequence[Any]], list[Row]] = eval(source)  # noqa: S307  # of our own fields' names
    return writer


@functools.cache
def _plain_amounts(places: int) -> re.Pattern[str]:
    """Return what amounts look like that have so many decimal places, a blank after each."""
    fraction = r"\." + "[0-9]" * places if places else ""
    return re.compile(rf"(?:[0-9]{{1,{_MOST_DIGITS}}}{fraction} )+")


def _order_row(order: Any, model: type, dialect: "Dialect") -> "Row":  # noqa: ANN401  # any order
    """Return the row of one order, each amount brought to its decimal places."""
    row = {field.name: getattr(order, field.name) for field in attrs.fields(model)}
    for field in _amount_fields(model):
        row[field.name] = _amount(row[field.name], order, dialect, order, field)
    return row


@functools.cache
def _amount_fields(model: type) -> "tuple[attrs.Attribute[Any], ...]":
    return tuple(field for field in attrs.fields(model) if CURRENCY in field.metadata)


@functools.cache
def _amount_names(model: type) -> tuple[str, ...]:
    return tuple(field.name for field in _amount_fields(model))


@functools.cache
def _writers(model: type) -> "tuple[tuple[str, Callable[..., Any]], ...]":
    return tuple((field.name, _writer(field)) for field in attrs.fields(model))


def _writer(field: "attrs.Attribute[Any]") -> "Callable[..., Any]":
    if CURRENCY in field.metadata:
        return functools.partial(_amount, field=field)
    if JOINED in field.metadata:
        return functools.partial(_joined, join=field.metadata[JOINED])
    return _number if field.metadata.get(NUMBER) else _value


def _amount(
    value: Decimal,
    instance: object,
    dialect: "Dialect",
    owner: object,
    field: "attrs.Attribute[Any]",
) -> str:
    name = field.metadata[CURRENCY]
    currency = getattr(instance, name, None) or getattr(owner, name, None) or ""
    places = dialect.places(currency)
    text = amount_text(value, places)
    if text is not None:
        return text
    nested = "" if owner is instance else f".{type(instance).__name__}"
    raise InvalidOrderError(
        f"{describe(owner)}{nested}.{field.name}: {value} cannot be written with {places} decimal "
        f"places ({currency or 'no currency'}); round it yourself"
    )


def _joined(value: object, *_: object, join: "Callable[[Any], str]") -> str:
    return join(value)


def _number(value: Decimal, *_: object) -> orjson.Fragment:
    return orjson.Fragment(str(value))


def _value(value: Any, instance: object, dialect: "Dialect", owner: object) -> Any:  # noqa: ANN401  # any value
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return orjson.Fragment(str(value))
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, tuple):
        return _values(value, dialect, owner)
    return [_value(element, instance, dialect, owner) for element in value]


def _texts(values: "Mapping[str, Any]") -> dict[str, str]:
    return {name: value if type(value) is str else _text(value) for name, value in values.items()}


def _text(value: Any) -> str:  # noqa: ANN401  # whatever `_values` gives
    if isinstance(value, SensitiveText):
        return value.reveal()
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> JsonText:  # noqa: ANN401  # whatever `_values` gives
    return JsonText(orjson.dumps(value).decode())
