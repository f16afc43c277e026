"""What the refunds that a gateway lists prove of one whose reply was lost, row by row."""

import asyncio
import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import attrs
import pytest

from gateway_async import (
    AlikeRefundError,
    BatchPolicy,
    Dialect,
    InvalidOrderError,
    NotDoneError,
    NotSentError,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
    RefundOrder,
    RetryPolicy,
)
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, statuses
from tests.support.collaborators import Limiter
from tests.support.memory import (
    Asked,
    HttpResponse,
    MemoryTransport,
    client_over,
    listing,
    refund_done,
    settle_down,
)
from tests.support.orders import (
    AGAIN,
    MARKER,
    REFERENCES,
    as_sent,
    made_up,
    orders_for,
    payout_request,
    refunds,
    reply_to,
)

LOST = b"no reply"
OTHERS = "[ga-0123456789ab-0000000077]"
ORDER = RefundOrder(
    transaction_id="T1", order_no="O1", currency="EUR", amount=10, refund_amount="2.50"
)
CONTROL = attrs.evolve(ORDER, transaction_id="T0", order_no="O0")
"""Its refund succeeds before all others: a look-up that does not list it proves no absence."""
DECLINES, WAITS = Dialect(declined_statuses={"0"}), Dialect(pending_statuses={"2"})
ONE_BY_ONE = BatchPolicy(chunk_size=1, concurrency=1, duplicates="serialize")
Listed = list[dict[str, Any]]


def listed(number: int, **changes: Any) -> dict[str, Any]:
    """Return a record of a refund of `ORDER`; its marker stands for `OWN` in its reason."""
    record = {
        "transaction_id": "T1",
        "currency": "eur",
        "refund_amount": "2.5",
        "refund_status": "1",
        "refund_reference_id": f"T1-{number:02}",
    }
    return {**record, **changes}


def _last_for_ever(searches: list[Listed]) -> Iterator[Listed]:
    return itertools.chain(searches, itertools.repeat(searches[-1]))


def _then_none(replies: Sequence[str | None]) -> Iterator[str | None]:
    return itertools.chain(replies, itertools.repeat(None))


@attrs.frozen
class Books:
    """A gateway whose lists are given: what each search for `T1` finds, the last one for ever."""

    searches: Iterator[Listed] = attrs.field(converter=_last_for_ever)
    # what it answers to each refund of `T1`: nothing, or its reference
    replies: Iterator[str | None] = attrs.field(default=(), converter=_then_none)
    sees_control: bool = True  # whether its searches list the refund that surely exists, or another
    keeps_markers: bool = True  # whether it lists that one with its marker
    control: str = "T0-01"  # the reference of that one
    most: int = 100  # records that it lists, in the order in which they were asked for
    _reasons: dict[str, str] = attrs.field(factory=dict, init=False)

    def __call__(self, asked: Asked) -> Any:
        if asked.operation.name == "search_refunds":
            return self._search(asked.transactions)
        (item,) = asked.done()["refund_orders"]
        self._reasons[item["transaction_id"]] = item.get("refund_reason", "")
        if item["transaction_id"] == "T0":
            reference: str | None = self.control
        elif (reference := next(self.replies)) is None:
            return LOST
        return reply_to("refund", [{**item, "refund_reference_id": reference}])

    def _search(self, names: list[str]) -> dict[str, Any]:
        found: Listed = []
        if "T0" in names and "T0" in self._reasons:
            reason = self._reasons["T0"] if self.keeps_markers and self.sees_control else ""
            reference = self.control if self.sees_control else "T0-00"
            own = {"transaction_id": "T0", "refund_reason": reason}
            found.append(listed(0, **own, refund_reference_id=reference))
        if "T1" in names:
            own_reason = self._reasons.get("T1", "")
            for one in next(self.searches):
                if "refund_reason" in one:
                    own = one["refund_reason"].replace("OWN", own_reason)
                    one = {**one, "refund_reason": own}  # noqa: PLW2901  # as it is listed
                found.append(one)
        found.sort(key=lambda one: names.index(one["transaction_id"]))
        return reply_to("search_refunds", found[: self.most])


