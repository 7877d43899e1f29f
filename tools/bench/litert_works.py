"""What the operators of a TFLite file have LiteRT's kernels do, and so what the file takes.

XNNPACK folds constants when a file is loaded, takes activations and paddings into convolutions
that stand beside them, and copies nothing to reshape: such operators are no executions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from qdialect.plugins.onnx.target_kernels import cast_work
from qdialect.plugins.tflite.file.model import ABSENT, File, Operator, Subgraph, Tensor
from qdialect.plugins.tflite.target_kernels import (
    CODES,
    CODES_16,
    DYNAMIC,
    FLOAT,
    I8,
    I16,
    LEAVE,
    RUN,
    VIEW,
    Work,
    convolution_work,
    plain_work,
    product_work,
    strided,
)
from qdialect.targets.price_table import PriceTable

KERNELS: Mapping[str, str] = {
    **{
        name: f"nn.{name.lower()}"
        for name in ("ADD", "SUB", "MUL", "DIV", "TANH", "HARD_SWISH", "ELU", "GELU", "EXP")
    },
    **{name: f"nn.{name.lower()}" for name in ("LOG", "SQRT", "ABS", "NEG", "FLOOR", "CEIL")},
    **{
        name: f"nn.{name.lower()}"
        for name in ("POW", "SOFTMAX", "PRELU", "LEAKY_RELU", "PAD", "SLICE", "SPLIT", "GATHER")
    },
    **{name: f"nn.{name.lower()}" for name in ("MAXIMUM", "MINIMUM", "TRANSPOSE", "TILE")},
    **{name: f"nn.{name.lower()}" for name in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "ROUND")},
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), "nn.relu"),
    "LOGISTIC": "nn.sigmoid",
    "RSQRT": "nn.sqrt",
    "SQUARE": "nn.mul",
    "SQUARED_DIFFERENCE": "nn.mul",
    "AVERAGE_POOL_2D": "nn.avg_pool2d",
    "MAX_POOL_2D": "nn.max_pool2d",
    "MEAN": "nn.reduce_mean",
    "SUM": "nn.reduce_sum",
    "REDUCE_MAX": "nn.reduce_max",
    "REDUCE_MIN": "nn.reduce_max",
    "CONCATENATION": "nn.concat",
    "SPLIT_V": "nn.split",
    "PADV2": "nn.pad",
    "MIRROR_PAD": "nn.pad",
    "BROADCAST_TO": "nn.concat",
    "RESIZE_BILINEAR": "nn.resize_linear",
    "RESIZE_NEAREST_NEIGHBOR": "nn.resize_nearest",
}
"""The kernels that ops are measured as."""
_VIEWS = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
_CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"})
_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
_CLAMPING = _CONVOLUTIONS | {"FULLY_CONNECTED", "ADD", "SUB", "MUL", "DIV", "TRANSPOSE_CONV"}
_AT_LOAD = frozenset({"DEQUANTIZE", "DENSIFY", "CAST", "RESHAPE", "TRANSPOSE"})
"""Ops that XNNPACK or LiteRT evaluates on constants when it loads a file."""
_FLOATS = ("FLOAT32", "FLOAT16")
_CACHE = 1 << 20
"""Bytes of weights that stay near a core from run to run."""


def constants(graph: Subgraph) -> set[int]:
    """The numbers of the tensors that are known when a file is loaded."""
    found = {n for n, tensor in enumerate(graph.tensors) if tensor.data is not None}
    for op in graph.operators:
        if op.op not in _AT_LOAD or not found.issuperset(n for n in op.inputs if n >= 0):
            continue
        # Codes of 4 bits are dequantized whenever a network runs.
        if graph.tensors[op.inputs[0]].type != "INT4":
            found.update(op.outputs)
    return found


class Works:
    """The executions of a subgraph. `delegated` says of each operator whether XNNPACK runs it,
    where LiteRT has been asked (`InChild.nodes`)."""

    def __init__(self, subgraph: Subgraph, delegated: Sequence[bool] | None = None) -> None:
        self.subgraph, self.delegated = subgraph, delegated
        self.constant = constants(subgraph)
        self.users: dict[int, list[Operator]] = {}
        self.maker: dict[int, Operator] = {}
        for op in subgraph.operators:
            for number in op.inputs:
                self.users.setdefault(number, []).append(op)
            for number in op.outputs:
                self.maker[number] = op

    def all(self) -> list[tuple[Operator, tuple[Work, ...] | None]]:
        """Every operator and what it has to do; None where no kernel like it is measured."""
        inside, found = True, list[tuple[Operator, tuple[Work, ...] | None]]()
        for index, op in enumerate(self.subgraph.operators):
            made = self.of(op)
            if self.delegated is not None and index < len(self.delegated) and made:
                # Once for a row of ops that XNNPACK does not take.
                if inside and not self.delegated[index]:
                    size = prod(self.subgraph.tensors[op.outputs[0]].shape)
                    made = (*made, Work(LEAVE, CODES, {"node": 1, "element": size}))
                inside = self.delegated[index]
            found.append((op, made))
        return found

    def of(self, op: Operator) -> tuple[Work, ...] | None:
        """What one operator has to do, () for nothing."""
        tensors = self.subgraph.tensors
        if self.constant.issuperset(op.outputs):
            return ()
        if op.op in _VIEWS:
            return (Work(VIEW, CODES, {"node": 1}),)
        first = next((n for n in op.inputs if n != ABSENT), None)
        if first is None or not op.outputs or self._is_taken_in(op, first):
            return () if first is not None and op.outputs else None
        if op.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"):
            return self._convolution(op)
        if op.op in ("FULLY_CONNECTED", "BATCH_MATMUL"):
            return self._product(op)
        size = max(
            prod(tensors[n].shape)
            for n in (*op.inputs, *op.outputs)
            if n != ABSENT and (n not in self.constant or n in op.outputs)
        )
        if op.op in ("QUANTIZE", "DEQUANTIZE"):
            return (self._cast(op, size),)
        name = KERNELS.get(op.op)
        if op.op == "STRIDED_SLICE":
            steps = tensors[op.inputs[3]].data
            name = strided([2] if steps is None else steps.reshape(-1).tolist())
        if name is None:
            return None
        kind = tensors[first].type
        state = FLOAT if kind in _FLOATS else CODES_16 if kind == "INT16" else CODES
        if name in ("nn.slice", "nn.slice strided", "nn.gather", "nn.split"):
            size = prod(tensors[op.outputs[0]].shape)
        window = 0
        if op.op.endswith("_POOL_2D"):
            taps = int(op.options["filter_width"]) * int(op.options["filter_height"])
            window = prod(tensors[op.outputs[0]].shape) * taps
        return (plain_work(name, state, size, window),)

    def _is_taken_in(self, op: Operator, first: int) -> bool:
        """Whether a neighbour does it: a clamp by what it follows, a padding by what follows."""
        maker = self.maker.get(first)
        if op.op in _CLAMPS and maker is not None and len(self.users[first]) == 1:
            return maker.op in _CLAMPING
        users = self.users.get(op.outputs[0], [])
        return op.op == "PAD" and len(users) == 1 and users[0].op in _CONVOLUTIONS

    def _cast(self, op: Operator, size: int) -> Work:
        tensors = self.subgraph.tensors
        kinds = [tensors[n].type for n in (op.inputs[0], op.outputs[0])]
        name = "quant.qcast" if kinds[0] in _FLOATS else "quant.rescale"
        work = cast_work("quant.dcast" if op.op == "DEQUANTIZE" else name, size)
        return work._replace(state=CODES_16) if "INT16" in kinds else work

    def _state(self, x: Tensor, weights: Tensor) -> str:
        if x.type in _FLOATS:
            return FLOAT if weights.type in _FLOATS else DYNAMIC
        return I16 if x.type == "INT16" else I8

    def _convolution(self, op: Operator) -> tuple[Work, ...] | None:
        tensors = self.subgraph.tensors
        at = 2 if op.op == "TRANSPOSE_CONV" else 0
        x, weights, result = (tensors[n] for n in (op.inputs[at], op.inputs[1], op.outputs[0]))
        if weights.type == "INT4" or op.inputs[1] not in self.constant:  # XNNPACK takes none
            return None
        count, height, width, depth = weights.shape
        groups = max(x.shape[-1] // max(depth, 1), 1)
        if op.op == "DEPTHWISE_CONV_2D":
            # As many results for each channel as there are times more of them.
            count, depth, groups = depth, 1, x.shape[-1]
        elif op.op == "TRANSPOSE_CONV":
            groups = 1
        where = x if at else result
        return (
            convolution_work(
                self._state(x, weights),
                prod(where.shape) // max(where.shape[-1], 1),
                count,
                depth,
                height * width,
                groups=groups,
                read=prod(x.shape),
                transposed=bool(at),
            ),
        )

    def _product(self, op: Operator) -> tuple[Work, ...] | None:
        tensors = self.subgraph.tensors
        x, weights, result = (tensors[n] for n in (*op.inputs[:2], op.outputs[0]))
        constant = op.inputs[1] in self.constant
        if op.op == "FULLY_CONNECTED" and not constant:
            return None
        columns = result.shape[-1] if result.shape else 1
        depth = prod(weights.shape[-2:]) // max(columns, 1)
        rows = prod(result.shape) // max(columns, 1)
        batches = 1 if constant else prod(result.shape[:-2])
        state = self._state(x, weights)
        return (product_work(state, rows, columns, depth, batches=batches, constant=constant),)


def is_warm(graph: Subgraph) -> bool:
    """Whether the weights of a subgraph stay near a core from run to run."""
    return sum(t.data.nbytes for t in graph.tensors if t.data is not None) <= _CACHE


def near(work: Work) -> Work:
    """A contraction whose weights are near."""
    if "product" not in work.terms:
        return work
    return work._replace(terms={**work.terms, "far": 0})


def predicted(
    file: File, prices: PriceTable, delegated: Sequence[bool] | None = None
) -> tuple[float, set[str]]:
    """Nanoseconds that the main subgraph takes by the price table, and the ops in it that have no
    price and are not counted."""
    total, unknown = prices.nanoseconds(RUN, CODES, {"node": 1}) or 0.0, set[str]()
    for op, price in priced(file, prices, delegated):
        total += price or 0.0
        if price is None:
            unknown.add(op.op)
    return total, unknown


def priced(
    file: File, prices: PriceTable, delegated: Sequence[bool] | None = None
) -> Iterator[tuple[Operator, float | None]]:
    """Every operator of the main subgraph and its nanoseconds; None where it has no price.

    Weights that fit in the second cache together are there when the next run needs them."""
    graph = file.subgraphs[0]
    warm = is_warm(graph)
    for op, made in Works(graph, delegated).all():
        works = [near(work) if warm else work for work in made or ()]
        each = [prices.nanoseconds(*work) for work in works]
        known = made is not None and None not in each
        yield op, sum(price or 0.0 for price in each) if known else None
