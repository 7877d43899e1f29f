"""TFLite and Circle as `nn` and `quant`, as one of LiteRT's engines computes them.

Each op becomes the op of `nn` with the same function. Where the engine's kernel rounds in a way
of its own, the op names it (`nn.kernel`), so that the interpreter gives the engine's codes. What
has no counterpart stays as it is, and a remark says why: all else goes on.

Values keep the order that they lie in: ops of images take channels first, their results are read
as channels last, and a transpose is left only where the function takes or gives channels last,
or a reshape mixes dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

import numpy as np
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import QError
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp, constant_array, shape_of
from qdialect.ir.ops.base import KERNEL_OP, KERNEL_ORDER, kernels_of
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import UniformType, element_type
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY, IN_FLOATS
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Conversion, Raised
from qdialect.plugins.onnx.dialect import MODEL, NodeOp
from qdialect.plugins.tflite.dialect import VARIABLE, TfliteNodeOp
from qdialect.plugins.tflite.raising import (
    batches,
    casts,
    contraction,
    elementwise,
    folding,
    functions,
    indexing,
    movement,
    ordering,
    pooling,
    recurrent,
    reduction,
    resize,
    shaping,
)
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.raiser import PASS, Handler, Raiser
from qdialect.plugins.tflite.raising.values import Constant
from qdialect.plugins.tflite.target_requirements import CHANNELS, STATEMENTS, breaches

Engine = Literal["litert-xnn", "litert-ref", "litert-opt"]

_OPSET = 18
"""The opset in which nodes of ONNX are written."""


@cache
def handlers() -> Mapping[str, Handler]:
    """How each op is raised, by its name in the schema."""
    found = {
        **batches.HANDLERS,
        **casts.HANDLERS,
        **contraction.HANDLERS,
        **elementwise.HANDLERS,
        **functions.HANDLERS,
        **indexing.HANDLERS,
        **movement.HANDLERS,
        **ordering.HANDLERS,
        **pooling.HANDLERS,
        **recurrent.HANDLERS,
        **reduction.HANDLERS,
        **resize.HANDLERS,
        **shaping.HANDLERS,
    }
    unstated = (found.keys() | contraction.CUSTOM.keys()) - STATEMENTS.keys()
    if unstated:
        raise LookupError(f"litert_requirements does not state what {sorted(unstated)} do")
    return found


@dataclass(frozen=True)
class RaiseTflite(ModulePass):
    """All functions of a module that have ops of TFLite; see the module.

    `kernels` is whose arithmetic the ops have: XNNPACK's, with the optimized kernels for what it
    does not take (as LiteRT runs by default), the reference kernels, or the optimized ones.

    For example

        %y = tflite.node "CONV_2D" (%x, %w, %b) options {padding = "SAME", ...
            fused_activation_function = "RELU6"} : (tensor<1x4x4x1x!x>, ...) -> tensor<1x4x4x2x!y>

    becomes

        %0 = nn.reshape %x : ...
        %1 = nn.conv2d %0, %w, %b pads [0, 0, 1, 1] {nn.kernel = "litert-xnn"} : ...
        %2 = nn.clip %1 min 0.0 max 6.0 : ...
        %y = nn.transpose %2 perm [0, 2, 3, 1] : ...
    """

    name = PASS
    kernels: Engine = "litert-xnn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raise the functions in place; ops that cannot be raised stay, with a remark."""
        functions = [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]
        found = [f for f in functions if _has_nodes(f)]
        if found and not any(inner.name.startswith("nn.") for f in functions for inner in _ops(f)):
            op.attributes[ARITHMETIC_KEY] = IN_FLOATS
        for function in found:
            if len(function.body.blocks) == 1:
                _Function(session(ctx), function, self.kernels).convert()
        if MODEL not in op.attributes and any(isinstance(inner, NodeOp) for inner in op.walk()):
            opset = DictionaryAttr({"ai.onnx": IntegerAttr(_OPSET, i64)})
            op.attributes[MODEL] = DictionaryAttr({"opset": opset})


def _ops(function: FuncOp) -> list[Operation]:
    return [op for op in function.body.walk() if not isinstance(op, ConstantOp)]


def _has_nodes(function: FuncOp) -> bool:
    return any(isinstance(op, TfliteNodeOp) for op in function.body.walk())


