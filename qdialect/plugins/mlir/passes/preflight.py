"""List what an upstream tool would change, reject or crash on, before it does.

The pass changes nothing. Each of `FINDINGS` that applies to an op is a note in the remark log, with
the location of the op, a code, the tools and what they do. For

    %0 = quant.qcast %x : !f to !q
    %1 = quant.dcast %0 : !q to !f

the note of the second op says that mlir-opt and IREE fold the pair to %x, which loses a rounding
and a clip. Measured with mlir-opt 22.1.8 and IREE 3.13 (LLVM 24).

`tool` is one of them, or `all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, ShapedType, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike

from qdialect.algebra.qparams.parameters import Layout, QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import survives_float
from qdialect.analysis.ranges import inside_bounds
from qdialect.ir.context import QContext, session
from qdialect.ir.quant import (
    AnyType,
    CalibratedType,
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    cast_rounding,
    element_type,
    quant_element,
)

MLIR_22 = "mlir-opt-22"
IREE = "iree-3.13"
TOOLS = (MLIR_22, IREE)

Effect = Literal["changes the result", "rejects", "crashes"]
Check = Callable[[Operation, QContext], Iterable[str]]


@dataclass(frozen=True)
class Finding:
    """What `tools` do where `check` finds something: one text per place in the op (empty where the
    op says it all)."""

    code: str
    tools: tuple[str, ...]
    effect: Effect
    message: str
    check: Check


# -- checks of types --------------------------------------------------------------


def _types(op: Operation) -> Iterator[Attribute]:
    """The types `op` introduces: of results, block arguments and a bodiless signature."""
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.args)
    kind = op.properties.get("function_type")
    if isinstance(kind, FunctionType) and all(not region.blocks for region in op.regions):
        yield from (*kind.inputs.data, *kind.outputs.data)


def _where_type(holds: Callable[[Attribute], bool]) -> Check:
    """Each type that `op` introduces for which `holds`, once."""
    return lambda op, ctx: dict.fromkeys(str(kind) for kind in _types(op) if holds(kind))


def _where_params(holds: Callable[[QParams], bool]) -> Check:
    def check(type: Attribute) -> bool:
        element = quant_element(type)
        return element is not None and holds(element.qparams)

    return _where_type(check)


def _where_storage(holds: Callable[[Storage], bool]) -> Check:
    def check(type: Attribute) -> bool:
        element = element_type(type)
        return isinstance(element, UniformType | AnyType) and holds(element.data.storage)

    return _where_type(check)


def _where_expressed(*names: str) -> Check:
    def check(type: Attribute) -> bool:
        element = element_type(type)
        known = isinstance(element, UniformType | AnyType | CalibratedType)
        return known and element.data.expressed in names

    return _where_type(check)


# -- casts -----------------------------------------------------------------------


def _dequantize_of_quantize(op: Operation, ctx: QContext) -> Iterator[str]:
    upper = op.input.owner if isinstance(op, DCastOp) else None
    if isinstance(upper, QCastOp) and upper.input.type == op.results[0].type:
        yield ""


def _quantize_of_dequantize(op: Operation, ctx: QContext) -> Iterator[str]:
    if not isinstance(op, QCastOp) or not isinstance(op.input.owner, DCastOp):
        return
    codes = op.input.owner.input
    element = quant_element(codes.type)
    if codes.type != op.result.type or element is None:
        return
    params = element.qparams
    if params.storage.is_float or params.storage.quantile is not None:
        return
    if not survives_float(params, cast_rounding(op)):
        yield f"{params.expressed} does not carry every code of {params.storage}"
    elif not inside_bounds(codes, ctx):
        yield f"codes outside {params.storage} would be clamped"


def _rounding(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, QCastOp) and cast_rounding(op) is not Rounding.HALF_EVEN:
        yield cast_rounding(op).value


def _quantize(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, QCastOp) and quant_element(op.result.type) is not None:
        yield ""


def _cast_without_parameters(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, QCastOp | DCastOp):
        for value in (op.input, op.result):
            if isinstance(element_type(value.type), AnyType | CalibratedType):
                yield str(element_type(value.type))


def _storage_cast(holds: Callable[[Storage], bool]) -> Check:
    def check(op: Operation, ctx: QContext) -> Iterator[str]:
        if isinstance(op, SCastOp):
            for value in (op.input, op.result):
                element = element_type(value.type)
                if isinstance(element, UniformType | AnyType) and holds(element.data.storage):
                    yield str(element.data.storage)

    return check


# -- types -----------------------------------------------------------------------


def _signed_keyword(storage: Storage) -> bool:
    return storage.keyword in ("si", "ui") and storage.quantile is None


def _negative_in_blocks(params: QParams) -> bool:
    """Zero points that the signed N bits of a sub-channel type hold as negative numbers."""
    half = 1 << (params.storage.width - 1)
    return params.layout is Layout.BLOCK and any(
        zero < 0 or zero >= half for zero in params.zero_point_list()
    )


def _unsigned_in_blocks(params: QParams) -> bool:
    return not params.storage.signed and _negative_in_blocks(params)


def _wide_blocks_on_one_axis(params: QParams) -> bool:
    """What upstream's `normalize-quant-types` takes for per axis, and is not."""
    blocked = [axis for axis, cells in enumerate(params.grid) if cells != 1]
    return (
        params.layout is Layout.BLOCK
        and len(blocked) == 1
        and dict(params.blocks).get(blocked[0]) != 1
    )


