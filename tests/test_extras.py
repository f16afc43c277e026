"""Modules that need an extra say which, where it is not installed."""

import importlib
import subprocess
import sys

import pytest

from gateway_async.errors import require_extra

WORKERS = "'gateway-async[workers]'"


@pytest.mark.parametrize(
    ("module", "missing", "install"),
    [
        ("gateway_async.workers.rabbit", "aio_pika", WORKERS),
        ("gateway_async.workers.rabbit", "taskiq", WORKERS),
        ("gateway_async.workers.rabbit", "taskiq_aio_pika", WORKERS),
        ("gateway_async.workers.rate", "psycopg", WORKERS),
        ("gateway_async.report", "jinja2", "'gateway-async[cli]'"),
        ("gateway_async.testing", "pytest", "pytest"),
        ("gateway_async.otel", "opentelemetry", "'gateway-async[otel]'"),
    ],
)
def test_a_module_names_the_extra_that_it_needs(
    module: str, missing: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = (f"{module}.", f"{missing}.")
    for name in [name for name in sys.modules if f"{name}.".startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert str(caught.value) == f"{module} needs {missing}: pip install {install}"


@pytest.mark.slow
def test_a_page_of_the_sandbox_names_the_extra_that_it_needs() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None; from gateway_async.sandbox import checkout; "
        "checkout.render('message')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)  # noqa: S603  # ours
    (*_, said) = done.stderr.decode().splitlines()
    needed = "a page of the sandbox needs jinja2: pip install 'gateway-async[sandbox]'"
    assert said == f"ModuleNotFoundError: {needed}"


def test_what_else_is_missing_is_told_as_it_is() -> None:
    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'nothing_like_it'"),
        require_extra("module", "package", install="package"),
    ):
        __import__("nothing_like_it")
