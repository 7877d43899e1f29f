"""A model as a torch module computes what the interpreter does."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.ir.context import new_context
from qdialect.ir.ops.registry import op_names
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY, IN_FLOATS
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.onnx.dialect import NodeOp
from tests.generators.networks import random_model
from tests.generators.programs import random_program

torch: Any = pytest.importorskip("torch", reason="modules are of PyTorch")
sys.path.insert(0, str(Path(__file__).parents[2] / "lowerings"))

from op_configurations import GROUPS, Program  # noqa: E402

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def own_warnings() -> Iterator[None]:
    """Warnings that PyTorch gives of itself are none of ours."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def model_of(text: str, *, in_floats: bool = False) -> qd.Model:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    if in_floats:
        module.attributes[ARITHMETIC_KEY] = IN_FLOATS
    return qd.Model(module, ctx)


def interpreted(model: qd.Model, inputs: Sequence[Array]) -> list[Array]:
    functions = KEPT_NODES
    return Interpreter(model.ctx, model.module, functions=functions).run(inputs)


def in_torch(module: Any, inputs: Sequence[Array]) -> list[Array]:
    given = [torch.from_numpy(np.array(array)) for array in inputs]
    with torch.no_grad():
        found = module(*given)
    parts = [found] if isinstance(found, torch.Tensor) else list(found)
    return [(p.float() if p.dtype == torch.bfloat16 else p).numpy() for p in parts]


def codes_apart(expected: Sequence[Array], found: Sequence[Array]) -> tuple[float, float]:
    """The largest difference of codes and the share that differ; floats must be near."""
    most, share = 0.0, 0.0
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype.kind == "f":
            largest = np.abs(np.where(np.isfinite(one), one, 0)).max(initial=1e-6)
            near = 2e-3 if one.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(other, one, rtol=near, atol=1e-5 * largest)
        elif one.size:
            apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
            most, share = max(most, apart.max()), max(share, (apart > 0).mean())
    return most, share


def check(model: qd.Model, samples: int = 2, seed: int = 0) -> tuple[float, float]:
    """What `codes_apart` says of some inputs, of which half have ends of the storage."""
    module = qd.to_torch(model)
    drawn = [random_inputs(model.function(), seed + n, boundary=n % 2 == 1) for n in range(samples)]
    pairs = [codes_apart(interpreted(model, x), in_torch(module, x)) for x in drawn]
    return max(most for most, _ in pairs), max(share for _, share in pairs)


