"""Addresses that merchants give: which of them may be called, and which may be led to."""

from ipaddress import ip_address
from urllib.parse import quote, urlsplit

_WEB = ("http", "https")
_KEPT = "!#$%&'()*+,/:;=?@[]~"


def is_loopback(url: str) -> bool:
    """Say whether an address is on this machine, without asking a name server."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
    return known and parts.scheme in _WEB


def to_location(url: str) -> str:
    """Write a web address for a Location header or a link; empty text for anything else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return ""
    if parts.scheme not in _WEB or not host or not url.isprintable() or " " in url:
        return ""
    return quote(url, safe=_KEPT)
