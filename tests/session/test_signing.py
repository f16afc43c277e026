"""Signers: what they are given, what they may be, and what becomes of their errors."""

import hmac
import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import attrs
import pytest

from gateway_async import (
    ConfigurationError,
    HmacSigner,
    OutcomeStatus,
    OutcomeUnknownError,
    ReplyUnreadableError,
)
from gateway_async.operations import REFUND, Operation
from tests.support.collaborators import Verifier
from tests.support.memory import HttpResponse, MemoryTransport, client_over
from tests.support.orders import refunds

FIELDS = {"b": "2", "a": "ä", "encryption_data": "old"}


def _hmac(message: str, digest: str = "sha256") -> str:
    return hmac.new(b"s3cret", message.encode(), digest).hexdigest()


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, _hmac("a=ä&b=2")),
    ({"uppercase": True}, _hmac("a=ä&b=2").upper()),
    ({"digest": "sha512"}, _hmac("a=ä&b=2", "sha512")),
    ({"joiner": "|"}, _hmac("a=ä|b=2")),
    ({"template": "{value}"}, _hmac("ä&2")),
    ({"template": "{name}:{value};"}, _hmac("a:ä;&b:2;")),
    ({"excluded": ["b", "encryption_data"]}, _hmac("a=ä")),
    ({"excluded": ()}, _hmac("a=ä&b=2&encryption_data=old")),
]


def test_the_stand_in_is_configurable() -> None:
    for options, expected in OPTIONS:
        signer = HmacSigner("s3cret", **options)
        same = attrs.evolve(HmacSigner("s3cret"), **options), HmacSigner(signer.secret, **options)
        for one in (signer, *same):
            assert one.sign(REFUND, FIELDS) == expected


def _raises(_: Operation, fields: Mapping[str, str]) -> str:
    raise LookupError(f"no key for {dict(fields)}")


@pytest.mark.parametrize(
    ("signer", "text"),
    [
        (_raises, r"the signer raised LookupError at .*test_signing.py:\d+"),
        (lambda *_: None, "must return text that UTF-8 can carry, not NoneType"),
        (lambda *_: b"x", "must return text that UTF-8 can carry, not bytes"),
        (lambda *_: " ", "must return text that UTF-8 can carry, not an empty one"),
    ],
)
async def test_a_signer_that_fails_means_not_sent_and_stops_at_once(signer: Any, text: str) -> None:
    transport = MemoryTransport()
    result = await client_over(transport, signer=signer).refund(refunds(300))
    assert transport.asked == []
    assert result.counts[OutcomeStatus.NOT_SENT] == 300
    error = result[0].error
    assert isinstance(error, ConfigurationError)
    with pytest.raises(ConfigurationError, match=text):
        raise error
    assert "T000001" not in str(error)
    assert error.__cause__ is error.__context__ is None


@pytest.mark.parametrize("answer", [True, False, LookupError("s3cret")])
async def test_only_signed_replies_are_verified_and_a_wrong_one_is_no_proof(answer: Any) -> None:
    for signature in (None, "", "null", "theirs"):
        signer = Verifier(answer)
        transport = MemoryTransport(lambda asked, s=signature: asked.done(encryption_data=s))  # type: ignore[misc]  # a default
        result = await client_over(transport, signer=signer).refund(refunds(1))
        assert [asked for _, asked in signer.asked] == ([signature] if signature else [])
        for fields, _ in signer.asked:
            assert json.loads(fields["refund_orders"])[0]["transaction_id"] == "T000000"
        if answer is True or not signature:
            assert result.ok
            continue
        assert result.counts[OutcomeStatus.UNKNOWN] == 1
        assert isinstance(result[0].error, ReplyUnreadableError)
        assert "s3cret" not in str(result[0].error)


DEEP = f'{{"return_status": "1", "x": {"[" * 1010}{"]" * 1010}, "encryption_data": "theirs"}}'
NAMED = '{"name": "Grüße", "encryption_data": "theirs"}'.encode("latin-1")
XML = (
    "<?xml version='1.0' encoding='{}'?><respon><order_status>1</order_status>"
    "<encryption_data>theirs</encryption_data></respon>"
)
SIGNED: list[tuple[str, bytes]] = [
    *(("xml", XML.format(encoding).encode(encoding)) for encoding in ("utf-8", "utf-16", "gbk")),
    ("json", DEEP.encode()),  # how deep is too deep depends on the Python
    *((reply, NAMED) for reply in ("json", "text")),  # in a charset that only the header names
]


@pytest.mark.parametrize(("reply", "body"), SIGNED)
async def test_no_encoding_hides_a_signature(reply: Any, body: bytes) -> None:
    headers = {"Content-Type": "text/plain; charset=iso-8859-1"} if body is NAMED else {}
    transport = MemoryTransport(lambda _: HttpResponse(200, headers, body))
    gateway = client_over(transport, signer=Verifier(answer=False))
    with pytest.raises(ReplyUnreadableError, match=r"too deep|signature is not right"):
        await gateway.call("/v1/refund", {}, reply=reply)


@pytest.mark.parametrize(
    ("check_replies", "signature", "is_read"),
    [(True, "wrong", False), (True, _hmac("answer=42"), True), (False, "wrong", True)],
)
async def test_the_stand_in_checks_replies_only_if_asked_to(
    signature: str, check_replies: bool, is_read: bool
) -> None:
    signer = HmacSigner("s3cret", check_replies=check_replies)
    transport = MemoryTransport(lambda _: {"answer": "42", "encryption_data": signature})
    call = client_over(transport, signer=signer).call("/v1/refund", {}, body="json")
    with nullcontext() if is_read else pytest.raises(OutcomeUnknownError, match="is not right"):
        assert (await call).data["answer"] == "42"
