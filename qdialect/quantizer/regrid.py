"""Give the values of a quantized module qparams that the target takes.

A model that was quantized for something else has scales and zero points of any kind. Where a
target states domains (`targets.kernels`), its kernels refuse them. This pass reads what each
value's codes stand for as the range of the value, and quantizes to the nearest qparams inside the
domains that cover it, as `apply-profile` does with ranges of a profile; weights that are refused
are rounded again from their numbers. A value whose new codes reach beyond the old ones is clipped
first: saturation may be what computes a ReLU.

Values change by up to a step, so the pass acts at `relaxed` only; below, it says what is refused.
A function that the target takes is left as it is.

Where the target has no floats, the model is brought to it as a float model is: prepared, with what
is not quantized whole as its pieces, and all of it is solved at once. Values between pieces have no
codes to read; their ranges are what they are for the inputs of the session (`--input`), or else for
a few random ones, with values that have codes scaled to reach what these stand for. It is done if
fewer ops are refused in the end than op by op.

For example, on a target with scales that are powers of two,

    %1 = quant.qcast %0 : !f to !quant.uniform<i8:f32, 0.3>
    %2 = quant.dcast %1 : !quant.uniform<i8:f32, 0.3> to !f

becomes

    %1 = nn.clip %0 min -38.5 max 38.0 : !f -> !f
    %2 = quant.qcast %1 : !f to !quant.uniform<i8:f32, 0.5>
    %3 = quant.dcast %2 : !quant.uniform<i8:f32, 0.5> to !f
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, TensorType, UnitAttr, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import Contract, Numerics, level_named
from qdialect.algebra.qparams import QParams
from qdialect.analysis.boundary import called_functions
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter import Interpreter, argument_names, random_inputs
from qdialect.ir.context import QContext, session
from qdialect.ir.dialects.kept import RELAXED
from qdialect.ir.ops import (
    ClipOp,
    ConstantOp,
    ReluOp,
    TableOp,
    constant_of,
    keys_of,
    make_constant,
)
from qdialect.ir.ops.base import KERNEL
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    element_type,
    expressed_type,
    with_element,
)
from qdialect.passes.casts.in_floats import between_casts, has_floats
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.quantizer.emission import emit
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.preparation import run_pipeline
from qdialect.quantizer.prepared import CLEAN, UNFIT, prepare_whole
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.instrument import instrument, leave_derived
from qdialect.quantizer.profile.ranges import Range, max_of_channels
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, concerns, select
from qdialect.quantizer.values import Values, real_array
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule
from qdialect.rewrite.error_bounds import Change
from qdialect.rewrite.refused import refused_by_target
from qdialect.rewrite.remarks import fired_remark
from qdialect.rewrite.rewriter import set_type
from qdialect.targets import generic

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CONTRACT = Contract(Numerics.RELAXED, inf, "quantized again, to qparams that the target takes")
_ENDS = "nn.ends_of_codes"
"""Attribute of a clip, while the pass runs, that stands for the ends of codes."""
_SAMPLES = 4
"""On so many inputs values are looked at that have no codes."""


@dataclass(frozen=True)
class Regrid(ModulePass):
    """Qparams that the target takes; see the module."""

    name = "regrid"

    numerics: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Quantize again each function of which the target refuses ops."""
        qctx, level = session(ctx), level_named(self.numerics)
        for node in op.walk():
            if node.attributes.pop(RELAXED, None):
                number = len(qctx.remarks.remarks)
                qctx.remarks.add(fired_remark(Regrid.name, Regrid.name, node, _CONTRACT))
                for value in node.results:
                    qctx.error_bounds.add(value, (Change(inf, number),))
        for function in list(op.body.block.ops):
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            refused = list(_refused(function, qctx))
            if level is Numerics.RELAXED:
                if refused or not qctx.target.floats:
                    _quantize_again(op, function, qctx)
                continue
            for each, reason in refused:
                why = f"{qctx.target.name}: {reason}; needs numerics=relaxed"
                qctx.remarks.at(each, "refused", Regrid.name, "numerics", why)


