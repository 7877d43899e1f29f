"""Every row of the vocabulary: exported, read, and equal to eager PyTorch.

The object and its file are read alike; the interpreter and ONNX Runtime give what PyTorch gives,
integers exactly and floats within the error of float32.  A sample of the cases runs here.
"""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.engines.local import Numpy
from qdialect.interpreter import argument_names
from qdialect.plugins.onnx.engine import OnnxRuntime

torch = pytest.importorskip("torch", reason="needs PyTorch")

from tests.formats.torch import vocabulary  # noqa: E402

CASES = vocabulary.cases()
SAMPLE = CASES[::4]
"""Cases that run as they are exported."""

KEPT = {"bilinear_form": "aten.bilinear.default", "cdist": "aten.cdist.default"}
"""Cases with ops that neither we nor ONNX have."""


class _Module(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def exported(function: Any, text: str, **options: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """The program of a case, its inputs, and what eager PyTorch gives."""
    module = function if isinstance(function, torch.nn.Module) else _Module(function)
    inputs = vocabulary.inputs_of(text)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), inputs, **options)
        results = copy.deepcopy(module)(*copy.deepcopy(inputs))
    leaves = torch.utils._pytree.tree_leaves(results)
    return program, inputs, [leaf.detach().numpy() for leaf in leaves]


def check(model: qd.Model, inputs: tuple[Any, ...], expected: list[Any], *engines: Any) -> None:
    """The results of a model are those of PyTorch."""
    names = argument_names(model.function())
    feeds = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
    for engine in engines:
        run = engine.open(model.module, model.ctx, source=None, optimize=True)
        results = list(run(feeds).values())[: len(expected)]
        for result, reference in zip(results, expected, strict=True):
            assert result.shape == reference.shape
            if reference.dtype.kind in "bui":
                assert result.dtype == reference.dtype
                np.testing.assert_array_equal(result, reference)
            else:
                np.testing.assert_allclose(result, reference, rtol=3e-5, atol=1e-5)


def kept(model: qd.Model) -> list[str]:
    """The ops that stay PyTorch's."""
    return [op.target.data for op in model.function().walk() if op.name == "torch.node"]


@pytest.mark.parametrize("case", SAMPLE, ids=[case[0] for case in SAMPLE])
def test_as_exported(case: vocabulary.Case, tmp_path: Path) -> None:
    name, function, text = case
    program, inputs, expected = exported(function, text)
    model = qd.from_torch(program)
    assert kept(model) == ([KEPT[name]] if name in KEPT else [])
    engines = [Numpy()] if name in KEPT or name == "half" else [Numpy(), OnnxRuntime()]
    check(model, inputs, expected, *engines)


@pytest.mark.parametrize("case", CASES[2::12], ids=[case[0] for case in CASES[2::12]])
def test_decomposed(case: vocabulary.Case) -> None:
    program, inputs, expected = exported(*case[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = qd.from_torch(program.run_decompositions())
    check(model, inputs, expected, Numpy())


@pytest.mark.parametrize("name", ["writes", "lstm_all", "embedding", "cumulative", "half"])
def test_file_and_object_are_read_alike(name: str, tmp_path: Path) -> None:
    function, text = next(case[1:] for case in CASES if case[0] == name)
    program, inputs, expected = exported(function, text)
    torch.export.save(program, str(tmp_path / "m.pt2"))
    model, live = qd.load(tmp_path / "m.pt2"), qd.from_torch(program)
    assert str(model).replace(str(tmp_path / "m.pt2"), "<program>") == str(live)
    check(model, inputs, expected, Numpy())


def test_written_tensors_are_those_of_pytorchs_own_rewriting() -> None:
    program, inputs, expected = exported(vocabulary.writes, "f:4x3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functional = program.run_decompositions({})
    for form in (program, functional):
        check(qd.from_torch(form), inputs, expected, Numpy())


def test_a_written_buffer_is_an_output_and_a_remark() -> None:
    program, inputs, _ = exported(vocabulary.Cumulative(), "f:3")
    model = qd.from_torch(program)
    run = Numpy().open(model.module, model.ctx, source=None, optimize=False)
    results = run({"x": inputs[0].numpy()})
    assert list(results) == ["mul", "total"]
    np.testing.assert_array_equal(results["total"], inputs[0].numpy() + 1)
    remarks = [str(remark) for remark in model.ctx.remarks.remarks]
    assert any("the buffer 'total' is written" in remark for remark in remarks)


class _Sizes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions = torch.nn.Parameter(torch.arange(32.0).reshape(16, 2) / 7)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        y = x + self.positions[:length]
        mask = torch.arange(length)[:, None] >= torch.arange(length)[None]
        z = (y @ y.mT).masked_fill(~mask, -9.0)
        flat = z.reshape(batch, length * length)
        ones = torch.ones(batch, 1).expand(batch, length * length)
        return flat + ones, y[:, length - 1], torch.cat([y, y], 1).transpose(1, 2)


def test_symbolic_sizes() -> None:
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=16)
    module = _Sizes()
    program = torch.export.export(
        module, (torch.randn(2, 5, 2),), dynamic_shapes=({0: batch, 1: length},)
    )
    model = qd.from_torch(program)
    for sizes in ((2, 5), (1, 1), (3, 16), (8, 2)):
        x = torch.randn(*sizes, 2)
        with torch.no_grad():
            expected = [value.numpy() for value in module(x)]
        check(model, (x,), expected, Numpy(), OnnxRuntime())
