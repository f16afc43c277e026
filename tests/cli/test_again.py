"""The line that is printed to go on with: the same in every directory."""

import shlex
from pathlib import Path

import pytest

from gateway_async.cli.again import given_option, line_again, with_journal


@pytest.mark.parametrize(
    ("words", "given", "line"),
    [
        (
            "refund r.csv --out o.csv --yes",
            (Path("r.csv"),),
            "refund /d/r.csv --out /d/o.csv --yes",
        ),
        ("--yes refund --yes ./r.csv", (Path("r.csv"),), "--yes refund --yes /d/r.csv"),
        ("refund --job r.csv r.csv", (Path("r.csv"),), "refund --job r.csv /d/r.csv"),
        ("refund -- -r.csv", (Path("-r.csv"),), "refund -- /d/-r.csv"),
        ("refund - --out -", (Path("-"),), "refund - --out -"),
        ("refund /r.csv --out=o.csv", (Path("/r.csv"),), "refund /r.csv --out=/d/o.csv"),
        ("jobs resume night --secret_file s", ("night",), "jobs resume night --secret_file /d/s"),
        ("jobs --config c --report r.html", (), "jobs --config /d/c --report /d/r.html"),
        ("x --journal sqlite:///j.db", (), "x --journal sqlite:////d/j.db"),
        ("x --journal=sqlite:////a/j.db", (), "x --journal=sqlite:////a/j.db"),
        ("x --journal postgresql://me@db/x", (), "x --journal postgresql://me@db/x"),
        ("x --journal mysql://x", (), "x --journal mysql://x"),
        (
            "refund --allow-http r.csv --ca-file c --trust-env --client-cert=d",
            (Path("r.csv"),),
            "refund --allow-http /d/r.csv --ca-file /d/c --trust-env --client-cert=/d/d",
        ),
        ("x --report 'my r.html'", (), "x --report '/d/my r.html'"),
    ],
)
def test_paths_are_whole(
    words: str, given: tuple[object, ...], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/d") / path)
    assert line_again(shlex.split(words), given) == f"gateway-async {line}"


@pytest.mark.parametrize(
    ("line", "url", "more"),
    [
        ("jobs", None, ""),
        ("jobs", "sqlite:///j.db", " --journal sqlite:////d/j.db"),
        ("jobs", "sqlite:////a/j.db", ""),
        ("jobs", "postgresql://me:word@db/x", ""),
        ("jobs --journal=sqlite:////d/j.db", "sqlite:///j.db", ""),
        ("jobs --job a--journal", "sqlite:///j.db", " --journal sqlite:////d/j.db"),
    ],
)
def test_a_journal_that_is_another_elsewhere_is_named(
    line: str, url: str | None, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/d") / path)
    assert with_journal(line, url) == line + more


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("gateway-async refund o.csv --journal sqlite:///j.db", "sqlite:///j.db"),
        ("gateway-async refund o.csv --journal=sqlite:///j.db --yes", "sqlite:///j.db"),
        ("gateway-async refund my--journal.csv --out night--journal.csv", None),
    ],
)
def test_an_option_is_known_by_its_whole_name(line: str, value: str | None) -> None:
    assert given_option(line, "--journal") == value
