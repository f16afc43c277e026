"""Requests that are wrong: what is wrong with them, and how the gateway says that it did nothing.

The shapes are the sandbox's own; the interface shows no refused request.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gateway_async.operations import PAY_APM, PAY_DIRECT, PAYOUT, Operation
from gateway_async.sandbox.entries import to_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def too_many(limit: int) -> str:
    """Say that a request names more orders than section 8 allows."""
    return f"more than {limit} orders in one request"


def list_problem(operation: Operation, items: object) -> str:
    """Say what is wrong with the list of a batch; empty text where nothing is."""
    if not isinstance(items, list) or not items:
        return f"{operation.list_field}: missing, empty or not a list"
    if not all(isinstance(item, dict) for item in items):
        return f"{operation.list_field}: not a list of objects"
    limit = operation.limit or 0
    return too_many(limit) if len(items) > limit else ""


def payment_problem(fields: "Mapping[str, str]") -> str:
    """Say what is wrong with a payment; empty text where nothing is."""
    wrong = [name for name in ("order_no", "currency") if not fields.get(name)]
    if not to_amount(fields.get("amount")):
        wrong.append("amount")
    return f"missing or wrong: {', '.join(wrong)}" if wrong else ""


def _refused_list(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    del fields
    return {"return_status": "0", "return_message": text}


def _refused_payment(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    shown = {name: fields.get(name, "") for name in ("order_no", "amount", "currency")}
    return {
        **shown,
        "order_status": "0",
        "result_info": f"1000:{text}",
    }


def _refused_payout(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    failure = {"status": "FAILED", "failure_type": "UNKNOWN", "failure_reason": text}
    return {**_refused_list(fields, text), "request_id": fields.get("request_id", ""), **failure}


_SHAPES: "Mapping[str, Callable[[Mapping[str, str], str], dict[str, Any]]]" = MappingProxyType(
    {
        PAY_DIRECT.name: _refused_payment,
        PAY_APM.name: _refused_payment,
        PAYOUT.name: _refused_payout,
    }
)


def refused(operation: Operation, fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    """Return the fields that say that nothing was done, and why."""
    shape = _SHAPES.get(operation.name, _refused_list)
    listed: dict[str, Any] = {operation.list_field: []} if operation.list_field else {}
    return {**shape(fields, text), **listed}
