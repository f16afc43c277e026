"""Models to the very text that is sent (sections 2 and 4 of the interface).

Everything here gives the fields of a request as text, each exactly as it will stand in the body,
so that what is signed and what is sent cannot differ; secrets become plain text here. It knows no
credentials, no signature and no network. The fields of a model are the only list of what is sent
of it.
"""

import functools
import json
import string
from datetime import date
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import attrs
import orjson

from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import marked
from gateway_async.models.values import (
    CONVERTER,
    CURRENCY,
    describe,
    plain_text,
    to_amount,
    to_identifier,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef
    from gateway_async.operations import Operation

_MOST_DIGITS = 30
"""Before the point: an exponent may stand for any number of them."""
_PLAIN_PLACES = frozenset({1, 2, 3})
"""With so many places, a point before them shows that a text is one without an exponent."""
_PLAIN = bytes({*range(0x20, 0x100)} - {*b'"\\}'})
"""What stands in a JSON string as it is, and is no closing brace."""

_TO_PLAIN = (to_identifier, to_text, to_amount)
"""What converts the fields of orders that a template writes."""
_KEPT = f"{string.ascii_letters}{string.digits}_.-~% ".encode() + b"\0\1"
"""What `encode_form` does not escape, or replaces apart."""
_ESCAPES = tuple((bytes([byte]), b"%%%02X" % byte) for byte in range(256))


class JsonText(str):
    """Text that is JSON already: it goes into a JSON body as it is, without quotes."""

    __slots__ = ()


@attrs.define(eq=False)  # a frozen one takes four times as long to make
class EncodedChunk:
    """The orders of one request, as they go out.

    Attributes:
        fields: The fields of the request that carry them.
        array: The JSON array among them, with one closing brace an order; empty where it has more,
            and for look-ups, which have none.
    """

    fields: "Mapping[str, str]" = attrs.field(repr=False)
    array: bytes = attrs.field(default=b"", repr=False)


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
    if not operation.list_field:
        return EncodedChunk(encode_fields(orders[0], dialect))
    if markers:
        orders = [
            attrs.evolve(order, refund_reason=marked(order.refund_reason, marker))
            for order, marker in zip(orders, markers, strict=True)
        ]
    writing, name = _writing(operation.order_class), operation.list_field  # type: ignore[arg-type]  # classes can be hashed
    if writing.template and not dialect.wire_names:
        try:
            written = writing.template(orders, _point_in(orders, dialect))
        except IndexError:  # of an amount without places
            written = []
        text = JsonText(f"[{','.join(written)}]")
        array = text.encode()
        # Where nothing needs an escape, the quotes of the template are the only ones.
        usual = (b'"' * 4 * len(writing.names) + b"}") * len(orders)
        if array.translate(None, _PLAIN) == usual:
            return EncodedChunk({name: text}, array)
    array = orjson.dumps([_Writer(dialect, order).values(order) for order in orders])
    fields = {dialect.wire_names.get(name, name): JsonText(array.decode())}
    return EncodedChunk(fields, array if array.count(b"}") == len(orders) else b"")


def encode_fields(model: object, dialect: "Dialect") -> dict[str, str]:
    """Return the fields of a payment or payout as text, by their names on the wire.

    Nested structures and integers are `JsonText`; None and empty arrays are left out.

    Raises:
        InvalidOrderError: For an amount with more decimal places than its currency has.
    """
    values = _Writer(dialect, model).values(model)
    return {
        name: plain_text(one) if isinstance(one, str) else JsonText(orjson.dumps(one).decode())
        for name, one in values.items()
    }


def check_amounts(orders: "Sequence[Any]", dialect: "Dialect") -> None:
    """Check that the amounts of orders of one class can be written.

    Raises:
        InvalidOrderError: For the first with more decimal places than its currency has.
    """
    writing = _writing(orders[0].__class__)
    if writing.template and (point := _point_in(orders, dialect)):
        has_places = Decimal((0, (1,), point + 1)).same_quantum
        values = (map(attrgetter(name), orders) for name in writing.amounts)
        if all(map(has_places, chain.from_iterable(values))):
            return
    for order in orders:
        for name, currency in writing.amounts.items():
            if (value := getattr(order, name)) is not None:
                _Writer(dialect, order).amount(order, name, value, currency)


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


# Models


@attrs.frozen
class _Writing:
    """How the instances of one class are written.

    Attributes:
        get: Gets the values of all fields, and one more at their end.
        names: The names of the fields.
        amounts: The fields that are amounts, each with the field of its currency.
        template: Writes orders in half the time. It is called with the place of the point in the
            text of an amount, and leaves out each order of which an amount has none there. None for
            a class with fields of more kinds.
    """

    get: "Callable[[Any], tuple[Any, ...]]"
    names: tuple[str, ...]
    amounts: "Mapping[str, str]"
    template: "Callable[[Sequence[Any], int], list[str]] | None"


@functools.cache
def _writing(model: type) -> _Writing:
    fields = attrs.fields(model)
    names = tuple(field.name for field in fields)
    currencies = {field.name: field.metadata.get(CURRENCY) for field in fields}
    amounts = {name: currency for name, currency in currencies.items() if currency}
    members = ",".join(f'"{n}":"{{{n if n in amounts else f"o.{n}"}}}"' for n in names)
    plain = " ".join(f"for {n} in [str(o.{n})] if {n}[point] == '.'" for n in amounts)
    # Of our own fields' names; a loop over them would take three times as long.
    template = eval(f"lambda orders, point: [f'{{{{{members}}}}}' for o in orders {plain}]")  # noqa: S307
    is_plain = {*amounts.values()} <= {"currency"} and all(
        field.default is not None and field.metadata.get(CONVERTER) in _TO_PLAIN for field in fields
    )
    get = attrgetter(*names, "__class__")  # of a single name, it would get no tuple
    return _Writing(get, names, amounts, template if is_plain else None)


def _point_in(orders: "Sequence[Any]", dialect: "Dialect") -> int:
    """Return where the point is in the text of an amount that has the places of its currency.

    It is counted from the end; 0, where no point is, if there is no such place for all of them.
    """
    places = {dialect.places(currency) for currency in {order.currency for order in orders}}
    return -places.pop() - 1 if len(places) == 1 and places <= _PLAIN_PLACES else 0


@attrs.define(eq=False)
class _Writer:
    """Writes an order, payment or payout, and what is nested in it.

    Secrets stay wrapped: an error on the way must not find one in a local variable.
    """

    _dialect: "Dialect"
    _owner: object

    def values(self, instance: object) -> dict[str, Any]:
        """Return what is set of the owner or a structure in it, by wire name, as orjson takes it.

        Raises:
            ConfigurationError: Where two fields would have the same name.
        """
        values: dict[str, Any] = {}
        writing, wire_names = _writing(instance.__class__), self._dialect.wire_names  # type: ignore[arg-type]  # classes can be hashed
        for name, value in zip(writing.names, writing.get(instance), strict=False):
            if value is None or value == ():
                continue
            wire_name = wire_names.get(name, name)
            if wire_name in values:
                raise ConfigurationError(
                    f"Dialect.wire_names: {name} and another field of the same structure would "
                    f"both be {wire_name} on the wire"
                )
            if name in writing.amounts:
                values[wire_name] = self.amount(instance, name, value, writing.amounts[name])
            else:
                values[wire_name] = value if type(value) is str else self._value(value)
        return values

    def amount(self, instance: object, field: str, value: Decimal, currency_field: str) -> str:
        """Return the text of an amount of the owner or of a structure in it.

        Raises:
            InvalidOrderError: If it has more decimal places than its currency.
        """
        owner = self._owner
        currency = getattr(owner, currency_field) or ""
        places = self._dialect.places(currency)
        text = f"{value:.{places}f}"
        is_short = value.adjusted() < _MOST_DIGITS
        if Decimal(text) == value and (is_short or text == str(value)):  # else, an exponent's zeros
            return text
        nested = "" if owner is instance else f".{type(instance).__name__}"
        raise InvalidOrderError(
            f"{describe(owner)}{nested}.{field}: {value} cannot be written with {places} decimal "
            f"places ({currency or 'no currency'}); round it yourself"
        )

    def _value(self, value: Any) -> Any:  # noqa: ANN401  # any value
        if isinstance(value, str):
            return value
        if isinstance(value, int | Decimal):
            return orjson.Fragment(str(value))
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, tuple):
            return [self._value(element) for element in value]
        return self.values(value)


