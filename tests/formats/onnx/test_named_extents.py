"""Symbolic extents: their names through import and export, and numbers for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder
from xdsl.dialects.func import FuncOp

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import UsageError
from qdialect.ir.ops.priced_shapes import priced_shape


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    """y = softmax(q q') q of q = x w, batch and sequence open; one more input of no name."""
    b = ModelBuilder(17)
    b.input("x", ["batch", "sequence", 8])
    b.input("bias", [None, 8])
    b.const("w", np.eye(8, dtype=np.float32) * 0.5)
    q = b.node("Add", [b.node("MatMul", ["x", "w"], "p"), "bias"], "q")
    s = b.node("MatMul", [q, b.node("Transpose", [q], "t", perm=[0, 2, 1])], "s")
    b.node("MatMul", [b.node("Softmax", [s], "m", axis=-1), q], "y")
    b.output("y", shape=["batch", "sequence", 8])
    path = tmp_path / "attention.onnx"
    onnx.save(b.model(), path)
    return path


def types(model: qd.Model) -> tuple[list[str], list[str]]:
    function = next(op for op in model.module.ops if isinstance(op, FuncOp))
    kinds = function.function_type
    return [str(k) for k in kinds.inputs.data], [str(k) for k in kinds.outputs.data]


def declared(path: Path) -> list[list[int | str]]:
    graph = onnx.load(path).graph
    values = (*graph.input, *graph.output)
    return [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values]


@pytest.mark.parametrize("suffix", [".onnx", ".mlir", ".mlirbc"])
def test_a_bound_extent_is_a_number_everywhere(
    attention: Path, tmp_path: Path, suffix: str
) -> None:
    source = attention.with_suffix(suffix)
    if suffix != ".onnx":
        qd.save(qd.load(attention), source)
    model = qd.load(source, dims={"batch": 2})
    takes, gives = types(model)
    assert takes == ["tensor<2x?x8xf32>", "tensor<?x8xf32>"] and gives == ["tensor<2x?x8xf32>"]
    both = qd.load(source, dims={"batch": 2, "sequence": 5})
    assert types(both)[1] == ["tensor<2x5x8xf32>"]
    written = tmp_path / "bound.onnx"
    qd.save(model, written)
    assert declared(written)[0] == [2, "sequence", 8] and declared(written)[2] == [2, "sequence", 8]
    random = np.random.default_rng(0)
    inputs = {
        "x": random.normal(size=(2, 5, 8)).astype("f4"),
        "bias": random.normal(size=(5, 8)).astype("f4"),
    }
    wanted = qd.run(qd.load(attention), inputs)["y"]
    for other in (model, both):
        assert qd.run(other, inputs)["y"].tobytes() == wanted.tobytes()


def test_names_stay_without_numbers(attention: Path, tmp_path: Path) -> None:
    for name in ("again.onnx", "again.mlir"):
        qd.save(qd.load(attention), tmp_path / name)
    qd.save(qd.load(tmp_path / "again.mlir"), tmp_path / "last.onnx")
    for path in (attention, tmp_path / "again.onnx", tmp_path / "last.onnx"):
        assert declared(path)[0] == ["batch", "sequence", 8]


@pytest.mark.parametrize("suffix", [".onnx", ".mlir"])
@pytest.mark.parametrize("kind", ["dims", "typical_dims"])
def test_an_unknown_name_lists_the_known(attention: Path, suffix: str, kind: str) -> None:
    source = attention.with_suffix(suffix)
    if suffix != ".onnx":
        qd.save(qd.load(attention), source)
    with pytest.raises(UsageError, match="named 'lenght'; named are: batch, sequence"):
        qd.load(source, **{kind: {"lenght": 3}})  # pyright: ignore[reportArgumentType]


def test_extents_that_do_not_fit_are_one_error(tmp_path: Path) -> None:
    text = """
    func.func @f(%x: tensor<?xf32> {onnx.dims = ["n"]}, %y: tensor<4xf32>) -> tensor<4xf32> {
      %z = nn.add %x, %y : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %z : tensor<4xf32>
    }"""
    path = tmp_path / "sum.mlir"
    path.write_text(text)
    assert types(qd.load(path, dims={"n": 1}))[0] == ["tensor<1xf32>", "tensor<4xf32>"]
    with pytest.raises(UsageError, match=r"do not fit 'nn\.add'"):
        qd.load(path, dims={"n": 3})


def test_prices_take_a_typical_number(attention: Path) -> None:
    model = qd.load(attention, typical_dims={"sequence": 32})
    function = next(op for op in model.module.ops if isinstance(op, FuncOp))
    last = function.body.block.last_op
    assert last is not None and priced_shape(last.operands[0]) == (1, 32, 8)
    assert types(model)[0][0] == "tensor<?x?x8xf32>"


def test_flags(attention: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.onnx"
    flags = ["--dim", "batch=1", "--dim=sequence=6", "--check=0"]
    assert main(["optimize", str(attention), "-o", str(out), *flags]) == 0
    assert declared(out)[0] == [1, 6, 8]
    assert main(["inspect", str(attention), "--dim=batch=3", "--typical-dim=sequence=9"]) == 0
    assert "tensor<3x?x8xf32>" in capsys.readouterr().out
    assert main(["inspect", str(attention), "--dim", "batch=0"]) == 2
    assert "--dim takes NAME=N with N at least 1, not 'batch=0'" in capsys.readouterr().err
    assert main(["inspect", str(attention), "--dim", "b=1"]) == 2
    assert "named are: batch, sequence" in capsys.readouterr().err
