"""What the files of each command hold: columns made of the fields of orders and records.

Parts of objects have dots: `beneficiary.address.city`.
"""

import functools
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import attrs

from gateway_async.models.records import Record
from gateway_async.models.values import (
    MODEL,
    SignatureText,
    converter_of,
    currency_field,
    to_amount,
    to_date,
    to_identifier,
)
from gateway_async.operations import OPERATIONS, Operation, OperationClass
from gateway_async.reconciliation import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

IN_JOB = "in_job"
"""The result column that names the job which has the order, and may send it itself."""
OUTCOME_COLUMNS = ("status", "code", "error")
"""The result columns of every command, before those of its records."""
_REFERENCES = ("order_no", "transaction_id")


def fields_of(model: type) -> "Iterator[str]":
    """Return the fields of a record that are the interface's: those of its objects with dots."""
    for field in attrs.fields(model):
        kinds = get_args(field.type)
        if field.name in attrs.fields_dict(Record) or SignatureText in kinds:
            continue
        part = next((kind for kind in kinds if attrs.has(kind)), None)
        if part is None or get_origin(field.type) is tuple:
            yield field.name
        else:
            yield from (f"{field.name}.{name}" for name in fields_of(part))


Kind = Literal["amount", "currency", "date", "identifier", "text", "texts", "object", "objects"]


@attrs.frozen
class Input:
    """One field of an order, or of an object in it, as a file has it.

    Attributes:
        kind: What its cells hold.
        is_required: Whether each row must have it.
        part: The class of an object.
        currency: The field with the currency of an amount.
    """

    kind: Kind
    is_required: bool
    part: type | None = None
    currency: str | None = None


@functools.cache
def inputs_of(model: type) -> "Mapping[str, Input]":
    """Return the fields of a class."""
    currencies = {currency_field(field) for field in attrs.fields(model)}
    found: dict[str, Input] = {}
    for field in attrs.fields(model):
        part, converter = field.metadata.get(MODEL), converter_of(field)
        is_required = field.default is attrs.NOTHING
        kind: Kind = "text"
        if part is not None:
            kind = "objects" if "Sequence" in str(field.type) else "object"
        elif get_origin(next(iter(get_args(field.type)), None)) is tuple:
            kind = "texts"
        elif converter is to_amount:
            kind = "amount"
        elif converter is to_date:
            kind = "date"
        elif field.name in currencies:
            kind = "currency"
        elif converter is to_identifier or is_required:
            kind = "identifier"
        found[field.name] = Input(kind, is_required, part, currency_field(field))
    return found


def _columns_of(model: type, path: str = "") -> "Iterator[tuple[str, Input]]":
    """Return the columns of an order: its fields, and those of its objects with dots."""
    for name, one in inputs_of(model).items():
        yield f"{path}{name}", one
        if one.kind == "object" and one.part is not None:
            yield from _columns_of(one.part, f"{path}{name}.")


@attrs.frozen(kw_only=True)
class Layout:
    """What the files of one command hold.

    Attributes:
        command: The command.
        model: What its rows are.
        operation: What is done with them; None for a ledger.
        inputs: The columns that are read.
        results: The columns written from the gateway's records, and the field of each. Where one
            could hide a column of the input, its name begins with `found_`.
    """

    command: str
    model: type
    operation: Operation | None = None
    inputs: "Mapping[str, Input]"
    results: "Mapping[str, str]" = MappingProxyType({})

    @property
    def method(self) -> str:
        """The name of the operation."""
        return self.command.replace("-", "_")

    @property
    def moves_money(self) -> bool:
        """Whether it does more than look up."""
        return self.operation is not None and not self.operation.is_look_up

    @property
    def confirms(self) -> bool:
        """Whether the command asks before it sends: money leaves the merchant."""
        operation = self.operation
        return operation is not None and (
            operation.confirms or operation.kind is OperationClass.KEYED
        )

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The fields of its class, which are input columns."""
        return tuple(name for name in self.inputs if "." not in name)

    @functools.cached_property
    def is_nested(self) -> bool:
        """Whether orders have objects in them."""
        return len(self.columns) < len(self.inputs)

    @functools.cached_property
    def required(self) -> list[str]:
        """The columns that must be there, and filled."""
        return [name for name, one in self.inputs.items() if one.is_required]

    @functools.cached_property
    def either(self) -> tuple[str, ...]:
        """Columns of which one at least must be there, and filled."""
        return () if self.moves_money else tuple(n for n in _REFERENCES if n in self.inputs)

    @property
    def naming(self) -> tuple[str, ...]:
        """The columns by which people know an order."""
        is_keyed = "request_id" in self.inputs
        return ("request_id",) if is_keyed else ("transaction_id", "order_no")

    @functools.cached_property
    def result_columns(self) -> tuple[str, ...]:
        """The columns that the command writes beside those of the input."""
        return (*OUTCOME_COLUMNS, *self.results)

    def by(self, column: str) -> "Layout":
        """Return the layout of a look-up that goes by one column only."""
        return attrs.evolve(self, inputs={column: self.inputs[column]})

    def moved(self, order: Any) -> tuple[str, Decimal] | None:  # noqa: ANN401  # any order
        """Return the currency and the amount that an order moves; None where it moves none."""
        if self.operation is None or self.operation.is_look_up:
            return None
        for name, currency in self._moved.items():
            if (amount := getattr(order, name)) is not None:
                return getattr(order, currency) or "", amount
        return None

    @functools.cached_property
    def _moved(self) -> dict[str, str]:
        """The columns of what an order moves, the first that is filled, and of its currency."""
        found = {name: code for name in self.columns if (code := self.inputs[name].currency)}
        moved = None if self.operation is None else self.operation.moved_field
        return {moved: found[moved]} if moved in found else found


def _layout(operation: Operation) -> Layout:
    """Return the layout of an operation: its results are what a reply adds, or all of a record."""
    if operation.is_money_batch:
        results = {name: name for name in operation.result_fields}
    else:
        hidden = {
            name
            for one in OPERATIONS.values()
            if one.is_money_batch or one is operation
            for name in attrs.fields_dict(one.order_class)
        }
        names, is_keyed = dict[str, str](), operation.kind is OperationClass.KEYED
        if is_keyed:  # beside the outcome's own
            names = {name: f"payout_{name}" for name in ("status", "transaction_id")}
            hidden = {*attrs.fields_dict(operation.order_class)}
        results = {
            names.get(
                field, f"found_{field}" if field.partition(".")[0] in hidden else field
            ): field
            for field in fields_of(operation.record_class)
        }
        # First what the gateway adds, then the request as it repeats it.
        order = sorted(results, key=lambda name: is_keyed and name.startswith("found_"))
        results = {name: results[name] for name in order}
    return Layout(
        command=operation.name.replace("_", "-"),
        model=operation.order_class,
        operation=operation,
        inputs=dict(_columns_of(operation.order_class)),
        results=results,
    )


LAYOUTS: "Mapping[str, Layout]" = MappingProxyType(
    {
        one.name.replace("_", "-"): _layout(one)
        for one in OPERATIONS.values()
        if one.is_look_up or one.takes_jobs
    }
)
"""The layout of each command that sends a batch of orders, by the command."""

LEDGER = Layout(command="reconcile", model=LedgerEntry, inputs=dict(_columns_of(LedgerEntry)))
"""The layout of a ledger."""
