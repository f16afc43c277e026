"""Replies that no gateway should send, made from those that one would."""

import re
from random import Random

import attrs

from tests.support.memory import HttpResponse

NEAR = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b"}]", b",", b":", b" ", b"\x00", b"\xff", b"\n", b"{}"),
    *(b'\\"', b"\\u0031", b"null", b"1", b'"1"', b'"0"', b"true", b"1.0", b'"2001:no"', b"\x7f"),
    *(b'"refund_status":"0"', b'"error_message":"2001:no"', b'"encryption_data":"left"', b'" 1 "'),
]
"""What a reply may have here or there and be nearly right."""
FAR = [
    *(
        b"\xff\xfe",
        b"NaN",
        b"1e999",
        b"9" * 400,
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b'{"a": 1}',
        b'""',
    ),
    *(b'"transaction_id": {},', b'{"a":' * 40, b"[" * 100_000, b"<a>" * 5_000, b"</respon>"),
    *(b"<![CDATA[", b"<!--", b"<?php", b"&", b"&#0;", b"&nonsense;", b"<amount>1</amount>" * 3),
    *(b'<!DOCTYPE r [<!ENTITY e "x">]>', b'<?xml version="1.0" encoding="nonsense"?>'),
    *(b"<order_no><order_no>x</order_no></order_no>", b'<x:order_no xmlns:x="y">1</x:order_no>'),
    *(b"<title>" * 3, b"<form method=post action='a&#x110000;b'>", b"<form method=post action"),
    b'<meta charset="utf-16">',
]
"""What no reply should have anywhere."""
SPANS = [
    re.compile(rb'"[^"]*": ?"[^"]*"'),
    re.compile(rb'(?<=: )"[^"]*"|(?<=:)"[^"]*"'),
    re.compile(rb"\{[^{}]*\}"),
    re.compile(rb',? ?"(?:\w+_(?:status|message)|reference)".*?(?=\})'),
    re.compile(rb'"\w+_orders": ?\[.*\]'),
    re.compile(rb"[^,]+"),
    re.compile(rb"<(\w+)>[^<]*</\1>|(?<=>)[^<]*(?=<)"),
    re.compile(rb"."),
]
"""What is moved about: fields, values, items, what is added to them, lists, elements, anything."""
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "utf-7", "utf-8-sig"]
CONTENT_TYPES = ["text/html; charset=utf-16", 'text/html; charset="gbk', "text/xml;;;charset", ""]
RETRY_AFTERS = ["0", "-1", "9" * 5000, "soon", "Wed, 31 Feb 99999 25:61:61 -9999", "\u0663", ""]


def mutated(random: Random, reply: bytes, snippets: list[bytes]) -> bytes:
    """Return a reply in which something is moved, doubled, dropped or put in."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(random.choice(SPANS).finditer(reply)) or list(re.finditer(b"(?s).|$", reply))
        one, other = sorted(random.choices(found, k=2), key=lambda match: match.start())
        start, end = one.span()
        snippet = random.choice(snippets)
        match random.randrange(8):
            case 0 if end <= other.start():
                between, after = reply[end : other.start()], reply[other.end() :]
                reply = reply[:start] + other[0] + between + one[0] + after
            case 1:
                reply = reply[:start] + other[0] + reply[end:]
            case 2:
                comma = random.choice((b",", b", ", b""))
                reply = reply[:start] + other[0] + comma + reply[start:]
            case 3:
                reply = reply[:start] + reply[end:].removeprefix(b",").removeprefix(b" ")
            case 4:
                reply = reply[:start] + snippet + reply[end:]
            case 5:
                reply = reply[:start] + snippet + b"," + reply[start:]
            case 6:
                reply += snippet
            case _:
                place = random.randint(start, max(start, end - 1))
                reply = reply[:place] + snippet + reply[place + 1 :]
    return reply


def wild(random: Random, right: HttpResponse) -> HttpResponse:
    """Return a reply in the place of a right one; the body is right at times, or the status."""
    body = mutated(random, right.body, NEAR + FAR)
    match random.randrange(12):
        case 0:
            body = body[: random.randint(0, len(body))]
        case 1:
            encoding = random.choice(ENCODINGS)
            body = body.decode(errors="replace").encode(encoding, errors="replace")
        case 2:
            body = random.choice([random.choice(FAR), random.randbytes(random.randint(0, 200))])
        case 3 | 4:
            body = right.body
    content_type = random.choice([right.headers["Content-Type"], *CONTENT_TYPES])
    headers = {"Content-Type": content_type, "Retry-After": random.choice(RETRY_AFTERS)}
    status = random.choice((200, 200, random.randint(0, 999)))
    return attrs.evolve(right, status=status, headers=headers, body=body)