async def recovered(
    books: Books,
    recovery: RecoveryPolicy = AGAIN,
    orders: Sequence[RefundOrder] = (ORDER,),
    dialect: Dialect = DECLINES,
) -> list[OutcomeStatus]:
    """Refund, lose the reply to the last, recover, and return what became of `T1`."""
    policy = attrs.evolve(ONE_BY_ONE, duplicates="allow", stop_after_unknown=9)
    settings: dict[str, Any] = {"policy": policy, "recovery": recovery, "dialect": dialect}
    gateway = client_over(books, **settings)
    result = await gateway.refund([CONTROL, *orders])
    after = await gateway.recover(result)
    assert (result[0].status, result[-1].status, after[0].status) == (SUCCEEDED, UNKNOWN, SUCCEEDED)
    assert all((one.error is None) is (one.status is SUCCEEDED) for one in after)
    return statuses(after)[1:]


BLANK, FULL = {"refund_reference_id": "  "}, [listed(number) for number in range(100)]
LONG_AGO, NOW = "20200101000000", datetime.now(UTC)
BY_REFERENCE: dict[str, tuple[Listed, Listed, OutcomeStatus]] = {
    "a new refund of this amount": ([], [listed(1)], SUCCEEDED),
    "a new refund without a currency": ([], [listed(1, currency=None)], SUCCEEDED),
    "no refund at all": ([], [], NOT_SENT),
    "a refund of another amount": ([], [listed(1, refund_amount="2.49")], UNKNOWN),
    "a refund in another currency": ([], [listed(1, currency="USD")], UNKNOWN),
    "a refund with another's marker": ([], [listed(1, refund_reason=f"{OTHERS} torn")], NOT_SENT),
    "a refund whose amount is unreadable": ([], [listed(1, refund_amount="?")], UNKNOWN),
    "a refund that is not done": ([], [listed(1, refund_status="2")], UNKNOWN),
    "a refund without a reference": ([], [listed(1, refund_reference_id="")], UNKNOWN),
    "a refund that was there before": ([listed(1)], [listed(1)], NOT_SENT),
    "one before, and a new one": ([listed(1)], [listed(1), listed(2)], SUCCEEDED),
    "blanks for a reference": ([], [listed(1, **BLANK)], UNKNOWN),
    "blanks, and before as well": ([listed(1, **BLANK)], [listed(1, **BLANK)], UNKNOWN),
    "a full list before, which may lack some": (FULL, [listed(100)], UNKNOWN),
    "a new refund in a full list": (FULL[1:], FULL, SUCCEEDED),
    "before, and now with blanks around": (
        [listed(1)],
        [listed(1, refund_reference_id="T1-01  ")],
        NOT_SENT,
    ),
    "so many before that the list may be cut": (
        [listed(number) for number in range(9)],
        [listed(number) for number in range(9)],
        UNKNOWN,
    ),
    "before, and another of the same reference": ([listed(1)], [listed(1), listed(1)], UNKNOWN),
    # A gateway that cuts a list short, and does not say so, hid it before.
    "one of an earlier year, not listed before": ([], [listed(1, refund_date=LONG_AGO)], UNKNOWN),
    "one of that year, and a new one": (
        [],
        [listed(1, refund_date=LONG_AGO), listed(2, refund_date=f"{NOW:%Y%m%d%H%M%S}")],
        SUCCEEDED,
    ),
}


@pytest.mark.parametrize("sees_control", [True, False])
@pytest.mark.parametrize("name", BY_REFERENCE)
async def test_by_reference(name: str, sees_control: bool) -> None:
    before, after, expected = BY_REFERENCE[name]
    if not sees_control and expected is NOT_SENT:  # a look-up that may be blind proves no absence
        expected = UNKNOWN
    assert await recovered(Books([before, after], sees_control=sees_control)) == [expected]


@pytest.mark.parametrize(("hours", "expected"), [(23, SUCCEEDED), (25, UNKNOWN)])
@pytest.mark.parametrize("ahead", [0, 8, -8])
@pytest.mark.usefixtures("in_new_york")
async def test_a_refund_that_is_dated_long_before_the_batch_proves_nothing(
    hours: int, expected: OutcomeStatus, ahead: int
) -> None:
    date = datetime.now(UTC) + timedelta(hours=ahead - hours)
    shown = [listed(1, refund_date=f"{date:%Y%m%d%H%M%S}")]
    dialect = Dialect(utc_offset_hours=ahead)
    assert await recovered(Books([[], shown]), dialect=dialect) == [expected]


