"""HTML, put together so that no text can become markup.

Law: everything but `Markup` is escaped. Only this module makes `Markup` of text that is not its
own.
"""

import html
import re

LONGEST_TEXT = 300
"""Characters of a text that are shown: what comes from a gateway may be of any length."""

_UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "link", "rect", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        content: `Markup` as it is; everything else as text.
        attributes: Their values as text; a name may end in `_`, and `_` within it stands for `-`.
            True gives an attribute without a value, None and False none at all.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: object) -> Markup:
    """Return one piece of HTML after the other."""
    return Markup("".join(one if isinstance(one, Markup) else escaped(one) for one in content))


def foreign(value: object) -> Markup:
    """Return text of the gateway's or of a file: cut short, and in its own writing direction."""
    text = str(value)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}…"
    return element("bdi", text)


def escaped(value: object) -> str:
    """Escape a text; characters that HTML does not allow are replaced."""
    return html.escape(_UNSHOWN.sub("\ufffd", str(value)))


def raw(name: str, text: str) -> Markup:
    """Return a style sheet or script of ours, which must be as it is.

    Raises:
        ValueError: If it could end itself.
    """
    if "</" in text or "<!--" in text:
        raise ValueError(f"{name}: its text could end the element")
    return Markup(f"<{name}>{text}</{name}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{escaped(value)}"'
