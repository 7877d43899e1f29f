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

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute

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
    broadcast,
    element_or_self,
    have_fitting_shapes,
    joined,
    layout_of,
    listed,
    merged,
    shape_of,
    storage_text,
)

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
    comparable = [kind for kind in kinds if layout_of(kind) in ("", "tensor")]
    must_agree(f"element types of {' and '.join(names)}", *comparable)


def _zero_points(v: View, *names: str) -> None:
    """Zero points of the type of their value; 0 of types other than i8."""
    for name in names:
        must_be(f"type of {name}_zp", v.storage(f"{name}_zp"), v.storage(name))
        zero = v.constant(f"{name}_zp")
        if zero and zero[0] and str(v.element(f"{name}_zp")) != "i8":
            must_be(f"{name}_zp of type {v.storage(name)}", zero[0], 0)


def _all_at_least(v: View, least: int, *names: str) -> None:
    for name in names:
        at_least(least, name, v.integers(name))


def _places(reach: int, step: int, dimension: int) -> int:
    """How many places there are from 0 to a reach that is a multiple of the step."""
    what = f"spatial dimension {dimension}: the reach {reach}"
    demand(reach % step == 0, f"{what} must be a multiple of the step {step}")
    return max(reach // step + 1, 0)


def _windows(
    size: Shape, kernel: Sequence[int], pad: Sequence[int], *steps: Sequence[int]
) -> Shape:
    """How many windows there are along each dimension; steps: strides and dilations."""
    strides, dilations = steps
    reach = (
        n - 1 + pad[2 * d] + pad[2 * d + 1] - (kernel[d] - 1) * dilations[d]
        for d, n in enumerate(size)
    )
    return tuple(
        -1 if min(size[d], kernel[d]) < 0 else _places(n, strides[d], d)
        for d, n in enumerate(reach)
    )


# -- contractions -------------------------------------------------------------------


def _factors(v: View) -> None:
    x, weight, bias, result = map(v.storage, ("input", "weight", "bias", "output"))
    if _is_float(bias) and _is_float(result):
        must_agree("element types of bias and output", bias, result)
    small = {x, weight} & {"f8E4M3FN", "f8E5M2"}
    same = x == weight if small else _is_float(x) == _is_float(weight)
    demand(same, f"input of {x} cannot be multiplied with weight of {weight}")
    _zero_points(v, "input", "weight")
    sums = str(v.attribute("acc_type"))
    must_be(f"acc_type for input of {x}", sums, *_SUMS.get(x, (sums,)))


def _bias(v: View) -> None:
    bias, channels = v.extents("bias", 1)[0], (v.shape("output") or (-1,))[-1]
    if min(bias, channels) >= 0:
        must_be("the number of biases", bias, 1, channels)


def _convolution(v: View, first: int = 1) -> Results:
    """`first`: the first spatial dimension of the weight."""
    _factors(v)
    _all_at_least(v, 0, "pad")
    _all_at_least(v, 1, "stride", "dilation")
    x, weight = v.shape("input"), v.shape("weight")
    if x is None or weight is None or v.shape("output") is None:
        return None
    geometry = (v.integers(name) for name in ("pad", "stride", "dilation"))
    windows = _windows(x[1:-1], weight[first : first + len(x) - 2], *geometry)
    _bias(v)
    return [Inferred((-1, *windows, -1))]


def _transposed(v: View) -> Results:
    _factors(v)
    _all_at_least(v, 1, "stride")
    x, weight = v.extents("input", 4), v.extents("weight", 4)
    pad, stride, sizes = v.integers("out_pad"), v.integers("stride"), list[int]()
    for d in (0, 1):
        size, kernel, ends = x[1 + d], weight[1 + d], pad[2 * d : 2 * d + 2]
        if kernel >= 0:
            at_least(1 - kernel, "out_pad, of such a kernel,", ends)
        whole = max((size - 1) * stride[d] + sum(ends) + kernel, 0)
        sizes.append(whole if min(size, kernel) >= 0 else -1)
    _bias(v)
    return [Inferred((-1, *sizes, -1))]


def _matmul(v: View) -> None:
    quantized = [layout_of(v.element(name)) == "tensor" for name in ("a", "b")]
    must_agree("whether a and b are quantized", *quantized)
    if quantized[0]:
        must_agree("widths of a and b", *(v.storage(name).lstrip("ui") for name in ("a", "b")))
    _zero_points(v, "a", "b")


def _pool(v: View) -> Results:
    _all_at_least(v, 1, "kernel", "stride")
    _all_at_least(v, 0, "pad")
    kernel, pad, stride = (v.integers(name) for name in ("kernel", "pad", "stride"))
    inner = all(max(pad[2 * d : 2 * d + 2]) < kernel[d] for d in (0, 1))
    demand(inner, f"pad must be smaller than the kernel {[*kernel]}, but is {[*pad]}")
    if v.shape("output") is None:
        return None
    return [Inferred((-1, *_windows(v.extents("input", 4)[1:3], kernel, pad, stride, (1, 1)), -1))]


def _max_pool(v: View) -> Results:
    _one_element(v, "input", "output")
    return _pool(v)


def _average_pool(v: View) -> Results:
    x, sums = v.storage("input"), str(v.attribute("acc_type"))
    allowed = ("i32",) if x.startswith(("i", "ui")) else _SUMS.get(x, (sums,))
    must_be(f"acc_type for input of {x}", sums, *allowed)
    _zero_points(v, "input", "output")
    return _pool(v)


# -- elementwise --------------------------------------------------------------------


def _argmax(v: View) -> Results:
    result, shape, axis = v.element("output"), v.shape("input"), v.integer("axis")
    demand(isinstance(result, IntegerType | IndexType), f"output must be integers, not {result}")
    if shape is None:
        return None
    dimensions("axis", [axis], len(shape))
    return [Inferred(shape[:axis] + shape[axis + 1 :])]


def _clamp(v: View) -> None:
    element = v.storage("input")
    must_be("type of output", v.storage("output"), element)
    bounds: list[Any] = [v.attribute(f"{end}_val") for end in ("min", "max")]
    for bound in bounds:
        typed = isinstance(bound, FloatAttr | IntegerAttr)
        kind = storage_text(cast("Any", bound).type) if typed else bound
        must_be("type of min_val and max_val", kind, element)
    low, high = (bound.value.data for bound in bounds)
    if element == "i1":
        low, high = abs(low), abs(high)
    fits = not isnan(low) and not isnan(high) and low <= high
    demand(fits, f"min_val must be at most max_val, but they are {low} and {high}")


def _mul(v: View) -> None:
    kinds: list[Any] = [v.element(name) for name in ("input1", "input2", "output")]
    whole = isinstance(kinds[2], IntegerType)
    must_agree("element types of operands", *kinds[:2])
    if whole and isinstance(kinds[0], IntegerType):
        widths = [int(kind.bitwidth) for kind in kinds]
        at_least(widths[0], "width of the result", [widths[2]])
    else:
        must_agree("element types", *kinds)
    if not whole and (shift := v.constant("shift")):
        must_be(f"shift for {kinds[2]}", shift[0], 0)
    shapes = [s for name in ("input1", "input2") if (s := v.shape(name)) is not None]
    ranks = [len(s) for s in (*shapes, v.shape("output")) if s is not None]
    must_agree("ranks of operands and result", *ranks)
    demand(broadcast(shapes) is not None, f"cannot broadcast {' and '.join(map(listed, shapes))}")


def _negate(v: View) -> Results:
    _one_element(v, "input1", "output")
    _zero_points(v, "input1", "output")
    return [Inferred(v.shape("input1"))]


def _table(v: View) -> Results:
    return [Inferred(v.shape("input1"))]


def _select(v: View) -> None:
    _one_element(v, "input2", "input3", "output")
    must_be("element type of input1", str(v.element("input1")), "i1")


def _rescale(v: View) -> None:
    for name in ("input", "output"):
        element, zero = v.storage(name), v.storage(f"{name}_zp")
        integers = not _is_float(element) and element.lstrip("u") == zero.lstrip("u")
        demand(
            integers, f"{name} and its zero point are {element} and {zero}, not one integer type"
        )
        value, unsigned = v.constant(f"{name}_zp"), v.flag(f"{name}_unsigned")
        if value and zero != "i8":
            allowed = (0, 32768, -32768) if unsigned and zero == "i16" else (0,)
            must_be(f"{name}_zp of type {zero}", value[0], *allowed)
    must_be("type of multiplier", v.storage("multiplier"), "i32" if v.flag("scale32") else "i16")
    shape, each = v.shape("input"), v.flag("per_channel")
    if shape is None:
        return
    demand(shape or not each, "per_channel must be false for a scalar")
    for name in ("multiplier", "shift"):
        must_fit(name, v.shape(name), (shape[-1] if each else 1,))


# -- movement -----------------------------------------------------------------------


def _concat(v: View) -> Results:
    kinds, axis = v.kinds("input1"), v.integer("axis")
    demand(kinds, "must have at least one operand")
    _one_element(v, "input1", "output")
    shapes = [shape for kind in kinds if (shape := shape_of(kind)) is not None]
    if not shapes:
        return None
    dimensions("axis", [axis], len(shapes[0]))
    if len(shapes) < len(kinds):
        return None
    must_agree("ranks of operands", *map(len, shapes))
    whole = joined(shapes, axis)
    demand(whole, f"cannot join {', '.join(map(listed, shapes))} along dimension {axis}")
    return [Inferred(whole)]


def _pad(v: View) -> Results:
    _one_element(v, "input1", "pad_const", "output")
    shape, result, pads = v.shape("input1"), v.shape("output"), v.sizes("padding")
    if shape is None or result is None:
        return None
    must_agree("ranks of input and output", len(shape), len(result))
    if pads is None:
        return None
    must_be("number of paddings", len(pads), 2 * len(shape))
    at_least(-1, "padding", pads)
    ends = zip(shape, pads[::2], pads[1::2], strict=True)
    return [Inferred(tuple(n + a + b if n >= 0 else -1 for n, a, b in ends))]


def _reshape(v: View) -> Results:
    _one_element(v, "input1", "output")
    shape, result, sizes = v.shape("input1"), v.shape("output"), v.sizes("shape")
    if sizes is None:
        return None
    demand(sizes.count(-1) <= 1, f"at most one extent of shape may be -1, but it is {[*sizes]}")
    if result is None:
        return None
    at_least(-1, "shape", sizes)
    if shape is not None and min(shape, default=0) >= 0:
        count, fixed = prod(shape), prod(n for n in sizes if n > 0)
        whole = count == fixed if min(sizes, default=1) > 0 else fixed <= count
        kept = whole and (min(result, default=0) < 0 or prod(result) == count)
        demand(kept, f"cannot reshape {count} elements to {[*sizes]}, output {listed(result)}")
    return [Inferred(sizes)]


def _slice(v: View) -> None:
    """Which elements it takes is left to who runs it, as mlir-opt 22 leaves it."""
    _one_element(v, "input1", "output")
    shapes = [shape for name in ("input1", "output") if (shape := v.shape(name)) is not None]
    counts = [_extents(v.kind(name)) for name in ("start", "size")]
    if v.shape("input1") is not None:
        must_agree("ranks of input, output, start and size", *map(len, shapes), *counts)


def _tile(v: View) -> None:
    _one_element(v, "input1", "output")
    shapes = [shape for name in ("input1", "output") if (shape := v.shape(name)) is not None]
    must_agree(
        "ranks of input, output, multiples", *map(len, shapes), _extents(v.kind("multiples"))
    )
    multiples = v.sizes("multiples") or ()
    demand(all(n > 0 or n == -1 for n in multiples), f"multiples must be positive: {multiples}")


def _transpose(v: View) -> Results:
    _one_element(v, "input1", "output")
    shape, perms = v.shape("input1"), v.integers("perms")
    ranks = [len(s) for s in (shape, v.shape("output")) if s is not None]
    must_agree("ranks of input and output, and length of perms,", len(perms), *ranks)
    dimensions("perms", perms, len(perms))
    if shape is None:
        return None
    return [Inferred(tuple(shape[p] for p in perms))]


def _along(v: View, name: str) -> int:
    """An axis of input and output; a scalar has axis 0."""
    axis, shapes = v.integer("axis"), (v.shape(name), v.shape("output"))
    at_least(0, "axis", [axis])
    for shape in shapes:
        if shape is not None:
            dimensions("axis", [axis], max(len(shape), 1))
    must_agree("ranks of input and output", *(len(shape) for shape in shapes if shape is not None))
    return axis


def _reverse(v: View) -> None:
    _one_element(v, "input1", "output")
    _along(v, "input1")


def _reduce(v: View) -> Results:
    axis, shape, result = _along(v, "input"), v.shape("input"), v.shape("output")
    if shape is None:
        first = result and result[: axis + 1]
        must_fit(f"output up to dimension {axis}", first, (*(-1,) * axis, 1))
        return [Inferred(None, v.element("input"))]
    one = (1,) if shape else ()
    return [Inferred((*shape[:axis], *one, *shape[axis + 1 :]), v.element("input"))]


def _gather(v: View) -> Results:
    _one_element(v, "values", "output")
    (n, _, c), (m, w) = v.extents("values", 3), v.extents("indices", 2)
    must_fit("indices", (m, w), (n, -1))
    return [Inferred((max(n, m), w, c))]


def _scatter(v: View) -> Results:
    _one_element(v, "values_in", "input", "values_out")
    (n, k, c), (m, w), x = (
        v.extents(name, rank) for name, rank in (("values_in", 3), ("indices", 2), ("input", 3))
    )
    must_fit("indices", (m, w), (n, -1))
    must_fit("input", x, (max(n, m), w, c))
    rows, places = max(w, x[1]), max(k, v.extents("values_out", 3)[1])
    demand(min(rows, places) < 0 or rows <= places, f"cannot write {rows} rows to {places} places")
    return [Inferred((max(n, m, x[0]), k, max(c, x[2])))]


def _resize(v: View) -> Results:
    scale, offset, border = (v.sizes(name) for name in ("scale", "offset", "border"))
    if scale is None or offset is None or border is None:
        return None
    at_least(1, "scale", scale)
    if v.shape("output") is None:
        return None
    sizes = tuple(
        # An input of one row or column may be repeated.
        -1
        if size in (-1, 1)
        else _places((size - 1) * scale[2 * d] - offset[d] + border[d], scale[2 * d + 1], d)
        for d, size in enumerate(v.extents("input", 4)[1:3])
    )
    return [Inferred((-1, *sizes, -1))]


# -- constants, shapes and transforms -----------------------------------------------


def _const(v: View) -> None:
    kind = getattr(v.attribute("values"), "type", None)
    if isinstance(kind, Attribute):
        result = v.element("output")
        stored = v.storage("output") if layout_of(result) else str(result)
        must_be("element type of values", str(element_or_self(kind)), str(result), stored)


def _extents(kind: Attribute) -> int:
    return cast("Any", kind).rank.data


def _const_shape(v: View) -> None:
    values, rank = cast("Any", v.attribute("values")), _extents(v.kind("output"))
    must_be("rank of values", len(values.get_type().get_shape()), 1)
    must_be("number of values", len(values), rank or 1, rank)


def _dim(v: View) -> None:
    must_be("rank of the output", _extents(v.kind("output")), 1)
    if (shape := v.shape("input1")) is not None:
        dimensions("axis", [v.integer("axis")], len(shape))


def _concat_shape(v: View) -> None:
    ranks = [*map(_extents, v.kinds("input"))]
    demand(ranks, "must have at least one operand")
    at_least(1, "ranks of shapes", ranks)
    must_be("rank of the output", _extents(v.kind("output")), sum(ranks))


def _slice_shape(v: View) -> None:
    start, size = v.sizes("start"), v.sizes("size")
    at_least(0, "start", start or ())
    at_least(1, "size", size or ())
    if size:
        must_be("rank of the output", _extents(v.kind("output")), size[0])
    if start and size:
        source = _extents(v.kind("input"))
        demand(sum((start[0], size[0])) <= source, f"{source} extents end before {start} + {size}")


def _powers_of_two(shape: Shape) -> None:
    for n in shape[1:]:
        demand(n < 0 or (n and not n & (n - 1)), f"height and width must be powers of two: {n}")


def _fft(v: View) -> None:
    sides = (v.shape("input_real"), v.shape("input_imag"))
    _powers_of_two(merged(*sides) or ()) if None not in sides else None


def _real_fft(v: View) -> Results:
    must_fit("output_imag", v.shape("output_imag"), v.shape("output_real"))
    n, height, width = v.extents("input_real", 3)
    _powers_of_two((n, height, width))
    return [Inferred((n, height, width // 2 + 1 if width >= 0 else -1))]


# -- blocks -------------------------------------------------------------------------


def _scales(v: View, data: str, scale: str) -> None:
    """A scale for each block of the last dimension."""
    shape, block = v.shape(data), int(v.keyword("block_size").rpartition("_")[2])
    if shape is None:
        return
    whole = shape[-1] < 0 or shape[-1] % block == 0
    demand(whole, f"{data} must have blocks of {block}, but has the shape {listed(shape)}")
    must_fit(scale, v.shape(scale), (*shape[:-1], shape[-1] // block if shape[-1] >= 0 else -1))


def _from_blocks(v: View) -> Results:
    _scales(v, "input_data", "input_scale")
    return [Inferred(v.shape("input_data"))]


def _to_blocks(v: View) -> Results:
    _scales(v, "input_data", "output_scale")
    _scales(v, "output_data", "output_scale")
    return [Inferred(v.shape("input_data")), Inferred(None)]


def _block_matmul(v: View) -> Results:
    _one_element(v, "a_data", "b_data")
    _scales(v, "a_data", "a_scale")
    _scales(v, "b_data", "b_scale")
    a, a_scale, b, b_scale = (
        v.extents(f"{side}_{part}", 3) for side in "ab" for part in ("data", "scale")
    )
    must_fit("channels of b_data", b[2:], a[2:])
    must_fit("blocks of b_scale", b_scale[2:], a_scale[2:])
    n, d = max(a[0], a_scale[0]), max(b[0], b_scale[0])
    if min(n, d) >= 0:
        must_be("batches of b", d, 1, n)
    return [Inferred((n if n >= 0 else d, max(a[1], a_scale[1]), max(b[1], b_scale[1])))]


# -- control flow -------------------------------------------------------------------


def _agree(what: str, found: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    must_be(f"number of {what}", len(found), len(expected))
    for x, y in zip(found, expected, strict=True):
        same = element_or_self(x) == element_or_self(y) and have_fitting_shapes([x, y])
        demand(same, f"types of {what} must be {y}, but are {x}")


def _one(what: str, kind: Attribute) -> None:
    shape = shape_of(kind)
    one = shape is None or min(shape, default=0) < 0 or prod(shape) == 1
    demand(one, f"{what} must have one element, but is {kind}")


def _cond_if(v: View) -> None:
    for number, name in enumerate(("then_graph", "else_graph")):
        if v.body(number) is not None:
            _agree(f"arguments of {name}", v.taken(number), v.kinds("input_list"))
            _agree(f"results of {name}", v.returned(number), v.kinds("output_list"))
    _one("condition", v.kind("condition"))


def _while_loop(v: View) -> None:
    kinds, condition = v.kinds("input_list"), v.returned(0)
    _agree("results", v.kinds("output_list"), kinds)
    _agree("arguments of cond_graph", v.taken(0), kinds)
    _agree("arguments of body_graph", v.taken(1), kinds)
    _agree("results of body_graph", v.returned(1), kinds)
    must_be("number of results of cond_graph", len(condition), 1)
    _one("the result of cond_graph", condition[0])
    must_be("element type of the result of cond_graph", str(element_or_self(condition[0])), "i1")


RULES: Mapping[str, Rule] = {
    **{f"reduce_{name}": _reduce for name in ("all", "any", "max", "min", "product", "sum")},
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
    "rfft2d": _real_fft,
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
