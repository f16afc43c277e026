"""Orders as the journal stores them. Pure.

A block of orders is one JSON object with a list of values for each field of their class, so that
what one release stored another one reads, although its orders have more fields.
"""

import functools
import zlib
from array import array
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import InvalidOrderError, JournalError
from gateway_async.models.values import CONVERTER, MODEL, to_amount, to_identifier, to_text
from gateway_async.operations import OPERATIONS, identity_of
from gateway_async.settings import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gateway_async.operations import Operation

# How many orders the database stores together; the last block of a job may have fewer.
BLOCK = 50
# A sorted lookup key stands before the position of its order, in one number.
POSITION_BITS = 32
_PARTS_BITS = 4


class OrderCodec:
    """How the orders of one operation are stored.

    Attributes:
        operation: The operation.
        identity: Returns what names an order: its `transaction_id`, or its `request_id`.
    """

    def __init__(self, operation: "Operation") -> None:
        order_class = operation.order_class
        fields = attrs.fields(order_class)
        names = [field.name for field in fields]
        self.operation = operation
        self.identity: Callable[[Any], Any] = identity_of(operation)
        self._names = names
        self._read: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
        # What sets each field of an order without objects inside, and whether it is an amount.
        self._setters = [
            (getattr(order_class, one.name).__set__, one.metadata[CONVERTER] is to_amount)
            for one in (fields if all(map(_is_plain, fields)) else ())
        ]

    def encode(self, orders: "Sequence[object]") -> str:
        """Return a block of orders of this operation as text."""
        columns = zip(self._names, zip(*map(self._read, orders), strict=True), strict=True)
        return orjson.dumps(dict(columns), default=_stored).decode()

    def decode(self, block: str, job: str) -> list[Any]:
        """Return the orders of a block; a field that it was stored without has its default.

        Args:
            block: The text of the block.
            job: The name of its job, for an error.

        Raises:
            JournalError: If this release cannot make orders of it.
        """
        columns: dict[str, list[Any]] = orjson.loads(block)
        if self._setters and list(columns) == self._names:
            # They were checked when they were made; making them takes ten times as long.
            orders = [object.__new__(self.operation.order_class) for _ in columns[self._names[0]]]
            for (setter, is_amount), column in zip(self._setters, columns.values(), strict=True):
                given = map(Decimal, column) if is_amount else column
                list(map(setter, orders, given))  # quicker than a loop
            return orders
        try:
            return [
                make_order(self.operation.order_class, dict(zip(columns, values, strict=True)))
                for values in zip(*columns.values(), strict=True)
            ]
        except (InvalidOrderError, TypeError) as error:  # refused, or with other fields
            raise JournalError(
                f"job {job!r}: its orders were stored by another release, and this one cannot "
                f"make them: {error}; finish the job with the release that stored it",
                job=job,
            ) from None


def _stored(value: object) -> object:
    """Return an amount, or an object inside an order, as JSON has it; what is None is left out."""
    if isinstance(value, Decimal):
        return str(value)
    return attrs.asdict(value, filter=lambda _, part: part is not None)  # type: ignore[arg-type]  # a model


def make_order(model: type[Any], values: dict[str, Any]) -> Any:  # noqa: ANN401  # of the model
    """Make an order, or an object inside one, of its stored fields.

    Raises:
        InvalidOrderError: If the model refuses a value.
        TypeError: If it has no such field, or needs another.
    """
    for field in attrs.fields(model):
        inner, part = field.metadata.get(MODEL), values.get(field.name)
        if inner is not None and part is not None:
            made = [
                make_order(inner, each) for each in (part if isinstance(part, list) else [part])
            ]
            values[field.name] = made if isinstance(part, list) else made[0]
    return model(**values)


def differing_fields(known: Any, given: Any) -> str:  # noqa: ANN401  # orders
    """Name the fields in which an order differs from that of its job."""
    names = attrs.fields_dict(type(given))
    return ", ".join(name for name in names if getattr(known, name) != getattr(given, name))


def job_operation(name: str) -> "Operation":
    """Return the operation of a job by its name.

    Raises:
        ConfigurationError: For an operation that moves no money in a batch.
    """
    jobs = {known: operation for known, operation in OPERATIONS.items() if operation.takes_jobs}
    return choose("operation of a job", name, jobs)


@functools.cache
def codec_of(name: str) -> OrderCodec:
    """Return the codec of an operation; see `job_operation`."""
    return OrderCodec(job_operation(name))


def _is_plain(field: "attrs.Attribute[Any]") -> bool:
    """Say whether a field holds a text, or an amount that cannot be left out."""
    kind = field.metadata.get(CONVERTER)
    return kind in {to_text, to_identifier} or (
        kind is to_amount and field.default is attrs.NOTHING
    )


def lookup_key(identity: str) -> int:
    """Return what an order is found by: 32 bits, which others may share."""
    return zlib.crc32(identity.encode())


def sorted_keys(keys: "Iterable[int]", first: int = 0) -> "array[int]":
    """Return lookup keys, each with the position of its order, as one number each, ascending.

    They are sorted part by part: a million at once would take 40 MB more.

    Args:
        keys: The lookup keys of orders side by side.
        first: The position of the first.
    """
    parts = [array("Q") for _ in range(1 << _PARTS_BITS)]
    for at, key in enumerate(keys, first):
        parts[key >> 32 - _PARTS_BITS].append(key << POSITION_BITS | at)
    packed = array("Q")
    for part in parts:
        packed.extend(sorted(part))
    return packed


def position_of(packed: int) -> int:
    """Return the position in a number of `sorted_keys`."""
    return packed & (1 << POSITION_BITS) - 1
