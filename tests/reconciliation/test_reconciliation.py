"""Every entry is counted once and every difference is found, however a reconciliation ends."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from decimal import Decimal, localcontext
from typing import Any
from weakref import WeakSet

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import BatchPolicy, ConfigurationError, Dialect, GatewayClient, InvalidOrderError
from gateway_async.reconciliation import Difference, Kind, LedgerEntry, Summary, reconcile
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from gateway_async.transport import HttpResponse
from tests.reconciliation.books import STATES, Books, begin, entries, entry, entry_of, found, pay
from tests.support.clock import BEYOND, Clock
from tests.support.memory import Asked, client_over

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
_SOON = {"amount": "ten", "transaction_date": "soon"}
Records = list[dict[str, Any]]
Found = list[tuple[str, Any]]
OF_TRANSACTIONS: list[tuple[Records, Found]] = [
    ([_ALIKE], []),
    ([_SOON], [("amount", "ten"), ("transaction_date", "soon")]),
    ([{"currency": "", "order_no": " "}], [("order_no", ""), ("currency", "")]),
    ([{"payment_status": "4900"}], [("payment_status", "4900")]),
    ([{"payment_status": None}], [("payment_status", "")]),
    ([], [_ABSENT]),
    ([{"query_result": "0"}], [_ABSENT]),  # a record that says that there is none
    ([{}, {"amount": "10.0"}], []),
    ([{}, {"amount": "11.00"}], [("transaction_id", "T000001")]),
]
_R, _NONE = {"refund_reference_id": "R"}, {"refund_reference_id": ""}
_OTHER, _FAILED = {"order_no": "N000002"}, {"refund_status": "9"}
_SLOPPY = {"currency": " eur ", "refund_status": " 1 ", "order_no": " N000001"}
OF_REFUNDS: list[tuple[Records, str, Found]] = [
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
# Looked up by order_no, nothing but the record says to which payment a refund belongs.
_NAMELESS, _STRANGE = {"transaction_id": None}, {"transaction_id": "T000002"}
_SEVERAL = ("several_transactions", (None, None))
BY_ORDER_NO: list[tuple[Records, Records, str, Found]] = [
    ([_NAMELESS, {**_NAMELESS, "amount": "11.00"}], [], "0", [_SEVERAL]),
    ([{}], [_STRANGE], "0", [("transaction_id", "T000002")]),
    ([{}], [{**_STRANGE, **_FAILED}], "0", []),
    ([{}], [_NAMELESS], "1.00", []),
]


@pytest.mark.parametrize(
    ("given", "transactions", "refunds", "refunded", "expected"),
    [
        *(({}, transactions, [], "0", expected) for transactions, expected in OF_TRANSACTIONS),
        *(({}, [{}], *row) for row in OF_REFUNDS),
        ({}, [], [{}], "0", [_ABSENT, _UNKNOWN]),
        ({}, [], [], "1.00", [_ABSENT]),
        *((_NAMELESS, *row) for row in BY_ORDER_NO),
    ],
)
async def test_fields_of_records(
    given: Any, transactions: Any, refunds: Any, refunded: str, expected: list[Any]
) -> None:
    books = Books({"T000001": transactions}, {"T000001": refunds})
    ledger = [entry(1, refunded=refunded, state="paid", **given)]
    client = client_over(books, dialect=Dialect(absent_query_results={"0"}))
    result = await reconcile(client, ledger, states=STATES, refund_statuses=STATUSES)
    assert [(d.field or d.kind, d.gateway) for d in result] == expected
    named_by_ledger = {*Kind} - {Kind.UNREADABLE, Kind.SEVERAL_TRANSACTIONS}
    assert [d.ledger is not None for d in result] == [d.kind in named_by_ledger for d in result]
    assert result.summary.differing == bool(expected)


async def test_a_summary_counts_both_sides_by_currency() -> None:
    books = Books({"T000002": [{"amount": "9.00"}]}, {"T000002": [{}]})
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
    "doubtful", [[_R, {**_R, "refund_amount": "2.00"}, {"refund_status": "7"}], [_STRANGE]]
)
async def test_refunds_in_doubt_are_not_in_the_totals(doubtful: list[dict[str, Any]]) -> None:
    refunds = [*doubtful, {"refund_amount": "4.00"}]
    books = Books(refunds={"T000001": refunds})
    result = await begin([entry(1, transaction_id=None, refunded="4.00")], books)
    assert len(result.differences) == len(doubtful) - (_R in doubtful)
    totals = result.summary.currencies["EUR"]
    assert (totals.gateway_count, totals.gateway_refunded) == (1, Decimal("4.00"))


def test_what_a_gateway_says_is_one_line_and_moves_no_cursor() -> None:
    one = entry(1)
    said = Difference(kind=Kind.UNREADABLE, index=3, entry=one, field="x", gateway="\x1b[2J\n1 é")
    text = r"[3] transaction_id T000001: unreadable: ledger nothing, gateway '\x1b[2J\n1 é' (x)"
    assert str(said) == text


# However it ends, and whatever the books say

LOST = HttpResponse(302, {}, b"")
AMOUNTS = st.decimals(0, Decimal(10) ** 40, allow_nan=False, places=2)
CURRENCIES = st.sampled_from(["EUR", "eur", "USD", "JPY"])
ENTRIES = st.builds(
    lambda number, **fields: LedgerEntry(transaction_id=f"T{number:06d}", **fields),
    number=st.integers(0, 20),
    order_no=st.none() | st.just("N000001"),
    currency=CURRENCIES,
    amount=AMOUNTS,
    refunded=AMOUNTS,
    state=st.none() | st.sampled_from(["paid", "reserved"]),
)
_NAMES = st.integers(0, 20).map(lambda number: f"T{number:06d}")
_JUNK = st.none() | st.text(max_size=3) | st.floats() | st.lists(st.integers(), max_size=1)


def records(**fields: Any) -> Any:
    """Draw records of which any field is right, missing or junk."""
    return st.fixed_dictionaries({}, optional={n: right | _JUNK for n, right in fields.items()})


TRANSACTIONS = records(
    amount=AMOUNTS.map(str),
    currency=CURRENCIES,
    payment_status=st.sampled_from(["3000", "4100", "9"]),
    query_result=st.sampled_from(["1", "2"]),
    order_no=st.just("N000001"),
    transaction_date=st.just("20230516120000"),
)
REFUNDS = records(
    refund_amount=AMOUNTS.map(str),
    currency=CURRENCIES,
    refund_status=st.sampled_from(["1", "9"]),
    refund_reference_id=st.sampled_from(["", "R1", "R2"]),
)
BOOKS = st.builds(
    Books,
    transactions=st.dictionaries(_NAMES, st.lists(TRANSACTIONS, max_size=1), max_size=8),
    refunds=st.dictionaries(_NAMES, st.lists(REFUNDS, max_size=3), max_size=8),
)


ENDS = ("taken", "wrong", "raised", "left", "cancelled")
"""With the ledger, at what is no entry in it, at what it raises, at a difference, in a look-up."""
ERRORS = {"wrong": InvalidOrderError, "raised": LookupError}


@attrs.define(eq=False)
class _Ledger:
    """A ledger whose entries are made when they are taken; it notes how many were, and are kept."""

    entries: list[LedgerEntry]
    end: str
    taken: int = 0
    is_closed: bool = False
    alive: WeakSet[LedgerEntry] = attrs.field(factory=WeakSet)

    async def take(self) -> AsyncIterator[Any]:
        try:
            for one in self.entries:
                self.taken += 1
                self.alive.add(made := attrs.evolve(one))
                yield made
            if self.end == "wrong":
                yield {"amount": 1}
            if self.end == "raised":
                raise LookupError("the database is gone")
        finally:
            self.is_closed = True


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=20)
@given(
    entries=st.lists(ENTRIES, max_size=40),
    books=BOOKS,
    window=st.integers(1, 12),
    lost=st.sets(st.integers(0, 20)),
    last=st.integers(0, 6),
)
async def test_every_entry_that_was_taken_in_is_counted_once(
    *, end: str, streamed: bool, entries: Any, books: Books, window: int, lost: set[int], last: int
) -> None:
    ledger, told = _Ledger(entries, end), list[tuple[int, str]]()

    async def answer(asked: Asked) -> Any:
        if end == "cancelled" and books.requests == last:
            task.cancel()
            await asyncio.Event().wait()
        reply = books(asked)
        return LOST if books.requests in lost else reply

    async def stream() -> None:
        async with reconciliation:
            async for difference in reconciliation:
                told.extend(found([difference]))
                assert ledger.taken - difference.index <= window
                assert len(ledger.alive) <= window
                if end == "left":
                    break
            else:
                assert reconciliation.summary.exhausted

    meanings: Any = {"states": {"3000": "paid", "4100": "reserved"}, "refund_statuses": {"1": True}}
    policy = BatchPolicy(drain_seconds=0)
    reconciliation = begin(ledger.take(), answer, window=window, policy=policy, **meanings)
    task: asyncio.Task[Any] = asyncio.create_task(stream() if streamed else reconciliation)
    try:
        came = await task
    except (asyncio.CancelledError, InvalidOrderError, LookupError) as error:
        came = error
    summary, result = reconciliation.summary, reconciliation.result
    told += found(result)
    assert ("not taken to its end" in str(summary)) is not summary.exhausted
    if end in ERRORS:
        assert isinstance(came, ERRORS[end])
        assert end != "wrong" or f"ledger[{len(entries)}]" in str(came)
    if isinstance(came, asyncio.CancelledError):
        assert streamed or came.outcome is result  # type: ignore[attr-defined]
        assert "not compared: the call was cancelled" in str(result.differences[-1].error)
    elif end == "left":
        assert [difference async for difference in reconciliation] == []
    else:
        assert summary.entries == len(entries)
        assert summary.exhausted is (end not in ERRORS)
    assert (summary.entries, ledger.is_closed) == (ledger.taken, True)
    check_counts(summary, told, entries[: ledger.taken])
    assert asyncio.all_tasks() == {asyncio.current_task()}


def check_counts(summary: Summary, told: list[tuple[int, str]], taken: list[LedgerEntry]) -> None:
    """Check counts and sums by the entries that were taken in, and the differences of them."""
    unanswered = {index for index, kind in told if kind == "unanswered"}
    assert [index for index, _ in told] == sorted(index for index, _ in told)
    assert summary.matched == summary.entries - len({index for index, _ in told})
    assert summary.unanswered == summary.differences["unanswered"] == len(unanswered)
    assert sum(summary.differences.values()) == len(told)
    counted = sum(totals.gateway_count for totals in summary.currencies.values())
    assert counted <= summary.entries - len(unanswered)
    with localcontext(prec=500):
        for code, totals in summary.currencies.items():
            own = [one for one in taken if one.currency.upper() == code]
            assert totals.ledger_amount == sum(one.amount for one in own)
            assert totals.ledger_refunded == sum(one.refunded for one in own)


async def test_a_sequence_is_checked_whole() -> None:
    with pytest.raises(InvalidOrderError, match="both missing"):
        entry(1, transaction_id=None, order_no=None)
    with pytest.raises(InvalidOrderError, match="of LedgerEntry, got str"):
        begin("text", Books())
    wrong: list[tuple[str, Any]] = [
        ("states", {"3000": ["paid", 1]}),
        ("states", {3000: "paid"}),
        ("refund_statuses", {1: True}),
        ("BatchPolicy.chunk_size", BatchPolicy(chunk_size=101)),
    ]
    for name, value in wrong:
        option = {"policy" if "." in name else name: value}
        with pytest.raises(ConfigurationError, match=f"^{name}: "):
            begin([], Books(), **option)
    with pytest.raises(ConfigurationError, match=r"^gateway: expected GatewayClient"):
        reconcile(print, [])  # type: ignore[arg-type]  # on purpose
    books = Books()
    ledger: list[Any] = [*entries(3), {"amount": 1}, entry(4), None]
    with pytest.raises(InvalidOrderError, match=r"2 of 6 .*\n.*ledger\[3\]: .*got dict") as caught:
        await begin(ledger, books)
    assert list(caught.value.problems) == [3, 5]
    assert books.requests == 0


async def test_it_is_used_once_and_says_so() -> None:
    reconciliation = begin(entries(1), Books({"T000000": []}))
    with pytest.raises(RuntimeError, match="no result yet"):
        _ = reconciliation.result
    assert found(await reconciliation) == [(0, "absent_at_gateway")]
    for again in (reconciliation, reconciliation.__aenter__()):
        with pytest.raises(RuntimeError, match="used once"):
            await again
    reconciliation = begin(entries(1), Books())
    task: asyncio.Task[Any] = asyncio.create_task(reconciliation)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), reconciliation.summary.entries) == (True, 0)


async def test_after_the_deadline_nothing_more_is_asked_and_no_ledger_waited_for(
    clock: Clock,
) -> None:
    async def ledger() -> AsyncIterator[LedgerEntry]:
        for one in entries(3):
            yield one
        clock.advance()
        await asyncio.Event().wait()

    for entered, seconds, exhausted in ((entries(50), 1e-9, 50), (ledger(), BEYOND, 0)):
        books, policy = Books(), BatchPolicy(deadline_seconds=seconds)
        result = await begin(entered, books, policy=policy, window=20)
        assert books.requests == 0
        assert "deadline" in str(result.differences[0])
        assert result.summary.unanswered == result.summary.entries == (exhausted or 3)
        assert result.summary.exhausted is bool(exhausted)
    books, policy = Books(), BatchPolicy(deadline_seconds=10, chunk_size=1, concurrency=1)

    def answer(asked: Asked) -> Any:
        assert asked.seconds > policy.drain_seconds  # it gets these beyond the deadline
        clock.advance(4)
        return books(asked)

    await begin(entries(2), answer, policy=policy)
    assert books.requests == 3  # two of one kind, and one of the other


@pytest.mark.parametrize(("lost", "unanswered", "asked"), [({0, 1, 2}, 30, 6), ({0, 2, 4}, 15, 12)])
async def test_a_lost_gateway_is_not_asked_on(lost: set[int], unanswered: int, asked: int) -> None:
    """After three requests of one kind in a row nothing more is asked, and not before."""
    requests: list[Asked] = []

    def answer(request: Asked) -> Any:
        window = len(requests) // 2
        requests.append(request)
        return LOST if window in lost else Books()(request)

    result = await begin(entries(30), answer, window=5)
    summary = result.summary
    assert (len(requests), summary.requests, summary.unanswered) == (asked, asked, unanswered)
    gave_up = "3 requests in a row had no answer" in str(result.differences[-1])
    assert gave_up == (unanswered == 30)


async def test_what_cannot_be_asked_for_is_no_lost_gateway_and_a_request_has_up_to_99() -> None:
    books = Books()
    ledger = [*(entry(1, transaction_id="a,b") for _ in range(4)), entry(1)]
    assert (await begin(ledger, books, window=1)).summary.matched == 1
    books.requests = 0
    assert (await begin(entries(100), books)).summary.ok
    assert books.requests == 4
