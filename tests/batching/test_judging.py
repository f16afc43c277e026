"""What a reply says of an order, row by row."""

from typing import Any

import attrs
import pytest

from gateway_async import (
    ConfigurationError,
    Dialect,
    GatewayError,
    OutcomeStatus,
    OutcomeUnknownError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.batching.judge import Judgement, judge
from gateway_async.operations import OPERATIONS
from tests.orders import MONEY_OPERATIONS, item_of, made_up, orders_for, reply_to

SUCCEEDED, DECLINED, UNKNOWN = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.DECLINED,
    OutcomeStatus.UNKNOWN,
)
DEFAULT = Dialect()
DECLINES = Dialect(declined_statuses={"0"}, pending_statuses={"3"})
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


def _judge(
    operation: str, orders: list[Any], items: Any, dialect: Dialect = DEFAULT, **envelope: Any
) -> Judgement:
    payload = reply_to(operation, items, **envelope)
    return judge(OPERATIONS[operation], orders, payload, dialect)


def _statuses(judgement: Judgement) -> list[OutcomeStatus]:
    return [status for status, _ in judgement.verdicts]


def _message_field(operation: str) -> str:
    return "refund_message" if operation == "refund" else "error_message"


Row = tuple[str, dict[str, Any], OutcomeStatus, type[GatewayError] | None]
# Of an item: what is changed, `status` and `text` standing for the operation's own fields.
ITEMS: list[Row] = [
    ("done", {}, SUCCEEDED, None),
    ("done as a number", {"status": 1}, SUCCEEDED, None),
    ("done with blanks", {"status": " 1 "}, SUCCEEDED, None),
    ("done without a text", {"text": None}, SUCCEEDED, None),
    ("done and a complaint", {"text": "2001:no funds"}, UNKNOWN, ReplyUnreadableError),
    ("done and a nested text", {"text": {"a": 1}}, UNKNOWN, ReplyUnreadableError),
    ("declined, with a reason", {"status": "0", "text": "2001:no"}, DECLINED, RejectedError),
    ("declined, a reason without code", {"status": "0", "text": "no"}, DECLINED, RejectedError),
    ("declined, no reason", {"status": "0", "text": ""}, DECLINED, RejectedError),
    ("declined as a number", {"status": 0, "text": "2001:no"}, DECLINED, RejectedError),
    ("pending", {"status": "3", "text": "P1:wait"}, UNKNOWN, OutcomeUnknownError),
    ("no meaning", {"status": "2", "text": "P1:in process"}, UNKNOWN, OutcomeUnknownError),
    ("no meaning, no reason", {"status": "2", "text": ""}, UNKNOWN, OutcomeUnknownError),
    ("no meaning, null", {"status": "2", "text": None}, UNKNOWN, OutcomeUnknownError),
    ("no status", {"status": None, "text": "2001:no"}, UNKNOWN, ReplyUnreadableError),
    ("an empty status", {"status": ""}, UNKNOWN, ReplyUnreadableError),
    ("a float for a status", {"status": 1.0}, UNKNOWN, ReplyUnreadableError),
    ("true for a status", {"status": True}, UNKNOWN, ReplyUnreadableError),
    ("a list for a status", {"status": ["1"]}, UNKNOWN, ReplyUnreadableError),
    ("another amount", {"amount": "10.01"}, UNKNOWN, ReplyUnreadableError),
    ("the amount as a number", {"amount": 10}, SUCCEEDED, None),
    ("the amount as a float", {"amount": 10.0}, SUCCEEDED, None),
    ("the amount without zeros", {"amount": "10"}, SUCCEEDED, None),
    ("an empty amount", {"amount": ""}, SUCCEEDED, None),
    ("blanks for an amount", {"amount": "   "}, SUCCEEDED, None),
    ("blanks for a currency", {"currency": "  "}, SUCCEEDED, None),
    ("no amount", {"amount": None}, SUCCEEDED, None),
    ("an amount that is none", {"amount": "ten"}, UNKNOWN, ReplyUnreadableError),
    ("an amount that is NaN", {"amount": "sNaN"}, UNKNOWN, ReplyUnreadableError),
    ("an amount that is true", {"amount": True}, UNKNOWN, ReplyUnreadableError),
    ("a nested amount", {"amount": {"value": "10.00"}}, UNKNOWN, ReplyUnreadableError),
    ("a bottomless amount", {"amount": DEEP}, UNKNOWN, ReplyUnreadableError),
    ("the currency in lower case", {"currency": "eur"}, SUCCEEDED, None),
    ("another currency", {"currency": "USD"}, UNKNOWN, ReplyUnreadableError),
    ("another order number", {"order_no": "N999999"}, UNKNOWN, ReplyUnreadableError),
    ("a null order number", {"order_no": None}, SUCCEEDED, None),
    ("a declined other amount", {"status": "0", "text": "1:no", "amount": "9"}, UNKNOWN, None),
]


