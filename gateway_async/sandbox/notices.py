"""What a merchant is told at its `notify_url`: which fields, in which format, with which faults.

The interface shows neither the payload of a notification, nor its signature, nor which operation
emits one, nor whether it comes again. All of it is the sandbox's own choice, and says nothing about
your gateway: a payment of any kind and a payout are told once they are decided, a payment with the
fields of `payment_notice`, a payout with those of `payout_notice`. No input or output.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import attrs

from gateway_async.operations import CHECKOUT, PAY_APM, PAY_DIRECT, PAYOUT
from gateway_async.sandbox.distortions import Fault
from gateway_async.sandbox.entries import PaymentStatus
from gateway_async.sandbox.messages import JSON_TYPE, XML_TYPE, Notice, clean, to_json, to_xml
from gateway_async.sandbox.records import amount_text
from gateway_async.signing import SIGNATURE_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.sandbox.entries import Payout, Transaction
    from gateway_async.sandbox.merchant import Merchant

_FORM_TYPE = "application/x-www-form-urlencoded"


class NotifyFormat(StrEnum):
    """How a notification is written."""

    FORM = "form"
    """`application/x-www-form-urlencoded`"""

    JSON = "json"
    """One object, all values text."""

    XML = "xml"
    """A root element `respon`, as payments are answered."""


@attrs.frozen(kw_only=True)
class Message:
    """A notification as it goes over the wire.

    Attributes:
        content_type: Its content type.
        body: Its bytes.
    """

    content_type: str
    body: bytes = attrs.field(repr=False)


def payment_notice(
    merchant: "Merchant", transaction: "Transaction", *, result_info: str
) -> Notice | None:
    """Return what is told of a payment that is decided; None where nobody wants to know."""
    url = transaction.details.get("notify_url")
    if not url:
        return None
    authorised = transaction.status is PaymentStatus.AUTHORISED
    fields = {
        **merchant.identity,
        "order_no": transaction.order_no,
        "transaction_id": transaction.transaction_id,
        "amount": amount_text(transaction.amount),
        "currency": transaction.currency,
        "order_status": "1" if authorised else "0",
        "result_info": result_info,
        "payment_status": transaction.status.value,
    }
    made_by = (op for op in (PAY_DIRECT, PAY_APM) if transaction.effects[op.name])
    return Notice(
        url=url,
        operation=next(made_by, CHECKOUT),
        transaction_id=transaction.transaction_id,
        fields=fields,
    )


def payout_notice(
    merchant: "Merchant", fields: "Mapping[str, str]", payout: "Payout"
) -> Notice | None:
    """Return what is told of a payout; None where nobody wants to know."""
    url = fields.get("notify_url")
    if not url:
        return None
    told = {
        **merchant.identity,
        "request_id": payout.request_id,
        "transaction_id": payout.transaction_id,
        "payment_amount": amount_text(payout.amount),
        "payment_currency": payout.currency,
        "status": "COMPLETED",
    }
    return Notice(url=url, operation=PAYOUT, transaction_id=payout.transaction_id, fields=told)


def _write_form(fields: "Mapping[str, str]") -> Message:
    return Message(content_type=_FORM_TYPE, body=urlencode(fields).encode())


def _write_json(fields: "Mapping[str, str]") -> Message:
    return Message(content_type=JSON_TYPE, body=to_json(fields).encode())


def _write_xml(fields: "Mapping[str, str]") -> Message:
    return Message(content_type=XML_TYPE, body=to_xml(fields).encode())


_WRITERS: "Mapping[NotifyFormat, Callable[[Mapping[str, str]], Message]]" = MappingProxyType(
    {
        NotifyFormat.FORM: _write_form,
        NotifyFormat.JSON: _write_json,
        NotifyFormat.XML: _write_xml,
    }
)


@attrs.frozen(kw_only=True)
class NoticeWriter:
    """How a sandbox writes its notifications.

    Attributes:
        merchant: Whose secret they are signed with.
        format: Form, JSON or XML.
        signed: Whether they carry an `encryption_data`, made as that of a request is.
    """

    merchant: "Merchant"
    format: NotifyFormat = NotifyFormat.FORM
    signed: bool = True

    def write(self, notice: Notice) -> Message:
        """Write what goes out, the same at each attempt."""
        is_xml = self.format is NotifyFormat.XML
        fields = {n: clean(v) if is_xml else v for n, v in notice.fields.items()}
        if self.signed:
            fields[SIGNATURE_FIELD] = self.merchant.signer.sign(notice.operation, fields)
        return _WRITERS[self.format](fields)


# What may go wrong on the way


@attrs.frozen
class NotificationFault(Fault):
    """A fault that strikes what is told at `notify_url`, and never a request.

    It is added to the operation whose result is told: `sandbox.faults.add("checkout", ...)`.
    """


@attrs.frozen
class LostNotification(NotificationFault):
    """It is never sent."""


@attrs.frozen
class LateNotification(NotificationFault):
    """It is sent later.

    Attributes:
        seconds: How much later.
    """

    seconds: float = 2.0


@attrs.frozen
class OvertakenNotification(NotificationFault):
    """It is sent only after the next one, whatever that is about."""


@attrs.frozen
class RepeatedNotification(NotificationFault):
    """It is sent again, though it was taken.

    Attributes:
        copies: How often in all.
    """

    copies: int = 2
