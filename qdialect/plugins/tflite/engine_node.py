"""Running one op of a TFLite file: the kernel of `tflite.node`.

The op is written as a file of its own, with its constants, and runs in LiteRT in a child process
that is shared by all of them: with the kernels that it names (`nn.kernel`), or else those that
the module has (`tflite.kernels`), or else LiteRT's default.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from qdialect.engines.child import Child
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import KERNEL
from qdialect.ir.ops.constants import ConstantOp
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.engine import DEFAULT, InChild, installed, new_child, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.interpreter import Evaluation

    Array = NDArray[Any]

KERNELS = "tflite.kernels"
"""What a module says of the kernels of its file (`plugins.tflite.files`)."""
_ENGINES = ("litert-xnn", "litert-opt", "litert-ref")
_MOST = 256
"""So many ops stay loaded."""
_CALLS = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE")

Face = tuple[Any, ...]


class _Nodes:
    """The processes, and the ops that are loaded in them."""

    def __init__(self) -> None:
        self.children: dict[str, Child] = {}
        self.loaded: OrderedDict[Face, InChild] = OrderedDict()

    def get(self, op: TfliteNodeOp, engine: str, ctx: QContext) -> InChild:
        """The file of an op, loaded."""
        face = (engine, op.op.data, op.options, op.version, op.absent, op.custom, *_values(op))
        found = self.loaded.get(face)
        if found is not None and found.child.alive:
            self.loaded.move_to_end(face)
            return found
        child = self.children.get(engine)
        if child is None or not child.alive:
            child = self.children[engine] = new_child(engine)
        data = written(_one(op), ctx)
        model = InChild(data, engine, child=child, name=f"'{op.op.data}'")
        self.loaded[face] = model
        while len(self.loaded) > _MOST:
            self.loaded.popitem(last=False)[1].close()
        return model


_NODES = _Nodes()


def evaluate_node(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The results of an op on arrays of its operands; QError (`cannot-evaluate`) for one that
    LiteRT does not run, or `missing-package` without it."""
    import numpy as np

    node = cast("TfliteNodeOp", op)
    name = node.op.data
    if not installed():
        raise QError(
            f"'{name}' is run by LiteRT, which is not installed",
            code="missing-package",
            notes=("install it with: pip install 'qdialect[litert]'",),
        )
    if node.has_state or name in _CALLS:
        raise _refused(name, "it is no function of its operands")
    engine = _engine(node)
    varying = [n for n, value in enumerate(node.operands) if not _is_constant(value)]
    try:
        model = _NODES.get(node, engine, cast("QContext", evaluation.ctx))
        return model.run([np.asarray(operands[n]) for n in varying])
    except (InputError, UnsupportedError) as error:
        raise _refused(name, error.message, error.notes) from None


def _refused(name: str, reason: str, notes: Sequence[str] = ()) -> QError:
    return QError(
        f"'{name}' cannot be evaluated: {reason}", code="cannot-evaluate", notes=tuple(notes)
    )


def _engine(op: TfliteNodeOp) -> str:
    found: Attribute | None = op.attributes.get(KERNEL)
    parent: Operation | None = op
    while found is None and parent is not None:
        found = parent.attributes.get(KERNELS)
        parent = parent.parent_op()
    name = found.data if isinstance(found, StringAttr) else DEFAULT
    return name if name in _ENGINES else DEFAULT


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def _values(op: TfliteNodeOp) -> tuple[Any, ...]:
    """What tells the operands and results of an op from those of another."""
    owners = [value.owner for value in op.operands]
    constants = [each.value if isinstance(each, ConstantOp) else None for each in owners]
    return tuple(op.operand_types), tuple(constants), tuple(op.result_types)


def _one(op: TfliteNodeOp) -> ModuleOp:
    """A module with one op, of what varies; constants are in it."""
    kinds = [value.type for value in op.operands if not _is_constant(value)]
    function = FuncOp("main", (kinds, list(op.result_types)), Region(Block(arg_types=kinds)))
    block = function.body.block
    arguments, builder = iter(block.args), Builder(InsertPoint.at_end(block))
    values: dict[SSAValue, SSAValue] = {}
    for value in op.operands:
        if _is_constant(value) and value not in values:
            constant = cast("ConstantOp", value.owner).clone()
            values[value] = builder.insert(constant).result
    mapped = [values[v] if v in values else next(arguments) for v in op.operands]
    clone = op.clone()
    clone.operands = mapped
    clone.attributes = {}
    builder.insert(clone)
    builder.insert(ReturnOp(*clone.results))
    return ModuleOp([function])
