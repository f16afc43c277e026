"""The pages that a shopper sees: the loading page of section 4.1, and the payment page.

Every text is escaped where it is set, for HTML and for script.
"""

import html
import json
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

_FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
</head>
<body>
{body}
</body>
</html>
"""

_LOADING = """<p>Loading</p>
<form id="checkout" method="post" action="{action}"></form>
<script>
window.addEventListener("load", function () {{
  var inputs = {inputs};
  var form = document.getElementById("checkout");
  Object.keys(inputs).forEach(function (name) {{
    var input = document.createElement("input");
    input.type = "hidden";
    input.name = name;
    input.value = inputs[name];
    form.appendChild(input);
  }});
  form.submit();
}});
</script>
<noscript><p>This page needs a script to go on.</p></noscript>"""

_PAYMENT = """<h1>Sandbox payment</h1>
<p>Order {order_no}: {amount} {currency}. No money moves here.</p>
<form method="post" action="{action}">
<button name="choice" value="pay">Pay</button>
<button name="choice" value="decline">Decline</button>
<button name="choice" value="leave">Leave</button>
</form>"""


def _page(title: str, body: str) -> str:
    return _FRAME.format(title=html.escape(title), body=body)


def _script_value(value: object) -> str:
    """Write a value for a script; no text can end the script or open a comment."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def checkout_inputs(fields: "Mapping[str, str]", page_id: str) -> dict[str, str]:
    """Return the hidden inputs of section 4.1, by name; what the request lacks is empty.

    Args:
        fields: The fields of the merchant's request.
        page_id: What leads to the payment page; it travels as `gbc_id`.
    """
    inputs = dict(_GATEWAY_INPUTS)
    inputs |= dict.fromkeys(_REPEATED, "") | dict(fields)
    inputs |= {name: fields.get(source, "") for name, source in _ALIASES.items()}
    inputs["gbc_id"] = page_id
    inputs["allParams"] = "&".join(f"{name}={value}" for name, value in fields.items())
    return inputs


def loading_page(action: str, inputs: "Mapping[str, str]") -> str:
    """Return the page that forwards the shopper to `action` with the inputs."""
    return _page(
        "Loading",
        _LOADING.format(action=html.escape(action), inputs=_script_value(dict(inputs))),
    )


def payment_page(*, action: str, order_no: str, amount: str, currency: str) -> str:
    """Return the page on which the shopper pays, declines or leaves."""
    parts = {"action": action, "order_no": order_no, "amount": amount, "currency": currency}
    return _page(
        "Sandbox payment", _PAYMENT.format_map({n: html.escape(v) for n, v in parts.items()})
    )


def message_page(title: str, text: str) -> str:
    """Return a page that says one thing."""
    return _page(title, f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(text)}</p>")
