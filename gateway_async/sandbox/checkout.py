"""What the shopper meets: the pages of the sandbox, made of templates. Pure."""

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from gateway_async.errors import require_extra
from gateway_async.sandbox.ledger import PaymentStatus
from gateway_async.sandbox.messages import Fields
from gateway_async.sandbox.records import AUTHORISED, TEST_CARDS, amount_text

if TYPE_CHECKING:
    import jinja2

    from gateway_async.sandbox.ledger import Transaction

_TEMPLATES = resources.files("gateway_async.sandbox") / "templates"
_KEPT_IN_URLS = "!#$%&'()*+,/:;=?@[]~"
_DECIDED = {
    PaymentStatus.DECLINED: ("Declined", "This payment was declined. Nothing was paid."),
    PaymentStatus.CANCELLED: ("Cancelled", "The shop cancelled this payment."),
}
_PAID = ("Paid", "This payment was made before, and is not made a second time.")


def loading_page(action: str, transaction_id: str, fields: Fields) -> str:
    """Return the page that forwards the shopper to the payment page (section 4.1).

    Args:
        action: Where the page posts its inputs.
        transaction_id: Of the payment, whose page comes next.
        fields: The fields of the merchant's request, without card data.
    """
    known = json.loads((_TEMPLATES / "inputs.json").read_text("utf-8"))
    inputs = {
        **dict.fromkeys(known["repeated"], ""),
        **fields,
        **known["fixed"],
        **{name: fields.get(source, "") for name, source in known["renamed"].items()},
        "gbc_id": transaction_id,
        "allParams": "&".join(f"{name}={value}" for name, value in fields.items()),
    }
    return render("loading", action=action, inputs=inputs)


def payment_page(transaction: "Transaction", action: str, back: str) -> str:
    """Return the payment page, or a page that says what was decided there, and leads back."""
    if transaction.status is not PaymentStatus.WAITING:
        title, text = _DECIDED.get(transaction.status, _PAID)
        return render("message", title=title, text=text, back=back)
    items = transaction.details.get("items", "").split("#;#")
    return render(
        "payment",
        action=action,
        payment=transaction,
        items=[item.split("#,#") for item in items if item],
        amount=amount_text(transaction.amount),
        cards=TEST_CARDS,
        authorised=AUTHORISED,
    )


def to_location(url: str) -> str:
    """Write a web address for a Location header or a link; empty text for anything else."""
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    is_plain = url.isprintable() and " " not in url
    return quote(url, safe=_KEPT_IN_URLS) if is_web and is_plain else ""


def render(template: str, **values: Any) -> str:  # noqa: ANN401  # what the template shows
    """Return a page; every value is escaped where it stands, for HTML or for a script."""
    return _environment().get_template(f"{template}.html.jinja").render(values)


@functools.cache
def _environment() -> "jinja2.Environment":
    with require_extra("a page of the sandbox", "jinja2", install="'gateway-async[sandbox]'"):
        from jinja2 import Environment, PackageLoader  # noqa: PLC0415  # few tests show a page

    loader = PackageLoader("gateway_async.sandbox")
    return Environment(loader=loader, autoescape=True, trim_blocks=True)
