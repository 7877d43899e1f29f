"""Random networks; many more with `python tests/lowerings/random_networks.py`."""

from __future__ import annotations

import pytest
from engine_support import agree
from random_networks import network


@pytest.mark.parametrize("engine", ["tosa-reference", "mlir-runner"])
@pytest.mark.parametrize("seed", range(4))
def test_random_network(seed: int, engine: str) -> None:
    assert agree(network(seed), engine, target="generic")


def test_random_network_in_iree() -> None:
    assert agree(network(4), "iree", target="generic")


@pytest.mark.parametrize("seed", range(5, 8))
def test_random_network_in_linalg(seed: int) -> None:
    assert agree(network(seed), "mlir-runner", to="linalg", target="generic")
