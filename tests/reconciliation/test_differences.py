"""Every difference is found, and no other; what cannot be read is not called equal."""

import pickle
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import Dialect, GatewayClient
from gateway_async.reconciliation import Difference, Kind, Summary, reconcile
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.reconciliation.books import STATES, Books, begin, entry, entry_of, found, pay
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import reply_to

STATUSES = {"1": True, "9": False}


async def test_a_difference_has_both_values_and_a_result_pickles(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    one, two = pay(sandbox, "N1"), pay(sandbox, "N1")
    three = pay(sandbox, "N3", refunds=["1.00"])
    ledger = [
        entry_of(one, transaction_id=None),
        entry_of(one, transaction_id="gone"),
        entry_of(two, state="reserved"),
        entry_of(three, amount="11.00", currency="USD", state="reserved", refunded=0),
        entry_of(three, transaction_id="a,b"),
    ]
    sandbox.faults.add("query", DropReply(times=1))
    result = await reconcile(gateway, ledger, states=STATES)
    assert result.summary.retries == 1
    several, absent, state, amount, *_, unanswered = result.differences
    assert several.gateway == (one.transaction_id, two.transaction_id)
    assert str(several).endswith(f"gateway {one.transaction_id}, {two.transaction_id}")
    assert (absent.ledger, absent.gateway) == ("gone", None)
    assert (state.ledger, state.gateway) == ("reserved", "3000")
    kinds = ["amount", "currency", "state", "refund_unknown_to_ledger"]
    assert found(result)[3:] == [*((3, kind) for kind in kinds), (4, "unanswered")]
    assert (result.summary.differing, result.summary.unanswered) == (4, 1)
    shown = str(result.summary)
    assert ("\nstate: 2\n" in shown, "unreadable" in shown) == (True, False)
    assert (amount.ledger, amount.gateway) == (Decimal("11.00"), Decimal("10.00"))
    assert [record.transaction_id for record in amount.records] == [three.transaction_id] * 2
    text = f"[3] transaction_id {three.transaction_id}: amount: ledger 11.00, gateway 10.00"
    assert str(amount) == text
    assert "a,b" in str(unanswered.error)
    copied = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    assert copied.summary == result.summary
    assert list(map(str, copied)) == list(map(str, result))
    assert copied.differences[:-1] == result.differences[:-1]


# What the records of one entry hold

_ABSENT, _UNKNOWN = ("absent_at_gateway", None), ("refund_unknown_to_ledger", Decimal("1.00"))
_ALIKE = {"order_no": " N000001 ", "currency": "eur ", "payment_status": " 3000", "amount": "10"}
OF_TRANSACTIONS: list[tuple[dict[str, Any] | None, list[tuple[str, Any]]]] = [
    (_ALIKE, []),
    (
        {"amount": "ten", "transaction_date": "soon"},
        [("amount", "ten"), ("transaction_date", "soon")],
    ),
    ({"currency": "", "order_no": " "}, [("order_no", ""), ("currency", "")]),
    ({"payment_status": "4900"}, [("payment_status", "4900")]),
    ({"payment_status": None}, [("payment_status", "")]),
    (None, [_ABSENT]),
    ({"query_result": "0"}, [_ABSENT]),  # a record that says that there is none
]
_R, _NONE = {"refund_reference_id": "R"}, {"refund_reference_id": ""}
_OTHER, _FAILED = {"order_no": "N000002"}, {"refund_status": "9"}
_SLOPPY = {"currency": " eur ", "refund_status": " 1 ", "order_no": " N000001"}
OF_REFUNDS: list[tuple[list[dict[str, Any]], str, list[tuple[str, Any]]]] = [
    ([_SLOPPY, {}], "2.00", []),
    ([{}], "2.00", [("refunded_total", Decimal("1.00"))]),
    ([{"refund_amount": None}], "1.00", [("refund_amount", "")]),
    ([{"refund_status": "7"}], "0", [("refund_status", "7")]),
    ([{**_FAILED, "refund_amount": "one"}], "0", [("refund_amount", "one")]),
    ([_FAILED], "1.00", [("refund_absent_at_gateway", Decimal(0))]),
    ([{**_FAILED, "currency": None, "refund_amount": None, **_OTHER}, {}], "1.00", []),
    ([{**_FAILED, "currency": "USD"}, {}], "1.00", []),
    ([{"refund_date": "soon"}], "0", [("refund_date", "soon"), _UNKNOWN]),
    ([{"currency": "USD"}], "2.00", [("currency", "USD")]),
    ([{"currency": " "}], "1.00", [("currency", "")]),
    ([_R, _R, _NONE, _NONE], "3.00", []),
    ([_R, {**_R, "refund_amount": "2.00"}], "1.00", [("refund_reference_id", "R")]),
]


@pytest.mark.parametrize(
    ("transaction", "refunds", "refunded", "expected"),
    [
        *((changes, [], "0", expected) for changes, expected in OF_TRANSACTIONS),
        *(({}, *row) for row in OF_REFUNDS),
        (None, [{}], "0", [_ABSENT, _UNKNOWN]),
        (None, [], "1.00", [_ABSENT]),
    ],
)
async def test_fields_of_records(
    transaction: Any, refunds: list[Any], refunded: str, expected: list[Any]
) -> None:
    books = Books({"T000001": transaction}, {"T000001": refunds})
    ledger = [entry(1, refunded=refunded, state="paid")]
    client = client_over(MemoryTransport(books), dialect=Dialect(absent_query_results={"0"}))
    result = await reconcile(client, ledger, states=STATES, refund_statuses=STATUSES)
    assert [(d.field or d.kind, d.gateway) for d in result] == expected
    assert [d.ledger is None for d in result] == [d.field is not None for d in result]
    assert result.summary.differing == bool(expected)


async def test_without_a_meaning_no_state_is_compared() -> None:
    assert (await begin([entry(1, state="xyz")], Books())).summary.ok


async def test_a_summary_counts_both_sides_by_currency() -> None:
    books = Books({"T000002": {"amount": "9.00"}}, {"T000002": [{}]})
    result = await begin([entry(1, refunded=0), entry(2, currency="USD")], books)
    assert str(result.summary) == "\n".join(
        [
            "2 entries: 1 matched, 1 differing, 0 unanswered",
            *("amount: 1", "currency: 1", "refund_unknown_to_ledger: 1"),
            "EUR ledger: 1 payment, 10.00 in all, refunded 0",
            "EUR gateway: 2 payments, 19.00 in all, refunded 1.00",
            "USD ledger: 1 payment, 10.00 in all, refunded 0",
            "USD gateway: 0 payments, 0 in all, refunded 0",
        ]
    )
    for left in (Summary(differing=1, exhausted=True), Summary(unexpected=2, exhausted=True)):
        assert not left.ok
        shown = ("1 entry: " in str(left), "not asked for: 2" in str(left))
        assert shown == (left.differing == 1, left.unexpected == 2)


@pytest.mark.parametrize(
    ("name", "status", "found"),
    [("T000002", "1", [("transaction_id", "T000002")]), ("T000002", "9", []), (None, "1", [])],
)
async def test_a_refund_of_another_transaction_is_not_added(
    name: str | None, status: str, found: list[Any]
) -> None:
    """Looked up by order_no, nothing but the record says to which payment a refund belongs."""
    own = {"order_no": "N000001", "currency": "EUR"}
    payment = {"transaction_id": "T000001", "amount": "10.00", "query_result": "1", **own}
    refund = {"transaction_id": name, "refund_amount": "1.00", "refund_status": status, **own}
    listed: dict[str, list[Any]] = {"query": [payment], "search_refunds": [refund]}

    def answer(asked: Asked) -> dict[str, Any]:
        return reply_to(asked.operation.name, listed[asked.operation.name])

    given_back = Decimal(name is None)
    ledger = [entry(1, transaction_id=None, refunded=given_back)]
    result = await begin(ledger, answer, refund_statuses=STATUSES)
    assert [(d.field, d.gateway) for d in result] == found
    assert result.summary.currencies["EUR"].gateway_refunded == given_back


async def test_refunds_in_doubt_are_not_in_the_totals() -> None:
    doubtful: list[dict[str, Any]] = [_R, {**_R, "refund_amount": "2.00"}, {"refund_status": "7"}]
    refunds = [*doubtful, {"refund_amount": "4.00"}]
    result = await begin([entry(1, refunded="4.00")], Books(refunds={"T000001": refunds}))
    assert len(result.differences) == 2
    totals = result.summary.currencies["EUR"]
    assert (totals.gateway_count, totals.gateway_refunded) == (1, Decimal("4.00"))


_TWICE = "unreadable: ledger nothing, gateway T000001 (transaction_id)"
_NAMELESS = "several_transactions: ledger nothing, gateway nothing, nothing"


@pytest.mark.parametrize(
    ("name", "amount", "said"),
    [("T000001", "10.0", []), ("T000001", "11.00", [_TWICE]), (None, "11.00", [_NAMELESS])],
)
async def test_a_transaction_that_is_listed_twice(name: Any, amount: str, said: list[str]) -> None:
    def twice(asked: Asked) -> dict[str, Any]:
        item = {"transaction_id": name, "order_no": "N000001", "currency": "EUR"}
        items = [{**item, "query_result": "1", "amount": one} for one in ("10.00", amount)]
        return reply_to(asked.operation.name, items if asked.operation.name == "query" else [])

    result = await begin([entry(1, transaction_id=name)], twice)
    assert [difference.text.split(": ", 1)[1] for difference in result] == said


def test_what_a_gateway_says_is_one_line_and_moves_no_cursor() -> None:
    one = entry(1)
    said = Difference(kind=Kind.UNREADABLE, index=3, entry=one, field="x", gateway="\x1b[2J\n1 é")
    text = r"[3] transaction_id T000001: unreadable: ledger nothing, gateway '\x1b[2J\n1 é' (x)"
    assert str(said) == text
