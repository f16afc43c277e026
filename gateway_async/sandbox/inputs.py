"""The hidden inputs of the loading page (section 4.1), by name."""

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_GATEWAY_INPUTS: "Mapping[str, str]" = MappingProxyType(
    {
        "gbc_id": "",
        "connector_code": "SANDBOX",
        "account_name": "Sandbox",
        "webSite": "",
        "pm_id": "1",
        "apm_type": "",
        "descriptor": "SANDBOX",
        "orderprefix": "",
        "rrtimezone": "UTC",
        "ordernumlength": "50",
        "sendbgoods": "0",
        "replacename": "0",
        "send_bank_website": "0",
        "replace_up_id": "0",
        "replace_match_address": "0",
        "to_pass_page": "1",
        "source_request_ip": "127.0.0.1",
        "default_lang": "en",
        "defaultLang": "en",
        "verifyBillingAddress": "0",
        "verify_billing_address": "0",
        "merSendLogoNo": "",
        "logo_name": "",
        "gatewayNo": "1",
    }
)
_PLACE = ("country", "state", "city", "address", "postal_code")
_REPEATED = (
    *("merchant_id", "account_id", "encryption_data", "order_no", "amount", "currency"),
    *("notify_url", "website", "items", "open3d", "token_flag", "token_id", "price_id"),
    *("quote_id", "quote_price", "color_depth", "platform_source", "device_type", "custom"),
    *("note", "discount", "shipping", "handling", "insurance", "item_total", "tax_total"),
    *("shipping_discount", "shopper_id", "shopper_level", "shopper_email", "shopper_phone"),
    *("first_name", "last_name", "delivery_firstname", "delivery_lastname"),
    *(f"{kind}_{part}" for kind in ("billing", "delivery") for part in _PLACE),
)
_ALIASES: "Mapping[str, str]" = MappingProxyType(
    {
        "webSite": "website",
        "orderNo": "order_no",
        "orderAmount": "amount",
        "orderCurrency": "currency",
        "merNo": "merchant_id",
        "signInfo": "encryption_data",
        "firstName": "first_name",
        "lastName": "last_name",
        "email": "shopper_email",
        "phone": "shopper_phone",
        "country": "billing_country",
        "state": "billing_state",
        "city": "billing_city",
        "zip": "billing_postal_code",
        "address": "billing_address",
        "shipFirstName": "delivery_firstname",
        "shipLastName": "delivery_lastname",
        "shipCountry": "delivery_country",
        "shipState": "delivery_state",
        "shipCity": "delivery_city",
        "shipZip": "delivery_postal_code",
        "shipAddress": "delivery_address",
        "shipFee": "shipping",
        "itemTotal": "item_total",
        "taxTotal": "tax_total",
        "shippingDiscount": "shipping_discount",
        "goodsInfo": "items",
        "remark": "note",
        "notifyUrl": "notify_url",
        "source_notify_url": "notify_url",
        "returnUrl": "return_url",
        "return_url": "return_url",
        "cancelUrl": "cancel_url",
        "cancel_url": "cancel_url",
        "paymentToken": "token_id",
        "token": "token_id",
        "cardType": "card_type",
        "card_type": "card_type",
        "shopperId": "shopper_id",
        "shopperLevel": "shopper_level",
        "isOpen3D": "open3d",
        "APMType": "apm_type",
        "payment_method": "payment_method",
    }
)


def checkout_inputs(fields: "Mapping[str, str]", page_id: str) -> dict[str, str]:
    """Return the hidden inputs of section 4.1, by name; what the request lacks is empty.

    Args:
        fields: The fields of the merchant's request.
        page_id: What leads to the payment page; it travels as `gbc_id`.
    """
    inputs = dict.fromkeys(_REPEATED, "") | dict(fields) | dict(_GATEWAY_INPUTS)
    inputs |= {name: fields.get(source, "") for name, source in _ALIASES.items()}
    inputs["gbc_id"] = page_id
    inputs["allParams"] = "&".join(f"{name}={value}" for name, value in fields.items())
    return inputs
