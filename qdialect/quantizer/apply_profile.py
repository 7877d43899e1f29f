"""Quantize a float module from a profile.

The pass first prepares the module (`preparation`), so nothing has to be run before it, and what
was makes no difference. Then every op that is worth it (`selection`) gets its operands through a
dequantize and its result into a quantize, with qparams from the profile (`grids`); integerize and
the rest of the optimizing pipeline make integer ops of that.

For example

    %0 = nn.conv2d %x, %w {nn.key = "conv"} : (!f, !w) -> !f

becomes

    %0 = quant.qcast %x : !f to !qx
    %1 = quant.dcast %0 : !qx to !f
    %2 = nn.constant ... : !qw
    %3 = quant.dcast %2 : !qw to !w
    %4 = nn.conv2d %1, %3 {nn.key = "conv"} : (!f, !w) -> !f
    %5 = quant.qcast %4 : !f to !q
    %6 = quant.dcast %5 : !q to !f
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from qdialect.errors import InputError, UsageError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.ir.context import QContext, session
from qdialect.ir.ops.component_keys import all_keys, shared_key
from qdialect.ir.ops.locations import op_where
from qdialect.quantizer.biases import correct_known
from qdialect.quantizer.block_formats import ONLY_IN_BLOCKS
from qdialect.quantizer.blocks import format_refusal
from qdialect.quantizer.coverage import Coverage, left_float
from qdialect.quantizer.emission import emit
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.profile.file import load_profile
from qdialect.quantizer.profile.instrument import INPUT_PREFIX
from qdialect.quantizer.profile.matching import Matching, match_profile
from qdialect.quantizer.profile.model_identity import ModelIdentity, identify
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import (
    ALL,
    Selection,
    concerns,
    keep_float_ops,
    select,
)
from qdialect.quantizer.tables import find_tables
from qdialect.quantizer.values import Values, float_value, op_keys
from qdialect.rewrite import Refusal
from qdialect.rewrite.remarks import Remark, key_text, location_text

if TYPE_CHECKING:
    from qdialect.quantizer.profile.ranges import Method
    from qdialect.quantizer.profile.scheme import Symmetry


Correct = Callable[[Selection, Grids], None]
"""Changes constants before they are written."""


@dataclass(frozen=True)
class ApplyProfile(ModulePass):
    """Quantizes a float module; see the module.

    The profile has to be of the module as it was before the first pass of the pipeline, or of
    what it is now. With `profile-of-another-model` what matches of any profile is used.
    """

    name = "apply-profile"

    file: str = ""
    activations: str = "u8"
    weights: str = "i8"
    scheme: str = "asymmetric"
    per_channel: bool = True
    block: int = 0
    scale_type: str = "f32"
    tables: str = "i8"
    dynamic: tuple[str, ...] = ()
    weights_only: tuple[str, ...] = ()
    caches: bool = False
    calibration: str = "minmax"
    percentile: float = 99.99
    weight_ranges: str = "mse"
    max_steps: float = 16.0
    keep_float: tuple[str, ...] = ()
    require_all: bool = False
    profile_of_another_model: bool = False

    def __post_init__(self) -> None:
        self.recipe()

    def recipe(self) -> Recipe:
        """The options as a recipe; ValueError."""
        return Recipe(
            self.activations,
            self.weights,
            cast("Symmetry", self.scheme),
            self.per_channel,
            cast("Method", self.calibration),
            self.percentile,
            self.weight_ranges,
            self.max_steps,
            block=self.block,
            scale_type=self.scale_type,
            tables=self.tables,
            dynamic=frozenset(self.dynamic),
            weights_only=frozenset(self.weights_only),
            caches=self.caches,
            keep_float=frozenset(self.keep_float),
        )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Quantize each function by the profile that the options name; InputError."""
        if not self.file:
            raise UsageError(f"pass '{self.name}' needs option 'file'", code="bad-option")
        qctx = session(ctx)
        profile, path = load_profile(Path(self.file)), Path(self.file)
        found = qctx.at_start.get(ApplyProfile)
        loaded = found if isinstance(found, LoadedModel) else LoadedModel.of(op, qctx)
        if self.profile_of_another_model:
            matching = match_profile(profile, op, qctx, loaded.identity)
            remark(matching, qctx)
            profile = matching.profile
        else:
            loaded.identity.check(profile, path, "option profile-of-another-model")
        recipe = self.recipe()
        prepare(op, qctx, recipe.keep_float)
        removed = loaded.removed(profile)
        apply_profile(op, qctx, profile, recipe, require_all=self.require_all, removed=removed)

    def before_pipeline(self, ctx: QContext, module: ModuleOp) -> None:
        """Note which model it is, before other passes change it."""
        ctx.at_start[ApplyProfile] = LoadedModel.of(module, ctx)


@dataclass(frozen=True)
class LoadedModel:
    """A model as it was before passes: which it is, and the keys it has."""

    identity: ModelIdentity
    keys: AbstractSet[str]

    @staticmethod
    def of(module: ModuleOp, ctx: QContext) -> LoadedModel:
        """That of a module."""
        function = Interpreter(ctx, module).function()
        return LoadedModel(identify(module, ctx), known_keys(function, ctx))

    def removed(self, profile: Profile) -> Collection[str]:
        """The entries of a profile that may name nothing once passes have run: all of them, if
        the model is another form of the one that was profiled."""
        return self.keys if profile.digest == self.identity.digest else profile.entries.keys()


