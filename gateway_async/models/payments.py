"""Payments to make: by card, by another payment method, or on the gateway's page (section 2.2).

Which fields the gateway requires is not shown. Required here is what a payment means nothing
without; everything else is optional, and left out of the request where it is None or an empty
array. The merchant's identity and the signature are added when a payment is sent.
"""

import inspect
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, TypeVar

import attrs

from gateway_async.errors import hide_arguments
from gateway_async.models.values import (
    Identifier,
    Model,
    Secret,
    WrongValueError,
    as_optional_amount,
    as_optional_number,
    checked,
    to_amount,
    to_card,
    to_objects,
    to_text,
    to_texts,
)

ITEM_SEPARATOR = "#;#"
PART_SEPARATOR = "#,#"


def _to_parts(value: Iterable[str]) -> tuple[str, ...]:
    parts = to_texts(value)
    if not parts:
        raise WrongValueError("expected at least one part, got none")
    return parts


@attrs.frozen(kw_only=True, field_transformer=checked)
class Item(Model):
    """One entry of `items`.

    On the wire the parts are joined by `#,#` and the entries by `#;#`. The interface shows four
    parts in an entry, and does not show what each of them means.

    Attributes:
        parts: The parts, each sent as it is.
    """

    parts: tuple[str, ...] = attrs.field(converter=_to_parts)


def _to_items(value: Iterable[Item] | str | None) -> str | None:
    """Return items as the text that is sent; refused where that would be split elsewhere."""
    if isinstance(value, str):
        return to_text(value)
    entries = [item.parts for item in to_objects(Item, value)]
    text = ITEM_SEPARATOR.join(map(PART_SEPARATOR.join, entries))
    split = [tuple(entry.split(PART_SEPARATOR)) for entry in text.split(ITEM_SEPARATOR)]
    if entries and split != entries:
        raise WrongValueError(
            f"a part holds {PART_SEPARATOR!r} or {ITEM_SEPARATOR!r}, or forms one with its "
            "neighbour; the text would be split elsewhere than you mean, so change that part"
        )
    return text if entries else None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Price(Model):
    """The price of a cart item.

    Attributes:
        amount_usd: The price in US dollars, a number.
        amount_local_currency: The price in `currency`, a number.
        currency: Currency code.
    """

    amount_usd: Decimal | None = attrs.field(default=None, converter=as_optional_number)
    amount_local_currency: Decimal | None = attrs.field(default=None, converter=as_optional_number)
    currency: str | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class BasicItemData(Model):
    """What a cart item is.

    Attributes:
        name: Its name.
        quantity: How many of it, as text.
        type: Its type.
        category: Its category.
        productId: The merchant's identifier of the product.
        price: Its price.
    """

    name: str | None = None
    quantity: str | None = None
    type: str | None = None
    category: str | None = None
    productId: str | None = None  # noqa: N815  # the interface's own name
    price: Price | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class CartItem(Model):
    """One element of `cart_items`.

    Attributes:
        basic_item_data: What the item is.
    """

    basic_item_data: BasicItemData | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class AccountOwner(Model):
    """One element of `account_owner`: the shopper's account with the merchant.

    Attributes:
        first_name: First name.
        last_name: Last name.
        email: Email address.
        account_id: The identifier of the account.
        created: When it was made, a number whose unit is not shown.
        past_orders_count: How many orders came before, a number.
        past_orders_sum: What they came to, a number.
        lastLogin_ip: The IP address of the last login.
        registration_ip: The IP address of the registration.
    """

    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    account_id: str | None = None
    created: Decimal | None = attrs.field(default=None, converter=as_optional_number)
    past_orders_count: Decimal | None = attrs.field(default=None, converter=as_optional_number)
    past_orders_sum: Decimal | None = attrs.field(default=None, converter=as_optional_number)
    lastLogin_ip: str | None = None  # noqa: N815  # the interface's own name
    registration_ip: str | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Discount(Model):
    """One element of `total_discount`.

    Attributes:
        coupon_code_used: The coupon code.
        discount_type: The kind of discount.
    """

    coupon_code_used: str | None = None
    discount_type: str | None = None


@hide_arguments
@attrs.frozen(kw_only=True, field_transformer=checked)
class MpiInfo(Model):
    """What the merchant's own 3-D Secure authentication came to.

    Attributes:
        eci: Electronic commerce indicator.
        cavv: Authentication value. Never shown.
        xid: Transaction identifier of 3-D Secure 1.
        dsTransID: Transaction identifier of the directory server.
    """

    eci: str | None = None
    cavv: Secret | None = None
    xid: str | None = None
    dsTransID: str | None = None  # noqa: N815  # the interface's own name