async def test_an_outcome_that_an_earlier_release_pickled_has_no_time_and_is_recovered() -> None:
    gateway = client_over(Books([[], [listed(1, refund_date=LONG_AGO)]]), recovery=AGAIN)
    result = await gateway.refund([CONTROL, ORDER], policy=ONE_BY_ONE)
    for outcome in result:
        object.__delattr__(outcome.sending, "began_at")
    assert statuses(await gateway.recover(result)) == [SUCCEEDED] * 2


async def test_without_a_refund_that_is_known_to_exist_no_absence_is_proved() -> None:
    gateway = client_over(Books([[]]), recovery=AGAIN)

    (outcome,) = await gateway.recover(await gateway.refund([ORDER]))

    assert outcome.status is UNKNOWN
    assert "recover it together with one that succeeded" in str(outcome.error)


async def test_a_refusal_that_recovery_settles_keeps_what_the_gateway_said() -> None:
    """Without any setting: a status that the dialect does not name is unknown at first."""
    books = Books([[]])

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "refund" and asked.transactions == ["T1"]:
            return refund_done(asked, refund_status="0", refund_message="2001:no funds")
        return books(asked)

    gateway = client_over(answer, policy=ONE_BY_ONE, recovery=AGAIN)
    result = await gateway.refund([CONTROL, ORDER])
    settled = (await gateway.recover(result))[1]

    assert statuses(result) == [SUCCEEDED, UNKNOWN]
    assert isinstance(settled.error, NotDoneError)
    assert (settled.error.code, settled.error.text) == ("2001", "no funds")
    assert "2001: no funds" in str(settled.error)
    assert settled.reply is result[1].reply


UNDECIDED = {"refund_status": "2", "refund_reference_id": ""}
PENDING: list[dict[str, Any] | HttpResponse] = [
    {},
    {"transaction_id": "its own"},
    {"transaction_id": "T1", "order_no": "O1", "refund_amount": "0.00"},
    HttpResponse(202, {}, b""),
]


@pytest.mark.parametrize("said", PENDING, ids=range(len(PENDING)))
@pytest.mark.parametrize("sent", [AGAIN, MARKER])
async def test_a_refund_that_the_gateway_has_not_decided_on_is_not_proved_absent(
    sent: RecoveryPolicy, said: dict[str, Any] | HttpResponse
) -> None:
    """It answered so, by a status of `Dialect.pending_statuses`: it may list the refund later."""
    books, asked_for = Books([[], [], [], [], [listed(1, refund_reason="OWN")]]), list[str]()

    def answer(asked: Asked) -> Any:
        reply = books(asked)
        if asked.operation.name == "refund":
            asked_for.extend(asked.transactions)
            if asked.transactions == ["T1"]:
                if isinstance(said, HttpResponse):
                    return said
                return refund_done(asked, **{**UNDECIDED, **said})
        return reply

    recovery = attrs.evolve(sent, resend_absent=True)
    gateway = client_over(answer, policy=ONE_BY_ONE, recovery=recovery, dialect=WAITS)
    result = await gateway.refund([CONTROL, ORDER])
    waiting = await gateway.recover(result)
    assert statuses(waiting) == [SUCCEEDED, UNKNOWN]
    assert "may still do it" in str(waiting[1].error)
    while waiting.unknown:
        waiting = await gateway.recover(waiting)
    assert statuses(waiting) == [SUCCEEDED] * 2
    assert asked_for == ["T0", "T1"]


async def test_the_words_of_an_earlier_release_say_that_an_order_is_pending() -> None:
    policy = attrs.evolve(ONE_BY_ONE, duplicates="reject")
    gateway = client_over(Books([[]]), policy=policy, recovery=AGAIN)
    first, second = await gateway.refund([CONTROL, ORDER])
    error = OutcomeUnknownError("decided: later; before: the gateway is not done: refund_status 2")
    assert statuses(await gateway.recover([first, second])) == [SUCCEEDED, NOT_SENT]
    earlier = attrs.evolve(second, error=error)
    assert statuses(await gateway.recover([first, earlier])) == [SUCCEEDED, UNKNOWN]


