"""Reading records from replies, however sloppy."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from gateway_async import (
    DeliveryInformation,
    FraudCheckResult,
    RiskReasons,
    SubscriptionResult,
    TransactionRecord,
)
from tests.support.memory import MemoryTransport, client_over, respon
from tests.support.orders import direct_payment, payout_request

AT_NOON = datetime(2023, 5, 16, 12)  # noqa: DTZ001  # no zone is shown
TRANSACTION: dict[str, Any] = {
    "transaction_id": "2023051612301234567890",
    "reference_no": "R1",
    "order_no": "ORD-1",
    "amount": "129.90",
    "currency": "EUR",
    "payment_status": "3000",
    "query_result": "1",
    "is3ds": "0",
    "transaction_date": "20230516120000",
    "website": "shop.example",
    "shopper_email": "a@shop.example",
    "shopper_phone": "",
    "delivery_information": {"delivery_city": "Berlin"},
    "antifraud_provider": "provider",
    "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
    "subscription_result": {"recurring_id": "S1", "recurring_status": "1"},
}


async def page_of(*items: object) -> tuple[TransactionRecord, ...]:
    reply = {"return_status": "1", "orders_list": items}
    return (await client_over(MemoryTransport(lambda _: reply)).recent_transactions()).records


async def transaction_of(item: object) -> TransactionRecord:
    (record,) = await page_of(item)
    return record


async def test_a_transaction_is_read_whole_with_fields_that_are_not_listed() -> None:
    more = {"new_field": {"deep": [1, 2.5, None]}, "extra": 1, "unreadable": "x"}
    assert await transaction_of({**TRANSACTION, **more}) == TransactionRecord(
        extra=more,
        **{
            **TRANSACTION,
            "amount": Decimal("129.90"),
            "transaction_date": AT_NOON,
            "delivery_information": DeliveryInformation(delivery_city="Berlin"),
            "fraud_check_result": (FraudCheckResult(check_items="ip", status="ACCEPT"),),
            "subscription_result": SubscriptionResult(recurring_id="S1", recurring_status="1"),
        },
    )


async def test_what_is_no_record_is_one_that_cannot_be_read() -> None:
    records = await page_of(TRANSACTION, None, 7)
    assert [record.order_no for record in records] == ["ORD-1", None, None]
    assert [one.unreadable for one in records[1:]] == [{"record": "null"}, {"record": "7"}]
    assert len({*records}) == 3


SLOPPY: list[tuple[str, object, object]] = [
    *(("order_no", 10**n - 1, "9" * n) for n in (20, 300)),
    ("amount", 12.3, Decimal("12.3")),
    ("amount", " 1.50 ", Decimal("1.50")),
    ("amount", "", None),
    ("transaction_date", 20230516120000, AT_NOON),
    ("transaction_date", " ", None),
    ("fraud_check_result", "", ()),
    ("fraud_check_result", {"status": "REJECT"}, (FraudCheckResult(status="REJECT"),)),
    ("fraud_check_result", ["x"], (FraudCheckResult(unreadable={"record": "x"}),)),
    ("delivery_information", {}, DeliveryInformation()),
    ("delivery_information", [], None),  # also where an empty object came before
    ("delivery_information", "", None),
]
UNREADABLE: list[tuple[str, object, str]] = [
    ("order_no", 2.02e21, "2.02e21"),
    ("order_no", True, "true"),
    ("order_no", ["a"], '["a"]'),
    *(("amount", text, text) for text in ("1,50", "NaN", "1_50", "\u0661\u0662")),
    ("amount", 2.0230516123012345e21, "2.0230516123012345e21"),
    ("amount", "x" * 5_000, "x" * 1_000),
    ("transaction_date", "20231316123012", "20231316123012"),
    ("delivery_information", "Berlin", "Berlin"),
]


async def test_a_sloppy_value_is_read_and_what_cannot_be_is_none_with_its_text() -> None:
    for field, came, expected in SLOPPY:
        record = await transaction_of({field: came})
        assert getattr(record, field) == expected
        assert (record.unreadable, record.extra) == ({}, {})
    for field, came, text in UNREADABLE:
        record = await transaction_of({**TRANSACTION, field: came})
        assert (getattr(record, field), record.payment_status) == (None, "3000")
        kept = {name: value.replace("e+", "e") for name, value in record.unreadable.items()}
        assert kept == {field: text}


async def test_a_direct_payment_result_comes_from_texts() -> None:
    """It is read of XML as others are of JSON."""
    reasons = {"name": "ip", "status": "ok"}
    said = {"order_status": "1", "amount": "12.50", "risk_reasons": reasons}
    said |= {"card": "4" * 16, "encryption_data": "signed"}
    record = await client_over(MemoryTransport(lambda _: respon(said))).pay_direct(direct_payment())
    assert record.risk_reasons == RiskReasons(name="ip", status="ok")
    assert (record.amount, record.card) == (Decimal("12.50"), "444444******4444")
    assert record.encryption_data is not None
    assert record.encryption_data.reveal() == "signed"


async def test_a_payout_result_repeats_the_request() -> None:
    """A list is read entry by entry: a wrong one takes no other with it."""
    labels: list[Any] = [["a", 1, {"b": 2}], None, "passport", ["d", 1]]
    fields = {
        "status": "COMPLETED",
        "payment_date": "2024-01-31",
        "created_at": "2024-01-31T10:00:00+02:00",
        "fee_amount": 1.25,
        "beneficiary": {
            "date_of_birth": "1990-W05-3",
            "bank_details": {"local_clearing_system": "LCS", "bank_code": "B1"},
            "person_documents": [{"labels": each} for each in labels],
        },
    }
    record = await client_over(MemoryTransport(lambda _: fields)).payout(payout_request())
    assert record.payment_date == date(2024, 1, 31)
    assert record.created_at == datetime(2024, 1, 31, 8, tzinfo=UTC)
    assert record.fee_amount == Decimal("1.25")
    beneficiary: Any = record.beneficiary
    assert beneficiary.unreadable == {"date_of_birth": "1990-W05-3"}
    bank = beneficiary.bank_details
    assert (bank.local_clearing_system, bank.extra) == ("LCS", {"bank_code": "B1"})
    first, *others = beneficiary.person_documents
    assert (first.labels, first.unreadable) == (("a", "1"), {"labels": '["a",1,{"b":2}]'})
    assert [one.labels for one in others] == [None, ("passport",), ("d", "1")]