@attrs.frozen(kw_only=True, field_transformer=checked)
class AdditionalInformation(Model):
    """One element of `additional_information`.

    Attributes:
        mpi_info: What the merchant's own 3-D Secure authentication came to.
    """

    mpi_info: MpiInfo | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Subscription(Model):
    """A subscription that the payment begins or belongs to.

    Attributes:
        contract: The contract.
        contract_name: Its name.
        contract_amount: What each payment comes to, in units of the payment's currency.
        interval: The unit of the interval; day occurs.
        interval_count: How many of the unit, as text.
        billing_cycle: How many payments.
        promotion_cycle: How many of them are promotional.
        contract_start: When it starts, as text: the format is not shown.
        contract_end: When it ends, as text: the format is not shown.
        price_id: The identifier of a price.
    """

    contract: str | None = None
    contract_name: str | None = None
    contract_amount: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    interval: str | None = None
    interval_count: str | None = None
    billing_cycle: int | None = None
    promotion_cycle: int | None = None
    contract_start: str | None = None
    contract_end: str | None = None
    price_id: str | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Bank(Model):
    """A bank.

    Attributes:
        code: Its code.
        name: Its name.
    """

    code: str | None = None
    name: str | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class BankAccount(Model):
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

    account_type: str | None = None
    account_number: str | None = attrs.field(default=None, repr=False)
    branch_number: str | None = None
    owner_document_number: str | None = attrs.field(default=None, repr=False)
    owner_name: str | None = None
    branch_country: str | None = None
    currency: str | None = None
    bank: Bank | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Labels(Model):
    """What a document belongs to.

    Attributes:
        person_bank_account_id: The identifier of a bank account that the gateway knows.
        bank_account: The bank account itself.
    """

    person_bank_account_id: str | None = None
    bank_account: BankAccount | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class PersonDocuments(Model):
    """A document of the person.

    Attributes:
        file_type: The kind of file.
        file_data: The file, as text: its encoding is not shown. Not in the repr.
        file_url: Where the file is.
        labels: What the document belongs to.
    """

    file_type: str | None = None
    file_data: str | None = attrs.field(default=None, repr=False)
    file_url: str | None = None
    labels: Labels | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class Person(Model):
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

    document_number: str | None = attrs.field(default=None, repr=False)
    document_type: str | None = None
    social_name: str | None = None
    email: str | None = None
    phone_country_code: str | None = None
    phone_area_code: str | None = None
    phone_number: str | None = None
    birth_date: str | None = None
    net_monthly_average_income: str | None = None
    address_street: str | None = None
    address_number: str | None = None
    address_complement: str | None = None
    address_postal_code: str | None = None
    address_city: str | None = None
    address_state: str | None = None
    address_country: str | None = None
    fiscal_country: str | None = None
    documents: PersonDocuments | None = None


_Model = TypeVar("_Model", bound=type)
_FIELDS = "\n\nAttributes:\n"


def _shows_all_fields(model: _Model) -> _Model:
    """Put the fields of its bases into the docstring of a payment, too, for `help` to show."""
    kinds = [kind for kind in model.__mro__ if attrs.has(kind)]
    parts = [inspect.cleandoc(kind.__doc__ or "").partition(_FIELDS) for kind in kinds]
    model.__doc__ = parts[0][0] + _FIELDS + "\n".join(part[2] for part in parts[::-1] if part[2])
    return model


@attrs.frozen(kw_only=True, field_transformer=checked)
class _Payment(Model):
    """What every payment carries.

    Attributes:
        order_no: The merchant's order number.
        currency: Currency code.
        amount: What is to be paid, in units of the currency, not in cents. Of all amounts, `str`
            and `int` are converted.
        item_total: The goods' share of the amount.
        shipping: Shipping.
        handling: Handling.
        tax_total: Taxes.
        insurance: Insurance.
        shipping_discount: Discount on shipping.
        discount: Discount.
        website: The merchant's website.
        items: What is bought, one `Item` an entry; or the text of it, which is sent as it is:
            entries joined by `#;#`, their parts by `#,#`. Kept as that text.
        note: A note.
        custom: Free text of the merchant's.
        shopper_id: The merchant's identifier of the shopper.
        shopper_email: Email address.
        shopper_ip: IP address.
        shopper_phone: Telephone number.
        shopper_level: The shopper's level with the merchant.
        first_name: First name.
        last_name: Last name.
        document: The number of an identity document. Not in the repr.
        birth_date: Date of birth, as text: hyphens between its parts, whose order is not shown.
        billing_country: Country of the billing address.
        billing_state: Its state or province.
        billing_city: Its city.
        billing_address: Its street and number.
        billing_postal_code: Its postal code.
        os: The device's operating system.
        browser: Its browser.
        browser_lang: The language of the browser.
        time_zone: Its time zone.
        resolution: Its screen resolution.
        cookie_new: A new cookie.
        cookie_old: An old cookie.
        color_depth: The colour depth of the screen.
        delivery_firstname: First name of the delivery address.
        delivery_lastname: Its last name.
        delivery_country: Its country.
        delivery_state: Its state or province.
        delivery_city: Its city.
        delivery_address: Its street and number.
        delivery_postal_code: Its postal code.
        device_fingerprint: A fingerprint of the device.
        platform_source: The platform that the payment comes from.
        device_type: PC occurs.
        notify_url: Where the gateway sends the result.
    """

    order_no: Identifier
    currency: Identifier
    amount: Decimal = attrs.field(converter=to_amount)
    item_total: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    shipping: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    handling: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    tax_total: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    insurance: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    shipping_discount: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    discount: Decimal | None = attrs.field(default=None, converter=as_optional_amount)
    website: str | None = None
    items: str | None = attrs.field(default=None, converter=_to_items)
    note: str | None = None
    custom: str | None = None
    shopper_id: str | None = None
    shopper_email: str | None = None
    shopper_ip: str | None = None
    shopper_phone: str | None = None
    shopper_level: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    document: str | None = attrs.field(default=None, repr=False)
    birth_date: str | None = None
    billing_country: str | None = None
    billing_state: str | None = None
    billing_city: str | None = None
    billing_address: str | None = None
    billing_postal_code: str | None = None
    os: str | None = None
    browser: str | None = None
    browser_lang: str | None = None
    time_zone: str | None = None
    resolution: str | None = None
    cookie_new: str | None = None
    cookie_old: str | None = None
    color_depth: str | None = None
    delivery_firstname: str | None = None
    delivery_lastname: str | None = None
    delivery_country: str | None = None
    delivery_state: str | None = None
    delivery_city: str | None = None
    delivery_address: str | None = None
    delivery_postal_code: str | None = None
    device_fingerprint: str | None = None
    platform_source: str | None = None
    device_type: str | None = None
    notify_url: str | None = None


