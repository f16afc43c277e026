"""The demo: a day of a shop against a gateway that runs inside this process.

Orders are paid, captured, refunded and looked up; one reply is lost on purpose after its refunds
were done. At the end every outcome is compared with the gateway's own books.
"""

import asyncio
import time
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console as RichConsole

from gateway_async.cli.console import Console, gauged, summary_table
from gateway_async.cli.run import DONE, NOT_ALL_DONE
from gateway_async.client import GatewayClient
from gateway_async.errors import GatewayError
from gateway_async.models.orders import CaptureOrder, OrderRef, OutcomeStatus, RefundOrder
from gateway_async.models.payments import DirectPayment
from gateway_async.models.values import CardNumber, SensitiveText
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.settings import BatchPolicy, RecoveryPolicy
from gateway_async.signing import Credentials, HmacSigner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.results import Outcome

_GOOD_CARD, _DECLINED_CARD = "4111111111111111", "4000000000000002"
_DECLINED_EVERY = 100
_REFUNDED_EVERY = 3
_PAYMENTS_IN_FLIGHT = 16
_FEW_IN_A_REQUEST = BatchPolicy(chunk_size=10)
_EFFECTS = {
    OutcomeStatus.SUCCEEDED: (1,),
    OutcomeStatus.DECLINED: (0,),
    OutcomeStatus.UNKNOWN: (0, 1),
    OutcomeStatus.NOT_SENT: (0,),
}
"""How often the effect may have happened, by what the outcome says."""


def demo(*, orders: Annotated[int, Parameter(validator=Number(gte=1))] = 3000) -> int:
    """Pay, capture, refund and look up orders at a gateway that runs inside this command.

    Args:
        orders: How many orders.
    """
    return asyncio.run(_demo(orders, Console(rich=RichConsole())))


async def _demo(orders: int, console: Console) -> int:
    async with Sandbox() as sandbox:
        console.tell("demo", f"A gateway listens at {sandbox.base_url}; {orders} orders go to it.")
        credentials = Credentials(
            merchant_id=sandbox.merchant_id,
            account_id=sandbox.account_id,
            signer=HmacSigner(sandbox.secret),
        )
        recovery = RecoveryPolicy(settle_seconds=0.5, record_baseline=True)
        async with GatewayClient(
            sandbox.base_url, credentials, recovery=recovery, dialect=sandbox.dialect
        ) as gateway:
            day = _Day(gateway=gateway, console=console)
            paid = await day.pay(orders)
            captures = await day.run("capture", gateway.capture(paid))
            captured = [one.order for one in captures if one.status == "succeeded"]
            sandbox.faults.add("refund", DropReply(times=1))
            refunds = [_refund(order) for order in captured[::_REFUNDED_EVERY]]
            lost = await day.run("refund", gateway.refund(refunds, policy=_FEW_IN_A_REQUEST))
            started = time.monotonic()
            settled = await gateway.recover(lost)
            day.note("recover", settled, settled.requests, settled.retries, started)
            await day.run("query", gateway.query([_reference(one) for one in paid]))
            refunded = [one.order for one in settled if one.status == "succeeded"]
            found = gateway.search_refunds([_reference(one) for one in refunded])
            await day.run("search-refunds", found)
    console.rich.print(summary_table(day.stages))
    mistakes = [
        f"{operation} of {one.order.transaction_id}: {one.status}, but done {effects} times"
        for operation, outcomes in (("capture", captures), ("refund", settled))
        for one in outcomes
        if (effects := sandbox.ledger.effects(operation, one.order.transaction_id))
        not in _EFFECTS[one.status]
    ]
    if mistakes:
        console.tell("demo", "The gateway's books disagree:\n" + "\n".join(mistakes))
        return NOT_ALL_DONE
    console.tell(
        "demo",
        "One reply was lost on purpose. Its refunds were unknown and were not sent again; the "
        "gateway's\nown records settled them. The gateway's books agree with every outcome.",
    )
    return DONE


@attrs.define(kw_only=True)
class _Day:
    """One run of the demo: each stage shows its progress, and leaves a row for the table."""

    gateway: GatewayClient
    console: Console
    stages: list[tuple[str, Counter[str], int, int, float]] = attrs.field(factory=list)

    async def pay(self, orders: int) -> list[CaptureOrder]:
        """Authorise card payments; return what can be captured."""
        started, counts, paid = time.monotonic(), Counter[str](), list[CaptureOrder]()
        numbers = iter(range(orders))
        with gauged(self.console, "pay", orders) as gauge:

            async def work() -> None:
                for number in numbers:
                    order = await self._pay(number)
                    status = OutcomeStatus.DECLINED if order is None else OutcomeStatus.SUCCEEDED
                    counts[status] += 1
                    paid.extend([] if order is None else [order])
                    gauge.advance(status)

            async with asyncio.TaskGroup() as group:
                for _ in range(_PAYMENTS_IN_FLIGHT):
                    group.create_task(work())
        self.stages.append(("pay", counts, orders, 0, time.monotonic() - started))
        return paid

    async def _pay(self, number: int) -> CaptureOrder | None:
        declined = number % _DECLINED_EVERY == _DECLINED_EVERY - 1
        payment = DirectPayment(
            order_no=f"demo-{number:06}",
            currency="EUR",
            amount=Decimal(1000 + number % 9000) / 100,
            card=CardNumber(_DECLINED_CARD if declined else _GOOD_CARD),
            expiration_month="12",
            expiration_year="2031",
            security_code=SensitiveText("123"),
        )
        try:
            result = await self.gateway.pay_direct(payment)
        except GatewayError:
            return None
        if result.order_status != "1" or result.transaction_id is None:
            return None
        return CaptureOrder(
            transaction_id=result.transaction_id,
            order_no=payment.order_no,
            currency=payment.currency,
            amount=payment.amount,
        )

    async def run(self, name: str, batch: "Batch[Any, Any]") -> "list[Outcome[Any, Any]]":
        """Run one batch as a stage of its own; return its outcomes in the order of the input."""
        started, outcomes = time.monotonic(), []
        async with batch:
            with gauged(self.console, name, batch.progress.total) as gauge:
                async for outcome in batch:
                    outcomes.append(outcome)
                    gauge.advance(str(outcome.status))
        self.note(name, outcomes, batch.result.requests, batch.result.retries, started)
        return sorted(outcomes, key=lambda outcome: outcome.index)

    def note(
        self,
        name: str,
        outcomes: "Iterable[Outcome[Any, Any]]",
        requests: int,
        retries: int,
        started: float,
    ) -> None:
        """Note the result of a stage, for the table."""
        counts = Counter(str(outcome.status) for outcome in outcomes)
        self.stages.append((name, counts, requests, retries, time.monotonic() - started))


def _refund(order: CaptureOrder) -> RefundOrder:
    half = (order.amount / 2).quantize(Decimal("0.01"))
    return RefundOrder(**attrs.asdict(order), refund_amount=half, refund_reason="sent back")


def _reference(order: CaptureOrder | RefundOrder) -> OrderRef:
    return OrderRef(transaction_id=order.transaction_id)
