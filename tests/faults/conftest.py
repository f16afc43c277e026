from collections.abc import AsyncIterator, Iterator

import pytest
import trustme

from gateway_async.sandbox import Sandbox
from tests.faults.trial import Trial
from tests.support.dragnet import SIGNER_SECRET
from tests.support.servers import Proxy


@pytest.fixture
async def sandbox(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Sandbox]:
    """A sandbox in which no handler breaks: aiohttp would log it and answer 500."""
    async with Sandbox(secret=SIGNER_SECRET) as sandbox:
        yield sandbox
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.fixture
async def proxy(sandbox: Sandbox) -> AsyncIterator[Proxy]:
    async with Proxy(sandbox.base_url) as proxy:
        yield proxy


@pytest.fixture(params=["query", "refund"])
def trial(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Trial]:
    """A look-up and a refund; what the client said must be true at the end."""
    trial = Trial(sandbox, request.param)
    yield trial
    trial.check()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """An authority of certificates that nobody trusts by itself."""
    return trustme.CA()
