"""The demo: a day of a shop against a gateway that runs inside this process.

Orders are paid, captured, refunded from a CSV file and looked up; one reply is lost on purpose
after its refunds were done. At the end every outcome is compared with the gateway's own books.
"""

import asyncio
import csv
import tempfile
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from gateway_async.cli.console import Talk, gauged, summary_table
from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.orders import Reader, check_file
from gateway_async.cli.tables import Format, open_table
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect
from gateway_async.errors import NotSentError, OutcomeUnknownError
from gateway_async.models.orders import CaptureOrder, OrderRef, OutcomeStatus
from gateway_async.models.payments import DirectPayment
from gateway_async.models.values import CardNumber, SensitiveText
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.settings import BatchPolicy, RecoveryPolicy
from gateway_async.signing import Credentials, HmacSigner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.results import BatchResult, Outcome
    from gateway_async.models.orders import RefundOrder

_GOOD_CARD, _DECLINED_CARD = "4111111111111111", "4000000000000002"
_DECLINED_EVERY = 100
_REFUNDED_EVERY = 3
_PAYMENTS_IN_FLIGHT = 16
_REFUNDS_IN_A_REQUEST = 10
_SETTLE_SECONDS = 0.5


@attrs.frozen(kw_only=True)
class Stage:
    """What happened in one stage.

    Attributes:
        name: What was done.
        counts: Orders by outcome status.
        requests: Requests made, None where nobody counted.
        retries: How many of them were repeats.
        seconds: How long it took.
    """

    name: str
    counts: Counter[str]
    requests: int | None = None
    retries: int | None = None
    seconds: float


@attrs.define(kw_only=True)
class Demo:
    """One run of the demo.

    Attributes:
        gateway: The client.
        sandbox: The gateway that it talks to.
        talk: Where progress is shown.
        stages: What happened so far.
    """

    gateway: GatewayClient
    sandbox: Sandbox
    talk: Talk
    stages: list[Stage] = attrs.field(factory=list)

    async def pay(self, orders: int) -> list[CaptureOrder]:
        """Authorise card payments; return what can be captured."""
        started, counts = time.monotonic(), Counter[str]()
        paid: list[CaptureOrder] = []
        numbers = iter(range(orders))
        with gauged(self.talk, "pay", orders) as gauge:

            async def work() -> None:
                for number in numbers:
                    status, order = await self._pay(_payment(number))
                    counts[status] += 1
                    paid.extend([order] if order else [])
                    gauge.advance(status)

            async with asyncio.TaskGroup() as group:
                for _ in range(_PAYMENTS_IN_FLIGHT):
                    group.create_task(work())
        seconds = time.monotonic() - started
        self.stages.append(Stage(name="pay", counts=counts, requests=orders, seconds=seconds))
        return paid

    async def _pay(self, payment: DirectPayment) -> tuple[str, CaptureOrder | None]:
        try:
            result = await self.gateway.pay_direct(payment)
        except OutcomeUnknownError:
            return OutcomeStatus.UNKNOWN, None
        except NotSentError:
            return OutcomeStatus.NOT_SENT, None
        if result.order_status != "1" or result.transaction_id is None:
            return OutcomeStatus.DECLINED, None
        order = CaptureOrder(
            transaction_id=result.transaction_id,
            order_no=payment.order_no,
            currency=payment.currency,
            amount=payment.amount,
        )
        return OutcomeStatus.SUCCEEDED, order

    async def run(
        self, name: str, send: "Callable[..., Batch[Any, Any]]", orders: "Sequence[Any]"
    ) -> "list[Outcome[Any, Any]]":
        """Run one batch as a stage of its own."""
        started = time.monotonic()
        outcomes = []
        policy = BatchPolicy(chunk_size=_REFUNDS_IN_A_REQUEST) if name == "refund" else None
        with gauged(self.talk, name, len(orders)) as gauge:
            async with send(orders, policy=policy) as batch:
                async for outcome in batch:
                    outcomes.append(outcome)
                    gauge.advance(str(outcome.status))
        self._note(name, outcomes, batch.result, time.monotonic() - started)
        return sorted(outcomes, key=lambda outcome: outcome.index)

    async def recover(self, outcomes: "list[Outcome[Any, Any]]") -> "BatchResult[Any, Any]":
        """Settle the unknown outcomes from the gateway's own records."""
        started = time.monotonic()
        result = await self.gateway.recover(outcomes)
        self._note("recover", result, result, time.monotonic() - started)
        return result

    def _note(
        self,
        name: str,
        outcomes: "Iterable[Outcome[Any, Any]]",
        totals: "BatchResult[Any, Any]",
        seconds: float,
    ) -> None:
        counts = Counter(str(outcome.status) for outcome in outcomes)
        requests, retries = totals.requests, totals.retries
        self.stages.append(
            Stage(name=name, counts=counts, requests=requests, retries=retries, seconds=seconds)
        )

    def mistakes(
        self, operation: str, outcomes: "list[Outcome[Any, Any]] | BatchResult[Any, Any]"
    ) -> "Iterator[str]":
        """Yield each outcome that the sandbox's books contradict."""
        for outcome in outcomes:
            effects = self.sandbox.ledger.effects(operation, outcome.order.transaction_id)
            if effects not in _EFFECTS[outcome.status]:
                yield (
                    f"{operation} of {outcome.order.transaction_id}: {outcome.status}, "
                    f"but done {effects} times"
                )