async def test_a_refund_that_is_listed_is_the_lost_one_before_one_that_is_not_decided_on() -> None:
    """They are alike. The other way round, the lost one would be absent, and be sent again."""
    books = Books([[], [], [listed(1)]], replies=["2", None])

    def answer(asked: Asked) -> Any:
        reply = books(asked)
        is_undecided = asked.operation.name == "refund" and reply is not LOST
        if is_undecided and asked.transactions == ["T1"]:
            return refund_done(asked, **UNDECIDED)
        return reply

    policy = attrs.evolve(ONE_BY_ONE, duplicates="allow")
    dialect = Dialect(pending_statuses={"2"})
    gateway = client_over(answer, policy=policy, recovery=AGAIN, dialect=dialect)
    result = await gateway.refund([CONTROL, ORDER, ORDER])
    assert statuses(result) == [SUCCEEDED, UNKNOWN, UNKNOWN]
    assert statuses(await gateway.recover(result)) == [SUCCEEDED, UNKNOWN, SUCCEEDED]


@pytest.mark.parametrize("error", [asyncio.CancelledError, LookupError])
async def test_a_recovery_that_is_cut_off_keeps_what_came_of_a_resend(
    error: type[BaseException],
) -> None:
    """The gateway may still do it, so the next recovery sends nothing."""
    books, asked_for = Books([[]]), list[str]()

    def answer(asked: Asked) -> Any:
        reply = books(asked)
        if asked.operation.name != "refund":
            return reply
        asked_for.extend(asked.transactions)
        if asked_for != ["T0", "T1", "T1"]:
            return reply
        if error is asyncio.CancelledError:
            task.cancel()
        return refund_done(asked, **UNDECIDED)

    def leave(_: int) -> None:
        if asked_for == ["T0", "T1", "T1"] and error is LookupError:
            raise error

    settings: dict[str, Any] = {"recovery": attrs.evolve(AGAIN, resend_absent=True)}
    settings |= {"policy": ONE_BY_ONE, "dialect": Dialect(pending_statuses={"2"})}
    gateway = client_over(answer, limiter=Limiter(leave=leave), **settings)
    result = await gateway.refund([CONTROL, ORDER])
    task = asyncio.ensure_future(gateway.recover(result))
    with pytest.raises(error) as raised:
        await task
    again = await client_over(answer, **settings).recover(raised.value.outcome)  # type: ignore[attr-defined]  # ours
    assert statuses(again) == [SUCCEEDED, UNKNOWN]
    assert asked_for == ["T0", "T1", "T1"]


async def test_what_cannot_be_written_to_be_sent_again_stays_unknown() -> None:
    books, again = Books([[]]), attrs.evolve(AGAIN, resend_absent=True)
    gateway = client_over(
        books, policy=ONE_BY_ONE, recovery=again, dialect=Dialect(amount_places=3)
    )
    result = await gateway.refund([CONTROL, attrs.evolve(ORDER, refund_amount="0.001")])
    with pytest.raises(InvalidOrderError, match="with 2 decimal places") as raised:
        await client_over(books, recovery=again).recover(result)
    assert statuses(raised.value.outcome) == [SUCCEEDED, UNKNOWN]  # type: ignore[attr-defined]  # ours


DECLINED, ELSE, DONE = (listed(n, refund_status=f"{n}", refund_reason="OWN") for n in (0, 2, 1))
OWN_OTHER_AMOUNT = listed(1, refund_reason="OWN", refund_amount="9")
BLIND, DROPS_MARKERS = {"sees_control": False}, {"keeps_markers": False}
NO_REFERENCES = {"control": ""}
BY_MARKER: list[tuple[Listed, dict[str, Any], OutcomeStatus]] = [
    ([listed(1, refund_reason="OWN torn")], DROPS_MARKERS, SUCCEEDED),
    ([ELSE], {}, UNKNOWN),
    ([OWN_OTHER_AMOUNT], {}, UNKNOWN),
    ([listed(1, refund_reason=OTHERS)], {}, NOT_SENT),
    ([listed(1)], {}, NOT_SENT),
    ([listed(1, refund_reason="torn")], DROPS_MARKERS, UNKNOWN),
    ([], BLIND, UNKNOWN),
    ([], NO_REFERENCES, NOT_SENT),
    ([], {**NO_REFERENCES, **BLIND}, UNKNOWN),
    ([], {**NO_REFERENCES, **DROPS_MARKERS}, UNKNOWN),
]
A_DECLINED_ONE_IS_NONE: list[tuple[Listed, OutcomeStatus]] = [
    *(([DECLINED], NOT_SENT), ([DECLINED, ELSE], UNKNOWN)),
    *(([DECLINED, DONE], SUCCEEDED), ([DONE, DECLINED], SUCCEEDED)),
]


