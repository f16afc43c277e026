"""The ten operations of the interface (section 4): one row each, with all that any module needs.

`OPERATIONS` has every `Operation` by its name, which is that of the client's method; it is
read-only. What a new operation needs is in `docs/explanation/design.md`, "Add an operation".
"""

from enum import StrEnum
from functools import cache
from operator import attrgetter
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal


ADDED_FIELDS = frozenset({"merchant_id", "account_id", "encryption_data"})
"""What the client itself adds to a request: no other field of it may have these names."""


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


class ReplyFormat(StrEnum):
    """How a reply is written (section 4)."""

    JSON = "json"
    XML = "xml"
    PAGE = "page"


@attrs.frozen(kw_only=True)
class Operation:
    """One row of the interface's table in section 4; `OPERATIONS` has all ten, by name.

    Attributes:
        name: The name of the client's method.
        path: The path below the base URL.
        kind: What a repeat would do.
        body: The body format that the interface declares.
        reply: The format of the reply.
        limit: Orders in one request (section 8), None where there is no list.
        list_field: The array that carries the orders, in the reply and, for the batch
            operations, in the request. Without one, a request is one order, and its reply one item.
        status_field: The field of an item that carries its status.
        identity_field: The field that names an order: two of the same value are duplicates.
        order_class: What an order, payment or payout is; by module and name, to be loaded once it
            is needed.
        record_class: What an item of the reply, or the result, is read as; likewise.
        echo_fields: Fields of an item that repeat the request, and must agree with it.
        result_fields: Fields of the result of a payment or payout; a reply without any of them
            proves nothing.
        reference_field: The field of an item with the gateway's own name of what was done.
        recovered_by: The look-up that shows whether an order was done; empty where none does.
        done_state: The `PaymentState` that shows so, where that is a look-up of payments.
        moved_fields: The fields of the amount that an order moves, and of its currency; of several
            pairs, the first with an amount counts.
        confirms: Whether the command line asks before it sends: money leaves the merchant.
    """

    name: str
    path: str
    kind: OperationClass = OperationClass.MONEY
    body: BodyFormat = BodyFormat.JSON
    reply: ReplyFormat = ReplyFormat.JSON
    limit: int | None = None
    list_field: str = ""
    status_field: str = ""
    identity_field: str = "transaction_id"
    _order_class: str = "builtins:object"
    _record_class: str = "builtins:object"
    echo_fields: tuple[str, ...] = ()
    result_fields: tuple[str, ...] = ()
    reference_field: str = ""
    recovered_by: str = ""
    done_state: str = ""
    moved_fields: tuple[tuple[str, str], ...] = (("amount", "currency"),)
    confirms: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def is_look_up(self) -> bool:
        """Whether orders are only looked up; an order may then have several records."""
        return self.kind is OperationClass.READ

    @property
    def is_keyed(self) -> bool:
        """Whether each order carries a key of the merchant's, and is a request of its own."""
        return self.kind is OperationClass.KEYED

    @property
    def takes_batch(self) -> bool:
        """Whether it takes any number of orders."""
        return bool(self.list_field) or self.is_keyed

    @property
    def takes_jobs(self) -> bool:
        """Whether it moves money for any number of orders, which a journal can keep."""
        return self.takes_batch and not self.is_look_up

    @property
    def allows_several(self) -> bool:
        """Whether a transaction may have several, told apart by their references: refunds."""
        return self.recovered_by == "search_refunds"

    @property
    def order_class(self) -> type[Any]:
        """What an order, payment or payout is."""
        return _loaded(self._order_class)

    @property
    def record_class(self) -> type[Any]:
        """What an item of the reply, or the result, is read as."""
        return _loaded(self._record_class)

    def moved_by(self, order: object) -> "tuple[str | None, Decimal] | None":
        """Return currency and amount that an order moves; None for a look-up."""
        for name, currency_name in self.moved_fields:
            if (amount := getattr(order, name)) is not None:
                return getattr(order, currency_name), amount
        return None


def identity_of(operation: Operation) -> "Callable[[Any], Any]":
    """Return what names an order of an operation: two of the same identity are duplicates."""
    if operation.is_look_up:
        return attrgetter("kind", "value")
    if operation.is_keyed:
        return lambda order: getattr(order, operation.identity_field).lower()  # a UUID
    return attrgetter(operation.identity_field)


