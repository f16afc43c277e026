# The public names. Type checkers read this file, and so does the package when it is imported.

from gateway_async.batching.batch import Batch as Batch
from gateway_async.batching.results import (
    BatchResult as BatchResult,
    OutcomeView as OutcomeView,
    Progress as Progress,
    UnexpectedRecords as UnexpectedRecords,
)
from gateway_async.client import GatewayClient as GatewayClient
from gateway_async.coalescer import Coalescer as Coalescer
from gateway_async.dialect import Dialect as Dialect, PaymentState as PaymentState
from gateway_async.errors import (
    AlikeRefundError as AlikeRefundError,
    BatchIncompleteError as BatchIncompleteError,
    CertificateError as CertificateError,
    ConfigurationError as ConfigurationError,
    DuplicateOrderError as DuplicateOrderError,
    EvidenceError as EvidenceError,
    GatewayError as GatewayError,
    InvalidOrderError as InvalidOrderError,
    JobBusyError as JobBusyError,
    JobConflictError as JobConflictError,
    JobNotFoundError as JobNotFoundError,
    JournalError as JournalError,
    LeaseLostError as LeaseLostError,
    NotDoneError as NotDoneError,
    NotificationError as NotificationError,
    NotSentError as NotSentError,
    OutcomeUnknownError as OutcomeUnknownError,
    RejectedError as RejectedError,
    ReplyStatusError as ReplyStatusError,
    ReplyTooLargeError as ReplyTooLargeError,
    ReplyUnreadableError as ReplyUnreadableError,
)
from gateway_async.journal import (
    Job as Job,
    JobStatus as JobStatus,
    Journal as Journal,
    OrderState as OrderState,
    SliceStatus as SliceStatus,
)
from gateway_async.models.orders import (
    CancelOrder as CancelOrder,
    CaptureOrder as CaptureOrder,
    OrderRef as OrderRef,
    OutcomeStatus as OutcomeStatus,
    RefundOrder as RefundOrder,
    ReviewOrder as ReviewOrder,
)
from gateway_async.models.payments import (
    AccountOwner as AccountOwner,
    AdditionalInformation as AdditionalInformation,
    ApmPayment as ApmPayment,
    Bank as Bank,
    BankAccount as BankAccount,
    BasicItemData as BasicItemData,
    CartItem as CartItem,
    DirectPayment as DirectPayment,
    Discount as Discount,
    Item as Item,
    Labels as Labels,
    MpiInfo as MpiInfo,
    Person as Person,
    PersonDocuments as PersonDocuments,
    Price as Price,
    RedirectPayment as RedirectPayment,
    Subscription as Subscription,
)
from gateway_async.models.payouts import (
    BankDetails as BankDetails,
    BankDetailsRecord as BankDetailsRecord,
    Beneficiary as Beneficiary,
    BeneficiaryAddress as BeneficiaryAddress,
    BeneficiaryAddressRecord as BeneficiaryAddressRecord,
    BeneficiaryInfo as BeneficiaryInfo,
    BeneficiaryInfoRecord as BeneficiaryInfoRecord,
    BeneficiaryRecord as BeneficiaryRecord,
    Payer as Payer,
    PayerAddress as PayerAddress,
    PayerAddressRecord as PayerAddressRecord,
    PayerInfo as PayerInfo,
    PayerInfoRecord as PayerInfoRecord,
    PayerRecord as PayerRecord,
    PayoutRequest as PayoutRequest,
    PayoutResult as PayoutResult,
    PersonDocument as PersonDocument,
    PersonDocumentRecord as PersonDocumentRecord,
)
from gateway_async.models.records import (
    ApmPaymentResult as ApmPaymentResult,
    CancelRecord as CancelRecord,
    CaptureRecord as CaptureRecord,
    CheckoutPage as CheckoutPage,
    DeliveryInformation as DeliveryInformation,
    DirectPaymentResult as DirectPaymentResult,
    FraudCheckResult as FraudCheckResult,
    Page as Page,
    RefundRecord as RefundRecord,
    ReviewRecord as ReviewRecord,
    RiskReasons as RiskReasons,
    SubscriptionResult as SubscriptionResult,
    TransactionRecord as TransactionRecord,
)
from gateway_async.operations import (
    OPERATIONS as OPERATIONS,
    BodyFormat as BodyFormat,
    Operation as Operation,
    OperationClass as OperationClass,
)
from gateway_async.outcomes import Outcome as Outcome, ReplyEnvelope as ReplyEnvelope
from gateway_async.payments import Reply as Reply
from gateway_async.settings import (
    BatchPolicy as BatchPolicy,
    RecoveryPolicy as RecoveryPolicy,
    RetryPolicy as RetryPolicy,
    Timeouts as Timeouts,
)
from gateway_async.signing import (
    Credentials as Credentials,
    HmacSigner as HmacSigner,
    Signer as Signer,
)

__version__: str
