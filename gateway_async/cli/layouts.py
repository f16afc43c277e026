"""What the files of each command hold, as data.

Input columns carry the interface's field names. Result columns of look-ups and payouts are made of
the fields of the record, so that a new field has its column. This module does no input or output.
"""

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import attrs

from gateway_async.models.orders import OrderRef
from gateway_async.models.records import Record
from gateway_async.models.values import SignatureText, currency_field
from gateway_async.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

STATUS = "status"
"""The result column that carries the outcome's status."""

OUTCOME_COLUMNS = (STATUS, "code", "error")
"""The result columns of every command, before those of its records."""


@attrs.frozen(kw_only=True)
class Layout:
    """The columns of one command's files.

    Attributes:
        operation: The command.
        order: The class of an order.
        required: Columns that must be there and filled.
        optional: Columns that are used where they are there and filled.
        either: Columns of which at least one must be there, and exactly one filled in each row.
        amounts: Which of the columns hold amounts.
        identity: Columns by which two rows are the same order.
        total: The column whose amounts are what the command moves.
        results: Columns written from the gateway's records, and the field of each; a part of an
            object has dots in both. Where a column could hide one of the input's, its name begins
            with `found_`.
        confirms: Whether the command asks before it sends: money leaves the merchant.
    """

    operation: str
    order: "Callable[..., Any]"
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    amounts: frozenset[str] = frozenset({"amount", "refund_amount"})
    identity: tuple[str, ...] = ()
    total: str = "amount"
    results: "Mapping[str, str]"
    confirms: bool = False

    @property
    def method(self) -> str:
        """The name of the client's method."""
        return self.operation.replace("-", "_")

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that the command reads."""
        return (*self.required, *self.optional, *self.either)

    @property
    def looks_up(self) -> bool:
        """Whether the command only reads."""
        return self.order is OrderRef

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The columns that the command writes beside those of the input."""
        return (*OUTCOME_COLUMNS, *self.results)

    @property
    def written(self) -> frozenset[str]:
        """All names that the command writes: in JSON Lines, columns with dots are one object."""
        return frozenset(
            [*self.result_columns, *(name.partition(".")[0] for name in self.result_columns)]
        )

    def by(self, column: str) -> "Layout":
        """Return the layout of a look-up that goes by one column only."""
        return attrs.evolve(self, required=(column,), either=(), identity=(column,))


_REFERENCES = ("order_no", "transaction_id")
_UNWRITTEN = frozenset(attrs.fields_dict(Record))
"""Fields of records that are not the interface's."""


@functools.cache
def fields_of(record_class: type) -> tuple[str, ...]:
    """Return the fields of a record, but for signatures: those of its objects with dots."""
    return tuple(_fields_of(record_class))


def _fields_of(record_class: type) -> "Iterator[str]":
    for field in attrs.fields(record_class):
        kinds = get_args(field.type)
        if field.name in _UNWRITTEN or SignatureText in kinds:
            continue
        part = next((kind for kind in kinds if attrs.has(kind)), None)
        if part is None or get_origin(field.type) is tuple:
            yield field.name
        else:
            yield from (f"{field.name}.{name}" for name in _fields_of(part))


def results_of(record_class: type, inputs: "Collection[str]", **named: str) -> dict[str, str]:
    """Return a column for each field of a record.

    Args:
        record_class: The class of the record.
        inputs: Names that columns of the input may have.
        named: Columns that have another name, by the field.
    """
    return {
        named.get(field, f"found_{field}" if field.partition(".")[0] in inputs else field): field
        for field in fields_of(record_class)
    }


_INPUTS = frozenset(
    name
    for operation in OPERATIONS.values()
    if operation.is_money_batch
    for name in attrs.fields_dict(operation.order_class)
)


def _batch(operation: Operation) -> Layout:
    fields = attrs.fields(operation.order_class)
    return Layout(
        operation=operation.name,
        order=operation.order_class,
        required=tuple(field.name for field in fields if field.default is attrs.NOTHING),
        optional=tuple(field.name for field in fields if field.default is not attrs.NOTHING),
        amounts=frozenset(field.name for field in fields if currency_field(field)),
        identity=(operation.identity_field,),
        total=operation.moved_field,
        results={field: field for field in operation.result_fields},
        confirms=operation.confirms,
    )


def _look_up(operation: Operation) -> Layout:
    return Layout(
        operation=operation.name.replace("_", "-"),
        order=OrderRef,
        either=_REFERENCES,
        identity=_REFERENCES,
        results=results_of(operation.record_class, _INPUTS),
    )


_LAYOUTS = (
    *(_batch(operation) for operation in OPERATIONS.values() if operation.is_money_batch),
    *(_look_up(operation) for operation in OPERATIONS.values() if operation.is_look_up),
)

LAYOUTS: "Mapping[str, Layout]" = MappingProxyType(
    {layout.operation: layout for layout in _LAYOUTS}
)
"""The layout of each command that sends a batch of orders."""

WRITTEN = frozenset(name for one in _LAYOUTS for name in one.written)
"""All columns that these commands write."""
