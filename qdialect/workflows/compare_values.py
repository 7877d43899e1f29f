"""Comparing two models, or one model in two engines, value by value, by stable key.

Values are compared as the numbers they mean. The interpreter gives every value as it computes
it; every other engine gives what a function returns, so a clone of the function returns the
values with a key too. What the integers of a lowered module mean is read from the attributes
beside them (`qdialect.plugins.common.lowering.debug_attributes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.algebra.qparams import Layout, QParams
from qdialect.engines.installed import local_engine, require
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.interpreter.quantize import load
from qdialect.ir.dialects.attributes import strings
from qdialect.ir.dialects.interface import DIMS, RESULT_NAMES
from qdialect.ir.ops import keys_of
from qdialect.ir.ops.keys import texts
from qdialect.ir.quant import DCastOp, element_type, expressed_type, quant_element, with_element
from qdialect.plugins.common.lowering.debug_attributes import (
    MARKED_KEY,
    SCALE,
    marked_order,
    marked_type,
)
from qdialect.quantizer.output_parts import Part, channel_dimension
from qdialect.quantizer.quality import Tally, db_text, finite_db
from qdialect.report.histograms import range_of
from qdialect.report.tables import LayerError
from qdialect.workflows.inspect import type_text
from qdialect.workflows.model import Model
from qdialect.workflows.run import open_engine

Array = NDArray[Any]
Inputs = Mapping[str, Array]

FLOATS = frozenset({"f64", "f32", "f16", "bf16"})


@dataclass(frozen=True)
class KeyedValue:
    """A value: its keys, which result of its op it is, and the real numbers.

    `step` is the (smallest) scale of its codes, and `clipped` the share of them at an end of
    their range (not where that end is the zero point); `span` is from where to where
    codes reach. None if it has none. `channel` is the dimension of its channels.
    """

    keys: tuple[str, ...]
    index: int
    type: str
    step: float | None
    reals: Array
    clipped: float | None = None
    span: tuple[float, float] | None = None
    channel: int | None = None

    @property
    def name(self) -> str:
        """Its last key, and which result of the op it is where that is not the first."""
        return f"{self.keys[-1]}#{self.index}" if self.index else self.keys[-1]


def keyed_values(model: Model, engine: str, inputs: Inputs) -> list[KeyedValue]:
    """What `model` computes on `inputs`, in program order."""
    require(engine)
    if engine == "numpy":
        return _interpreted(model, inputs)
    local = local_engine(engine)
    if engine.startswith("litert"):
        # Codes as they are: casts beside ops would be others' kernels, or none.
        module, found = returning(model, with_casts=False)
        results = open_engine(Model(module, model.ctx), engine)(inputs)
        pairs = zip(found, _last(results, len(found)), strict=True)
        arrays = [_reals(entry.kind, array, entry.op) for entry, array in pairs]
    elif local is not None:
        module, found = returning(model, with_casts=True)
        results = open_engine(Model(module, model.ctx), engine)(inputs)
        arrays = [array.astype("f8") for array in _last(results, len(found))]
    else:
        from qdialect.workflows.lower import integer_model, ready_model
        from qdialect.workflows.run_program import InEngine

        ready = ready_model(integer_model(model))
        module, found = returning(ready, with_casts=False)
        results = InEngine(Model(module, ready.ctx), engine)(inputs)
        codes = zip(found, _last(results, len(found)), strict=True)
        arrays = [_reals(entry.kind, array, entry.op) for entry, array in codes]
    return [
        replace(
            keyed_value(entry.keys, entry.index, entry.kind, array), channel=_channel(model, entry)
        )
        for entry, array in zip(found, arrays, strict=True)
    ]


def _channel(model: Model, entry: Returned) -> int | None:
    return channel_dimension(entry.op.results[entry.index], model.ctx)


def _last(results: Mapping[str, Array], count: int) -> list[Array]:
    return list(results.values())[len(results) - count :]


def _interpreted(model: Model, inputs: Inputs) -> list[KeyedValue]:
    found: list[KeyedValue] = []

    def listen(op: Operation, results: Sequence[Array]) -> None:
        keys = keys_of(op)
        for index, (value, array) in enumerate(zip(op.results, results, strict=True)):
            if keys and _is_number(value.type):
                reals = _reals(value.type, array, op)
                channel = channel_dimension(value, model.ctx)
                found.append(replace(keyed_value(keys, index, value.type, reals), channel=channel))

    Interpreter(model.ctx, model.module, listeners=[listen], functions=KEPT_NODES).run(inputs)
    return found


def _is_number(kind: Attribute) -> bool:
    return quant_element(kind) is not None or str(element_type(kind)) in FLOATS


def keyed_value(keys: tuple[str, ...], index: int, kind: Attribute, reals: Array) -> KeyedValue:
    """The numbers of a value of an IR type."""
    element = quant_element(kind)
    step = None if element is None else min(element.qparams.scale_list())
    clipped = None if element is None else _clipped(element.qparams, reals)
    span = None if element is None else range_of(element.qparams)
    return KeyedValue(keys, index, str(element_type(kind)), step, reals, clipped, span)


def _clipped(params: QParams, reals: Array) -> float | None:
    """The share of codes at an end of their range; None for blocks, tables and float codes."""
    storage, axis = params.storage, params.axis
    if storage.is_float or storage.quantile is not None or params.layout is Layout.BLOCK:
        return None
    shape = [1] * reals.ndim
    if axis is not None:
        if axis >= reals.ndim or reals.shape[axis] != params.count:
            return None
        shape[axis] = params.count
    elif not reals.ndim:
        shape = []
    zeros = params.zero_point_array().reshape(shape)
    codes = np.rint(reals / params.scale_array().reshape(shape)) + zeros
    low = (codes <= storage.min) & (zeros != storage.min)
    high = (codes >= storage.max) & (zeros != storage.max)
    return float((low | high).mean()) if reals.size else 0.0


def _reals(kind: Attribute, array: Array, op: Operation) -> Array:
    """The numbers that an array of `kind` means, in the order of the model's dimensions."""
    reals = load(array, kind).approx
    order = marked_order(op.attributes, reals.ndim)
    return reals.transpose([order.index(d) for d in range(reals.ndim)])