class _Function(Conversion[Raiser]):
    """One function, raised beside the one that stands there."""

    # What reading options that do not fit an op ends in, besides our own errors.
    misfits = (
        *(Unraisable, VerifyException, QError),
        *(ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError),
    )

    def __init__(self, at: QContext, function: FuncOp, engine: str) -> None:
        super().__init__(PASS, function, Raiser(at, engine))

    @override
    def label(self, op: Operation) -> str:
        return f"tflite.{op.op.data}" if isinstance(op, TfliteNodeOp) else op.name

    def convert(self) -> None:
        """Build the new block and put it in place of the old one."""
        old = self.function.body.blocks[0]
        block = self.begin(list(old.arg_types))
        results: list[SSAValue] = []
        for op in old.ops:
            self.raiser.source = op
            if isinstance(op, ReturnOp):
                results = [self.as_it_was(value) for value in op.operands]
            elif isinstance(op, ConstantOp):
                self._constant(op)
            elif isinstance(op, TfliteNodeOp) and op.op.data == VARIABLE:
                self._variable(op)
            elif isinstance(op, TfliteNodeOp):
                self._convert(op)
            else:
                self.keep(op)
        self.end(block, results)

    def _constant(self, op: ConstantOp) -> None:
        array = constant_array(op, self.session.blobs)
        kind = cast("TensorType[Any]", op.result.type).element_type
        self.known[op.result] = Constant(identity_order(array.ndim), None, array, kind, op)

    def _variable(self, op: TfliteNodeOp) -> None:
        """A tensor that ops write: 0 at first, and itself for ops that stay."""
        kind, shape = element_type(op.results[0].type), shape_of(op.results[0])
        dtype = "int8" if isinstance(kind, UniformType) else "float32"
        self.known[op.results[0]] = Constant(
            identity_order(len(shape)), None, np.zeros(shape, dtype), kind, op
        )

    def _convert(self, op: TfliteNodeOp) -> None:
        count = len(self.raiser.operations)
        if self.attempt(op, lambda: self._raised(op)):
            self._name(op, [self.known[result] for result in op.results], count)

    def _raised(self, op: TfliteNodeOp) -> list[Raised]:
        node = Node(op, [None if v is None else self.known[v] for v in op.arguments])
        self.raiser.node = node
        folded = folding.folded(node)
        if folded is not None:
            return [folded]
        is_custom = node.op.custom is not None
        handler = (contraction.CUSTOM if is_custom else handlers()).get(node.name)
        if handler is None:
            raise Unraisable("no-counterpart", "nothing of ours computes the same")
        self._check_kernel(node)
        found = handler(self.raiser, node)
        return [found] if isinstance(found, Raised) else list(found)

    def _check_kernel(self, node: Node) -> None:
        """Unraisable where the engine refuses the op, or computes what nothing here does."""
        engine = self.raiser.engine.removeprefix("litert-")
        for breach in breaches(node.op):
            if engine in breach.refuse:
                raise Unraisable(breach.code, f"LiteRT refuses it: {breach.text}")
            if breach.code == CHANNELS and all(
                x is None or x.array is not None for x in node.inputs
            ):
                continue
            if engine in breach.wrong:
                raise Unraisable(breach.code, f"LiteRT computes something else: {breach.text}")

    @override
    def check_type(self, op: Operation, raised: Raised, index: int) -> None:
        node = self.raiser.node
        assert node is not None
        stated, params = node.params(index), params_of(raised)
        if isinstance(raised, Constant) and raised.is_dequantized:
            return
        if stated is None or params is None:
            fits = stated is params and raised.kind == node.kind(index)
        else:
            same_axis = stated.axis is None or raised.order[stated.axis] == params.axis
            fits = same_axis and (stated.scales, stated.zero_points, stated.storage) == (
                params.scales,
                params.zero_points,
                params.storage,
            )
        if not fits:
            raise Unraisable("type", f"it would be of {raised.kind}, not {node.kind(index)}")

    def _name(self, op: TfliteNodeOp, results: Sequence[Raised], count: int) -> None:
        """The keys of the op go to the op that makes its (first) result."""
        new = set(self.raiser.operations[count:])
        keys = op.attributes.get(KEY)
        for raised in results[:1]:
            _state_order(new, raised)
        for made in new:
            if kernels_of(made) == "litert-opt" and made.name.startswith("nn.conv"):
                made.attributes[KERNEL_OP] = op.op
        owners = {raised.value.owner for raised in results if raised.value is not None}
        for made in new:
            if keys is not None and made in owners and not isinstance(made, ConstantOp):
                made.attributes[KEY] = keys

    @override
    def as_it_was(self, value: SSAValue) -> SSAValue:
        x = self.known[value]
        if isinstance(x, Constant) and isinstance(x.source, TfliteNodeOp):
            copy = self.raiser.append(x.source.clone())
            self.known[value] = x = Raised(x.order, copy.results[0])
        return self.raiser.value(x, identity_order(x.rank))


def _state_order(new: Iterable[Operation], raised: Raised) -> None:
    """Say how the file lays out the results of ops that the optimized kernels define: what is
    left of whole vectors they round in another way."""
    if raised.order == identity_order(raised.rank):
        return
    for op in new:
        if kernels_of(op) != "litert-opt":
            continue
        if {_rank(op.operands[0]), _rank(op.results[0])} == {raised.rank}:
            op.attributes[KERNEL_ORDER] = DenseArrayBase.from_list(i64, list(raised.order))


def _rank(value: SSAValue) -> int:
    return len(shape_of(value)) if isinstance(value.type, TensorType) else 0
