import pytest

from gateway_async.cli.columns import likely

NAMES = (
    *("refund_reason", "review_flag", "refunded", "state", "payment_date", "fee_paid_by"),
    *("beneficiary_id", "beneficiary.first_name", "beneficiary.bank_details.iban"),
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("reviewflag", "review_flag"),
        ("Review Flag", "review_flag"),
        ("refund_raeson", "refund_reason"),
        ("refnded", "refunded"),
        ("stat", "state"),
        ("paymentdate", "payment_date"),
        ("fee_payed_by", "fee_paid_by"),
        ("beneficiary_first_name", "beneficiary.first_name"),
        ("benificiary.bank_details.iban", "beneficiary.bank_details.iban"),
        ("beneficiary.bank_detail.iban", "beneficiary.bank_details.iban"),
    ],
)
def test_a_misspelt_name_is_told_from_others(name: str, meant: str) -> None:
    assert likely(name, NAMES) == meant


@pytest.mark.parametrize(
    "name", ["", "customer", "reason", "status", "date", "payee", "note", "id"]
)
def test_a_name_of_its_own_is_none_of_them(name: str) -> None:
    assert likely(name, NAMES) is None
