"""`GatewayClient`: one short method an operation."""

import sys
import warnings
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, overload

import attrs

from gateway_async.batching.batch import plain_batch
from gateway_async.coalescer import Coalescer
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, hide_arguments
from gateway_async.models.values import Unpicklable
from gateway_async.operations import OPERATIONS
from gateway_async.payments import carry_out, custom_request, payment_request, recent_request
from gateway_async.recovery.recover import Recovery
from gateway_async.session import Session
from gateway_async.settings import (
    COUNT,
    DEFAULT_LINGER_SECONDS,
    DEFAULT_SLICE_SIZE,
    FLAG,
    SECONDS,
    BatchPolicy,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
    check_alone,
    checked_base_url,
    checked_proxy,
    choose,
    expect,
    setting,
)
from gateway_async.signing import Credentials
from gateway_async.telemetry import Instrumentation
from gateway_async.transport import AiohttpTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Coroutine, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import FrameType

    from aiohttp import ClientSession

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.results import BatchResult
    from gateway_async.journal import Job
    from gateway_async.models.orders import (
        CancelOrder,
        CaptureOrder,
        OrderRef,
        RefundOrder,
        ReviewOrder,
    )
    from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment
    from gateway_async.models.payouts import PayoutRequest, PayoutResult
    from gateway_async.models.records import (
        ApmPaymentResult,
        CancelRecord,
        CaptureRecord,
        CheckoutPage,
        DirectPaymentResult,
        Page,
        RefundRecord,
        ReviewRecord,
        TransactionRecord,
    )
    from gateway_async.outcomes import Outcome
    from gateway_async.payments import Reply
    from gateway_async.session import Request
    from gateway_async.telemetry import Telemetry

    O = TypeVar("O")  # noqa: E741  # an order
    R = TypeVar("R")
    T = TypeVar("T")
    _Kept = TypeVar("_Kept", bound=RefundRecord | ReviewRecord | PayoutResult | tuple[Any, ...])
    """Record types that stay the same after recovery."""
    Orders: TypeAlias = Iterable[T] | AsyncIterable[T]

DEFAULT_MAX_REPLY_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_CONNECTIONS = 100

_LIMITER = (
    lambda value: value is None or hasattr(type(value), "__aenter__"),
    "an asynchronous context manager",
)


