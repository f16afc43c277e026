"""Wrong settings are refused at once, by name, with what would be right."""

import asyncio
import functools
import inspect
import itertools
import re
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    BodyFormat,
    ConfigurationError,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.workers import WorkerPolicy
from tests.support.memory import HeldReplies, settle_down
from tests.support.orders import LOOK_UPS, MONEY_OPERATIONS, refunds

URL = "https://gateway.example"
CREDENTIALS = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
SETTINGS = (
    *(Timeouts, RetryPolicy, BatchPolicy, RecoveryPolicy, WorkerPolicy, Dialect),
    *(Credentials, HmacSigner),
)
ENOUGH: dict[Any, dict[str, Any]] = {
    Credentials: {"merchant_id": "M1", "account_id": "A1", "signer": HmacSigner("s3cret")},
    HmacSigner: {"secret": "s3cret"},
}
"""What is enough to make them; of the others, nothing."""
HUGE = 10**400
"""More than any float."""


async def sign_later(*_: object) -> str:
    return "signature"


WRONG: list[tuple[Any, str, tuple[object, ...]]] = [
    (Timeouts, "total_seconds", (0, "5", None, True, HUGE, float("inf"))),
    (RetryPolicy, "attempts", (0, 1.5, True)),
    (RetryPolicy, "max_pause_seconds", (-0.1, None)),
    (BatchPolicy, "duplicates", ("merge",)),
    (RecoveryPolicy, "resend_absent", (1,)),
    (Credentials, "merchant_id", (" ", None)),
    (Credentials, "signer", (sign_later,)),
    (HmacSigner, "digest", ("sha257", "shake_128")),
    (HmacSigner, "template", ("{nam}={value}", "{value[a]}", "{name}")),
    (Dialect, "amount_places", (-1, 101, HUGE)),
    (Dialect, "currency_places", ({"JPY": "0"}, {"EUR": 101})),
    (Dialect, "body_formats", ({"refund": "json"}, {"pay": BodyFormat.FORM})),
    (Dialect, "payment_states", ({"3000": "paid"},)),
    (Dialect, "json_content_type", ("json", "text/json\r\nX-A: b")),
    (Dialect, "done_statuses", ("1", {1})),
    (Dialect, "nothing_done_http_statuses", ({200}, {"429"})),
    (Dialect, "echo_fields", ({"refund": ("colour",)}, {"query": ()})),
    (Dialect, "selection_fields", ({"order_no": "merchant_id"},)),
    (Dialect, "wire_names", ({"order_no": "merchant_id"}, {"order_no": "a", "amount": "a"})),
    (Dialect, "notification_fields", ({"order": ("order_no",)},)),
    (Dialect, "selection_separator", ("", "\ud800")),
]
NO_SECRETS = {"": "an empty one", b"s3": "bytes", "\udce9": "one that UTF-8 cannot carry"}
TWO_MEANINGS = (
    *itertools.combinations(("done_statuses", "declined_statuses", "pending_statuses"), 2),
    ("payout_done_statuses", "payout_declined_statuses"),
    ("done_return_statuses", "nothing_done_return_statuses"),
    ("found_query_results", "absent_query_results"),
)