_loaded: "Callable[[str], type[Any]]" = cache(resolve_name)

_ORDERS = "gateway_async.models.orders"
_PAYMENTS = "gateway_async.models.payments"
_PAYOUTS = "gateway_async.models.payouts"
_RECORDS = "gateway_async.models.records"
_ORDER_ECHO = ("order_no", "currency", "amount")

PAY_DIRECT = Operation(
    name="pay_direct",
    path="/v1/authorise",
    body=BodyFormat.FORM,
    reply=ReplyFormat.XML,
    order_class=f"{_PAYMENTS}:DirectPayment",
    record_class=f"{_RECORDS}:DirectPaymentResult",
    echo_fields=_ORDER_ECHO,
    result_fields=("transaction_id", "order_status", "result_info", "issuer_url"),
)
PAY_APM = attrs.evolve(
    PAY_DIRECT,
    name="pay_apm",
    order_class=f"{_PAYMENTS}:ApmPayment",
    record_class=f"{_RECORDS}:ApmPaymentResult",
)
CHECKOUT = attrs.evolve(
    PAY_DIRECT,
    name="checkout",
    path="/v1/checkout",
    reply=ReplyFormat.PAGE,
    order_class=f"{_PAYMENTS}:RedirectPayment",
    record_class=f"{_RECORDS}:CheckoutPage",
    echo_fields=(),
)
QUERY = Operation(
    name="query",
    path="/v1/retrievalTrans",
    kind=OperationClass.READ,
    body=BodyFormat.FORM,
    limit=100,
    list_field="orders_list",
    status_field="query_result",
    order_class=f"{_ORDERS}:OrderRef",
    record_class=f"{_RECORDS}:TransactionRecord",
    moved_fields=(),
)
CAPTURE = Operation(
    name="capture",
    path="/v1/capture",
    limit=50,
    list_field="capture_orders",
    status_field="capture_status",
    order_class=f"{_ORDERS}:CaptureOrder",
    record_class=f"{_RECORDS}:CaptureRecord",
    echo_fields=_ORDER_ECHO,
    recovered_by="query",
    done_state="captured",
)
REVIEW = Operation(
    name="review",
    path="/v1/review",
    limit=100,
    list_field="review_orders",
    status_field="review_status",
    order_class=f"{_ORDERS}:ReviewOrder",
    record_class=f"{_RECORDS}:ReviewRecord",
    echo_fields=(*_ORDER_ECHO, "review_flag"),
)
CANCEL = attrs.evolve(
    CAPTURE,
    name="cancel",
    path="/v1/cancel",
    list_field="cancel_orders",
    status_field="cancel_status",
    order_class=f"{_ORDERS}:CancelOrder",
    record_class=f"{_RECORDS}:CancelRecord",
    done_state="cancelled",
)
REFUND = Operation(
    name="refund",
    path="/v1/refund",
    limit=50,
    list_field="refund_orders",
    status_field="refund_status",
    order_class=f"{_ORDERS}:RefundOrder",
    record_class=f"{_RECORDS}:RefundRecord",
    echo_fields=(*_ORDER_ECHO, "refund_amount"),
    reference_field="refund_reference_id",
    recovered_by="search_refunds",
    moved_fields=(("refund_amount", "currency"),),
    confirms=True,
)
SEARCH_REFUNDS = attrs.evolve(
    QUERY,
    name="search_refunds",
    path="/v1/retrievalRefund",
    list_field="refund_orders",
    status_field="",
    record_class=f"{_RECORDS}:RefundRecord",
)
PAYOUT = Operation(
    name="payout",
    path="/v1/payout",
    kind=OperationClass.KEYED,
    status_field="status",
    identity_field="request_id",
    order_class=f"{_PAYOUTS}:PayoutRequest",
    record_class=f"{_PAYOUTS}:PayoutResult",
    echo_fields=(
        "request_id",
        *("payment_currency", "payment_amount"),
        *("source_currency", "source_amount"),
    ),
    result_fields=("transaction_id", "status", "failure_reason", "failure_type"),
    reference_field="transaction_id",
    moved_fields=(("payment_amount", "payment_currency"), ("source_amount", "source_currency")),
    confirms=True,
)

OPERATIONS: "Mapping[str, Operation]" = MappingProxyType(
    {row.name: row for row in [*globals().values()] if isinstance(row, Operation)}
)
"""Every row above by its name, in the order of the interface's table."""
