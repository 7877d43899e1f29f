"""Processes that do a part of the work each: on this machine, or those of a scheduler of Dask."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from qdialect.errors import InputError, UsageError


@contextmanager
def client_of(workers: str) -> Generator[tuple[Any, Any]]:
    """A client of a local cluster or of a scheduler, and `as_completed`."""
    distributed = _distributed()
    if workers.isdecimal():
        if int(workers) < 1:
            raise UsageError("--workers takes a number of processes or an address")
        with _no_interrupts():
            cluster = distributed.LocalCluster(
                n_workers=int(workers),
                threads_per_worker=1,
                dashboard_address=":0",  # any free port: others may run a cluster, too
                silence_logs=logging.CRITICAL,
            )
        with cluster, distributed.Client(cluster) as client:
            yield client, distributed.as_completed
        return
    try:
        client = distributed.Client(workers, timeout=20)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no scheduler at '{workers}': {error}", code="no-scheduler") from None
    with client:
        yield client, distributed.as_completed


@contextmanager
def _no_interrupts() -> Generator[None]:
    """Processes started here do not see Ctrl-C, which the terminal sends to all of them:
    stopping is for the one that started them."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise UsageError(
            "workers need dask.distributed",
            code="missing-package",
            notes=(f"{Path(sys.executable).name} -m pip install 'qdialect[dask]'",),
        ) from None
