"""Vendors that run composites whole or take their pieces, from a float model to executed results.

The executor (tests/vendors/sequence_npu) works on integers and knows nothing of the interpreter:
the qparams of what a composite computes on the way are those on the op.
"""

# pyright: basic
from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import qdialect as qd
from qdialect.analysis.codes import qparams_of
from qdialect.interpreter import Interpreter
from qdialect.ir.ops.component_keys import role_keys
from qdialect.ir.ops.component_qparams import component_types
from qdialect.ir.ops.keys import keys_of
from qdialect.ir.quant import quant_element
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY
from qdialect.quantizer.recipe import Recipe
from qdialect.rewrite.refused import refused_by_target
from qdialect.targets.base import Target
from tests.generators.onnx_net import Net
from tests.support.vendors import CAN_BUILD, NEEDS, ROOT, call, install
from tests.vendors.sequence_npu import PIECES8, PIECES16, WHOLE, WHOLE8, WHOLE16
from tests.vendors.sequence_npu.executor import Executor

VENDORS = {8: (WHOLE8, PIECES8), 16: (WHOLE16, PIECES16)}
TARGETS = {target.name: target for pair in VENDORS.values() for target in pair}
STEPS, WIDTH, HEADS = 5, 16, 2


def recurrent(kind: str) -> onnx.ModelProto:
    """A layer whose last states nobody takes, behind a transpose, and a classifier."""
    net, gates = Net((1, STEPS, 6), 17), {"LSTM": 4, "GRU": 3}[kind]
    x = net.op("Transpose", ["x"], perm=[1, 0, 2])
    sizes = ((1, gates * 8, 6), (1, gates * 8, 8), (1, 2 * gates * 8))
    weights = [net.normal(*size, deviation=0.4) for size in sizes]
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    y = net.op(kind, [x, *weights], hidden_size=8, **more)
    net.nodes[-1].output.extend(["last_h", "last_c"][: gates - 2])
    y = net.op("Squeeze", [y, net.ints(1)])
    y = net.op("Gather", [y, net.constant(np.int64(-1))], axis=0)
    y = net.layer_norm(y, 8)
    return net.model(net.op("Softmax", [net.linear(y, 8, 4)], axis=-1))


def spelled_norm(net: Net, x: str) -> str:
    """A layer norm as exporters wrote it before it was an op."""
    centered = net.op("Sub", [x, net.op("ReduceMean", [x], axes=[-1])])
    square = net.op("ReduceMean", [net.op("Pow", [centered, net.scalar(2)])], axes=[-1])
    root = net.op("Sqrt", [net.op("Add", [square, net.scalar(1e-5)])])
    scale, bias = (net.normal(WIDTH, deviation=0.3) for _ in range(2))
    normal = net.op("Mul", [net.op("Div", [centered, root]), scale])
    return net.op("Add", [normal, bias])


def gelu(net: Net, x: str, form: str) -> str:
    """By erf, or by tanh with a power of 3."""
    if form == "erf":
        inner = net.op("Erf", [net.op("Div", [x, net.scalar(math.sqrt(2))])])
    else:
        cube = net.op("Mul", [net.op("Pow", [x, net.scalar(3)]), net.scalar(0.044715)])
        factor = net.scalar(math.sqrt(2 / math.pi))
        inner = net.op("Tanh", [net.op("Mul", [net.op("Add", [x, cube]), factor])])
    product = net.op("Mul", [x, net.op("Add", [inner, net.scalar(1)])])
    return net.op("Mul", [product, net.scalar(0.5)])