def _scalar_field(type: Attribute) -> bool:
    return isinstance(type, UniformType) and type.qparams.layout is not Layout.TENSOR


def _container(type: Attribute) -> bool:
    """A quantized element in a shaped type that is no tensor: a vector or a memref."""
    if not isinstance(type, ShapedType) or element_type(type) is not type:
        return False
    inner = getattr(cast(object, type), "element_type", None)
    return isinstance(inner, UniformType | AnyType | CalibratedType)


def _narrow_constant(op: Operation, ctx: QContext) -> Iterator[str]:
    if op.has_trait(ConstantLike, value_if_unregistered=False) or op.name in (
        "nn.constant",
        "tosa.const",
    ):
        for result in op.results:
            element = quant_element(result.type)
            if element is not None and element.qparams.storage.width < 8:
                yield str(element.qparams.storage)


# -- functions and ops -----------------------------------------------------------


def _quantized_block_argument(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, FuncOp):
        for block in list(op.body.blocks)[1:]:
            for argument in block.args:
                if isinstance(element_type(argument.type), UniformType | AnyType):
                    yield str(argument.type)


def _calibrated_signature(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, FuncOp):
        for kind in (*op.function_type.inputs.data, *op.function_type.outputs.data):
            if isinstance(element_type(kind), CalibratedType):
                yield str(kind)


def _rescale(op: Operation, ctx: QContext) -> Iterator[str]:
    if isinstance(op, RescaleOp):
        yield ""


def _foreign_dialect(op: Operation, ctx: QContext) -> Iterator[str]:
    name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    if name.partition(".")[0] in ("nn", "onnx"):
        yield name


