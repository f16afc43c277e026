"""Text as it goes out. Pure."""


def plain_text(text: str) -> str:
    """Return text as just a `str`: a member of a text enumeration shows as its name."""
    return text if type(text) is str else str.__str__(text)
