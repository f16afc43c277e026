"""Reading records from replies, however sloppy."""

import copy
import itertools
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, get_args, get_origin

import attrs
import orjson
import pytest
from hypothesis import given, strategies as st

from gateway_async.models import payouts, records
from gateway_async.models.payouts import PayoutResult
from gateway_async.models.records import (
    CaptureRecord,
    DeliveryInformation,
    DirectPaymentResult,
    FraudCheckResult,
    Page,
    Record,
    RefundRecord,
    RiskReasons,
    SubscriptionResult,
    TransactionRecord,
)
from gateway_async.models.values import MASK
from gateway_async.wire import records as reader
from gateway_async.wire.records import read_page, read_record
from tests.steps import count_calls

RECORD_MODELS: list[type[Record]] = sorted(
    {
        value
        for module in (records, payouts)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Record)
    },
    key=lambda model: model.__name__,
)
TRANSACTION: dict[str, Any] = {
    "transaction_id": "2023051612301234567890",
    "reference_no": "R1",
    "order_no": "ORD-1",
    "amount": "129.90",
    "currency": "EUR",
    "payment_status": "3000",
    "query_result": "1",
    "is3ds": "0",
    "transaction_date": "20230516123012",
    "website": "shop.example",
    "shopper_email": "a@shop.example",
    "shopper_phone": "",
    "delivery_information": {"delivery_city": "Berlin"},
    "antifraud_provider": "provider",
    "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
    "subscription_result": {"recurring_id": "S1", "recurring_status": "1"},
}


def test_a_transaction_is_read_whole() -> None:
    assert read_record(TransactionRecord, TRANSACTION) == TransactionRecord(
        **{
            **TRANSACTION,
            "amount": Decimal("129.90"),
            "transaction_date": datetime(2023, 5, 16, 12, 30, 12),  # noqa: DTZ001  # none is shown
            "delivery_information": DeliveryInformation(delivery_city="Berlin"),
            "fraud_check_result": (FraudCheckResult(check_items="ip", status="ACCEPT"),),
            "subscription_result": SubscriptionResult(recurring_id="S1", recurring_status="1"),
        }
    )


def test_what_is_read_is_left_as_it_was() -> None:
    item = {**TRANSACTION, "new_field": 1}
    before = {**item}
    read_record(TransactionRecord, item)
    assert item == before


@pytest.mark.parametrize(
    ("field", "came", "expected"),
    [
        ("order_no", 17, "17"),
        ("order_no", 18446744073709551615, "18446744073709551615"),
        ("order_no", None, None),
        ("order_no", "", ""),
        ("amount", 5, Decimal(5)),
        ("amount", 12.3, Decimal("12.3")),
        ("amount", " 1.50 ", Decimal("1.50")),
        ("amount", "", None),
        ("amount", None, None),
        ("transaction_date", 20230516123012, datetime(2023, 5, 16, 12, 30, 12)),  # noqa: DTZ001  # as above
        ("transaction_date", " ", None),
        ("fraud_check_result", None, ()),
        ("fraud_check_result", "", ()),
        ("fraud_check_result", {"status": "REJECT"}, (FraudCheckResult(status="REJECT"),)),
        ("delivery_information", [], None),
        ("delivery_information", "", None),
        ("delivery_information", [{"delivery_city": "B"}], DeliveryInformation(delivery_city="B")),
    ],
)
def test_sloppy_values_are_read(field: str, came: object, expected: object) -> None:
    record = read_record(TransactionRecord, {field: came})
    assert getattr(record, field) == expected
    assert (record.unreadable, record.extra) == ({}, {})


@pytest.mark.parametrize(
    ("field", "came", "text"),
    [
        ("order_no", 2.02e21, "2.02e+21"),
        ("order_no", 1.0, "1.0"),
        ("order_no", True, "true"),
        ("order_no", ["a"], '["a"]'),
        ("order_no", {"a": 1}, '{"a":1}'),
        ("amount", "1,50", "1,50"),
        ("amount", "NaN", "NaN"),
        ("amount", True, "true"),
        ("amount", 2.0230516123012345e21, "2.0230516123012345e21"),
        ("transaction_date", "2023051612301", "2023051612301"),
        ("transaction_date", "20231316123012", "20231316123012"),
        ("transaction_date", "yesterday", "yesterday"),
        ("delivery_information", "Berlin", "Berlin"),
        ("delivery_information", 7, "7"),
    ],
)
def test_what_cannot_be_read_is_none_with_its_text(field: str, came: object, text: str) -> None:
    record = read_record(TransactionRecord, {**TRANSACTION, field: came})
    assert getattr(record, field) is None
    assert {name: value.replace("e+", "e") for name, value in record.unreadable.items()} == {
        field: text.replace("e+", "e")
    }
    assert record.payment_status == "3000"


