"""`reconcile`, and the `Reconciliation` that it returns: to be awaited or streamed, once."""

from collections.abc import AsyncIterator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Self

from gateway_async.batching.batch import Batch, check_size
from gateway_async.batching.feed import check_orders
from gateway_async.client import GatewayClient
from gateway_async.errors import InvalidOrderError
from gateway_async.operations import OPERATIONS
from gateway_async.reconciliation.comparing import Rules
from gateway_async.reconciliation.differences import Difference
from gateway_async.reconciliation.entries import LedgerEntry
from gateway_async.reconciliation.running import Run
from gateway_async.reconciliation.summary import Books, ReconciliationResult, Summary
from gateway_async.settings import check_instance, checked_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Collection, Iterable, Mapping
    from types import TracebackType

    from gateway_async.settings import BatchPolicy

DEFAULT_WINDOW = 1000


class Reconciliation(Coroutine[Any, Any, ReconciliationResult], AsyncIterator[Difference]):
    """One comparison of a ledger with the gateway's records.

    ``await reconciliation`` gives the `ReconciliationResult`. ``async with reconciliation``
    streams instead: iterate to get each difference, in the order of the ledger and in bounded
    memory. Leaving early, or being cancelled, looks up nothing more and waits for nothing; the
    entries that were taken in by then and not compared are unanswered.
    """

    def __init__(
        self,
        gateway: GatewayClient,
        ledger: object,
        *,
        rules: Rules,
        policy: "BatchPolicy",
        window: int,
    ) -> None:
        runs: list[Run] = []

        async def open_run() -> Run:
            # It does not know `self`: such a ring would put the warning off that it was not used.
            runs.append(Run(gateway, ledger, rules=rules, policy=policy, window=window))
            return runs[0]

        self._runs = runs
        self._batch: Batch[Any, Any] = Batch("reconciliation", open_run)

    @property
    def result(self) -> ReconciliationResult:
        """What it came to, once it is over.

        Raises:
            RuntimeError: Before that.
        """
        return self._batch.result  # type: ignore[return-value]  # `Run` makes it

    @property
    def summary(self) -> Summary:
        """Counts and totals of every entry that was taken in, once it is over.

        Raises:
            RuntimeError: Before that.
        """
        return self.result.summary

    @property
    def progress(self) -> Summary:
        """How far it has come; all zeros before it was started."""
        return self._runs[0].progress if self._runs else Books().summary()

    def __repr__(self) -> str:
        if self._runs and self._runs[0].result is not None:
            return "<Reconciliation over>"
        return repr(self._batch).replace("<Batch reconciliation", "<Reconciliation")

    # As a coroutine

    def __await__(self) -> Generator[Any, Any, ReconciliationResult]:
        return self._batch.__await__()  # type: ignore[return-value]  # `Run` makes it

    def send(self, value: Any) -> Any:  # noqa: ANN401  # as Coroutine.send
        """Resume it, as for any coroutine."""
        return self._batch.send(value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401  # as Coroutine.throw
        """Raise an error inside it, as for any coroutine."""
        return self._batch.throw(*error)

    def close(self) -> None:
        """Give it up, as for any coroutine."""
        self._batch.close()

    # As a stream

    async def __aenter__(self) -> Self:
        await self._batch.__aenter__()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Difference:
        return await self._batch.__anext__()  # type: ignore[return-value]  # `Run` finds them

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        await self._batch.__aexit__(kind, error, traceback)


def reconcile(  # noqa: PLR0913  # one keyword a setting
    gateway: GatewayClient,
    ledger: "Iterable[LedgerEntry] | AsyncIterable[LedgerEntry]",
    *,
    states: "Mapping[str, str | Collection[str]] | None" = None,
    refund_statuses: "Mapping[str, bool] | None" = None,
    policy: "BatchPolicy | None" = None,
    window: int = DEFAULT_WINDOW,
) -> Reconciliation:
    """Compare a merchant's ledger with the gateway's records, transactions and refunds.

    Every entry is looked up twice, as a transaction and for its refunds, in requests of up to 100
    entries, and comes back as matched, differing or unanswered. Nothing is changed at the gateway.

    Args:
        gateway: The client to ask with.
        ledger: An iterable or asynchronous iterable. A collection is checked whole before
            anything is looked up; from a stream, what is no entry raises once the entries before
            it are compared.
        states: By `payment_status`, the ledger's word for it, or several; the interface shows no
            meaning, so without this no state is compared.
        refund_statuses: By `refund_status`, whether such a refund gave money back; ``{"1": True}``
            if nothing is said. A refund with another status is an `Unreadable` difference.
        policy: How the look-ups are run, the client's own unless it is given: `concurrency` is for
            both kinds together, `deadline_seconds` for the whole of it, and `stop_after_unknown`
            for each kind.
        window: Entries that are taken in, looked up and compared together. Entries of the same
            reference in one window share their look-ups.

    Returns:
        A `Reconciliation`, to be awaited or streamed.

    Raises:
        InvalidOrderError: If `ledger` is no iterable of entries.
        ConfigurationError: If a setting is wrong.
    """
    check_instance("gateway", gateway, GatewayClient)
    try:
        check_orders(ledger, LedgerEntry)
    except InvalidOrderError as error:
        raise InvalidOrderError(str(error).replace("orders:", "ledger:", 1)) from None
    policy = gateway._batch_policy(policy)  # noqa: SLF001  # as its own look-ups go by
    check_size(OPERATIONS["query"], policy)
    return Reconciliation(
        gateway,
        ledger,
        rules=Rules(states=states, refund_statuses=refund_statuses),
        policy=policy,
        window=checked_count("window", window),
    )
