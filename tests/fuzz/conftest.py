"""How often replies are mutated: the usual run is short, and each run is always the same.

Longer runs, for the night: `pytest tests/fuzz --hypothesis-profile=long`.
"""

from hypothesis import settings

settings.register_profile("long", settings.get_profile("no-clock"), max_examples=10_000)


def times(usual: int, *, long: int | None = None) -> int:
    """Return how many examples there are; a long run has a hundred times the usual ones."""
    if settings.get_current_profile_name() != "long":
        return usual
    return 100 * usual if long is None else long