OWN_REASON = attrs.evolve(ORDER, refund_reason=f"{OTHERS} torn")
ONE, OTHER = listed(1), listed(2)
ZERO, ZERO_AGAIN, ZERO_AND_BLANK = (
    listed(number, refund_reference_id=name) for number, name in ((1, "0"), (2, "0"), (2, "0 "))
)
TWO_EQUAL: list[tuple[list[str | None], list[Listed], list[OutcomeStatus]]] = [
    # One refund proves one of two; who had more before it chooses first.
    ([None, None], [[], [], [ONE]], [SUCCEEDED, NOT_SENT]),
    ([None, None], [[], [ONE], [OTHER, ONE]], [SUCCEEDED, SUCCEEDED]),
    ([None, None], [[], [], [ZERO, ZERO_AGAIN]], [SUCCEEDED, UNKNOWN]),
    ([None, None], [[], [], [ZERO, ZERO_AND_BLANK]], [SUCCEEDED, UNKNOWN]),
    # The other succeeded: with this reference, or with one that is not known.
    (["T1-01", None], [[], [], [ONE]], [SUCCEEDED, NOT_SENT]),
    (["", None], [[], [], [ONE]], [SUCCEEDED, UNKNOWN]),
    (["", None], [[], [], [ONE, OTHER]], [SUCCEEDED, SUCCEEDED]),
    (["", None], [[], [], [ONE, ONE]], [SUCCEEDED, UNKNOWN]),
    (["", None], [[], [], []], [SUCCEEDED, UNKNOWN]),
]
SMALL = attrs.evolve(ORDER, refund_amount="1.00")


@pytest.mark.parametrize(
    ("recovery", "orders", "books", "expected"),
    [
        *((MARKER, [ORDER], {"searches": [one], **how}, [end]) for one, how, end in BY_MARKER),
        *((MARKER, [ORDER], {"searches": [one]}, [end]) for one, end in A_DECLINED_ONE_IS_NONE),
        *((AGAIN, [ORDER], {"searches": [[], one]}, [end]) for one, end in A_DECLINED_ONE_IS_NONE),
        *(
            (AGAIN, [ORDER] * 2, {"replies": replies, "searches": searches}, ends)
            for replies, searches, ends in TWO_EQUAL
        ),
        (AGAIN, [SMALL, ORDER], {"replies": [""], "searches": [[]]}, [SUCCEEDED, NOT_SENT]),
        # A refund that succeeded without a reference and a marker is no control.
        (AGAIN, [ORDER], {"searches": [[]], "control": ""}, [UNKNOWN]),
        # A list that is cut short lacks the refund that is known to exist.
        (AGAIN, [ORDER], {"searches": [[], [ONE]], "most": 1}, [SUCCEEDED]),
        # A reason of the merchant's own that looks like a marker hides nothing.
        (AGAIN, [OWN_REASON], {"searches": [[], [listed(1, refund_reason="OWN")]]}, [SUCCEEDED]),
    ],
)
async def test_by_marker_where_some_are_declined_and_where_two_are_equal(
    recovery: RecoveryPolicy,
    orders: list[RefundOrder],
    books: dict[str, Any],
    expected: list[OutcomeStatus],
) -> None:
    assert await recovered(Books(**books), recovery, orders) == expected


async def test_a_refund_with_the_marker_of_one_proves_no_other_with_it_in_its_reason() -> None:
    books = Books([[], [listed(1, refund_reason="OWN")]])
    first = await client_over(books, recovery=MARKER).refund([CONTROL, ORDER], policy=ONE_BY_ONE)
    gateway = client_over(books, recovery=AGAIN)
    copy = attrs.evolve(ORDER, refund_reason=books._reasons["T1"])
    (lost,) = await gateway.refund([copy])
    recovered = await gateway.recover([first[0], lost, first[1]])
    assert statuses(recovered) == [SUCCEEDED, NOT_SENT, SUCCEEDED]


