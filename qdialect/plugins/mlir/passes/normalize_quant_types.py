"""Write the parameters of sub-channel types per tensor or per axis, where that is the same.

    one (scale, zero point) pair                               -> per tensor
    one blocked dimension with blocks of one index             -> per axis
    equal pairs in place of blocks, for a tensor of known shape -> fewer, or none

Every element has the same scale and zero point before and after: exact. Blocks that span several
indices stay blocks (upstream's pass of this name makes them per axis with too few scales). The pass
visits every type in the module, also in signatures and attributes. A type stays where the target
runs an op on it, but not on the plainer one.

For example

    %0 = quant.dcast %x : tensor<4x8x!quant.uniform<i8:f32:{0:4, 1:8}, {{2.0:3}}>> to !f

becomes

    %0 = quant.dcast %x : tensor<4x8x!quant.uniform<i8:f32, 2.0:3>> to !f
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyTensorType,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.passes import ModulePass

from qdialect.algebra.qparams import ParameterField, QParams
from qdialect.algebra.qparams.parameters import Layout
from qdialect.ir.context import QContext, session
from qdialect.ir.quant import UniformType, quant_element, with_element
from qdialect.rewrite.refused import is_computed, refused_by_target, refused_types
from qdialect.rewrite.rewriter import set_type


def normalized(params: QParams, shape: tuple[int, ...] | None = None) -> QParams:
    """`params` per tensor or per axis, if that is the same on `shape` (None: any shape; an unknown
    extent is -1)."""
    if params.layout is not Layout.BLOCK:
        return params
    if params.count == 1:
        return replace(params, layout=Layout.TENSOR, blocks=(), grid=())
    blocked = [axis for axis, cells in enumerate(params.grid) if cells != 1]
    if len(blocked) == 1 and dict(params.blocks).get(blocked[0]) == 1:
        axis = ((blocked[0], 1),)
        return replace(params, layout=Layout.AXIS, blocks=axis, grid=(params.count,))
    if shape is None:
        return params
    try:
        plain = ParameterField.of(params, shape).canonical().to_qparams()
    except ValueError:
        return params
    # Among grids the one that is written stays.
    return params if plain.layout is Layout.BLOCK else plain


@dataclass(frozen=True)
class NormalizeQuantTypes(ModulePass):
    """Sub-channel types in their plainest form; see the module."""

    name = "normalize-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx, normalizer = session(ctx), _Normalizer()
        while kept := _refused(qctx, op, normalizer):
            normalizer = _Normalizer(normalizer.kept | kept)
        for inner in op.walk():
            values = [arg for region in inner.regions for b in region.blocks for arg in b.args]
            for value in (*inner.results, *values):
                kind = normalizer.of(value.type)
                if kind is not value.type:
                    set_type(value, kind)
            for entries in (inner.properties, inner.attributes):
                for key, attribute in entries.items():
                    entries[key] = normalizer.of(attribute)


def _refused(ctx: QContext, module: ModuleOp, normalizer: _Normalizer) -> set[Attribute]:
    """The types of ops that the target runs, but not on what the normalizer makes of the types."""
    found: set[Attribute] = set()
    for op in module.walk():
        values = (*op.operands, *op.results)
        changed = {v.type for v in values if normalizer.of(v.type) is not v.type}
        if changed and is_computed(ctx, op):
            sides = ([normalizer.of(v.type) for v in side] for side in (op.operands, op.results))
            reason = refused_types(ctx, op, *sides)
            if reason and refused_by_target(ctx, op) is None:
                found |= changed
    return found


class _Normalizer:
    """Attributes with the types inside them normalized; an unchanged attribute is returned itself.

    Results are cached by identity: attributes that are equal in Python may differ in their text, as
    the integers 0 and False do. The types `kept` stay as they are."""

    def __init__(self, kept: AbstractSet[Attribute] = frozenset()) -> None:
        self.kept = kept
        #: by identity, which the first part keeps alive
        self._known: dict[int, tuple[Attribute, Attribute]] = {}

    def of(self, attribute: Attribute) -> Attribute:
        found = self._known.get(id(attribute))
        if found is None:
            found = self._known[id(attribute)] = attribute, self._new(attribute)
        return found[1]

    def _new(self, attribute: Attribute) -> Attribute:
        element = quant_element(attribute)
        if element is not None:
            if attribute in self.kept:
                return attribute
            params = normalized(element.qparams, _shape(attribute))
            same = params == element.qparams
            return attribute if same else with_element(attribute, UniformType(params))
        if isinstance(attribute, ArrayAttr):
            array = cast("ArrayAttr[Attribute]", attribute)
            parts = [self.of(part) for part in array.data]
            return array if _same(parts, array.data) else ArrayAttr(parts)
        if isinstance(attribute, DictionaryAttr):
            entries = {key: self.of(part) for key, part in attribute.data.items()}
            same = _same(entries.values(), attribute.data.values())
            return attribute if same else DictionaryAttr(entries)
        if isinstance(attribute, ParametrizedAttribute):
            parts = [self.of(part) for part in attribute.parameters]
            same = _same(parts, attribute.parameters)
            return attribute if same else type(attribute).new(parts)
        return attribute


def _same(new: Any, old: Any) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _shape(type: Attribute) -> tuple[int, ...] | None:
    if not isinstance(type, TensorType):
        return None
    tensor = cast("AnyTensorType", type)
    return tuple(-1 if size == DYNAMIC_INDEX else size for size in tensor.get_shape())
