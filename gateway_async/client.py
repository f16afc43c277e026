"""`GatewayClient`: one short method an operation."""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from gateway_async.batching.batch import plain_batch
from gateway_async.batching.plans import PLANS
from gateway_async.checks import checked_count, checked_seconds
from gateway_async.connection import Connection
from gateway_async.settings import DEFAULT_LINGER_SECONDS, DEFAULT_SLICE_SIZE, BatchPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable, Mapping

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.outcomes import Outcome
    from gateway_async.batching.results import BatchResult
    from gateway_async.calls import Reply
    from gateway_async.coalescer import Coalescer
    from gateway_async.journal.job import Job
    from gateway_async.models.orders import (
        CancelOrder,
        CaptureOrder,
        OrderRef,
        RefundOrder,
        ReviewOrder,
    )
    from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment
    from gateway_async.models.payout_results import PayoutResult
    from gateway_async.models.payouts import PayoutRequest
    from gateway_async.models.records import (
        CancelRecord,
        CaptureRecord,
        Page,
        RefundRecord,
        ReviewRecord,
        TransactionRecord,
    )
    from gateway_async.models.results import (
        ApmPaymentResult,
        CheckoutPage,
        DirectPaymentResult,
    )

    O = TypeVar("O")  # noqa: E741  # an order
    R = TypeVar("R")
    T = TypeVar("T")
    _Kept = TypeVar("_Kept", bound=RefundRecord | ReviewRecord | PayoutResult | tuple[Any, ...])
    """What recovery leaves as it is, or finds as well: it settles refunds from refund records."""
    Orders: TypeAlias = Iterable[T] | AsyncIterable[T]