# Bodies


def bracketed_fields(fields: "Mapping[str, str]") -> dict[str, str]:
    """Return fields without nested ones: the parts of each are fields, named as by PHP."""
    return dict(pair for name, text in fields.items() for pair in _bracketed(name, text))


def _bracketed(name: str, value: Any) -> "Iterator[tuple[str, str]]":  # noqa: ANN401  # as JSON has it
    """Give each text in a value its name, as PHP writes it."""
    if isinstance(value, JsonText):
        value = json.loads(value, parse_float=str)  # digit by digit as they are
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            yield from _bracketed(f"{name}[{key}]", member)
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


def encode_json(fields: "Mapping[str, str]") -> bytes:
    """Return a JSON body: `JsonText` as it is, other text as JSON strings."""
    return orjson.dumps(
        {
            name: orjson.Fragment(text.encode()) if type(text) is JsonText else text
            for name, text in fields.items()
        }
    )


def encode_form(fields: "Mapping[str, str]") -> bytes:
    """Return a form-urlencoded body in UTF-8."""
    pairs = "\0".join(map("\1".join, fields.items()))
    is_usual = pairs.count("\0") == len(fields) - 1 and pairs.count("\1") == len(fields)
    if not is_usual:
        return urlencode(fields).encode()
    form = pairs.encode().replace(b"%", b"%25")
    for byte in set(form.translate(None, _KEPT)):
        form = form.replace(*_ESCAPES[byte])
    return form.replace(b" ", b"+").replace(b"\1", b"=").replace(b"\0", b"&")