@pytest.mark.parametrize("refused", [0, 3])
async def test_a_gateway_that_lists_but_ten_refunds_hides_none(refused: int) -> None:
    """The first is the one that is known to exist; those that were refused come before ours."""
    made: Listed = [{**as_sent(one), "refund_status": "0"} for one in refunds(41) * refused]

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "search_refunds":
            found = [one for one in made if one["transaction_id"] in asked.transactions]
            return reply_to("search_refunds", found[:10])
        reply = asked.done()
        for item in reply["refund_orders"]:
            item["refund_reference_id"] = f"{item['transaction_id']}-01"
            made.append({**item, "refund_status": "1"})
        if "T000040" not in asked.transactions:
            return LOST
        made.insert(0, made.pop())
        return reply

    policy = BatchPolicy(concurrency=1, chunk_size=40)
    settings: dict[str, Any] = {"policy": policy, "dialect": DECLINES}
    gateway = client_over(answer, recovery=AGAIN, **settings)
    result = await gateway.refund(refunds(41))
    assert statuses(result) == [UNKNOWN] * 40 + [SUCCEEDED]
    assert statuses(await gateway.recover(result)) == [SUCCEEDED] * 41
    another = client_over(answer, recovery=REFERENCES, **settings)
    assert statuses(await another.refund(refunds(41))) == [NOT_SENT] * 41  # each is listed


async def test_a_full_list_of_one_payment_proves_no_absence() -> None:
    full = [*FULL[1:], listed(100, refund_status="0")]
    books = Books([[], FULL[1:], full], ["T1-01"])
    gateway = client_over(books, policy=ONE_BY_ONE, recovery=AGAIN, dialect=DECLINES)
    result = await gateway.refund([ORDER, ORDER])
    assert statuses(await gateway.recover(result)) == [SUCCEEDED, UNKNOWN]


async def test_the_rest_of_a_stream_is_no_whole_batch() -> None:
    """The refund that is listed may be that of an outcome which was yielded."""
    books = Books([[], [], [ONE]], ["T1-01", None])
    policy = attrs.evolve(ONE_BY_ONE, duplicates="allow")
    gateway = client_over(books, policy=policy, recovery=AGAIN)
    async with gateway.refund([CONTROL, ORDER, ORDER]) as batch:
        yielded = [await anext(batch), await anext(batch)]
        await settle_down()  # the third is sent meanwhile
    assert (statuses(yielded), statuses(batch.result)) == ([SUCCEEDED] * 2, [UNKNOWN])

    assert statuses(await gateway.recover(batch.result)) == [UNKNOWN]


async def test_what_no_look_up_shows_stays_as_it_was() -> None:
    gateway = client_over(lambda _: LOST, recovery=AGAIN)
    (review,) = await gateway.review(orders_for("review", made_up(1)))
    (payout,) = await gateway.payouts([payout_request()])

    assert [*await gateway.recover([review, payout])] == [review, payout]


@pytest.mark.parametrize(("duplicates", "expected"), [("reject", SUCCEEDED), ("allow", UNKNOWN)])
async def test_an_outcome_given_twice_is_one(duplicates: str, expected: OutcomeStatus) -> None:
    """Given without the others of its batch, it is settled where none of them is its equal."""
    policy = BatchPolicy(duplicates=duplicates)
    gateway = client_over(Books([[], [listed(1)]]), policy=policy, recovery=AGAIN)
    (lost,) = await gateway.refund([ORDER])
    recovered = await gateway.recover([lost, lost])
    assert statuses(recovered) == [expected] * 2
    assert statuses(await gateway.recover(recovered)) == [expected] * 2


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        ({"refund_reference_id": "T1-02"}, SUCCEEDED, "None"),
        ({"refund_reference_id": " T1-01 "}, UNKNOWN, "a refund that was done before"),
        ({}, UNKNOWN, "a refund that was done before"),
        ({"refund_status": "2"}, UNKNOWN, "the gateway is not done"),  # it may do it yet
    ],
)
async def test_a_reply_with_an_earlier_refund_is_no_proof(
    changes: dict[str, Any], expected: OutcomeStatus, words: str
) -> None:
    books = listing([listed(1)], partial(refund_done, **changes))
    (outcome,) = await client_over(books, recovery=AGAIN, dialect=WAITS).refund([ORDER])
    assert outcome.status is expected
    assert words in str(outcome.error)


