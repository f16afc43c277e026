"""Files that commands write: put in place whole, over nothing, and never lost."""

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway_async.cli.files.formats import Format
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.errors import ConfigurationError


class _Full(io.BytesIO):
    """A disk that takes no more."""

    def write(self, _: object, /) -> int:
        raise OSError(28, "No space left on device")

    def fileno(self) -> int:
        return -1


def test_outcomes_go_elsewhere_where_their_file_takes_no_more(tmp_path: Path) -> None:
    warnings: list[str] = []
    with out_file(
        tmp_path / "out.csv", Format.CSV, existing=Existing.SET_ASIDE, warn=warnings.append
    ) as out:
        object.__setattr__(out, "_file", _Full())
        out.write_all(["order_no"], lambda: [{"order_no": "O1"}])
    (warning,) = warnings
    assert "No space left on device" in warning
    other = Path(warning.rpartition(" ")[2])
    assert other.read_text() == "order_no\nO1\n"
    other.unlink()


def test_half_of_the_outcomes_is_not_put_in_place(tmp_path: Path) -> None:
    warnings: list[str] = []

    def rows(turns: list[int] = [0, 1]) -> Iterator[Mapping[str, str]]:  # noqa: B006  # once each
        yield {"order_no": "O1"}
        if not turns.pop(0):
            raise OSError(28, "No space left on device")

    with out_file(
        tmp_path / "out.jsonl", Format.JSONL, existing=Existing.SET_ASIDE, warn=warnings.append
    ) as out:
        out.write_all(["order_no"], rows)
    assert [*tmp_path.iterdir()] == []
    assert out.place.read_text() == '{"order_no":"O1"}\n'
    assert str(out.place) in warnings[0]
    out.place.unlink()


def test_runs_that_end_together_do_not_write_over_each_other(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    with out_file(path, Format.CSV, existing=Existing.SET_ASIDE, warn=warnings.append) as out:
        path.write_text("of another run\n")
        out.write_all(["order_no"], list)
    assert path.read_text() == "order_no\n"
    assert (tmp_path / "out.csv.1").read_text() == "of another run\n"
    assert warnings == [f"{path} was there already; it is now {path}.1"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        taken = out_file(path, Format.CSV, existing=Existing.SET_ASIDE_AT_END, warn=print)
        with pytest.raises(ConfigurationError, match="is no file"), taken:
            pass


def test_what_was_looked_up_replaces_nothing_and_only_where_it_is_whole(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    path.write_text("the only record\n")

    def look_up(text: str, ended: type[BaseException] | None = None) -> None:
        existing = Existing.SET_ASIDE_AT_END
        with out_file(path, Format.CSV, existing=existing, warn=warnings.append) as out:
            out.write_all([text], list)
            if ended is not None:
                raise ended

    with pytest.raises(KeyboardInterrupt):
        look_up("half", KeyboardInterrupt)
    assert path.read_text() == "the only record\n"
    look_up("whole")
    assert warnings == [f"{path} was there already; it is now {path}.1"]
    assert Path(f"{path}.1").read_text() == "the only record\n"
    assert path.read_text() == "whole\n"


def test_a_file_of_a_job_is_kept_under_another_name(tmp_path: Path) -> None:
    warnings: list[str] = []
    for text in ("one", "two", "three"):
        with out_file(
            tmp_path / "out.csv", Format.CSV, existing=Existing.SET_ASIDE, warn=warnings.append
        ) as out:
            out.write_all([text], list)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "out.csv": "three\n",
        "out.csv.1": "one\n",
        "out.csv.2": "two\n",
    }
    assert len(warnings) == 2