def _quantize_again(module: ModuleOp, function: FuncOp, ctx: QContext) -> None:
    """Put another function in place of one, if the target refuses fewer ops of it in the end."""
    made, own, name = function.clone(), ctx.clone(), function.sym_name
    called = called_functions(module)
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    others = [each.clone() for each in functions if each.sym_name.data in called]
    made.sym_name = StringAttr("main")
    alone = ModuleOp([made, *others], dict(module.attributes))
    if not (before := _left(alone, ctx)):
        return
    if name.data not in called:
        _float_interface(made, own)
    left = _Function(made, own).run()
    # What the solution takes whole needs no count.
    if left and _left(alone, ctx) >= before:
        reason = f"no more of it would be on codes that {ctx.target.name} takes"
        ctx.remarks.at(function, "refused", Regrid.name, "target", reason)
        return
    made.detach()
    made.sym_name = name
    module.body.block.insert_op_before(made, function)
    for op in function.walk():
        ctx.error_bounds.forget(op)
    function.detach()
    function.erase()
    fired = next(n for n, each in enumerate(own.remarks.remarks) if each.kind == "fired")
    number, last = len(ctx.remarks.remarks) + fired, made.body.block.last_op
    ctx.remarks.remarks += own.remarks.remarks
    assert isinstance(last, ReturnOp)
    for value in last.operands:
        ctx.error_bounds.add(value, (Change(inf, number),))


def _float_interface(function: FuncOp, ctx: QContext) -> None:
    """Make floats of arguments and results on codes that no tensor of the target is; the casts are
    in the function then. The codes of a table stay."""
    block = function.body.block
    first, last = block.first_op, block.last_op
    assert first is not None and isinstance(last, ReturnOp)
    for side, values in (("argument", block.args), ("result", last.operands)):
        for number, value in enumerate(values):
            params, codes = qparams_of(value), value.type
            reason = None if params is None else ctx.target.refuses_qparams(params)
            if params is None or reason is None or not is_integer(params):
                continue
            if isinstance(value.owner, TableOp):
                continue
            floats = with_element(codes, expressed_type(params))
            if side == "argument":
                set_type(value, floats)
                cast = QCastOp(value, codes)
                value.replace_uses_with_if(cast.result, lambda use, own=cast: use.operation != own)
                block.insert_op_before(cast, first)
            else:
                cast = DCastOp(value, floats)
                block.insert_op_before(cast, last)
                last.operands[number] = cast.result
            cast.location = function.location
            why = f"{side} #{number} is of floats now: {ctx.target.name}: {reason}"
            ctx.remarks.at(function, "note", Regrid.name, "interface", why)
    function.update_function_type()


def _left(module: ModuleOp, ctx: QContext) -> int:
    """How much of a module is not on codes that the target takes when the other passes have run:
    the ops on floats, and those that it refuses twice. Conversions do not count."""
    clone, own = module.clone(), ctx.clone()
    run_pipeline(clone, own, optimize_pipeline(ctx.target, "bounded"))
    ops = (op for op in clone.walk() if not isinstance(op, DCastOp | QCastOp | RescaleOp))
    return sum(2 if refused_by_target(own, op) else concerns(op) for op in ops)


def _refused(function: FuncOp, ctx: QContext) -> Iterator[tuple[Operation, str]]:
    """The ops with qparams on a port that no kernel takes, and why."""
    target = ctx.target
    for op in function.body.block.ops:
        behavior = ctx.behaviors.get(op)
        if behavior is None:
            continue
        sides = (False, op.operands), (True, op.results)
        for value, domains in (
            (value, target.port_domains(op.name, number, result=result))
            for result, values in sides
            for number, value in enumerate(values)
        ):
            params = _params(value)
            if params is None or params.storage.width > 16:
                continue
            reasons = [domain.refuses(params) for domain in domains]
            if reasons and None not in reasons:
                yield op, reasons[0] or ""
                break


def _params(value: SSAValue) -> QParams | None:
    """The qparams of a value, or of the codes that its numbers are of or become."""
    owner = value.owner
    if isinstance(owner, DCastOp):
        value = owner.input
    casts = [use.operation for use in value.uses if isinstance(use.operation, QCastOp)]
    return qparams_of(value) or (qparams_of(casts[0].result) if casts else None)


def _has_range(op: Operation) -> bool:
    """Whether it computes floats, or dequantizes what is no constant."""
    return concerns(op) or (isinstance(op, DCastOp) and constant_of(op.input) is None)


class _InFloats(Rule[Operation]):
    """Every op on integer codes is that on their numbers, quantized; tables are of codes."""

    name = "regrid-in-floats"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name, *self.session.behaviors.names_with(lambda behavior: True))

    def match(self, op: Operation) -> Operation | None:
        params = [q for value in (*op.operands, *op.results) if (q := qparams_of(value))]
        is_cast = isinstance(op, ConstantOp | DCastOp | QCastOp | SCastOp)
        integers = bool(params) and all(map(is_integer, params))
        return op if integers and not is_cast and has_floats(op) else None

    def check(self, match: Operation) -> Contract:
        return _CONTRACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        match.attributes.pop(KERNEL, None)
        between_casts(match, rewriter)