def _changed(operation: str, order: Any, changes: dict[str, Any]) -> dict[str, Any]:
    names = {"status": f"{operation}_status", "text": _message_field(operation)}
    return item_of(operation, order, **{names.get(n, n): value for n, value in changes.items()})


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
@pytest.mark.parametrize(
    ("changes", "status", "error"), [row[1:] for row in ITEMS], ids=[row[0] for row in ITEMS]
)
def test_an_item_is_judged(
    operation: str,
    changes: dict[str, Any],
    status: OutcomeStatus,
    error: type[GatewayError] | None,
) -> None:
    orders = orders_for(operation, made_up(2))
    items = [_changed(operation, orders[0], changes), item_of(operation, orders[1])]
    judgement = _judge(operation, orders, items, DECLINES)
    assert _statuses(judgement) == [status, SUCCEEDED]
    assert judgement.items == [(items[0],), (items[1],)]
    assert judgement.unexpected == []
    if status is SUCCEEDED:
        assert judgement.verdicts[0][1] is None
    else:
        assert isinstance(judgement.verdicts[0][1], error or ReplyUnreadableError)


@pytest.mark.parametrize(
    ("message", "status"),
    [("V0000:success", SUCCEEDED), ("0000:ok", SUCCEEDED), ("V0000", SUCCEEDED), ("", SUCCEEDED)],
)
def test_a_refund_message_of_success_is_no_complaint(message: str, status: OutcomeStatus) -> None:
    orders = orders_for("refund", made_up(1))
    assert _statuses(
        _judge("refund", orders, [item_of("refund", orders[0], refund_message=message)])
    ) == [status]


@pytest.mark.parametrize("field", ["refund_amount", "review_flag"])
def test_what_only_one_operation_sends_is_compared_too(field: str) -> None:
    operation = field.partition("_")[0]
    orders = orders_for(operation, made_up(1))
    judgement = _judge(operation, orders, [item_of(operation, orders[0], **{field: "7"})])
    assert _statuses(judgement) == [UNKNOWN]
    assert f"{field} was" in str(judgement.verdicts[0][1])
    assert "the reply says 7" in str(judgement.verdicts[0][1])


def test_a_refusal_carries_code_and_text() -> None:
    orders = orders_for("capture", made_up(1))
    items = [item_of("capture", orders[0], capture_status="0", error_message="2101: captured")]
    ((_, error),) = _judge("capture", orders, items, DECLINES).verdicts
    assert isinstance(error, RejectedError)
    assert (error.code, error.text) == ("2101", "captured")


@pytest.mark.parametrize(
    ("status", "message", "code", "text", "shown"),
    [
        ("2", "P0001:Request accepted, in process", "P0001", "Request accepted, in process", "'2'"),
        ("2", "pending approval", "2", "pending approval", "'2'"),
        ("0", "", "0", "", "'0'"),
        (None, "2001:no", "2001", "no", "no readable"),
    ],
)
@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
def test_a_status_without_a_meaning_is_named_with_what_could_give_it_one(
    operation: str, status: str | None, message: str, code: str, text: str, shown: str
) -> None:
    orders = orders_for(operation, made_up(1))
    changes = {f"{operation}_status": status, _message_field(operation): message}
    items = [item_of(operation, orders[0], **changes)]
    judgement = _judge(operation, orders, items)
    ((is_now, error),) = judgement.verdicts
    assert is_now is UNKNOWN
    assert isinstance(error, OutcomeUnknownError)
    assert (error.code, error.text) == (code, text)
    wanted = (f"{operation}_status", shown, text, "done_statuses", "declined_statuses")
    assert all(part in str(error) for part in (*wanted, "pending_statuses"))
    assert judgement.items == [tuple(items)]


