"""The examples that are programs run, and say what their pages show."""

from tests.support.postgres import postgres_url
from tests.support.processes import ROOT, Done, run_python

EXAMPLES = ROOT / "docs" / "examples"


def _run(name: str, *arguments: str) -> Done:
    return run_python("-W", "error", EXAMPLES / name, *arguments, PYTHONPATH=str(ROOT))


def test_a_reconciliation_finds_both_differences() -> None:
    done = _run("reconcile.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == [
        "S00000041 amount 25.00",
        "S00000071 refund_absent_at_gateway 0",
        "1,000 entries: 998 matched, 2 differing, 0 unanswered",
    ]


def test_procrastinate_runs_the_slices_of_a_job() -> None:
    with postgres_url() as url:
        done = _run("procrastinate_workers.py", url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 succeeded\n"
    assert done.stderr.splitlines()[-1] == "1000 of 1000 orders"


def test_spans_are_printed_as_their_page_shows() -> None:
    done = _run("telemetry.py")
    assert (done.returncode, done.stderr) == (0, "")
    page = EXAMPLES.parent / "how-to" / "telemetry.md"
    assert f"```text\n{done.stdout}```" in page.read_text()
