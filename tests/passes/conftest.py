"""Prints how many programs and elements each rule was judged on (visible with `-s`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from rewrite_support import EXECUTED


@pytest.fixture(scope="session", autouse=True)
def contract_counts() -> Iterator[None]:
    yield
    print()
    for rule, counts in sorted(EXECUTED.items()):
        listed = " ".join(f"{what} {count}" for what, count in sorted(counts.items()))
        print(f"{rule:26} {listed}")
