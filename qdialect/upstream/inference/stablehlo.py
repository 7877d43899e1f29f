"""What the ops of StableHLO infer and demand beyond their tables, as its specification says.

slice      (limit - start) / stride, rounded up, along each dimension
dot_general    batches, then what is left of the left factor, then of the right one
reduce     the dimensions that are not reduced; elements of what the body returns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IntegerType,
    Signedness,
    TupleType,
    i1,
    i32,
)
from xdsl.ir import Attribute

from qdialect.upstream.inference import quantized
from qdialect.upstream.inference.bodies import RULES as WITH_BODIES
from qdialect.upstream.inference.gathers import RULES as GATHERS
from qdialect.upstream.inference.products import RULES as PRODUCTS
from qdialect.upstream.inference.view import Inferred, Rule, View, demand
from qdialect.upstream.shapes import Shape, element_or_self, fit, listed, merged, shape_of
from qdialect.upstream.traits import inferred_as

_NOTHING: Sequence[Inferred] = ()


def _real(element: Attribute) -> Attribute:
    return cast("Any", element).element_type if isinstance(element, ComplexType) else element


def _dimensions(dims: Sequence[int], rank: int, what: str) -> None:
    """Different dimensions of so many."""
    demand(
        len(set(dims)) == len(dims) and all(0 <= d < rank for d in dims),
        f"{what} must be different ones of {rank} dimensions, from 0, but are {[*dims]}",
    )


def _count(numbers: Sequence[object], rank: int, what: str) -> None:
    demand(
        len(numbers) == rank,
        f"{what} must have {rank} numbers, one for each dimension, but has {len(numbers)}",
    )


# -- elementwise --------------------------------------------------------------------


def _add(v: View) -> Sequence[Inferred]:
    kinds = [v.kind(name) for name in ("lhs", "rhs", "result")]
    if any(map(quantized.is_quantized, kinds)):
        quantized.same_kind(kinds)
    else:
        elements = [*map(element_or_self, kinds)]
        demand(
            elements[0] == elements[1] == elements[2],
            "requires the same element type for all operands and results",
        )
    return _NOTHING


def _part(name: str) -> Rule:
    return lambda v: [Inferred(v.shape(name), _real(v.element(name)))]


def _complex(v: View) -> Sequence[Inferred]:
    return [Inferred(v.shape("lhs"), ComplexType(cast("Any", v.element("lhs"))))]


def _bools(name: str) -> Rule:
    return lambda v: [Inferred(v.shape(name), i1)]


def _like(*names: str) -> Rule:
    return lambda v: [Inferred(v.shape(name), v.element(name)) for name in names]


def _clamp(v: View) -> Sequence[Inferred]:
    shape = v.shape("operand")
    for name in ("min", "max"):
        bound = v.shape(name)
        demand(
            bound == () or fit(bound, shape),
            f"{name} must be a scalar, or have the shape {listed(shape)}, but has {listed(bound)}",
        )
    return [Inferred(shape, v.element("operand"))]


def _select(v: View) -> Sequence[Inferred]:
    chosen, choice = (v.shape("on_true"), v.shape("on_false")), v.shape("pred")
    elements = [v.element(name) for name in ("on_true", "on_false")]
    demand(
        fit(*chosen) and elements[0] == elements[1],
        f"on_true and on_false must have one type, but have {v.kind('on_true')} and "
        f"{v.kind('on_false')}",
    )
    demand(
        choice == () or fit(choice, chosen[0]),
        f"pred must be a scalar, or have the shape {listed(chosen[0])}, but has {listed(choice)}",
    )
    return [Inferred(merged(*chosen), elements[0])]


def _bits(element: Attribute) -> int:
    if isinstance(element, ComplexType):
        return 2 * _bits(_real(element))
    if quantized.is_quantized(element):
        return quantized.params_of(element).storage.width
    if isinstance(element, IntegerType):
        return cast("IntegerType[int, Signedness]", element).width.data
    return cast("Any", element).bitwidth


def _bitcast(v: View) -> Sequence[Inferred]:
    elements, kinds = (v.element("operand"), v.element("_0")), (v.kind("operand"), v.kind("_0"))
    demand(
        isinstance(elements[0], ComplexType) == isinstance(elements[1], ComplexType),
        f"cannot read the bits of {elements[0]} as {elements[1]}",
    )
    sides = sorted(zip(map(_bits, elements), map(shape_of, kinds), strict=True), key=lambda s: s[0])
    (narrow, inner), (wide, outer) = ((width, shape or ()) for width, shape in sides)
    if narrow != wide:
        demand(
            len(inner) == len(outer) + 1 and (inner[-1] < 0 or inner[-1] * narrow == wide),
            f"the side of {narrow} bits must have {wide // narrow} of them in a last dimension "
            f"of its own: {kinds[0]} and {kinds[1]}",
        )
        inner = inner[:-1]
    demand(fit(inner, outer), f"shapes must be equal: {kinds[0]} and {kinds[1]}")
    return _NOTHING


def _quantize(v: View) -> Sequence[Inferred]:
    source, expressed = v.element("operand"), quantized.params_of(v.kind("result")).expressed
    given = quantized.params_of(source).expressed if quantized.is_quantized(source) else str(source)
    demand(given == expressed, f"result must express {given}, as its operand, but {expressed}")
    return [Inferred(v.shape("operand"))]


def _dequantize(v: View) -> Sequence[Inferred]:
    expressed = quantized.params_of(v.kind("operand")).expressed
    found = str(v.element("result"))
    demand(found == expressed, f"result must be of {expressed}, as is expressed, but is of {found}")
    return [Inferred(v.shape("operand"))]


# -- constants ----------------------------------------------------------------------


def _constant(v: View) -> Sequence[Inferred]:
    kind = getattr(v.attribute("value"), "type", None)
    if not isinstance(kind, Attribute):
        return _NOTHING
    result, element = v.element("output"), element_or_self(kind)
    demand(
        str(element) == v.storage("output").replace("ui", "i")
        if quantized.is_quantized(result)
        else element == result,
        f"value of {element} cannot be an output of {result}",
    )
    demand(shape_of(kind) == v.shape("output"), f"value of {kind} cannot be {v.kind('output')}")
    return _NOTHING


def _iota(v: View) -> Sequence[Inferred]:
    rank = len(v.shape("output" if v.op.name == "stablehlo.iota" else "result") or ())
    _dimensions([v.integer("iota_dimension")], rank, "iota_dimension")
    return _NOTHING if v.op.name == "stablehlo.iota" else _resized(v, "output_shape")


def _resized(v: View, name: str) -> Sequence[Inferred]:
    """The shape that an operand has, if it is a constant."""
    given = v.constant(name)
    if given is None:
        return _NOTHING
    demand(min(given, default=0) >= 0, f"{name} must not be negative: {[*given]}")
    return [Inferred(tuple(int(n) for n in given))]


# -- movement -----------------------------------------------------------------------


def _broadcast(v: View) -> Sequence[Inferred]:
    sizes = v.integers("broadcast_sizes")
    demand(min(sizes, default=0) >= 0, f"broadcast_sizes must not be negative: {[*sizes]}")
    return [Inferred((*sizes, *(v.shape("operand") or ())), v.element("operand"))]


def _broadcast_in_dim(v: View) -> Sequence[Inferred]:
    result = "_0"
    shape, target, dims = v.shape("operand"), v.shape(result), v.integers("broadcast_dimensions")
    assert shape is not None and target is not None
    _count(dims, len(shape), "broadcast_dimensions")
    _dimensions(dims, len(target), "broadcast_dimensions")
    dynamic = v.op.name != "stablehlo.broadcast_in_dim"
    for d, n in zip(dims, shape, strict=True):
        demand(
            n in (1, -1, target[d]) or (dynamic and target[d] < 0),
            f"an extent of {n} cannot be repeated to dimension {d} of {listed(target)}",
        )
    quantized.repeated(v.kind("operand"), v.kind(result), dims)
    if not dynamic:
        return _NOTHING
    _one_kind(v, "operand", result)
    hints = [*v.integers("known_expanding_dimensions")]
    hints += v.integers("known_nonexpanding_dimensions")
    _dimensions(hints, len(shape), "dimensions known to expand or not")
    return _resized(v, "output_dimensions")


def _one_kind(v: View, *names: str) -> None:
    """Elements that are equal but for scales and zero points."""
    kinds = [v.kind(name) for name in names]
    demand(
        len({inferred_as(kind) for kind in kinds}) == 1 or any(map(quantized.is_quantized, kinds)),
        f"{' and '.join(names)} must have one element type, but are {kinds[0]} and {kinds[1]}",
    )


def _concatenate(v: View) -> Sequence[Inferred]:
    shapes, d = [shape_of(kind) or () for kind in v.kinds("inputs")], v.integer("dimension")
    demand(shapes, "must have at least one operand")
    ranks = {len(shape) for shape in shapes}
    demand(len(ranks) == 1, f"operands must have one rank, but have {sorted(ranks)}")
    _dimensions([d], len(shapes[0]), "dimension")
    others = [(*shape[:d], -1, *shape[d + 1 :]) for shape in shapes]
    demand(
        fit(*others),
        f"operands must be equal but along dimension {d}: {', '.join(map(listed, shapes))}",
    )
    along = [shape[d] for shape in shapes]
    rest = merged(*others) or ()
    size = sum(along) if min(along) >= 0 else -1
    return [Inferred((*rest[:d], size, *rest[d + 1 :]), element_or_self(v.kinds("inputs")[0]))]


def _reshape(v: View) -> Sequence[Inferred]:
    source, result = v.kind("operand"), v.op.results[0].type
    shapes = (shape_of(source) or (), shape_of(result) or ())
    static = min((*shapes[0], *shapes[1]), default=0) >= 0
    counts = [prod(shape) for shape in shapes]
    demand(
        not static or counts[0] == counts[1],
        f"cannot reshape {counts[0]} elements, {listed(shapes[0])}, to {listed(shapes[1])}",
    )
    quantized.kept_axis(source, result)
    return _NOTHING


def _dynamic_reshape(v: View) -> Sequence[Inferred]:
    _one_kind(v, "operand", "result")
    _reshape(v)
    shape, sizes = v.shape("operand") or (), v.constant("output_shape")
    count = (v.shape("output_shape") or (-1,))[0]
    demand(
        count in (-1, len(v.shape("result") or ())),
        f"output_shape has {count} extents, and the result is {v.kind('result')}",
    )
    demand(
        sizes is None or min(shape, default=0) < 0 or prod(sizes) == prod(shape),
        f"cannot reshape {listed(shape)} to {sizes}",
    )
    return _resized(v, "output_shape")


def _transpose(v: View) -> Sequence[Inferred]:
    shape, perm = v.shape("operand") or (), v.integers("permutation")
    _count(perm, len(shape), "permutation")
    _dimensions(perm, len(shape), "permutation")
    quantized.same_values(v.kind("operand"), v.kind("result"))
    quantized.moved_axis(
        v.kind("operand"), v.kind("result"), [perm.index(d) for d in range(len(perm))]
    )
    return [Inferred(tuple(shape[d] for d in perm), v.element("operand"))]


def _reverse(v: View) -> Sequence[Inferred]:
    shape = v.shape("operand")
    _dimensions(v.integers("dimensions"), len(shape or ()), "dimensions")
    return [Inferred(shape, v.element("operand"))]


def _slice(v: View) -> Sequence[Inferred]:
    shape = v.shape("operand") or ()
    bounds = [v.integers(name) for name in ("start_indices", "limit_indices", "strides")]
    for name, numbers in zip(("start_indices", "limit_indices", "strides"), bounds, strict=True):
        _count(numbers, len(shape), name)
    sizes: list[int] = []
    for d, (n, start, limit, stride) in enumerate(zip(shape, *bounds, strict=True)):
        demand(
            0 <= start <= limit and (n < 0 or limit <= n) and stride > 0,
            f"dimension {d}: cannot take {start} to {limit} by {stride} of {n} elements",
        )
        sizes.append(-(-(limit - start) // stride))
    return [Inferred(tuple(sizes), v.element("operand"))]


def _starts(v: View, rank: int) -> None:
    """A start index for each dimension, of one type."""
    starts = v.kinds("start_indices")
    _count(starts, rank, "start_indices")
    demand(len({*map(element_or_self, starts)}) <= 1, "start_indices must have one element type")


def _dynamic_slice(v: View) -> Sequence[Inferred]:
    shape, sizes = v.shape("operand") or (), v.integers("slice_sizes")
    _count(sizes, len(shape), "slice_sizes")
    _starts(v, len(shape))
    demand(
        all(size >= 0 and (n < 0 or size <= n) for size, n in zip(sizes, shape, strict=True)),
        f"cannot take a slice of {listed(tuple(sizes))} of {listed(shape)}",
    )
    return [Inferred(tuple(sizes), v.element("operand"))]


def _dynamic_update_slice(v: View) -> Sequence[Inferred]:
    shape, update = v.shape("operand") or (), v.shape("update") or ()
    demand(
        len(shape) == len(update)
        and all(a < 0 or b < 0 or a <= b for a, b in zip(update, shape, strict=True)),
        f"update of {listed(update)} must fit into {listed(shape)}",
    )
    _starts(v, len(shape))
    return [Inferred(shape, v.element("operand"))]


def _pad(v: View) -> Sequence[Inferred]:
    shape = v.shape("operand") or ()
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    numbers = [v.integers(name) for name in names]
    for name, of in zip(names, numbers, strict=True):
        _count(of, len(shape), name)
    demand(min(numbers[2], default=0) >= 0, f"interior_padding is negative: {[*numbers[2]]}")
    sizes = [
        low + n + max(n - 1, 0) * inner + high if n >= 0 else -1
        for n, low, high, inner in zip(shape, *numbers, strict=True)
    ]
    demand(
        all(a < 0 or b >= 0 for a, b in zip(shape, sizes, strict=True)),
        f"padding must leave no negative extent, but gives {sizes}",
    )
    return [Inferred(tuple(sizes), v.element("operand"))]


def _dynamic_pad(v: View) -> Sequence[Inferred]:
    shape = v.shape("operand") or ()
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    count = (v.shape(names[0]) or (-1,))[0]
    demand(count == len(shape), f"{names[0]} must have {len(shape)} numbers, but has {count}")
    low, high, inner = map(v.constant, names)
    demand(min(inner or (), default=0) >= 0, f"interior_padding is negative: {inner}")
    if low is None or high is None or inner is None or min(shape, default=0) < 0:
        return _NOTHING
    sizes = zip(shape, low, high, inner, strict=True)
    return [Inferred(tuple(int(a + n + max(n - 1, 0) * i + b) for n, a, b, i in sizes))]


def _real_dynamic_slice(v: View) -> Sequence[Inferred]:
    rank = len(v.shape("operand") or ())
    for name in ("start_indices", "limit_indices", "strides"):
        count = (v.shape(name) or (-1,))[0]
        demand(count == rank, f"{name} must have {rank} numbers, but has {count}")
    return _NOTHING


def _dimension_size(v: View) -> Sequence[Inferred]:
    _dimensions([v.integer("dimension")], len(v.shape("operand") or ()), "dimension")
    return [Inferred((), i32)]


def _set_dimension_size(v: View) -> Sequence[Inferred]:
    shape, d = v.shape("operand") or (), v.integer("dimension")
    _dimensions([d], len(shape), "dimension")
    demand(v.shape("size") == (), f"size must be a scalar, but is {v.kind('size')}")
    size = v.constant("size")
    known = int(size[0]) if size and size[0] == shape[d] else -1
    return [Inferred((*shape[:d], known, *shape[d + 1 :]), v.element("operand"))]


# -- normalization and linear algebra ------------------------------------------------


def _batch_norm(*features: str, whole: Sequence[str] = ("operand",)) -> Rule:
    def rule(v: View) -> Sequence[Inferred]:
        shape, index = v.shape("operand") or (), v.integer("feature_index")
        _dimensions([index], len(shape), "feature_index")
        demand(fit(*map(v.shape, whole)), f"{' and '.join(whole)} must have one shape")
        expected = (shape[index],)
        for name in features:
            found = v.shape(name)
            demand(
                fit(expected, found),
                f"{name} must have {expected[0]} elements, one for each feature, "
                f"but has the shape {listed(found)}",
            )
        element = v.element("operand")
        each = [Inferred(expected, element)] * (len(v.op.results) - 1)
        return [Inferred(shape, element), *each]

    return rule


def _square(shape: Shape) -> None:
    demand(
        len(shape) >= 2 and fit(shape[-1:], shape[-2:-1]),
        f"the last two dimensions of a must be equal, but it has the shape {listed(shape)}",
    )


def _cholesky(v: View) -> Sequence[Inferred]:
    shape = v.shape("a") or ()
    _square(shape)
    return [Inferred(shape, v.element("a"))]


def _triangular_solve(v: View) -> Sequence[Inferred]:
    a, b = v.shape("a") or (), v.shape("b") or ()
    _square(a)
    shared = -2 if v.flag("left_side") else -1
    demand(
        len(a) == len(b) and fit((*a[:-2], a[-1]), (*b[:-2], b[shared])),
        f"b of {listed(b)} does not fit to a of {listed(a)}",
    )
    demand(v.keyword("transpose_a") != "TRANSPOSE_INVALID", "transpose_a must be another word")
    return [Inferred(b, v.element("b"))]


def _fft(v: View) -> Sequence[Inferred]:
    kind, shape, element = v.keyword("fft_type"), v.shape("operand") or (), v.element("operand")
    lengths = v.integers("fft_length")
    demand(
        1 <= len(lengths) <= min(3, len(shape)),
        f"fft_length must have 1 to 3 numbers, and no more than dimensions: {[*lengths]}",
    )
    demand(
        str(element) in ("f32", "f64") if kind == "RFFT" else isinstance(element, ComplexType),
        f"{kind} cannot take {element}",
    )
    last, inner = lengths[-1], shape[-len(lengths) :]
    if kind == "RFFT":
        demand(fit(inner, tuple(lengths)), f"{kind} of {[*lengths]} cannot take {listed(shape)}")
        return [
            Inferred(
                (*shape[:-1], last // 2 + 1 if last else shape[-1]),
                ComplexType(cast("Any", element)),
            )
        ]
    if kind == "IRFFT":
        demand(
            fit(inner[:-1], tuple(lengths[:-1]))
            and (inner[-1] in (-1, last // 2 + 1) or (inner[-1] == 0 and last == 0)),
            f"{kind} of {[*lengths]} cannot take {listed(shape)}",
        )
        return [Inferred((*shape[:-1], last), _real(element))]
    return [Inferred(shape, element)]


# -- others -------------------------------------------------------------------------


def _tuple(v: View) -> Sequence[Inferred]:
    return [Inferred(None, TupleType(v.kinds("val")))]


def _tuple_element(v: View) -> Sequence[Inferred]:
    members, index = cast("Any", v.kind("operand")).types.data, v.integer("index")
    demand(index < len(members), f"index must be below {len(members)}, but is {index}")
    return [Inferred(shape_of(members[index]), members[index])]


def _rng(v: View) -> Sequence[Inferred]:
    normal = v.keyword("rng_distribution") == "NORMAL"
    demand(
        not normal or isinstance(v.element("a"), AnyFloat),
        f"a normal distribution has floats, no {v.element('a')}",
    )
    given = v.constant("shape")
    count = (v.shape("shape") or (0,))[0]
    shape = tuple(int(n) for n in given) if given is not None else (-1,) * max(count, 0)
    return [Inferred(shape, v.element("b"))]


def _rng_bits(v: View) -> Sequence[Inferred]:
    return [Inferred(v.shape("initial_state")), Inferred(None)]


def _collective(rule: Rule, *, same_size: bool) -> Rule:
    """With groups of replicas, each of which is in one group."""

    def checked(v: View) -> Sequence[Inferred]:
        groups: Any = v.attribute("replica_groups")
        if (kind := getattr(groups, "type", None)) is None:
            return rule(v)
        shape = shape_of(kind) or ()
        demand(len(shape) == 2, f"replica_groups must have two dimensions, but are {kind}")
        ids = [n for n in v.integers("replica_groups") if n != -1 or same_size]
        demand(
            sorted(ids) == list(range(len(ids))),
            f"replica_groups must have each replica once, from 0, but are {ids}",
        )
        every = v.attribute("use_global_device_ids") is not None
        demand(not every or prod(shape), "replica_groups must not be empty with global ids")
        return rule(v)

    return checked


def _all_gather(v: View) -> Sequence[Inferred]:
    d = v.integer("all_gather_dim")
    for operand, result in zip(v.kinds("operands"), v.kinds("_0"), strict=True):
        a, b = shape_of(operand) or (), shape_of(result) or ()
        _dimensions([d], len(a), "all_gather_dim")
        demand(
            fit((*a[:d], -1, *a[d + 1 :]), (*b[:d], -1, *b[d + 1 :]))
            and a[d] != 0
            and (min(a[d], b[d]) < 0 or b[d] % a[d] == 0),
            f"result must be {operand}, several times along dimension {d}, but is {result}",
        )
    return _NOTHING


def _all_to_all(v: View) -> Sequence[Inferred]:
    split, joined = v.integer("split_dimension"), v.integer("concat_dimension")
    count, inferred = v.integer("split_count"), list[Inferred]()
    groups = v.attribute("replica_groups")
    of_one = (shape_of(getattr(groups, "type", i1)) or (-1, count))[-1]
    demand(of_one == count, f"split_count must be {of_one}, the size of groups, but is {count}")
    for kind in v.kinds("operands"):
        sizes = [*(shape_of(kind) or ())]
        for d in (split, joined):
            _dimensions([d], len(sizes), "split_dimension and concat_dimension")
        demand(
            sizes[split] < 0 or sizes[split] % count == 0,
            f"dimension {split} of {kind} must be a multiple of split_count {count}",
        )
        sizes[split] = sizes[split] // count if sizes[split] >= 0 else -1
        sizes[joined] = sizes[joined] * count if sizes[joined] >= 0 else -1
        inferred.append(Inferred(tuple(sizes), element_or_self(kind)))
    return inferred


def _permute(v: View) -> Sequence[Inferred]:
    pairs: Any = v.attribute("source_target_pairs")
    shape, numbers = shape_of(pairs.type) or (), v.integers("source_target_pairs")
    demand(
        len(shape) == 2
        and shape[1] == 2
        and min(numbers, default=0) >= 0
        and all(len({*side}) == len(side) for side in (numbers[::2], numbers[1::2])),
        f"source_target_pairs must be pairs of different replicas, but are {[*numbers]}",
    )
    return [Inferred(v.shape("operand"), v.element("operand"))]


def _to_all(v: View) -> Sequence[Inferred]:
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in v.kinds("operands")]


RULES: Mapping[str, Rule] = {
    **GATHERS,
    **PRODUCTS,
    **WITH_BODIES,
    "abs": _part("operand"),
    "add": _add,
    "all_gather": _collective(_all_gather, same_size=True),
    "all_reduce": _collective(WITH_BODIES["all_reduce"], same_size=False),
    "all_to_all": _collective(_all_to_all, same_size=True),
    "batch_norm_grad": _batch_norm("scale", "mean", "variance", whole=("operand", "grad_output")),
    "batch_norm_inference": _batch_norm("scale", "offset", "mean", "variance"),
    "batch_norm_training": _batch_norm("scale", "offset"),
    "bitcast_convert": _bitcast,
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "cholesky": _cholesky,
    "clamp": _clamp,
    "collective_broadcast": _to_all,
    "collective_permute": _permute,
    "compare": _bools("lhs"),
    "complex": _complex,
    "concatenate": _concatenate,
    "constant": _constant,
    "dynamic_broadcast_in_dim": _broadcast_in_dim,
    "dynamic_iota": _iota,
    "dynamic_pad": _dynamic_pad,
    "dynamic_reshape": _dynamic_reshape,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "fft": _fft,
    "get_dimension_size": _dimension_size,
    "get_tuple_element": _tuple_element,
    "imag": _part("operand"),
    "iota": _iota,
    "is_finite": _bools("x"),
    "pad": _pad,
    "real": _part("operand"),
    "real_dynamic_slice": _real_dynamic_slice,
    "reduce_scatter": _collective(WITH_BODIES["reduce_scatter"], same_size=True),
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
