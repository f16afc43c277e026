"""Wrong settings: each is refused at once, by name, with what would be right."""

import asyncio
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    ConfigurationError,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import refunds

URL = "https://gateway.example"
CREDENTIALS = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
NOT_A_NUMBER = float("nan")


def _client(**settings: Any) -> GatewayClient:
    return GatewayClient(**{"base_url": URL, "credentials": CREDENTIALS, **settings})


WRONG: list[tuple[Callable[..., Any], str, object, str]] = [
    *(
        (Timeouts, name, value, r"a number of seconds above 0, got .*\(")
        for name in ("connect_seconds", "reply_seconds", "total_seconds")
        for value in (0, -1, "5", None, True, float("inf"), NOT_A_NUMBER)
    ),
    *((RetryPolicy, "attempts", value, "an int of 1 or more") for value in (0, -1, 1.5, "2", True)),
    *(
        (RetryPolicy, name, value, "a number of seconds, 0 or more")
        for name in ("first_pause_seconds", "max_pause_seconds")
        for value in (-0.1, "1", None)
    ),
    *(
        (BatchPolicy, name, value, "an int of 1 or more")
        for name in ("concurrency", "chunk_size", "stop_after_unknown")
        for value in (0, -5, 2.0, "8", False)
    ),
    *((BatchPolicy, "deadline_seconds", value, "seconds above 0") for value in (0, -1, "9")),
    *((BatchPolicy, "drain_seconds", value, "0 or more") for value in (-1, None, "9")),
    *(
        (BatchPolicy, "duplicates", value, "one of 'reject', 'serialize', 'allow'")
        for value in ("merge", None, True)
    ),
    *((RecoveryPolicy, "settle_seconds", value, "0 or more") for value in (-1, "60")),
    *((RecoveryPolicy, "resend_absent", value, "True or False") for value in (1, "yes", None)),
    (RecoveryPolicy, "refund_evidence", "luck", "one of 'references', 'marker'"),
    (RecoveryPolicy, "record_baseline", 1, "True or False"),
    *((Credentials, "merchant_id", value, "a non-empty str") for value in ("", " ", None, 7)),
    (Timeouts, "total_seconds", 10**400, "a number of seconds"),
    (BatchPolicy, "drain_seconds", 10**400, "a number of seconds"),
    *((Dialect, "amount_places", value, "an int of 0 or more") for value in ("2", -1, 2.0, True)),
    (Dialect, "currency_places", {"JPY": "0"}, "ints of 0 or more"),
    (Dialect, "body_formats", {"refund": "json"}, "'application/json'"),
    (Dialect, "payment_states", {"3000": "paid"}, "'captured'"),
    *((Dialect, "form_nesting", value, "one of 'json', 'brackets'") for value in ("php", None)),
    *(
        (Dialect, "json_content_type", value, "a media type such as 'application/json'")
        for value in ("json", "", None, "text/json\r\nX-A: b", "a/b; ", "text/jsön")
    ),
    (Dialect, "selection_separator", "", "a non-empty str"),
    (Dialect, "done_statuses", "1", "a set of texts such as"),
    (Dialect, "done_statuses", {1}, "a set of texts such as"),
    (Dialect, "done_message_prefixes", "V0000", "texts such as"),
    (Dialect, "done_message_prefixes", ("",), "texts such as"),
    (Dialect, "nothing_done_http_statuses", {200}, "and not 200"),
    (Dialect, "nothing_done_http_statuses", 429, "a set of HTTP statuses"),
    (Dialect, "done_statuses", 1, "a set of texts"),
    (Dialect, "done_statuses", [["1"]], "a set of texts"),
    (Dialect, "nothing_done_http_statuses", [[429]], "a set of HTTP statuses"),
    *(
        (Dialect, "echo_fields", {"refund": fields}, "tuples of fields out of those that each")
        for fields in ([["amount"]], "amount", ("colour",), 5, None)
    ),
    (Dialect, "body_formats", None, "a mapping from texts"),
    (Dialect, "currency_places", {5: 0}, "a mapping from texts"),
    (Dialect, "echo_fields", None, "a mapping from texts"),
    (Dialect, "payment_states", {3000: "captured"}, "a mapping from texts"),
    (Dialect, "selection_fields", {"x": "y"}, "fields out of"),
    (Dialect, "selection_fields", {"order_no": "merchant_id"}, "none of identity or signature"),
    (Dialect, "wire_names", {"order_no": ""}, "non-empty texts"),
    (Dialect, "wire_names", {"order_no": "merchant_id"}, "distinct names"),
    (Dialect, "wire_names", {"order_no": "a", "amount": "a"}, "distinct names"),
    (Dialect, "nothing_done_http_statuses", {"429"}, "a set of HTTP statuses"),
    (Dialect, "payout_deduplicates", "no", "True or False"),
]


def refusal(make: Callable[..., Any], **given: Any) -> str:
    """Return the error that is raised, or nothing."""
    try:
        make(**given)
    except ConfigurationError as error:
        # A `self` that has nothing to show yet is shown all the same.
        traceback.TracebackException.from_exception(error, capture_locals=True)
        return str(error)
    return ""


