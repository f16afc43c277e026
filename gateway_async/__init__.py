"""An asyncio client for a merchant payment gateway, honest about every single order."""

from importlib import import_module
from typing import TYPE_CHECKING

from gateway_async.batching.batch import Batch
from gateway_async.batching.results import (
    BatchResult,
    Outcome,
    OutcomeView,
    Progress,
    ReplyEnvelope,
    UnexpectedRecords,
)
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect, PaymentState
from gateway_async.errors import (
    BatchIncompleteError,
    CertificateError,
    ConfigurationError,
    DuplicateOrderError,
    EvidenceError,
    GatewayError,
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    JournalError,
    LeaseLostError,
    NotDoneError,
    NotificationError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
    ReplyStatusError,
    ReplyTooLargeError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import (
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
)
from gateway_async.models.statuses import OutcomeStatus
from gateway_async.operations import OPERATIONS, BodyFormat, Operation, OperationClass
from gateway_async.settings import BatchPolicy, RecoveryPolicy, RetryPolicy, Timeouts
from gateway_async.signing import Credentials, HmacSigner, Signer

if TYPE_CHECKING:
    __version__: str

    from gateway_async.coalescer import Coalescer
    from gateway_async.journal import Job, JobHead, JobState, JobStatus, Journal, SliceStatus
    from gateway_async.models.payment_parts import (
        AccountOwner,
        AdditionalInformation,
        BasicItemData,
        CartItem,
        Discount,
        Item,
        MpiInfo,
        Price,
        Subscription,
    )
    from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment
    from gateway_async.models.payout_results import (
        BankDetailsRecord,
        BeneficiaryAddressRecord,
        BeneficiaryInfoRecord,
        BeneficiaryRecord,
        PayerAddressRecord,
        PayerInfoRecord,
        PayerRecord,
        PayoutResult,
        PersonDocumentRecord,
    )
    from gateway_async.models.payouts import (
        BankDetails,
        Beneficiary,
        BeneficiaryAddress,
        BeneficiaryInfo,
        Payer,
        PayerAddress,
        PayerInfo,
        PayoutRequest,
        PersonDocument,
    )
    from gateway_async.models.person import Bank, BankAccount, Labels, Person, PersonDocuments
    from gateway_async.models.records import (
        CancelRecord,
        CaptureRecord,
        DeliveryInformation,
        FraudCheckResult,
        Page,
        RefundRecord,
        ReviewRecord,
        SubscriptionResult,
        TransactionRecord,
    )
    from gateway_async.models.results import (
        ApmPaymentResult,
        CheckoutPage,
        DirectPaymentResult,
        RiskReasons,
    )
    from gateway_async.payments import Reply

__all__ = [  # noqa: RUF022  # in the order of sorted()
    "AccountOwner",
    "AdditionalInformation",
    "ApmPayment",
    "ApmPaymentResult",
    "Bank",
    "BankAccount",
    "BankDetails",
    "BankDetailsRecord",
    "BasicItemData",
    "Batch",
    "BatchIncompleteError",
    "BatchPolicy",
    "BatchResult",
    "Beneficiary",
    "BeneficiaryAddress",
    "BeneficiaryAddressRecord",
    "BeneficiaryInfo",
    "BeneficiaryInfoRecord",
    "BeneficiaryRecord",
    "BodyFormat",
    "CancelOrder",
    "CancelRecord",
    "CaptureOrder",
    "CaptureRecord",
    "CartItem",
    "CertificateError",
    "CheckoutPage",
    "Coalescer",
    "ConfigurationError",
    "Credentials",
    "DeliveryInformation",
    "Dialect",
    "DirectPayment",
    "DirectPaymentResult",
    "Discount",
    "DuplicateOrderError",
    "EvidenceError",
    "FraudCheckResult",
    "GatewayClient",
    "GatewayError",
    "HmacSigner",
    "InvalidOrderError",
    "Item",
    "Job",
    "JobBusyError",
    "JobConflictError",
    "JobHead",
    "JobNotFoundError",
    "JobState",
    "JobStatus",
    "Journal",
    "JournalError",
    "Labels",
    "LeaseLostError",
    "MpiInfo",
    "NotDoneError",
    "NotSentError",
    "NotificationError",
    "OPERATIONS",
    "Operation",
    "OperationClass",
    "OrderRef",
    "Outcome",
    "OutcomeStatus",
    "OutcomeUnknownError",
    "OutcomeView",
    "Page",
    "Payer",
    "PayerAddress",
    "PayerAddressRecord",
    "PayerInfo",
    "PayerInfoRecord",
    "PayerRecord",
    "PaymentState",
    "PayoutRequest",
    "PayoutResult",
    "Person",
    "PersonDocument",
    "PersonDocumentRecord",
    "PersonDocuments",
    "Price",
    "Progress",
    "RecoveryPolicy",
    "RedirectPayment",
    "RefundOrder",
    "RefundRecord",
    "RejectedError",
    "Reply",
    "ReplyEnvelope",
    "ReplyStatusError",
    "ReplyTooLargeError",
    "ReplyUnreadableError",
    "RetryPolicy",
    "ReviewOrder",
    "ReviewRecord",
    "RiskReasons",
    "Signer",
    "SliceStatus",
    "Subscription",
    "SubscriptionResult",
    "Timeouts",
    "TransactionRecord",
    "UnexpectedRecords",
]

_LATER = {
    "gateway_async.payments": ("Reply",),
    "gateway_async.coalescer": ("Coalescer",),
    "gateway_async.journal": (
        "Job",
        "JobHead",
        "JobState",
        "JobStatus",
        "Journal",
        "SliceStatus",
    ),
    "gateway_async.models.payment_parts": (
        "AccountOwner",
        "AdditionalInformation",
        "BasicItemData",
        "CartItem",
        "Discount",
        "Item",
        "MpiInfo",
        "Price",
        "Subscription",
    ),
    "gateway_async.models.payments": ("ApmPayment", "DirectPayment", "RedirectPayment"),
    "gateway_async.models.payout_results": (
        "BankDetailsRecord",
        "BeneficiaryAddressRecord",
        "BeneficiaryInfoRecord",
        "BeneficiaryRecord",
        "PayerAddressRecord",
        "PayerInfoRecord",
        "PayerRecord",
        "PayoutResult",
        "PersonDocumentRecord",
    ),
    "gateway_async.models.payouts": (
        "BankDetails",
        "Beneficiary",
        "BeneficiaryAddress",
        "BeneficiaryInfo",
        "Payer",
        "PayerAddress",
        "PayerInfo",
        "PayoutRequest",
        "PersonDocument",
    ),
    "gateway_async.models.person": ("Bank", "BankAccount", "Labels", "Person", "PersonDocuments"),
    "gateway_async.models.records": (
        "CancelRecord",
        "CaptureRecord",
        "DeliveryInformation",
        "FraudCheckResult",
        "Page",
        "RefundRecord",
        "ReviewRecord",
        "SubscriptionResult",
        "TransactionRecord",
    ),
    "gateway_async.models.results": (
        "ApmPaymentResult",
        "CheckoutPage",
        "DirectPaymentResult",
        "RiskReasons",
    ),
}
"""Where the names are that many users never need; each module is loaded with its first name."""


if not TYPE_CHECKING:  # a type checker sees the imports above, and misspelt names

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return import_module("importlib.metadata").version("gateway-async")
        for module, names in _LATER.items():
            if name in names:
                value = globals()[name] = getattr(import_module(module), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
