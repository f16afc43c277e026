"""The merchant's own ledger against the gateway's records.

`reconcile(gateway, ledger)` gives a `Reconciliation`, to be awaited or streamed.
"""

from gateway_async.reconciliation.differences import (
    DIFFERENCES,
    AbsentAtGateway,
    AmountDiffers,
    CurrencyDiffers,
    Difference,
    LedgerEntry,
    OrderNoDiffers,
    RefundAbsentAtGateway,
    RefundedDiffers,
    RefundUnknownToLedger,
    Rules,
    SeveralTransactions,
    StateDiffers,
    Unanswered,
    Unreadable,
)
from gateway_async.reconciliation.reconciling import Reconciliation, reconcile
from gateway_async.reconciliation.summary import (
    CurrencyTotals,
    ReconciliationResult,
    Summary,
)

__all__ = [
    "DIFFERENCES",
    "AbsentAtGateway",
    "AmountDiffers",
    "CurrencyDiffers",
    "CurrencyTotals",
    "Difference",
    "LedgerEntry",
    "OrderNoDiffers",
    "Reconciliation",
    "ReconciliationResult",
    "RefundAbsentAtGateway",
    "RefundUnknownToLedger",
    "RefundedDiffers",
    "Rules",
    "SeveralTransactions",
    "StateDiffers",
    "Summary",
    "Unanswered",
    "Unreadable",
    "reconcile",
]