@dataclass(frozen=True)
class Returned:
    """A value that a function was made to return."""

    op: Operation
    keys: tuple[str, ...]
    index: int
    kind: Attribute


def returning(model: Model, *, with_casts: bool) -> tuple[ModuleOp, list[Returned]]:
    """A clone that returns what it returned and then its keyed values, which are listed.

    `with_casts` returns floats in place of codes.
    """
    module = model.module.clone()
    function = Interpreter(model.ctx, module).function()
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    found = [
        Returned(op, keys, index, kind)
        for op in block.ops
        if (keys := keys_of(op) or texts(op.attributes.get(MARKED_KEY)))
        for index, value in enumerate(op.results)
        if (kind := _meaning(op, value)) is not None
    ]
    values: list[SSAValue] = []
    for entry in found:
        value: SSAValue = entry.op.results[entry.index]
        element = quant_element(entry.kind)
        if with_casts and element is not None:
            cast = DCastOp(value, with_element(entry.kind, expressed_type(element.qparams)))
            block.insert_op_before(cast, last)
            value = cast.result
        values.append(value)
    count = len(last.operands)
    last.operands = [*last.operands, *values]
    function.update_function_type()
    notes = list(function.res_attrs or [DictionaryAttr({})] * count)
    function.res_attrs = ArrayAttr([*notes, *[DictionaryAttr({})] * len(values)])
    function.attributes[RESULT_NAMES] = strings([f"value {n}" for n in range(count + len(values))])
    function.attributes.pop(DIMS, None)
    return module, found


def _meaning(op: Operation, value: SSAValue) -> Attribute | None:
    """The type that says what a value's numbers mean; None where nothing does."""
    if SCALE in op.attributes:
        return marked_type(op.attributes, value.type)
    return (
        value.type
        if _is_number(value.type) and not op.has_trait(ConstantLike, value_if_unregistered=False)
        else None
    )


Compared = tuple[Sequence[KeyedValue], Sequence[KeyedValue], Sequence[KeyedValue]]
"""Of one sample: values of the first model, of the second, and of its ops alone (or none)."""


