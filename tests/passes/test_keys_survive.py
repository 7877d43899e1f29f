"""A profile of a float model finds every value again, whatever passes ran in between.

Nets are profiled as they are. Then their ops are shuffled, folded, merged, lowered for some
target, raised, written as ONNX and read again, and the profile is applied: no op lacks an
entry, and no entry lacks a value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.api import Model, run_passes
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.ir.ops import keys_of
from qdialect.ir.ops.component_keys import given_keys
from qdialect.passes.pipelines import PREPARATION
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model
from qdialect.quantizer.apply_profile import apply_profile
from qdialect.quantizer.coverage import Coverage
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.instrument import instrument
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.targets.generic import TARGET as GENERIC
from tests.generators.orders import shuffle

Array = NDArray[np.float32]


@dataclass
class Net:
    """A function in the making; `add` and `const` give the names of values."""

    seed: int
    arguments: dict[str, tuple[int, ...]]
    lines: list[str] = field(default_factory=list[str])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    #: the extent that is dynamic in the text, if any
    batch: int = 2

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.shapes.update(self.arguments)

    def kind(self, shape: tuple[int, ...]) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"

    def const(self, *shape: int, values: float | None = None, positive: bool = False) -> str:
        array = self.random.normal(size=shape) * 0.4
        array = np.abs(array) + 0.5 if positive else array
        array = array if values is None else np.full(shape, values)
        name = f"%c{len(self.lines)}"
        bits = array.astype("<f4").tobytes().hex()
        key = f'{{nn.key = "{name[1:]}"}}'
        kind = self.kind(shape)
        self.lines.append(f'{name} = nn.constant dense<"0x{bits}"> : {kind} {key} : {kind}')
        self.shapes[name] = shape
        return name

    def add(self, op: str, key: str, *operands: str, like: tuple[int, ...] | None = None) -> str:
        shape = self.shapes[operands[0]] if like is None else like
        name = f"%v{len(self.lines)}"
        head, *rest = op.split(" ", 1)
        kinds = ", ".join(self.kind(self.shapes[v]) for v in operands)
        self.lines.append(
            f"{name} = nn.{head} {', '.join(operands)} {' '.join(rest)} "
            f'{{nn.key = "{key}"}} : ({kinds}) -> {self.kind(shape)}'
        )
        self.shapes[name] = shape
        return name

    def text(self, *results: str) -> str:
        kinds = [self.kind(self.shapes[v]) for v in results]
        arguments = ", ".join(f"{n}: {self.kind(s)}" for n, s in self.arguments.items())
        body = "\n".join(self.lines)
        return (
            f"func.func @main({arguments}) -> ({', '.join(kinds)}) {{\n{body}\n"
            f"return {', '.join(results)} : {', '.join(kinds)}\n}}"
        )


def vision(batch: int = 2) -> str:
    """Every composite of images, an op that is there twice, and one of constants."""
    n = Net(1, {"%x": (batch, 3, 6, 6)})
    s = (batch, 4, 6, 6)
    x = n.add("conv2d pads [1, 1, 1, 1]", "c", "%x", n.const(4, 3, 3, 3), n.const(4), like=s)
    x = n.add("batch_norm", "bn", x, n.const(4), n.const(4), n.const(4), n.const(4, positive=True))
    for op in ("swish", "swish alpha 0.5", "gelu", "gelu approximate tanh", "hard_swish"):
        x = n.add(op, op.replace(" ", "/"), x)
    x = n.add("lrn size 3", "lrn", x)
    twice = [n.add("relu", f"relu{i}", x) for i in range(2)]
    x = n.add("add", "both", *twice)
    x = n.add("hard_sigmoid alpha 0.25", "gate", x)
    scale = n.add("abs", "scale", n.const(4, 1, 1))
    x = n.add("mul", "scaled", x, scale)
    x = n.add("reduce_mean axes [2, 3] keepdims false", "pool", x, like=(batch, 4))
    x = n.add("fully_connected", "fc", x, n.const(5, 4), n.const(5), like=(batch, 5))
    return n.text(n.add("softmax", "p", x))


def sequence(batch: int = 2) -> str:
    """Recurrent layers, norms and attention."""
    n = Net(2, {"%x": (3, batch, 4)})
    w = [n.const(2, 16, 4), n.const(2, 16, 4), n.const(2, 32)]
    x = n.add("lstm direction bidirectional", "lstm", "%x", *w, like=(3, 2, batch, 4))
    x = n.add("reduce_mean axes [1] keepdims false", "ways", x, like=(3, batch, 4))
    w = [n.const(1, 12, 4), n.const(1, 12, 4), n.const(1, 24)]
    x = n.add("gru", "gru", x, *w, like=(3, 1, batch, 4))
    x = n.add("layer_norm", "ln", x, n.const(4), n.const(4))
    x = n.add("transpose perm [2, 1, 0, 3]", "heads", x, like=(batch, 1, 3, 4))
    x = n.add("attention scale 0.5", "att", x, x, x)
    return n.text(n.add("layer_norm", "ln2", x, n.const(4)))


def file(batch: int = 2) -> str:
    """Composites in the pieces that exporters write, with names of no system."""
    n = Net(3, {"%x": (batch, 4)})
    x = n.add("matmul", "m7", "%x", n.const(4, 6), like=(batch, 6))
    x = n.add("add", "a1", x, n.const(6))
    x = n.add("mul", "m8", x, n.add("sigmoid", "sig", x))
    e = n.add("erf", "e", n.add("div", "d0", x, n.const(values=2**0.5)))
    x = n.add("mul", "m9", x, n.add("add", "a2", e, n.const(values=1.0)))
    x = n.add("mul", "m10", x, n.const(values=0.5))
    mean = n.add("reduce_mean axes [1]", "rm1", x, like=(batch, 1))
    x = n.add("sub", "s1", x, mean)
    square = n.add("pow exponent 2.0", "sq", x)
    variance = n.add("reduce_mean axes [1]", "rm2", square, like=(batch, 1))
    x = n.add(
        "div", "d1", x, n.add("sqrt", "r", n.add("add", "a3", variance, n.const(values=1e-5)))
    )
    x = n.add("add", "a4", n.add("mul", "m11", x, n.const(6)), n.const(6))
    gate = n.add("hard_sigmoid alpha 0.16666667 beta 0.5", "hs", x)
    x = n.add("mul", "m12", x, gate)
    gate = n.add("clip min 0.0 max 6.0", "c", n.add("add", "a5", x, n.const(values=3.0)))
    x = n.add("div", "d2", n.add("mul", "m13", x, gate), n.const(values=6.0))
    top = n.add("reduce_max axes [1]", "top", x, like=(batch, 1))
    x = n.add("exp", "ex", n.add("sub", "s2", x, top))
    total = n.add("reduce_sum axes [1]", "sum", x, like=(batch, 1))
    return n.text(n.add("div", "d3", x, total))


UNARY = ("relu", "swish", "gelu", "hard_swish", "hard_sigmoid", "sigmoid", "tanh", "softmax")


def random_net(seed: int) -> str:
    """Composites and other ops in any order."""
    pick = random.Random(seed)
    n = Net(seed, {"%x": (2, 4)})
    values = ["%x"]
    for number in range(14):
        x, y = pick.choice(values[-3:]), pick.choice(values)
        key = f"n{number}"
        match pick.randrange(6):
            case 0:
                operands = [x, n.const(4, 4), *([n.const(4)] * pick.randrange(2))]
                values.append(n.add("fully_connected", key, *operands))
            case 1:
                values.append(n.add("layer_norm", key, x, n.const(4), n.const(4)))
            case 2:
                values.append(n.add(pick.choice(["add", "mul", "sub"]), key, x, y))
            case 3:
                turned = n.add("transpose perm [1, 0]", f"{key}a", x, like=(4, 2))
                turned = n.add("gelu", f"{key}b", turned)
                values.append(n.add("transpose perm [1, 0]", key, turned, like=(2, 4)))
            case _:
                values.append(n.add(pick.choice(UNARY), key, x))
    return n.text(*values[1:])


NETS = {
    "vision": vision(),
    "sequence": sequence(),
    "file": file(),
    **{f"random {seed}": random_net(seed) for seed in range(6)},
}


def model_of(text: str) -> Model:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


def profile_of(model: Model) -> Profile:
    """What one sample is in the model."""
    found = instrument(model.module, model.ctx)
    shapes = [a.type.get_shape() for a in found.function.body.block.args]
    inputs = [np.random.default_rng(7).normal(size=s).astype(np.float32) for s in shapes]
    found.return_observed()
    arrays = Interpreter(model.ctx, found.module).run(inputs)
    collector = Collector(Profile("", Settings()))
    seen = [*zip(found.arguments.values(), inputs, strict=True)]
    seen += zip([entry.keys for entry in found.observed], arrays, strict=True)
    collector.add(0, seen)
    return collector.profile()


def again(model: Model, opset: int | None = None) -> Model:
    """Written as ONNX and read back."""
    ctx = new_context()
    module = import_model(write_model(model.module, model.ctx, opset=opset).whole(), ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


LOWER, RAISE = "lower-composites{numerics=ties}", "raise-composites{numerics=relaxed}"
FOLD = "fold-constants{numerics=ties},canonicalize,cse,dce"
TARGETS = [
    GENERIC,
    Target("npu", "", keep_whole=frozenset({"nn.softmax", "nn.hard_swish", "nn.lstm"})),
    Target("cpu", "", keep_whole=frozenset({"nn.layer_norm", "nn.gelu", "nn.conv2d", "nn.gru"})),
]


def applied(model: Model, profile: Profile) -> Coverage:
    """The coverage of the profile, once shapes and casts of constants are folded."""
    prepared = run_passes(model, PREPARATION)
    return apply_profile(prepared.module, prepared.ctx, profile, Recipe())


def assert_found(model: Model, profile: Profile) -> None:
    found = applied(model, profile)
    assert [str(left) for left in found.left if left.code == "no-entry"] == []
    assert found.stale == []
    assert found.total


JOURNEYS = {
    "shuffled": ("",),
    "folded": (FOLD,),
    "lowered": (f"{FOLD},{LOWER},{FOLD}",),
    "lowered, then folded": (f"{LOWER},{FOLD}", FOLD),
    "a file in between": ("", "", FOLD),
    "lowered and raised": (f"{LOWER},{FOLD}", f"{RAISE},{FOLD}"),
    "raised, and a file": (f"{RAISE},{FOLD}", RAISE),
    "raised and lowered again": (f"{LOWER},{FOLD},{RAISE}", f"{LOWER},{FOLD}"),
}
"""Passes, in stages between which the model is a file."""


def travelled(model: Model, journey: str, target: Target) -> Model:
    for number, passes in enumerate(JOURNEYS[journey]):
        model = again(model) if number else Model(model.module.clone(), model.ctx)
        shuffle(model.module, len(journey) + number)
        model = run_passes(model, passes, target=target) if passes else model
    return model


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("name", list(NETS))
def test_every_entry_is_found(name: str, target: Target) -> None:
    start = model_of(NETS[name])
    profile = profile_of(start)
    for journey in JOURNEYS:
        if (name, journey) != ("file", "raised and lowered again"):
            assert_found(travelled(start, journey, target), profile)


def test_pieces_that_the_file_had_otherwise_are_reported() -> None:
    """The pieces of a gelu are not all among those that its file computed: nothing is guessed."""
    start = model_of(NETS["file"])
    profile = profile_of(start)
    found = applied(travelled(start, "raised and lowered again", GENERIC), profile)
    missing = {left.key for left in found.left if left.code == "no-entry"}
    assert "m10/halved" in missing
    assert found.stale == []


@pytest.mark.parametrize("build", [vision, sequence, file])
def test_keys_do_not_depend_on_the_batch(build: Callable[[int], str]) -> None:
    one, other = (model_of(build(batch)) for batch in (1, 5))
    assert profile_of(one).entries.keys() == profile_of(other).entries.keys()


@pytest.mark.parametrize("name", list(NETS))
def test_keys_do_not_depend_on_the_order_of_ops(name: str) -> None:
    model = model_of(NETS[name])
    keys = set(instrument(model.module, model.ctx).all_keys())
    shuffle(model.module, 5)
    assert set(instrument(model.module, model.ctx).all_keys()) == keys


def test_merged_keys_and_those_of_pieces_are_in_the_file() -> None:
    model = model_of(NETS["file"])
    model = run_passes(model, f"cse,{RAISE},{FOLD}")
    held = {keys_of(op): given_keys(op) for op in model.module.walk() if given_keys(op)}
    assert held["a1",] == {"matmul": ("m7",)}
    assert held["a4",]["centered"] == ("s1",)
    loaded = list(again(model).module.walk())
    back = {keys_of(op): given_keys(op) for op in loaded if given_keys(op)}
    # Gelu and swish are in pieces there, which have the names themselves.
    assert back.pop(("m10",)) == {"*": ("m9",)}
    assert {("e",), ("d0",), ("a2",), ("sig",)} <= {keys_of(op) for op in loaded}
    assert back == {key: pieces for key, pieces in held.items() if key not in [("m8",), ("m10",)]}
    text = vision()
    twice = run_passes(model_of(text), "cse")
    assert ("relu0", "relu1") in {keys_of(op) for op in again(twice).module.walk()}
    # A second writing gives the same bytes.
    first = write_model(twice.module, twice.ctx).whole().SerializeToString()
    loaded = again(twice)
    assert write_model(loaded.module, loaded.ctx).whole().SerializeToString() == first


def test_a_value_that_is_another_goes_under_both_keys() -> None:
    n = Net(0, {"%x": (2, 4)})
    x = n.add("relu", "a", "%x")
    model = run_passes(model_of(n.text(n.add("relu", "b", x))), "canonicalize")
    assert [keys_of(op) for op in model.module.walk() if op.name == "nn.relu"] == [("a", "b")]


def test_steps_find_the_entry_of_their_role() -> None:
    model = model_of(NETS["sequence"])
    profile = profile_of(model)
    lowered = run_passes(model, f"{LOWER},{PREPARATION}")
    keys = {key for op in lowered.module.walk() for key in keys_of(op)}
    assert "gru/hidden@2" in keys
    found = apply_profile(lowered.module, lowered.ctx, profile, Recipe())
    assert found.stale == []
    assert all(left.code != "no-entry" for left in found.left)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "holds no keys"),
        ("[]", "a dictionary is missing"),
        ('{"a": {"keys": "b"}}', "a list of keys is missing"),
        ('{"a": {"keys": ["\\ud800"]}}', "holds no keys"),
        ('{"a": {"names": ["b"]}}', "the entry of 'a' has unknown fields"),
        ("[" * 100000, "holds no keys"),
    ],
)
def test_wrong_metadata_is_one_error(text: str, message: str) -> None:
    model = model_of(NETS["file"])
    proto = write_model(model.module, model.ctx).whole()
    entry = proto.metadata_props.add()
    entry.key, entry.value = "qdialect.keys", text
    with pytest.raises(InputError, match=message):
        import_model(proto, new_context())


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("7", "nn.piece_keys must be a dictionary from role to key"),
        ('{total = "a"}', "names 'total', but the roles are sub_max, exp, sum"),
        ('{result = "a"}', "names 'result', but the roles are"),
        ("{exp = 3}", "for 'exp', not a key or a list of keys"),
    ],
)
def test_wrong_keys_of_pieces_are_one_error(held: str, message: str) -> None:
    n = Net(0, {"%x": (2, 4)})
    text = n.text(n.add("softmax", "s", "%x"))
    with pytest.raises(InputError, match=message):
        model_of(text.replace('{nn.key = "s"}', f"{{nn.piece_keys = {held}}}"))
