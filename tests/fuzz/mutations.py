"""Replies that no gateway should send, made from those that one would."""

import json
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

from tests.memory import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    Mutation = Callable[[bytes], bytes]

SNIPPETS = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"-0.0",
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\xed\xa0\x80"',
    b"\\u0000",
    b'"',
    b"\\",
    b"{",
    b"}]",
    b",,",
    b'"transaction_id": {},',
    b'"order_no": [1, null],',
    b'"encryption_data": "',
    b'{"a":' * 40,
    b"[" * 300,
    b"[" * 100_000,
    b"<a>" * 40,
    b"<a>" * 5_000,
    b"</respon>",
    b"<respon/>",
    b"<![CDATA[",
    b"<![CDATA[]]>",
    b"<!DOCTYPE respon>",
    b'<!DOCTYPE r [<!ENTITY e "x">]>',
    b"<!",
    b"<![x[",
    b"<!--",
    b"<?php",
    b'<?xml version="1.0" encoding="utf-7"?>',
    b'<?xml version="1.0" encoding="nonsense"?>',
    b"&",
    b"&#0;",
    b"&#xD800;",
    b"&nonsense;",
    b"&#99999999999999999999;",
    b"<amount>1</amount>" * 3,
    b"<order_no><order_no>x</order_no></order_no>",
    b'<x:order_no xmlns:x="y">1</x:order_no>',
    b"<transaction_id/>",
    b"<title>" * 3,
    b"<form method=post action='a&#x110000;b'>",
    b"<form method=post action",
    b'<meta charset="utf-16">',
    b"<meta charset=nonsense>",
    b"<script>",
    b"</title",
]
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "utf-7", "utf-8-sig"]
CONTENT_TYPES = [
    "application/json; charset=nonsense",
    "text/html; charset=utf-16",
    'text/html; charset="gbk',
    "text/html; charset=\x00",
    "text/xml;;;charset",
    "charset=utf-7",
    "",
]
RETRY_AFTERS = [
    "0",
    "-1",
    "99999999999999999999999999",
    "9" * 5000,
    "1.5",
    "soon",
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Wed, 31 Feb 99999 25:61:61 -9999",
    "\u0663",
    "",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**53, 2**63, 2**64, 10**30]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.sampled_from(["", " ", "1", "0", "NaN", "1e5", "Infinity", "20230101000000", "9" * 14]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@st.composite
def _put(draw: st.DrawFn, tree: Any) -> Any:
    """Put a value somewhere into a JSON tree, or take one out, or double one."""
    containers = [tree]
    for part in containers:
        inner = part.values() if isinstance(part, dict) else part
        containers += [one for one in inner if isinstance(one, dict | list) and one]
    chosen = draw(st.sampled_from(containers))
    key = draw(st.sampled_from(list(chosen) if isinstance(chosen, dict) else range(len(chosen))))
    action = draw(st.sampled_from(["put", "delete", "double", "text", "number", "wrap"]))
    old = chosen[key]
    if action == "delete":
        del chosen[key]
    elif action == "double" and isinstance(chosen, list):
        chosen.append(old)
    elif action == "text":
        chosen[key] = str(old)
    elif action == "number" and isinstance(old, str) and old.isascii() and old.isdigit():
        chosen[key] = draw(st.sampled_from([int(old), float(old)]))
    elif action == "wrap":
        chosen[key] = draw(st.sampled_from([[old], {"#text": old}, [old, old], [[old]]]))
    else:
        chosen[key] = draw(values)
    return tree


def _json_mutations(body: bytes) -> st.SearchStrategy[bytes]:
    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        tree = json.loads(body)
        for _ in range(draw(st.integers(1, 3))):
            tree = draw(_put(tree)) if tree else tree
        return json.dumps(tree, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")

    return mutated()


@st.composite
def _bytes_mutations(draw: st.DrawFn, body: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(body)))
        action = draw(st.sampled_from(["cut", "flip", "snippet", "repeat", "insert", "recode"]))
        before, after = body[:position], body[position:]
        match action:
            case "cut":
                body = before
            case "flip":
                body = before + draw(st.binary(min_size=1, max_size=1)) + after[1:]
            case "snippet":
                body = before + draw(st.sampled_from(SNIPPETS)) + after
            case "repeat":
                body = before + before[-40:] + after
            case "insert":
                body = before + draw(st.binary(max_size=12)) + after
            case _:
                encoding = draw(st.sampled_from(ENCODINGS))
                body = body.decode(errors="replace").encode(encoding, errors="replace")
    return body


def bodies(body: bytes) -> st.SearchStrategy[bytes]:
    """Bodies in the place of a right one."""
    mutations = [_bytes_mutations(body), st.binary(max_size=200), st.sampled_from(SNIPPETS)]
    if body.startswith(b"{"):
        mutations += [_json_mutations(body)] * 3
        mutations += [values.map(lambda value: json.dumps(value).encode(errors="surrogatepass"))]
    return st.one_of(mutations)


def replies(right: HttpResponse) -> st.SearchStrategy[HttpResponse]:
    """Replies in the place of a right one; the body right at times, or the status."""
    content_types = st.sampled_from([right.headers["Content-Type"], *CONTENT_TYPES])
    headers = st.builds(
        lambda content_type, retry: {"Content-Type": content_type, "Retry-After": retry},
        content_types,
        st.sampled_from(RETRY_AFTERS),
    )
    statuses = st.one_of(st.just(200), st.just(200), st.integers(0, 999))
    return st.builds(
        lambda status, headers, body: attrs.evolve(
            right, status=status, headers=headers, body=body
        ),
        statuses,
        headers,
        st.one_of(bodies(right.body), bodies(right.body), st.just(right.body)),
    )
