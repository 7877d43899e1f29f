"""What XNNPACK asks of the operands, results and options of an op: kinds, and further conditions.

Kinds (`fits`): see `litert_delegate`. A condition is a function of a node that gives a `Reason`
where it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import Operation

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.plugins.tflite.numerics.scales import (
    XNN_PRODUCT_RATIOS,
    XNN_RATIOS,
    XNN_SUM_RATIOS,
    product_ratio,
    single,
)
from qdialect.plugins.tflite.target_nodes import Node, Part, Reason, unpacks

MOST_DIMENSIONS = 6

Check = Callable[[Node], Reason | None]

# -- kinds ------------------------------------------------------------------------

_BYTES = ("i8", "u8")
_KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "code": (("f32", "f16"), _BYTES),
    "single": (("f32",), _BYTES),
    "float": (("f32", "f16"), ()),
    "float32": (("f32",), ()),
    "codes": ((), _BYTES),
    "signed": (("f32", "f16"), ("i8",)),
}
"""Kinds of floats and of codes on one scale, of each kind."""


def fits(kind: str, part: Part | None, role: str, channel: int = 0) -> Reason | None:
    """Why an operand or a result is not of a kind; weights have scales along `channel`."""
    if kind == "any":
        return None
    if part is None:
        return None if kind == "bias" else Reason("inputs", f"{role} is absent")
    if kind in _KINDS:
        floats, codes = _KINDS[kind]
        qparams = part.qparams
        good = part.kind in floats if qparams is None else part.kind in codes and part.scale
        return None if good else Reason("type", f"{role} is {part.value.type}")
    if kind in ("const", "shape", "bias", "weight") and not part.is_constant:
        return Reason("constant", f"{role} is no constant")
    if kind == "shape":
        good = part.kind == "i32" and len(part.shape) <= 1
        return None if good else Reason("type", f"{role} is {part.value.type}")
    if kind == "bias":
        return _bias_fits(part, role)
    if kind in ("weight", "factor"):
        return _weight_fits(part, role, channel)
    return None


def _bias_fits(part: Part, role: str) -> Reason | None:
    qparams = part.qparams
    if qparams is None:
        good = part.kind in ("f32", "f16")
    else:
        good = part.kind == "i32" and qparams.axis in (None, 0)
    return None if good else Reason("type", f"{role} is {part.value.type}")


def _weight_fits(part: Part, role: str, channel: int) -> Reason | None:
    qparams = part.qparams
    wrong = Reason("type", f"{role} is {part.value.type}")
    if qparams is None:
        return None if part.kind in ("f32", "f16") else wrong
    if part.kind not in _BYTES:
        return wrong
    if qparams.count == 1:
        return None
    along = channel % len(part.shape)
    if part.kind == "u8" or qparams.axis != along or any(qparams.zero_point_list()):
        return wrong
    return None


# -- what else must hold ------------------------------------------------------------


def rank(index: int, low: int, high: int | None = None) -> Check:
    """An input has so many dimensions (the result: -1)."""

    def check(node: Node) -> Reason | None:
        part = node.results[0] if index < 0 else node.part(index)
        if low <= len(part.shape) <= (low if high is None else high):
            return None
        return Reason("rank", f"{part.value.type} has {len(part.shape)} dimensions")

    return check


SMALL = rank(0, 0, MOST_DIMENSIONS)


def activation(node: Node) -> Reason | None:
    """The fused activation is one that XNNPACK has."""
    found = node.options.get("fused_activation_function", "NONE")
    if found in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6"):
        return None
    return Reason("activation", f"XNNPACK fuses no {found}")


def one_type(*indices: int) -> Check:
    """Inputs are of the type of the result."""

    def check(node: Node) -> Reason | None:
        kinds = {node.part(index).kind for index in indices} | {node.results[0].kind}
        return None if len(kinds) == 1 else Reason("type", f"it mixes {', '.join(sorted(kinds))}")

    return check


def same_parameters(node: Node) -> Reason | None:
    """Codes mean the same before and after."""
    source, result = node.part(0).qparams, node.results[0].qparams
    if result is None or source is None:
        return None
    same = source.scale_list() == result.scale_list()
    if same and source.zero_point_list() == result.zero_point_list():
        return None
    return Reason("qparams", "operand and result have other qparams")


def ratios(node: Node) -> Reason | None:
    """Of the scales of operands of a sum and of its result."""
    scales = [part.scale for part in (node.part(0), node.part(1), node.results[0])]
    a, b, y = scales
    if a is None or b is None or y is None:
        return None
    low, high = XNN_SUM_RATIOS
    if all(low <= single(scale / y) < high for scale in (a, b)):
        return None
    return Reason("scale", "a scale is too far from that of the result")


def product(node: Node) -> Reason | None:
    """The scale of the product is near enough to that of the result."""
    a, b, y = (part.scale for part in (node.part(0), node.part(1), node.results[0]))
    if a is None or b is None or y is None:
        return None
    low, high = XNN_PRODUCT_RATIOS
    if low <= product_ratio(a, b, y) < high:
        return None
    return Reason("scale", "the scale of the product is too far from that of the result")


def requantizes(node: Node) -> Reason | None:
    """Codes become codes of the same type, within the ratios of scales."""
    source, result = node.part(0), node.results[0]
    if source.qparams is None:
        return None
    if source.kind != result.kind:
        return Reason("type", f"it makes {result.kind} of {source.kind}")
    return _in_range(source, result)


def _in_range(source: Part, result: Part, factor: float = 1.0) -> Reason | None:
    if source.scale is None or result.scale is None:
        return None
    low, high = XNN_RATIOS
    ratio = single(single(source.scale / result.scale) * single(factor))
    good = low <= ratio <= high if factor >= 0 else -127.99609375 <= ratio <= -low
    return None if good else Reason("scale", f"the ratio of scales is {ratio:g}")


def leaky(node: Node) -> Reason | None:
    """The slope and the scales fit."""
    alpha = float(node.options.get("alpha", 0.0))
    if alpha == 0.0 or abs(alpha) < 2.0**-126:
        return Reason("options", f"alpha is {alpha:g}")
    source, result = node.part(0), node.results[0]
    if source.qparams is None or result.qparams is None:
        return None
    return _in_range(source, result) or _in_range(source, result, alpha)


def window(node: Node) -> Reason | None:
    """Windows of pools do not skip elements."""
    v = node.options
    for side in ("w", "h"):
        filter_side = "filter_width" if side == "w" else "filter_height"
        if v.get(f"stride_{side}", 0) > v.get(filter_side, 0):
            return Reason("options", "the stride of a pool is larger than its window")
    return None


def zero_weights(node: Node) -> Reason | None:
    """Signed codes of the second operand of a product with codes have zero point 0."""
    a, b = node.part(0), node.part(1)
    qparams = b.qparams
    if a.qparams is None or qparams is None or b.kind != "i8":
        return None
    if node.name == "FULLY_CONNECTED" and qparams.count > 1:
        return None  # not looked at: LiteRT fails later
    return Reason("zero-point", "a zero point is not 0") if any(qparams.zero_point_list()) else None


def matmul(node: Node) -> Reason | None:
    """Two matrices of one type, or codes as weights of floats."""
    a, b = node.part(0), node.part(1)
    b_params = b.qparams
    dynamic = a.kind == "f32" and b.kind == "i8"
    if len(a.shape) < 2 or len(b.shape) < 2:
        return Reason("rank", "an operand is no matrix")
    if dynamic:
        return None
    if a.kind != b.kind or (b_params is not None and b_params.count != 1):
        return Reason("type", f"{a.value.type} times {b.value.type}")
    return None


def convolves(node: Node) -> Reason | None:
    """Input, weights and result are of one type."""
    x, w, y = node.part(0), node.part(1), node.results[0]
    dynamic = x.kind == "f32" and w.kind == "i8" and node.name == "CONV_2D"
    if x.kind != y.kind or (x.kind != w.kind and not dynamic):
        return Reason("type", f"it mixes {x.kind}, {w.kind} and {y.kind}")
    return _bias_type(node, 2)


def deconvolves(node: Node) -> Reason | None:
    """Channels and extents of a transposed convolution fit."""
    x, w, y = node.part(2), node.part(1), node.results[0]
    if w.shape[0] != y.shape[3] or w.shape[3] != x.shape[3]:
        return Reason("options", "channels do not fit")
    return _paddings(node)


def _paddings(node: Node) -> Reason | None:
    """The extents of the result are those that padding and strides make of the input."""
    x, w, y = node.part(2), node.part(1), node.results[0]
    same = node.options.get("padding") == "SAME"
    for d, stride in ((1, "stride_h"), (2, "stride_w")):
        step = node.options.get(stride, 1)
        n, k, out = x.shape[d], w.shape[d], y.shape[d]
        if same and k < step:
            return Reason("options", "a stride is larger than the kernel")
        if same and -(-out // max(step, 1)) != n:
            return Reason("options", "the extents of the result do not fit")
        if not same and k > out:
            return Reason("options", "the result is smaller than the kernel")
    return None


def _bias_type(node: Node, index: int) -> Reason | None:
    """Biases of float weights are floats, in as many bits."""
    if len(node.inputs) <= index or node.inputs[index] is None:
        return None
    weight, bias = (_before_unpacking(node.part(n)) for n in (1, index))
    if weight in ("f16", "f32") and bias != weight and (weight, bias) != ("f16", "f32"):
        return Reason("type", f"a bias of {bias} with weights of {weight}")
    return None


def _before_unpacking(part: Part) -> str:
    owner = part.value.owner
    if isinstance(owner, Operation) and unpacks(owner) and Part(owner.operands[0]).kind == "f16":
        return "f16"
    return part.kind


def dense(node: Node) -> Reason | None:
    """The weights of FULLY_CONNECTED, which may be narrower than bytes."""
    x, w, y = node.part(0), node.part(1), node.results[0]
    if node.options.get("weights_format", "DEFAULT") != "DEFAULT":
        return Reason("options", "weights are shuffled")
    if node.version == 8:
        return Reason("version", "version 8 is not known")
    if len(w.shape) != 2:
        return Reason("rank", "weights are no matrix")
    if not w.is_constant:
        return Reason("constant", "weights are no constant")
    found = _dense_weights(w)
    if found is not None:
        return found
    narrow = w.kind in ("i2", "i4", "i8")
    if x.kind != y.kind or (x.kind != w.kind and not (narrow and x.kind in ("f32", "f16", "i8"))):
        return Reason("type", f"it mixes {x.kind}, {w.kind} and {y.kind}")
    if (w.kind == "i4" and w.shape[1] % 2) or (w.kind == "i2" and w.shape[1] % 4):
        return Reason("options", "rows of weights end inside a byte")
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        found = fits("bias", bias, "operand #2")
        extents = bias.shape
        if found is None and (len(extents) != 1 or extents[0] != w.shape[0]):
            found = Reason("options", "a bias has other channels than the weights")
    return found or _bias_type(node, 2)


def _dense_weights(w: Part) -> Reason | None:
    qparams = w.qparams
    wrong = Reason("type", f"weights are {w.value.type}")
    if qparams is None:
        return None if w.kind in ("f32", "f16") else wrong
    if w.kind not in ("i2", "i4", "i8", "u8"):
        return wrong
    if qparams.blocks and qparams.axis is None:
        size = qparams.blocks[-1][1]
        return Reason("blocks", f"blocks of {size} elements") if size % 32 else None
    if qparams.count > 1 and (w.kind == "u8" or qparams.axis != 0):
        return wrong
    return wrong if w.kind == "i2" and qparams.count != w.shape[0] else None


def fewer_inputs(node: Node) -> Reason | None:
    """CONCATENATION along a dimension counted from the front or the back."""
    axis, y = node.options.get("axis", 0), node.results[0]
    if axis >= len(y.shape):
        return Reason("options", f"no dimension {axis}")
    if y.kind != "u8":
        return None
    params = {
        (p.scale, *(p.qparams.zero_point_list() if p.qparams else ())) for p in _present(node)
    }
    zeros = y.qparams.zero_point_list() if y.qparams else ()
    same = params == {(y.scale, *zeros)}
    return None if same else Reason("qparams", "operands and result have other qparams")


def _present(node: Node) -> list[Part]:
    return [part for part in node.inputs if part is not None]


def positive(index: int) -> Check:
    """A constant that the text has holds positive numbers."""

    def check(node: Node) -> Reason | None:
        numbers = node.part(index).numbers
        if numbers is None or all(n > 0 for n in numbers):
            return None
        return Reason("options", f"operand #{index} is {numbers}")

    return check


def not_negative(index: int) -> Check:
    """A constant that the text has holds no negative numbers."""

    def check(node: Node) -> Reason | None:
        numbers = node.part(index).numbers
        if numbers is None or all(n >= 0 for n in numbers):
            return None
        return Reason("options", f"operand #{index} is {numbers}")

    return check


def some_axes(node: Node) -> Reason | None:
    """It reduces along at least one dimension."""
    axes, x = node.part(1), node.part(0)
    count = axes.shape[0] if axes.shape else 1
    if not shape_of(axes.value) and not x.shape:
        return Reason("rank", "it reduces a scalar")
    if 0 in shape_of(axes.value):
        return Reason("options", "it reduces along no dimension")
    good = count <= MOST_DIMENSIONS
    return None if good else Reason("rank", "it reduces along too many dimensions")


def flat_reshape(node: Node) -> Reason | None:
    """It asks for something else than all elements in one dimension it does not say."""
    shape = node.options.get("new_shape")
    if len(node.inputs) == 2:
        part = node.part(1)
        if len([n for n in part.shape if n != 1]) > 1:
            return Reason("rank", "a shape is no vector")
        shape = part.numbers
    if shape is not None and list(shape) == [-1]:
        return Reason("options", "one dimension, whose extent is not said")
    return None


def one_by_one(node: Node) -> Reason | None:
    """A slice without steps, of all dimensions."""
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    if any(node.options.get(mask, 0) for mask in masks):
        return Reason("options", "masks other than of begins and ends")
    numbers = node.part(3).numbers
    if numbers is not None and any(n != 1 for n in numbers):
        return Reason("options", f"strides are {numbers}")
    return None if node.part(3).shape == (len(node.part(0).shape),) else Reason("rank", "strides")


def block(node: Node) -> Reason | None:
    """Blocks of more than one element, which fit the image."""
    size = node.options.get("block_size", 0)
    if size <= 1:
        return Reason("options", f"blocks of {size}")
    if node.name == "SPACE_TO_DEPTH" and any(n % size for n in node.part(0).shape[1:3]):
        return Reason("options", "blocks do not fit the image")
    return None


def pieces(node: Node) -> Reason | None:
    """Two to four results."""
    count = len(node.results)
    return None if 2 <= count <= 4 else Reason("results", f"{count} results")


def beta(node: Node) -> Reason | None:
    """No temperature."""
    return None if node.options.get("beta", 0.0) == 1.0 else Reason("options", "beta is not 1")


def float_slope(node: Node) -> Reason | None:
    """The second operand of PRELU is of floats."""
    return fits("float", node.part(1), "operand #1")
