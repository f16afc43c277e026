"""What the shopper meets: who is led to which page, what a choice does, and the way back.

A choice is made once: whatever is pressed after it (twice, again, or something else, after Back or
Reload) changes nothing and leads to the same place. Knows no HTTP.
"""

import hashlib
import hmac
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs

from gateway_async.sandbox import pages
from gateway_async.sandbox.addresses import to_location
from gateway_async.sandbox.cards import AUTHORISED, DECLINED
from gateway_async.sandbox.entries import PaymentStatus, Transaction
from gateway_async.sandbox.notices import payment_notice
from gateway_async.sandbox.records import amount_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.sandbox.cards import CardResult
    from gateway_async.sandbox.ledger import Ledger
    from gateway_async.sandbox.merchant import Merchant
    from gateway_async.sandbox.messages import Notice

_PAGE_KEY_LENGTH = 32
_CHOICES: "Mapping[str, tuple[PaymentStatus, CardResult]]" = MappingProxyType(
    {
        "pay": (PaymentStatus.AUTHORISED, AUTHORISED),
        "decline": (PaymentStatus.DECLINED, DECLINED),
    }
)
_DECIDED: "Mapping[PaymentStatus, tuple[str, str]]" = MappingProxyType(
    {
        PaymentStatus.DECLINED: ("Declined", "This payment was declined. Nothing was paid."),
        PaymentStatus.CANCELLED: ("Cancelled", "The shop cancelled this payment."),
    }
)
_PAID = ("Paid", "This payment was made before, and is not made a second time.")


_SINGLE_ROWS = (("Note", "note"), ("Method", "payment_method"))


@attrs.frozen(kw_only=True)
class Scene:
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
        known = hmac.compare_digest(self.page_id(transaction).encode(), page_id.encode())
        return transaction if known else None

    def page(self, transaction: Transaction | None) -> str:
        """Return the payment page, or a page that says why there is none."""
        if transaction is None:
            return pages.message_page("Not found", "There is no such payment.")
        if transaction.status is not PaymentStatus.WAITING:
            title, text = _DECIDED.get(transaction.status, _PAID)
            return pages.message_page(title, text, back=self.way_back(transaction, "pay"))
        return pages.payment_page(
            action=self.page_url(transaction),
            website=transaction.details.get("website") or "the shop",
            amount=amount_text(transaction.amount),
            currency=transaction.currency,
            rows=_rows(transaction),
        )

    def decide(self, transaction: Transaction, choice: str) -> "Notice | None":
        """Enter what the shopper chose, if it is the first choice; return what is told of it."""
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


def _rows(transaction: Transaction) -> "list[tuple[str, list[list[str]]]]":
    details = transaction.details
    items = [entry.split("#,#") for entry in details.get("items", "").split("#;#") if entry]
    name = [details[part] for part in ("first_name", "last_name") if part in details]
    return [
        ("Order", [[transaction.order_no]]),
        ("Name", [name]),
        ("Items", items),
        *((shown, [_one(details.get(field))]) for shown, field in _SINGLE_ROWS),
    ]


def _one(text: str | None) -> list[str]:
    return [text] if text else []
