"""What the ops of StableHLO infer and demand beyond their tables, as its specification says.

slice        (limit - start) / stride, rounded up, along each dimension
dot_general  batches, then what is left of the left factor, then of the right one
reduce       the dimensions that are not reduced; elements of what the body returns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    IntegerType,
    Signedness,
    TupleType,
    i1,
    i32,
)
from xdsl.ir import Attribute

from qdialect.plugins.mlir.upstream.inference import quantized
from qdialect.plugins.mlir.upstream.inference.bodies import RULES as WITH_BODIES
from qdialect.plugins.mlir.upstream.inference.gathers import RULES as GATHERS
from qdialect.plugins.mlir.upstream.inference.products import RULES as PRODUCTS
from qdialect.plugins.mlir.upstream.inference.view import (
    Inferred,
    Results,
    Rule,
    View,
    at_least,
    demand,
    dimensions,
    must_agree,
    must_be,
    must_fit,
)
from qdialect.plugins.mlir.upstream.shapes import (
    Shape,
    element_or_self,
    fit,
    joined,
    listed,
    merged,
    shape_of,
)
from qdialect.plugins.mlir.upstream.traits import inferred_as

_UI32 = IntegerType(32, Signedness.UNSIGNED)


def _real(element: Any) -> Any:
    return cast("Any", element).element_type if isinstance(element, ComplexType) else element


# -- elementwise --------------------------------------------------------------------


def _add(v: View) -> None:
    kinds = [v.kind(name) for name in ("lhs", "rhs", "result")]
    if any(map(quantized.is_quantized, kinds)):
        quantized.check_sum(kinds)
    else:
        must_agree("element types", *map(element_or_self, kinds))


def _to_real(v: View) -> Results:
    return [Inferred(v.shape("operand"), _real(v.element("operand")))]


def _complex(v: View) -> Results:
    element: Any = v.element("lhs")
    return [Inferred(v.shape("lhs"), ComplexType(element))]


def _to_bools(v: View, name: str) -> Results:
    return [Inferred(v.shape(name), i1)]


def _clamp(v: View) -> Results:
    for name in ("min", "max"):
        if v.shape(name) != ():
            must_fit(f"{name}, which is no scalar,", v.shape(name), v.shape("operand"))
    return [v.like("operand")]


def _select(v: View) -> Results:
    shape, other = v.shape("on_true"), v.shape("on_false")
    must_fit("on_false", other, shape)
    must_agree("element types of choices", v.element("on_true"), v.element("on_false"))
    if v.shape("pred") != ():
        must_fit("pred, which is no scalar,", v.shape("pred"), shape)
    return [Inferred(merged(shape, other), v.element("on_true"))]


def _bits(element: Any) -> int:
    if isinstance(element, ComplexType):
        return 2 * _bits(_real(element))
    if quantized.is_quantized(element):
        return quantized.params_of(element).storage.width
    return int(element.bitwidth)


def _bitcast(v: View) -> None:
    kinds = (v.kind("operand"), v.result)
    elements = [element_or_self(kind) for kind in kinds]
    must_agree("whether types are complex", *(isinstance(e, ComplexType) for e in elements))
    sides = [(_bits(e), [*(shape_of(kind) or ())]) for e, kind in zip(elements, kinds, strict=True)]
    (narrow, inner), (wide, outer) = sorted(sides, key=lambda side: side[0])
    if narrow != wide:
        whole = len(inner) == len(outer) + 1 and (inner[-1] < 0 or inner[-1] * narrow == wide)
        demand(whole, f"cannot read {kinds[0]} as {kinds[1]}: parts need a last dimension")
        inner = inner[:-1]
    must_fit("the other side", tuple(inner), tuple(outer))


def _quantize(v: View) -> Results:
    source = v.element("operand")
    given = quantized.params_of(source).expressed if quantized.is_quantized(source) else str(source)
    must_be("expressed type of the result", quantized.params_of(v.kind("result")).expressed, given)
    return [Inferred(v.shape("operand"))]


def _dequantize(v: View) -> Results:
    expressed = quantized.params_of(v.kind("operand")).expressed
    must_be("element type of the result", str(v.element("result")), expressed)
    return [Inferred(v.shape("operand"))]


# -- constants ----------------------------------------------------------------------


def _constant(v: View) -> None:
    kind = getattr(v.attribute("value"), "type", None)
    if isinstance(kind, Attribute):
        stored = v.storage("output")
        stored = stored.lstrip("u") if quantized.is_quantized(v.result) else stored
        must_be("element type of value", str(element_or_self(kind)), stored)
        must_be("shape of value", shape_of(kind), v.shape("output"))


def _iota(v: View) -> None:
    dimensions("iota_dimension", [v.integer("iota_dimension")], len(shape_of(v.result) or ()))


def _dynamic_iota(v: View) -> Results:
    _iota(v)
    return _resized(v, "output_shape")


def _resized(v: View, name: str) -> Results:
    sizes = v.sizes(name)
    at_least(0, name, sizes or ())
    return None if sizes is None else [Inferred(sizes)]


# -- movement -----------------------------------------------------------------------


def _broadcast(v: View) -> Results:
    sizes = v.integers("broadcast_sizes")
    at_least(0, "broadcast_sizes", sizes)
    return [Inferred((*sizes, *v.ranked("operand")), v.element("operand"))]


def _broadcast_in_dim(v: View, *, dynamic: bool = False) -> Results:
    shape, target = v.ranked("operand"), shape_of(v.result) or ()
    (dims,) = v.counted(len(shape), "broadcast_dimensions")
    dimensions("broadcast_dimensions", dims, len(target))
    for d, n in zip(dims, shape, strict=True):
        fits = n in (1, -1, target[d]) or (dynamic and target[d] < 0)
        demand(fits, f"cannot repeat an extent of {n} to dimension {d} of {listed(target)}")
    quantized.check_broadcast(v.kind("operand"), v.result, dims)
    if not dynamic:
        return None
    _one_element(v.kind("operand"), v.result)
    hints = [
        *v.integers("known_expanding_dimensions"),
        *v.integers("known_nonexpanding_dimensions"),
    ]
    dimensions("known_expanding and known_nonexpanding_dimensions", hints, len(shape))
    return _resized(v, "output_dimensions")


def _one_element(source: Attribute, result: Attribute) -> None:
    """Of types that are not quantized."""
    if not quantized.is_quantized(source) and not quantized.is_quantized(result):
        must_be("element type of the result", inferred_as(result), inferred_as(source))


def _concatenate(v: View) -> Results:
    kinds, axis = v.kinds("inputs"), v.integer("dimension")
    demand(kinds, "must have at least one operand")
    shapes = [shape_of(kind) or () for kind in kinds]
    must_agree("ranks of operands", *map(len, shapes))
    dimensions("dimension", [axis], len(shapes[0]))
    whole = joined(shapes, axis)
    demand(whole, f"cannot join {', '.join(map(listed, shapes))} along dimension {axis}")
    return [Inferred(whole, element_or_self(kinds[0]))]


def _reshape(v: View) -> None:
    shape, result = v.ranked("operand"), shape_of(v.result) or ()
    if min((*shape, *result), default=0) >= 0:
        must_be(f"number of elements of {listed(result)}", prod(result), prod(shape))
    quantized.check_reshape(v.kind("operand"), v.result)


def _dynamic_reshape(v: View) -> Results:
    shape, sizes = v.ranked("operand"), v.sizes("output_shape")
    _one_element(v.kind("operand"), v.result)
    _reshape(v)
    must_be("length of output_shape", v.ranked("output_shape")[0], len(v.ranked("result")))
    if sizes is not None and min(shape, default=0) >= 0:
        must_be("number of elements of output_shape", prod(sizes), prod(shape))
    return _resized(v, "output_shape")


def _transpose(v: View) -> Results:
    shape, source = v.ranked("operand"), v.kind("operand")
    (perm,) = v.counted(len(shape), "permutation")
    dimensions("permutation", perm, len(shape))
    quantized.check_same_values(source, v.result)
    quantized.check_moved(source, v.result, [perm.index(d) for d in range(len(perm))])
    return [Inferred(tuple(shape[d] for d in perm), v.element("operand"))]


def _reverse(v: View) -> Results:
    dimensions("dimensions", v.integers("dimensions"), len(v.ranked("operand")))
    return [v.like("operand")]


def _slice(v: View) -> Results:
    shape, sizes = v.ranked("operand"), list[int]()
    bounds = v.counted(len(shape), "start_indices", "limit_indices", "strides")
    for d, (n, start, limit, stride) in enumerate(zip(shape, *bounds, strict=True)):
        inside = 0 <= start <= limit and (n < 0 or limit <= n) and stride > 0
        demand(inside, f"dimension {d}: cannot take {start} to {limit} by {stride} of {n}")
        sizes.append(-(-(limit - start) // stride))
    return [Inferred(tuple(sizes), v.element("operand"))]


def _starts(v: View, rank: int) -> None:
    """A start index for each dimension, of one type."""
    starts = v.kinds("start_indices")
    must_be("number of start indices", len(starts), rank)
    must_agree("element types of start indices", *map(element_or_self, starts))


def _inside(what: str, sizes: Sequence[int], shape: Shape) -> None:
    fits = len(sizes) == len(shape) and all(
        n < 0 or m < 0 or n <= m for n, m in zip(sizes, shape, strict=True)
    )
    demand(fits, f"{what} of {[*sizes]} must be inside of {listed(shape)}")


def _dynamic_slice(v: View) -> Results:
    shape, sizes = v.ranked("operand"), v.integers("slice_sizes")
    _starts(v, len(shape))
    at_least(0, "slice_sizes", sizes)
    _inside("slice_sizes", sizes, shape)
    return [Inferred(tuple(sizes), v.element("operand"))]


def _dynamic_update_slice(v: View) -> Results:
    _starts(v, len(v.ranked("operand")))
    _inside("update", v.ranked("update"), v.ranked("operand"))
    return [v.like("operand")]


_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


def _padded(shape: Shape, numbers: Sequence[Sequence[int]]) -> Shape:
    at_least(0, "interior_padding", numbers[2])
    sizes = zip(shape, *numbers, strict=True)
    return tuple(a + n + max(n - 1, 0) * i + b if n >= 0 else -1 for n, a, b, i in sizes)


def _pad(v: View) -> Results:
    shape = v.ranked("operand")
    sizes = _padded(shape, v.counted(len(shape), *_PADDING))
    at_least(0, "extents", [n for n, m in zip(sizes, shape, strict=True) if m >= 0])
    return [Inferred(sizes, v.element("operand"))]


def _dynamic_pad(v: View) -> Results:
    shape, numbers = v.ranked("operand"), [v.sizes(name) for name in _PADDING]
    must_be("number of paddings", v.ranked(_PADDING[0])[0], len(shape))
    at_least(0, "interior_padding", numbers[2] or ())
    known = [of for of in numbers if of is not None]
    return [Inferred(_padded(shape, known))] if len(known) == 3 else None


def _real_dynamic_slice(v: View) -> None:
    for name in ("start_indices", "limit_indices", "strides"):
        must_be(f"number of {name}", v.ranked(name)[0], len(v.ranked("operand")))


def _dimension_size(v: View) -> Results:
    dimensions("dimension", [v.integer("dimension")], len(v.ranked("operand")))
    return [Inferred((), i32)]


def _set_dimension_size(v: View) -> Results:
    shape, d, size = v.ranked("operand"), v.integer("dimension"), v.sizes("size")
    dimensions("dimension", [d], len(shape))
    must_be("shape of size", v.shape("size"), ())
    known = size[0] if size and size[0] == shape[d] else -1
    return [Inferred((*shape[:d], known, *shape[d + 1 :]), v.element("operand"))]


# -- normalization and linear algebra ------------------------------------------------


def _batch_norm(v: View, *features: str) -> Results:
    shape, index, element = v.ranked("operand"), v.integer("feature_index"), v.element("operand")
    dimensions("feature_index", [index], len(shape))
    for name in features:
        whole = shape if name == "grad_output" else (shape[index],)
        must_fit(name, v.shape(name), whole)
    one = Inferred((shape[index],), element)
    return [Inferred(shape, element), *[one] * (len(v.op.results) - 1)]


def _square(shape: Shape) -> None:
    square = len(shape) >= 2 and fit(shape[-1:], shape[-2:-1])
    demand(square, f"a must be square matrices, but has the shape {listed(shape)}")


def _cholesky(v: View) -> Results:
    _square(v.ranked("a"))
    return [v.like("a")]


def _triangular_solve(v: View) -> Results:
    a, b = v.ranked("a"), v.ranked("b")
    _square(a)
    free = (a[-1], -1) if v.flag("left_side") else (-1, a[-1])
    must_fit("b", b, (*a[:-2], *free))
    demand(v.keyword("transpose_a") != "TRANSPOSE_INVALID", "transpose_a must be another word")
    return [v.like("b")]


def _fft(v: View) -> Results:
    kind, shape, lengths = v.keyword("fft_type"), v.ranked("operand"), v.integers("fft_length")
    element: Any = v.element("operand")
    must_be("number of lengths in fft_length", len(lengths), *range(1, min(3, len(shape)) + 1))
    fits = isinstance(element, ComplexType) if kind != "RFFT" else str(element) in ("f32", "f64")
    demand(fits, f"{kind} cannot take elements of {element}")
    last, inner = lengths[-1], shape[-len(lengths) :]
    half = last // 2 + 1 if last else -1
    if kind == "RFFT":
        must_fit(f"the last dimensions of an {kind}", inner, tuple(lengths))
        return [Inferred((*shape[:-1], half if last else shape[-1]), ComplexType(element))]
    if kind == "IRFFT":
        must_fit(f"the last dimensions of an {kind}", inner, (*lengths[:-1], half if last else 0))
        return [Inferred((*shape[:-1], last), _real(element))]
    return [Inferred(shape, element)]


# -- others -------------------------------------------------------------------------


def _tuple(v: View) -> Results:
    return [Inferred(None, TupleType(cast("Any", ArrayAttr(v.kinds("val")))))]


def _tuple_element(v: View) -> Results:
    whole: Any = v.kind("operand")
    members, index = whole.types.data, v.integer("index")
    demand(index < len(members), f"index must be below {len(members)}, but is {index}")
    return [Inferred(shape_of(members[index]), members[index])]


def _rng(v: View) -> Results:
    floats = v.keyword("rng_distribution") != "NORMAL" or isinstance(v.element("a"), AnyFloat)
    demand(floats, f"a normal distribution has floats, no {v.element('a')}")
    shape = v.sizes("shape") or (-1,) * max(v.ranked("shape")[0], 0)
    return [Inferred(shape, v.element("b"))]


def _rng_bits(v: View) -> Results:
    return [Inferred(v.shape("initial_state")), Inferred(None)]


# -- collectives --------------------------------------------------------------------


def _grouped(v: View, rule: Rule, *, one_size: bool = True) -> Results:
    """With groups of replicas, each of which is in one group; groups of one size have no -1."""
    groups: Any = v.attribute("replica_groups")
    kind = getattr(groups, "type", None)
    if isinstance(kind, Attribute):
        must_be("rank of replica_groups", len(shape_of(kind) or ()), 2)
        ids = sorted(n for n in v.integers("replica_groups") if n != -1 or one_size)
        demand(ids == [*range(len(ids))], f"replica_groups must have replicas once each, not {ids}")
        some = v.attribute("use_global_device_ids") is None or prod(shape_of(kind) or ())
        demand(some, "replica_groups must not be empty with global ids")
    return rule(v)


def _all_gather(v: View) -> Results:
    d, found = v.integer("all_gather_dim"), list[Inferred]()
    for operand, result in zip(v.kinds("operands"), v.kinds("_0"), strict=True):
        a, b = shape_of(operand) or (), shape_of(result) or ()
        dimensions("all_gather_dim", [d], len(a))
        must_agree("ranks of operand and result", len(a), len(b))
        times = a[d] and (min(a[d], b[d]) < 0 or b[d] % a[d] == 0)
        demand(times, f"dimension {d} must be a multiple of {a[d]}, but is {b[d]}")
        found.append(Inferred((*a[:d], -1, *a[d + 1 :])))
    return found


def _all_to_all(v: View) -> Results:
    split, onto = v.integer("split_dimension"), v.integer("concat_dimension")
    count, found = v.integer("split_count"), list[Inferred]()
    size = shape_of(getattr(v.attribute("replica_groups"), "type", i1)) or (count,)
    must_be("split_count", count, size[-1])
    for kind in v.kinds("operands"):
        sizes = [*(shape_of(kind) or ())]
        for d in (split, onto):
            dimensions("split_dimension and concat_dimension", [d], len(sizes))
        whole = sizes[split] < 0 or sizes[split] % count == 0
        demand(whole, f"dimension {split} of {kind} must be a multiple of split_count {count}")
        sizes[split] = max(sizes[split] // count, -1)
        sizes[onto] = max(sizes[onto] * count, -1)
        found.append(Inferred(tuple(sizes), element_or_self(kind)))
    return found


def _permute(v: View) -> Results:
    pairs: Any = v.attribute("source_target_pairs")
    numbers = v.integers("source_target_pairs")
    must_fit("source_target_pairs", shape_of(pairs.type), (-1, 2))
    at_least(0, "source_target_pairs", numbers)
    once = all(len({*side}) == len(side) for side in (numbers[::2], numbers[1::2]))
    demand(once, f"source_target_pairs must have each replica once a side: {[*numbers]}")
    return [v.like("operand")]


def _to_all(v: View) -> Results:
    ids = v.integers("replica_groups")
    distinct = len({*ids}) == len(ids) and min(ids, default=0) >= 0
    demand(distinct, f"replica_groups must have replicas once each, not {[*ids]}")
    must_be("number of results", len(v.op.results), len(v.kinds("operands")))
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in v.kinds("operands")]


def _ends_in_token(v: View) -> None:
    demand(len(v.op.results), "it must give a token, but gives nothing")
    must_be("the type of the last result", str(v.op.results[-1].type), "!stablehlo.token")


RULES: Mapping[str, Rule] = {
    **GATHERS,
    **PRODUCTS,
    **WITH_BODIES,
    "abs": _to_real,
    "add": _add,
    "all_gather": partial(_grouped, rule=_all_gather),
    "all_reduce": partial(_grouped, rule=WITH_BODIES["all_reduce"], one_size=False),
    "all_to_all": partial(_grouped, rule=_all_to_all),
    "batch_norm_grad": lambda v: _batch_norm(v, "scale", "mean", "variance", "grad_output"),
    "batch_norm_inference": lambda v: _batch_norm(v, "scale", "offset", "mean", "variance"),
    "batch_norm_training": lambda v: _batch_norm(v, "scale", "offset"),
    "bitcast_convert": _bitcast,
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "cholesky": _cholesky,
    "clamp": _clamp,
    "collective_broadcast": _to_all,
    "collective_permute": _permute,
    "compare": partial(_to_bools, name="lhs"),
    "complex": _complex,
    "concatenate": _concatenate,
    "constant": _constant,
    "dynamic_broadcast_in_dim": partial(_broadcast_in_dim, dynamic=True),
    "dynamic_iota": _dynamic_iota,
    "dynamic_pad": _dynamic_pad,
    "dynamic_reshape": _dynamic_reshape,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "fft": _fft,
    "get_dimension_size": _dimension_size,
    "get_tuple_element": _tuple_element,
    "imag": _to_real,
    **dict.fromkeys(("infeed", "outfeed", "recv", "send"), _ends_in_token),
    "iota": _iota,
    "is_finite": partial(_to_bools, name="x"),
    "pad": _pad,
    **dict.fromkeys(("partition_id", "replica_id"), lambda v: [Inferred((), _UI32)]),
    "real": _to_real,
    "real_dynamic_slice": _real_dynamic_slice,
    "reduce_scatter": partial(_grouped, rule=WITH_BODIES["reduce_scatter"]),
    "reshape": _reshape,
    "reverse": _reverse,
    "rng": _rng,
    "rng_bit_generator": _rng_bits,
    "select": _select,
    "set_dimension_size": _set_dimension_size,
    "slice": _slice,
    "transpose": _transpose,
    "triangular_solve": _triangular_solve,
    "tuple": _tuple,
    "uniform_dequantize": _dequantize,
    "uniform_quantize": _quantize,
}
"""By the name without the dialect."""