@pytest.mark.parametrize(
    ("duplicates", "recovery"), [("serialize", AGAIN), ("allow", AGAIN), ("serialize", None)]
)
async def test_the_reply_to_the_first_of_two_equal_refunds_proves_no_second(
    duplicates: str, recovery: RecoveryPolicy | None
) -> None:
    """Also where the gateway's list lags, and lacks the first refund when the second is sent."""
    earlier = [listed(5), listed(1, transaction_id="T2", refund_reference_id="T2-01")]

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "search_refunds":
            found = [one for one in earlier if one["transaction_id"] in asked.transactions]
            return reply_to("search_refunds", found)
        reply = asked.done()
        for item in reply["refund_orders"]:
            item["refund_reference_id"] = f"{item['transaction_id']}-01"
        return reply

    gateway = client_over(answer, recovery=recovery)
    policy = attrs.evolve(ONE_BY_ONE, duplicates=duplicates, chunk_size=2)
    other = attrs.evolve(ORDER, transaction_id="T2")
    result = await gateway.refund([CONTROL, ORDER, ORDER, other], policy=policy)
    last = UNKNOWN if recovery else SUCCEEDED
    assert statuses(result) == [SUCCEEDED, SUCCEEDED, UNKNOWN, last]
    assert result.counts[UNKNOWN] == statuses(result).count(UNKNOWN)
    assert "a refund that was done before" in str(result[2].error)
    # The reference that is known now shows nothing of those which were there before.
    recovered = await client_over(answer, recovery=AGAIN).recover(result)
    assert statuses(recovered) == statuses(result)


SHOWN: list[tuple[dict[str, Any], list[OutcomeStatus]]] = [
    ({}, [SUCCEEDED, UNKNOWN]),
    ({"refund_status": "0"}, [OutcomeStatus.DECLINED, UNKNOWN]),
    *(({"refund_reason": reason}, [SUCCEEDED] * 2) for reason in ("torn", None)),
]


async def test_a_reply_that_shows_another_marker_proves_nothing() -> None:
    """As one does that comes twice on a connection: the second time, to the next refund."""

    def answer(replies: list[Any], changes: dict[str, Any], asked: Asked) -> Any:
        replies.append(refund_done(asked, **changes))
        return replies[0]

    for changes, expected in SHOWN:
        gateway = client_over(partial(answer, [], changes), recovery=MARKER, dialect=DECLINES)
        result = await gateway.refund([ORDER, ORDER], policy=ONE_BY_ONE)
        assert statuses(result) == expected
        assert result.ok or "the marker of another refund" in str(result[1].error)


# Refunds that are listed already: the same money does not go out under another batch


RECENT = f"{datetime.now(UTC):%Y%m%d%H%M%S}"
ALIKE = {
    "transaction_id": "T1",
    "refund_amount": "1.00",
    "refund_status": "1",
    "refund_reference_id": "T1-01",
    "refund_date": RECENT,
}


@pytest.mark.parametrize(("hours", "held"), [(25, False), (23, True), (-1, True)])
@pytest.mark.parametrize("ahead", [0, 8, -8])
@pytest.mark.usefixtures("in_new_york")
async def test_refunds_count_back_by_the_gateways_clock(hours: int, held: bool, ahead: int) -> None:
    date = datetime.now(UTC) + timedelta(hours=ahead - hours)
    records = [{**ALIKE, "refund_date": f"{date:%Y%m%d%H%M%S}"}]
    dialect = Dialect(utc_offset_hours=ahead)
    gateway = client_over(listing(records), dialect=dialect, recovery=REFERENCES)
    assert statuses(await gateway.refund([SMALL])) == [NOT_SENT if held else SUCCEEDED]


AHEAD = datetime.now(UTC) + timedelta(hours=14)
"""What a clock shows in the zone that is ahead of all others."""


HELD: list[dict[str, Any]] = [
    *({"refund_amount": amount} for amount in ("1.00", 1, "-1.00", "one", None, "")),
    *({"refund_date": date} for date in ("", "yesterday", ["20200101000000"])),
    {"refund_date": f"{AHEAD - timedelta(hours=23):%Y-%m-%dT%H:%M:%S}+14:00"},
    {"refund_reference_id": ""},
    {"refund_amount": "one", "refund_reference_id": ""},
    {"refund_status": "7"},
]
NOT_HELD: list[dict[str, Any]] = [
    {"refund_amount": "1.01"},
    {"refund_amount": None, "refund_reference_id": " "},
    *({"refund_date": date} for date in ("20200101000000", "2020-01-01T00:00:00+08:00")),
    {"refund_date": f"{AHEAD - timedelta(hours=25):%Y-%m-%dT%H:%M:%S}+14:00"},
    {"refund_status": "2"},
]


async def test_unclear_fields_of_a_refund_count() -> None:
    for changes in (*HELD, *NOT_HELD):
        dialect = Dialect(declined_statuses={"2"})
        gateway = client_over(listing([{**ALIKE, **changes}]), recovery=REFERENCES, dialect=dialect)
        (outcome,) = await gateway.refund([SMALL])
        assert isinstance(outcome.error, AlikeRefundError) is (changes in HELD), changes
        assert (outcome.status is SUCCEEDED) is (changes in NOT_HELD), changes