@dataclass
class _Place:
    """What is counted of one value over samples."""

    tally: Tally
    alone: Tally
    most: float = 0.0
    step: float | None = None
    clipped: float | None = None

    def add(self, one: KeyedValue, other: KeyedValue) -> None:
        """The value of one sample, in both models."""
        self.tally.add(one.reals, other.reals)
        apart = np.abs(one.reals - other.reals)
        self.most = max(self.most, float(apart.max(initial=0.0)))
        if other.clipped is not None:
            self.clipped = max(self.clipped or 0.0, other.clipped)
        self.step = other.step

    def error(self, name: str, kind: str) -> LayerError:
        """What the counts say."""
        quality, alone = self.tally.quality(), self.alone.quality()
        worst = quality.worst_channel
        return LayerError(
            name,
            kind,
            quality.sqnr_db,
            self.most,
            None if self.step is None else self.most / self.step,
            self.clipped,
            worst,
            None if worst is None else finite_db(quality.worst_channel_db),
            quality.dead,
            alone.sqnr_db if alone.is_real else None,
        )


def compare_layers(samples: Iterable[Compared]) -> list[LayerError]:
    """The layers both have, in the second's order; InputError (`not-comparable`) if none."""
    places: dict[tuple[str, str], _Place] = {}
    for first, second, alone in samples:
        known = {name: value for name, _, value in pairs_of(first, alone)}
        for name, one, other in pairs_of(first, second):
            part = Part(name, channel=one.channel)
            place = places.setdefault((name, other.type), _Place(Tally(part), Tally(part)))
            place.add(one, other)
            if name in known:
                place.alone.add(one.reals, known[name].reals)
    if not places:
        raise InputError("the models have no value of one key and shape", code="not-comparable")
    return [place.error(*key) for key, place in places.items()]


def worst_layers(found: Sequence[LayerError], count: int) -> list[LayerError]:
    """Those where most is lost, in order: by what is lost there alone, where that is known."""

    def least(layer: LayerError) -> float:
        return layer.sqnr_db if layer.alone_db is None else layer.alone_db

    limit = sorted(map(least, found))[:count][-1]
    return [layer for layer in found if least(layer) <= limit]


def layer_rows(found: Sequence[LayerError]) -> list[tuple[str, ...]]:
    """How far values are apart, in words, under a heading; without columns that say nothing."""
    heading = ("value", "type", "SQNR", "alone", "worst channel", "max abs", "steps", "clipped")
    rows = [
        (
            layer.key,
            type_text(layer.type),
            db_text(layer.sqnr_db),
            "" if layer.alone_db is None else db_text(layer.alone_db),
            ""
            if layer.worst_channel_db is None
            else f"{layer.worst_channel}: {db_text(layer.worst_channel_db)}",
            f"{layer.max_abs:.4g}",
            "" if layer.max_steps is None else f"{layer.max_steps:.4g}",
            "" if layer.clipped is None else f"{layer.clipped:.3%}",
            str(len(layer.dead) or ""),
        )
        for layer in found
    ]
    kept = [n for n in range(9) if n not in (3, 4, 8) or any(row[n] for row in rows)]
    return [tuple(row[n] for n in kept) for row in ((*heading, "dead"), *rows)]


def pairs_of(
    first: Sequence[KeyedValue], second: Sequence[KeyedValue]
) -> list[tuple[str, KeyedValue, KeyedValue]]:
    """Values of one key and shape. Of several that an op became the last is the op's; a
    value with several keys is what the last of them, in the first model's order, names."""
    places = {(key, v.index): n for n, v in enumerate(first) for key in v.keys}
    found: dict[int, tuple[str, KeyedValue, KeyedValue]] = {}
    for value in second:
        known = [places[key, value.index] for key in value.keys if (key, value.index) in places]
        if not known:
            continue
        one = first[max(known)]
        if one.reals.shape == value.reals.shape:
            # Put behind what came between: in the order of what is compared.
            found.pop(max(known), None)
            found[max(known)] = one.name, one, value
    return list(found.values())


def first_apart(
    first: Sequence[KeyedValue], second: Sequence[KeyedValue]
) -> tuple[str, float] | None:
    """The first value, in the second's order, of which both have codes in one scale and that
    is not the same, and by how many steps."""
    for name, one, other in pairs_of(first, second):
        if one.step is None or one.step != other.step:
            continue
        steps = float(np.abs(one.reals - other.reals).max(initial=0.0)) / one.step
        if steps > 0.5:
            return name, steps
    return None
