"""The module that worker processes import: ``taskiq worker tests.workers.app:broker``.

Which queue, journal and gateway they work with is in the file that `START` names.
"""

import json
import os
from pathlib import Path
from typing import Any

from taskiq_aio_pika import AioPikaBroker

from gateway_async import (
    BatchPolicy,
    Credentials,
    GatewayClient,
    HmacSigner,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.workers import WorkerPolicy, Workers
from gateway_async.workers.rabbit import rabbit_broker

START = "GATEWAY_TEST_WORKERS"


def make_gateway(start: dict[str, Any]) -> GatewayClient:
    """Make the client of one process."""
    return GatewayClient(
        start["base_url"],
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(start["secret"])),
        policy=BatchPolicy(**start["policy"]),
        recovery=RecoveryPolicy(**start["recovery"]),
        retry=RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.1),
    )


def make_workers(start: dict[str, Any]) -> tuple[AioPikaBroker, Workers]:
    """Make what a process submits jobs with, or runs them."""
    broker = rabbit_broker(start["amqp"], queue=start["queue"], slices_at_once=start["tasks"])
    workers = Workers(
        broker,
        lambda: make_gateway(start),
        start["journal"],
        policy=WorkerPolicy(**start["workers"]),
    )
    return broker, workers


if START in os.environ:
    broker, jobs = make_workers(json.loads(Path(os.environ[START]).read_bytes()))