@pytest.mark.parametrize("others", [0, 1])
async def test_one_refund_of_this_batch_explains_one_that_is_listed(others: int) -> None:
    made: list[dict[str, Any]] = []

    def answer(asked: Asked) -> Any:
        (item,) = asked.done()["refund_orders"]
        for _ in range(1 + others):  # another program makes one, too
            made.append({**item, "refund_reference_id": f"R{len(made)}"})
        return reply_to("refund", [made[-1]])

    gateway = client_over(listing(made, answer), recovery=REFERENCES, policy=ONE_BY_ONE)
    second = (await gateway.refund([ORDER, ORDER]))[1]
    assert second.status is (NOT_SENT if others else SUCCEEDED)


@pytest.mark.parametrize("changes", [{"transaction_id": "T0"}, {"refund_amount": "0.50"}])
async def test_a_refund_of_another_payment_or_amount_explains_none_that_is_listed(
    changes: dict[str, Any],
) -> None:
    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return asked.done()
        return reply_to("search_refunds", [ALIKE] * ("T1" in asked.transactions))

    gateway = client_over(answer, recovery=REFERENCES, policy=ONE_BY_ONE)
    result = await gateway.refund([attrs.evolve(SMALL, **changes), SMALL])
    assert statuses(result) == [SUCCEEDED, NOT_SENT]


@pytest.mark.parametrize("first", [NOT_SENT, OutcomeStatus.DECLINED])
async def test_a_refund_that_was_not_made_explains_none_that_is_listed(
    first: OutcomeStatus,
) -> None:
    made: list[dict[str, Any]] = []

    def enter(number: int) -> None:
        if number == 2:  # the first refund; meanwhile, another program makes one
            made.append({**as_sent(ORDER), "refund_reference_id": "R1", "refund_date": RECENT})
            if first is NOT_SENT:
                raise NotSentError("no turn")

    gateway = client_over(
        listing(made, partial(refund_done, refund_status="0")),
        recovery=REFERENCES,
        dialect=DECLINES,
        policy=ONE_BY_ONE,
        limiter=Limiter(enter),
        retry=RetryPolicy(attempts=1),
    )
    result = await gateway.refund([ORDER, ORDER])
    assert statuses(result) == [first, NOT_SENT]
    assert isinstance(result[1].error, AlikeRefundError)


async def test_a_refund_whose_earlier_ones_are_not_known_is_not_sent() -> None:
    busy = {"return_status": "0", "return_message": "busy"}
    for names, envelope, problem in (
        (["T2"], {}, "did not honour the selection"),
        (["T1", "T2"], {}, "refunds that were not asked for"),
        ([], busy, r"could not be looked up.*busy"),
    ):
        records = [{**ALIKE, "transaction_id": name, "refund_amount": "2.00"} for name in names]
        transport = MemoryTransport(listing(records, **envelope))
        (outcome,) = await client_over(transport, recovery=REFERENCES).refund([SMALL])
        assert outcome.status is NOT_SENT
        assert re.search(problem, str(outcome.error))
        unguarded = await client_over(transport, recovery=AGAIN).refund([SMALL])
        assert unguarded.ok is (not envelope)


@pytest.mark.parametrize("hours", [24, None])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_refund_that_is_held_stops_no_other_but_a_look_up_without_a_reply_does(
    hours: float | None, is_lost: bool
) -> None:
    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return asked.done()
        listed = [ALIKE] * ("T1" in asked.transactions)
        return b"" if is_lost else reply_to("search_refunds", listed)

    policy = BatchPolicy(chunk_size=1, concurrency=1, stop_after_unknown=1)
    transport = MemoryTransport(answer)
    recovery = attrs.evolve(REFERENCES, hold_alike_hours=hours)
    gateway = client_over(transport, recovery=recovery, policy=policy)
    orders = [attrs.evolve(SMALL, transaction_id=name) for name in ("T1", "T2", "T3")]

    result = await gateway.refund(orders)

    others = NOT_SENT if is_lost else SUCCEEDED
    assert statuses(result) == [NOT_SENT if hours else others, others, others]
    named = {name for asked in transport.asked for name in asked.transactions}
    assert named == ({"T1"} if is_lost else {"T1", "T2", "T3"})