@hide_arguments  # the proxy's URL may have a password
class GatewayClient(Unpicklable):
    """The gateway, for one merchant account.

    Use it as ``async with GatewayClient(...) as gateway``, or close it with `aclose`. It can be
    made before any event loop runs, and used in several, one after the other: what it opened on a
    loop is closed with that loop at the latest (by `asyncio.run`, or `loop.shutdown_asyncgens`). A
    client that is dropped before that, and was not closed, is a `ResourceWarning`.

    Args:
        base_url: Where the gateway is, such as ``https://gateway.example``. Plain ``http://`` is
            refused except to this machine, unless `allow_http` is set.
        credentials: The merchant account, and the signer of its requests.
        timeouts: How long one call may take.
        retry: How what may be repeated is repeated.
        policy: How batches are run, unless a call has a policy of its own.
        recovery: How unknown outcomes are settled.
        dialect: What the interface leaves open.
        session: Your own `aiohttp.ClientSession`; it is never closed, and its middlewares,
            redirects and `raise_for_status` are not used. Give it a connector with
            ``keepalive_timeout=1``: a connection that the gateway closed while it was idle looks
            like a lost reply.
        limiter: An asynchronous context manager, entered around every attempt. Whatever it raises
            when it is left, a reply that has come counts.
        telemetry: A listener to batches and requests, such as `gateway_async.otel.OpenTelemetry`.
        max_reply_bytes: The largest reply that is read, decompressed.
        max_connections: Connections at most, where the session is ours; so many requests of a batch
            are in flight at most. None for 100, or for as many as `policy` has requests in flight.
        allow_http: Whether plain ``http://`` may go to another machine, because you trust the
            network: any host on the way can read and change requests.
        ssl: An `ssl.SSLContext` in place of the system's authorities: for a private one, or with a
            certificate of yours. It counts for the gateway and for an ``https://`` proxy.
        proxy: The URL of a proxy, such as ``http://user:password@proxy.example:3128``.
        trust_env: Whether HTTP_PROXY, HTTPS_PROXY and NO_PROXY are looked at, once, where `proxy`
            is None. `ssl`, `proxy` and `trust_env` are for our own session, not for `session=`.

    Raises:
        ConfigurationError: If a setting is wrong.
    """

    def __init__(  # noqa: PLR0913  # one keyword a setting or collaborator
        self,
        base_url: str,
        credentials: Credentials,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        policy: BatchPolicy | None = None,
        recovery: RecoveryPolicy | None = None,
        dialect: Dialect | None = None,
        session: "ClientSession | None" = None,
        limiter: "AbstractAsyncContextManager[object] | None" = None,
        telemetry: "Telemetry | None" = None,
        max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES,
        max_connections: int | None = None,
        allow_http: bool = False,
        ssl: "SSLContext | None" = None,
        proxy: str | None = None,
        trust_env: bool = False,
    ) -> None:
        self._policy = setting("policy", policy, BatchPolicy)
        expect("credentials", credentials, Credentials)
        expect("limiter", limiter, _LIMITER)
        expect("allow_http", allow_http, FLAG)
        expect("trust_env", trust_env, FLAG)
        if ssl is not None:
            expect("ssl", ssl, SSLContext)
        check_alone(session, ssl=ssl, proxy=proxy, trust_env=trust_env)
        address = checked_base_url(base_url, allow_http=allow_http)
        proxy_url, proxy_authorization = checked_proxy(
            proxy, base_url=address, trust_env=trust_env, allow_http=allow_http
        )
        timeouts = setting("timeouts", timeouts, Timeouts)
        self._made_at = _caller_place(sys._getframe(1))  # noqa: SLF001  # the only cheap way
        self._transport = AiohttpTransport(
            address,
            timeouts=timeouts,
            max_reply_bytes=expect("max_reply_bytes", max_reply_bytes, COUNT),
            session=session,
            limit=(
                max(DEFAULT_MAX_CONNECTIONS, self._policy.concurrency)
                if max_connections is None
                else expect("max_connections", max_connections, COUNT)
            ),
            ssl=ssl,
            proxy=proxy_url,
            proxy_authorization=proxy_authorization,
        )
        self._session = Session(
            transport=self._transport,
            instrumentation=Instrumentation(telemetry, address),
            gateway=address,
            credentials=credentials,
            dialect=setting("dialect", dialect, Dialect),
            timeouts=timeouts,
            retry=setting("retry", retry, RetryPolicy),
            recovery=setting("recovery", recovery, RecoveryPolicy),
            limiter=limiter,
        )

    @property
    def dialect(self) -> Dialect:
        """What the interface leaves open, as this client takes it."""
        return self._session.dialect

    @property
    def gateway(self) -> str:
        """Where the gateway is: its base URL, as a job of a journal names it."""
        return self._session.gateway

    @property
    def credentials(self) -> Credentials:
        """The merchant account, and the signer of its requests."""
        return self._session.credentials

    async def aclose(self) -> None:
        """Close the connections that were opened on the running loop; `session=` stays open."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        self._transport.is_closed = False
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        transport = getattr(self, "_transport", None)
        if transport is not None and transport.loops:
            warnings.warn_explicit(
                "a GatewayClient made here was left open; use `async with`, or await its aclose()",
                ResourceWarning,
                *self._made_at,
            )

    def __repr__(self) -> str:
        if not hasattr(self, "_session"):  # in the traceback of an argument that was refused
            return "<GatewayClient unfinished>"
        return f"<GatewayClient {self.gateway} {self.credentials}>"

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
            job: ``journal.job(name)``: the journal keeps the orders and their outcomes. It stores
                all orders before the first is sent; if one is wrong, none is sent. After a crash
                or an error, run the same line again: it finishes the job.

        Returns:
            A `Batch`. Awaiting or entering it raises `InvalidOrderError` if an order of a
            collection or a job is wrong, `DuplicateOrderError` if two of them are the same
            (nothing was sent), and what `orders` raises; with a job, `JobConflictError` if its
            name has other orders, `JobBusyError` if another process is running it, and
            `JournalError` if what happens cannot be kept. A failure of an order is an outcome, and
            never raised.

        Raises:
            InvalidOrderError: If `orders` is no iterable of orders.
            ConfigurationError: If the policy does not fit the operation, or `job` is no `Job`.
        """
        return self.batch("capture", orders, policy=policy, job=job)

    def cancel(
        self,
        orders: "Orders[CancelOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[CancelOrder, CancelRecord]":
        """Cancel any number of orders (section 4, row 7); see `capture`."""
        return self.batch("cancel", orders, policy=policy, job=job)

    def review(
        self,
        orders: "Orders[ReviewOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[ReviewOrder, ReviewRecord]":
        """Review any number of orders (section 4, row 6); see `capture`."""
        return self.batch("review", orders, policy=policy, job=job)

    def refund(
        self,
        orders: "Orders[RefundOrder]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[RefundOrder, RefundRecord]":
        """Refund any number of orders, in whole or in part (section 4, row 8); see `capture`."""
        return self.batch("refund", orders, policy=policy, job=job)

    def query(
        self, orders: "Orders[OrderRef]", *, policy: BatchPolicy | None = None
    ) -> "Batch[OrderRef, tuple[TransactionRecord, ...]]":
        """Look up transactions (section 4, row 4); an order may have several; see `capture`.

        A reply has 100 records at most. Where it lists each of 100 orders once, further records of
        theirs may be cut off: `BatchPolicy(chunk_size=99)` rules that out, as `reconcile` does.
        The merchant's addresses must be registered with the gateway first (section 5).
        """
        return self.batch("query", orders, policy=policy)

    def search_refunds(
        self, orders: "Orders[OrderRef]", *, policy: BatchPolicy | None = None
    ) -> "Batch[OrderRef, tuple[RefundRecord, ...]]":
        """Look up refunds (section 4, row 9); an order may have several; see `capture`.

        For transactions with several refunds each, see `query` on `chunk_size`.
        """
        return self.batch("search_refunds", orders, policy=policy)

    def payouts(
        self,
        requests: "Orders[PayoutRequest]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[PayoutRequest, PayoutResult]":
        """Pay out to any number of beneficiaries, a request each (section 4, row 10).

        See `capture`; of `policy`, `chunk_size` does not count. A payout is `succeeded` by a
        `Dialect.payout_done_statuses` without a `failure_reason`, and `declined` by a
        `payout_declined_statuses`. It cannot be looked up: an unknown one stays unknown, and its
        error names the `request_id` to ask the gateway for. None is sent twice, unless
        `Dialect.payout_deduplicates` says that the gateway pays a `request_id` once. The same
        `request_id` twice is a `DuplicateOrderError` whatever `policy` says. In a job, an unknown
        one is held for a person; see `Journal.resolve`.
        """
        return self.batch("payout", requests, policy=policy, job=job)

    def batch(
        self,
        operation: str,
        orders: "Orders[Any]",
        *,
        policy: BatchPolicy | None = None,
        job: "Job | None" = None,
    ) -> "Batch[Any, Any]":
        """Do or look up any number of orders by the name of an operation of `OPERATIONS`.

        ``gateway.batch("refund", orders)`` is ``gateway.refund(orders)``; see `capture`.

        Raises:
            ConfigurationError: If there is no such operation, or it takes no batch.
        """
        self._check_open()
        taken = {name: row for name, row in OPERATIONS.items() if row.takes_batch}
        row, policy = choose("operation", operation, taken), self._batch_policy(policy)
        if job is None:
            return plain_batch(self._session, row, orders, policy)
        from gateway_async.jobs import job_batch

        return job_batch(self._session, job, policy, operation=row, orders=orders)

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

        Submitting the same orders again, after whatever happened, keeps them once.

        Args:
            operation: ``"capture"``, ``"cancel"``, ``"review"``, ``"refund"`` or ``"payout"``.
            orders: An iterable or asynchronous iterable of its orders, checked as for `refund`.
            job: ``journal.job(name)``.
            slice_size: How many orders a slice has, but for those of one transaction, which are
                always in one slice.
            policy: Its `duplicates` decides whether two orders may be of one transaction.

        Returns:
            How many orders they are; all of them are on the disk.

        Raises:
            InvalidOrderError: If any order is wrong; nothing is kept.
            ConfigurationError: For another operation, or a wrong job or size.
            JobConflictError: If there are other orders under this name, or it was not cut.
            JournalError: If they cannot be kept.
        """
        self._check_open()
        from gateway_async.jobs import submit_orders

        return await submit_orders(
            self._session,
            operation,
            orders,
            job,
            policy=self._batch_policy(policy),
            slice_size=expect("slice_size", slice_size, COUNT),
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
            ConfigurationError: If `job` is no `Job`.
        """
        self._check_open()
        from gateway_async.jobs import job_batch

        policy = self._batch_policy(policy)
        return job_batch(self._session, job, policy, slice_number=slice_number)

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
        is sent again. Without it, nothing is. Let only one process do so at a time: two processes
        would both send the same order. A job has a lease that prevents this; use one where several
        processes may recover.

        Args:
            outcomes: A result, or outcomes of this process or another.

        Returns:
            As many outcomes in the same order: settled ones as they were, unknown ones as
            `succeeded`, `not_sent` (proved not to be done) or still `unknown`. A settled capture
            or cancel has the `TransactionRecord` that settled it.

        Raises:
            InvalidOrderError: If it is given anything but outcomes.
            ConfigurationError: With `resend_absent`, while another call recovers the same orders.
            asyncio.CancelledError: If the caller is cancelled. Its `outcome` is what was given,
                with the outcomes of orders that were sent again: recover that. With
                `resend_absent`, what a collaborator of yours raises has one, too.
        """
        self._check_open()
        return await Recovery(self._session, self._batch_policy(None)).recover(outcomes)

    def coalesced(
        self, *, linger_seconds: float = DEFAULT_LINGER_SECONDS, policy: BatchPolicy | None = None
    ) -> Coalescer:
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
        return Coalescer(
            session=self._session,
            linger_seconds=expect("linger_seconds", linger_seconds, SECONDS),
            policy=self._batch_policy(policy),
        )

    # Pages

    async def recent_transactions(self) -> "Page[TransactionRecord]":
        """Return what a query without a selection lists: up to 100 transactions (row 4).

        Raises:
            RejectedError: If the gateway refused.
            NotSentError: If nothing was sent.
            OutcomeUnknownError: If no readable reply came.
        """
        return await self._single(recent_request(OPERATIONS["query"], self._session))

    async def recent_refunds(self) -> "Page[RefundRecord]":
        """Return up to 100 refunds (row 9), without a selection; see `recent_transactions`."""
        return await self._single(recent_request(OPERATIONS["search_refunds"], self._session))

    # Payments and payouts

    async def pay_direct(self, payment: "DirectPayment") -> "DirectPaymentResult":
        """Make a payment by card (section 4, row 1).

        Returns:
            The gateway's result; a declined payment is a result too, and no error.

        Raises:
            InvalidOrderError: If an amount has more decimal places than its currency.
            RejectedError: The gateway did nothing, by a status that the dialect lists as that.
            NotSentError: Nothing was sent.
            OutcomeUnknownError: It may have been made; the error names the next step.
            asyncio.CancelledError: If the caller is cancelled; its `outcome` is the result or the
                error of a payment that was in flight.
        """
        result: DirectPaymentResult = await self._pay("pay_direct", payment)
        return result

    async def pay_apm(self, payment: "ApmPayment") -> "ApmPaymentResult":
        """Make a payment by another method (section 4, row 2); errors as for `pay_direct`.

        Returns:
            The gateway's result; send the shopper to its `issuer_url`, which is never fetched.
        """
        result: ApmPaymentResult = await self._pay("pay_apm", payment)
        return result

    async def checkout(self, payment: "RedirectPayment") -> "CheckoutPage":
        """Begin a hosted payment (section 4, row 3); errors as for `pay_direct`.

        Returns:
            The page to send to the shopper, as it came. So is an error page of status 200, and one
            without its end, which no rule of the interface shows: look at its `title`, and at its
            `action`, which is None where no form posts.
        """
        result: CheckoutPage = await self._pay("checkout", payment)
        return result

    async def payout(self, request: "PayoutRequest") -> "PayoutResult":
        """Pay out funds to a beneficiary (section 4, row 10); errors as for `pay_direct`.

        Returns:
            The gateway's result; a failed payout is a result too, and no error, unless it was sent
            again (`Dialect.payout_deduplicates`): the first attempt may have been paid.
        """
        result: PayoutResult = await self._pay("payout", request)
        return result

    def _pay(self, operation: str, sent: object) -> "Coroutine[Any, Any, Any]":
        return self._single(payment_request(OPERATIONS[operation], sent, self._session), sent)

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
            The `Reply`; judging it, its `return_status` included, is up to you.

        Raises:
            ConfigurationError: For a wrong path, body, reply or field.
            RejectedError: The gateway did nothing, as for `pay_direct`.
            NotSentError: Nothing was sent.
            OutcomeUnknownError: It may have been done.
        """
        given, fields = [fields], {}  # a traceback would show them
        request = custom_request(path, given.pop(), body=body, reply=reply, repeatable=repeatable)
        return await self._single(request)

    def _batch_policy(self, policy: BatchPolicy | None) -> BatchPolicy:
        policy = self._policy if policy is None else setting("policy", policy, BatchPolicy)
        # More requests than connections would only wait for each other, and time out.
        concurrency = min(policy.concurrency, self._transport.capacity)
        return attrs.evolve(policy, concurrency=concurrency)

    def _single(self, request: "Request[T]", about: object = None) -> "Coroutine[Any, Any, T]":
        self._check_open()
        return carry_out(self._session, request, about, drain_seconds=self._policy.drain_seconds)

    def _check_open(self) -> None:
        if self._transport.is_closed:
            raise ConfigurationError(
                "this GatewayClient is closed; enter it again with `async with`, or make another"
            )


def _caller_place(frame: "FrameType | None") -> tuple[str, int]:
    """Return file and line of the nearest caller outside of this package."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gateway_async."):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
