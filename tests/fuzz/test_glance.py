"""What is proved at a glance, `judge` finds as well; `python -m tests.fuzz.glance` tries more."""

from tests.fuzz.glance import run


def test_what_a_glance_proves_the_judge_finds() -> None:
    counts = run(5_000, seed=0)
    # It proves most right replies, and of the mutated ones those where nothing of meaning changed.
    assert counts["right, proved"] > 0.7 * counts["right"]
    assert counts["mutated, proved"] > 50
    # And the mutations matter: of those that were not proved, most are not right.
    assert counts["judged, wrong"] > 0.6 * counts["judged"]
