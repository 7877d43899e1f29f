"""What writers of ops use to write an op as ONNX nodes: names, operands, constants.

Every SSA value has the name of an ONNX tensor: floats and integers as they are, a quantized
value as its stored integers.  The dequantized form of a quantized value is written once, where
it is first needed, and shared.  Constants become initializers when they are first read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import (
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.parameters import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.errors import InputError, UnsupportedError
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import OUTPUTS, derived_outputs
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, keys_of, shape_of
from qdialect.ir.ops.key_metadata import KeyTable
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import DCastOp, QCastOp, cast_rounding, element_type, quant_element
from qdialect.ir.quant.elements import integer_width
from qdialect.plugins.onnx.dialect import DATA_TYPES
from qdialect.plugins.onnx.write.graph import GraphWriter, bytes_of
from qdialect.plugins.onnx.write.kernels import (
    Numerics,
    Version,
)
from qdialect.plugins.onnx.write.quantization import (
    OPSET_OF_4_BITS,
    STORAGES,
    along_one,
    packed,
    storage_code,
    write_dequantize,
    write_quantize,
    write_reciprocal,
    write_wide_quantize,
)
from qdialect.plugins.torch.dialect import TorchNodeOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

Form = Literal["qdq", "qoperator"]


@dataclass
class Exporter:
    """The state of one export; writers of ops use its methods."""

    ctx: QContext
    form: Form
    opset: int
    numerics: Numerics
    runtime: Version
    graph: GraphWriter
    #: writes one op as the table of writers says (`table.write`)
    write: Callable[[Exporter, Operation], None]
    #: the names of graph outputs, by the values that are written under them
    reserved: Mapping[SSAValue, str]
    tensors: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    #: ops left out because a reader has another form of them; written if one has not
    deferred: set[Operation] = field(default_factory=set[Operation])
    #: codes, scale and zero point of tensors that nodes quantize at run time
    quantized_at_run_time: dict[str, tuple[str, str, str]] = field(
        default_factory=dict[str, "tuple[str, str, str]"]
    )
    #: what ops are called beyond the names of their nodes
    keys: KeyTable = field(default_factory=KeyTable)
    #: the tensors of real numbers, by the tensor of stored integers and its qparams
    dequantized: dict[tuple[str, QParams], str] = field(
        default_factory=dict[tuple[str, QParams], str]
    )
    _codes: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    _fresh: Counter[str] = field(default_factory=Counter[str])

    # -- names ------------------------------------------------------------------------

    def key(self, op: Operation) -> str:
        """The name of the op's node: its first key, or its kind and a number."""
        keys = keys_of(op)
        if keys:
            self.keys.note_op(op)
            return keys[0]
        kind = op.name.rpartition(".")[2]
        self._fresh[kind] += 1
        return f"{kind}_{self._fresh[kind]}"

    def output_names(self, op: Operation, key: str) -> list[str]:
        """The tensor names of the op's results, as the model it came from had them."""
        names = string_list(op.attributes.get(OUTPUTS))
        derived = derived_outputs(key, len(op.results))
        return names if len(names) == len(derived) else derived

    def claim(self, value: SSAValue, hint: str) -> str:
        """The tensor name for `value`, which is written under it now."""
        name = self.reserved.get(value) or self.graph.tensor(hint)
        self.tensors[value] = name
        return name

    def alias(self, value: SSAValue, source: SSAValue, code: int | None = None) -> None:
        """`value` is the tensor of `source`, under another type.

        A constant is written again where `code` is not the ONNX type it has: signless
        integers are signed and unsigned ones.
        """
        constant = constant_of(source)
        if constant is not None and code not in (None, self.code(source)):
            self._codes[value] = code
            self.tensors[value] = self.constant(constant, code=code)
            return
        self.tensors[value] = self.tensor(source)
        self._codes[value] = self.code(source)

    # -- operands -----------------------------------------------------------------------

    def tensor(self, value: SSAValue) -> str:
        """The tensor that holds `value`: stored integers if it is quantized."""
        if value not in self.tensors:
            owner = value.owner
            if isinstance(owner, ConstantOp):
                self.tensors[value] = self.constant(owner, name=self.reserved.get(value))
            elif isinstance(owner, Operation) and owner in self.deferred:
                self.deferred.remove(owner)
                self.write(self, owner)
            else:
                raise InputError("a value is used before it is computed", code="bad-ssa")
        return self.tensors[value]

    def code(self, value: SSAValue) -> int:
        """The `TensorProto.DataType` of the tensor that holds `value`; UnsupportedError where ONNX
        has no tensor of its elements."""
        if value in self._codes:
            return self._codes[value]
        quantized = quant_element(value.type)
        if quantized is not None:
            return storage_code(quantized.qparams)
        element = element_type(value.type)
        if element not in DATA_TYPES:
            owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
            assert owner is not None
            raise self.unsupported(
                owner, f"has a value of type {value.type}, whose elements ONNX has no tensor of"
            )
        return DATA_TYPES[element]

    def constant(
        self,
        op: ConstantOp,
        *,
        transposed: bool = False,
        code: int | None = None,
        name: str | None = None,
    ) -> str:
        """A constant as an initializer of its ONNX type, or of another with the same bits,
        under `name` or its key; the tensor name."""
        array: NDArray[Any] = constant_array(op, self.ctx.blobs)
        if array.dtype.kind == "b":
            # xDSL reads `true` as a byte of ones.
            array = array.view("u1") != 0
        array = array.T if transposed else array
        code = self.code(op.result) if code is None else code
        quantized = quant_element(op.result.type)
        width = integer_width(element_type(op.result.type)) or 8
        width = quantized.qparams.storage.width if quantized is not None else width
        raw = packed(array, width) if 1 < width < 8 else bytes_of(array)
        if name is not None:
            self.graph.release(name)
        return self.graph.initializer(name or self.key(op), code, array.shape, raw)

    def castable(self, op: ConstantOp, *, transposed: bool = False) -> str:
        """The codes of a quantized constant in a type that Cast takes: those of 4 bits in 8 where
        the opset is older than integers of 4 bits."""
        quantized = quant_element(op.result.type)
        assert quantized is not None
        storage = quantized.qparams.storage
        if storage.width != 4 or self.opset >= OPSET_OF_4_BITS:
            return self.constant(op, transposed=transposed)
        array = constant_array(op, self.ctx.blobs)
        array = array.T if transposed else array
        code = STORAGES["i8" if storage.signed else "u8"]
        return self.graph.initializer(f"{self.key(op)}_bytes", code, array.shape, bytes_of(array))

    def floats(self, value: SSAValue) -> str:
        """The tensor of a value's real numbers: dequantized if it is quantized."""
        quantized = quant_element(value.type)
        if quantized is None:
            return self.tensor(value)
        place = (self.tensor(value), quantized.qparams)
        if place not in self.dequantized:
            readers = (use.operation for use in value.uses)
            op = next((reader for reader in readers if isinstance(reader, DCastOp)), None)
            if op is not None and op.result not in self.tensors:
                self.write(self, op)
            else:
                name = self.graph.tensor(f"{place[0]}_dequantized")
                node = f"{place[0]}_DequantizeLinear"
                qparams = along_one(quantized.qparams, value)
                write_dequantize(self.graph, place[0], name, qparams, node, self.opset)
                self.dequantized[place] = name
        return self.dequantized[place]

    def quantize(
        self,
        source: str,
        value: SSAValue,
        hint: str,
        node: str,
        params: Sequence[str] = (),
        rounding: Rounding | None = None,
    ) -> None:
        """Write the quantized `value` from the tensor of its real numbers, rounded as the op
        declares that makes it, or by `rounding`; UnsupportedError where ONNX does not round so."""
        quantized, op = quant_element(value.type), value.owner
        assert quantized is not None and isinstance(op, Operation)
        rounding = rounding or _rounding_of(op)
        if rounding.in_reals is not Rounding.HALF_EVEN:
            raise self.unsupported(op, f"rounds {rounding.value}; ONNX rounds half even")
        output, qparams = self.claim(value, hint), along_one(quantized.qparams, value)
        if rounding is Rounding.RECIPROCAL:
            rank = len(shape_of(value))
            source, qparams = write_reciprocal(self.graph, source, output, qparams, node, rank)
            params = ()
        if storage_code(qparams) == STORAGES["i32"]:
            rank = len(shape_of(value))
            write_wide_quantize(self.graph, source, output, qparams, node, rank)
            return
        write_quantize(self.graph, source, output, qparams, node, self.opset, params)

    def code_or_none(self, value: SSAValue) -> int | None:
        """The element type of a tensor value; None for other values."""
        if not isinstance(value.type, TensorType) and element_type(value.type) == value.type:
            return None
        return self.code(value)

    def unsupported(self, op: Operation, reason: str) -> UnsupportedError:
        """An error at `op`."""
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        if isinstance(op, TorchNodeOp):
            name = op.target.data
        return UnsupportedError(f"'{name}' {reason}", where=op_where(op))


def _rounding_of(op: Operation) -> Rounding:
    if isinstance(op, QCastOp):
        return cast_rounding(op)
    declared = op.properties.get("rounding")
    return Rounding(declared.data) if isinstance(declared, StringAttr) else Rounding.HALF_EVEN
