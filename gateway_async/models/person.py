"""The person of an APM payment (section 2.2 of the interface)."""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

import attrs

from gateway_async.models.fields import object_field, text_field


@attrs.frozen(kw_only=True)
class Bank:
    """A bank.

    Attributes:
        code: Its code.
        name: Its name.
    """

    code: str | None = text_field(default=None)
    name: str | None = text_field(default=None)


@attrs.frozen(kw_only=True)
class BankAccount:
    """A bank account of the person.

    Attributes:
        account_type: The kind of account.
        account_number: Its number. Not in the repr.
        branch_number: The number of the branch.
        owner_document_number: The number of the owner's document. Not in the repr.
        owner_name: The owner's name.
        branch_country: The country of the branch.
        currency: Currency code.
        bank: The bank.
    """

    account_type: str | None = text_field(default=None)
    account_number: str | None = text_field(default=None, repr=False)
    branch_number: str | None = text_field(default=None)
    owner_document_number: str | None = text_field(default=None, repr=False)
    owner_name: str | None = text_field(default=None)
    branch_country: str | None = text_field(default=None)
    currency: str | None = text_field(default=None)
    bank: Bank | None = object_field(Bank, default=None)


@attrs.frozen(kw_only=True)
class Labels:
    """What a document belongs to.

    Attributes:
        person_bank_account_id: The identifier of a bank account that the gateway knows.
        bank_account: The bank account itself.
    """

    person_bank_account_id: str | None = text_field(default=None)
    bank_account: BankAccount | None = object_field(BankAccount, default=None)


@attrs.frozen(kw_only=True)
class PersonDocuments:
    """A document of the person.

    Attributes:
        file_type: The kind of file.
        file_data: The file, as text: its encoding is not shown. Not in the repr.
        file_url: Where the file is.
        labels: What the document belongs to.
    """

    file_type: str | None = text_field(default=None)
    file_data: str | None = text_field(default=None, repr=False)
    file_url: str | None = text_field(default=None)
    labels: Labels | None = object_field(Labels, default=None)


@attrs.frozen(kw_only=True)
class Person:
    """The person who pays.

    Attributes:
        document_number: The number of an identity document. Not in the repr.
        document_type: The kind of document.
        social_name: The name that the person goes by.
        email: Email address.
        phone_country_code: Country code of the telephone number.
        phone_area_code: Its area code.
        phone_number: Its local part.
        birth_date: Date of birth, as text: hyphens between its parts, whose order is not shown.
        net_monthly_average_income: Monthly income, as text.
        address_street: Street.
        address_number: House number.
        address_complement: Further address line.
        address_postal_code: Postal code.
        address_city: City.
        address_state: State or province.
        address_country: Country.
        fiscal_country: The country where the person is taxed.
        documents: A document of the person.
    """

    document_number: str | None = text_field(default=None, repr=False)
    document_type: str | None = text_field(default=None)
    social_name: str | None = text_field(default=None)
    email: str | None = text_field(default=None)
    phone_country_code: str | None = text_field(default=None)
    phone_area_code: str | None = text_field(default=None)
    phone_number: str | None = text_field(default=None)
    birth_date: str | None = text_field(default=None)
    net_monthly_average_income: str | None = text_field(default=None)
    address_street: str | None = text_field(default=None)
    address_number: str | None = text_field(default=None)
    address_complement: str | None = text_field(default=None)
    address_postal_code: str | None = text_field(default=None)
    address_city: str | None = text_field(default=None)
    address_state: str | None = text_field(default=None)
    address_country: str | None = text_field(default=None)
    fiscal_country: str | None = text_field(default=None)
    documents: PersonDocuments | None = object_field(PersonDocuments, default=None)
