"""Faults that change the bytes of a reply, or the headers beside them.

The effect of the request is done as if the fault were not there. Data and pure functions.
"""

import gzip

import attrs

from gateway_async.sandbox.distortions import Fault
from gateway_async.sandbox.messages import Reply


@attrs.frozen
class ReplyFault(Fault):
    """A fault that changes the bytes of a reply, or its headers."""

    def rewrite(self, reply: Reply) -> Reply:
        """Return what goes out instead."""
        return reply


@attrs.frozen
class InvalidBody(ReplyFault):
    """The second half of the body is missing, and the reply is complete as HTTP sees it."""

    def rewrite(self, reply: Reply) -> Reply:
        """Keep the first half."""
        return attrs.evolve(reply, body=reply.body[: len(reply.body) // 2])


@attrs.frozen
class WrongContentType(ReplyFault):
    """The right body under a wrong content type.

    Attributes:
        value: The content type.
    """

    value: str = "text/plain"

    def rewrite(self, reply: Reply) -> Reply:
        """Set the header."""
        return attrs.evolve(reply, headers={**reply.headers, "Content-Type": self.value})


@attrs.frozen
class ByteOrderMark(ReplyFault):
    """A byte order mark stands before the body."""

    def rewrite(self, reply: Reply) -> Reply:
        """Put it there."""
        return attrs.evolve(reply, body=b"\xef\xbb\xbf" + reply.body)


@attrs.frozen
class GzipReply(ReplyFault):
    """The body is compressed, and says so."""

    def rewrite(self, reply: Reply) -> Reply:
        """Compress it."""
        headers = {**reply.headers, "Content-Encoding": "gzip"}
        return attrs.evolve(reply, headers=headers, body=gzip.compress(reply.body))


@attrs.frozen
class _XmlFault(ReplyFault):
    """A document type before the XML of a payment reply; other replies stay."""

    def declaration(self) -> str:
        """Return the document type."""
        return "<!DOCTYPE respon>"

    def element(self) -> str:
        """Return the element that uses it."""
        return ""

    def rewrite(self, reply: Reply) -> Reply:
        """Put both in."""
        if not reply.is_xml:
            return reply
        text = reply.body.decode()
        text = text.replace("<respon>", f"{self.declaration()}<respon>", 1)
        text = text.replace("</respon>", f"{self.element()}</respon>")
        return attrs.evolve(reply, body=text.encode())


@attrs.frozen
class Doctype(_XmlFault):
    """A harmless document type stands in the XML."""


@attrs.frozen
class EntityBomb(_XmlFault):
    """Entities that unfold to some gigabytes stand in the XML."""

    def declaration(self) -> str:
        """Return ten entities, each ten times the one before."""
        unfolded = "".join(
            f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10)
        )
        return f'<!DOCTYPE respon [<!ENTITY e0 "entity">{unfolded}]>'

    def element(self) -> str:
        """Return the element that unfolds them."""
        return "<custom>&e9;</custom>"


@attrs.frozen
class ExternalEntity(_XmlFault):
    """An entity that is read from elsewhere stands in the XML.

    Attributes:
        address: From where.
    """

    address: str = "file:///etc/hostname"

    def declaration(self) -> str:
        """Return the entity."""
        return f'<!DOCTYPE respon [<!ENTITY outside SYSTEM "{self.address}">]>'

    def element(self) -> str:
        """Return the element that reads it."""
        return "<custom>&outside;</custom>"