class GatewayClient(Connection):
    """The gateway, for one merchant account.

    Use it as ``async with GatewayClient(...) as gateway``, or close it with `aclose`. It can be
    made before any event loop runs, and used in several, one after the other: what it opened on a
    loop is closed with that loop at the latest (by `asyncio.run`, or `loop.shutdown_asyncgens`). A
    client that is dropped before that, and was not closed, is a `ResourceWarning`.

    Args:
        base_url: Where the gateway is, such as ``https://gateway.example``. Plain ``http://`` is
            refused except to this machine, unless `allow_http` is set.
        credentials: Which merchant speaks, and how it signs.
        timeouts: How long one call may take.
        retry: How what may be repeated is repeated.
        policy: How batches are run, unless a call says otherwise.
        recovery: How unknown outcomes are settled.
        dialect: What the interface leaves open.
        session: Your own `aiohttp.ClientSession`; it is never closed, and its middlewares,
            redirects and `raise_for_status` are not used. Give it a connector with
            ``keepalive_timeout=1``: a connection that the gateway closed while it was idle looks
            like a lost reply.
        limiter: An asynchronous context manager, entered around every attempt.
        telemetry: Told what is done, such as `gateway_async.otel.OpenTelemetry`.
        max_reply_bytes: The largest reply that is read, decompressed.
        max_connections: Connections at most, where the session is ours; so many requests of a batch
            are in flight at most. None for 100, or for as many as `policy` has requests in flight.
        allow_http: Whether plain ``http://`` may go to another machine, because you trust the
            network: everybody on the way can read and change requests.
        ssl: An `ssl.SSLContext` in place of the system's authorities: for a private one, or with a
            certificate of yours. It counts for the gateway and for an ``https://`` proxy.
        proxy: The URL of a proxy, such as ``http://user:password@proxy.example:3128``.
        trust_env: Whether HTTP_PROXY, HTTPS_PROXY and NO_PROXY are looked at, once, where `proxy`
            is None. `ssl`, `proxy` and `trust_env` are for our own session, not for `session=`.

    Raises:
        ConfigurationError: If a setting is wrong.
    """

    # Batches

    def capture(
        self,
        orders: "Orders[CaptureOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[CaptureOrder, CaptureRecord]":
        """Capture any number of orders (section 4, row 5).

        Args:
            orders: An iterable or asynchronous iterable. A collection is checked whole before
                anything is sent; from a stream, a bad order is `not_sent` with its error.
            policy: How this batch is run.
            job: ``journal.job(name)``, to keep the orders and what becomes of them. They are all
                kept before the first is sent, and any bad one means that none is. Running the
                same line again, after whatever happened, finishes the job.

        Returns:
            A `Batch`. Awaiting or entering it raises `InvalidOrderError` if an order of a
            collection or a job is wrong, `DuplicateOrderError` if two are the same (nothing was
            sent), and what `orders` raises; with a job, `JobConflictError` if its name has other
            orders, `JobBusyError` if another process is running it, and `JournalError` if what
            happens cannot be kept. What becomes of an order is an outcome, and never raised.

        Raises:
            InvalidOrderError: If `orders` is no iterable of orders.
            ConfigurationError: If the policy does not fit the operation, or `job` is none.
        """
        return self._batch("capture", orders, policy, job)

    def cancel(
        self,
        orders: "Orders[CancelOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[CancelOrder, CancelRecord]":
        """Cancel any number of orders (section 4, row 7); see `capture`."""
        return self._batch("cancel", orders, policy, job)

    def review(
        self,
        orders: "Orders[ReviewOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[ReviewOrder, ReviewRecord]":
        """Review any number of orders (section 4, row 6); see `capture`."""
        return self._batch("review", orders, policy, job)

    def refund(
        self,
        orders: "Orders[RefundOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[RefundOrder, RefundRecord]":
        """Refund any number of orders, in whole or in part (section 4, row 8); see `capture`."""
        return self._batch("refund", orders, policy, job)

    def query(
        self, orders: "Orders[OrderRef]", *, policy: BatchPolicy | None = None
    ) -> "Batch[OrderRef, tuple[TransactionRecord, ...]]":
        """Look up transactions (section 4, row 4); an order may have several; see `capture`.

        The merchant's addresses must be registered with the gateway first (section 5).
        """
        return self._batch("query", orders, policy)

    def search_refunds(
        self, orders: "Orders[OrderRef]", *, policy: BatchPolicy | None = None
    ) -> "Batch[OrderRef, tuple[RefundRecord, ...]]":
        """Look up refunds (section 4, row 9); an order may have several; see `capture`."""
        return self._batch("search_refunds", orders, policy)

    async def submit(
        self,
        operation: str,
        orders: "Orders[Any]",
        *,
        job: "Job",
        slice_size: int = DEFAULT_SLICE_SIZE,
        policy: BatchPolicy | None = None,
    ) -> int:
        """Keep the orders of a job, cut into slices that many processes can run, and send nothing.

        Submitting the same orders again, after whatever happened, keeps what is not kept yet.

        Args:
            operation: ``"capture"``, ``"cancel"``, ``"review"`` or ``"refund"``.
            orders: An iterable or asynchronous iterable of its orders, checked as for `refund`.
            job: ``journal.job(name)``.
            slice_size: How many orders a slice has, but for those of one transaction, which are
                always in one slice.
            policy: Its `duplicates` says whether two orders may be of one transaction.

        Returns:
            How many orders they are; all of them are on the disk.

        Raises:
            InvalidOrderError: If any order is wrong; nothing is kept.
            ConfigurationError: For another operation, or a wrong job or size.
            JobConflictError: If there are other orders under this name, or it was not cut.
            JobBusyError: If another process is submitting it, or was killed doing so just now.
            JournalError: If they cannot be kept.
        """
        self._check_open()
        from gateway_async.jobs.batch import keep_orders

        return await keep_orders(
            self._session,
            operation,
            orders,
            job,
            policy=self._batch_policy(policy),
            slice_size=checked_count("slice_size", slice_size),
        )

    def resume(
        self, job: "Job", *, slice_number: int = 0, policy: BatchPolicy | None = None
    ) -> "Batch[Any, Any]":
        """Finish a job whose orders are in the journal, or one slice of it.

        Args:
            job: ``journal.job(name)``.
            slice_number: Which slice, from 1, of a job that `submit` cut; it is not waited for
                where another process has it.
            policy: How its batches are run.

        Returns:
            A `Batch` of all its orders, those settled by earlier processes included. Awaiting it
            raises `JobNotFoundError` if there is no such job or slice, `JobConflictError` if it is
            another merchant's or was cut and no slice is named, `JobBusyError` if another process
            is running it, and `JournalError` if what happens cannot be kept.

        Raises:
            ConfigurationError: If `job` is none.
        """
        self._check_open()
        from gateway_async.jobs.batch import resumed_batch

        return resumed_batch(
            self._session,
            job,
            policy=self._batch_policy(policy),
            recovery=self._recovery,
            slice_number=slice_number,
        )

    @overload
    async def recover(self, outcomes: "Iterable[Outcome[O, _Kept]]") -> "BatchResult[O, _Kept]": ...
    @overload
    async def recover(
        self, outcomes: "Iterable[Outcome[O, R]]"
    ) -> "BatchResult[O, R | TransactionRecord]": ...
    async def recover(self, outcomes: "Iterable[Outcome[Any, Any]]") -> "BatchResult[Any, Any]":
        """Settle unknown outcomes from the gateway's own records, as far as they prove anything.

        Refunds are settled by a reference that was not there before (record a baseline with
        `RecoveryPolicy.record_baseline`) or by a marker (`refund_evidence="marker"`); captures and
        cancels by the `Dialect.payment_states`. An absence counts only where the look-up is shown
        to work, in two looks after `RecoveryPolicy.settle_seconds`: so this may take that long. A
        refund made in the merchant portal meanwhile, of the same amount, looks like ours.

        With `RecoveryPolicy(resend_absent=True)` this moves money: what was proved not to be done
        is sent again. Without it, and by the command line's `recover`, nothing is.

        Args:
            outcomes: A result, or outcomes of this process or another.

        Returns:
            As many outcomes in the same order: settled ones as they were, unknown ones as
            `succeeded`, `not_sent` (proved not to be done) or still `unknown`. A settled capture
            or cancel has the `TransactionRecord` that settled it.

        Raises:
            TypeError: If it is given anything but outcomes.
            asyncio.CancelledError: If the caller is cancelled; its `outcome` is what was given, to
                be recovered again.
        """
        self._check_open()
        from gateway_async.recovery import Recovery

        recovery = Recovery(self._session, self._recovery, self._batch_policy(None))
        return await recovery.recover(outcomes)

    def coalesced(
        self,
        *,
        linger_seconds: float = DEFAULT_LINGER_SECONDS,
        policy: BatchPolicy | None = None,
    ) -> "Coalescer":
        """Send single orders of many tasks together, as few requests.

        Args:
            linger_seconds: How long an order waits at most for others to leave with it.
            policy: How the requests are made.

        Returns:
            A `Coalescer`, to be entered: ``async with gateway.coalesced() as single:``.

        Raises:
            ConfigurationError: If a setting is wrong.
        """
        self._check_open()
        from gateway_async.coalescer import Coalescer

        return Coalescer(
            self._session,
            linger_seconds=checked_seconds("linger_seconds", linger_seconds),
            policy=self._batch_policy(policy),
            recovery=self._recovery,
        )

    # Pages

    async def recent_transactions(self) -> "Page[TransactionRecord]":
        """Return what a query without a selection lists: up to 100 transactions (row 4).

        Raises:
            RejectedError: If the gateway refused.
            NotSentError: If nothing was sent.
            OutcomeUnknownError: If no readable reply came.
        """
        from gateway_async import calls

        return await self._single(calls.recent_request(PLANS["query"], self._session))

    async def recent_refunds(self) -> "Page[RefundRecord]":
        """Return up to 100 refunds (row 9), without a selection; see `recent_transactions`."""
        from gateway_async import calls

        request = calls.recent_request(PLANS["search_refunds"], self._session)
        return await self._single(request)

    # Payments and payouts

    async def pay_direct(self, payment: "DirectPayment") -> "DirectPaymentResult":
        """Make a payment by card (section 4, row 1).

        Returns:
            What the gateway says, whatever that is; a declined payment is no error.

        Raises:
            InvalidOrderError: If an amount has more decimal places than its currency.
            RejectedError: The gateway did nothing, by a status that the dialect lists as that.
            NotSentError: Nothing was sent.
            OutcomeUnknownError: It may have been made; the text says what to do.
            asyncio.CancelledError: If the caller is cancelled; its `outcome` is the result or the
                error of a payment that was in flight.
        """
        from gateway_async import calls

        return await self._single(calls.direct_request(payment, self._session), payment)

    async def pay_apm(self, payment: "ApmPayment") -> "ApmPaymentResult":
        """Make a payment by another method (section 4, row 2); errors as for `pay_direct`.

        Returns:
            What the gateway says; send the shopper to its `issuer_url`, which is never fetched.
        """
        from gateway_async import calls

        return await self._single(calls.apm_request(payment, self._session), payment)

    async def checkout(self, payment: "RedirectPayment") -> "CheckoutPage":
        """Begin a hosted payment (section 4, row 3); errors as for `pay_direct`.

        Returns:
            The page to send to the shopper, as it came. So is an error page of status 200: look at
            its `title`, and at its `action`, which is None where no form posts.
        """
        from gateway_async import calls

        return await self._single(calls.checkout_request(payment, self._session.dialect), payment)

    async def payout(self, request: "PayoutRequest") -> "PayoutResult":
        """Pay out funds to a beneficiary (row 10); errors as for `pay_direct`, `RejectedError` too.

        Returns:
            What the gateway says, whatever that is; a failed payout is no error.
        """
        from gateway_async import calls

        return await self._single(calls.payout_request(request, self._session), request)

    async def call(
        self,
        path: str,
        fields: "Mapping[str, object]",
        *,
        body: str = "form",
        reply: str = "json",
        repeatable: bool = False,
    ) -> "Reply":
        """Make any signed call, for operations whose shape the interface does not show.

        Args:
            path: A path below the base URL, never a URL.
            fields: All but identity and signature: text, `int`, `Decimal`, dicts or lists (JSON).
            body: ``"form"`` or ``"json"``.
            reply: ``"json"``, ``"xml"`` or ``"text"``.
            repeatable: Whether the call may be repeated when its reply is lost.

        Returns:
            The `Reply`: what it says is for you to judge, its `return_status` included.

        Raises:
            ConfigurationError: For a wrong path, body, reply or field name.
            TypeError: For a field that cannot be written.
            RejectedError: The gateway did nothing, as for `pay_direct`.
            NotSentError: Nothing was sent.
            OutcomeUnknownError: It may have been done.
        """
        from gateway_async import calls

        given, fields = [fields], {}  # a traceback would show them
        make = calls.custom_request
        request = make(path, given.pop(), body=body, reply=reply, repeatable=repeatable)
        return await self._single(request)

    def _batch(
        self, name: str, orders: object, policy: BatchPolicy | None, job: "Job | None" = None
    ) -> "Batch[Any, Any]":
        self._check_open()
        plan, policy = PLANS[name], self._batch_policy(policy)
        if job is None:
            return plain_batch(self._session, plan, orders, policy=policy, recovery=self._recovery)
        from gateway_async.jobs.batch import job_batch

        return job_batch(self._session, plan, orders, job, policy=policy, recovery=self._recovery)