def refusal(make: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(**given)
    return str(caught.value)


def test_a_wrong_setting_is_refused() -> None:
    """No field takes just anything; those of one kind are checked alike."""
    anything = [(kind, one.name, (object(),)) for kind in SETTINGS for one in attrs.fields(kind)]
    for kind, name, values in [*anything, *WRONG]:
        for value in values:
            said = refusal(kind, **{**ENOUGH.get(kind, {}), name: value})
            assert re.match(rf"{kind.__name__}\.{name}: ", said), (kind, name, value)
    for secret, got in NO_SECRETS.items():
        assert refusal(HmacSigner, secret=secret).endswith(f"a non-empty str, got {got}")


def test_a_dialect_gives_a_status_one_meaning_and_keeps_the_echoes_it_is_not_given() -> None:
    for one, other in TWO_MEANINGS:
        said = refusal(Dialect, **{one: {"6", "7"}, other: {"7"}})
        assert f"Dialect.{one}: '7' also stands in {other}" in said
    echoes = Dialect(echo_fields={"refund": ("amount",)}).echo_fields
    assert echoes == {**Dialect().echo_fields, "refund": ("amount",)}


# Arguments of the client

PROXY = "http://proxy.example:3128"
LOCAL, REMOTE = "http://127.0.0.1:8800", "http://sandbox:8800"
NO_ADDRESSES = (
    *("http://gateway.example", "http://127.0.0.1.example", "http://localhost.example"),
    *("http://10.0.0.1", "https://user:pa55@gateway.example", "ftp://user:pa55@x", "https://[::1"),
    *("gateway.example", f"{URL}?x=1", f"{URL}/#", f"{URL}:99999", f" {URL}", f"{URL}\n", ""),
)
NO_PROXIES = (
    *("", "proxy.example:3128", "socks5://me:pa55@proxy.example:1080", 3128),
    *("http://me:pa55@proxy.example:abc", "http://[pa55"),
    *("http://proxy.example?pa55", "http://x#pa55"),
)
ENVIRONMENT = {"trust_env": True}
REFUSED: list[dict[str, Any]] = [
    *({name: object()} for name in inspect.signature(GatewayClient).parameters),
    *({"base_url": url} for url in NO_ADDRESSES),
    *({"proxy": url} for url in NO_PROXIES),
    {"limiter": asyncio.Lock},
    {"max_reply_bytes": 0},
    {"proxy": PROXY, "base_url": LOCAL},
    {**ENVIRONMENT, "https_proxy": "socks5://me:pa55@x"},
    {**ENVIRONMENT, "base_url": LOCAL, "HTTP_PROXY": PROXY},
]
WRITTEN = {
    "HTTPS://Gateway.example:443/": URL,
    "https://gateway.example:8443/Prefix/": "https://gateway.example:8443/Prefix",
    **{url: url for url in (LOCAL, "http://localhost:8080", "http://[::1]:8080")},
}
"""Addresses, and how the gateway is always written."""
TAKEN: list[dict[str, Any]] = [
    {"base_url": REMOTE, "allow_http": True, "proxy": PROXY},
    {"proxy": "HTTPS://me:pa55@[::1]:3128"},
    {"base_url": LOCAL, "proxy": "http://localhost:3128"},
    {**ENVIRONMENT, "HTTPS_PROXY": "proxy.example:3128"},  # as curl takes it
    {**ENVIRONMENT, "HTTP_PROXY": "socks5://x"},  # which is for another scheme
    {**ENVIRONMENT, "base_url": LOCAL, "HTTP_PROXY": PROXY, "NO_PROXY": "127.0.0.1"},
    {"HTTPS_PROXY": "socks5://me:pa55@x"},
]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Callable[..., GatewayClient]:
    """What makes a client; of what it is given, the environment has the proxies, and no others."""
    names = ("http_proxy", "https_proxy", "no_proxy")

    def make(**given: Any) -> GatewayClient:
        for name in (*names, *map(str.upper, names)):
            monkeypatch.delenv(name, raising=False)
        for name in [name for name in given if name.lower() in names]:
            monkeypatch.setenv(name, given.pop(name))
        return GatewayClient(**{"base_url": URL, "credentials": CREDENTIALS, **given})

    return make


def test_a_wrong_argument_is_refused_without_password(client: Callable[..., GatewayClient]) -> None:
    for given in REFUSED:
        said = refusal(client, **given)
        assert said.startswith(f"{next(iter(given))}: "), (given, said)
        assert "pa55" not in said


def test_a_right_argument_of_a_client_is_taken(client: Callable[..., GatewayClient]) -> None:
    for given in TAKEN:
        assert "pa55" not in repr(client(**given))
    for url, written in WRITTEN.items():
        assert client(base_url=url).gateway == written


async def test_a_session_that_is_given_has_its_own(client: Callable[..., GatewayClient]) -> None:
    async with aiohttp.ClientSession() as session:
        for own in ({"ssl": ssl.create_default_context()}, {"proxy": PROXY}, ENVIRONMENT):
            (name,) = own
            said = refusal(client, session=session, **own)
            assert said.startswith(f"session and {name}: expected one of them")
        client(base_url=REMOTE, session=session, allow_http=True)


# Policies of calls


def test_a_wrong_policy_or_job_of_a_call_is_refused(client: Callable[..., GatewayClient]) -> None:
    for operation, limit in (("capture", 50), ("review", 100)):
        policy = BatchPolicy(chunk_size=limit + 1)
        said = refusal(getattr(client(), operation), orders=[], policy=policy)
        assert f"{limit + 1} is above the {limit} orders" in said
    for name in (*MONEY_OPERATIONS, "payouts", *LOOK_UPS):
        method = functools.partial(getattr(client(), name), [])
        assert "policy: expected BatchPolicy, got dict" in refusal(method, policy={})
        if name not in LOOK_UPS:
            assert "job: expected Job, got dict" in refusal(method, job={})


async def test_no_more_requests_are_in_flight_than_connections_are_allowed() -> None:
    for given, concurrency, expected in ((2, 8, 2), (20, 8, 8), (None, 150, 150)):
        held, policy = HeldReplies(), BatchPolicy(concurrency=concurrency, chunk_size=1)
        gateway = held.client(max_connections=given, policy=policy)
        task = asyncio.create_task(gateway.refund(refunds(2 * concurrency)))
        await settle_down()
        assert held.most == expected
        held.goes_on.set()
        assert (await task).ok
        assert held.most == expected
