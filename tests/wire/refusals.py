"""What a refusal of a reply may show."""

from gateway_async.errors import ReplyUnreadableError

SECRET = "5ecret"
"""It stands in every body that is refused."""


def assert_tells_nothing(error: ReplyUnreadableError) -> None:
    """Check that an error quotes no body, and that none hangs on it."""
    assert SECRET not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None
