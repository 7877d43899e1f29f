"""A signal that asks a profile to end waits until a sample is counted whole."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.workflows.calibrate import undivided


def test_a_signal_inside_comes_after_it() -> None:
    done = []

    def work() -> None:
        with undivided():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with undivided():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_get_no_signals() -> None:
    seen = []

    def work() -> None:
        with undivided():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_a_sample_counts_whole() -> None:
    """The signal arrives while the second value of a sample is counted."""
    collector = Collector(Profile("digest", Settings()), undivided=undivided)
    keep = collector._keep

    def interrupted(index: int, keys: tuple[str, ...], *rest: object) -> None:
        if keys == ("b",):
            os.kill(os.getpid(), signal.SIGINT)
        keep(index, keys, *rest)  # pyright: ignore[reportArgumentType]

    collector._keep = interrupted  # pyright: ignore[reportAttributeAccessIssue]
    values = [((name,), np.arange(100, dtype=np.float32)) for name in "abc"]
    with pytest.raises(KeyboardInterrupt):
        collector.add(0, values)
    profile = collector.profile()
    assert profile.sample_count == 1
    counts = {name: entry.tensor.count for name, entry in profile.entries.items()}
    assert counts == dict.fromkeys("abc", 100)