def test_one_bad_element_does_not_spoil_a_list() -> None:
    checks = read_record(
        TransactionRecord, {"fraud_check_result": [{"status": "ACCEPT"}, "x"]}
    ).fraud_check_result
    assert checks == (
        FraudCheckResult(status="ACCEPT"),
        FraudCheckResult(unreadable={"record": "x"}),
    )


def test_the_text_of_an_unreadable_value_is_bounded() -> None:
    record = read_record(RefundRecord, {"amount": "x" * 5_000, "order_no": ["y" * 5_000]})
    assert [len(text) for text in record.unreadable.values()] == [1_000, 1_000]


def test_unlisted_fields_are_kept_as_they_came() -> None:
    came = {"new_field": {"deep": [1, 2.5, None]}, "extra": 1, "unreadable": "x"}
    record = read_record(CaptureRecord, {"order_no": "A", **came})
    assert (record.extra, record.unreadable) == (came, {})


def test_secrets_are_neither_kept_nor_shown() -> None:
    number = "4111111111111111"
    record = read_record(
        DirectPaymentResult,
        {
            "card": int(number),
            "encryption_data": "s1gnature",
            "cardNumber": number,
            "signInfo": "s1gnature",
            "echo": [{"security_code": "975", "cvv": 975, "kept": 1}],
            "note": {"card": number},
        },
    )
    assert record.extra == {
        "cardNumber": MASK,
        "signInfo": MASK,
        "echo": [{"security_code": MASK, "cvv": MASK, "kept": 1}],
    }
    assert record.card == "411111******1111"
    assert record.encryption_data is not None
    assert record.encryption_data.reveal() == "s1gnature"
    for shown in (repr(record), repr(pickle.dumps(record)), str(record.extra)):
        assert number not in shown
        assert "s1gnature" not in shown


def test_an_unreadable_secret_shows_nothing() -> None:
    record = read_record(DirectPaymentResult, {"card": ["4111111111111111"]})
    assert record.unreadable == {"card": MASK}


@pytest.mark.parametrize("number", [1, 10**30])  # orjson does not write the second
def test_a_secret_within_an_unreadable_value_is_hidden(number: int) -> None:
    record = read_record(RefundRecord, {"refund_amount": {"card": "4" * 16, "number": number}})
    assert "444" not in record.unreadable["refund_amount"]
    assert str(number) in record.unreadable["refund_amount"]


def test_a_direct_payment_result_comes_from_texts() -> None:
    record = read_record(
        DirectPaymentResult,
        {"amount": "9.90", "risk_reasons": {"name": "ip", "status": "ok"}, "risk_score": "3"},
    )
    assert record.risk_reasons == RiskReasons(name="ip", status="ok")
    assert (record.amount, record.risk_score) == (Decimal("9.90"), "3")


def test_a_payout_result_repeats_the_request() -> None:
    record = read_record(
        PayoutResult,
        {
            "payment_date": "2024-01-31",
            "created_at": "2024-01-31T10:00:00+02:00",
            "last_updated_at": "2024-01-31T10:00:00Z",
            "fee_amount": 1.25,
            "beneficiary": {
                "date_of_birth": "31.01.1990",
                "bank_details": {"local_clearing_system": "LCS", "bank_code": "B1"},
                "person_documents": {"labels": "passport"},
            },
        },
    )
    assert record.payment_date == date(2024, 1, 31)
    assert record.created_at == datetime(2024, 1, 31, 8, tzinfo=UTC)
    assert record.last_updated_at == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert record.fee_amount == Decimal("1.25")
    assert record.beneficiary is not None
    assert record.beneficiary.unreadable == {"date_of_birth": "31.01.1990"}
    assert record.beneficiary.bank_details is not None
    assert record.beneficiary.bank_details.local_clearing_system == "LCS"
    assert record.beneficiary.bank_details.extra == {"bank_code": "B1"}
    assert record.beneficiary.person_documents[0].labels == ("passport",)


def test_a_page_has_its_envelope_and_its_records() -> None:
    reply = {
        "merchant_id": "M1",
        "return_status": 1,
        "return_message": "OK",
        "orders_list": [TRANSACTION, None, 7],
        "unlisted": "x",
    }
    page = read_page(TransactionRecord, reply, "orders_list")
    assert (page.merchant_id, page.return_status, page.return_message) == ("M1", "1", "OK")
    assert page.records[0] == read_record(TransactionRecord, TRANSACTION)
    assert [record.unreadable for record in page.records[1:]] == [
        {"record": "null"},
        {"record": "7"},
    ]
    assert page.extra == {"unlisted": "x"}
    assert read_page(TransactionRecord, {}, "orders_list") == Page()


@pytest.mark.parametrize("model", RECORD_MODELS, ids=lambda model: model.__name__)
def test_records_survive_pickling_and_are_hashable(model: type[Record]) -> None:
    record = read_record(model, {"unlisted": 1, "order_no": "A", "amount": "1", "city": "B"})
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301  # our own
    assert hash(record) == hash(read_record(model, {"order_no": "A", "amount": "1", "city": "B"}))
    assert attrs.evolve(record, extra={}).extra == {}


