"""What `help` says of the client: the errors that are raised, and where money moves."""

import inspect
import uuid
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import (
    Dialect,
    DirectPayment,
    GatewayClient,
    Operation,
    PayoutRequest,
    RejectedError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Status
from tests.orders import client_of


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("capture", ("InvalidOrderError", "DuplicateOrderError")),
        ("capture", ("JobConflictError", "JobBusyError", "JournalError")),
        ("recover", ("RecoveryPolicy(resend_absent=True)", "moves money")),
        ("pay_direct", ("RejectedError", "NotSentError", "OutcomeUnknownError")),
        ("payout", ("RejectedError",)),
        ("call", ("RejectedError", "NotSentError", "OutcomeUnknownError")),
    ],
)
def test_errors_are_named(method: str, named: tuple[str, ...]) -> None:
    said = inspect.getdoc(getattr(GatewayClient, method)) or ""
    assert [name for name in named if name not in said] == []


def test_the_table_of_operations_is_named_where_help_shows_it() -> None:
    assert "`OPERATIONS`" in (Operation.__doc__ or "")


def _pay(gateway: GatewayClient) -> Coroutine[Any, Any, object]:
    card = {"card": "4111111111111111", "expiration_month": "12", "expiration_year": "2030"}
    order = {"order_no": "N1", "currency": "EUR", "amount": "12.50"}
    return gateway.pay_direct(DirectPayment(**order, **card, security_code="123"))  # type: ignore[arg-type]  # text, converted


def _pay_out(gateway: GatewayClient) -> Coroutine[Any, Any, object]:
    return gateway.payout(
        PayoutRequest(
            request_id=str(uuid.uuid4()), payment_amount=Decimal(1), payment_currency="EUR"
        )
    )


def _call(gateway: GatewayClient) -> Coroutine[Any, Any, object]:
    return gateway.call("/v1/retrievalTrans", {})


@pytest.mark.parametrize("send", [_pay, _pay_out, _call])
async def test_a_status_that_is_listed_is_a_refusal(
    sandbox: Sandbox, send: Callable[[GatewayClient], Coroutine[Any, Any, object]]
) -> None:
    sandbox.faults.add("*", Status(status=503))
    dialect = Dialect(nothing_done_http_statuses={503})
    async with client_of(sandbox, dialect=dialect) as gateway:
        with pytest.raises(RejectedError):
            await send(gateway)
    assert sandbox.requests.total() == 1
