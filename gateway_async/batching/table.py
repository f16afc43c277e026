"""Outcomes as flat rows, for data frames. Pure.

A row has values of plain types only, and every row has the same keys in the same order.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Context, Decimal, Inexact, InvalidOperation
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args

import attrs

if TYPE_CHECKING:
    Row = dict[str, Any]

RECORD = "record_"
_OUTCOME = ("index", "status", "error", "error_type", "error_code", "error_text")
_AS_IT_IS = {str, Decimal, NoneType}
_MOST_PLACES = 30
"""An amount of more digits, on either side of the point, keeps the places that it has."""
_EXACT = Context(prec=2 * _MOST_PLACES, traps=[Inexact, InvalidOperation])


def make_rows(outcomes: Iterable[Any], record_class: type[Any] | None) -> "list[Row]":
    """Return a row for each order; for each record where a look-up found several.

    Args:
        outcomes: The outcomes.
        record_class: What their records are, where that is known; its fields have columns even
            where no record came.
    """
    rows: list[Row] = []
    orders: dict[str, None] = {}
    records = dict.fromkeys(columns_of(record_class or NoneType, RECORD))
    for outcome in outcomes:
        orders |= dict.fromkeys(columns_of(type(outcome.order)))
        found = outcome.record
        for record in found if isinstance(found, tuple) else (found,):
            records |= dict.fromkeys(columns_of(type(record), RECORD))
            rows.append(_row(outcome, record))
    columns = (*_OUTCOME, *orders, *records)
    whole = [{name: row.get(name) for name in columns} for row in rows]
    for name in columns:
        _align(whole, name)
    return whole


def _row(outcome: Any, record: object) -> "Row":  # noqa: ANN401  # an outcome
    error = outcome.error
    return {
        "index": outcome.index,
        "status": str(outcome.status),
        "error": None if error is None else str(error),
        "error_type": None if error is None else type(error).__name__,
        "error_code": getattr(error, "code", None),
        "error_text": getattr(error, "text", None),
        **cells_of(outcome.order),
        **cells_of(record, RECORD),
    }


def cells_of(model: object, prefix: str = "") -> "Row":
    """Return the fields of a model by column; what is nested by the names of both."""
    cells: Row = {}
    for name, column, part in _fields(type(model), prefix):  # type: ignore[arg-type]  # classes can be hashed
        value = getattr(model, name)
        if part is not None:
            cells |= {} if value is None else cells_of(value, f"{column}_")
        else:
            cells[column] = cell_of(value)
    return cells


def columns_of(model: type[Any], prefix: str = "") -> Iterator[str]:
    """Yield the columns of a model, of what is nested by the names of both."""
    for _, column, part in _fields(model, prefix):  # type: ignore[arg-type]  # likewise
        if part is None:
            yield column
        else:
            yield from columns_of(part, f"{column}_")


@functools.cache
def _fields(model: type[Any], prefix: str) -> tuple[tuple[str, str, type[Any] | None], ...]:
    """Return name, column and model of each field; the model is None where it is a value."""
    if not attrs.has(model):
        return ()
    return tuple(
        (field.name, f"{prefix}{field.name}", _part(field)) for field in attrs.fields(model)
    )


def _part(field: "attrs.Attribute[Any]") -> type[Any] | None:
    kind: Any = field.type
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return next((one for one in kinds if isinstance(one, type) and attrs.has(one)), None)


def cell_of(value: object) -> object:
    """Return a value as one of a plain type; a list or a mapping as JSON text, or None if empty."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, Mapping | tuple | list):
        return json.dumps(_plain(value), default=str, ensure_ascii=False) if value else None
    return _plain(value)


def _plain(value: Any) -> Any:  # noqa: ANN401  # any value
    if isinstance(value, str):
        return str(value)  # a member of an enumeration as its text, and a secret as its mask
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if attrs.has(type(value)):
        fields = {name: getattr(value, name) for name in attrs.fields_dict(type(value))}
        return {name: _plain(one) for name, one in fields.items() if one not in (None, {}, ())}
    return value


def _align(rows: "list[Row]", name: str) -> None:
    """Give all amounts of a column the same decimal places: polars rounds to those of the first."""
    amounts = [row for row in rows if isinstance(row[name], Decimal)]
    places = [-int(row[name].as_tuple().exponent) for row in amounts]
    most = max((one for one in places if one <= _MOST_PLACES), default=0)
    for row in amounts:
        with suppress(ArithmeticError):  # of an amount with more digits, which keeps its places
            row[name] = row[name].quantize(Decimal(1).scaleb(-max(most, 0)), context=_EXACT)
