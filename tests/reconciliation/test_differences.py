"""Differences that are planted are found, each of them, and no others."""

import pickle
import random
from decimal import Decimal
from typing import get_args

import pytest

from gateway_async import BatchPolicy, GatewayClient
from gateway_async.reconciliation import (
    KINDS,
    CurrencyTotals,
    Difference,
    LedgerEntry,
    reconcile,
)
from gateway_async.reconciliation.differences import Kind
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Status
from tests.reconciliation.planting import PLANTS, STATES, entry_of, found, give_back, pay


def _ledger(sandbox: Sandbox, *, seed: int = 1) -> tuple[list[LedgerEntry], list[tuple[int, str]]]:
    """Return a ledger of many entries that fit and five of each kind that do not."""
    kinds = [*PLANTS] * 5 + [""] * 400
    random.Random(seed).shuffle(kinds)
    entries: list[LedgerEntry] = []
    for number, kind in enumerate(kinds):
        order_no = f"N{number:05d}"
        if kind:
            entries.append(PLANTS[kind](sandbox, order_no))
        else:
            refunds = ["1.50", "0.25"] if number % 3 == 0 else []
            by = {} if number % 2 else {"transaction_id": None}
            entries.append(entry_of(pay(sandbox, order_no, refunds=refunds), **by))
    return entries, [(index, kind) for index, kind in enumerate(kinds) if kind]


@pytest.mark.parametrize(("concurrency", "streamed"), [(1, False), (2, True), (9, False)])
async def test_what_was_planted_is_found_in_order_and_nothing_else(
    sandbox: Sandbox, gateway: GatewayClient, concurrency: int, *, streamed: bool
) -> None:
    """Faults that go away change nothing."""
    entries, planted = _ledger(sandbox, seed=concurrency)
    sandbox.faults.add("query", DropReply(times=1))
    sandbox.faults.add("search_refunds", DropReply(times=1))
    sandbox.faults.add("query", Status(500, times=1))
    policy = BatchPolicy(concurrency=concurrency, chunk_size=50)
    ledger = iter(entries) if streamed else entries
    reconciliation = reconcile(gateway, ledger, states=STATES, window=150, policy=policy)
    if streamed:
        async with reconciliation:
            differences = [difference async for difference in reconciliation]
        assert list(reconciliation.result) == []
    else:
        differences = list(await reconciliation)
    assert found(differences) == planted
    assert sandbox.faults.struck["DropReply"] == 2
    assert all(difference.entry is entries[difference.index] for difference in differences)
    summary = reconciliation.summary
    assert (summary.matched, summary.differing, summary.unanswered) == (400, len(planted), 0)
    assert not summary.ok
    assert {kind: count for kind, count in summary.differences.items() if count} == dict.fromkeys(
        PLANTS, 5
    )