FINDINGS: tuple[Finding, ...] = (
    Finding(
        "dcast-of-qcast",
        TOOLS,
        "changes the result",
        "folds the pair to its input, which loses a rounding and a clip",
        _dequantize_of_quantize,
    ),
    Finding(
        "qcast-of-dcast",
        TOOLS,
        "changes the result",
        "folds the pair to its input, which is not exact here",
        _quantize_of_dequantize,
    ),
    Finding(
        "rounding",
        TOOLS,
        "changes the result",
        "does not know the attribute quant.rounding",
        _rounding,
    ),
    Finding(
        "lowered-qcast",
        (MLIR_22,),
        "changes the result",
        "lower-quant-ops truncates and wraps; use the pass of this name here",
        _quantize,
    ),
    Finding(
        "cast-without-parameters",
        (MLIR_22,),
        "crashes",
        "lower-quant-ops asserts that there is a scale",
        _cast_without_parameters,
    ),
    Finding(
        "rescale", TOOLS, "rejects", "the quant dialect has no such op: expand-rescale", _rescale
    ),
    Finding("foreign-dialect", TOOLS, "rejects", "the dialect is not registered", _foreign_dialect),
    Finding(
        "block-zero-point",
        (MLIR_22,),
        "crashes",
        "the zero point of a block does not fit the assertion on reading it",
        _where_params(_negative_in_blocks),
    ),
    Finding(
        "block-zero-point-sign",
        (IREE,),
        "changes the result",
        "prints the unsigned zero point of a block as a negative one",
        _where_params(_unsigned_in_blocks),
    ),
    Finding(
        "wide-blocks",
        (MLIR_22,),
        "changes the result",
        "normalize-quant-types makes blocks of several indices per axis",
        _where_params(_wide_blocks_on_one_axis),
    ),
    Finding(
        "signed-keyword",
        (MLIR_22,),
        "changes the result",
        "prints si and ui storage as i and u, another type",
        _where_storage(_signed_keyword),
    ),
    Finding(
        "scast-of-signed-keyword",
        TOOLS,
        "rejects",
        "si and ui storage never matches the signless integer",
        _storage_cast(_signed_keyword),
    ),
    Finding(
        "quantile",
        (MLIR_22,),
        "rejects",
        "unknown quantized type quantile",
        _where_storage(lambda storage: storage.quantile is not None),
    ),
    Finding(
        "scast-of-quantile",
        (IREE,),
        "rejects",
        "no storage type matches a quantile",
        _storage_cast(lambda storage: storage.quantile is not None),
    ),
    Finding(
        "quantile-in-blocks",
        (IREE,),
        "crashes",
        "a block grid on quantile storage is not expected",
        _where_params(
            lambda params: params.layout is Layout.BLOCK and params.storage.quantile is not None
        ),
    ),
    Finding(
        "float-storage",
        (MLIR_22,),
        "rejects",
        "knows integer storage only",
        _where_storage(lambda storage: storage.is_float),
    ),
    Finding(
        "wide-expressed",
        (MLIR_22,),
        "crashes",
        "asserts on f80 and f128 as expressed types",
        _where_expressed("f80", "f128"),
    ),
    Finding(
        "scalar-field",
        TOOLS,
        "rejects",
        "a scalar has one scale: casts of this type do not verify",
        _where_type(_scalar_field),
    ),
    Finding(
        "container",
        TOOLS,
        "rejects",
        "quantized elements are for tensors only",
        _where_type(_container),
    ),
    Finding(
        "narrow-constant",
        TOOLS,
        "changes the result",
        "constants of less than a byte are miscompiled or do not compile",
        _narrow_constant,
    ),
    Finding(
        "block-argument",
        (MLIR_22,),
        "rejects",
        "strip-func-quant-types fails on quantized block arguments",
        _quantized_block_argument,
    ),
    Finding(
        "calibrated-signature",
        (MLIR_22,),
        "crashes",
        "strip-func-quant-types has no storage type to put",
        _calibrated_signature,
    ),
)


@dataclass(frozen=True)
class Preflight(ModulePass):
    """List what upstream tools get wrong in a module; see the module."""

    name = "preflight"

    tool: Literal["mlir-opt-22", "iree-3.13", "all"] = "all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        qctx.analyses.clear()
        tools = TOOLS if self.tool == "all" else (self.tool,)
        findings = [f for f in FINDINGS if any(tool in f.tools for tool in tools)]
        for inner in op.walk():
            for finding in findings:
                for detail in finding.check(inner, qctx):
                    named = ", ".join(tool for tool in tools if tool in finding.tools)
                    where = f" ({detail})" if detail else ""
                    reason = f"{named} {finding.effect}: {finding.message}{where}"
                    code = finding.code
                    qctx.remarks.at(inner, "note", self.name, code, reason, rule=code)
