"""Payments to make: by card, by another payment method, or on the gateway's page (section 2.2).

Which fields the gateway requires is not shown. Required here is what a payment means nothing
without; everything else is optional, and left out of the request where it is None or an empty
array. The merchant's identity and the signature are added when a payment is sent.
"""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.errors import InvalidOrderError, hide_arguments
from gateway_async.models.fields import (
    AMOUNT,
    as_amount,
    as_identifier,
    as_optional_amount,
    card_field,
    integer_field,
    object_field,
    objects_field,
    secret_field,
    text_field,
)
from gateway_async.models.payment_parts import (
    AccountOwner,
    AdditionalInformation,
    CartItem,
    Discount,
    Item,
    Subscription,
    join_items,
)
from gateway_async.models.person import Person
from gateway_async.models.values import JOINED, describe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

_Model = TypeVar("_Model", bound=type)
_FIELDS = "\n\nAttributes:\n"


def _shows_all_fields(model: _Model) -> _Model:
    """Put the fields of its bases into the docstring of a payment, too, for `help` to show."""
    kinds = [kind for kind in model.__mro__ if attrs.has(kind)]
    parts = [inspect.cleandoc(kind.__doc__ or "").partition(_FIELDS) for kind in kinds]
    model.__doc__ = parts[0][0] + _FIELDS + "\n".join(part[2] for part in parts[::-1] if part[2])
    return model


def _check_items(
    instance: object, field: "attrs.Attribute[Any]", items: tuple[Item, ...] | str | None
) -> None:
    if not items or isinstance(items, str):
        return
    try:
        join_items(items)
    except InvalidOrderError as error:
        raise InvalidOrderError(f"{describe(instance)}.{field.name}: {error}") from None


def _items_field(**options: Any) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare `items`: refused unless they can be told apart again on the wire."""
    return objects_field(
        Item, or_text=True, validator=_check_items, metadata={JOINED: join_items}, **options
    )


@attrs.frozen(kw_only=True)
class _Payment:
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
            entries joined by `#;#`, their parts by `#,#`.
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

    order_no: str = attrs.field(converter=as_identifier)
    currency: str = attrs.field(converter=as_identifier)
    amount: "Decimal" = attrs.field(converter=as_amount, metadata=AMOUNT)
    item_total: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    shipping: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    handling: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    tax_total: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    insurance: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    shipping_discount: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    discount: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    website: str | None = text_field(default=None)
    items: "Sequence[Item] | str | None" = _items_field(default=None)
    note: str | None = text_field(default=None)
    custom: str | None = text_field(default=None)
    shopper_id: str | None = text_field(default=None)
    shopper_email: str | None = text_field(default=None)
    shopper_ip: str | None = text_field(default=None)
    shopper_phone: str | None = text_field(default=None)
    shopper_level: str | None = text_field(default=None)
    first_name: str | None = text_field(default=None)
    last_name: str | None = text_field(default=None)
    document: str | None = text_field(default=None, repr=False)
    birth_date: str | None = text_field(default=None)
    billing_country: str | None = text_field(default=None)
    billing_state: str | None = text_field(default=None)
    billing_city: str | None = text_field(default=None)
    billing_address: str | None = text_field(default=None)
    billing_postal_code: str | None = text_field(default=None)
    os: str | None = text_field(default=None)
    browser: str | None = text_field(default=None)
    browser_lang: str | None = text_field(default=None)
    time_zone: str | None = text_field(default=None)
    resolution: str | None = text_field(default=None)
    cookie_new: str | None = text_field(default=None)
    cookie_old: str | None = text_field(default=None)
    color_depth: str | None = text_field(default=None)
    delivery_firstname: str | None = text_field(default=None)
    delivery_lastname: str | None = text_field(default=None)
    delivery_country: str | None = text_field(default=None)
    delivery_state: str | None = text_field(default=None)
    delivery_city: str | None = text_field(default=None)
    delivery_address: str | None = text_field(default=None)
    delivery_postal_code: str | None = text_field(default=None)
    device_fingerprint: str | None = text_field(default=None)
    platform_source: str | None = text_field(default=None)
    device_type: str | None = text_field(default=None)
    notify_url: str | None = text_field(default=None)


@attrs.frozen(kw_only=True)
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

    open3d: str | None = text_field(default=None)
    token_flag: str | None = text_field(default=None)
    token_id: str | None = secret_field(default=None)
    challenge_window_size: str | None = text_field(default=None)
    session_id: str | None = text_field(default=None)
    installments: str | None = text_field(default=None)
    installments_id: str | None = text_field(default=None)
    order_type: str | None = text_field(default=None)
    checkout_time: int | None = integer_field(default=None)
    user_agent: str | None = text_field(default=None)
    price_id: str | None = text_field(default=None)
    quote_id: str | None = text_field(default=None)
    quote_price: str | None = text_field(default=None)
    storefront_domains: str | None = text_field(default=None)
    antifraud_token_cookie: str | None = secret_field(default=None)
    cart_items: "Sequence[CartItem] | None" = objects_field(CartItem, default=None)
    account_owner: "Sequence[AccountOwner] | None" = objects_field(AccountOwner, default=None)
    total_discount: "Sequence[Discount] | None" = objects_field(Discount, default=None)
    additional_information: "Sequence[AdditionalInformation] | None" = objects_field(
        AdditionalInformation, default=None
    )
    subscription: Subscription | None = object_field(Subscription, default=None)


@_shows_all_fields
@hide_arguments
@attrs.frozen(kw_only=True)
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
        InvalidOrderError: If there is neither a card nor a token, or for a wrong value, or one of
            another type.
    """

    card: str | None = card_field(default=None)
    expiration_month: str | None = text_field(default=None)
    expiration_year: str | None = text_field(default=None)
    security_code: str | None = secret_field(default=None)
    accept: str | None = text_field(default=None)

    def __attrs_post_init__(self) -> None:
        if not any(text and text.strip() for text in (self.card, self.token_id)):
            raise InvalidOrderError(
                f"{describe(self)}.card: missing; give the card's number, or token_id for a card "
                "that the gateway keeps"
            )


@_shows_all_fields
@hide_arguments
@attrs.frozen(kw_only=True)
class RedirectPayment(_CardPayment):
    """A payment on the gateway's own page, where the shopper enters the card.

    Its fields are those of every payment (`order_no` to `notify_url`) and those of payments by card
    (`open3d` to `subscription`); `help` shows all of them.
    """


@_shows_all_fields
@attrs.frozen(kw_only=True)
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

    payment_method: str = attrs.field(converter=as_identifier)
    delivery_district_name: str | None = text_field(default=None)
    delivery_street_name: str | None = text_field(default=None)
    return_url: str | None = text_field(default=None)
    bank_code: str | None = text_field(default=None)
    person: Person | None = object_field(Person, default=None)