def test_a_declined_status_beside_a_text_of_success_is_a_contradiction() -> None:
    orders = orders_for("refund", made_up(1))
    items = [item_of("refund", orders[0], refund_status="0", refund_message="V0000:success")]
    ((status, error),) = _judge("refund", orders, items, DECLINES).verdicts
    assert status is UNKNOWN
    assert "contradict each other: refund_status '0', 'V0000:success'" in str(error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done_statuses", "declined_statuses"),
        ("done_statuses", "pending_statuses"),
        ("declined_statuses", "pending_statuses"),
        ("done_return_statuses", "nothing_done_return_statuses"),
    ],
)
def test_a_status_has_one_meaning(one: str, other: str) -> None:
    given: dict[str, Any] = {one: {"6", "7"}, other: {"7"}}
    with pytest.raises(ConfigurationError, match=rf"Dialect\.{one}: '7' also stands in {other}"):
        Dialect(**given)


@pytest.mark.parametrize(("text", "told"), [("wait", ", 'wait'"), ("", ""), (None, "")])
def test_a_pending_status_is_unknown_and_not_a_refusal(text: str | None, told: str) -> None:
    orders = orders_for("capture", made_up(1))
    items = [item_of("capture", orders[0], capture_status="2", error_message=text)]
    dialect = Dialect(pending_statuses={"2"})
    ((status, error),) = _judge("capture", orders, items, dialect).verdicts
    assert status is UNKNOWN
    assert type(error) is OutcomeUnknownError
    assert str(error) == f"the gateway is not done: capture_status '2'{told}"


# Which item is about which order


def test_an_item_without_a_transaction_is_matched_by_order_number() -> None:
    orders = orders_for("refund", made_up(2))
    items = [item_of("refund", order, transaction_id="") for order in reversed(orders)]
    assert _statuses(_judge("refund", orders, items)) == [SUCCEEDED] * 2


def test_an_order_number_that_two_orders_share_names_neither() -> None:
    orders = orders_for("refund", made_up(2), order_no="same")
    items = [item_of("refund", order, transaction_id=None) for order in orders]
    judgement = _judge("refund", orders, items)
    assert _statuses(judgement) == [UNKNOWN] * 2
    assert judgement.unexpected == items


def test_two_ids_that_name_two_orders_make_both_unknown() -> None:
    orders = orders_for("refund", made_up(3))
    items = [item_of("refund", order) for order in orders]
    items[0]["order_no"] = orders[1].order_no
    assert _statuses(_judge("refund", orders, items)) == [UNKNOWN, UNKNOWN, SUCCEEDED]


def test_a_float_for_a_transaction_names_none() -> None:
    orders = orders_for("refund", made_up(1), transaction_id="20230516123012345678")
    items = [item_of("refund", orders[0], transaction_id=2.0230516123012346e19, order_no="")]
    judgement = _judge("refund", orders, items)
    assert _statuses(judgement) == [UNKNOWN]
    assert judgement.unexpected == items


def test_a_whole_number_for_a_transaction_is_its_text() -> None:
    orders = orders_for("refund", made_up(1), transaction_id="202305161230")
    items = [item_of("refund", orders[0], transaction_id=202305161230)]
    assert _statuses(_judge("refund", orders, items)) == [SUCCEEDED]


@pytest.mark.parametrize(
    ("second", "status"),
    [({}, SUCCEEDED), ({"refund_status": "0"}, UNKNOWN), ({"extra": 1}, UNKNOWN)],
    ids=["alike", "another status", "another field"],
)
def test_an_order_listed_twice(second: dict[str, Any], status: OutcomeStatus) -> None:
    orders = orders_for("refund", made_up(1))
    items = [item_of("refund", orders[0]), item_of("refund", orders[0], **second)]
    judgement = _judge("refund", orders, items)
    assert _statuses(judgement) == [status]
    assert judgement.items == [tuple(items)]


def test_an_order_listed_twice_with_bottomless_fields_is_unknown() -> None:
    orders = orders_for("refund", made_up(1))
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    items = [item_of("refund", orders[0], x=nested), item_of("refund", orders[0], x=DEEP)]
    # The two are alike; whether they can be compared at all is up to the interpreter.
    assert _statuses(_judge("refund", orders, items)) in ([UNKNOWN], [SUCCEEDED])


