"""What cannot be read, or whose meaning nobody gave, is not called equal."""

from decimal import Decimal
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    ConfigurationError,
    Dialect,
    GatewayClient,
    InvalidOrderError,
    OutcomeUnknownError,
    RetryPolicy,
)
from gateway_async.reconciliation import reconcile
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import (
    DoubledItems,
    DropReply,
    ExtraItems,
    IgnoreSelection,
    UnknownItemStatus,
)
from gateway_async.transport import HttpResponse
from tests.memory import MemoryTransport, client_over
from tests.orders import client_of, reply_to
from tests.reconciliation.books import Books, entry
from tests.reconciliation.planting import STATES, entry_of, found, pay


async def _fields(books: Books, *, refunded: Any = 0, **settings: Any) -> list[tuple[str, Any]]:
    """Reconcile one entry; return field or kind, and the gateway's value."""
    ledger = [entry(1, refunded=refunded, state="paid")]
    result = await reconcile(client_over(MemoryTransport(books)), ledger, **settings)
    assert result.summary.differing == (1 if result else 0)
    return [(d.field or d.kind, d.gateway) for d in result]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"amount": "ten"}, [("amount", "ten")]),
        ({"amount": None}, [("amount", "")]),
        ({"amount": "1e-300"}, [("amount", "1E-300")]),
        ({"currency": ""}, [("currency", "")]),
        ({"order_no": None}, [("order_no", "")]),
        ({"order_no": " "}, [("order_no", "")]),
        ({"order_no": " N000001 ", "currency": "EUR ", "payment_status": " 3000"}, []),
        ({"transaction_date": "soon"}, [("transaction_date", "soon")]),
        ({"payment_status": "4900"}, [("payment_status", "4900")]),
        ({"payment_status": None}, [("payment_status", "")]),
        (
            {"transaction_date": "soon", "amount": "9.00"},
            [("amount", Decimal("9.00")), ("transaction_date", "soon")],
        ),
    ],
)
async def test_fields_of_a_transaction(changes: dict[str, Any], expected: object) -> None:
    assert await _fields(Books({"T000001": changes}), states=STATES) == expected


@pytest.mark.parametrize(
    ("refunds", "refunded", "expected"),
    [
        ([{}], "1.00", []),
        ([{}, {}], "2.00", []),
        ([{"refund_amount": "one"}], 0, [("refund_amount", "one")]),
        ([{"refund_amount": None}], "1.00", [("refund_amount", "")]),
        ([{"refund_status": "7"}], 0, [("refund_status", "7")]),
        ([{"refund_status": None}], "1.00", [("refund_status", "")]),
        ([{"refund_status": "9"}], 0, []),
        ([{"refund_status": "9"}, {}], "1.00", []),
        ([{"refund_status": "9", "refund_amount": "one"}], 0, [("refund_amount", "one")]),
        ([{"refund_status": "9"}], "1.00", [("refund_absent_at_gateway", Decimal(0))]),
        (
            [{"refund_date": "soon"}, {}],
            "1.00",
            [("refund_date", "soon"), ("refunded_total", Decimal("2.00"))],
        ),
        ([{"currency": "USD"}], "1.00", [("currency", "USD")]),
        ([{"currency": None}], "1.00", [("currency", "")]),
        ([{"currency": " "}], "1.00", [("currency", "")]),
        ([{"currency": None, "refund_status": "9"}], 0, []),
        ([{"currency": " eur ", "refund_status": " 1 ", "order_no": " N000001"}], "1.00", []),
        ([{"order_no": "N000002"}], "1.00", [("order_no", "N000002")]),
        ([{"order_no": "N000002", "refund_status": "9"}], 0, []),
        ([{"refund_reference_id": "R"}, {"refund_reference_id": "R"}], "1.00", []),
        ([{"refund_reference_id": ""}, {"refund_reference_id": ""}], "2.00", []),
        (
            [
                {"refund_reference_id": "R"},
                {"refund_reference_id": "R", "refund_amount": "2.00"},
            ],
            "1.00",
            [("refund_reference_id", "R")],
        ),
    ],
)
async def test_fields_of_refunds(
    refunds: list[dict[str, Any]], refunded: object, expected: object
) -> None:
    statuses = {"1": True, "9": False}
    books = Books(refunds={"T000001": refunds})
    assert await _fields(books, refunded=refunded, refund_statuses=statuses) == expected