_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(["20230516123012", "2023-05-16", "2024-01-31T10:00:00+02:00", "1e99", "sNaN"])
)
_json = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.data())
def test_reading_never_raises(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(RECORD_MODELS))
    names = st.sampled_from([field.name for field in attrs.fields(model)])
    value = data.draw(_json | st.dictionaries(names, _json, max_size=6))
    record = read_record(model, value)
    assert type(record) is model
    assert repr(pickle.loads(pickle.dumps(record))) == repr(record)  # noqa: S301  # our own


_ODD: st.SearchStrategy[object] = _json | st.sampled_from(
    ["", " ", [], {}, [{}], 7, 1.5, True, None, "1.50", ["a", {}]]
)


def _readable(model: Any, data: st.DataObject) -> dict[str, Any]:
    """Draw what the gateway may say in the place of a record, with nothing odd about it."""
    return {
        field.name: _readable_value(field.type, data)
        for field in attrs.fields(model)
        if field.name not in attrs.fields_dict(Record)
        if data.draw(st.integers(0, 9))
    }


def _readable_value(wanted: Any, data: st.DataObject) -> object:
    part = next(part for part in (*get_args(wanted), wanted) if part is not NoneType)
    if get_origin(wanted) is tuple:
        element = getattr(part, "__bound__", part)
        return [_readable_value(element, data) for _ in range(data.draw(st.integers(0, 2)))]
    if attrs.has(part):
        return _readable(part, data)
    if part in _TEXTS:
        return data.draw(st.sampled_from(_TEXTS[part]))
    return data.draw(st.text(max_size=5) | st.none())


_TEXTS: dict[object, list[str]] = {
    Decimal: ["1.50", "0", "-3", "", "1e5"],
    datetime: ["20230516123012", "2024-01-31T10:00:00+02:00", ""],
    date: ["2024-01-31", ""],
}


def _spoil(value: object, data: st.DataObject) -> object:
    """Put something odd in some place of it, however deep."""
    if not isinstance(value, dict) or not value or not data.draw(st.integers(0, 3)):
        return data.draw(_ODD)
    name = data.draw(st.sampled_from([*value, "unlisted"]))
    return {**value, name: _spoil(value.get(name), data)}


def _read_carefully(model: Any, value: dict[str, Any]) -> Any:
    return reader._reader(model).read_carefully(value)


@given(st.data())
def test_quick_reading_reads_what_careful_reading_reads(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(RECORD_MODELS))
    value: object = _readable(model, data)
    for _ in range(data.draw(st.integers(0, 2))):
        value = _spoil(value, data)
    if isinstance(value, dict):
        quick, careful = read_record(model, value), _read_carefully(model, value)
        assert (quick, repr(quick)) == (careful, repr(careful))
        assert (quick.extra, quick.unreadable) == (careful.extra, careful.unreadable)


@pytest.mark.parametrize("lacking", [(), ("amount", "website", "delivery_information")])
def test_a_clean_record_is_read_in_few_calls(lacking: tuple[str, ...]) -> None:
    item = {name: value for name, value in TRANSACTION.items() if name not in lacking}
    read_record(TransactionRecord, item)
    assert count_calls(lambda: read_record(TransactionRecord, item)) < 50


def test_what_lacks_fields_is_read_by_few_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    compile_reader = reader._Reader._compiled

    def note(self: Any, present: Any) -> Any:
        compiled.append(len(present))
        return compile_reader(self, present)

    monkeypatch.setattr(reader._Reader, "_compiled", note)
    quick = reader._Reader(DeliveryInformation)
    names = [field.name for field in attrs.fields(DeliveryInformation)]
    names = [name for name in names if name not in attrs.fields_dict(Record)]
    for size in range(len(names) + 1):
        for present in itertools.combinations(names, size):
            whole = {name: f"{name} of {size}" for name in present}
            for item in (whole, {**whole, "unlisted": 1}, {**whole, names[0]: 7}):
                assert quick.read(item) == _read_carefully(DeliveryInformation, item)
    assert sorted(compiled) == list(range(len(names) + 1))


def test_records_with_nothing_unusual_share_what_is_empty() -> None:
    records = [read_record(TransactionRecord, TRANSACTION) for _ in range(2)]
    assert records[0].extra is records[1].extra is records[0].unreadable
    shared: Any = records[0].extra
    for change, words in (
        (shared.update, ({"a": 1},)),
        (shared.setdefault, ("a", 1)),
        (shared.__setitem__, ("a", 1)),
        (shared.__ior__, ({"a": 1},)),
    ):
        with pytest.raises(TypeError, match="make a dict of it first"):
            change(*words)
    assert orjson.dumps([shared, copy.deepcopy(shared), shared | {"a": 1}]) == b'[{},{},{"a":1}]'


def test_reading_survives_deep_nesting() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    record = read_record(RefundRecord, {"order_no": deep, "new": deep, "refund_date": deep})
    assert set(record.unreadable) == {"order_no", "refund_date"}
