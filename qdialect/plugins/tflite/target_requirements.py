"""What LiteRT 2.3 does with the parameters of codes, by op, storage and engine.

`STATEMENTS` has one entry for each op that is raised or written, and no default: an op without one
is an error. Where the parameters of operands and results differ, the kernel of an op

    computes   with all of them
    copies     codes as they are, whatever they stand for
    rescales   operands on another scale than the result, and copies the others
    refuses    to load or run the file
    lacks      a kernel of such codes: it does not load or run the file either
    misreads   them: what it gives is no function of what the types mean

`breaches` lists what a `tflite.node` asks of the engines `ref`, `opt` and `xnn` that those do not
do. An op that XNNPACK does not take is `opt` in `xnn`, too.

    TRANSPOSE with other qparams    ref and opt copy codes, XNNPACK cannot make it: no file loads
    CONCATENATION of u8             all engines rescale
    CONV_2D of codes, no bias       none loads it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xdsl.ir import Operation

from qdialect.plugins.tflite.numerics.scales import product_ratio, single
from qdialect.plugins.tflite.target_delegate import takes
from qdialect.plugins.tflite.target_nodes import NODE, Node, Part, node_of

CHANNELS = "several-scales"
"""The code of a breach that is none where only constants are moved."""
ALL = ("ref", "opt", "xnn")
_SLOW = ("ref", "opt")

Law = Literal["computes", "copies", "rescales", "refuses", "lacks", "misreads"]
Laws = Law | tuple[Law, Law, Law]
"""One law for all engines, or one for each of `ALL`."""


@dataclass(frozen=True)
class Breach:
    """What does not work: a code, a sentence, the engines that do not load or run the file, those
    that copy codes which mean something else, and those whose results nothing here computes."""

    code: str
    text: str
    refuse: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


Rule = Callable[[Node], Iterator[Breach]]


@dataclass(frozen=True)
class Statement:
    """What the kernels of an op do with codes of each storage. `tied` are the operands that are
    compared with the results (None: all of them), `rules` what it asks besides."""

    u8: Laws
    i8: Laws
    i16: Laws
    tied: tuple[int, ...] | None
    rules: tuple[Rule, ...] = ()

    def laws(self, storage: str) -> tuple[Law, Law, Law] | None:
        """The laws of the engines in `ALL`; None of a storage that nobody has measured."""
        stated: Mapping[str, Laws] = {"u8": self.u8, "i8": self.i8, "i16": self.i16}
        found = stated.get(storage)
        return (found, found, found) if isinstance(found, str) else found

    def parts(self, node: Node) -> list[Part]:
        """The tied operands and the results that are codes."""
        tied = range(len(node.inputs)) if self.tied is None else self.tied
        inputs = [node.inputs[n] for n in tied if n < len(node.inputs)]
        found = (part for part in (*inputs, *node.results) if part is not None)
        return [part for part in found if part.qparams is not None]


def breaches(op: Operation) -> list[Breach]:
    """What of a `tflite.node` LiteRT refuses or gets wrong; KeyError for an op that `STATEMENTS`
    does not have."""
    if op.name != NODE:
        return []
    node = node_of(op)
    statement = STATEMENTS[node.name]
    found = [*_tied(node, statement)]
    found += [breach for rule in statement.rules for breach in rule(node)]
    return found if not found or takes(op) else [_undelegated(breach) for breach in found]


def refusal(op: Operation, engine: str) -> str | None:
    """Why an engine ("litert-xnn", ..) does not run a `tflite.node`; None where it does, and for
    ops that nobody raises."""
    node = node_of(op) if op.name == NODE else None
    if node is None or node.name not in STATEMENTS:
        return None
    found = (b.text for b in breaches(op) if engine.removeprefix("litert-") in b.refuse)
    return next(found, None)


def rescales(op: Operation) -> bool:
    """Whether the kernels of a `tflite.node` put operands on the scale of the result."""
    node = node_of(op)
    statement = STATEMENTS[node.name]
    laws = [statement.laws(part.kind) for part in statement.parts(node)]
    return any(found is not None and "rescales" in found for found in laws)


def _undelegated(breach: Breach) -> Breach:
    """Of an op that XNNPACK leaves: it is `opt`."""

    def engines(names: Sequence[str]) -> tuple[str, ...]:
        return (*(n for n in names if n != "xnn"), *(("xnn",) if "opt" in names else ()))

    return replace(
        breach,
        refuse=engines(breach.refuse),
        ignore=engines(breach.ignore),
        wrong=engines(breach.wrong),
    )


# -- operands and results ---------------------------------------------------------------


def _grid(part: Part) -> tuple[Sequence[float], Sequence[int]]:
    qparams = part.qparams
    assert qparams is not None
    return qparams.scale_list(), qparams.zero_point_list()


def _tied(node: Node, statement: Statement) -> Iterator[Breach]:
    """What the laws of an op say of its operands and results."""
    parts = statement.parts(node)
    storages = sorted({part.kind for part in parts})
    if len(storages) > 1:
        text = f"operands and results are stored as {' and '.join(storages)}"
        yield Breach("storage", text, wrong=ALL)
    if len(storages) != 1:
        return
    laws = statement.laws(storages[0])
    differ = any(_grid(part) != _grid(parts[0]) for part in parts)
    if laws is None:
        if differ:
            text = f"nobody has measured what it does with {storages[0]} codes on other scales"
            yield Breach("storage", text, wrong=ALL)
        return

    def having(law: Law) -> tuple[str, ...]:
        return tuple(engine for engine, found in zip(ALL, laws, strict=True) if found == law)

    if having("lacks"):
        yield Breach("kernel", f"there is no kernel of {storages[0]} codes", having("lacks"))
    if having("misreads"):
        text = f"the kernel misreads {storages[0]} codes"
        yield Breach("kernel", text, wrong=having("misreads"))
    if any(part.qparams is not None and part.qparams.count > 1 for part in parts):
        code = CHANNELS if "copies" in laws else "axis"
        yield Breach(code, "an operand or a result has several scales", wrong=ALL)
    elif differ and having("refuses") + having("copies"):
        text = "the parameters of its operands and results differ"
        yield Breach("tied-qparams", text, having("refuses"), having("copies"))


def _copied(operand: int) -> Rule:
    law = Statement("copies", "copies", "copies", (operand,))
    return lambda node: _tied(node, law)


def _symmetric(node: Node) -> Iterator[Breach]:
    """Codes of 16 bits have zero point 0, where operands are codes."""
    codes = [part for part in (*node.inputs, *node.results) if part is not None and part.qparams]
    if any(part.kind == "i16" and any(_grid(part)[1]) for part in codes) and any(
        part is not None and part.qparams for part in node.inputs
    ):
        yield Breach("zero-point", "codes of 16 bits have zero point 0", ALL)


_CONVERSIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "QUANTIZE": {
        "f32": ("u8", "i8", "i16", "i4"),
        "u8": ("u8", "i8", "i16"),
        "i8": ("u8", "i8", "i16"),
        "i16": ("i8", "i16", "i32"),
        "i32": ("i8", "i16"),
    },
    "DEQUANTIZE": {"u8": ("f32",), "i8": ("f32",), "i16": ("f32",), "i32": (), "i4": ("f32",)},
}
"""What casts make of what; of other types nothing is said."""


def _converts(node: Node) -> Iterator[Breach]:
    source, result = node.part(0), node.results[0]
    known = _CONVERSIONS[node.name].get(source.kind)
    if known is not None and result.kind not in known:
        yield Breach("storage", f"there is no kernel from {source.kind} to {result.kind}", ALL)
    several = source.qparams is not None and source.qparams.count > 1
    if several and source.kind == "i16" and node.name == "DEQUANTIZE":
        yield Breach("axis", "codes of 16 bits have one scale", ALL)


def _unfused(node: Node) -> Iterator[Breach]:
    """It has no activation: XNNPACK does not read it, the others refuse it."""
    if node.options.get("fused_activation_function", "NONE") != "NONE":
        yield Breach("activation", "it has no fused activation", _SLOW, wrong=("xnn",))


def _output(
    scales: Mapping[str, float], zeros: Mapping[str, int], refuse: tuple[str, ...] = ALL
) -> Rule:
    """The result is on one scale, and has one zero point, by how it is stored."""

    def rule(node: Node) -> Iterator[Breach]:
        result = node.results[0]
        if result.qparams is None:
            return
        (scale, *_), (zero, *_) = _grid(result)
        if scales.get(result.kind, scale) != scale or zeros.get(result.kind, zero) != zero:
            text = f"its result has scale {scales.get(result.kind, scale):g}"
            if result.kind in zeros:
                text += f" and zero point {zeros[result.kind]}"
            yield Breach("fixed-qparams", text, refuse)

    return rule


# -- products ---------------------------------------------------------------------------


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
            yield Breach("zero-point", "weights have zero point 0", ("xnn",), wrong=_SLOW)
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
        yield Breach("bias", text, () if dense else ALL, wrong=ALL if dense else ())
        return
    weights = weight.qparams
    assert weights is not None
    if qparams is not None and not dense:
        if any(qparams.zero_point_list()):
            yield Breach("bias", "the zero point of a bias is 0", ALL)
        if (qparams.count > 1) != (weights.count > 1):
            yield Breach("bias", "a bias has as many scales as the weights", ("xnn",))
    if (dense or source.kind == "u8") and weights.count == 1:
        one = _scales(bias)[0] if qparams is not None and qparams.count == 1 else 0.0
        (s_x, *_), (s_w, *_), (s_y, *_) = (
            _scales(part) or [1.0] for part in (source, weight, node.results[0])
        )
        if abs(s_x * s_w - one) / s_y > 0.02:
            yield Breach("bias", "the scale of a bias is that of the products", _SLOW)


# -- the table --------------------------------------------------------------------------

_COMPUTES: Laws = "computes"
_COPIES: Laws = "copies"
_REFUSES: Laws = "refuses"
_LACKS: Laws = "lacks"
_BY_XNN: Laws = ("copies", "copies", "refuses")
"""XNNPACK cannot make the op, and LiteRT does not go back."""
_BY_SLOW: Laws = ("refuses", "refuses", "copies")
_NOT_IN_REF: Laws = ("lacks", "computes", "computes")
_WRONG_IN_REF: Laws = ("misreads", "computes", "computes")


def _of(
    names: str, u8: Laws, i8: Laws, i16: Laws, tied: tuple[int, ...] | None, *rules: Rule
) -> dict[str, Statement]:
    return dict.fromkeys(names.split(), Statement(u8, i8, i16, tied, rules))


_SHORT = {"i16": 1 / 32768}

STATEMENTS: Mapping[str, Statement] = {
    # products
    **_of("CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED", _COMPUTES, _COMPUTES, _COMPUTES, (0,),
          _convolution(0, 1, 2), _symmetric),
    **_of("TRANSPOSE_CONV", _COMPUTES, _COMPUTES, _COMPUTES, (2,),
          _convolution(2, 1, 3), _symmetric),
    **_of("BATCH_MATMUL", _LACKS, _COMPUTES, _COMPUTES, (0, 1), _symmetric),
    **_of("CONV_3D Convolution2DTransposeBias", _LACKS, _LACKS, _LACKS, (0,)),
    **_of("CONV_3D_TRANSPOSE", _LACKS, _LACKS, _LACKS, (2,)),
    **_of("UNIDIRECTIONAL_SEQUENCE_LSTM", "misreads", _COMPUTES, "misreads", (0,)),
    # elementwise
    **_of("ADD SUB MUL", _COMPUTES, _COMPUTES, _COMPUTES, (0, 1), _symmetric),
    **_of("DIV", _COMPUTES, _COMPUTES, _COMPUTES, (0, 1)),
    **_of("SQUARED_DIFFERENCE", _LACKS, _COMPUTES, _LACKS, (0, 1)),
    **_of("MAXIMUM MINIMUM", _COPIES, _COPIES, _COPIES, (0, 1)),
    **_of("FLOOR_DIV FLOOR_MOD", _LACKS, _COPIES, _COPIES, (0, 1)),
    **_of("EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL", _COMPUTES, _COMPUTES, _COPIES,
          (0, 1)),
    **_of("ADD_N POW LOGICAL_AND LOGICAL_OR LOGICAL_NOT", _LACKS, _LACKS, _LACKS, None),
    **_of("SELECT SELECT_V2", _COPIES, _COPIES, _COPIES, (1, 2)),
    # functions
    **_of("RELU RELU6 LEAKY_RELU", _COMPUTES, _COMPUTES, _COMPUTES, (0,), _symmetric),
    **_of("RELU_N1_TO_1 RELU_0_TO_1 HARD_SWISH", _COMPUTES, _COMPUTES, _LACKS, (0,)),
    **_of("PRELU", _COMPUTES, _COMPUTES, "misreads", (0, 1)),
    **_of("GELU", _COMPUTES, _COMPUTES, _COMPUTES, (0,)),
    **_of("ELU", _LACKS, _NOT_IN_REF, _LACKS, (0,)),
    **_of("EXP LOG SQRT RSQRT ABS", _LACKS, _COMPUTES, _COMPUTES, (0,), _symmetric),
    **_of("NEG", _LACKS, _COPIES, _COPIES, (0,)),
    **_of("LOGISTIC", _COMPUTES, _COMPUTES, _COMPUTES, (0,), _symmetric, _output(_SHORT, {}),
          _output({"i8": 1 / 256, "u8": 1 / 256}, {}, _SLOW)),
    **_of("TANH", _COMPUTES, _COMPUTES, _COMPUTES, (0,), _symmetric, _output(_SHORT, {})),
    **_of("SOFTMAX", _COMPUTES, _COMPUTES, _COMPUTES, (0,), _symmetric,
          _output({"i8": 1 / 256, **_SHORT}, {"i8": -128})),
    **_of("LOG_SOFTMAX", _COMPUTES, _COMPUTES, _LACKS, (0,),
          _output({"i8": 1 / 16, "u8": 1 / 16}, {"i8": 127, "u8": 255})),
    **_of("L2_NORMALIZATION", _COMPUTES, _COMPUTES, _LACKS, (0,),
          _output({"i8": 1 / 128, "u8": 1 / 128}, {"i8": 0, "u8": 128})),
    **_of("SQUARE SIN COS FLOOR CEIL ROUND SIGN LOCAL_RESPONSE_NORMALIZATION L2_POOL_2D",
          _LACKS, _LACKS, _LACKS, (0,)),
    # windows and reductions
    **_of("AVERAGE_POOL_2D", _COPIES, _COPIES, _COPIES, (0,)),
    **_of("MAX_POOL_2D RESIZE_BILINEAR", _BY_XNN, _BY_XNN, _COPIES, (0,)),
    **_of("RESIZE_NEAREST_NEIGHBOR", _COPIES, _COPIES, _COPIES, (0,)),
    **_of("MEAN", _COMPUTES, _COMPUTES, _COMPUTES, (0,), _symmetric),
    **_of("SUM", _WRONG_IN_REF, _WRONG_IN_REF, _WRONG_IN_REF, (0,), _symmetric),
    **_of("REDUCE_MAX REDUCE_MIN", _BY_SLOW, _BY_SLOW, _REFUSES, (0,), _symmetric),
    **_of("REDUCE_PROD", _LACKS, _COMPUTES, _COMPUTES, (0,), _symmetric),
    **_of("REDUCE_ANY REDUCE_ALL CUMSUM", _LACKS, _LACKS, _LACKS, (0,)),
    **_of("ARG_MAX ARG_MIN WHERE", _COPIES, _COPIES, _LACKS, (0,)),
    # casts
    **_of("QUANTIZE DEQUANTIZE", _COMPUTES, _COMPUTES, _COMPUTES, (), _symmetric, _converts),
    **_of("CAST", _COPIES, _COPIES, _COPIES, ()),
    # movements
    **_of("RESHAPE SQUEEZE SPLIT_V TILE REVERSE_V2 GATHER GATHER_ND BROADCAST_TO TOPK_V2 SHAPE",
          _COPIES, _COPIES, _COPIES, (0,)),
    **_of("TRANSPOSE SLICE STRIDED_SLICE PAD", _BY_XNN, _BY_XNN, _COPIES, (0,)),
    **_of("SPACE_TO_DEPTH DEPTH_TO_SPACE", _BY_XNN, _BY_XNN, _LACKS, (0,)),
    **_of("SPLIT", _BY_XNN, _BY_XNN, _COPIES, (1,)),
    **_of("EXPAND_DIMS MIRROR_PAD SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND",
          _REFUSES, _REFUSES, _REFUSES, (0,), _symmetric),
    **_of("UNPACK", _REFUSES, _REFUSES, _REFUSES, (0,)),
    **_of("PACK", _REFUSES, _REFUSES, _REFUSES, None),
    **_of("FILL", _REFUSES, _REFUSES, _REFUSES, (1,), _symmetric),
    **_of("PADV2", _REFUSES, _REFUSES, _REFUSES, (2,), _copied(0)),
    **_of("CONCATENATION", "rescales", _REFUSES, _COPIES, None, _symmetric, _unfused),
    **_of("EMBEDDING_LOOKUP", _COPIES, _COPIES, _COPIES, (1,)),
    **_of("SCATTER_ND", _COPIES, _COPIES, _LACKS, (1,)),
    **_of("ONE_HOT", _COPIES, _COPIES, _LACKS, (2, 3)),
    **_of("ZEROS_LIKE RANGE", _LACKS, _LACKS, _LACKS, None),
}  # fmt: skip
"""What the kernels of each op do with codes."""
