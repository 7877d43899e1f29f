"""What LiteRT 2.3 refuses when it loads or runs a file, and what it silently gets wrong.

`breaches` lists what a `tflite.node` asks of the engines `ref`, `opt` and `xnn` that those do not
do: engines that `refuse` do not load or run the file, engines that are `wrong` compute other
numbers than the qparams say (they copy codes). An op that XNNPACK does not take is `opt` in `xnn`,
too. An empty list says nothing about what nobody has measured.

    TRANSPOSE with other qparams    ref and opt copy codes, XNNPACK cannot make it: no file loads
    CONV_2D of codes, no bias       none loads it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from qdialect.numerics.litert_scales import product_ratio, single
from qdialect.targets.litert_delegate import takes
from qdialect.targets.litert_nodes import NODE, Node, Part, node_of

ALL = ("ref", "opt", "xnn")
_SLOW = ("ref", "opt")


@dataclass(frozen=True)
class Breach:
    """What does not work: a code, a sentence, the engines that do not load or run the file, and
    those whose results are not what the types mean."""

    code: str
    text: str
    refuse: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def breaches(op: Operation) -> list[Breach]:
    """What of a `tflite.node` LiteRT refuses or gets wrong."""
    if op.name != NODE:
        return []
    node = node_of(op)
    found = [breach for rule in RULES.get(node.name, ()) for breach in rule(node)]
    return found if takes(op) else [_undelegated(breach) for breach in found]


def _undelegated(breach: Breach) -> Breach:
    """Of an op that XNNPACK leaves: it is `opt`."""

    def engines(names: Sequence[str]) -> tuple[str, ...]:
        return (*(n for n in names if n != "xnn"), *(("xnn",) if "opt" in names else ()))

    return replace(breach, refuse=engines(breach.refuse), wrong=engines(breach.wrong))


Rule = Callable[[Node], Iterator[Breach]]


def _grid(part: Part) -> tuple[Sequence[float], Sequence[int]] | None:
    qparams = part.qparams
    return None if qparams is None else (qparams.scale_list(), qparams.zero_point_list())


def _tied(refuse: tuple[str, ...], *operands: int) -> Rule:
    """Operands (all of them, without numbers) and results have the same qparams: `refuse` do not
    load others, the rest copy codes."""

    def rule(node: Node) -> Iterator[Breach]:
        inputs = [node.inputs[n] for n in operands] if operands else list(node.inputs)
        grids = [_grid(part) for part in (*inputs, *node.results) if part is not None]
        known = [grid for grid in grids if grid is not None]
        if any(grid != known[0] for grid in known):
            wrong = tuple(engine for engine in ALL if engine not in refuse)
            yield Breach("tied-qparams", "qparams that are not the same", refuse, wrong)

    return rule


def _output(grids: Mapping[str, tuple[float, int]], refuse: tuple[str, ...] = ALL) -> Rule:
    """The result is on one scale and zero point, by how it is stored."""

    def rule(node: Node) -> Iterator[Breach]:
        result = node.results[0]
        grid = grids.get(result.kind)
        found = _grid(result)
        if grid is None or found is None:
            return
        if (list(found[0]), list(found[1])) != ([grid[0]], [grid[1]]):
            text = f"its result has scale {grid[0]:g} and zero point {grid[1]}"
            yield Breach("fixed-qparams", text, refuse)

    return rule


def _scales(part: Part) -> list[float]:
    qparams = part.qparams
    return [] if qparams is None else [single(scale) for scale in qparams.scale_list()]


def _convolution(x: int, w: int, b: int) -> Rule:
    """Products of codes of 8 bits: weights, bias and factors."""

    def rule(node: Node) -> Iterator[Breach]:
        source, weight = node.part(x), node.part(w)
        if source.qparams is None or weight.qparams is None:
            return
        yield from _weights(node, source, weight)
        bias = node.inputs[b] if len(node.inputs) > b else None
        if bias is None:
            yield from _no_bias(node, b)
        else:
            yield from _bias(node, source, weight, bias)

    return rule


def _weights(node: Node, source: Part, weight: Part) -> Iterator[Breach]:
    qparams = weight.qparams
    assert qparams is not None
    if source.kind == "u8" and qparams.count > 1:
        yield Breach("per-axis", "unsigned codes have weights on one scale", ALL)
    if source.kind == "u8" and weight.kind != "u8":
        yield Breach("weights", "unsigned codes have unsigned weights", ALL)
    if weight.kind == "i8" and any(qparams.zero_point_list()):
        late = node.name == "FULLY_CONNECTED" and qparams.count > 1
        if node.name == "CONV_2D":
            yield Breach("zero-point", "weights have zero point 0", ALL)
        elif late or node.name == "DEPTHWISE_CONV_2D":
            yield Breach("zero-point", "weights have zero point 0", ("xnn",), _SLOW)
    y = _scales(node.results[0])
    factors = [product_ratio(s, t, y[0]) for s in _scales(source)[:1] for t in _scales(weight) if y]
    if any(factor >= 256 for factor in factors):
        yield Breach("factor", "s_x * s_w / s_y is 256 or more", ("xnn",))


def _no_bias(node: Node, b: int) -> Iterator[Breach]:
    if node.name in ("CONV_2D", "DEPTHWISE_CONV_2D") and len(node.inputs) > b:
        yield Breach("bias", "an absent bias is left out", ALL)
    elif node.name == "CONV_2D":
        yield Breach("bias", "a convolution of codes has a bias", ALL)
    elif node.name == "DEPTHWISE_CONV_2D":
        yield Breach("bias", "a convolution of codes has a bias", ("opt", "xnn"))


def _bias(node: Node, source: Part, weight: Part, bias: Part) -> Iterator[Breach]:
    qparams = bias.qparams
    dense = node.name == "FULLY_CONNECTED"
    if source.kind in ("i8", "u8") and bias.kind != "i32":
        text = "the bias of 8-bit codes has 32 bits"
        yield Breach("bias", text, () if dense else ALL, ALL if dense else ())
        return
    weights = weight.qparams
    assert weights is not None
    if qparams is not None and not dense:
        if any(qparams.zero_point_list()):
            yield Breach("bias", "the zero point of a bias is 0", ALL)
        if (qparams.count > 1) != (weights.count > 1):
            yield Breach("bias", "a bias has as many scales as the weights", ("xnn",))
    if dense and weights.count == 1:
        one = _scales(bias)[0] if qparams is not None and qparams.count == 1 else 0.0
        (s_x, *_), (s_w, *_), (s_y, *_) = (
            _scales(part) or [1.0] for part in (source, weight, node.results[0])
        )
        if abs(s_x * s_w - one) / s_y > 0.02:
            yield Breach("bias", "the scale of a bias is that of the products", _SLOW)


_MOVED_BY_XNN = ("xnn",)
_EIGHT = {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)}
_COPIES = (
    *("RESHAPE", "GATHER", "GATHER_ND", "EXPAND_DIMS", "SQUEEZE", "AVERAGE_POOL_2D", "UNPACK"),
    *("RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "TILE", "BROADCAST_TO"),
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    **{
        name: (_tied(_MOVED_BY_XNN, 0),)
        for name in (
            *("TRANSPOSE", "PAD", "SLICE", "STRIDED_SLICE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
            *("RESIZE_BILINEAR", "MAX_POOL_2D"),
        )
    },
    "SPLIT": (_tied(_MOVED_BY_XNN, 1),),
    "CONCATENATION": (_tied(ALL),),
    "MIRROR_PAD": (_tied(ALL, 0),),
    **{name: (_tied((), 0),) for name in _COPIES},
    **{name: (_tied((), 0, 1),) for name in ("MAXIMUM", "MINIMUM")},
    **{name: (_tied(_SLOW, 0),) for name in ("REDUCE_MAX", "REDUCE_MIN")},
    "SOFTMAX": (_output(_EIGHT),),
    "LOGISTIC": (_output(_EIGHT, _SLOW),),
    "LOG_SOFTMAX": (_output({"i8": (1 / 16, 127), "u8": (1 / 16, 255)}),),
    "L2_NORMALIZATION": (_output({"i8": (1 / 128, 0), "u8": (1 / 128, 128)}),),
    "CONV_2D": (_convolution(0, 1, 2),),
    "DEPTHWISE_CONV_2D": (_convolution(0, 1, 2),),
    "TRANSPOSE_CONV": (_convolution(2, 1, 3),),
    "FULLY_CONNECTED": (_convolution(0, 1, 2),),
}
"""What LiteRT asks of ops, by their names."""
