from collections.abc import AsyncIterator, Iterator

import pytest
import trustme

from gateway_async.sandbox import Sandbox
from tests.faults.trial import Trial
from tests.support.servers import Proxy


@pytest.fixture
async def proxy(sandbox: Sandbox) -> AsyncIterator[Proxy]:
    async with Proxy(sandbox.base_url) as proxy:
        yield proxy


@pytest.fixture(params=["query", "refund", "pay_direct", "payout"])
def trial(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[Trial]:
    """A look-up, refund, payment or payout; what the client said must be true at the end."""
    trial = Trial(sandbox, request.param)
    yield trial
    trial.check()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """An authority of certificates that nobody trusts by itself."""
    return trustme.CA()
