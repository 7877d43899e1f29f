"""What the handlers of TFLite ops are given: a builder that knows whose kernels run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.context import QContext
from qdialect.ir.ops import ReshapeOp, make_constant, shape_of
from qdialect.ir.ops.base import KERNEL, NNOp, ranked, to_attribute
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import DCastOp, UniformType, element_type, quant_element
from qdialect.plugins.common.lowering.laid_out import Order, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Builder, Raised, inverted
from qdialect.plugins.tflite import target_delegate as litert_delegate
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.values import Constant, Flattened
from qdialect.rewrite.remarks import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASS = "raise-tflite"
_SMALL = 1 << 12
"""Constants of at most so many elements are compared with each other."""


class Raiser(Builder):
    """A builder that marks ops with the kernels that compute them."""

    def __init__(self, session: QContext, engine: str) -> None:
        super().__init__(session)
        self.engine = engine
        self.node: Node | None = None
        """The op that is raised."""
        self._arrays: list[object] = []
        """Arrays that are known by their identity."""

    def append(self, op: Operation) -> Operation:
        """Put `op` last, with the location of the op that is raised."""
        if self.source is not None:
            op.location = self.source.location
        self.operations.append(op)
        return op

    # -- values -----------------------------------------------------------------------

    def value(self, x: Raised, order: Order | None = None) -> SSAValue:
        """`x` as it is typed, with dimensions in `order` (as it lies by default)."""
        order = x.order if order is None else order
        if isinstance(x, Flattened):
            x = self._unflattened(x)
        if x.array is None:
            turned = self.in_order(x, order)
            assert turned.value is not None
            return turned.value
        element = x.element
        assert element is not None
        if isinstance(element, UniformType):
            element = UniformType(_along(element.qparams, order))
        source = x.source if isinstance(x, Constant) else None
        contents = (id(x.array), order)
        self._arrays.append(x.array)
        made = self._constant(inverted(x.array, order), element, source, contents)
        if isinstance(x, Constant) and x.is_dequantized:
            key = ("dequantized", made)
            if key not in self._cached:
                kind = ranked(f32, shape_of(made))
                self._cached[key] = self.append(DCastOp(made, kind)).results[0]
            return self._cached[key]
        return made

    def _unflattened(self, x: Flattened) -> Raised:
        """The columns in the order of the file, for an op that is no product."""
        from qdialect.ir.ops import GatherOp

        assert x.value is not None and x.columns is not None
        columns = self.vector([int(n) for n in x.columns])
        return Raised(x.order, self.op(GatherOp, x.value, columns, axis=1))

    def _constant(
        self, array: NDArray[Any], element: Attribute, source: Operation | None, place: object
    ) -> SSAValue:
        small = array.size <= _SMALL
        name = None if source is None else source.attributes.get(KEY)
        contents = array.tobytes() if small else place
        key = ("constant", array.shape, array.dtype.str, element, contents, name)
        if key not in self._cached:
            self._cached[key] = self._made(array, element, source)
        return self._cached[key]

    def _made(self, array: NDArray[Any], element: Attribute, source: Operation | None) -> SSAValue:
        made = make_constant(array, element, self.session.blobs)
        value = self.append(made).results[0]
        if source is not None:
            made.location = source.location
            if KEY in source.attributes:
                made.attributes[KEY] = source.attributes[KEY]
        return value

    def scalar(self, number: float, rank: int = 0) -> SSAValue:
        """A number of f32 with `rank` dimensions of extent 1."""
        import numpy as np

        return self.constant(np.full((1,) * rank, number, np.float32), f32)

    def vector(self, numbers: Sequence[int]) -> SSAValue:
        """Integers as a constant of rank 1 and i64."""
        import numpy as np
        from xdsl.dialects.builtin import i64

        return self.constant(np.array(numbers, np.int64).reshape(-1), i64)

    def retyped(self, x: Raised, params: QParams) -> Raised:
        """The codes of `x` read with the parameters of a tensor of the file."""
        order = x.order
        return Raised(order, self.typed(x, _along(params, order)))

    def with_rank(self, x: Raised, rank: int) -> Raised:
        """`x` with dimensions of extent 1 in front."""
        missing = rank - x.rank
        if missing <= 0:
            return x
        if x.array is not None:
            element = x.element
            if isinstance(element, UniformType) and element.qparams.axis is not None:
                element = UniformType(element.qparams.with_axis(element.qparams.axis + missing))
            array = x.array.reshape((1,) * missing + x.array.shape)
            return replace(x, order=identity_order(rank), array=array, element=element)
        value = self.value(x)
        from qdialect.ir.ops import UnsqueezeOp

        made = self.op(UnsqueezeOp, value, axes=range(missing), element=element_type(value.type))
        return Raised((*range(missing), *(d + missing for d in x.order)), made)

    def reshaped(self, x: Raised, shape: Sequence[int]) -> Raised:
        """`x` with another shape (of the file; one extent may be -1), in the order of the file
        unless dimensions merge and split where they lie."""
        value = self.value(x, identity_order(x.rank))
        if shape_of(value) == tuple(shape):
            return Raised(identity_order(len(shape)), value)
        made = self.append(ReshapeOp(value, list(shape))).results[0]
        return Raised(identity_order(len(shape)), made)

    # -- ops --------------------------------------------------------------------------

    def op(self, kind: type[NNOp], *operands: SSAValue, **properties: Any) -> SSAValue:
        """The one result of a new `nn` op; `element` is the element type of it."""
        if properties.get("element", 0) is None:
            del properties["element"]
        return self.append(kind(*operands, **properties)).results[0]

    def computed(self, kind: type[NNOp], *operands: SSAValue, **properties: Any) -> SSAValue:
        """The same of an op that an engine's kernel defines where it is on codes."""
        return self.marked(self.op(kind, *operands, **properties))

    def marked(self, value: SSAValue, kernel: str = "") -> SSAValue:
        """`value`, whose op names its kernel (or the one given) if it is on codes."""
        op = value.owner
        assert isinstance(op, Operation)
        if any(quant_element(v.type) is not None for v in (*op.operands, *op.results)):
            op.attributes[KERNEL] = StringAttr(kernel or self.kernel)
        return value

    @property
    def kernel(self) -> str:
        """Whose kernel runs the op that is raised: XNNPACK takes some, the others are run by
        the optimized kernels."""
        if self.engine != "litert-xnn":
            return self.engine
        assert self.node is not None
        return "litert-xnn" if litert_delegate.takes(self.node.op) else "litert-opt"

    def onnx(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | None],
        *types: tuple[Attribute, Sequence[int]],
        **attributes: Any,
    ) -> list[SSAValue]:
        """The results of an `onnx.node`, for a function that ONNX has and `nn` has not. None of
        the inputs may be quantized."""
        from qdialect.plugins.onnx.dialect import NodeOp

        given = {name: to_attribute(value) for name, value in attributes.items()}
        kinds = [ranked(element, shape) for element, shape in types]
        return list(self.append(NodeOp(op_type, inputs, kinds, given)).results)

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Plain numbers as numbers of another type, as ONNX (and TFLite) convert."""
        from qdialect.plugins.onnx.dialect import DATA_TYPES

        if element_type(value.type) == element:
            return value
        if element not in DATA_TYPES:
            raise Unraisable("type", f"ONNX has no numbers of {element}")
        to = DATA_TYPES[element]
        return self.onnx("Cast", [value], (element, shape_of(value)), to=to)[0]

    def remark(self, code: str, reason: str, kind: Kind = "note") -> None:
        """A remark on the op that is raised."""
        assert self.node is not None
        name = f"tflite.{self.node.name}"
        self.session.remarks.at(self.node.op, kind, PASS, code, reason, op=name)


def _along(params: QParams, order: Order) -> QParams:
    """`params` along dimensions of the file, along those of a value in `order`."""
    if params.is_per_tensor or order == identity_order(len(order)):
        return params
    if params.axis is not None:
        return params.with_axis(order[params.axis])
    raise Unraisable("blocks", "its scales are those of blocks, and it lies in another order")


Handler = Callable[[Raiser, Node], "Raised | Sequence[Raised]"]
"""Raises an op: its one result, or all of them."""


def element_in(r: Raiser, node: Node, order: Order, index: int = 0) -> Attribute:
    """The element type of a result, laid out in `order`."""
    params = node.params(index)
    return node.kind(index) if params is None else UniformType(_along(params, order))


def common_order(operands: Sequence[Raised]) -> Order:
    """The order of the largest operand that is no constant."""
    import numpy as np

    found = [x for x in operands if x.array is None]
    rank = max(x.rank for x in operands)
    found = [x for x in found if x.rank == rank] or found
    if not found:
        return identity_order(rank)
    order = max(found, key=lambda x: int(np.prod([abs(n) for n in x.shape]))).order
    missing = rank - len(order)
    return (*range(missing), *(d + missing for d in order))


def along(order: Order, items: Sequence[int]) -> list[int]:
    """What is said dimension by dimension of the file, in the dimensions of the value."""
    found = [0] * len(order)
    for place, item in zip(order, items, strict=True):
        found[place] = item
    return found


def settled(r: Raiser, node: Node, x: Raised, index: int = 0) -> Raised:
    """What a kernel that copies codes gives: the codes, read with the qparams of the result. That
    it copies them is what `litert_requirements` states."""
    params = node.params(index)
    present = params_of(x)
    if params is None or present is None:
        return x
    if x.array is not None:
        if params != present:
            r.remark("qparams-ignored", "it copies codes, and its result has other qparams")
            return replace(x, element=UniformType(params))
        return x
    if present == _along(params, x.order):
        return x
    r.remark("qparams-ignored", "it copies codes, and its result has other qparams")
    return r.retyped(x, params)
