"""How often replies are mutated: the usual run is short, and each run is always the same."""

from hypothesis import settings

IS_LONG = settings.get_current_profile_name() == "long"


def times(usual: int) -> int:
    """Return how many examples there are, of which the usual run has so many."""
    return 100 * usual if IS_LONG else usual
