"""Payouts from rows: nested parts are dotted columns, or objects where the format has them. Pure.

Particulars of persons and accounts are in no message.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.cli.cells import (
    amount_problem,
    currency_problem,
    damage_problem,
    identifier_problem,
    text_problem,
    to_text,
)
from gateway_async.cli.inputs import explain
from gateway_async.cli.layouts import STATUS, Layout, results_of
from gateway_async.cli.orders import why_not_again
from gateway_async.errors import InvalidOrderError
from gateway_async.models.payouts import (
    BankDetails,
    Beneficiary,
    BeneficiaryAddress,
    BeneficiaryInfo,
    Payer,
    PayerAddress,
    PayerInfo,
    PayoutRequest,
    PayoutResult,
    PersonDocument,
)
from gateway_async.wire.encode import encode_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gateway_async.cli.inputs import Cells
    from gateway_async.dialect import Dialect

    Wrong = Iterator[tuple[str | None, str]]

_RESULTS = results_of(
    PayoutResult,
    attrs.fields_dict(PayoutRequest),
    status="payout_status",
    transaction_id="payout_transaction_id",
)

PAYOUT = Layout(
    operation="payout",
    order=PayoutRequest,
    required=("request_id",),
    identity=("request_id",),
    # First what the gateway adds, then the request as it repeats it.
    results=dict(sorted(_RESULTS.items(), key=lambda named: named[0].startswith("found_"))),
    confirms=True,
)
"""The columns of a file of payouts."""

_PARTS: "Mapping[type, Mapping[str, type]]" = MappingProxyType(
    {
        PayoutRequest: {"beneficiary": Beneficiary, "payer": Payer},
        Beneficiary: {
            "additional_info": BeneficiaryInfo,
            "address": BeneficiaryAddress,
            "bank_details": BankDetails,
        },
        Payer: {"additional_info": PayerInfo, "address": PayerAddress},
    }
)
"""By class, which of its fields are objects, and of which class."""

_LISTS: "Mapping[str, type]" = MappingProxyType({"person_documents": PersonDocument, "labels": str})
_DATES = frozenset({"date_of_birth", "payment_date"})
_MONEY = (("payment_amount", "payment_currency"), ("source_amount", "source_currency"))
"""The columns of an amount and of its currency: what arrives, and what is taken."""
_AMOUNTS = frozenset(amount for amount, _ in _MONEY)
_OWN = tuple(attrs.fields_dict(PayoutRequest))


def _columns_of(kind: type, path: str = "") -> "Iterator[str]":
    """Return the columns of a class: its fields, and those of its parts with dots."""
    for name in attrs.fields_dict(kind):
        yield f"{path}{name}"
        if (part := _PARTS.get(kind, {}).get(name)) is not None:
            yield from _columns_of(part, f"{path}{name}.")


_COLUMNS = MappingProxyType(dict.fromkeys(_columns_of(PayoutRequest)))


class _WrongCellsError(Exception):
    """Cells that nothing can be made of: the column of each, and why."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__(*problems)
        self.problems = problems


class PayoutReader:
    """Reads payouts; see `Reader`.

    Args:
        dialect: Says how many decimal places an amount may have.
    """

    def __init__(self, dialect: "Dialect") -> None:
        self._dialect = dialect
        self._places: dict[str, str] = {}

    @property
    def columns(self) -> "Collection[str]":
        """The columns that are read."""
        return _COLUMNS

    @property
    def written(self) -> frozenset[str]:
        """Columns that the command writes."""
        return PAYOUT.written

    def missing(self, cells: "Cells") -> list[str]:
        """Return the columns that must be there and are not."""
        return [name for name in PAYOUT.required if name not in cells]

    def reasons(self, cells: "Cells", place: str) -> "Wrong":
        """Return columns of a row that are wrong, and why."""
        found = [(column, reason) for column, reason in self._by_column(cells) if reason]
        yield from found
        if found:
            return
        try:
            request = self.make(cells)
            encode_fields(request, self._dialect)
        except _WrongCellsError as error:
            yield from error.problems
            return
        except InvalidOrderError as error:
            yield explain(error, _OWN)
            return
        first = self._places.setdefault(request.request_id.lower(), place)
        if first != place:
            yield "request_id", f"the same payout as in {first}"

    def make(self, cells: "Cells") -> PayoutRequest:
        """Make the payout of a row."""
        made: PayoutRequest = _make(PayoutRequest, _tree(cells), "")
        return made

    def moved(self, cells: "Cells") -> tuple[str, Decimal] | None:
        """Return currency and amount of what arrives, or else of what is taken; None of neither."""
        return moved_by(cells)

    def _by_column(self, cells: "Cells") -> "Iterator[tuple[str, str | None]]":
        yield "request_id", identifier_problem(cells["request_id"])
        for amount, currency in _MONEY:
            if not _is_empty(code := cells.get(currency)):
                yield currency, currency_problem(code, self._dialect.currency_places)
            if not _is_empty(value := cells.get(amount)):
                yield amount, amount_problem(value, self._dialect.places(to_text(code)))
        yield STATUS, why_not_again(cells)