@pytest.mark.parametrize("in_floats", [False, True], ids=["reals", "floats"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_every_configuration(group: Callable[[Program], None], in_floats: bool) -> None:
    program = Program()
    group(program)
    most, share = check(model_of(program.text, in_floats=in_floats))
    # Sums of floats are rounded in another order than numpy's: a tie may part by a step.
    sums = group.__name__ == "regions" or (
        in_floats and group.__name__ in ("convolutions", "pools")
    )
    assert most <= (1 if sums else 0) and share < 0.05


def test_random_programs() -> None:
    for seed in range(30):
        module, ctx = random_program(seed)
        for in_floats in (False, True):
            if in_floats:
                module.attributes[ARITHMETIC_KEY] = IN_FLOATS
            assert check(qd.Model(module, ctx), samples=1, seed=seed) == (0, 0), (seed, in_floats)


@pytest.mark.parametrize("name", [n for n in op_names() if n != "nn.constant"])
def test_every_op(name: str) -> None:
    """As programs of little else: with extreme scales, unknown extents and all storages."""
    for seed in range(2):
        module, ctx = random_program(seed, ops=3, names=[name])
        most, share = check(qd.Model(module, ctx), samples=1, seed=seed)
        assert (most, share) == (0, 0), seed


@pytest.mark.parametrize("seed", range(8))
def test_onnx_networks_before_and_after(seed: int, tmp_path: Path) -> None:
    """An op that stays an ONNX node is named, with its key."""
    import onnx

    onnx.save(random_model(seed), tmp_path / "m.onnx")
    model = qd.load(tmp_path / "m.onnx")
    for each in (model, qd.optimize(model)):
        kept = [op for op in each.function().walk() if isinstance(op, NodeOp)]
        if kept:
            first = rf"node '.*: the ONNX op '{kept[0].kind}' has no form in PyTorch"
            with pytest.raises(qd.UnsupportedError, match=first):
                qd.to_torch(each)
        else:
            assert check(each, samples=1, seed=seed) == (0, 0)


# -- elementwise, all codes -----------------------------------------------------------

ALL = np.arange(-128, 128).astype(np.int8)


@pytest.mark.parametrize("rounding", ["half_even", "half_away", "half_up"])
@pytest.mark.parametrize(
    "scales", [(0.05, 0.1), (0.1, 0.05), (0.3, 0.1), (1 / 3, 0.7), (0.02, 0.07)]
)
def test_rescales_of_all_codes(scales: tuple[float, float], rounding: str) -> None:
    a, b = (f"tensor<256x!quant.uniform<i8:f32, {s!r}:3>>" for s in scales)
    text = (
        f"func.func @main(%x: {a}) -> {b} {{\n"
        f"%y = quant.rescale %x rounding {rounding} : {a} to {b}\nfunc.return %y : {b}\n}}"
    )
    for in_floats in (False, True):
        model = model_of(text, in_floats=in_floats)
        expected, found = interpreted(model, [ALL]), in_torch(qd.to_torch(model), [ALL])
        assert codes_apart(expected, found) == (0, 0)


@pytest.mark.parametrize("shift", [0, 1, 30, 31, 32, 45, 62])
@pytest.mark.parametrize("rounding", ["half_even", "half_away", "half_up", "gemmlowp", "ruy"])
def test_fixed_point_of_all_codes(shift: int, rounding: str) -> None:
    a, b = (
        "tensor<256x!quant.uniform<i8:f32, 0.1:3>>",
        "tensor<256x!quant.uniform<u8:f32, 0.2:100>>",
    )
    text = (
        f"func.func @main(%x: {a}) -> {b} {{\n"
        f"%y = quant.rescale %x rounding {rounding} multiplier [1610612736] shift [{shift}] "
        f": {a} to {b}\nfunc.return %y : {b}\n}}"
    )
    model = model_of(text)
    assert codes_apart(interpreted(model, [ALL]), in_torch(qd.to_torch(model), [ALL])) == (0, 0)


@pytest.mark.parametrize("rounding", ["half_even", "reciprocal", "half_away"])
def test_quantizing_ties_infinities_and_nan(rounding: str) -> None:
    scale = float(np.float32(0.043))
    kind = f"tensor<2003x!quant.uniform<i8<-127:127>:f32, {scale!r}:5>>"
    text = (
        f"func.func @main(%x: tensor<2003xf32>) -> {kind} {{\n"
        f'%y = quant.qcast %x {{quant.rounding = "{rounding}"}} : tensor<2003xf32> to {kind}\n'
        f"func.return %y : {kind}\n}}"
    )
    ties = (np.arange(-1000, 1000) / 2).astype(np.float32) * np.float32(scale)
    x = np.concatenate([ties, np.array([np.nan, np.inf, -np.inf], np.float32)])
    model = model_of(text)
    assert codes_apart(interpreted(model, [x]), in_torch(qd.to_torch(model), [x])) == (0, 0)


# -- the module -------------------------------------------------------------------------

NETWORK = """
func.func @main(%x: tensor<2x3x8x8xf32> {nn.name = "image"}) -> tensor<2x4xf32> {
  %q = quant.qcast %x {nn.key = "quantize"} : tensor<2x3x8x8xf32> to tensor<2x3x8x8x!A>
  %w = nn.constant dense<WEIGHT> : tensor<4x3x3x3xi8> {nn.key = "features.0.weight"} : tensor<4x3x3x3x!W>
  %b = nn.constant dense<[0.5, -0.5, 0.25, 1.0]> : tensor<4xf32> {nn.key = "features.0.bias"} : tensor<4xf32>
  %y = nn.conv2d %q, %w, %b pads [1, 1, 1, 1] {nn.key = "features.0"} : (tensor<2x3x8x8x!A>, tensor<4x3x3x3x!W>, tensor<4xf32>) -> tensor<2x4x8x8x!B>
  %r = nn.relu %y {nn.key = "features/1"} : (tensor<2x4x8x8x!B>) -> tensor<2x4x8x8x!B>
  %m = nn.reduce_mean %r axes [2, 3] keepdims false {nn.key = "pool"} : (tensor<2x4x8x8x!B>) -> tensor<2x4x!B>
  %z = quant.dcast %m {nn.key = "dequantize"} : tensor<2x4x!B> to tensor<2x4xf32>
  func.return %z : tensor<2x4xf32>
}
"""  # noqa: E501


def network(*, in_floats: bool = False) -> qd.Model:
    rng = np.random.default_rng(1)
    text = NETWORK.replace("WEIGHT", str(rng.integers(-128, 128, (4, 3, 3, 3)).tolist()))
    for name, params in (
        ("!A", "i8:f32, 0.02:3"),
        ("!B", "u8:f32, 0.06:20"),
        ("!W", "i8:f32:0, {0.002, 0.003, 0.0025, 0.001}"),
    ):
        text = text.replace(name, f"!quant.uniform<{params}>")
    return model_of(text, in_floats=in_floats)


IMAGE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_names_are_the_keys_and_weights_are_shared() -> None:
    model = network()
    module = qd.to_torch(model)
    assert list(module.state_dict()) == ["features.0.weight", "features.0.bias"]
    paths = dict(module.named_modules())
    assert {"quantize", "features.0", "features_1", "pool", "inputs.image"} <= paths.keys()
    assert next(n.name for n in module.graph.nodes if n.op == "placeholder") == "image"
    ((weight, *_),) = [
        [blob] for op in model.function().body.block.ops if (blob := _array(op, model)) is not None
    ][:1]
    assert paths["features.0"].weight.data_ptr() == weight.ctypes.data
    with pytest.raises(AttributeError):
        _ = paths["features.0"].nothing


def _array(op: Any, model: qd.Model) -> Array | None:
    from qdialect.ir.ops import ConstantOp, constant_array

    return constant_array(op, model.ctx.blobs) if isinstance(op, ConstantOp) else None


def test_a_constant_below_another_is_no_conflict() -> None:
    kind = "tensor<2xf32>"
    text = "".join(
        f'%{n} = nn.constant dense<[1.0, {n}.0]> : {kind} {{nn.key = "{key}"}} : {kind}\n'
        for n, key in enumerate(("a", "a.b", "a.b", "type", "_p.0x"))
    )
    sums = "".join(
        f'%s{n} = nn.add %s{n - 1}, %{n} {{nn.key = "a.b"}} : ({kind}, {kind}) -> {kind}\n'
        for n in range(5)
    ).replace("%s-1", "%x")
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n{text}{sums}func.return %s4 : {kind}\n}}"
    model = model_of(text)
    assert check(model) == (0, 0)
    assert len(qd.to_torch(model).state_dict()) == 5


