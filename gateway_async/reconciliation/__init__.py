"""The merchant's own ledger against the gateway's records.

`reconcile(gateway, ledger)` gives a `Reconciliation`, to be awaited or streamed.
"""

from gateway_async.reconciliation.differences import Difference, Kind, LedgerEntry
from gateway_async.reconciliation.reconciling import Reconciliation, reconcile
from gateway_async.reconciliation.summary import CurrencyTotals, ReconciliationResult, Summary

__all__ = [
    "CurrencyTotals",
    "Difference",
    "Kind",
    "LedgerEntry",
    "Reconciliation",
    "ReconciliationResult",
    "Summary",
    "reconcile",
]