async def test_a_refund_of_another_transaction_is_not_added() -> None:
    """Looked up by order_no, nothing but the record says to which payment a refund belongs."""
    own = {"order_no": "N000001", "currency": "EUR"}
    payment = {"transaction_id": "T000001", "amount": "10.00", "query_result": "1", **own}
    refund = {"transaction_id": "T000002", "refund_amount": "1.00", "refund_status": "1", **own}
    listed: dict[str, list[Any]] = {"query": [payment], "search_refunds": [refund]}
    gateway = client_over(
        MemoryTransport(lambda asked: reply_to(asked.operation.name, listed[asked.operation.name]))
    )
    ledger = [entry(1, transaction_id=None, refunded="1.00")]
    [difference] = result = await reconcile(gateway, ledger)
    assert difference.kind == "unreadable"
    assert (difference.field, difference.gateway) == ("transaction_id", "T000002")
    assert result.summary.currencies["EUR"].gateway_refunded == 0


async def test_refunds_in_doubt_are_not_in_the_totals() -> None:
    contradicted = [{"refund_reference_id": "R", "refund_amount": f"{n}.00"} for n in (1, 2)]
    others: list[dict[str, Any]] = [
        {"currency": None},
        {"order_no": "N9"},
        {"refund_amount": "4.00"},
    ]
    gateway = client_over(MemoryTransport(Books(refunds={"T000001": [*contradicted, *others]})))
    result = await reconcile(gateway, [entry(1, refunded="4.00")])
    assert len(result) == 3
    assert result.summary.currencies["EUR"].gateway_refunded == Decimal("4.00")


async def test_refunds_of_an_absent_transaction_are_compared() -> None:
    books = Books({"T000001": None}, {"T000001": [{}]})
    assert await _fields(books, refunded="1.00") == [("absent_at_gateway", None)]
    assert await _fields(books) == [
        ("absent_at_gateway", None),
        ("refund_unknown_to_ledger", Decimal("1.00")),
    ]


async def test_a_record_that_says_no_such_order_is_none() -> None:
    books = Books({"T000001": {"query_result": "0"}})
    dialect = Dialect(absent_query_results={"0"})
    gateway = client_over(MemoryTransport(books), dialect=dialect)
    result = await reconcile(gateway, [entry(1), entry(2)])
    assert found(result) == [(0, "absent_at_gateway")]
    assert result.summary.currencies["EUR"].gateway_count == 1


