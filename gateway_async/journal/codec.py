"""Orders as the journal keeps them: one JSON text each. Pure.

Law: what is read back is what was kept, to the letter; two orders have the same canonical text
exactly if they are equal and of the same class.
"""

from decimal import Decimal
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import CancelOrder, CaptureOrder, RefundOrder, ReviewOrder
from gateway_async.operations import CANCEL, CAPTURE, REFUND, REVIEW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST_PLAIN = 30
_LONGEST_KEY = 500
"""In characters: 2000 bytes at most, where PostgreSQL's index takes 2700."""
_NO_TEXT = str.maketrans(dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd"))


@attrs.frozen
class OrderCodec:
    """How the orders of one operation are kept.

    Attributes:
        operation: The name of the operation.
        order_class: What its orders are.
        names: Their fields.
        read: Reads all fields at once.
        amounts: Which of the fields are amounts, by position.
    """

    operation: str
    order_class: type[Any]
    names: tuple[str, ...]
    read: "Callable[[Any], tuple[Any, ...]]"
    amounts: tuple[int, ...]

    def encode(self, order: object) -> str:
        """Return the text that an order is kept as.

        Raises:
            InvalidOrderError: For anything but an order of this operation.
        """
        return self._text(order, str)

    def canonical(self, order: object) -> str:
        """Return the text that an order shares with those that are equal to it, and no other."""
        return self._text(order, canonical_amount)

    def _text(self, order: object, write: "Callable[[Decimal], str]") -> str:
        if type(order) is not self.order_class:
            raise InvalidOrderError(
                f"expected {self.order_class.__name__}, got {type(order).__name__}"
            )
        values = list(self.read(order))
        for position in self.amounts:
            values[position] = write(values[position])
        return orjson.dumps(values).decode()

    def decode(self, body: str) -> Any:  # noqa: ANN401  # any order
        """Return the order that such a text stands for."""
        order = object.__new__(self.order_class)
        values = orjson.loads(body)
        for position in self.amounts:
            values[position] = Decimal(values[position])
        for name, value in zip(self.names, values, strict=True):
            object.__setattr__(order, name, value)  # it was checked when it was made
        return order


def canonical_amount(amount: Decimal) -> str:
    """Write an amount so that equal ones give the same text."""
    text = str(amount)
    if len(text) <= _LONGEST_PLAIN and "E" not in text:
        plain = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if plain == "-0" else plain
    _, digits, exponent = amount.as_tuple()
    significant = "".join(map(str, digits)).lstrip("0").rstrip("0")
    if not significant:
        return "0"
    power = int(exponent) + len(digits) - len("".join(map(str, digits)).rstrip("0"))
    scaled = Decimal(f"{significant}E{power}")
    plain = format(scaled, "f") if abs(power) <= _LONGEST_PLAIN else ""
    return plain if 0 < len(plain) <= _LONGEST_PLAIN else f"{significant}E{power}"


def storable(text: str) -> str:
    """Return a text as every database can hold it: half surrogate pairs and NUL as U+FFFD."""
    if text.isascii() and "\0" not in text:
        return text
    return text.translate(_NO_TEXT)


def lookup_key(transaction_id: str) -> str:
    """Return what an order is found by; ids that differ only far behind share one."""
    return storable(transaction_id[:_LONGEST_KEY])


def _codec(operation: str, order_class: "type[Any]") -> OrderCodec:
    fields: Sequence[attrs.Attribute[Any]] = attrs.fields(order_class)
    names = tuple(field.name for field in fields)
    amounts = tuple(at for at, name in enumerate(names) if name in {"amount", "refund_amount"})
    return OrderCodec(operation, order_class, names, attrgetter(*names), amounts)


CODECS: "Mapping[str, OrderCodec]" = MappingProxyType(
    {
        operation.name: _codec(operation.name, order_class)
        for operation, order_class in (
            (CAPTURE, CaptureOrder),
            (CANCEL, CancelOrder),
            (REVIEW, ReviewOrder),
            (REFUND, RefundOrder),
        )
    }
)
"""The codec of each operation that a job may be of, by its name."""


def codec_of(operation: str) -> OrderCodec:
    """Return the codec of an operation.

    Raises:
        ConfigurationError: For an operation that moves no money in a batch.
    """
    try:
        return CODECS[operation]
    except KeyError:
        raise ConfigurationError(
            f"operation: expected one of {', '.join(CODECS)} for a job, got {operation!r}"
        ) from None
