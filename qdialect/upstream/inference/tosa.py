"""What the ops of TOSA infer and demand beyond their tables, as mlir-opt 22 verifies them.

conv2d    O = (I - 1 + before + after - (K - 1) * dilation) / stride + 1, without remainder
reduce_*  1 along the axis
rescale   a multiplier and a shift for each place of the last dimension, or one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isnan, prod
from typing import Any, cast

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from qdialect.upstream.inference.view import Inferred, Rule, View, demand, number_in
from qdialect.upstream.shapes import (
    Shape,
    broadcast,
    element_or_self,
    fit,
    have_fitting_shapes,
    layout_of,
    listed,
    merged,
    shape_of,
)

_NOTHING: Sequence[Inferred] = ()
_SMALL = ("f8E4M3FN", "f8E5M2")
_SUMS = {
    "i8": ("i32",),
    "i16": ("i48",),
    "f8E5M2": ("f16", "f32"),
    "f8E4M3": ("f16", "f32"),
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "f32": ("f32",),
}
"""In which types a convolution may sum products of a type."""


def _is_float(element: str) -> bool:
    return element.startswith(("f", "bf", "tf"))


def _one_element(v: View, *names: str) -> None:
    """Values of one element type; what has several scales is not looked at."""
    kinds = [element_or_self(kind) for name in names for kind in v.kinds(name)]
    kinds = [kind for kind in kinds if layout_of(kind) in ("", "tensor")]
    for kind in kinds:
        demand(
            kind == kinds[-1],
            f"{' and '.join(names)} must have one element type, but have {kind} and {kinds[-1]}",
        )


def _zero_points(v: View, *names: str) -> None:
    """Zero points of the type of their value; 0 of types other than i8."""
    for name in names:
        element, found = v.storage(name), v.storage(f"{name}_zp")
        demand(
            element == found,
            f"{name} and its zero point must have one element type, but have {element} and {found}",
        )
        zero = v.constant(f"{name}_zp")
        demand(
            not zero or zero[0] == 0 or str(v.element(f"{name}_zp")) == "i8",
            f"zero point of {name} must be 0, as its type is {element} and not i8, "
            f"but is {zero and zero[0]}",
        )


def _at_least(v: View, least: int, *names: str) -> None:
    for name in names:
        numbers = v.integers(name)
        demand(
            min(numbers, default=least) >= least,
            f"each number of '{name}' must be at least {least}, but they are {listed_all(numbers)}",
        )


def listed_all(numbers: Sequence[object]) -> str:
    """Numbers for people."""
    return f"[{', '.join(map(str, numbers))}]"


def _places(reach: int, step: int, dimension: int) -> int:
    """How many places there are from 0 to a reach that is a multiple of the step."""
    demand(
        reach % step == 0,
        f"spatial dimension {dimension}: the reach {reach} must be a multiple of the step {step}",
    )
    return max(reach // step + 1, 0)


def _windows(
    size: Sequence[int],
    kernel: Sequence[int],
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Shape:
    """How many windows there are along each dimension."""
    return tuple(
        -1
        if size[d] < 0 or kernel[d] < 0
        else _places(
            size[d] - 1 + pad[2 * d] + pad[2 * d + 1] - (kernel[d] - 1) * dilation[d], stride[d], d
        )
        for d in range(len(size))
    )


# -- contractions -------------------------------------------------------------------


def _factors(v: View) -> None:
    """The types of a convolution."""
    x, weight, bias, result = map(v.storage, ("input", "weight", "bias", "output"))
    demand(
        bias == result or not (_is_float(bias) and _is_float(result)),
        f"bias and output must have one element type, but have {bias} and {result}",
    )
    same = x == weight if x in _SMALL or weight in _SMALL else _is_float(x) == _is_float(weight)
    demand(same, f"input of {x} cannot be multiplied with weight of {weight}")
    _zero_points(v, "input", "weight")
    sums, allowed = str(v.attribute("acc_type")), _SUMS.get(x)
    demand(
        allowed is None or sums in allowed,
        f"acc_type must be {' or '.join(allowed or ())} for input of {x}, but is {sums}",
    )


def _bias(v: View) -> None:
    bias, result = v.extents("bias", 1)[0], v.shape("output")
    channels = -1 if result is None else result[-1]
    demand(
        bias < 0 or channels < 0 or bias in (1, channels),
        f"bias must have 1 element or one for each of {channels} channels, but has {bias}",
    )


def _convolution(v: View, first: int = 1) -> Sequence[Inferred]:
    """`first`: the first spatial dimension of the weight."""
    _factors(v)
    _at_least(v, 0, "pad")
    _at_least(v, 1, "stride", "dilation")
    x, weight, result = v.shape("input"), v.shape("weight"), v.shape("output")
    if x is None or weight is None or result is None:
        return _NOTHING
    geometry = (v.integers(name) for name in ("pad", "stride", "dilation"))
    windows = _windows(x[1:-1], weight[first : first + len(x) - 2], *geometry)
    _bias(v)
    return [Inferred((-1, *windows, -1))]


def _transposed(v: View) -> Sequence[Inferred]:
    _factors(v)
    _at_least(v, 1, "stride")
    x, weight, pad, stride = (
        v.extents("input", 4),
        v.extents("weight", 4),
        v.integers("out_pad"),
        v.integers("stride"),
    )
    sizes: list[int] = []
    for d in (0, 1):
        size, kernel, ends = x[1 + d], weight[1 + d], pad[2 * d : 2 * d + 2]
        demand(
            kernel < 0 or min(ends) > -kernel,
            f"out_pad must be larger than -{kernel}, the kernel, but has {listed_all(ends)}",
        )
        known = size >= 0 and kernel >= 0
        sizes.append(max((size - 1) * stride[d] + sum(ends) + kernel, 0) if known else -1)
    if v.shape("output") is not None:
        _bias(v)
    return [Inferred((-1, *sizes, -1))]


def _matmul(v: View) -> Sequence[Inferred]:
    kinds = [v.element(name) for name in ("a", "b")]
    quantized = [layout_of(kind) == "tensor" for kind in kinds]
    widths = {v.storage(name) for name in ("a", "b")}
    demand(
        quantized[0] == quantized[1] and (not quantized[0] or len(widths) == 1),
        f"a and b must both be quantized in one width, or none, but are {kinds[0]} and {kinds[1]}",
    )
    _zero_points(v, "a", "b")
    return _NOTHING


def _pool(v: View) -> Sequence[Inferred]:
    _at_least(v, 1, "kernel", "stride")
    _at_least(v, 0, "pad")
    kernel, pad, stride = (v.integers(name) for name in ("kernel", "pad", "stride"))
    demand(
        all(max(pad[2 * d : 2 * d + 2]) < kernel[d] for d in (0, 1)),
        f"'pad' must be smaller than the kernel {listed_all(kernel)}, but is {listed_all(pad)}",
    )
    if v.shape("input") is None or v.shape("output") is None:
        return _NOTHING
    windows = _windows(v.extents("input", 4)[1:-1], kernel, pad, stride, (1, 1))
    return [Inferred((-1, *windows, -1))]


def _max_pool(v: View) -> Sequence[Inferred]:
    _one_element(v, "input", "output")
    return _pool(v)


def _average_pool(v: View) -> Sequence[Inferred]:
    x, sums = v.storage("input"), str(v.attribute("acc_type"))
    allowed = ("i32",) if x.startswith("i") else _SUMS.get(x, (sums,))
    demand(sums in allowed, f"acc_type must be {' or '.join(allowed)} for {x}, but is {sums}")
    _zero_points(v, "input", "output")
    return _pool(v)


# -- elementwise --------------------------------------------------------------------


def _argmax(v: View) -> Sequence[Inferred]:
    result, shape, axis = v.element("output"), v.shape("input"), v.integer("axis")
    demand(
        isinstance(result, IntegerType | IndexType), f"output must be of integers, but is {result}"
    )
    if shape is None:
        return _NOTHING
    _axis(axis, len(shape))
    return [Inferred(shape[:axis] + shape[axis + 1 :])]


def _axis(axis: int, rank: int) -> None:
    demand(0 <= axis < rank, f"axis must be one of {rank} dimensions, from 0, but is {axis}")


def _clamp(v: View) -> Sequence[Inferred]:
    element, bounds = v.storage("input"), [v.attribute(f"{end}_val") for end in ("min", "max")]
    demand(
        element == v.storage("output"),
        f"input of {element} must give an output of this type, not of {v.storage('output')}",
    )
    low, high = map(number_in, bounds)
    demand(
        low and high and str(low[1]) == str(high[1]) == element,
        f"min_val and max_val must be of type {element}, but are {bounds[0]} and {bounds[1]}",
    )
    assert low is not None and high is not None
    numbers = [low[0], high[0]]
    if element == "i1":
        numbers = [abs(n) for n in numbers]
    demand(
        not any(map(isnan, numbers)) and numbers[0] <= numbers[1],
        f"min_val must be at most max_val, but they are {bounds[0]} and {bounds[1]}",
    )
    return _NOTHING


def _mul(v: View) -> Sequence[Inferred]:
    kinds = [v.element(name) for name in ("input1", "input2", "output")]
    if isinstance(kinds[2], IntegerType):
        widths = [cast("Any", k).width.data if isinstance(k, IntegerType) else 0 for k in kinds]
        demand(
            kinds[0] == kinds[1] and 0 < widths[0] <= widths[2],
            f"products of {kinds[0]} and {kinds[1]} cannot be {kinds[2]}: operands must have one "
            "type, and the result must be no narrower",
        )
    else:
        demand(
            kinds[0] == kinds[1] == kinds[2],
            f"operands and result must have one element type, but have {listed_all(kinds)}",
        )
        shift = v.constant("shift")
        demand(not shift or shift[0] == 0, f"shift must be 0 for {kinds[2]}, but is {shift}")
    shapes = [s for name in ("input1", "input2") if (s := v.shape(name)) is not None]
    ranks = {len(s) for s in (*shapes, v.shape("output")) if s is not None}
    demand(len(ranks) <= 1, f"operands and result must have one rank, but have {sorted(ranks)}")
    demand(
        broadcast(shapes) is not None,
        f"operands cannot be broadcast to one shape: {' and '.join(map(listed, shapes))}",
    )
    return _NOTHING


def _negate(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "output")
    _zero_points(v, "input1", "output")
    return [Inferred(v.shape("input1"))]


def _table(v: View) -> Sequence[Inferred]:
    return [Inferred(v.shape("input1"))]


def _select(v: View) -> Sequence[Inferred]:
    _one_element(v, "input2", "input3", "output")
    demand(
        str(v.element("input1")) == "i1", f"input1 must be of bools, but is {v.element('input1')}"
    )
    return _NOTHING


def _rescale(v: View) -> Sequence[Inferred]:
    for name in ("input", "output"):
        element, zero = v.storage(name), v.storage(f"{name}_zp")
        demand(
            "i" in element[:2] and "i" in zero[:2] and element.lstrip("su") == zero.lstrip("su"),
            f"{name} and its zero point must be integers of one width, but are {element}, {zero}",
        )
        value, unsigned = v.constant(f"{name}_zp"), v.flag(f"{name}_unsigned")
        if value and value[0] and zero != "i8":
            demand(
                zero == "i16" and unsigned and int(value[0]) & 0xFFFF == 1 << 15,
                f"{name}_zp must be 0 for {zero}{', or 32768' if unsigned else ''}, "
                f"but is {value[0]}",
            )
    multiplier = "i32" if v.flag("scale32") else "i16"
    demand(
        v.storage("multiplier") == multiplier,
        f"multiplier must be of {multiplier}, as 'scale32' says, but is {v.storage('multiplier')}",
    )
    shape = v.shape("input")
    if shape is None:
        return _NOTHING
    each = v.flag("per_channel")
    demand(shape or not each, "input must have a dimension where 'per_channel' is true")
    for name in ("multiplier", "shift"):
        count, expected = v.extents(name, 1)[0], shape[-1] if each else 1
        demand(
            count < 0 or count == expected,
            f"{name} must have {expected} elements, as 'per_channel' says, but has {count}",
        )
    return _NOTHING


# -- movement -----------------------------------------------------------------------


def _concat(v: View) -> Sequence[Inferred]:
    demand(v.kinds("input1"), "must have at least one operand")
    _one_element(v, "input1", "output")
    shapes, axis = [shape_of(kind) for kind in v.kinds("input1")], v.integer("axis")
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return _NOTHING
    rank = len(known[0])
    _axis(axis, rank)
    if len({len(shape) for shape in known}) > 1:
        demand(len(known) < len(shapes), f"operands must have one rank: {_all(known)}")
        return _NOTHING
    others = [(*shape[:axis], -1, *shape[axis + 1 :]) for shape in known]
    demand(fit(*others), f"operands must be equal but along dimension {axis}: {_all(known)}")
    along = [shape[axis] for shape in known]
    size = sum(along) if min(along) >= 0 and len(known) == len(shapes) else -1
    rest = merged(*others) or ()
    return [Inferred((*rest[:axis], size, *rest[axis + 1 :]))]


def _all(shapes: Sequence[Shape | None]) -> str:
    return ", ".join(map(listed, shapes))


def _pad(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "pad_const", "output")
    shape, result, pads = v.shape("input1"), v.shape("output"), v.constant("padding")
    if shape is None or result is None:
        return _NOTHING
    demand(len(shape) == len(result), f"cannot pad {listed(shape)} to {listed(result)}")
    if pads is None:
        return _NOTHING
    demand(
        len(pads) == 2 * len(shape),
        f"padding must have {2 * len(shape)} numbers, two for each dimension, but has {len(pads)}",
    )
    demand(min(pads, default=0) >= -1, f"padding must not be negative: {listed_all(pads)}")
    sums = [int(a + b) for a, b in zip(pads[::2], pads[1::2], strict=True)]
    return [Inferred(tuple(n + s if n >= 0 else -1 for n, s in zip(shape, sums, strict=True)))]


def _reshape(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "output")
    shape, result, given = v.shape("input1"), v.shape("output"), v.constant("shape")
    if given is None:
        return _NOTHING
    sizes = tuple(int(n) for n in given)
    demand(sizes.count(-1) <= 1, f"at most one extent may be -1: {listed_all(sizes)}")
    if result is None:
        return _NOTHING
    demand(len(sizes) == len(result), f"shape has {len(sizes)} extents, output {len(result)}")
    demand(min(sizes, default=0) >= -1, f"shape must not be negative: {listed_all(sizes)}")
    if shape is not None and min(shape, default=0) >= 0:
        count, fixed = prod(shape), prod(n for n in sizes if n > 0)
        whole = min(sizes, default=1) > 0
        demand(
            (count == fixed if whole else fixed <= count)
            and (min(result, default=0) < 0 or prod(result) == count),
            f"cannot reshape {count} elements, {listed(shape)}, to {listed_all(sizes)}, "
            f"output {listed(result)}",
        )
    return [Inferred(sizes)]


def _slice(v: View) -> Sequence[Inferred]:
    """Which elements it takes is left to who runs it, as mlir-opt 22 leaves it."""
    _one_element(v, "input1", "output")
    shape, result = v.shape("input1"), v.shape("output")
    counts = [len(result) if result is not None else None]
    counts += [_rank_of(v.kind(name)) for name in ("start", "size")]
    demand(
        shape is None or all(n in (None, len(shape)) for n in counts),
        f"output, start and size must have the rank of {listed(shape)}, but have {counts}",
    )
    return _NOTHING


def _tile(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "output")
    shapes = [v.shape("input1"), v.shape("output")]
    count = _rank_of(v.kind("multiples"))
    demand(
        all(shape is None or len(shape) == count for shape in shapes),
        f"multiples must have a number for each dimension, but has {count}: {_all(shapes)}",
    )
    multiples = v.constant("multiples") or ()
    demand(
        all(n > 0 or n == -1 for n in multiples),
        f"multiples must be positive: {listed_all(multiples)}",
    )
    return _NOTHING


def _transpose(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "output")
    shape, perms = v.shape("input1"), v.integers("perms")
    result = v.shape("output")
    demand(
        sorted(perms) == list(range(len(perms)))
        and all(s is None or len(s) == len(perms) for s in (shape, result)),
        f"perms must be a permutation of the dimensions of {listed(shape)}, "
        f"but is {listed_all(perms)}",
    )
    if shape is None:
        return _NOTHING
    known = result is not None and min((*shape, *result), default=0) >= 0
    demand(
        not known or prod(shape) == prod(result or ()),
        f"cannot transpose {listed(shape)} to {listed(result)}",
    )
    return [Inferred(tuple(shape[p] for p in perms))]


def _reverse(v: View) -> Sequence[Inferred]:
    _one_element(v, "input1", "output")
    return _kept(v, "input1", reduced=False)


def _reduce(v: View) -> Sequence[Inferred]:
    return _kept(v, "input", reduced=True)


def _kept(v: View, name: str, *, reduced: bool) -> Sequence[Inferred]:
    """Something along an axis; a scalar has axis 0."""
    shape, result, axis = v.shape(name), v.shape("output"), v.integer("axis")
    for s in (shape, result):
        _axis(axis, max(len(s), 1) if s is not None else axis + 1)
    if shape is None or not reduced:
        demand(
            shape is None or result is None or len(shape) == len(result),
            f"input and output must have one rank: {_all([shape, result])}",
        )
        return [Inferred(None, v.element(name))] if reduced else _NOTHING
    return [
        Inferred((*shape[:axis], *((1,) if shape else ()), *shape[axis + 1 :]), v.element(name))
    ]


def _gather(v: View) -> Sequence[Inferred]:
    _one_element(v, "values", "output")
    (n, _, c), (m, w) = v.extents("values", 3), v.extents("indices", 2)
    demand(fit((n,), (m,)), f"values have {n} batches, indices {m}")
    return [Inferred((max(n, m), w, c))]


def _scatter(v: View) -> Sequence[Inferred]:
    _one_element(v, "values_in", "input", "values_out")
    (n, k, c), (m, w) = v.extents("values_in", 3), v.extents("indices", 2)
    x = v.extents("input", 3)
    expected = (max(n, m), w, c)
    demand(fit((n,), (m,)), f"values_in have {n} batches, indices {m}")
    demand(fit(x, expected), f"input must have the shape {listed(expected)}, but has {listed(x)}")
    k = max(k, v.extents("values_out", 3)[1])
    w = max(w, x[1])
    demand(min(k, w) < 0 or k >= w, f"cannot write {w} rows, each once, into {k}")
    return [Inferred((max(n, m, x[0]), v.extents("values_in", 3)[1], max(c, x[2])))]


def _resize(v: View) -> Sequence[Inferred]:
    scale, offset, border = (v.constant(name) for name in ("scale", "offset", "border"))
    if scale is None or offset is None or border is None:
        return _NOTHING
    demand(min(scale) > 0, f"scale must be positive: {listed_all(scale)}")
    if v.shape("output") is None or v.shape("input") is None:
        return _NOTHING
    sizes = tuple(
        # An input of one row or column may be repeated.
        -1
        if size in (-1, 1)
        else _places(
            int((size - 1) * scale[2 * d] - offset[d] + border[d]), int(scale[2 * d + 1]), d
        )
        for d, size in enumerate(v.extents("input", 4)[1:3])
    )
    return [Inferred((-1, *sizes, -1))]


# -- constants, shapes and transforms -----------------------------------------------


def _const(v: View) -> Sequence[Inferred]:
    kind, result = getattr(v.attribute("values"), "type", None), v.element("output")
    if isinstance(kind, Attribute):
        element = element_or_self(kind)
        demand(
            element == result or str(element) == v.storage("output") != str(result),
            f"values of {element} cannot be an output of {result}",
        )
    return _NOTHING


def _rank_of(kind: Attribute) -> int:
    return cast("Any", kind).rank.data


def _const_shape(v: View) -> Sequence[Inferred]:
    values, rank = cast("Any", v.attribute("values")), _rank_of(v.kind("output"))
    demand(
        len(values.get_type().get_shape()) == 1 and (len(values), rank) in {(rank, rank), (1, 0)},
        f"values must be {rank} extents, as the type says, but are {values}",
    )
    return _NOTHING


def _dim(v: View) -> Sequence[Inferred]:
    rank, shape = _rank_of(v.kind("output")), v.shape("input1")
    demand(rank == 1, f"output must be a shape of 1 extent, but has {rank}")
    if shape is not None:
        _axis(v.integer("axis"), len(shape))
    return _NOTHING


def _concat_shape(v: View) -> Sequence[Inferred]:
    ranks, rank = [_rank_of(kind) for kind in v.kinds("input")], _rank_of(v.kind("output"))
    demand(
        ranks and min(ranks) > 0 and sum(ranks) == rank,
        f"shapes of {listed_all(ranks)} extents cannot be joined to one of {rank}",
    )
    return _NOTHING


def _slice_shape(v: View) -> Sequence[Inferred]:
    start, size = v.constant("start"), v.constant("size")
    source, rank = _rank_of(v.kind("input")), _rank_of(v.kind("output"))
    first = start[0] if start else 0
    demand(first >= 0, f"start must not be negative, but is {first}")
    demand(
        not size or (0 < size[0] == rank and (not start or first + size[0] <= source)),
        f"cannot take {size} of {source} extents from {first} for an output of {rank}",
    )
    return _NOTHING


def _fft(v: View) -> Sequence[Inferred]:
    real = v.shape("input_real")
    if real is None:
        return _NOTHING
    imaginary = real if v.op.name == "tosa.rfft2d" else v.shape("input_imag")
    if imaginary is None:
        return _NOTHING
    for n in (merged(real, imaginary) or ())[1:]:
        demand(n < 0 or n & (n - 1) == 0, f"height and width must be powers of two, but are {n}")
    if v.op.name == "tosa.fft2d":
        return _NOTHING
    half = (*real[:2], real[2] // 2 + 1 if real[2] >= 0 else -1)
    demand(
        have_fitting_shapes([v.kind("output_real"), v.kind("output_imag")]),
        "both outputs must have one shape",
    )
    return [Inferred(half), Inferred(None)]


# -- blocks -------------------------------------------------------------------------


def _block(v: View) -> int:
    return int(v.keyword("block_size").rpartition("_")[2])


def _scales(v: View, data: str, scale: str) -> None:
    """A scale for each block of the last dimension."""
    shape, scales, block = v.shape(data), v.shape(scale), _block(v)
    if shape is None:
        return
    demand(
        shape[-1] < 0 or shape[-1] % block == 0,
        f"the last dimension of {data} must be a multiple of {block}, but is {shape[-1]}",
    )
    expected = (*shape[:-1], shape[-1] // block if shape[-1] >= 0 else -1)
    demand(
        fit(expected, scales),
        f"{scale} must have the shape {listed(expected)}, not {listed(scales)}",
    )


def _from_blocks(v: View) -> Sequence[Inferred]:
    _scales(v, "input_data", "input_scale")
    return [Inferred(v.shape("input_data"))]


def _to_blocks(v: View) -> Sequence[Inferred]:
    block, shape = _block(v), v.shape("input_data")
    demand(
        not shape or shape[-1] < 0 or shape[-1] % block == 0,
        f"the last dimension must be a multiple of {block}: {listed(shape)}",
    )
    _scales(v, "output_data", "output_scale")
    return [Inferred(shape), Inferred(None)]


def _block_matmul(v: View) -> Sequence[Inferred]:
    _one_element(v, "a_data", "b_data")
    _scales(v, "a_data", "a_scale")
    _scales(v, "b_data", "b_scale")
    a, b = v.extents("a_data", 3), v.extents("b_data", 3)
    a_scale, b_scale = v.extents("a_scale", 3), v.extents("b_scale", 3)
    n, d = max(a[0], a_scale[0]), max(b[0], b_scale[0])
    demand(fit((a[2],), (b[2],)), f"a has {a[2]} channels, b {b[2]}")
    demand(fit(a_scale[2:], b_scale[2:]), "a_scale and b_scale must have one number of blocks")
    demand(min(n, d) < 0 or d in (1, n), f"{d} batches of b cannot be broadcast to {n} of a")
    return [Inferred((n if n >= 0 else d, max(a[1], a_scale[1]), max(b[1], b_scale[1])))]


# -- control flow -------------------------------------------------------------------


def _agree(a: Sequence[Attribute], b: Sequence[Attribute], what: str) -> None:
    demand(len(a) == len(b), f"{what} must be as many, but are {len(a)} and {len(b)}")
    for x, y in zip(a, b, strict=True):
        demand(
            element_or_self(x) == element_or_self(y) and have_fitting_shapes([x, y]),
            f"{what} must have one type, but have {x} and {y}",
        )


def _one(kind: Attribute, what: str) -> None:
    shape = shape_of(kind)
    one = shape is None or min(shape, default=0) < 0 or prod(shape) == 1
    demand(one, f"{what} must have one element, but is {kind}")


def _cond_if(v: View) -> Sequence[Inferred]:
    for number, name in enumerate(("then_graph", "else_graph")):
        body = v.body(number)
        if body is not None:
            _agree(body.arg_types, v.kinds("input_list"), f"arguments of {name} and operands")
            _agree(v.returned(number), v.kinds("output_list"), f"results of {name} and of the op")
    _one(v.kind("condition"), "condition")
    return _NOTHING


def _while_loop(v: View) -> Sequence[Inferred]:
    kinds = v.kinds("input_list")
    _agree(kinds, v.kinds("output_list"), "operands and results")
    for number, name in enumerate(("cond_graph", "body_graph")):
        if (body := v.body(number)) is not None:
            _agree(body.arg_types, kinds, f"arguments of {name} and operands")
    _agree(v.returned(1), kinds, "results of body_graph and operands")
    condition = v.returned(0)
    demand(len(condition) == 1, f"cond_graph must give one value, but gives {len(condition)}")
    _one(condition[0], "what cond_graph gives")
    demand(str(element_or_self(condition[0])) == "i1", f"cond_graph gives {condition[0]}, no bool")
    return _NOTHING


_REDUCTIONS = ("all", "any", "max", "min", "product", "sum")
RULES: Mapping[str, Rule] = {
    **{f"reduce_{name}": _reduce for name in _REDUCTIONS},
    "argmax": _argmax,
    "avg_pool2d": _average_pool,
    "cast_from_block_scaled": _from_blocks,
    "cast_to_block_scaled": _to_blocks,
    "clamp": _clamp,
    "concat": _concat,
    "concat_shape": _concat_shape,
    "cond_if": _cond_if,
    "const": _const,
    "const_shape": _const_shape,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "depthwise_conv2d": partial(_convolution, first=0),
    "dim": _dim,
    "fft2d": _fft,
    "gather": _gather,
    "matmul": _matmul,
    "matmul_t_block_scaled": _block_matmul,
    "max_pool2d": _max_pool,
    "mul": _mul,
    "negate": _negate,
    "pad": _pad,
    "rescale": _rescale,
    "reshape": _reshape,
    "resize": _resize,
    "reverse": _reverse,
    "rfft2d": _fft,
    "scatter": _scatter,
    "select": _select,
    "slice": _slice,
    "slice_shape": _slice_shape,
    "table": _table,
    "tile": _tile,
    "transpose": _transpose,
    "transpose_conv2d": _transposed,
    "while_loop": _while_loop,
}
"""By the name without the dialect."""