@attrs.frozen(kw_only=True, field_transformer=checked)
class _CardPayment(_Payment):
    """What payments by card carry, entered here or on the gateway's page.

    Attributes:
        open3d: Whether 3-D Secure is asked for; do3DS occurs.
        token_flag: Whether a token is asked for; NO occurs.
        token_id: A token that stands for a card. Never shown.
        challenge_window_size: The size of the 3-D Secure window; 01 occurs.
        session_id: An identifier of the session.
        installments: How many instalments, as text.
        installments_id: An identifier of the instalments.
        order_type: WEB occurs.
        checkout_time: An integer whose unit is not shown.
        user_agent: The User-Agent of the browser.
        price_id: An identifier of a price.
        quote_id: An identifier of an exchange quote.
        quote_price: The price in the quote, as text: it goes out as it is.
        storefront_domains: Domains of the shop.
        antifraud_token_cookie: A cookie of the fraud-check provider; its name on the wire is set
            by `Dialect.wire_names`. Never shown.
        cart_items: The cart.
        account_owner: The shopper's account with the merchant.
        total_discount: Discounts.
        additional_information: Results of the merchant's own 3-D Secure.
        subscription: A subscription.
    """

    open3d: str | None = None
    token_flag: str | None = None
    token_id: Secret | None = None
    challenge_window_size: str | None = None
    session_id: str | None = None
    installments: str | None = None
    installments_id: str | None = None
    order_type: str | None = None
    checkout_time: int | None = None
    user_agent: str | None = None
    price_id: str | None = None
    quote_id: str | None = None
    quote_price: str | None = None
    storefront_domains: str | None = None
    antifraud_token_cookie: Secret | None = None
    cart_items: Sequence[CartItem] | None = None
    account_owner: Sequence[AccountOwner] | None = None
    total_discount: Sequence[Discount] | None = None
    additional_information: Sequence[AdditionalInformation] | None = None
    subscription: Subscription | None = None


@_shows_all_fields
@hide_arguments
@attrs.frozen(kw_only=True, field_transformer=checked)
class DirectPayment(_CardPayment):
    """A payment by card, with the card data in the request, or `token_id` in its place.

    Its fields are those of every payment (`order_no` to `notify_url`), those of payments by card
    (`open3d` to `subscription`), and its own; `help` shows all of them.

    Attributes:
        card: The card number, digits only. Shown as its first six and last four digits.
        expiration_month: The month of expiry, as text.
        expiration_year: The year of expiry, as text.
        security_code: The card's security code. Never shown.
        accept: The Accept header of the shopper's browser.

    Raises:
        InvalidOrderError: For a wrong value, or one of another type.
    """

    card: Annotated[str, to_card] | None = None
    expiration_month: str | None = None
    expiration_year: str | None = None
    security_code: Secret | None = None
    accept: str | None = None


@_shows_all_fields
@hide_arguments
@attrs.frozen(kw_only=True, field_transformer=checked)
class RedirectPayment(_CardPayment):
    """A payment on the gateway's own page, where the shopper enters the card.

    Its fields are those of every payment (`order_no` to `notify_url`) and those of payments by card
    (`open3d` to `subscription`); `help` shows all of them.
    """


@_shows_all_fields
@attrs.frozen(kw_only=True, field_transformer=checked)
class ApmPayment(_Payment):
    """A payment by an alternative payment method, which sends the shopper elsewhere.

    Its fields are those of every payment (`order_no` to `notify_url`) and its own; `help` shows all
    of them.

    Attributes:
        payment_method: The alternative payment method.
        delivery_district_name: District of the delivery address.
        delivery_street_name: Its street.
        return_url: Where the shopper is sent afterwards.
        bank_code: The code of a bank.
        person: The person who pays.
    """

    payment_method: Identifier
    delivery_district_name: str | None = None
    delivery_street_name: str | None = None
    return_url: str | None = None
    bank_code: str | None = None
    person: Person | None = None
