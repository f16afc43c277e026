"""A gateway that runs on this machine, to develop and test against.

It is written from the interface and shares with the client only the table of operations, the
errors and the signature: a mistake made on both sides in the same way would be invisible.
"""

from gateway_async.sandbox.faults import Faults
from gateway_async.sandbox.ledger import Ledger, PaymentStatus, Payout, Refund, Transaction
from gateway_async.sandbox.notifier import Notification
from gateway_async.sandbox.sandbox import Sandbox

__all__ = [
    "Faults",
    "Ledger",
    "Notification",
    "PaymentStatus",
    "Payout",
    "Refund",
    "Sandbox",
    "Transaction",
]