_EFFECTS = {
    OutcomeStatus.SUCCEEDED: (1,),
    OutcomeStatus.DECLINED: (0,),
    OutcomeStatus.UNKNOWN: (0, 1),
    OutcomeStatus.NOT_SENT: (0,),
}
"""How often the effect may have happened, by what the outcome says."""


def _payment(number: int) -> DirectPayment:
    declined = number % _DECLINED_EVERY == _DECLINED_EVERY - 1
    return DirectPayment(
        order_no=f"demo-{number:06}",
        currency="EUR",
        amount=Decimal(1000 + number % 9000) / 100,
        card=CardNumber(_DECLINED_CARD if declined else _GOOD_CARD),
        expiration_month="12",
        expiration_year="2031",
        security_code=SensitiveText("123"),
    )


def _refunds(captured: "list[CaptureOrder]") -> "list[RefundOrder]":
    """Write a part of the captured orders to a CSV file, and read it as `refund` does."""
    layout = LAYOUTS["refund"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "refunds.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(layout.columns)
            writer.writerows(map(_refund_row, captured[::_REFUNDED_EVERY]))
        with open_table(path, Format.CSV) as table:
            return list(check_file(table, Reader(layout, Dialect())).orders())


def _refund_row(order: CaptureOrder) -> tuple[object, ...]:
    refunded = (order.amount / 2).quantize(Decimal("0.01"))
    return (*attrs.astuple(order), refunded, "sent back")


def demo(*, orders: Annotated[int, Parameter(validator=Number(gte=1))] = 3000) -> int:
    """Pay, capture, refund and look up orders at a gateway that runs inside this command.

    Args:
        orders: How many orders.
    """
    return asyncio.run(_demo(orders, Talk(console=Console())))


async def _demo(orders: int, talk: Talk) -> int:
    recovery = RecoveryPolicy(settle_seconds=_SETTLE_SECONDS, record_baseline=True)
    async with Sandbox() as sandbox:
        talk.tell("demo", f"A gateway listens at {sandbox.base_url}; {orders} orders go to it.")
        credentials = Credentials(
            merchant_id=sandbox.merchant_id,
            account_id=sandbox.account_id,
            signer=HmacSigner(sandbox.secret),
        )
        async with GatewayClient(
            sandbox.base_url, credentials, recovery=recovery, dialect=sandbox.dialect
        ) as gateway:
            run = Demo(gateway=gateway, sandbox=sandbox, talk=talk)
            mistakes = await _day(run, orders)
    talk.console.print(
        summary_table((s.name, s.counts, s.requests, s.retries, s.seconds) for s in run.stages)
    )
    return _verdict(talk, mistakes)


async def _day(demo: Demo, orders: int) -> list[str]:
    """Go through all the stages; return what the books contradict."""
    paid = await demo.pay(orders)
    captures = await demo.run("capture", demo.gateway.capture, paid)
    captured = [outcome.order for outcome in captures if outcome.status == "succeeded"]
    demo.sandbox.faults.add("refund", DropReply(times=1))
    refunds = await demo.run("refund", demo.gateway.refund, _refunds(captured))
    settled = await demo.recover(refunds)
    refs = [OrderRef(transaction_id=order.transaction_id) for order in paid]
    await demo.run("query", demo.gateway.query, refs)
    refunded = [
        OrderRef(transaction_id=outcome.order.transaction_id)
        for outcome in settled
        if outcome.status == "succeeded"
    ]
    await demo.run("search-refunds", demo.gateway.search_refunds, refunded)
    return [*demo.mistakes("capture", captures), *demo.mistakes("refund", settled)]


def _verdict(talk: Talk, mistakes: list[str]) -> int:
    if mistakes:
        talk.tell("demo", "The gateway's books disagree:\n" + "\n".join(mistakes))
        return 1
    talk.tell(
        "demo",
        "One reply was lost on purpose. Its refunds were unknown and were not sent again; the "
        "gateway's\nown records settled them. The gateway's books agree with every outcome.",
    )
    return 0