def apply_profile(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    *,
    require_all: bool = False,
    rounding: Correct | None = None,
    correct: Correct | None = None,
    removed: Collection[str] = (),
    whole: Mapping[str, str] = MappingProxyType({}),
) -> Coverage:
    """Quantize `module` in place; what was left float, and why, is in the remarks too.

    `rounding` chooses other codes of weights; `correct` is what corrects biases after that, if the
    recipe wants that. `removed` are keys that the
    model had when it was profiled: entries for them are not stale. `whole`
    says by key why a composite was not written as its pieces.

    InputError (`not-all-quantized`) for an op left float with `require_all`, and for a
    key to keep float (or dynamic) that the model does not have.
    """
    function = Interpreter(ctx, module).function()
    values = Values(function, ctx, profile, recipe)
    known = known_keys(function, ctx)
    for names, what in (
        (recipe.keep_float, "stay float"),
        (recipe.dynamic - {ALL}, "quantize its input as it runs"),
        (recipe.weights_only - {ALL}, "have weights in codes"),
    ):
        named = keep_float_ops(function, ctx, names)
        unknown = [name for name, ops in named.items() if not ops]
        unknown = [name for name in unknown if name not in {*known, *removed}]
        if unknown:
            raise InputError(
                f"no op has the key '{unknown[0]}' or is of that kind, which is to {what}",
                code="unknown-key",
            )
    reason = format_refusal(recipe.weights, ctx.target)
    if recipe.weights in ONLY_IN_BLOCKS and reason:
        raise UsageError(f"weights of {recipe.weights}: {reason}", code="bad-weights")
    selection = select(values)
    grids = assign(selection)
    find_tables(selection)
    _leave_comparisons(selection, grids)
    for op, why in selection.left.items():
        if reason := whole.get(key_text(op)):
            selection.left[op] = Refusal(why.code, f"{why.reason}; not in pieces: {reason}")
    left = [left_float(op, why.code, why.reason) for op, why in selection.left.items()]
    known.update(removed)
    stale = sorted(key for key in profile.entries if not _is_known(key, known, ctx))
    coverage = Coverage(Counter(op.name for op in selection.ops), left, stale)
    if require_all and (left or stale):
        raise not_all_quantized(coverage, function)
    _remark(selection, grids, ctx, coverage)
    if rounding is not None:
        rounding(selection, grids)
        correct_known(selection, grids)
    if correct is not None and recipe.correct_bias:
        correct(selection, grids)
    emit(selection, grids)
    return coverage


def _leave_comparisons(selection: Selection, grids: Grids) -> None:
    """Say of ops with plain results alone that they compare floats, where no operand is codes."""
    values = selection.values
    for op in values.block.ops:
        behavior = values.ctx.behaviors.get(op)
        if behavior is None or not behavior.compares or concerns(op):
            continue
        floats = [value for value in op.operands if float_value(value)]
        if floats and grids.qparams.keys().isdisjoint(floats):
            selection.left[op] = Refusal("moves-floats", "it compares floats")


def not_all_quantized(coverage: Coverage, function: FuncOp) -> InputError:
    """The error that lists what is float."""
    notes = [str(left) for left in coverage.left]
    notes += [f"the profile has '{key}', which the model has not" for key in coverage.stale]
    return InputError(
        f"{len(coverage.left)} ops are left float",
        where=op_where(function),
        code="not-all-quantized",
        notes=tuple(notes),
    )


def known_keys(function: FuncOp, ctx: QContext) -> set[str]:
    """All keys that entries may have: of values, and of the pieces of composites."""
    known = {INPUT_PREFIX + name for name in argument_names(function)}
    for op in function.body.block.ops:
        known.update(op_keys(op))
        pieces = all_keys(op, ctx.components)
        known.update(key for keys in pieces.values() for key in keys)
    # Of the values of one role, the first may be removed, which has the key of the entry.
    return known | {shared_key(key, ctx.components) for key in known if "@" in key}


def _is_known(key: str, known: Container[str], ctx: QContext) -> bool:
    """Whether a key is one of `known`, or of a piece of what goes under one in another form."""
    above, _, role = key.rpartition("/")
    is_role = any(role in components.roles for components in ctx.components.values())
    return key in known or (is_role and _is_known(above, known, ctx))


def _remark(selection: Selection, grids: Grids, ctx: QContext, coverage: Coverage) -> None:
    said = [(op, why.code, f"left float: {why.reason}") for op, why in selection.left.items()]
    said += [(op, why.code, why.reason) for op, why in selection.not_so.items()]
    said += [(op, "sums", text) for op, text in grids.reranged.items()]
    name = ApplyProfile.name
    for op, code, reason in said:
        place = location_text(op.location), op.name, key_text(op)
        ctx.remarks.add(Remark("note", name, name, *place, code=code, reason=reason))
    for key in coverage.stale:
        _note(ctx, key, "stale-entry", "the profile has an entry that names nothing in the model")


def remark(matching: Matching, ctx: QContext) -> None:
    """Remarks on what does not match."""
    for each in matching.unmatched:
        _note(ctx, each.key, each.code, each.reason)


def _note(ctx: QContext, key: str, code: str, reason: str) -> None:
    name = ApplyProfile.name
    ctx.remarks.add(Remark("note", name, name, "", "module", key, code=code, reason=reason))
