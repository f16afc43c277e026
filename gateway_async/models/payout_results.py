"""What a payout comes to, with the request repeated (section 2.8 of the interface)."""

from datetime import date, datetime
from decimal import Decimal

import attrs

from gateway_async.models.payouts import (
    BankDetailsBase,
    BeneficiaryAddress,
    BeneficiaryInfo,
    PartyBase,
    PayerAddress,
    PayerInfo,
    PersonDocument,
)
from gateway_async.models.records import Record
from gateway_async.models.values import SignatureText


@attrs.frozen(kw_only=True, weakref_slot=False)
class BeneficiaryInfoRecord(BeneficiaryInfo, Record):
    """Particulars of a beneficiary, as the gateway repeats them."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class BeneficiaryAddressRecord(BeneficiaryAddress, Record):
    """The address of a beneficiary, as the gateway repeats it."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class PersonDocumentRecord(PersonDocument, Record):
    """A document of a beneficiary, as the gateway repeats it."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class BankDetailsRecord(BankDetailsBase, Record):
    """The account that is paid to: without `bank_code`, which replies lack.

    Attributes:
        local_clearing_system: The local clearing system.
    """

    local_clearing_system: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class BeneficiaryRecord(PartyBase, Record):
    """Who is paid, as the gateway repeats it.

    Attributes:
        additional_info: Particulars of the company or person.
        address: The address.
        person_documents: Documents of the person.
        bank_details: The account that is paid to.
    """

    additional_info: BeneficiaryInfoRecord | None = None
    address: BeneficiaryAddressRecord | None = None
    person_documents: tuple[PersonDocumentRecord, ...] = ()
    bank_details: BankDetailsRecord | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class PayerInfoRecord(PayerInfo, Record):
    """Particulars of a payer, as the gateway repeats them."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class PayerAddressRecord(PayerAddress, Record):
    """The address of a payer, as the gateway repeats it."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class PayerRecord(PartyBase, Record):
    """Who pays, as the gateway repeats it.

    Attributes:
        additional_info: Particulars of the company or person.
        address: The address.
    """

    additional_info: PayerInfoRecord | None = None
    address: PayerAddressRecord | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class PayoutResult(Record):
    """What a payout comes to.

    Attributes:
        merchant_id: Merchant identifier.
        account_id: Merchant account identifier.
        request_id: The merchant's key of this payout, in UUID format.
        payment_amount: What is paid out, in units of `payment_currency`, not in cents.
        payment_currency: Currency code.
        beneficiary: Who is paid.
        beneficiary_id: The gateway's identifier of a beneficiary.
        client_data: Free text of the merchant's.
        fee_paid_by: Who pays the fee; PAYER occurs.
        payer: Who pays.
        source_amount: What is taken, in units of `source_currency`.
        source_currency: Currency code.
        payment_date: When it is to be paid (`YYYY-MM-DD`).
        payment_method: SWIFT occurs.
        reason: The reason.
        reference: A reference.
        swift_charge_option: SHARED occurs.
        fund_source: DepositAccount occurs.
        notify_url: Where the gateway sends the result.
        amount_beneficiary_receives: What arrives, a number.
        amount_payer_pays: What is taken in all, a number.
        created_at: When it was made, with the offset that it came with (ISO 8601).
        last_updated_at: When it last changed, likewise.
        failure_reason: Why it failed.
        failure_type: UNKNOWN occurs.
        fee_amount: The fee, a number.
        fee_currency: Its currency code.
        payer_id: The gateway's identifier of the payer.
        transaction_id: The gateway's identifier of the payout.
        short_reference_id: A short reference.
        status: COMPLETED occurs.
        encryption_data: The gateway's signature. Never shown.
    """

    merchant_id: str | None = None
    account_id: str | None = None
    request_id: str | None = None
    payment_amount: Decimal | None = None
    payment_currency: str | None = None
    beneficiary: BeneficiaryRecord | None = None
    beneficiary_id: str | None = None
    client_data: str | None = None
    fee_paid_by: str | None = None
    payer: PayerRecord | None = None
    source_amount: Decimal | None = None
    source_currency: str | None = None
    payment_date: date | None = None
    payment_method: str | None = None
    reason: str | None = None
    reference: str | None = None
    swift_charge_option: str | None = None
    fund_source: str | None = None
    notify_url: str | None = None
    amount_beneficiary_receives: Decimal | None = None
    amount_payer_pays: Decimal | None = None
    created_at: datetime | None = None
    last_updated_at: datetime | None = None
    failure_reason: str | None = None
    failure_type: str | None = None
    fee_amount: Decimal | None = None
    fee_currency: str | None = None
    payer_id: str | None = None
    transaction_id: str | None = None
    short_reference_id: str | None = None
    status: str | None = None
    encryption_data: SignatureText | None = None