def test_bottomless_texts_say_nothing() -> None:
    orders = orders_for("refund", made_up(2))
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    texts = (DEEP, nested)
    items = [item_of("refund", o, error_message=t) for o, t in zip(orders, texts, strict=True)]
    assert _statuses(_judge("refund", orders, items)) == [UNKNOWN] * 2


@pytest.mark.parametrize("stranger", ["text", 7, None, [], {}, {"transaction_id": "T999999"}])
def test_strangers_are_reported_and_change_nothing(stranger: object) -> None:
    orders = orders_for("refund", made_up(2))
    items = [stranger, *(item_of("refund", order) for order in orders)]
    judgement = _judge("refund", orders, items)
    assert _statuses(judgement) == [SUCCEEDED] * 2
    assert judgement.unexpected == [stranger]


# What the reply says as a whole


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
@pytest.mark.parametrize(
    ("return_status", "missing"),
    [
        ("1", UNKNOWN),
        (1, UNKNOWN),
        ("0", UNKNOWN),
        ("E9", DECLINED),
        ("", UNKNOWN),
        (None, UNKNOWN),
        (1.0, UNKNOWN),
    ],
)
def test_listed_items_are_judged_and_missing_ones_by_return_status(
    operation: str, return_status: object, missing: OutcomeStatus
) -> None:
    orders = orders_for(operation, made_up(2))
    dialect = Dialect(nothing_done_return_statuses={"E9"})
    items = [item_of(operation, orders[0])]
    judgement = _judge(operation, orders, items, dialect, return_status=return_status)
    is_contradiction = return_status == "E9"
    assert _statuses(judgement) == [UNKNOWN if is_contradiction else SUCCEEDED, missing]
    if is_contradiction:
        error = str(judgement.verdicts[0][1])
        assert "the reply contradicts itself" in error
        assert f"{operation}_status '1'" in error
        assert "return_status 'E9'" in error


def test_what_is_not_done_in_a_reply_that_says_nothing_was_done_is_judged_by_itself() -> None:
    orders = orders_for("refund", made_up(2))
    dialect = attrs.evolve(DECLINES, nothing_done_return_statuses={"E9"})
    items = [
        item_of("refund", orders[0], refund_status="0", refund_message="2001:no"),
        item_of("refund", orders[1], refund_status="2", refund_message="P1:in process"),
    ]
    judgement = _judge("refund", orders, items, dialect, return_status="E9")
    assert _statuses(judgement) == [DECLINED, UNKNOWN]


@pytest.mark.parametrize("listed", [None, "", "text", 7, [], {}, False])
def test_a_list_that_is_none_leaves_every_order_unknown(listed: Any) -> None:
    orders = orders_for("refund", made_up(2))
    payload = {**reply_to("refund", []), "refund_orders": listed}
    judgement = judge(OPERATIONS["refund"], orders, payload, DEFAULT)
    assert _statuses(judgement) == [UNKNOWN] * 2


def test_a_single_item_without_a_list_around_it_is_taken() -> None:
    orders = orders_for("refund", made_up(1))
    payload = {**reply_to("refund", []), "refund_orders": item_of("refund", orders[0])}
    assert _statuses(judge(OPERATIONS["refund"], orders, payload, DEFAULT)) == [SUCCEEDED]


@pytest.mark.parametrize("fields", ["amount", ("colour",), 5, None])
def test_a_field_that_cannot_be_compared_is_refused(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Dialect\.echo_fields"):
        Dialect(echo_fields={"capture": fields})


def test_naming_the_echoes_of_one_operation_keeps_those_of_the_others() -> None:
    dialect = Dialect(echo_fields={"refund": ("amount",)})
    assert dialect.echo_fields["capture"] == Dialect().echo_fields["capture"]
    assert dialect.echo_fields["refund"] == ("amount",)


@pytest.mark.parametrize("named", [1.5e20, True, {}, {"a": 1}])
def test_a_transaction_that_cannot_be_read_is_not_matched_by_its_order_no(named: object) -> None:
    (order,) = orders_for("refund", made_up(1))
    item = item_of("refund", order, transaction_id=named)
    payload = {"return_status": "1", "return_message": "OK", "refund_orders": [item]}
    judgement = judge(OPERATIONS["refund"], [order], payload, Dialect())
    assert [status for status, _ in judgement.verdicts] == [OutcomeStatus.UNKNOWN]
    assert judgement.unexpected == [item]
