"""Folded constants are what the interpreter computes, bit for bit; keys and names stay."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, bf16, f16, f32, f64, i1, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.interpreter import Interpreter
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import DCastOp, QCastOp, SCastOp, UniformType, quant_element
from qdialect.passes.folding.fold_constants import FoldConstants
from tests.ops.movement_cases import MAKERS, codes, quantized_op, random_qparams


def keyed(op: Operation, key: str) -> Operation:
    op.attributes[nn.KEY] = StringAttr(key)
    return op


def module_of(ops: Sequence[Operation], results: Sequence[SSAValue]) -> ModuleOp:
    func = FuncOp("main", ((), [v.type for v in results]))
    func.body.block.add_ops([*ops, ReturnOp(*results)])
    module = ModuleOp([func])
    module.verify()
    return module


def folded(ctx: QContext, module: ModuleOp, **options: Any) -> bool:
    """Run the pass; outputs stay bit-equal, a second run changes nothing. Whether only
    constants (and casts of them) are left."""
    before = Interpreter(ctx, module).run([])
    FoldConstants(**options).apply(ctx, module)
    module.verify()
    after = Interpreter(ctx, module).run([])
    for a, b in zip(before, after, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    text = str(module)
    FoldConstants(**options).apply(ctx, module)
    assert str(module) == text
    return all(op.name in ("nn.constant", "quant.dcast") for op in body(module)[:-1])


def body(module: ModuleOp) -> list[Operation]:
    return list(next(iter(module.ops)).regions[0].block.ops)


def constant(ctx: QContext, array: np.ndarray, element: Attribute) -> nn.ConstantOp:
    return nn.make_constant(array, element, ctx.blobs)


@pytest.mark.parametrize("name", MAKERS)
def test_movement_of_codes(name: str) -> None:
    rng, ctx, fired = random.Random(name), new_context(), 0
    for _ in range(150):
        kind, (extents,), properties = MAKERS[name](rng)
        qparams = random_qparams(rng, extents)
        source = constant(ctx, codes(rng, extents), UniformType(qparams))
        op = quantized_op(kind, [source.result], properties, qparams)
        if isinstance(op, Illegal):
            continue
        fired += folded(ctx, module_of([source, op], op.results), max_growth=1e9)
    assert fired > 60


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("element", [f32, f16, bf16, f64, i64], ids=str)
def test_movement_of_other_types(name: str, element: Attribute) -> None:
    rng, ctx = random.Random(name), new_context()
    for _ in range(20):
        kind, (extents,), properties = MAKERS[name](rng)
        source = constant(ctx, raw(rng, extents, element), element)
        op = kind(source.result, **properties)
        assert folded(ctx, module_of([source, op], op.results), max_growth=1e9)


def raw(rng: random.Random, extents: tuple[int, ...], element: Attribute) -> np.ndarray:
    """Random numbers as the weight store holds them."""
    values = np.random.default_rng(rng.randrange(2**32)).normal(size=extents)
    if element == bf16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return (values * 3).astype({f32: "f4", f16: "f2", f64: "f8", i64: "i8"}[element])


@pytest.mark.parametrize("name", MAKERS)
def test_movement_behind_a_dequantize(name: str) -> None:
    rng, ctx, fired, refused = random.Random(name), new_context(), 0, 0
    for _ in range(150):
        kind, (extents,), properties = MAKERS[name](rng)
        qparams = random_qparams(rng, extents)
        source = constant(ctx, codes(rng, extents), UniformType(qparams))
        cast = DCastOp(source.result, TensorType(f32, extents))
        op = kind(cast.result, **properties)
        if folded(ctx, module_of([source, cast, op], op.results), max_growth=1e9):
            fired += 1
        else:
            refused += 1
            assert isinstance(quantized_op(kind, [source.result], properties, qparams), Illegal)
    assert fired > 60
    codes_seen = {r.code for r in ctx.remarks.remarks if r.kind == "refused"}
    assert codes_seen <= {"axis-split", "axis-merge", "phase-mix", "empty", "growth", "layout"}
    assert bool(refused) == bool(codes_seen)


# -- arithmetic -------------------------------------------------------------------------

SCALES = (0.5, 0.1, 1.0 / 3.0, 2.0**-30, 7.0)


def random_type(rng: random.Random, extents: tuple[int, ...]) -> QParams:
    storage = rng.choice(("i8", "u8", "i16", "i4", "i32"))
    zeros = (0, 3) if storage != "i32" else (0,)
    if extents and rng.random() < 0.4:
        axis = rng.randrange(len(extents))
        count = extents[axis]
        pairs = [(rng.choice(SCALES), rng.choice(zeros)) for _ in range(count)]
        return QParams.per_axis(storage, axis, [s for s, _ in pairs], [z for _, z in pairs])
    return QParams.per_tensor(storage, rng.choice(SCALES), rng.choice(zeros))


def random_codes(rng: random.Random, extents: tuple[int, ...], qparams: QParams) -> np.ndarray:
    storage = qparams.storage
    kind = f"{'i' if storage.signed else 'u'}{max(storage.width, 8) // 8}"
    generator = np.random.default_rng(rng.randrange(2**32))
    return generator.integers(storage.min, storage.max, extents, kind, endpoint=True)


@pytest.mark.parametrize("rounding", ["half_even", "half_away", "half_up"])
@pytest.mark.parametrize("kind", [nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp])
def test_binary_on_codes(kind: type[nn.NNOp], rounding: str) -> None:
    rng, ctx = random.Random(rounding), new_context()
    for _ in range(60):
        wide = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 3)))
        narrow = tuple(rng.choice((1, n)) for n in wide)[rng.randint(0, len(wide)) :]
        shapes = [wide, narrow] if rng.random() < 0.5 else [narrow, wide]
        types = [random_type(rng, s) for s in shapes]
        sources = [
            constant(ctx, random_codes(rng, s, q), UniformType(q))
            for s, q in zip(shapes, types, strict=True)
        ]
        op = kind(
            *(s.result for s in sources),
            element=UniformType(random_type(rng, wide)),
            rounding=rounding,
        )
        assert folded(ctx, module_of([*sources, op], op.results))


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        (nn.LeakyReluOp, {"alpha": 0.3}),
        (nn.HardSigmoidOp, {}),
        (nn.HardSwishOp, {}),
    ],
)
def test_functions_on_codes(kind: type[nn.NNOp], properties: dict[str, Any]) -> None:
    rng, ctx = random.Random(1), new_context()
    for _ in range(60):
        extents = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3)))
        source_type = QParams.per_tensor("i8", rng.choice(SCALES), 3)
        source = constant(ctx, random_codes(rng, extents, source_type), UniformType(source_type))
        element = UniformType.per_tensor("u8", rng.choice(SCALES), 7)
        op = kind(source.result, element=element, **properties)
        assert folded(ctx, module_of([source, op], op.results))


@pytest.mark.parametrize(
    "kind",
    [
        *(nn.SigmoidOp, nn.TanhOp, nn.ExpOp, nn.LogOp, nn.SqrtOp, nn.ErfOp, nn.GeluOp),
        *(nn.SwishOp, nn.SoftplusOp, nn.EluOp, nn.FloorOp, nn.NegOp, nn.AbsOp),
    ],
)
def test_transcendental_functions_on_codes(kind: type[nn.NNOp]) -> None:
    ctx = new_context()
    every = np.arange(-128, 128, dtype=np.int8)
    source = constant(ctx, every, UniformType.per_tensor("i8", 0.05))
    op = kind(source.result, element=UniformType.per_tensor("i16", 1.0 / 300.0))
    assert folded(ctx, module_of([source, op], op.results))


def test_a_result_on_a_tie_is_left() -> None:
    ctx = new_context()
    source = constant(ctx, np.zeros(2, np.int8), UniformType.per_tensor("i8", 0.05))
    op = nn.SigmoidOp(source.result, element=UniformType.per_tensor("i8", 1.0))
    assert folded(ctx, module_of([source, op], op.results))  # sigmoid(0) is 1/2, exactly
    source = constant(ctx, np.zeros(2, np.int8), UniformType.per_tensor("i8", 0.05))
    op = nn.SoftmaxOp(source.result, element=UniformType.per_tensor("i8", 1.0))
    assert not folded(ctx, module_of([source, op], op.results))
    assert [r.code for r in ctx.remarks.remarks if r.kind == "refused"][-1] == "tie"


@pytest.mark.parametrize(("low", "high"), [(None, 0.31), (-0.2, 0.7), (0.0, None)])
def test_clamps_on_codes(low: float | None, high: float | None) -> None:
    rng, ctx = random.Random(1), new_context()
    for _ in range(60):
        extents = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 3)))
        qparams = random_type(rng, extents)
        source = constant(ctx, random_codes(rng, extents, qparams), UniformType(qparams))
        op = nn.ClipOp(source.result, min=low, max=high)
        relu = nn.ReluOp(op.results[0])
        assert folded(ctx, module_of([source, op, relu], relu.results))


@pytest.mark.parametrize("element", [f32, f16, bf16, f64], ids=str)
def test_floats(element: Attribute) -> None:
    rng, ctx = random.Random(1), new_context()
    for extents in ((), (5,), (2, 3)):
        a, b = (constant(ctx, raw(rng, extents, element), element) for _ in range(2))
        for kind in (nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp):
            copies = [a.clone(), b.clone()]
            op = kind(*(c.result for c in copies))
            relu = nn.ReluOp(op.results[0])
            clip = nn.ClipOp(relu.results[0], min=0.3, max=0.7)
            assert folded(ctx, module_of([*copies, op, relu, clip], clip.results))
        for unary in (nn.HardSwishOp, nn.HardSigmoidOp, nn.LeakyReluOp):
            copy = a.clone()
            op = unary(copy.result)
            assert folded(ctx, module_of([copy, op], op.results), numerics="ties")
            copy = a.clone()
            op = unary(copy.result)
            assert not folded(ctx, module_of([copy, op], op.results))


def test_integers_of_shape_arithmetic() -> None:
    ctx = new_context()
    a = constant(ctx, np.array([7, -7, 2**40]), i64)
    b = constant(ctx, np.array([2]), i64)
    for kind in (nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp):
        copies = [a.clone(), b.clone()]
        op = kind(*(c.result for c in copies))
        assert folded(ctx, module_of([*copies, op], op.results))
    zero = constant(ctx, np.array([0]), i64)
    copies = [a.clone(), zero]
    op = nn.DivOp(*(c.result for c in copies))
    module = module_of([*copies, op], op.results)
    FoldConstants().apply(ctx, module)
    assert "nn.div" in str(module)


ELEMENTS: list[Attribute] = [f32, f16, bf16, f64, i64, i1]
QUANTIZED = ("i8", "u8", "i16", "u16", "i4", "u4", "i32")


@pytest.mark.parametrize("kind", [nn.AddOp, nn.DivOp, nn.ReluOp, nn.SigmoidOp, nn.TransposeOp])
@pytest.mark.parametrize("storage", [*QUANTIZED, *map(str, ELEMENTS)])
def test_no_dtype_crashes(kind: type[nn.NNOp], storage: str) -> None:
    """Whatever the type, the op folds or stays with a remark."""
    ctx = new_context()
    element: Attribute
    if storage in QUANTIZED:
        element = UniformType.per_tensor(storage, 0.5)
        width = element.qparams.storage.width
        array = np.ones(
            (2, 2), f"{'i' if element.qparams.storage.signed else 'u'}{max(width, 8) // 8}"
        )
    else:
        element = next(e for e in ELEMENTS if str(e) == storage)
        array = np.ones((2, 2), bool if element == i1 else np.int64)
        if element not in (i1, i64):
            array = raw(random.Random(1), (2, 2), element)
    count = 2 if kind in (nn.AddOp, nn.DivOp) else 1
    sources = [constant(ctx, array, element) for _ in range(count)]
    properties = {"perm": [1, 0]} if kind is nn.TransposeOp else {}
    op = kind(*(s.result for s in sources), **properties)
    module = module_of([*sources, op], op.results)
    FoldConstants(numerics="relaxed").apply(ctx, module)
    module.verify()
    refusals = [r for r in ctx.remarks.remarks if r.kind == "refused"]
    assert (op.name in str(module)) == bool(refusals)
    if kind is nn.TransposeOp:
        assert not refusals


# -- several operands -----------------------------------------------------------------


def test_concat_of_unequal_qparams() -> None:
    rng, ctx = random.Random(1), new_context()
    kinds = [UniformType.per_tensor("i8", 0.5, 1), UniformType.per_tensor("i8", 0.1)]
    for target in (
        UniformType.per_axis("i8", 0, [0.5, 0.5, 0.1], [1, 1, 0]),
        UniformType.per_tensor("u8", 0.3, 9),
    ):
        sources = [
            constant(ctx, random_codes(rng, (n, 4), k.qparams), k)
            for n, k in zip((2, 1), kinds, strict=True)
        ]
        op = nn.ConcatOp(
            *(s.result for s in sources), axis=0, result_types=[TensorType(target, (3, 4))]
        )
        assert folded(ctx, module_of([*sources, op], op.results))


def test_concat_behind_dequantizes_becomes_per_axis() -> None:
    rng, ctx = random.Random(1), new_context()
    kinds = [UniformType.per_tensor("i8", 0.5, 1), UniformType.per_tensor("i8", 0.1)]
    sources = [constant(ctx, random_codes(rng, (2, 4), k.qparams), k) for k in kinds]
    casts = [DCastOp(s.result, TensorType(f32, (2, 4))) for s in sources]
    op = nn.ConcatOp(*(c.result for c in casts), axis=1)
    module = module_of([*sources, *casts, op], op.results)
    assert folded(ctx, module)
    element = quant_element(body(module)[0].results[0].type)
    assert element is not None and element.qparams.axis == 1 and element.qparams.count == 8


def test_gather_and_select_with_large_masks() -> None:
    rng, ctx = np.random.default_rng(1), new_context()
    element = UniformType.per_axis("i8", 1, [0.5, 1.0])
    x = constant(ctx, rng.integers(-9, 9, (100, 2), np.int8), element)
    indices = constant(ctx, rng.integers(-100, 100, (90,)), i64)
    gathered = nn.GatherOp(x.result, indices.result, result_types=[TensorType(element, (90, 2))])
    other = constant(ctx, rng.integers(-9, 9, (1, 2), np.int8), element)
    mask = constant(ctx, rng.random((90, 1)) < 0.5, i1)
    op = nn.SelectOp(
        mask.result,
        gathered.results[0],
        other.result,
        result_types=[TensorType(element, (90, 2))],
    )
    assert folded(ctx, module_of([x, indices, gathered, other, mask, op], op.results))


# -- casts ------------------------------------------------------------------------------


def test_casts_of_constants() -> None:
    ctx = new_context()
    element = UniformType.per_axis("u8", 1, [0.5, 0.1], [3, 7])
    source = constant(ctx, np.array([[1, 255], [0, 9]], np.uint8), element)
    cast = DCastOp(source.result, TensorType(f32, (2, 2)))
    stored = SCastOp(
        source.result,
        TensorType(
            nn.make_constant(np.zeros(1, np.int8), UniformType.per_tensor("u8", 1.0), ctx.blobs)
            .value.get_type()
            .element_type,
            (2, 2),
        ),
    )
    back = QCastOp(cast.result, TensorType(UniformType.per_tensor("i8", 0.25), (2, 2)))
    module = module_of([source, cast, stored, back], [stored.results[0], back.result])
    folded(ctx, module)
    assert [op.name for op in body(module)].count("quant.dcast") == 1
    folded(ctx, module, dequantize=True)
    assert {op.name for op in body(module)[:-1]} == {"nn.constant"}


# -- keys, names, sharing, growth ---------------------------------------------------------


def weight_module(ctx: QContext) -> ModuleOp:
    rng = np.random.default_rng(3)
    source = constant(ctx, rng.normal(size=(4, 3, 1, 1)).astype(np.float32), f32)
    keyed(source, "w")
    reshape = keyed(nn.ReshapeOp(source.result, (4, 3)), "w_reshaped")
    transpose = keyed(nn.TransposeOp(reshape.results[0], perm=[1, 0]), "w_transposed")
    parts = keyed(nn.SplitOp(transpose.results[0], axis=0, sizes=[1, 2]), "w_split")
    return module_of([source, reshape, transpose, parts], parts.results)


def observed(ctx: QContext, module: ModuleOp) -> dict[str, tuple[float, float]]:
    """The range of every keyed value in one run: what a profile holds."""
    ranges: dict[str, tuple[float, float]] = {}

    def listen(op: Operation, results: Sequence[np.ndarray]) -> None:
        for index, array in enumerate(results):
            for key in nn.keys_of(op):
                name = f"{key}_{index}" if index else key
                ranges[name] = (float(array.min()), float(array.max()))

    Interpreter(ctx, module, listeners=[listen]).run([])
    return ranges


def test_profiles_match_before_and_after_folding() -> None:
    ctx = new_context()
    module = weight_module(ctx)
    before = observed(ctx, module)
    assert folded(ctx, module)
    after = observed(ctx, module)
    assert set(after) == {"w_split", "w_split_1"}
    assert all(before[key] == ranges for key, ranges in after.items())


def test_locations_are_kept() -> None:
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr

    ctx = new_context()
    source = constant(ctx, np.ones((2, 3), np.float32), f32)
    op = nn.TransposeOp(source.result, perm=[1, 0])
    op.location = FileLineColLoc(StringAttr("m.onnx"), IntAttr(7), IntAttr(0))
    module = module_of([source, op], op.results)
    location = op.location
    assert folded(ctx, module)
    assert body(module)[0].location == location


def test_a_shared_constant_is_split_and_not_changed() -> None:
    ctx = new_context()
    source = keyed(constant(ctx, np.arange(6, dtype=np.float32).reshape(2, 3), f32), "w")
    value = source.results[0]
    a = keyed(nn.TransposeOp(value, perm=[1, 0]), "a")
    b = keyed(nn.FlipOp(value, axes=[0]), "b")
    module = module_of([source, a, b], [value, a.results[0], b.results[0]])
    assert folded(ctx, module)
    assert sorted(nn.keys_of(op)[0] for op in body(module)[:-1]) == ["a", "b", "w"]


def test_growth_is_capped() -> None:
    ctx = new_context()
    for repeats, fits in ((8, True), (4000, False)):
        source = constant(ctx, np.ones((2,), np.float32), f32)
        op = nn.TileOp(source.result, repeats=[repeats])
        assert folded(ctx, module_of([source, op], op.results)) is fits
    assert ctx.remarks.remarks[-1].code == "growth"
    source = constant(ctx, np.ones((2,), np.float32), f32)
    op = nn.TileOp(source.result, repeats=[4000])
    assert folded(ctx, module_of([source, op], op.results), max_growth=4000)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("perm", list(itertools.permutations(range(2))))
def test_a_pointwise_convolution_weight_per_axis(axis: int, perm: tuple[int, int]) -> None:
    """[O, I, 1, 1] -> [O, I] -> transposed, quantized along each dimension."""
    ctx = new_context()
    extents = (4, 3, 1, 1)
    scales = [0.5, 0.25, 0.125, 2.0][: extents[axis]]
    element = UniformType.per_axis("i8", axis, scales)
    array = np.arange(12, dtype=np.int8).reshape(extents)
    source = constant(ctx, array, element)
    cast = DCastOp(source.result, TensorType(f32, extents))
    reshape = nn.ReshapeOp(cast.result, (4, 3))
    transpose = nn.TransposeOp(reshape.results[0], perm=perm)
    module = module_of([source, cast, reshape, transpose], transpose.results)
    assert folded(ctx, module)
    weight = body(module)[0]
    assert isinstance(weight, nn.ConstantOp)
    found = quant_element(weight.result.type)
    assert found is not None
    expected = None if axis > 1 else perm.index(axis)
    assert found.qparams.axis == expected
    np.testing.assert_array_equal(
        nn.constant_array(weight, ctx.blobs), array.reshape(4, 3).transpose(perm)
    )
