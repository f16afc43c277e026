from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway_async.journal import Journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with Journal.open(f"sqlite:///{tmp_path}/journal.db") as journal:
        yield journal