async def test_an_entry_may_have_several_differences(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    payment = pay(sandbox, "N1", refunds=["1.00"])
    entry = entry_of(payment, amount="11.00", currency="USD", state="reserved", refunded=0)
    result = await reconcile(gateway, [entry], states=STATES)
    kinds = ["amount", "currency", "state", "refund_unknown_to_ledger"]
    assert [difference.kind for difference in result] == kinds
    assert (result.summary.differing, result.summary.entries) == (1, 1)
    amount = result[0]
    assert (amount.ledger, amount.gateway) == (Decimal("11.00"), Decimal("10.00"))
    transaction, refund = amount.records
    assert transaction.transaction_id == refund.transaction_id == payment.transaction_id
    assert str(amount) == (
        f"[0] transaction_id {payment.transaction_id}: amount: ledger 11.00, gateway 10.00"
    )


async def test_a_result_pickles(sandbox: Sandbox, gateway: GatewayClient) -> None:
    ledger = [plant(sandbox, f"N{number}") for number, plant in enumerate(PLANTS.values())]
    ledger.append(entry_of(pay(sandbox, "N99"), transaction_id="a,b"))
    result = await reconcile(gateway, ledger, states=STATES)
    copied = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    assert copied.summary == result.summary
    assert list(map(str, copied)) == list(map(str, result))
    assert copied[:-1] == result[:-1]


async def test_values_of_other_differences(sandbox: Sandbox, gateway: GatewayClient) -> None:
    one, two = pay(sandbox, "N1"), pay(sandbox, "N1")
    entries = [
        entry_of(one, transaction_id=None),
        entry_of(one, transaction_id="gone"),
        entry_of(two, state="reserved"),
    ]
    several, absent, state = await reconcile(gateway, entries, states=STATES)
    assert several.kind == "several_transactions"
    assert several.gateway == (one.transaction_id, two.transaction_id)
    assert absent.kind == "absent_at_gateway"
    assert (absent.ledger, absent.gateway) == ("gone", None)
    assert state.kind == "state"
    assert (state.ledger, state.gateway) == ("reserved", "3000")
    assert state.means == ("paid", "refunded")


async def test_without_a_meaning_no_state_is_compared(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    entries = [entry_of(pay(sandbox, "N1"), state=state) for state in ("reserved", "xyz", None)]
    assert (await reconcile(gateway, entries)).ok
    assert (await reconcile(gateway, entries[2:], states=STATES)).ok


async def test_amounts_compare_as_numbers_and_currencies_without_case(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    entry = entry_of(pay(sandbox, "N1", refunds=["1.00"]), currency="eur", amount=10, refunded=1)
    result = await reconcile(gateway, [entry])
    assert result.ok
    assert list(result.summary.currencies) == ["EUR"]


async def test_two_entries_for_one_payment_come_back_once_each(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    payment = pay(sandbox, "N1", refunds=["1.00"])
    entries = [entry_of(payment), entry_of(payment, amount="9.00"), entry_of(payment)] * 2
    for window in (1, 4, 100):
        result = await reconcile(gateway, entries, window=window)
        assert found(result) == [(1, "amount"), (4, "amount")]
        assert (result.summary.matched, result.summary.differing) == (4, 2)
        totals = result.summary.currencies["EUR"]
        assert (totals.ledger_count, totals.gateway_count) == (6, 6)
    assert sandbox.requests["query"] == 6 + 2 + 1


async def test_totals_of_both_sides(sandbox: Sandbox, gateway: GatewayClient) -> None:
    euro = pay(sandbox, "N1", amount="10.10", refunds=["0.30", "0.03"])
    yen = pay(sandbox, "N2", currency="JPY", amount="1000")
    entries = [entry_of(euro, amount="10.20"), entry_of(yen), entry_of(yen, transaction_id="gone")]
    summary = (await reconcile(gateway, entries)).summary
    assert summary.currencies == {
        "EUR": CurrencyTotals(
            ledger_count=1,
            gateway_count=1,
            ledger_amount=Decimal("10.20"),
            gateway_amount=Decimal("10.10"),
            ledger_refunded=Decimal("0.33"),
            gateway_refunded=Decimal("0.33"),
        ),
        "JPY": CurrencyTotals(
            ledger_count=2,
            gateway_count=1,
            ledger_amount=Decimal(2000),
            gateway_amount=Decimal(1000),
        ),
    }
    assert str(summary).splitlines() == [
        "3 entries: 1 matched, 2 differing, 0 unanswered",
        "absent_at_gateway: 1",
        "amount: 1",
        "EUR ledger: 1 payments of 10.20, refunded 0.33",
        "EUR gateway: 1 payments of 10.10, refunded 0.33",
        "JPY ledger: 2 payments of 2000, refunded 0",
        "JPY gateway: 1 payments of 1000.00, refunded 0",
    ]


async def test_more_refunds_than_one_reply_holds(sandbox: Sandbox, gateway: GatewayClient) -> None:
    payments = [pay(sandbox, f"N{number}", refunds=["0.10"] * 7) for number in range(60)]
    give_back(sandbox, payments[30], "0.01")
    ledger = [entry_of(payment) for payment in payments]
    ledger[30] = entry_of(payments[30], refunded="0.70")
    assert found(await reconcile(gateway, ledger)) == [(30, "refunded_total")]


def test_every_kind_is_planted_but_those_of_faults() -> None:
    assert set(KINDS) == {*get_args(Kind)}
    assert set(KINDS) - set(PLANTS) == {"unanswered"}


def test_what_a_gateway_says_is_one_line_and_moves_no_cursor() -> None:
    entry = LedgerEntry(transaction_id="T1", currency="EUR", amount=Decimal(1))
    difference = Difference(
        kind="unreadable",
        index=3,
        entry=entry,
        records=(),
        field="payment_status",
        gateway="\x1b[2J\n1 é",
    )
    assert str(difference) == (
        "[3] transaction_id T1: unreadable: ledger nothing, "
        r"gateway '\x1b[2J\n1 é' (payment_status)"
    )