def test_it_can_be_exported_and_compiled() -> None:
    module = qd.to_torch(network(in_floats=True))
    expected = module(IMAGE)
    exported = torch.export.export(module, (IMAGE,))
    assert torch.equal(exported.module()(IMAGE), expected)
    assert torch.equal(torch.compile(module, backend="aot_eager")(IMAGE), expected)


@pytest.mark.parametrize("in_floats", [False, True], ids=["reals", "floats"])
def test_training_starts_where_the_integers_are(in_floats: bool) -> None:
    model = network(in_floats=in_floats)
    module, trained = qd.to_torch(model), qd.to_torch(model, trainable=True)
    step = 0.06
    assert (trained(IMAGE) - module(IMAGE)).abs().max() <= step * 1.01
    names = ["features.0.weight", "features.0.bias"]
    assert [name for name, _ in trained.named_parameters()] == names
    target = module(IMAGE).roll(1, 0) + 0.5
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05)
    losses: list[float] = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = ((trained(IMAGE) - target) ** 2).sum()
        loss.backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in trained.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    # The weights of the model, which the other module shares, are what they were.
    assert torch.equal(module(IMAGE), qd.to_torch(model)(IMAGE))


def test_gradients_stop_outside_of_the_range() -> None:
    kind = "tensor<3x!quant.uniform<i8:f32, 0.1>>"
    text = (
        f"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{\n"
        f"%q = quant.qcast %x : tensor<3xf32> to {kind}\n"
        f"%y = quant.dcast %q : {kind} to tensor<3xf32>\nfunc.return %y : tensor<3xf32>\n}}"
    )
    module = qd.to_torch(model_of(text), trainable=True)
    x = torch.tensor([0.26, 50.0, -50.0], requires_grad=True)
    y = module(x)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), [0.3, 12.7, -12.8], rtol=1e-6)
    assert x.grad.tolist() == [1.0, 0.0, 0.0]


