"""How many examples are run."""

from hypothesis import HealthCheck, settings

IS_LONG = settings.get_current_profile_name() == "long"


def examples(usual: int, long: int = 10_000) -> settings:
    """Return the settings of a test: the usual run is short and always the same."""
    return settings(
        max_examples=long if IS_LONG else usual,
        deadline=None,
        derandomize=not IS_LONG,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
