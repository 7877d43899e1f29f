"""Contractions, pools and normalizations of constants: folded as the interpreter, which
shares nothing with the pass, computes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from test_fold_constants import body, constant, folded, module_of, random_codes, raw
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64, i1, i32, i64
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams, Storage
from qdialect.interpreter import Interpreter
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops.shapes import ShapeError
from qdialect.ir.quant import UniformType
from qdialect.passes.folding.fold_constants import FoldConstants

#: powers of two make ties; the others do not
SCALES = (0.5, 0.25, 1.0, 0.1, 1.0 / 3.0, 2.0**-30, 7.0)
NARROW = (Storage.of("i8", -127, 127), Storage.of("u8", 0, 200), Storage.of("i16", -5, 5))
STORAGES = (*map(Storage.of, ("i8", "u8", "i16", "i4")), *NARROW)
WIDE = (Storage.of("i32"), Storage.of("i16"))
#: elements of a result; folding has a cap
LARGEST = 1024
TOLERANCE = {"f64": 1e-13, "f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}
ROUNDINGS = ("half_even", "half_away", "half_up")

#: kind, shapes of the operands, properties, dimension of per-axis qparams of each operand
Case = tuple[type[nn.NNOp], list[tuple[int, ...]], dict[str, Any], list["int | None"]]


def conv(rank: int) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        groups = rng.choice((1, 1, 2, 3))
        inner, outer = rng.randint(1, 2), rng.randint(1, 2) * groups
        shapes = [
            (rng.randint(1, 2), inner * groups, *(rng.randint(1, 8 - rank) for _ in range(rank))),
            (outer, inner, *(rng.randint(1, 3) for _ in range(rank))),
        ]
        properties = {"groups": groups, **steps(rng, rank)}
        return nn.CONVOLUTIONS[rank - 1], shapes, properties, [None, 0]

    return make


def conv_transpose(rank: int) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        groups = rng.choice((1, 1, 2, 3))
        inner, outer = rng.randint(1, 2), rng.randint(1, 2)
        shapes = [
            (rng.randint(1, 2), inner * groups, *(rng.randint(1, 6 - rank) for _ in range(rank))),
            (inner * groups, outer, *(rng.randint(1, 3) for _ in range(rank))),
        ]
        properties = {"groups": groups, **steps(rng, rank)}
        properties["output_padding"] = [rng.randint(0, 2) for _ in range(rank)]
        depthwise = inner == outer == 1
        return nn.TRANSPOSED[rank - 1], shapes, properties, [None, 0 if depthwise else 1]

    return make


def steps(rng: random.Random, rank: int) -> dict[str, Any]:
    return {
        "strides": [rng.randint(1, 3) for _ in range(rank)],
        "pads": [rng.randint(0, 3) for _ in range(2 * rank)],
        "dilations": [rng.randint(1, 2) for _ in range(rank)],
    }


def fully_connected(rng: random.Random) -> Case:
    m, n, k = (rng.randint(1, 5) for _ in range(3))
    return nn.FullyConnectedOp, [(m, k), (n, k)], {}, [None, 0]


def matmul(rng: random.Random) -> Case:
    m, n, k = rng.randint(1, 4), rng.randint(1, 4), rng.randint(0, 5)
    batch = [rng.choice(((), (2,), (1,), (3, 2), (3, 1))) for _ in range(2)]
    if {len(b) for b in batch} != {1} and batch[0][-1:] != batch[1][-1:]:
        batch[1] = ()
    lhs = rng.choice([(k,), (*batch[0], m, k)])
    rhs = rng.choice([(k,), (*batch[1], k, n)])
    return nn.MatMulOp, [lhs, rhs], {}, [None, len(rhs) - 1 if len(rhs) > 1 else None]


def image(rng: random.Random, rank: int) -> tuple[int, ...]:
    extents = (rng.randint(1, 9 - rank) for _ in range(rank))
    return (rng.randint(1, 2), rng.randint(1, 3), *extents)


def pool(kind: Any) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        shape = image(rng, kind.SPATIAL)
        properties: dict[str, Any] = {
            "kernel": [rng.randint(1, 3) for _ in range(kind.SPATIAL)],
            "ceil_mode": rng.random() < 0.5,
            **steps(rng, kind.SPATIAL),
        }
        if kind in nn.AVERAGE_POOLS:
            properties["count_include_pad"] = rng.random() < 0.5
        return kind, [shape], properties, [rng.choice((0, 1))]

    return make


def global_pool(kind: Any) -> Callable[[random.Random], Case]:
    return lambda rng: (kind, [image(rng, kind.SPATIAL)], {}, [rng.choice((0, 1))])


def reduction(kind: type[nn.NNOp]) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
        axes = sorted(rng.sample(range(len(shape)), rng.randint(0, len(shape))))
        keep = kind in PICKING or rng.random() < 0.5
        others = [d for d in range(len(shape)) if d not in axes]
        properties = {"axes": [a - rng.choice((0, len(shape))) for a in axes], "keepdims": keep}
        return kind, [shape], properties, [rng.choice(others) if others else None]

    return make


def resize_linear(rng: random.Random) -> Case:
    shape = (rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 6), rng.randint(1, 6))
    modes = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
    properties: dict[str, Any] = {"coordinates": rng.choice(modes)}
    if rng.random() < 0.5:
        properties["sizes"] = [*shape[:2], rng.randint(1, 8), rng.randint(1, 8)]
    else:
        scales = [rng.choice((1.0, 1.3, 2.0, 3.3)) for _ in range(2)]
        properties["scales"] = [1.0, 1.0, *scales]
    return nn.ResizeLinearOp, [shape], properties, [rng.choice((0, 1))]


PICKING = (*nn.MAX_POOLS, nn.ReduceMaxOp, nn.ReduceMinOp)

RANKS = (1, 2, 3)
CASES = {
    **{f"conv{rank}d": conv(rank) for rank in RANKS},
    **{f"conv_transpose{rank}d": conv_transpose(rank) for rank in RANKS},
    "fully_connected": fully_connected,
    "matmul": matmul,
    **{f"avg_pool{rank}d": pool(nn.AVERAGE_POOLS[rank - 1]) for rank in RANKS},
    **{f"global_avg_pool{rank}d": global_pool(nn.GLOBAL_AVERAGE_POOLS[rank - 1]) for rank in RANKS},
    **{f"max_pool{rank}d": pool(nn.MAX_POOLS[rank - 1]) for rank in RANKS},
    "resize_linear": resize_linear,
    "reduce_max": reduction(nn.ReduceMaxOp),
    "reduce_min": reduction(nn.ReduceMinOp),
    "reduce_mean": reduction(nn.ReduceMeanOp),
    "reduce_sum": reduction(nn.ReduceSumOp),
}
CONVOLUTIONS = (*nn.CONVOLUTIONS, *nn.TRANSPOSED)
BIASED = (*CONVOLUTIONS, nn.FullyConnectedOp)


def qparams_for(
    rng: random.Random, extents: tuple[int, ...], axis: int | None, storages: Sequence[Storage]
) -> QParams:
    storage = rng.choice(storages)
    zeros = (0, 3, 5) if storage.width < 32 else (0,)
    if axis is None or not extents[axis] or rng.random() < 0.4:
        return QParams.per_tensor(storage, rng.choice(SCALES), rng.choice(zeros))
    pairs = [(rng.choice(SCALES), rng.choice(zeros)) for _ in range(extents[axis])]
    return QParams.per_axis(storage, axis, [s for s, _ in pairs], [z for _, z in pairs])


def extents_of(sources: Sequence[nn.ConstantOp], kind: Any, properties: dict[str, Any]) -> Any:
    """The shape of the result, or None if the drawn windows do not fit."""
    values = {"ceil_mode": False, **properties}
    try:
        (shape,) = kind.infer([nn.shape_of(s.result) for s in sources], values)
    except ShapeError:
        return None
    return shape


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("storages", [STORAGES, WIDE], ids=["narrow", "wide"])
def test_codes(name: str, storages: Sequence[Storage]) -> None:
    rng, ctx, fired = random.Random(name), new_context(), 0
    for _ in range(180):
        kind, shapes, properties, axes = CASES[name](rng)
        params = [qparams_for(rng, s, a, storages) for s, a in zip(shapes, axes, strict=True)]
        sources = [
            constant(ctx, random_codes(rng, s, q), UniformType(q))
            for s, q in zip(shapes, params, strict=True)
        ]
        shape = extents_of(sources, kind, properties)
        if shape is None or prod(shape) > LARGEST:
            continue
        if kind in PICKING:
            element = UniformType(params[0])
        else:
            tail = len(shape) - 1 if name == "matmul" else int(kind in BIASED)
            along = tail if len(shape) > 1 else None
            element = UniformType(qparams_for(rng, shape, along, storages))
            properties["rounding"] = rng.choice(ROUNDINGS)
        if kind in BIASED and rng.random() < 0.7:
            groups = properties.get("groups", 1) if params[1].axis == 1 else 1
            sources.append(bias(rng, ctx, params, shape[1], groups))
        op = kind(*(s.result for s in sources), element=element, **properties)
        assert folded(ctx, module_of([*sources, op], op.results)), ctx.remarks.remarks[-1]
        fired += 1
    assert fired > 50


def bias(
    rng: random.Random, ctx: QContext, params: Sequence[QParams], channels: int, groups: int
) -> nn.ConstantOp:
    """A bias of `channels`, float or on the scale of the accumulator."""
    if rng.random() < 0.4:
        return constant(ctx, raw(rng, (channels,), f32) * 10, f32)
    scales = [params[0].scale_list()[0] * scale for scale in params[1].scale_list()] * groups
    if params[1].axis is None:
        kind = QParams.per_tensor("i32", scales[0])
    else:
        kind = QParams.per_axis("i32", 0, scales, [0] * len(scales))
    return constant(ctx, random_codes(rng, (channels,), kind) // 2**16, UniformType(kind))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_ties(rounding: str) -> None:
    """Every other sum is half a step."""
    rng, ctx = np.random.default_rng(1), new_context()
    kind = UniformType.per_tensor("i8", 0.5, 3)
    x = constant(ctx, rng.integers(-9, 9, (9, 5), np.int8), kind)
    w = constant(ctx, rng.integers(-9, 9, (7, 5), np.int8), UniformType.per_tensor("i8", 1.0))
    op = nn.FullyConnectedOp(
        x.result, w.result, element=UniformType.per_tensor("i16", 1.0), rounding=rounding
    )
    assert folded(ctx, module_of([x, w, op], op.results))
    image = constant(ctx, rng.integers(-9, 9, (1, 3, 4, 4), np.int8), kind)
    pooled = nn.AvgPool2DOp(
        image.result,
        kernel=[2, 2],
        pads=[1, 1, 1, 1],
        element=UniformType.per_tensor("i8", 0.5),
        rounding=rounding,
    )
    assert folded(ctx, module_of([image, pooled], pooled.results))


@pytest.mark.parametrize("element", [f32, f16, bf16, f64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_floats(name: str, element: Attribute) -> None:
    """Sums of floats fold with `ties` only, to what some order of summation gives."""
    rng, ctx = random.Random(name), new_context()
    tolerance = TOLERANCE[str(element)]
    for _ in range(30):
        kind, shapes, properties, _ = CASES[name](rng)
        sources = [constant(ctx, raw(rng, s, element), element) for s in shapes]
        shape = extents_of(sources, kind, properties)
        if shape is None or prod(shape) > LARGEST:
            continue
        if kind in BIASED:
            sources.append(constant(ctx, raw(rng, (shape[1],), element), element))
        op = kind(*(s.result for s in sources), **properties)
        module = module_of([*sources, op], op.results)
        (before,) = Interpreter(ctx, module).run([])
        FoldConstants().apply(ctx, module)
        assert (op.name not in str(module)) == (kind in PICKING)
        FoldConstants(numerics="ties").apply(ctx, module)
        module.verify()
        assert op.name not in str(module)
        (after,) = Interpreter(ctx, module).run([])
        assert before.dtype == after.dtype
        np.testing.assert_allclose(
            after.astype(np.float64), before.astype(np.float64), tolerance, tolerance
        )


# -- normalizations -----------------------------------------------------------------


def batch_norm(ctx: QContext, rng: np.random.Generator, variance: np.ndarray) -> ModuleOp:
    channels = len(variance)
    source_type = UniformType.per_tensor("i8", 0.25, 3)
    x = constant(ctx, rng.integers(-128, 128, (3, channels, 4), np.int8), source_type)
    scale, offset, mean = (rng.integers(-9, 9, channels).astype(np.float32) for _ in range(3))
    statistics = [constant(ctx, v.astype(np.float32), f32) for v in (scale, offset, mean, variance)]
    op = nn.BatchNormOp(
        x.result,
        *(s.result for s in statistics),
        element=UniformType.per_tensor("i8", 0.5, 1),
        epsilon=0.25,
        rounding=random.Random(channels).choice(ROUNDINGS),
    )
    return module_of([x, *statistics, op], op.results)


def test_batch_norm() -> None:
    """Rational square roots (ties included) and others."""
    rng, ctx = np.random.default_rng(1), new_context()
    for channels in range(1, 8):
        squares = rng.integers(1, 9, channels) ** 2 / 4.0 - 0.25
        assert folded(ctx, batch_norm(ctx, rng, squares))
        assert folded(ctx, batch_norm(ctx, rng, rng.random(channels)))


def test_batch_norm_of_a_negative_variance_is_left() -> None:
    ctx = new_context()
    module = batch_norm(ctx, np.random.default_rng(1), np.array([-0.5]))
    FoldConstants().apply(ctx, module)
    assert "nn.batch_norm" in str(module)
    assert [r.code for r in ctx.remarks.remarks if r.kind == "refused"] == ["unsupported"]


@pytest.mark.parametrize("element", [f32, f16, bf16, f64], ids=str)
def test_float_normalizations(element: Attribute) -> None:
    rng, ctx = random.Random(1), new_context()
    tolerance = TOLERANCE[str(element)]
    x = constant(ctx, raw(rng, (2, 3, 4), element), element)
    statistics = [constant(ctx, raw(rng, (3,), element), element) for _ in range(3)]
    one = raw(rng, (3,), element)
    one[:] = 0x3F80 if element == bf16 else 1
    ones = constant(ctx, one, element)
    norm = nn.BatchNormOp(x.result, *(s.result for s in (*statistics, ones)))
    op = nn.SoftmaxOp(norm.results[0], axis=1)
    module = module_of([x, *statistics, ones, norm, op], op.results)
    (before,) = Interpreter(ctx, module).run([])
    FoldConstants().apply(ctx, module)
    assert "nn.batch_norm" in str(module)
    FoldConstants(numerics="ties").apply(ctx, module)
    assert [op.name for op in body(module)[:-1]] == ["nn.constant"]
    (after,) = Interpreter(ctx, module).run([])
    np.testing.assert_allclose(
        after.astype(np.float64), before.astype(np.float64), tolerance, tolerance
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    rng, ctx = np.random.default_rng(1), new_context()
    for scale in (0.05, 1.0 / 3.0):
        source = constant(
            ctx, rng.integers(-128, 128, (4, 5, 6), np.int8), UniformType.per_tensor("i8", scale)
        )
        op = nn.SoftmaxOp(
            source.result, axis=axis, element=UniformType.per_tensor("u8", 1.0 / 256.0)
        )
        assert folded(ctx, module_of([source, op], op.results))


def test_softmax_on_a_tie_is_left() -> None:
    ctx = new_context()
    source = constant(ctx, np.zeros(2, np.int8), UniformType.per_tensor("i8", 0.05))
    op = nn.SoftmaxOp(source.result, axis=0, element=UniformType.per_tensor("i8", 1.0))
    assert not folded(ctx, module_of([source, op], op.results))
    assert [r.code for r in ctx.remarks.remarks if r.kind == "refused"][-1] == "tie"


# -- refusals -------------------------------------------------------------------------


def test_work_is_capped() -> None:
    ctx = new_context()
    kind = UniformType.per_tensor("i8", 0.5)
    for depth, fits in ((256, True), (2048, False)):
        a = constant(ctx, np.ones((100, depth), np.int8), kind)
        b = constant(ctx, np.ones((depth, 100), np.int8), kind)
        op = nn.MatMulOp(a.result, b.result, element=UniformType.per_tensor("i16", 1.0))
        module = module_of([a, b, op], op.results)
        FoldConstants().apply(ctx, module)
        assert ("nn.matmul" not in str(module)) is fits
    assert ctx.remarks.remarks[-1].code == "work"


ELEMENTS: list[Attribute] = [f32, f16, bf16, f64, i64, i32, i1]
QUANTIZED = ("i8", "u8", "i16", "u16", "i4", "u4", "i32")
KINDS: dict[type[nn.NNOp], tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    nn.Conv2DOp: ([(1, 1, 2, 2), (1, 1, 1, 1)], {"pads": [1, 1, 1, 1]}),
    nn.ConvTranspose2DOp: ([(1, 1, 2, 2), (1, 1, 2, 2)], {"pads": [1, 1, 1, 1]}),
    nn.MaxPool1DOp: ([(1, 1, 2)], {"kernel": [2]}),
    nn.AvgPool3DOp: ([(1, 1, 2, 2, 2)], {"kernel": [2, 2, 2]}),
    nn.FullyConnectedOp: ([(2, 2), (2, 2)], {}),
    nn.MatMulOp: ([(2,), (2,)], {}),
    nn.AvgPool2DOp: ([(1, 1, 2, 2)], {"kernel": [2, 2]}),
    nn.MaxPool2DOp: ([(1, 1, 2, 2)], {"kernel": [2, 2]}),
    nn.GlobalAvgPool2DOp: ([(1, 1, 2, 2)], {}),
    nn.SoftmaxOp: ([(2, 2)], {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", [*QUANTIZED, *map(str, ELEMENTS)])
def test_no_dtype_crashes(kind: type[nn.NNOp], storage: str) -> None:
    """Whatever the type, the op folds or stays with a remark."""
    ctx = new_context()
    shapes, properties = KINDS[kind]
    element: Attribute
    if storage in QUANTIZED:
        element = UniformType.per_tensor(storage, 0.5)
        arrays = [random_codes(random.Random(1), s, element.qparams) for s in shapes]
    else:
        element = next(e for e in ELEMENTS if str(e) == storage)
        if element in (i1, i32, i64):
            dtype = {"i1": "?", "i32": "i4", "i64": "i8"}[storage]
            arrays = [np.ones(s, dtype) for s in shapes]
        else:
            arrays = [raw(random.Random(1), s, element) for s in shapes]
    sources = [constant(ctx, array, element) for array in arrays]
    op = kind(*(s.result for s in sources), **properties)
    module = module_of([*sources, op], op.results)
    FoldConstants(numerics="relaxed").apply(ctx, module)
    module.verify()
    refusals = [r for r in ctx.remarks.remarks if r.kind == "refused"]
    assert (op.name in str(module)) == bool(refusals)


@pytest.mark.parametrize("size", [(0, 2), (2, 0), (0, 0)])
def test_empty_inputs(size: tuple[int, int]) -> None:
    ctx = new_context()
    kind = UniformType.per_tensor("i8", 0.5)
    for pool in (nn.AvgPool2DOp, nn.MaxPool2DOp, nn.GlobalAvgPool2DOp):
        x = constant(ctx, np.zeros((1, 1, *size), np.int8), kind)
        properties: dict[str, Any] = {}
        if pool is not nn.GlobalAvgPool2DOp:
            properties = {"kernel": [1, 1], "pads": [1, 1, 1, 1]}
        op = pool(x.result, element=kind, **properties)
        module = module_of([x, op], op.results)
        FoldConstants(numerics="relaxed").apply(ctx, module)
        assert [r.code for r in ctx.remarks.remarks][-1] == "unsupported"