def test_values_inside_by_key() -> None:
    model = network()
    module = qd.to_torch(model)
    found = qd.compare_torch(model, module, [IMAGE])
    keys = {layer.key: layer for layer in found}
    assert {"quantize", "features.0", "features/1", "pool", "dequantize"} <= keys.keys()
    assert all(layer.max_abs == 0 for layer in found)
    assert "features.0" in str(found) and str(found).startswith("value")
    trained = qd.to_torch(model, trainable=True)
    with torch.no_grad():
        trained.get_parameter("features.0.bias").add_(1.0)
    again = {layer.key: layer for layer in qd.compare_torch(module, trained, {"image": IMAGE})}
    assert again["quantize"].max_abs < 1e-6 < 0.9 < again["features.0"].max_abs
    with pytest.raises(qd.UsageError, match="takes 1 inputs"):
        qd.compare_torch(model, module, [])
    with pytest.raises(qd.UsageError, match="cannot look inside of int"):
        qd.compare_torch(3, module, [IMAGE])


def test_the_modules_of_a_user_are_compared_by_their_paths() -> None:
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Hardswish()).eval()
    exported = torch.export.export(layers, (IMAGE,))
    model = qd.from_torch(exported)
    for reference in (layers, exported):
        found = qd.compare_torch(reference, qd.to_torch(model), [IMAGE])
        assert [layer.key for layer in found] == ["0", "1"]
        assert all(layer.sqnr_db > 120 for layer in found)


class Kept(torch.nn.Module):
    """Ops that are neither ours nor ONNX's."""

    def forward(self, x: Any) -> Any:
        return torch.linalg.det(x[0, :, :3, :3]), torch.cdist(x[0, 0], x[0, 1])


def test_ops_of_pytorch_are_run_by_it() -> None:
    exported = torch.export.export(Kept(), (IMAGE,))
    model = qd.from_torch(exported)
    assert any(op.name == "torch.node" for op in model.function().walk())
    module = qd.to_torch(model)
    for one, other in zip(Kept()(IMAGE), module(IMAGE), strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    torch.export.export(module, (IMAGE,))


# -- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NonZero", "GroupNormalization", "com.microsoft.BiasGelu"])
def test_a_node_that_torch_has_no_form_of_is_named(name: str) -> None:
    domain, _, op = name.rpartition(".")
    kind = "tensor<2xf32>"
    text = (
        f"func.func @main(%x: {kind}) -> {kind} {{\n"
        f'%y = "onnx.node"(%x) {{op_type = "{op}", domain = "{domain}"}} : ({kind}) -> {kind}\n'
        f"func.return %y : {kind}\n}}"
    )
    with pytest.raises(qd.UnsupportedError, match=f"the ONNX op '{name}' has no form in PyTorch"):
        qd.to_torch(model_of(text))


def test_inputs_are_checked() -> None:
    module = qd.to_torch(network())
    with pytest.raises(qd.InputError, match="input 'image' has dtype"):
        module(IMAGE.double())
    with pytest.raises(qd.InputError, match=r"input 'image' has shape \[2, 3, 8\], but takes"):
        module(IMAGE[..., 0])


def test_what_torch_has_no_form_of_is_named() -> None:
    kind = "tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>"
    text = (
        f"func.func @main(%x: {kind}) -> {kind} {{\n"
        f'%y = nn.relu %x {{nn.key = "act"}} : ({kind}) -> {kind}\nfunc.return %y : {kind}\n}}'
    )
    with pytest.raises(qd.UnsupportedError, match="stored values of f8E4M3FN"):
        qd.to_torch(model_of(text))
