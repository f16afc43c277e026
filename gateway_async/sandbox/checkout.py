"""What the shopper meets: who is led to which page, what a choice does, and the way back.

A choice is made once: whatever is pressed after it (twice, again, or something else, after Back or
Reload) changes nothing and leads to the same place. Knows no HTTP.
"""

import functools
import hashlib
import hmac
import json
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import attrs

from gateway_async.errors import require_extra
from gateway_async.sandbox.cards import AUTHORISED, DECLINED, TEST_CARDS
from gateway_async.sandbox.ledger import PaymentStatus, Transaction
from gateway_async.sandbox.notifier import payment_notice
from gateway_async.sandbox.records import amount_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jinja2

    from gateway_async.sandbox.ledger import Ledger
    from gateway_async.sandbox.messages import Merchant, Notice

_KEPT_IN_URLS = "!#$%&'()*+,/:;=?@[]~"
_PAGE_KEY_LENGTH = 32
_TEMPLATES = resources.files("gateway_async.sandbox") / "templates"
_CHOICES = {
    "pay": (PaymentStatus.AUTHORISED, AUTHORISED),
    "decline": (PaymentStatus.DECLINED, DECLINED),
}
_DECIDED = {
    PaymentStatus.DECLINED: ("Declined", "This payment was declined. Nothing was paid."),
    PaymentStatus.CANCELLED: ("Cancelled", "The shop cancelled this payment."),
}
_PAID = ("Paid", "This payment was made before, and is not made a second time.")


@attrs.frozen(kw_only=True)
class Checkout:
    """The pages of one sandbox.

    Attributes:
        merchant: Whom the shopper pays.
        ledger: Where the payments are.
        base_url: Where shoppers reach the pages.
        return_url: Where they go afterwards, if the payment does not say so; `{order_no}` in it
            stands for the order number.
        cancel_url: Where they go when they leave without a choice, likewise.
    """

    merchant: "Merchant"
    ledger: "Ledger"
    base_url: str
    return_url: str = ""
    cancel_url: str = ""

    def ways(self, fields: "Mapping[str, str]") -> dict[str, str]:
        """Return the `return_url` and `cancel_url` of a payment, as far as there are any."""
        order_no = quote(fields.get("order_no", ""), safe="")
        ways = {
            name: fields.get(name) or url.replace("{order_no}", order_no)
            for name, url in (("return_url", self.return_url), ("cancel_url", self.cancel_url))
        }
        return {name: url for name, url in ways.items() if url}

    def page_id(self, transaction: Transaction) -> str:
        """Return what leads to a transaction's payment page, and cannot be guessed."""
        key = hmac.new(
            self.merchant.secret.encode(), transaction.transaction_id.encode(), hashlib.sha256
        )
        return f"{transaction.transaction_id}-{key.hexdigest()[:_PAGE_KEY_LENGTH]}"

    def page_url(self, transaction: Transaction) -> str:
        """Return the address of a transaction's payment page."""
        return f"{self.base_url}/pay/{self.page_id(transaction)}"

    def find(self, page_id: str) -> Transaction | None:
        """Return the transaction that a payment page is about, None where there is none."""
        transaction = self.ledger.find(page_id.partition("-")[0])
        if transaction is None:
            return None
        is_right = hmac.compare_digest(self.page_id(transaction).encode(), page_id.encode())
        return transaction if is_right else None

    def loading_page(self, path: str, fields: "Mapping[str, str]", transaction: Transaction) -> str:
        """Return the page that forwards the shopper to the payment page (section 4.1).

        Args:
            path: Where the page posts its inputs.
            fields: The fields of the merchant's request, without card data.
            transaction: The payment.
        """
        known = json.loads((_TEMPLATES / "inputs.json").read_text("utf-8"))
        given = {**fields, **self.ways(fields)}
        inputs = {
            **dict.fromkeys(known["repeated"], ""),
            **given,
            **known["fixed"],
            **{name: given.get(source, "") for name, source in known["renamed"].items()},
            "gbc_id": self.page_id(transaction),
            "allParams": "&".join(f"{name}={value}" for name, value in given.items()),
        }
        return render("loading", action=self.base_url + path, inputs=inputs)

    def payment_page(self, transaction: Transaction | None) -> str:
        """Return the payment page, or a page that says why there is none."""
        if transaction is None:
            return render("message", title="Not found", text="There is no such payment.")
        if transaction.status is not PaymentStatus.WAITING:
            title, text = _DECIDED.get(transaction.status, _PAID)
            return render("message", title=title, text=text, back=self.way_back(transaction, "pay"))
        return render(
            "payment",
            action=self.page_url(transaction),
            payment=transaction,
            items=[
                item.split("#,#")
                for item in transaction.details.get("items", "").split("#;#")
                if item
            ],
            amount=amount_text(transaction.amount),
            cards=TEST_CARDS,
            authorised=AUTHORISED,
        )

    def decide(self, transaction: Transaction, choice: str) -> "Notice | None":
        """Enter what the shopper chose, if it is the first choice; return its notification."""
        if choice not in _CHOICES:
            return None
        status, result = _CHOICES[choice]
        if not self.ledger.decide(transaction.transaction_id, status):
            return None
        return payment_notice(self.merchant, transaction, result_info=result.result_info)

    def way_back(self, transaction: Transaction, choice: str) -> str:
        """Return where the merchant wants the shopper; empty text where that is no web address."""
        back = transaction.details.get("return_url", "")
        left = transaction.details.get("cancel_url") or back
        return to_location(back if choice in _CHOICES else left)


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
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
