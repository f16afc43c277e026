"""What a single payment costs to write, sign and read."""

from gateway_async import payments
from gateway_async.dialect import Dialect
from gateway_async.operations import PAY_DIRECT
from gateway_async.signing import HmacSigner
from gateway_async.transport import HttpResponse
from gateway_async.wire.encode import encode_fields, encode_form
from tests.memory import MemoryTransport, all_done, client_over
from tests.models import examples
from tests.steps import count_calls

REPLY = b"""<?xml version="1.0" encoding="UTF-8"?><respon>
  <transaction_id>T1</transaction_id><amount>1.50</amount><card>411111******1111</card>
  <order_status>1</order_status><result_info>V0000:success</result_info><note></note>
  <risk_score>12</risk_score><risk_reasons><name>ip</name><status>ok</status></risk_reasons>
</respon>"""
DIALECT = Dialect()
SIGNER = HmacSigner("5ecret")


def test_a_payment_is_written_and_signed_in_few_calls() -> None:
    payment = examples.direct_payment()
    fields = encode_fields(payment, DIALECT)
    assert len(fields) > 70
    assert count_calls(lambda: encode_fields(payment, DIALECT)) < 8 * len(fields)
    assert count_calls(lambda: encode_form(fields)) < 2 * len(fields)
    assert count_calls(lambda: SIGNER.sign(PAY_DIRECT, fields)) < len(fields)


def test_the_result_of_a_payment_is_read_in_few_calls() -> None:
    session = client_over(MemoryTransport(all_done))._session
    decode = payments.direct_request(examples.direct_payment(), session).decode
    raw = HttpResponse(200, {}, REPLY)
    assert decode(raw).risk_score == "12"
    assert count_calls(lambda: decode(raw)) < 130
