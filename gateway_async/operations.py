"""The ten operations of the interface (section 4), as one table.

`OPERATIONS` has every `Operation` by its name, which is that of the client's method; it is
read-only. This module knows paths, limits and classes. It knows no model and no transport.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping


class OperationClass(StrEnum):
    """What a repeat of the operation would do."""

    READ = "read"
    """Changes nothing; may always be repeated."""

    MONEY = "money"
    """Moves money; repeated only on proof that nothing was sent."""

    KEYED = "keyed"
    """Moves money and carries a key of the merchant's (`request_id`)."""


class BodyFormat(StrEnum):
    """How a request body is written."""

    FORM = "application/x-www-form-urlencoded"
    JSON = "application/json"


@attrs.frozen(kw_only=True)
class Operation:
    """One row of the interface's table in section 4; `OPERATIONS` has all ten, by name.

    Attributes:
        name: The name of the client's method.
        path: The path below the base URL.
        kind: What a repeat would do.
        body: The body format that the interface declares.
        limit: Orders in one request (section 8), None where there is no list.
        list_field: The array that carries the orders, in the reply and, for the batch
            operations, in the request.
        status_field: The field of an item that carries its status.
    """

    name: str
    path: str
    kind: OperationClass
    body: BodyFormat
    limit: int | None = None
    list_field: str | None = None
    status_field: str | None = None

    def __str__(self) -> str:
        return self.name


def _batch(name: str, limit: int) -> Operation:
    return Operation(
        name=name,
        path=f"/v1/{name}",
        kind=OperationClass.MONEY,
        body=BodyFormat.JSON,
        limit=limit,
        list_field=f"{name}_orders",
        status_field=f"{name}_status",
    )


def _look_up(name: str, path: str, list_field: str, status_field: str | None) -> Operation:
    return Operation(
        name=name,
        path=path,
        kind=OperationClass.READ,
        body=BodyFormat.FORM,
        limit=100,
        list_field=list_field,
        status_field=status_field,
    )


def _payment(name: str, path: str) -> Operation:
    return Operation(name=name, path=path, kind=OperationClass.MONEY, body=BodyFormat.FORM)


PAY_DIRECT = _payment("pay_direct", "/v1/authorise")
PAY_APM = _payment("pay_apm", "/v1/authorise")
CHECKOUT = _payment("checkout", "/v1/checkout")
QUERY = _look_up("query", "/v1/retrievalTrans", "orders_list", "query_result")
CAPTURE = _batch("capture", 50)
REVIEW = _batch("review", 100)
CANCEL = _batch("cancel", 50)
REFUND = _batch("refund", 50)
SEARCH_REFUNDS = _look_up("search_refunds", "/v1/retrievalRefund", "refund_orders", None)
PAYOUT = Operation(
    name="payout", path="/v1/payout", kind=OperationClass.KEYED, body=BodyFormat.JSON
)

OPERATIONS: "Mapping[str, Operation]" = MappingProxyType(
    {
        operation.name: operation
        for operation in (
            PAY_DIRECT,
            PAY_APM,
            CHECKOUT,
            QUERY,
            CAPTURE,
            REVIEW,
            CANCEL,
            REFUND,
            SEARCH_REFUNDS,
            PAYOUT,
        )
    }
)
"""Every operation by its name, in the order of the interface's table."""
