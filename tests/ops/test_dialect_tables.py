"""The tables by which ops are found without importing all of them are complete."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from qdialect.ir import ops as nn
from qdialect.ir import quant
from qdialect.ir.behaviors import __all__ as behavior_names
from qdialect.ir.context import new_context
from qdialect.ir.ops import registry


def _ops() -> dict[str, type[Operation]]:
    """The ops that the files define, by name."""
    modules = [import_module(f"qdialect.ir.ops.{info.name}") for info in iter_modules(nn.__path__)]
    kinds = [kind for module in modules for kind in vars(module).values()]
    return {
        kind.name: kind
        for kind in kinds
        if isinstance(kind, type)
        and issubclass(kind, IRDLOperation)
        and vars(kind).get("name", "").startswith("nn.")
    }


def test_every_op_of_the_files_is_found() -> None:
    assert sorted(_ops()) == sorted(nn.op_names())
    assert {op.name: op for op in nn.NN.operations} == _ops()
    assert [op.name for op in nn.NN.operations] == nn.op_names()
    assert {op.name for op in nn.all_ops()} == {*nn.op_names()} - {"nn.constant"}
    assert all(getattr(nn, op.__name__) is op for op in _ops().values())


def test_every_op_declares_its_behavior() -> None:
    assert all(op.behavior().op == op.name for op in nn.all_ops())


def test_an_op_is_found_alone_or_with_its_dialect() -> None:
    for op in _ops().values():
        early, late = new_context(), new_context()
        late.load_registered_dialect("nn")
        assert early.get_optional_op(op.name) is op
        assert late.get_optional_op(op.name) is op
    assert new_context().get_optional_op("nn.relux") is None
    assert new_context().clone().get_optional_op("nn.relu") is nn.ReluOp


def test_the_package_names_every_op_and_helper() -> None:
    found = {name for name in registry.files() if "." not in name}
    helpers = {"NN", "all_ops", "default_behaviors", "default_components", "find_op", "op_names"}
    assert len(nn.__all__) == len(set(nn.__all__)) and set(nn.__all__) == found | helpers
    assert all(hasattr(nn, name) for name in nn.__all__)


X = "tensor<1x1x2x4xf32>"


@pytest.mark.parametrize(
    "op",
    [
        f'nn.layer_norm %x, %s {{nn.piece_keys = {{"mean/sum" = "a"}}}} : ({X}, tensor<4xf32>)',
        f'nn.attention %x, %x, %x scale 0.5 {{nn.piece_keys = {{"softmax/exp" = "a"}}}}'
        f" : ({X}, {X}, {X})",
    ],
)
def test_roles_of_pieces_are_known_before_anything_else_is_imported(
    op: str, tmp_path: Path
) -> None:
    path = tmp_path / "piece.mlir"
    path.write_text(
        f"func.func @f(%x: {X}, %s: tensor<4xf32>) -> {X} {{\n"
        f"  %0 = {op} -> {X}\n  return %0 : {X}\n}}\n"
    )
    code = f"import sys; from qdialect.cli.opt import main; sys.exit(main([{str(path)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("package", [nn, quant])
def test_every_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing  # type: ignore[attr-defined]


def test_every_name_of_the_behaviors_is_there() -> None:
    package = import_module("qdialect.ir.behaviors")
    assert all(getattr(package, name) is not None for name in behavior_names)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
