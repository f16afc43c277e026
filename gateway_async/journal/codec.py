"""Orders as the journal keeps them: one JSON text for a block of them. Pure.

Law: what is read back is what was kept, to the letter, also by a release whose orders have more
fields; two orders have the same canonical text exactly if they are equal and of the same class.

A block names its fields once, before the values of its orders:
``{"fields": ["transaction_id", ...], "orders": [["T1", ...], ...]}``.
"""

import struct
import zlib
from decimal import Decimal
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import ConfigurationError, InvalidOrderError, JournalError
from gateway_async.models.values import currency_field
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway_async.operations import Operation

_ORDER = ("transaction_id", "order_no", "currency", "amount")
_FIELDS_IN_VERSION_2: "Mapping[str, tuple[str, ...]]" = MappingProxyType(
    {
        "capture": _ORDER,
        "cancel": _ORDER,
        "review": (*_ORDER, "review_flag"),
        "refund": (*_ORDER, "refund_amount", "refund_reason"),
    }
)
"""What the values stand for that journals of version 2 keep without names."""
_LONGEST_PLAIN = 30
_NO_TEXT = str.maketrans(dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd"))


@attrs.frozen
class OrderCodec:
    """How the orders of one operation are kept.

    Attributes:
        operation: The name of the operation.
        limit: How many orders a request of it has at most.
        order_class: What its orders are.
        names: The fields of the class.
        required: Those of them that have no default.
        read: Reads all fields of an order at once.
        write: For each field, what fills it in; orders are frozen, and were checked when made.
        amounts: Which of the fields are amounts, by position.
    """

    operation: str
    limit: int
    order_class: type[Any]
    names: tuple[str, ...]
    required: frozenset[str]
    read: "Callable[[Any], tuple[Any, ...]]"
    write: "tuple[Callable[[Any, Any], None], ...]"
    amounts: tuple[int, ...]

    def encode(self, order: object) -> str:
        """Return the values of an order as text, for this process alone.

        Raises:
            InvalidOrderError: For anything but an order of this operation.
        """
        return self._texts([order])[0][1:-1].decode()

    def decode(self, body: str) -> Any:  # noqa: ANN401  # any order
        """Return the order that such a text stands for."""
        return self.build([orjson.loads(body)])[0]

    def encode_block(self, orders: "Sequence[object]") -> tuple[bytes, bytes]:
        """Return the text that many orders are kept as, and the one that equal ones share.

        Raises:
            InvalidOrderError: For anything but orders of this operation.
        """
        values, canonical = self._texts(orders)
        return b'{"fields":%b,"orders":%b}' % (orjson.dumps(self.names), values), canonical

    def fields_of(self, block: str, job: str) -> tuple[str, ...]:
        """Return the fields that the orders of a block were kept with.

        Args:
            block: The text of the block.
            job: The name of its job, for an error.

        Raises:
            JournalError: If this release cannot make orders of them.
        """
        return self._opened(block, job)[0]

    def read_block(self, block: str, job: str) -> "Sequence[Sequence[Any]]":
        """Return the values of each order of a block, one for each field that the class has now.

        A field that the orders were kept without has its default.

        Args:
            block: The text of the block.
            job: The name of its job, for an error.

        Raises:
            JournalError: If this release cannot make orders of it.
        """
        names, rows = self._opened(block, job)
        if names == self.names:
            return rows
        try:
            orders = [self.order_class(**dict(zip(names, row, strict=True))) for row in rows]
        except InvalidOrderError as error:
            raise JournalError(
                f"job {job!r}: this release refuses an order that another one kept: {error}",
                job=job,
            ) from None
        values: Sequence[Sequence[Any]] = orjson.loads(self._texts(orders)[0])
        return values

    def canonical(self, orders: "Sequence[Any]", names: tuple[str, ...]) -> bytes:
        """Return the text that orders share with equal ones that were kept with these fields.

        A field that those were kept without is in it only where it has another value than they
        are read with.

        Raises:
            InvalidOrderError: For anything but orders of this operation.
        """
        canonical = self._texts(orders)[1]
        if names == self.names:
            return canonical
        texts = []
        for order, values in zip(orders, orjson.loads(canonical), strict=True):
            known = dict(zip(self.names, values, strict=True))
            kept = self.order_class(**{name: getattr(order, name) for name in names})
            added = {
                name: text
                for name, text in known.items()
                if getattr(kept, name) != getattr(order, name)
            }
            texts.append([*(known[name] for name in names), *([added] if added else [])])
        return orjson.dumps(texts)

    def build(self, values: "Sequence[Sequence[Any]]") -> list[Any]:
        """Return the orders that values stand for, one for each field of the class."""
        orders = [object.__new__(self.order_class) for _ in values]
        for at, column in enumerate(zip(*values, strict=True)):
            given = map(Decimal, column) if at in self.amounts else column
            list(map(self.write[at], orders, given))  # quicker than a loop
        return orders

    def _opened(self, block: str, job: str) -> "tuple[tuple[str, ...], list[list[Any]]]":
        found = orjson.loads(block)
        if isinstance(found, list):
            names, rows = _FIELDS_IN_VERSION_2[self.operation], found
        else:
            names, rows = tuple(found["fields"]), found["orders"]
        if names != self.names:
            unknown = ", ".join(name for name in names if name not in self.names)
            lacking = ", ".join(sorted(self.required.difference(names)))
            if unknown or lacking:
                problem = f"this release does not know {unknown}" if unknown else f"lack {lacking}"
                raise JournalError(
                    f"job {job!r}: its orders were kept by another release, and {problem}; finish "
                    "the job with the release that kept it",
                    job=job,
                )
        return names, rows

    def _texts(self, orders: "Sequence[object]") -> tuple[bytes, bytes]:
        """Return the values of orders, as they are and as equal orders share them."""
        for order in orders:
            if type(order) is not self.order_class:
                raise InvalidOrderError(
                    f"expected {self.order_class.__name__}, got {type(order).__name__}"
                )
        columns: list[Sequence[Any]] = list(zip(*map(self.read, orders), strict=True))
        plain = list(columns)
        for at in self.amounts if columns else ():
            columns[at] = [str(amount) for amount in columns[at]]
            plain[at] = list(map(canonical_amount, plain[at], columns[at]))
        kept = _dumped(columns)
        return kept, kept if plain == columns else _dumped(plain)


def body_of(values: "Sequence[str]") -> str:
    """Return the text of one order of a block, whose text was read."""
    return orjson.dumps(values).decode()


def _dumped(columns: "Sequence[Sequence[Any]]") -> bytes:
    return orjson.dumps(list(zip(*columns, strict=True)))


def canonical_amount(amount: Decimal, written: str | None = None) -> str:
    """Write an amount so that equal ones give the same text: with two decimals or more.

    Args:
        amount: The amount.
        written: Its text, if that is known; it is the canonical one already in the usual case.
    """
    text = str(amount) if written is None else written
    if text[-3:-2] == "." and text[0] != "-" and len(text) <= _LONGEST_PLAIN:
        return text
    plain = _without_zeros(amount, text)
    if "E" in plain:
        return plain
    whole, _, decimals = plain.partition(".")
    return f"{whole}.{decimals:0<2}"


def _without_zeros(amount: Decimal, text: str) -> str:
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


def lookup_key(transaction_id: str) -> int:
    """Return what an order is found by: 32 bits, which others may share."""
    return zlib.crc32(transaction_id.encode())


def pack_keys(keys: "Sequence[int]") -> bytes:
    """Write the keys of a block."""
    return struct.pack(f"<{len(keys)}I", *keys)


def unpack_keys(packed: bytes) -> tuple[int, ...]:
    """Read the keys of a block."""
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def _codec(operation: "Operation", order_class: "type[Any]") -> OrderCodec:
    fields = attrs.fields(order_class)
    names = tuple(field.name for field in fields)
    return OrderCodec(
        operation=operation.name,
        limit=operation.limit or 1,
        order_class=order_class,
        names=names,
        required=frozenset(field.name for field in fields if field.default is attrs.NOTHING),
        read=attrgetter(*names),
        write=tuple(getattr(order_class, name).__set__ for name in names),
        amounts=tuple(at for at, field in enumerate(fields) if currency_field(field)),
    )


CODECS: "Mapping[str, OrderCodec]" = MappingProxyType(
    {
        name: _codec(operation, operation.order_class)
        for name, operation in OPERATIONS.items()
        if operation.is_money_batch
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