def test_a_wrong_setting_is_refused() -> None:
    others = {"merchant_id": "M1", "account_id": "A1", "signer": HmacSigner("s3cret")}
    for kind, name, value, expected in WRONG:
        said = refusal(kind, **{**(others if kind is Credentials else {}), name: value})
        assert re.search(expected, said), (kind, name, value, said)
        assert said.startswith(f"{kind.__name__}.{name}: ")
        assert ", got " in said


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"body_formats": {"pay": ()}}, "Dialect.body_formats: 'pay' is no operation"),
        ({"echo_fields": {"pay": ()}}, "Dialect.echo_fields: 'pay' is no operation"),
        *(
            ({one: {"6", "7"}, other: {"7"}}, f"Dialect.{one}: '7' also stands in {other}")
            for one, other in (
                ("done_statuses", "declined_statuses"),
                ("done_statuses", "pending_statuses"),
                ("declined_statuses", "pending_statuses"),
                ("payout_done_statuses", "payout_declined_statuses"),
                ("done_return_statuses", "nothing_done_return_statuses"),
            )
        ),
    ],
)
def test_a_dialect_names_operations_only_and_gives_a_status_one_meaning(
    given: dict[str, Any], expected: str
) -> None:
    assert expected in refusal(Dialect, **given)


def test_naming_the_echoes_of_one_operation_keeps_those_of_the_others() -> None:
    echoes = Dialect(echo_fields={"refund": ("amount",)}).echo_fields
    assert echoes == {**Dialect().echo_fields, "refund": ("amount",)}


WRONG_ARGUMENTS: list[tuple[str, Any, str]] = [
    ("base_url", None, "expected str, got NoneType"),
    ("credentials", "M1", "expected Credentials, got str"),
    ("timeouts", 5, "expected Timeouts, got int"),
    ("retry", 3, "expected RetryPolicy, got int"),
    ("policy", {"concurrency": 2}, "expected BatchPolicy, got dict"),
    ("recovery", True, "expected RecoveryPolicy, got bool"),
    ("dialect", {}, "expected Dialect, got dict"),
    ("session", object(), "expected aiohttp.ClientSession, got object"),
    ("limiter", object(), "expected an asynchronous context manager, got object"),
    ("max_reply_bytes", 0, r"expected an int of 1 or more, got 0 \(int\)"),
    ("max_reply_bytes", "1", r"got '1' \(str\)"),
    ("max_connections", -1, "an int of 1 or more"),
    ("max_connections", True, "bool"),
]


def test_a_wrong_argument_of_the_client_is_refused() -> None:
    for name, value, expected in WRONG_ARGUMENTS:
        said = refusal(_client, **{name: value})
        assert re.search(f"^{name}: .*{expected}", said), (name, value, said)


def test_a_wrong_policy_of_a_call_is_refused() -> None:
    for operation, limit in (("capture", 50), ("review", 100), ("query", 100)):
        policy = BatchPolicy(chunk_size=limit + 1)
        said = refusal(getattr(_client(), operation), orders=[], policy=policy)
        assert f"{limit + 1} is above the {limit} orders" in said
    said = refusal(_client().refund, orders=[], policy={})
    assert "policy: expected BatchPolicy, got dict" in said


async def test_the_policy_of_a_call_is_used_instead_of_the_client_s() -> None:
    transport = MemoryTransport(all_done)
    gateway = client_over(transport, policy=BatchPolicy(chunk_size=5))
    await gateway.refund(refunds(10))
    await gateway.refund(refunds(10), policy=BatchPolicy(chunk_size=10))
    assert [len(asked.transactions) for asked in transport.asked] == [5, 5, 10]


@pytest.mark.parametrize(
    ("given", "concurrency", "expected"), [(2, 8, 2), (20, 8, 8), (None, 8, 8), (None, 150, 150)]
)
async def test_no_more_requests_are_in_flight_than_connections_are_allowed(
    given: int | None, concurrency: int, expected: int
) -> None:
    most = flying = 0

    async def crowd(asked: Asked) -> dict[str, Any]:
        nonlocal most, flying
        flying += 1
        most = max(most, flying)
        for _ in range(200):
            await asyncio.sleep(0)
        flying -= 1
        return asked.done()

    policy = BatchPolicy(concurrency=concurrency, chunk_size=1)
    gateway = client_over(MemoryTransport(crowd), max_connections=given, policy=policy)
    await gateway.refund(refunds(2 * concurrency))
    assert most == expected


def test_a_right_address_is_taken() -> None:
    for url in (
        *("https://gateway.example", "https://gateway.example:8443/prefix/"),
        *("HTTPS://gateway.example", "http://127.0.0.1:8080", "http://127.8.8.8"),
        *("http://localhost:8080", "http://[::1]:8080"),
    ):
        assert url.rstrip("/") in repr(_client(base_url=url))


WRONG_ADDRESSES = [
    ("http://gateway.example", "use https://gateway.example"),
    ("http://127.0.0.1.example", "plain http:// is refused"),
    ("http://localhost.example", "plain http:// is refused"),
    ("http://2130706433", "plain http:// is refused"),
    ("http://10.0.0.1", "plain http:// is refused"),
    ("https://user:pa55@gateway.example", "credentials go into Credentials"),
    ("http://127.0.0.1@gateway.example", "credentials go into Credentials"),
    ("ftp://user:pa55@gateway.example", "credentials go into Credentials"),
    ("https://gateway.example?x=1", "scheme, host and path alone"),
    ("https://gateway.example/?", "scheme, host and path alone"),
    ("https://gateway.example/#", "scheme, host and path alone"),
    ("gateway.example", "a URL such as 'https://gateway.example'"),
    ("ftp://gateway.example", "a URL such as"),
    ("https://", "a URL such as"),
    ("", "a URL such as"),
    ("https://[::1", "a URL such as"),
    ("https://gateway.example:abc", "a URL such as"),
    ("https://gateway.example:99999", "a URL such as"),
    (" https://gateway.example", "a URL such as"),
    ("https://gate way.example", "a URL such as"),
    ("https://gateway.example\n", "a URL such as"),
]


def test_a_wrong_address_is_refused() -> None:
    for url, expected in WRONG_ADDRESSES:
        said = refusal(_client, base_url=url)
        assert re.search(f"^base_url: .*{expected}", said), (url, said)
        assert "pa55" not in said