def moved_by(fields: "Cells") -> tuple[str, Decimal] | None:
    """Return currency and amount of a payout: of what arrives, or else of what is taken."""
    for amount, currency in _MONEY:
        if not _is_empty(fields.get(amount)):
            return to_text(fields.get(currency)), Decimal(to_text(fields[amount]))
    return None


def _tree(cells: "Cells") -> dict[str, Any]:
    """Make nested objects of dotted columns; columns that are no payout's are left out.

    Raises:
        _WrongCellsError: For an object whose parts also have columns of their own.
    """
    tree: dict[str, Any] = {}
    for column, value in cells.items():
        *parents, name = column.split(".")
        if (parents[0] if parents else name) not in _OWN or (parents and _is_empty(value)):
            continue
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                raise _WrongCellsError((column, f"{parent} has a column of its own beside it"))
        if not _is_empty(value) or name not in branch:
            branch[name] = value
    return tree


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _make(kind: type, tree: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401  # of `kind`
    """Make one object of its fields.

    Raises:
        _WrongCellsError: Naming every column that is wrong.
        InvalidOrderError: Where the client finds it wrong.
    """
    known = attrs.fields_dict(kind)
    fields = {}
    problems: list[tuple[str, str]] = []
    for name, value in tree.items():
        column = f"{path}{name}"
        if name not in known:
            problems.append((column, f"not known; there are: {', '.join(known)}"))
        elif not _is_empty(value):
            try:
                fields[name] = _field(kind, name, value, column)
            except _WrongCellsError as error:
                problems += error.problems
    if problems:
        raise _WrongCellsError(*problems)
    return kind(**fields)


def _field(kind: type, name: str, value: object, column: str) -> object:
    part = _PARTS.get(kind, {}).get(name)
    if part is not None:
        return _make(part, _object(value, column), f"{column}.")
    if name in _LISTS:
        return _list(_LISTS[name], value, column)
    if name in _DATES:
        return _date(value, column)
    if name in _AMOUNTS:
        return to_text(value)
    if problem := text_problem(value) or damage_problem(value):
        raise _WrongCellsError((column, problem))
    return to_text(value)


def _object(value: object, column: str) -> Mapping[str, Any]:
    found = _from_json(value)
    if not isinstance(found, Mapping):
        raise _WrongCellsError((column, f"expected columns such as {column}.name, or an object"))
    return found


def _list(kind: type, value: object, column: str) -> tuple[object, ...]:
    found = _from_json(value)
    if not isinstance(found, list):
        raise _WrongCellsError((column, "expected a list, in a text as JSON such as [...]"))
    if kind is str:
        if not all(isinstance(one, str) for one in found):
            raise _WrongCellsError((column, "expected a list of texts"))
        return tuple(found)
    return tuple(
        _make(kind, _object(one, f"{column}[{number}]"), f"{column}[{number}].")
        for number, one in enumerate(found)
    )


def _from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def _date(value: object, column: str) -> date:
    if type(value) is date:
        return value
    try:
        text = to_text(value)
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.isoformat() != text:
        raise _WrongCellsError((column, "expected a date such as 2026-11-20"))
    return found
