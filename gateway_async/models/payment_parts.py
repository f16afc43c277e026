"""The structures nested in a payment request (section 2.2 of the interface)."""

# ruff: noqa: RUF009  # the calls declare fields; attrs makes no default of them

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import InvalidOrderError, hide_arguments
from gateway_async.models.fields import (
    AMOUNT,
    PLAIN_NUMBER,
    as_optional_amount,
    as_optional_number,
    converter,
    integer_field,
    object_field,
    secret_field,
    text_field,
)
from gateway_async.models.values import to_text

if TYPE_CHECKING:
    from decimal import Decimal

ITEM_SEPARATOR = "#;#"
PART_SEPARATOR = "#,#"


def _to_parts(
    value: object, instance: object, field: "attrs.Attribute[Any]"
) -> tuple[str | None, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidOrderError(
            f"Item.parts: expected an iterable of str, got {type(value).__name__}; "
            'use ("SKU-1", "Tea", "2", "9.90")'
        )
    parts = tuple(to_text(part, instance, field) for part in value)
    if not parts:
        raise InvalidOrderError("Item.parts: expected at least one part, got none")
    return parts


if TYPE_CHECKING:

    def _as_parts(value: Iterable[str]) -> tuple[str, ...]: ...  # as in `fields`

else:
    _as_parts = converter(_to_parts)


@attrs.frozen(kw_only=True)
class Item:
    """One entry of `items`.

    On the wire the parts are joined by `#,#` and the entries by `#;#`. The interface shows four
    parts in an entry, and does not show what each of them means.

    Attributes:
        parts: The parts, each sent as it is.
    """

    parts: tuple[str, ...] = attrs.field(converter=_as_parts)


def split_items(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the parts of each entry of an `items` text."""
    return tuple(tuple(entry.split(PART_SEPARATOR)) for entry in text.split(ITEM_SEPARATOR))


def join_items(items: tuple[Item, ...]) -> str:
    """Return items as the text of the field `items`.

    Raises:
        InvalidOrderError: For parts that would not come out again when the text is split.
    """
    parts = tuple(item.parts for item in items)
    text = ITEM_SEPARATOR.join(PART_SEPARATOR.join(entry) for entry in parts)
    if split_items(text) != parts:
        raise InvalidOrderError(
            f"items: a part holds {PART_SEPARATOR!r} or {ITEM_SEPARATOR!r}, or forms one with its "
            "neighbour; the text would be split elsewhere than you mean, so change that part"
        )
    return text


@attrs.frozen(kw_only=True)
class Price:
    """The price of a cart item.

    Attributes:
        amount_usd: The price in US dollars, a number.
        amount_local_currency: The price in `currency`, a number.
        currency: Currency code.
    """

    amount_usd: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_number, metadata=PLAIN_NUMBER
    )
    amount_local_currency: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_number, metadata=PLAIN_NUMBER
    )
    currency: str | None = text_field(default=None)


@attrs.frozen(kw_only=True)
class BasicItemData:
    """What a cart item is.

    Attributes:
        name: Its name.
        quantity: How many of it, as text.
        type: Its type.
        category: Its category.
        productId: The merchant's identifier of the product.
        price: Its price.
    """

    name: str | None = text_field(default=None)
    quantity: str | None = text_field(default=None)
    type: str | None = text_field(default=None)
    category: str | None = text_field(default=None)
    productId: str | None = text_field(default=None)  # noqa: N815  # the interface's own name
    price: Price | None = object_field(Price, default=None)


@attrs.frozen(kw_only=True)
class CartItem:
    """One element of `cart_items`.

    Attributes:
        basic_item_data: What the item is.
    """

    basic_item_data: BasicItemData | None = object_field(BasicItemData, default=None)


@attrs.frozen(kw_only=True)
class AccountOwner:
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

    first_name: str | None = text_field(default=None)
    last_name: str | None = text_field(default=None)
    email: str | None = text_field(default=None)
    account_id: str | None = text_field(default=None)
    created: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_number, metadata=PLAIN_NUMBER
    )
    past_orders_count: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_number, metadata=PLAIN_NUMBER
    )
    past_orders_sum: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_number, metadata=PLAIN_NUMBER
    )
    lastLogin_ip: str | None = text_field(default=None)  # noqa: N815  # the interface's own name
    registration_ip: str | None = text_field(default=None)


@attrs.frozen(kw_only=True)
class Discount:
    """One element of `total_discount`.

    Attributes:
        coupon_code_used: The coupon code.
        discount_type: The kind of discount.
    """

    coupon_code_used: str | None = text_field(default=None)
    discount_type: str | None = text_field(default=None)


@hide_arguments
@attrs.frozen(kw_only=True)
class MpiInfo:
    """What the merchant's own 3-D Secure authentication came to.

    Attributes:
        eci: Electronic commerce indicator.
        cavv: Authentication value. Never shown.
        xid: Transaction identifier of 3-D Secure 1.
        dsTransID: Transaction identifier of the directory server.
    """

    eci: str | None = text_field(default=None)
    cavv: str | None = secret_field(default=None)
    xid: str | None = text_field(default=None)
    dsTransID: str | None = text_field(default=None)  # noqa: N815  # the interface's own name


@attrs.frozen(kw_only=True)
class AdditionalInformation:
    """One element of `additional_information`.

    Attributes:
        mpi_info: What the merchant's own 3-D Secure authentication came to.
    """

    mpi_info: MpiInfo | None = object_field(MpiInfo, default=None)


@attrs.frozen(kw_only=True)
class Subscription:
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

    contract: str | None = text_field(default=None)
    contract_name: str | None = text_field(default=None)
    contract_amount: "Decimal | None" = attrs.field(
        default=None, converter=as_optional_amount, metadata=AMOUNT
    )
    interval: str | None = text_field(default=None)
    interval_count: str | None = text_field(default=None)
    billing_cycle: int | None = integer_field(default=None)
    promotion_cycle: int | None = integer_field(default=None)
    contract_start: str | None = text_field(default=None)
    contract_end: str | None = text_field(default=None)
    price_id: str | None = text_field(default=None)