@dataclass
class _Function:
    """One function, first spelled in floats between casts, then without casts, then again."""

    function: FuncOp
    ctx: QContext
    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])

    @property
    def _block(self) -> Block:
        return self.function.body.block

    def run(self) -> int:
        """How many ops stay float."""
        target, own, module = self.ctx.target, self.ctx.clone(), self.function.parent_op()
        assert isinstance(module, ModuleOp)
        own.target = generic.TARGET
        rules = (_InFloats(own),)
        Driver(own, rules, pass_name=Regrid.name, numerics=Numerics.RELAXED).run(module)
        for op in list(self._block.ops):
            if isinstance(op, QCastOp):
                self._without_casts(op)
        for op in self._block.ops:
            params = qparams_of(op.input) if isinstance(op, DCastOp) else None
            if params is not None and is_integer(params) and params.storage.width <= 16:
                self.ranges.setdefault(op.results[0], _range(params))
        for op in self._block.ops:
            behavior = self.ctx.behaviors.get(op)
            if behavior is not None and not behavior.has_weights:
                self._float_constants(op)
        selection, grids = self._solved(module)
        self.ctx.remarks.add(fired_remark(Regrid.name, Regrid.name, self.function, _CONTRACT))
        for op, why in selection.left.items():
            self.ctx.remarks.at(op, "note", Regrid.name, why.code, f"left float: {why.reason}")
            if any((q := _params(v)) and target.refuses_qparams(q) for v in op.operands):
                self._float_constants(op)
        emit(selection, grids)
        for clip in list(self._block.ops):
            if not clip.attributes.pop(_ENDS, None) or not isinstance(clip, ClipOp):
                continue
            if (params := grids.qparams.get(clip.result)) is not None:
                _settle_clip(clip, params)
        return len(selection.left)

    def _solved(self, module: ModuleOp) -> tuple[Selection, Grids]:
        """The qparams of all at once, of a function in floats."""
        recipe = replace(Recipe.of_target(self.ctx.target), correct_bias=False, max_steps=inf)
        profile, known = Profile(digest=""), self.ranges
        if not self.ctx.target.floats:
            profile, known = self._profile(module, recipe), dict[SSAValue, Range]()
            prepare_whole(module, self.ctx.clone(), profile, recipe)
            for op in self._block.ops:  # a first step takes a state of zeros
                if all(real_array(v, self.ctx.blobs) is not None for v in op.operands):
                    self._float_constants(op)
            run_pipeline(module, self.ctx.clone(), CLEAN)
        while True:
            selection = select(Values(self.function, self.ctx, profile, recipe, known))
            grids = assign(selection)
            clips = [op for op, why in selection.left.items() if self._is_in_the_way(op, why)]
            if not clips:
                return selection, grids
            for clip in clips:
                self._without_clip(clip)

    def _is_in_the_way(self, op: Operation, why: Refusal) -> bool:
        """Whether a clip of ours that stays float keeps others from codes, or nothing runs it."""
        left = why.code in UNFIT or not self.ctx.target.floats
        return left and op.attributes.pop(_ENDS, None) is not None

    def _profile(self, module: ModuleOp, recipe: Recipe) -> Profile:
        """The ranges of values that had codes, by key, and what all are for the samples of the
        session, or for random inputs, with those values scaled to reach a share of their ranges,
        another for each input; no more than the former where the function does not run. What a
        kept node gives is drawn, too."""
        taken: set[str] = set()
        for number, op in enumerate(filter(_has_range, self._block.ops)):
            keys = keys_of(op)
            if not keys or not taken.isdisjoint(keys):
                keys = (f"{(*keys, op.name)[0]}~{number}",)
                op.attributes[KEY] = StringAttr(keys[0])
            taken.update(keys)
        profile, names = Profile(digest=""), argument_names(self.function)
        # What moves a value has its range, and the other way round.
        values = Values(self.function, self.ctx, profile, recipe, self.ranges)
        self.ranges = {v: found for v in values.all_values() if (found := values.range(v))}
        ranges = {key: found for v, found in self.ranges.items() for key in values.keys(v)}
        plan = instrument(module, self.ctx)
        leave_derived(plan, self.ctx, False)
        keys_by_value = {each.value: each.keys for each in plan.measured}
        collector, seen = Collector(profile, plan.derived()), list[tuple[Sequence[str], Any]]()

        def scaled(array: NDArray[Any], found: Range | None) -> NDArray[Any]:
            """Numbers multiplied so that they reach a share of a range, if one is known."""
            if given or found is None or array.dtype.kind != "f" or not array.size:
                return array
            ends = (found.low, array.min()), (found.high, array.max())
            factors = [end / number for end, number in ends if end * number > 0]
            share = (sample + 1) / _SAMPLES
            return array * np.asarray(share * min(factors, default=1.0), array.dtype)

        def look(op: Operation, results: list[NDArray[Any]]) -> None:
            for index, value in enumerate(op.results):
                keys = keys_by_value.get(value, ())
                found = next((ranges[key] for key in keys if key in ranges), None)
                results[index] = scaled(results[index], found)
                seen.append((keys, results[index]))

        def draw(op: Operation, *_: object) -> list[NDArray[Any]]:
            return random_inputs(FuncOp("drawn", (op.result_types, ())), sample)

        drawing = {NodeOp.name: draw}
        interpreter = Interpreter(self.ctx, plan.module, listeners=[look], functions=drawing)
        given = [each for each in self.ctx.samples if each.keys() >= set(names)]
        try:
            for sample in range(len(given) or _SAMPLES):
                drawn = random_inputs(self.function, sample)
                if given:
                    drawn = [given[sample][name] for name in names]
                for number, value in enumerate(self._block.args):
                    found = self.ranges.get(value)
                    drawn[number] = scaled(drawn[number], found)
                    seen.append((plan.arguments.get(names[number], ()), drawn[number]))
                interpreter.run(drawn, self.function.sym_name.data)
                collector.add(sample, (each for each in seen if each[0]))
                seen.clear()
            profile = collector.profile()
        except (InputError, UnsupportedError):
            pass
        return replace(profile, ranges=ranges)

    def _float_constants(self, op: Operation) -> None:
        """Constants as numbers: what they are in codes, if anything, is chosen again."""
        for index, value in enumerate(op.operands):
            array = real_array(value, self.ctx.blobs)
            kind = element_type(value.type)
            if array is not None and isinstance(value.owner, DCastOp) and str(kind) == "f32":
                made = make_constant(array.astype(np.float32), kind, self.ctx.blobs)
                self._block.insert_op_before(made, op)
                op.operands[index] = made.result

    def _without_clip(self, clip: Operation) -> None:
        """Drop a clip of ours that the target does not run; of one at 0 a ReLU is left."""
        value, least = clip.operands[0], clip.properties.get("min")
        if isinstance(least, FloatAttr) and least.value.data == 0:
            relu = ReluOp(value, result_types=[value.type])
            relu.attributes.update(clip.attributes)
            relu.location = clip.location
            self._block.insert_op_before(relu, clip)
            value = relu.result
        _put(clip, value)

    def _without_casts(self, cast: QCastOp) -> None:
        """Take a quantize and the dequantizes of it away; what they stood for is the range of
        the value between, and a clip where that computes something."""
        params = qparams_of(cast.result)
        block, value = cast.parent, cast.input
        assert block is not None
        if params is None or not is_integer(params):
            return
        if params.storage.width <= 16:
            self.ranges.setdefault(value, _range(params))
        reals = [use.operation for use in cast.result.uses if isinstance(use.operation, DCastOp)]
        if reals and params.storage.width <= 16 and isinstance(value.type, TensorType):
            found = _range(params)
            clip = ClipOp(value, min=found.low, max=found.high)
            clip.location = cast.location
            clip.attributes[_ENDS] = UnitAttr()
            block.insert_op_before(clip, cast)
            self.ranges[clip.result] = found
            value = clip.result
        for real in reals:
            _put(real, value)
        if cast.result.first_use is None:
            cast.detach()
            cast.erase()


def _put(op: Operation, value: SSAValue) -> None:
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()


def _range(params: QParams) -> Range:
    low, high = params.storage.min, params.storage.max
    pairs = zip(params.scale_list(), params.zero_point_list(), strict=True)
    return max_of_channels([Range((low - zero) * s, (high - zero) * s) for s, zero in pairs])


def _settle_clip(clip: ClipOp, params: QParams) -> None:
    """Give a clip bounds that are codes of what it is on, and drop those that codes do not
    reach beyond by half a step; with none left the clip goes."""
    (scale,), made = params.scale_list(), _range(params)
    for name, end in (("min", made.low), ("max", -made.high)):
        bound = clip.properties.get(name)
        if not isinstance(bound, FloatAttr):
            continue
        number = bound.value.data
        if (number if name == "min" else -number) - scale / 2 > end:
            clip.properties[name] = FloatAttr(round(number / scale) * scale, f64)
        else:
            clip.properties.pop(name)
    if not clip.properties:
        _put(clip, clip.input)
