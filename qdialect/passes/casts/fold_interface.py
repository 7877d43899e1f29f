"""Fold casts at the interface into the signature, on request.

    func @f(%x: float) { %q = quantize %x ... }        ->  func @f(%q: codes)
    func @f(...) { %y = dequantize %q; return %y }     ->  func @f(...) -> codes

Arguments and results are then codes: the caller does what the cast did. The float type
is recorded on the argument or result as `nn.float_type`, with
`nn.rounding` if the quantize did not round half to even. Functions that the module
itself calls are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from qdialect.analysis.boundary import called_functions
from qdialect.context import QContext, session
from qdialect.numerics.rounding import Rounding
from qdialect.passes.rule_pass import only_quantized_alike
from qdialect.quant import DCastOp, cast_rounding
from qdialect.rewrite.remarks import Remark, key_text, location_text
from qdialect.rewrite.replacements import Replacements
from qdialect.rewrite.rewriter import erase_op, is_dead, set_type

FLOAT_TYPE = "nn.float_type"
ROUNDING = "nn.rounding"


@dataclass(frozen=True)
class FoldInterface(ModulePass):
    """Quantize into a float argument, dequantize into a result; see the module.

    `arguments` and `results` say which side of the interface to change.
    """

    name = "fold-interface"

    arguments: bool = True
    results: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        called = called_functions(op)
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            if function.is_declaration:
                continue
            if function.sym_name.data in called:
                _remark(qctx, function, "refused", "called", "the module calls this function")
                continue
            if len(function.body.blocks) > 1:
                _remark(qctx, function, "refused", "control-flow", "several blocks")
                continue
            if self.arguments:
                _fold_arguments(qctx, function)
            if self.results:
                _fold_results(qctx, function)
            function.update_function_type()


def _fold_arguments(ctx: QContext, function: FuncOp) -> None:
    entry, replacements = function.body.block, Replacements(ctx)
    notes = _notes(function.arg_attrs, len(entry.args))
    for index, argument in enumerate(entry.args):
        casts = only_quantized_alike(argument)
        if casts is None:
            continue
        notes[index][FLOAT_TYPE] = argument.type
        rounding = cast_rounding(casts[0])
        if rounding is not Rounding.HALF_EVEN:
            notes[index][ROUNDING] = StringAttr(rounding.value)
        set_type(argument, casts[0].result.type)
        for cast in casts:
            replacements.replaced(cast.result, argument)
            cast.result.replace_all_uses_with(argument)
            erase_op(cast, ctx)
        _remark(ctx, function, "fired", "", f"argument #{index} takes codes")
    function.arg_attrs = _packed(notes)


def _fold_results(ctx: QContext, function: FuncOp) -> None:
    last = function.body.block.last_op
    if not isinstance(last, ReturnOp):
        return
    notes, replacements = _notes(function.res_attrs, len(last.operands)), Replacements(ctx)
    operands: list[SSAValue] = list(last.operands)
    for index, value in enumerate(operands):
        cast = value.owner
        if isinstance(cast, DCastOp):
            notes[index][FLOAT_TYPE] = value.type
            operands[index] = cast.input
            replacements.replaced(value, cast.input)
            _remark(ctx, function, "fired", "", f"result #{index} gives codes")
    before = list(last.operands)
    last.operands = operands
    for value in dict.fromkeys(before):
        cast = value.owner
        if isinstance(cast, DCastOp) and is_dead(cast):
            erase_op(cast, ctx)
    function.res_attrs = _packed(notes)


def _notes(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[dict[str, Attribute]]:
    if attributes is None:
        return [{} for _ in range(count)]
    return [dict(entry.data) for entry in attributes]


def _packed(notes: list[dict[str, Attribute]]) -> ArrayAttr[DictionaryAttr] | None:
    return ArrayAttr([DictionaryAttr(note) for note in notes]) if any(notes) else None


def _remark(ctx: QContext, function: FuncOp, kind: str, code: str, reason: str) -> None:
    ctx.remarks.add(
        Remark(
            "fired" if kind == "fired" else "refused",
            FoldInterface.name,
            FoldInterface.name,
            location_text(function.location),
            function.name,
            key_text(function),
            contract="exact" if kind == "fired" else "",
            code=code,
            reason=reason,
        )
    )