def block(form: str) -> onnx.ModelProto:
    """A block of a transformer: its norms are ops with a GELU by erf, and spelled with one by
    tanh."""
    net = Net((1, 6, WIDTH), 17)
    norm = net.layer_norm if form == "erf" else lambda x, width: spelled_norm(net, x)
    y = norm("x", WIDTH)
    shape, perm = net.ints(1, 6, HEADS, WIDTH // HEADS), [0, 2, 1, 3]
    heads = [net.op("Reshape", [net.linear(y, WIDTH, WIDTH), shape]) for _ in range(3)]
    q, v = (net.op("Transpose", [heads[n]], perm=perm) for n in (0, 2))
    scores = net.op("MatMul", [q, net.op("Transpose", [heads[1]], perm=[0, 2, 3, 1])])
    scores = net.op("Div", [scores, net.scalar(math.sqrt(WIDTH // HEADS))])
    y = net.op("MatMul", [net.op("Softmax", [scores], axis=-1), v])
    y = net.op("Transpose", [y], perm=perm)
    y = net.linear(net.op("Reshape", [y, net.ints(1, 6, WIDTH)]), WIDTH, WIDTH)
    x = net.op("Add", ["x", y])
    y = gelu(net, net.linear(norm(x, WIDTH), WIDTH, 32), form)
    return net.model(net.op("Add", [x, net.linear(y, 32, WIDTH)]))


def normalized() -> onnx.ModelProto:
    """A local response normalization between convolutions."""
    net = Net((1, 3, 8, 8), 17)
    x = net.op("LRN", [net.conv("x", 8, 3)], size=5, alpha=0.5, beta=0.75, bias=2.0)
    return net.model(net.head(net.op("Relu", [x]), 5))


NETS = {
    "lstm": (lambda: recurrent("LSTM"), {"nn.lstm": 1, "nn.layer_norm": 1, "nn.softmax": 1}),
    "gru": (lambda: recurrent("GRU"), {"nn.gru": 1, "nn.layer_norm": 1, "nn.softmax": 1}),
    "block": (lambda: block("erf"), {"nn.layer_norm": 2, "nn.softmax": 1, "nn.gelu": 1}),
    "spelled": (lambda: block("tanh"), {"nn.layer_norm": 2, "nn.softmax": 1, "nn.gelu": 1}),
    "lrn": (normalized, {"nn.lrn": 1}),
}
KEPT = {name: net[1] for name, net in NETS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The networks, and data for each."""
    folder, rng = tmp_path_factory.mktemp("networks"), np.random.default_rng(3)
    for name, (build, _) in NETS.items():
        model = build()
        onnx.save(model, folder / f"{name}.onnx")
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        np.savez(folder / f"{name}.npz", x=rng.normal(size=(12, *shape)).astype("f4"))
    return folder


@cache
def profiled(path: Path) -> tuple[qd.Model, qd.Profile]:
    model = qd.load(path)
    return model, qd.quantize(model, path.with_suffix(".npz"), recipe=Recipe()).profile


@cache
def compiled(path: Path, name: str) -> qd.Model:
    """A network quantized for a target, which runs all of it."""
    return quantized(path, TARGETS[name])


def quantized(path: Path, target: Target) -> qd.Model:
    model, profile = profiled(path)
    result = qd.quantize(model, profile=profile, target=target, recipe=Recipe.of_target(target))
    assert not result.coverage.left, result.coverage.left
    return served(result.model, target)


def served(model: qd.Model, target: Target) -> qd.Model:
    """A model of which the target refuses nothing, on the integers that it has."""
    ctx = model.ctx.clone()
    ctx.target = target
    assert not [reason for op in model.module.walk() if (reason := refused_by_target(ctx, op))]
    assert not any(op.name == "nn.div" for op in model.module.walk())
    model.module.attributes.pop(ARITHMETIC_KEY, None)
    return model


def kept(model: qd.Model) -> Counter[str]:
    """The composites that are whole, each with the qparams of all of its components."""
    found = [op for op in model.module.walk() if op.name in WHOLE]
    for op in found:
        table = model.ctx.components[op.name]
        roles = set(table.roles_of(op)) - set(table.result_roles(op))
        assert component_types(op).keys() >= roles, op
    return Counter(op.name for op in found)


def executed(model: qd.Model, path: Path, run=None) -> list[np.ndarray]:
    """Codes or floats for a few samples: of the executor, or of something else."""
    (argument,) = model.function().body.block.args
    q, found, run = qparams_of(argument), [], run or Executor(model).run
    for x in np.load(path.with_suffix(".npz"))["x"][:3]:
        if q is not None:
            codes = np.rint(x.astype("f8") / q.scale) + q.zero_point
            x = np.clip(codes, q.storage.min, q.storage.max).astype(f"i{q.storage.width // 8}")
        found.append(run(x)[0])
    return found


def interpreted(model: qd.Model, path: Path) -> list[np.ndarray]:
    machine = Interpreter(model.ctx, model.module)
    return executed(model, path, lambda x: machine.run([x]))


def decibels(model: qd.Model, path: Path, found: list[np.ndarray]) -> float:
    """How far the error of an output is below that of the float network."""
    (*_, last) = model.function().body.block.ops
    q = qparams_of(last.operands[0])
    floats, signal, noise = profiled(path)[0], 0.0, 0.0
    for x, y in zip(np.load(path.with_suffix(".npz"))["x"], found, strict=False):
        (real,) = qd.run(floats, {"x": x}).values()
        y = y if q is None else (y.astype("f8") - q.zero_point) * q.scale
        signal, noise = signal + float((real**2).sum()), noise + float(((real - y) ** 2).sum())
    return 10 * math.log10(signal / noise)


@pytest.mark.parametrize("bits", VENDORS)
@pytest.mark.parametrize("name", NETS)
def test_from_a_float_model_to_executed_results(folder: Path, name: str, bits: int) -> None:
    path, (whole, pieces) = folder / f"{name}.onnx", VENDORS[bits]
    first, second = compiled(path, whole.name), compiled(path, pieces.name)
    assert kept(first) == KEPT[name] and not kept(second)
    # Pieces are executed as the interpreter defines them, bit for bit.
    codes = executed(second, path)
    assert all(map(np.array_equal, codes, interpreted(second, path)))
    # Microcode computes what the composite is in pieces on its component qparams, where 32 bits
    # hold its sums; it reads all of them but those of sums.
    machine = Executor(first)
    found = executed(first, path, machine.run)
    assert machine.whole == {name: 3 * count for name, count in KEPT[name].items()}
    assert all(role.endswith("sum") for role in machine.unread)
    lowered = qd.run_passes(first, "lower-composites{numerics=relaxed}", target="generic")
    if not kept(lowered):
        assert all(map(np.array_equal, found, interpreted(lowered, path)))
    else:
        assert bits == 16 and name in ("lstm", "gru")
    losses = [decibels(m, path, f) for m, f in ((first, found), (second, codes))]
    once = decibels(first, path, interpreted(first, path))  # a composite rounds once
    print(f"| {name} | {bits} | {losses[0]:.1f} | {losses[1]:.1f} | {once:.1f} |")
    least = {8: 25, 16: 70}[bits]
    assert min(losses) > least and once > losses[0] - 3


@pytest.mark.parametrize("bits", VENDORS)
@pytest.mark.parametrize("name", NETS)
def test_components_have_what_the_pieces_have(folder: Path, name: str, bits: int) -> None:
    first, second = (compiled(folder / f"{name}.onnx", target.name) for target in VENDORS[bits])
    pieces: dict[str, set[str]] = {}
    for op in second.module.walk():
        element = quant_element(op.results[0].type) if op.results else None
        for key in keys_of(op) if element else ():
            pieces.setdefault(key.partition("@")[0], set()).add(str(element))
    same = 0
    for op in (op for op in first.module.walk() if op.name in WHOLE):
        for role, kind in component_types(op).items():
            for key in role_keys(op, role):
                same += key in pieces
                assert str(kind) in pieces.get(key, {str(kind)}), key
    assert same >= (4 if name == "lrn" else 10)


@pytest.mark.parametrize("bits", VENDORS)
@pytest.mark.parametrize("name", ["lstm", "block", "lrn"])
def test_what_comes_lowered_comes_back_whole(folder: Path, name: str, bits: int) -> None:
    path, (whole, pieces) = folder / f"{name}.onnx", VENDORS[bits]
    floats, profile = profiled(path)
    lowered = qd.run_passes(floats, "lower-composites{numerics=ties}", target="generic")
    recipe = Recipe.of_target(whole)
    again = qd.quantize(lowered, profile=profile, target=whole, recipe=recipe).model
    assert kept(served(again, whole)) == KEPT[name]
    # Of codes, too; and one that is whole gets pieces for who takes these.
    first = compiled(path, whole.name)
    lowered = qd.run_passes(first, "lower-composites{numerics=relaxed}", target="generic")
    raised = served(qd.optimize(lowered, target=whole, numerics="relaxed"), whole)
    assert kept(raised) == KEPT[name]
    if name != "lstm" or bits == 8:
        retargeted = served(qd.optimize(first, target=pieces, numerics="relaxed"), pieces)
        assert not kept(retargeted)
        assert decibels(retargeted, path, executed(retargeted, path)) > {8: 25, 16: 65}[bits]


def test_components_are_in_the_domain_of_tensors(folder: Path) -> None:
    kinds = frozenset({"i16 zero=0 scale=2^n", "i32 zero=0"})
    shifts = replace(WHOLE16, name="shifts", storages=kinds)
    for name in ("gru", "spelled"):
        model = quantized(folder / f"{name}.onnx", shifts)
        assert kept(model) == KEPT[name]
        for op in model.module.walk():
            for kind in component_types(op).values():
                assert math.frexp(kind.qparams.scale)[0] == 0.5 and kind.qparams.zero_point == 0
        path = folder / f"{name}.onnx"
        assert decibels(model, path, executed(model, path)) > 65


@pytest.mark.skipif(not CAN_BUILD, reason=NEEDS)
def test_through_the_commands(folder: Path, tmp_path: Path) -> None:
    site = install(ROOT / "tests" / "vendors", tmp_path / "vendors")
    path, qopt = folder / "spelled.onnx", "qdialect.cli.qopt"
    for target, lowest in (("sequence16", 70), ("sequence16_pieces", 70)):
        out = tmp_path / f"{target}.mlir"
        data = ["-d", str(path.with_suffix(".npz")), "-o", str(out), "--target", target]
        done = call(site, [qopt, "quantize", str(path), *data, "--require-all"])
        assert done.returncode == 0, done.stderr
        model = qd.load(out)
        model.module.attributes.pop(ARITHMETIC_KEY, None)
        assert kept(model) == ({} if "pieces" in target else KEPT["spelled"])
        assert decibels(model, path, executed(model, path)) > lowest
    back = tmp_path / "back.mlir"
    command = [qopt, "optimize", str(tmp_path / "sequence16.mlir"), "-o", str(back)]
    done = call(site, [*command, "--target", "sequence16_pieces", "--numerics", "relaxed"])
    assert done.returncode == 0, done.stderr
    assert not kept(qd.load(back))


@pytest.mark.filterwarnings("ignore")
def test_attention_as_pytorch_exports_it(tmp_path: Path) -> None:
    """Its scale is computed of a shape; both products have its root."""
    torch = pytest.importorskip("torch")

    class Attend(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x * 0.5, x)

    path, data = tmp_path / "net.onnx", torch.randn(12, 1, 2, 6, 8)
    torch.onnx.export(Attend(), (data[0],), path, dynamo=False, opset_version=17, input_names=["x"])
    np.savez(path.with_suffix(".npz"), x=data.numpy())
    model = quantized(path, WHOLE16)
    assert kept(model) == {"nn.softmax": 1}
    assert decibels(model, path, executed(model, path)) > 70
