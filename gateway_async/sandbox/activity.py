"""What the sandbox remembers of its traffic: of requests how many, of notifications all."""

from collections import Counter, deque

import attrs

_KEPT = 1000


@attrs.frozen(kw_only=True)
class LoggedRequest:
    """One request of the merchant's.

    Attributes:
        operation: Its name.
        orders: How many orders it named, 0 where it is no batch and no look-up.
        faults: The kinds of fault that struck it.
    """

    operation: str = attrs.field(kw_only=False)
    orders: int
    faults: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Notification:
    """One result that was told to a `notify_url`, or given up.

    Attributes:
        operation: What it is the result of: `pay_direct`, `pay_apm`, `checkout` or `payout`.
        transaction_id: What it is about.
        url: The `notify_url`.
        content_type: The content type of the body.
        body: The bytes that were sent, the same at each attempt; to be sent again as they are.
        delivered: Whether the merchant's server took it with an HTTP status of 2xx.
        attempts: How often it was tried; 0 where it was lost on purpose, where the address is not
            on this machine, or where 1,000 others were under way.
        status: The HTTP status of the last attempt; None without an answer.
    """

    operation: str
    transaction_id: str
    url: str
    content_type: str
    body: bytes = attrs.field(repr=False)
    delivered: bool
    attempts: int
    status: int | None


@attrs.frozen
class RequestLog:
    """How many requests came, by operation; `log["refund"]` counts those that refund.

    Attributes:
        counts: Requests by the name of the operation, struck by faults or not.
        orders: Orders in those requests, by the same.
        last: The last 1,000 requests, oldest first.
    """

    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    orders: Counter[str] = attrs.field(factory=Counter, init=False)
    last: deque[LoggedRequest] = attrs.field(factory=lambda: deque(maxlen=_KEPT), init=False)

    def __getitem__(self, operation: str) -> int:
        return self.counts[operation]

    def total(self) -> int:
        """Return the number of all requests."""
        return self.counts.total()

    def clear(self) -> None:
        """Count from zero again."""
        self.counts.clear()
        self.orders.clear()
        self.last.clear()

    def record(self, request: LoggedRequest) -> None:
        """Count one request."""
        self.counts[request.operation] += 1
        self.orders[request.operation] += request.orders
        self.last.append(request)
