"""The module that worker processes import: ``taskiq worker tests.workers.app:broker``."""

import os
from typing import Any

from taskiq_aio_pika import AioPikaBroker

from gateway_async.workers import Workers
from gateway_async.workers.rabbit import rabbit_broker
from tests.support.processes import START, client_from, read_start


def make_workers(start: dict[str, Any]) -> tuple[AioPikaBroker, Workers]:
    """Make what a process submits jobs with, or runs them."""
    broker = rabbit_broker(start["amqp"], queue=start["queue"], slices_at_once=start["tasks"])
    workers = Workers(broker, lambda: client_from(start), start["journal"], policy=start["workers"])
    return broker, workers


if START in os.environ:
    broker, jobs = make_workers(read_start())
