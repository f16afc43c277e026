"""Files that commands write: put in place whole, over nothing, and never lost."""

import os
from decimal import Decimal
from pathlib import Path

import pytest

from gateway_async.cli.orders import to_text
from gateway_async.cli.tables import Format, OutFile, out_file
from gateway_async.errors import ConfigurationError


def write(path: Path, text: str, warnings: list[str]) -> OutFile:
    with out_file(path, Format.CSV, warnings.append) as out, out.writing([text]):
        pass
    return out


def test_half_of_the_outcomes_is_not_put_in_place(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("the only record\n")

    def end(error: BaseException) -> None:
        with out_file(path, Format.CSV, print) as out, out.writing(["order_no"]) as add:
            add({"order_no": "O1"})
            raise error

    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            end(error)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the only record\n"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigurationError, match="is no file"):
            write(path, "order_no", [])


def test_a_file_that_is_there_is_kept_under_another_name(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    for text in ("one", "two", "three"):
        write(path, text, warnings)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "out.csv": "three\n",
        "out.csv.1": "one\n",
        "out.csv.2": "two\n",
    }
    assert warnings[0] == f"{path} was there already; it is now {path}.1"


def test_outcomes_that_cannot_be_put_in_place_stay_where_they_are(tmp_path: Path) -> None:
    path, warnings = tmp_path / "out.csv", list[str]()
    with out_file(path, Format.CSV, warnings.append) as out:
        with out.writing(["order_no"]) as write:
            write({"order_no": "O1"})
        (path / "in the way").mkdir(parents=True)
    (warning,) = warnings
    assert out.problem in warning
    assert Path(warning.rpartition(" ")[2]).read_text() == "order_no\nO1\n"


@pytest.mark.parametrize("kind", Format)
def test_an_amount_with_a_huge_exponent_stays_short(tmp_path: Path, kind: Format) -> None:
    path = tmp_path / "out"
    with (
        path.open("wb") as file,
        OutFile(name="out", format=kind, file=file).writing(["amount"]) as write_row,
    ):
        write_row({"amount": Decimal("1e99999999")})
        write_row({"amount": Decimal("1e3")})
    assert "1E+99999999" in path.read_text()
    assert "1000" in path.read_text()
    assert to_text(Decimal("1e99999999")) == "1E+99999999"
