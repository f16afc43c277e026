"""Payouts to make, and their results, which repeat the request (section 2.8 of the interface).

A payout is identified by its `request_id`, the only required field: which fields the gateway
requires is not shown. What is None is left out of the request.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

import attrs

from gateway_async.models.records import Message, Record
from gateway_async.models.values import (
    Identifier,
    Model,
    SignatureText,
    as_optional_amount,
    as_optional_date,
    as_optional_texts,
    checked,
    moves_nothing,
    to_uuid_text,
)


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class BeneficiaryInfo(Model):
    """Particulars of a beneficiary.

    Attributes:
        business_area: The business that the company is in.
        business_phone_number: Its telephone number.
        business_registration_number: Its number in the register of companies.
        personal_email: Email address.
        personal_id_number: The number of an identity document. Not in the repr.
        personal_id_type: The kind of document; CHINESE_NATIONAL_ID occurs.
        personal_mobile_number: Mobile telephone number.
        personal_net_monthly_average_income: Monthly income, as text.
        personal_phone_country_code: Country code of the telephone number.
        personal_phone_area_code: Its area code.
        personal_fiscal_country: The country where the person is taxed.
    """

    business_area: str | None = None
    business_phone_number: str | None = None
    business_registration_number: str | None = None
    personal_email: str | None = None
    personal_id_number: str | None = attrs.field(default=None, repr=False)
    personal_id_type: str | None = None
    personal_mobile_number: str | None = None
    personal_net_monthly_average_income: str | None = None
    personal_phone_country_code: str | None = None
    personal_phone_area_code: str | None = None
    personal_fiscal_country: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class BeneficiaryAddress(Model):
    """The address of a beneficiary.

    Attributes:
        city: City.
        country_code: Country code.
        postcode: Postal code.
        state: State or province.
        street: Street.
        number: House number.
        street_address: Street and number.
        complement: Further address line.
    """

    city: str | None = None
    country_code: str | None = None
    postcode: str | None = None
    state: str | None = None
    street: str | None = None
    number: str | None = None
    street_address: str | None = None
    complement: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class PersonDocument(Model):
    """A document of a beneficiary.

    Attributes:
        file_type: The kind of file.
        file_url: Where the file is.
        labels: What the document is, in words; any iterable of `str`.
    """

    file_type: str | None = None
    file_url: str | None = None
    labels: tuple[str, ...] | None = attrs.field(default=None, converter=as_optional_texts)


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class BankDetailsBase(Model):
    """What the bank details of a request and of a reply share.

    Attributes:
        account_currency: Currency code.
        account_name: The name of the account.
        owner_document_number: The number of the owner's document. Not in the repr.
        account_number: The number of the account. Not in the repr.
        bank_account_category: The kind of account.
        bank_branch: The branch.
        bank_country_code: The bank's country code.
        bank_name: The bank's name.
        bank_street_address: The bank's address.
        binding_mobile_number: The mobile number bound to the account.
        iban: International bank account number. Not in the repr.
        swift_code: SWIFT code.
        transaction_reference: A reference for the statement.
    """

    account_currency: str | None = None
    account_name: str | None = None
    owner_document_number: str | None = attrs.field(default=None, repr=False)
    account_number: str | None = attrs.field(default=None, repr=False)
    bank_account_category: str | None = None
    bank_branch: str | None = None
    bank_country_code: str | None = None
    bank_name: str | None = None
    bank_street_address: str | None = None
    binding_mobile_number: str | None = None
    iban: str | None = attrs.field(default=None, repr=False)
    swift_code: str | None = None
    transaction_reference: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class BankDetails(BankDetailsBase):
    """The account that is paid to.

    Attributes:
        bank_code: The bank's code.
        account_currency: Currency code.
        account_name: The name of the account.
        owner_document_number: The number of the owner's document. Not in the repr.
        account_number: The number of the account. Not in the repr.
        bank_account_category: The kind of account.
        bank_branch: The branch.
        bank_country_code: The bank's country code.
        bank_name: The bank's name.
        bank_street_address: The bank's address.
        binding_mobile_number: The mobile number bound to the account.
        iban: International bank account number. Not in the repr.
        swift_code: SWIFT code.
        transaction_reference: A reference for the statement.
    """

    bank_code: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class PartyBase(Model):
    """What beneficiary and payer share, in requests and replies.

    Attributes:
        first_name: First name.
        last_name: Last name.
        company_name: The company's name.
        date_of_birth: Date of birth; a `date`, or text such as "1990-01-31".
        entity_type: COMPANY occurs.
    """

    first_name: str | None = None
    last_name: str | None = None
    company_name: str | None = None
    date_of_birth: date | None = attrs.field(default=None, converter=as_optional_date)
    entity_type: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class Beneficiary(PartyBase):
    """Who is paid.

    Attributes:
        first_name: First name.
        last_name: Last name.
        company_name: The company's name.
        date_of_birth: Date of birth; a `date`, or text such as "1990-01-31".
        entity_type: COMPANY occurs.
        additional_info: Particulars of the company or person.
        address: The address.
        person_documents: Documents of the person.
        bank_details: The account that is paid to.
    """

    additional_info: BeneficiaryInfo | None = None
    address: BeneficiaryAddress | None = None
    person_documents: Sequence[PersonDocument] | None = None
    bank_details: BankDetails | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class PayerInfo(Model):
    """Particulars of a payer.

    Attributes:
        business_registration_number: The number in the register of companies.
        business_registration_type: The kind of register.
        external_id: The merchant's identifier of the payer.
        personal_email: Email address.
        personal_id_number: The number of an identity document. Not in the repr.
        job: Profession.
    """

    business_registration_number: str | None = None
    business_registration_type: str | None = None
    external_id: str | None = None
    personal_email: str | None = None
    personal_id_number: str | None = attrs.field(default=None, repr=False)
    job: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class PayerAddress(Model):
    """The address of a payer.

    Attributes:
        city: City.
        country_code: Country code.
        postcode: Postal code.
        state: State or province.
        street_address: Street and number.
    """

    city: str | None = None
    country_code: str | None = None
    postcode: str | None = None
    state: str | None = None
    street_address: str | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class Payer(PartyBase):
    """Who pays.

    Attributes:
        first_name: First name.
        last_name: Last name.
        company_name: The company's name.
        date_of_birth: Date of birth; a `date`, or text such as "1990-01-31".
        entity_type: COMPANY occurs.
        additional_info: Particulars of the company or person.
        address: The address.
    """

    additional_info: PayerInfo | None = None
    address: PayerAddress | None = None


@attrs.frozen(kw_only=True, slots=False, field_transformer=checked)
class PayoutRequest(Model):
    """A payout to make.

    Attributes:
        request_id: The merchant's key of this payout, in UUID format; a `uuid.UUID` is converted
            to text.
        payment_amount: What is paid out, in units of `payment_currency`, not in cents; more than
            0; `str` and `int` are converted. A payout may be fixed by `source_amount` instead.
        payment_currency: Currency code.
        beneficiary: Who is paid.
        beneficiary_id: The gateway's identifier of a beneficiary.
        client_data: Free text of the merchant's.
        fee_paid_by: Who pays the fee; PAYER occurs.
        payer: Who pays.
        source_amount: What is taken, in units of `source_currency`; converted likewise.
        source_currency: Currency code.
        payment_date: When it is to be paid; a `date`, or text such as "2026-01-31".
        payment_method: SWIFT occurs.
        reason: The reason.
        reference: A reference.
        swift_charge_option: SHARED occurs.
        fund_source: DepositAccount occurs.
        notify_url: Where the gateway sends the result.

    Raises:
        InvalidOrderError: For a wrong value, or one of another type.
    """

    request_id: str = attrs.field(converter=to_uuid_text)
    payment_amount: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    payment_currency: Identifier | None = None
    beneficiary: Beneficiary | None = None
    beneficiary_id: str | None = None
    client_data: str | None = None
    fee_paid_by: str | None = None
    payer: Payer | None = None
    source_amount: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    source_currency: str | None = None
    payment_date: date | None = attrs.field(default=None, converter=as_optional_date)
    payment_method: str | None = None
    reason: str | None = None
    reference: str | None = None
    swift_charge_option: str | None = None
    fund_source: str | None = None
    notify_url: str | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        given = [name for name in ("payment_amount", "source_amount") if getattr(self, name) == 0]
        if given and not (self.payment_amount or self.source_amount):
            raise moves_nothing(self, given[0])


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
    failure_reason: Message | None = None
    failure_type: str | None = None
    fee_amount: Decimal | None = None
    fee_currency: str | None = None
    payer_id: str | None = None
    transaction_id: str | None = None
    short_reference_id: str | None = None
    status: str | None = None
    encryption_data: SignatureText | None = None