async def test_a_refund_status_without_a_meaning_is_no_money(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    sandbox.faults.add("search_refunds", UnknownItemStatus("7", count=1, times=1))
    payment = pay(sandbox, "N1", refunds=["1.00", "2.00"])
    result = await reconcile(gateway, [entry_of(payment)])
    assert found(result) == [(0, "unreadable")]
    assert result.summary.currencies["EUR"].gateway_refunded == Decimal("2.00")


async def test_records_that_come_twice_count_once(sandbox: Sandbox, gateway: GatewayClient) -> None:
    sandbox.faults.add("*", DoubledItems(count=5))
    ledger = [entry_of(pay(sandbox, f"N{n}", refunds=["1.00"])) for n in range(5)]
    result = await reconcile(gateway, ledger)
    assert result.ok
    assert result.summary.currencies["EUR"].gateway_count == 5


async def test_a_transaction_listed_twice_and_differently(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    sandbox.faults.add("query", DoubledItems(status="2"))
    payment = pay(sandbox, "N1")
    [difference] = await reconcile(gateway, [entry_of(payment)])
    assert difference.kind == "unanswered"
    assert isinstance(difference.error, OutcomeUnknownError)

    def twice(asked: Any) -> Any:
        reply = Books()(asked)
        items = reply.get("orders_list", [])
        items += [{**item, "amount": "11.00"} for item in items]
        return reply

    [difference] = await reconcile(client_over(MemoryTransport(twice)), [entry(1)])
    assert difference.kind == "unreadable"
    assert (difference.field, difference.gateway) == ("transaction_id", "T000001")
    assert str(difference).endswith("gateway T000001 (transaction_id)")


@pytest.mark.parametrize("operation", ["query", "search_refunds"])
async def test_a_look_up_without_an_answer(operation: str) -> None:
    books = Books({"T000002": {"amount": "1.00"}})

    def handler(asked: Any) -> Any:
        lost = asked.operation.name == operation and "T000002" in asked.transactions
        return HttpResponse(302, {}, b"") if lost else books(asked)

    gateway = client_over(MemoryTransport(handler), retry=RetryPolicy(first_pause_seconds=0))
    policy = BatchPolicy(chunk_size=1)
    result = await reconcile(gateway, [entry(n) for n in range(5)], policy=policy)
    assert found(result) == [(2, "unanswered")]
    assert "302" in str(result[0])
    assert (result.summary.matched, result.summary.unanswered) == (4, 1)
    totals = result.summary.currencies["EUR"]
    assert (totals.ledger_count, totals.gateway_count) == (5, 4)


async def test_a_gateway_that_ignores_what_is_asked(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    ledger = [entry_of(pay(sandbox, "N1")), entry_of(pay(sandbox, "N2"))]
    pay(sandbox, "N3")
    sandbox.faults.add("query", IgnoreSelection())
    result = await reconcile(gateway, [*ledger, entry_of(pay(sandbox, "N4"), transaction_id="x")])
    assert found(result) == [(2, "unanswered")]
    assert result.summary.unexpected == 2
    sandbox.faults.clear()
    sandbox.faults.add("query", ExtraItems(count=3))
    result = await reconcile(gateway, ledger)
    assert (len(result), result.ok, result.summary.unexpected) == (0, False, 3)
    assert "records that were not asked for: 3" in str(result.summary)


async def test_a_gateway_that_is_gone_is_not_asked_for_ever(sandbox: Sandbox) -> None:
    ledger = [entry_of(pay(sandbox, f"N{n}")) for n in range(30)]
    sandbox.faults.add("query", IgnoreSelection(times=1))
    transport = MemoryTransport(lambda _: HttpResponse(302, {}, b""))
    gateway = client_over(transport, retry=RetryPolicy(attempts=1))
    result = await reconcile(gateway, iter(ledger), window=5)
    assert (result.summary.unanswered, result.summary.exhausted) == (30, True)
    assert len(transport.asked) == 6  # three windows, each asked for payments and refunds
    assert "3 requests in a row had no answer" in str(result[-1])


async def test_one_answer_that_is_lost_does_not_end_the_run(sandbox: Sandbox) -> None:
    ledger = [entry_of(pay(sandbox, f"N{n}")) for n in range(30)]
    sandbox.faults.add("query", DropReply(times=1))
    async with client_of(sandbox, retry=RetryPolicy(attempts=1)) as gateway:
        result = await reconcile(gateway, ledger, window=1)
    assert (result.summary.unanswered, result.summary.matched) == (1, 29)


async def test_a_reference_that_cannot_be_asked_for(sandbox: Sandbox) -> None:
    ledger = [entry_of(pay(sandbox, "N1")), entry_of(pay(sandbox, "N2"), transaction_id="a,b")]
    async with client_of(sandbox) as gateway:
        result = await reconcile(gateway, ledger)
        assert found(result) == [(1, "unanswered")]
        assert result[0].kind == "unanswered"
        assert isinstance(result[0].error, InvalidOrderError)
        assert (await reconcile(gateway, ledger[1:] * 3, window=1)).summary.unanswered == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"states": ["3000"]},
        {"states": {"3000": 1}},
        {"states": {3000: "paid"}},
        {"refund_statuses": {"1": "yes"}},
        {"refund_statuses": ["1"]},
        {"window": 0},
        {"window": True},
        {"policy": 8},
    ],
)
async def test_wrong_settings(settings: dict[str, Any]) -> None:
    gateway = client_over(MemoryTransport(Books()))
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        reconcile(gateway, [], **settings)
