"""The checks of this project: `nox` runs them all, `nox -s tests` some, `nox -l` lists them."""

import shutil
from pathlib import Path

import nox

PROJECT = nox.project.load_toml("pyproject.toml")

EVERYTHING = ".[cli,journal,keyring,otel,speed,workers]"

nox.needs_version = ">=2025.5"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "imports", "tests", "lowest", "docs", "demo"]


def _group(name: str) -> list[str]:
    """Return the requirements of a dependency group."""
    return list(nox.project.dependency_groups(PROJECT, name))


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Run the tests on each interpreter that this machine has."""
    session.install("-e", EVERYTHING, *_group("tests"))
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """Run the tests with the oldest dependencies we allow.

    Of the slow ones, it runs those of the rooms that other packages than aiohttp carry.
    """
    session.install("uv")
    session.run(
        *("uv", "pip", "install", "--python", session.virtualenv.location),
        *("--resolution", "lowest-direct", "-e", EVERYTHING, *_group("tests")),
    )
    session.run("pytest", "-n", "auto", "-m", "not slow", *session.posargs)
    rooms = ("tests/cli", "tests/jobs", "tests/journal", "tests/workers")
    kills = "--ignore=tests/workers/test_faults.py"
    session.run("pytest", "-n", "auto", "-m", "slow", kills, *rooms, *session.posargs)


@nox.session(python=["3.13", "3.14", "3.15"])
def canary(session: nox.Session) -> None:
    """Run the tests with pre-releases of what our own classes reach into, and of Python."""
    session.install("-e", EVERYTHING, *_group("tests"))
    coming = ("aiohttp<4.0.0a0", "attrs", "cattrs")  # 4.0.0a0 and a1 are older than 3.x
    session.install("--pre", "--upgrade", *coming)
    versions = "from importlib.metadata import version as of; print(*map(of, %r))"
    session.run("python", "-c", versions % (("aiohttp", "attrs", "cattrs"),))
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*_group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("-e", EVERYTHING, *_group("types"), "nox")
    session.run("mypy")
    session.run("pytest", "tests/typed")


@nox.session
def imports(session: nox.Session) -> None:
    """Check that each layer imports only what stands below it."""
    session.install("-e", EVERYTHING, *_group("imports"))
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site; it needs no network once its packages are installed."""
    session.install("-e", EVERYTHING, "pytest", *_group("docs"))
    command = ("sphinx-build", "--fail-on-warning", "--keep-going", "-b", "html")
    session.run(*command, "docs", "build/site", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Make sdist and wheel, check them, and run the demo from the wheel alone."""
    session.install(*_group("release"))
    dist = Path("dist")
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    made = sorted(map(str, dist.iterdir()))
    session.run("twine", "check", "--strict", *made)
    (wheel,) = (name for name in made if name.endswith(".whl"))
    session.run("check-wheel-contents", wheel)
    bare = Path(session.create_tmp(), "bare").resolve()
    session.run("python", "-m", "venv", "--clear", str(bare))
    session.run(
        str(bare / "bin" / "pip"), "install", f"{Path(wheel).resolve()}[cli]", external=True
    )
    with session.chdir(bare):
        session.run(str(bare / "bin" / "gateway-async"), "demo", external=True)


@nox.session
def demo(session: nox.Session) -> None:
    """Run the installed command, away from the source tree."""
    session.install(".[cli]")
    command = Path(session.bin, "gateway-async")
    session.chdir(session.create_tmp())
    session.run(str(command), "demo")


@nox.session
def simulate(session: nox.Session) -> None:
    """Run seeds: `nox -s simulate -- --seeds 100000 --start 0 --jobs 2`."""
    session.install("-e", EVERYTHING, *_group("tests"))
    session.run("python", "-m", "tests.simulation", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Take out the safety rules one by one, and see that each is missed."""
    session.install("-e", EVERYTHING, *_group("tests"))
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def workers(session: nox.Session) -> None:
    """Let faults strike workers and broker: `nox -s workers -- --refunds 20000`."""
    session.install("-e", EVERYTHING, *_group("tests"))
    session.run("python", "-m", "tests.workers", *session.posargs)


@nox.session
def kills(session: nox.Session) -> None:
    """Kill processes that run jobs: `nox -s kills -- --runs 2000 --start 0 --jobs 2`."""
    session.install("-e", EVERYTHING, *_group("tests"))
    session.run("python", "-m", "tests.kills", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run all benchmarks, and write their results, table and chart; `-- NAME ...` runs some."""
    session.install("-e", EVERYTHING, *_group("bench"), *_group("tests"))
    session.run("python", "-m", "benchmarks", *session.posargs)
