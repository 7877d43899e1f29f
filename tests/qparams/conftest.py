"""Prints the number of oracle cases per operation and outcome (visible with `-s`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from qparams_oracle import CASES


@pytest.fixture(scope="session", autouse=True)
def oracle_counts() -> Iterator[None]:
    yield
    print()
    for name, count in sorted(CASES.items()):
        print(f"{name:40} {count:7}")
    print(f"{'total':40} {sum(CASES.values()):7}")
