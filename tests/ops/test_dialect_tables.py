"""The tables by which ops are found without importing all of them are complete."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect import quant
from qdialect.behaviors import __all__ as behavior_names
from qdialect.context import new_context


def _ops() -> dict[str, list[type[Operation]]]:
    found = {
        info.name: getattr(import_module(f"qdialect.ops.{info.name}"), "OPS", [])
        for info in pkgutil.iter_modules(nn.__path__)
    }
    return {name: ops for name, ops in found.items() if ops}


def test_all_ops_of_the_modules_are_in_the_table() -> None:
    told = {module: [f"nn.{op}" for op in ops.split()] for module, ops in nn.OPS.items()}
    assert told == {module: [op.name for op in ops] for module, ops in _ops().items()}
    assert [op.name for op in nn.NN.operations] == [op for ops in told.values() for op in ops]


def test_an_op_is_found_alone_or_with_its_dialect() -> None:
    for ops in _ops().values():
        for op in ops:
            early, late = new_context(), new_context()
            late.load_registered_dialect("nn")
            assert early.get_optional_op(op.name) is op
            assert late.get_optional_op(op.name) is op
    assert new_context().get_optional_op("nn.relux") is None
    assert new_context().clone().get_optional_op("nn.relu") is nn.ReluOp


@pytest.mark.parametrize("package", [nn, quant])
def test_every_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing  # type: ignore[attr-defined]


def test_every_name_of_the_behaviors_is_there() -> None:
    package = import_module("qdialect.behaviors")
    assert all(getattr(package, name) is not None for name in behavior_names)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
