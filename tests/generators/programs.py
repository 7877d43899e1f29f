"""Random programs of `nn` and `quant`: every op, in any combination that verifies.

Shapes and properties are drawn by name, results are inferred by the ops, and element types
follow the declarations: tied ports carry qparams as the law says, others draw new ones.  What
does not verify is dropped and drawn again, so no op needs a rule of its own but those whose
operands must fit one another (`random_operands`).  Everything follows from the seed.

    python -m tests.generators.programs 7 --ops 20 > program.mlir
"""

# pyright: basic
from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerType,
    ModuleOp,
    Signedness,
    f32,
    i1,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.rounding import Rounding
from qdialect.errors import QError
from qdialect.ir.behaviors import PortKind
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import KEY, NN, make_constant, shape_of
from qdialect.ir.ops.base import ranked, to_attribute, to_python
from qdialect.ir.ops.shapes import DYNAMIC, ShapeError
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
)
from qdialect.ir.quant.integrity import shape_error
from qdialect.ir.verify.verifier import verify_module
from qdialect.plugins.mlir.write import module_text
from tests.generators.operands import CHOICES, OPERANDS, is_number

MOST_ELEMENTS = 600
ROUNDINGS = ("half_even", "half_up", "half_away")
MILD = (0.5, 0.25, 0.1, 0.0371, 1.7, 0.0047058823529, 1.0)
WILD = (*MILD, 2.0**-126, 1e-30, 3e-41, 2.0**-149, 1e30, 3.0e38, 1 / 3, 255.0, 1e-7)
STORAGES = ("i8", "i8", "i8", "u8", "i16", "u16", "i4", "u4", "i2", "u2", "i8<-127:127>", "i32")
ALIKE_SHAPE, ALIKE_SCALES = (1, 2, 4, 4), (0.1, 0.13, 0.2, 0.25, 0.31, 0.5)
TRIES = 12


class Builder:
    """One program under construction.  `wild`: extreme scales, all storages, dynamic shapes;
    else what integer engines and ONNX Runtime can run too.  `alike`: most values have one shape,
    and similar scales, so that they meet and few rescales clip.  `blocks`: casts and rescales have
    parameters in blocks, too."""

    def __init__(
        self,
        seed: int,
        ctx: QContext,
        *,
        wild: bool = True,
        alike: bool = False,
        blocks: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.ctx = ctx
        self.wild = wild
        self.alike = alike
        self.blocks = blocks
        self.block = Block()
        self.values: list[SSAValue] = []
        self._scales = [self._scale() for _ in range(3)]
        mixed = wild or self.random.random() < 0.3
        self._roundings = ROUNDINGS if mixed else ("half_even",)
        #: the share of ops on codes that are written as floats between casts
        self._in_floats = self.random.choice((0.0, 0.0, 0.0 if alike else 0.5, 0.9))
        self._keys = 0
        for _ in range(self.random.randint(1, 3)):
            self._argument(self._shape(), self._element())

    # -- what is drawn -------------------------------------------------------------

    def _scale(self) -> float:
        if self.alike:
            return self.random.choice(ALIKE_SCALES)
        return self.random.choice(WILD if self.wild else MILD)

    def _shape(self) -> tuple[int, ...]:
        if self.alike:
            return ALIKE_SHAPE
        rank = self.random.choice((4, 4, 4, 3, 2, 5, 1))
        while True:
            shape = tuple(self.random.choice((1, 2, 2, 3, 4, 5, 6, 7)) for _ in range(rank))
            if math.prod(shape) <= MOST_ELEMENTS:
                break
        if self.wild and self.random.random() < 0.12:
            unknown = self.random.randrange(rank)
            shape = tuple(DYNAMIC if d == unknown else n for d, n in enumerate(shape))
        return shape

    def storage(self) -> Storage:
        """Of a value between ops."""
        if self.alike:
            return Storage.of(self.random.choice(("i8", "i8", "i16")))
        text = self.random.choice(STORAGES if self.wild else ("i8", "i8", "u8"))
        name, _, bounds = text.rstrip(">").partition("<")
        low, high = (int(b) for b in bounds.split(":")) if bounds else (None, None)
        return Storage.of(name, low, high)

    def _zero(self, storage: Storage) -> int:
        if self.alike:
            return self.random.randint(-3, 3) if storage.signed else 128
        low, high = storage.min, storage.max
        return self.random.choice(
            (
                low,
                high,
                0 if storage.signed else (low + high + 1) // 2,
                self.random.randint(max(low, -200), min(high, 200)),
            )
        )

    def qparams(self, shape: Sequence[int] = (), axis: int | None = None) -> QParams:
        """New ones, few scales so that some are equal; per axis if there is an axis."""
        storage = self.storage()
        if axis is None:
            scale = self.random.choice(self._scales)
            return QParams.per_tensor(storage, float(np.float32(scale)), self._zero(storage))
        scales = [float(np.float32(self._scale())) for _ in range(shape[axis])]
        return QParams.per_axis(storage, axis, scales, [self._zero(storage) for _ in scales])

    def _in_blocks(self, shape: Sequence[int]) -> QParams:
        """New ones, one for each block along the last dimension and for each row above it."""
        storage, size = self.storage(), 2 if shape[-1] % 2 == 0 else 1
        rows = self.random.random() < 0.5 and len(shape) > 1
        grid = [1] * (len(shape) - 1) + [shape[-1] // size]
        blocks = [(len(shape) - 1, size)]
        if rows:
            grid[-2], blocks = shape[-2], [(len(shape) - 2, 1), *blocks]
        scales = [float(np.float32(self._scale())) for _ in range(math.prod(grid))]
        zeros = [self._zero(storage) for _ in scales]
        return QParams.blockwise(storage, blocks, grid, scales, zeros)

    def _element(self, shape: Sequence[int] = ()) -> Attribute:
        if self.random.random() < 0.25:
            return f32
        axis = None
        if shape and self.random.random() < 0.25:
            known = [d for d, n in enumerate(shape) if n > 0]
            axis = self.random.choice(known) if known else None
        return UniformType(self.qparams(shape, axis))

    def _argument(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        if isinstance(element, UniformType) and self.random.random() < 0.3:
            element = self._element(shape)
        value = self.block.insert_arg(ranked(element, shape), len(self.block.args))
        self.values.append(value)
        return value

    def pick(self, accepts: Callable[[SSAValue], bool] = lambda value: True) -> SSAValue:
        """A value, recent ones more often; a new argument where none fits."""
        fitting = [v for v in self.values if accepts(v)]
        if not fitting:
            for _ in range(TRIES):
                shape = self._shape()
                value = self._argument(shape, self._element())
                if accepts(value):
                    return value
            return value
        return self.random.choice(fitting[-4:] if self.random.random() < 0.6 else fitting)

    def constant(self, array: np.ndarray, element: Attribute) -> SSAValue:
        op = make_constant(array, element, self.ctx.blobs)
        self.block.add_op(op)
        return op.result

    def like(self, element: Attribute, shape: Sequence[int], *, weight: bool = False) -> SSAValue:
        """A constant of an element type: floats, or codes of the whole storage."""
        if not isinstance(element, UniformType):
            return self.constant(self.numbers.normal(size=tuple(shape)).astype("f4"), f32)
        storage = element.qparams.storage
        low, high = max(storage.min, -(1 << 15)), min(storage.max, 1 << 15)
        codes = self.numbers.integers(low, high + 1, tuple(shape))
        width = max(8, storage.width)
        kind = np.dtype(f"{'i' if storage.signed else 'u'}{width // 8}")
        return self.constant(codes.astype(kind), element)

    def weight(self, x: SSAValue, shape: Sequence[int], axis: int | None) -> SSAValue:
        """A constant weight for what x is multiplied with."""
        if quant_element(x.type) is None:
            return self.like(f32, shape)
        storage = Storage.of(self.random.choice(("i8", "i8", "i4", "u8") if self.wild else ("i8",)))
        scales = [float(np.float32(self.random.choice(MILD))) for _ in range(shape[axis or 0])]
        if axis is not None and self.random.random() < 0.5:
            params = QParams.per_axis(storage, axis, scales)
        else:
            zero = self._zero(storage) if self.wild else 0
            params = QParams.per_tensor(storage, scales[0], zero)
        return self.like(UniformType(params), shape)

    def bias(self, x: SSAValue, weight: SSAValue, count: int, groups: int = 1) -> SSAValue | None:
        """i32 on the scale of the products, a float, or none."""
        if self.random.random() < 0.4:
            return None
        first, second = quant_element(x.type), quant_element(weight.type)
        if first is None or second is None:
            return self.like(f32, [count])
        scales = [first.qparams.scale_list()[0] * s for s in second.qparams.scale_list()]
        with np.errstate(over="ignore"):
            scales = [float(np.float32(s)) for s in scales]
        if any(s <= 0 or not math.isfinite(s) for s in scales):
            return None
        storage = Storage.of("i32")
        if len(scales) == count and count > 1:
            params = QParams.per_axis(storage, 0, scales)
        else:
            params = QParams.per_tensor(storage, scales[0])
        codes = self.numbers.integers(-4000, 4000, count).astype("i4")
        return self.constant(codes, UniformType(params))

    # -- properties, by name -------------------------------------------------------

    def properties(self, op: type, shape: Sequence[int]) -> dict[str, Any]:
        """Values for the properties of an op on a first operand of this shape."""
        return {
            name: drawn
            for name, prop in op.get_irdl_definition().properties.items()
            if (drawn := self._property(op, name, prop, shape)) is not None
        }

    def _property(self, op: type, name: str, prop: Any, shape: Sequence[int]) -> Any:
        draw = self.random
        rank, spatial = len(shape), max(len(shape) - 2, 1)
        static = [n if n > 0 else 2 for n in shape]
        if prop.default_value is not None and draw.random() < 0.4:
            return None
        if name == "rounding":
            return draw.choice(self._roundings)
        if name in (
            "keepdims",
            "last",
            "largest",
            "sorted",
            "ceil_mode",
            "count_include_pad",
            "linear_before_reset",
        ):
            return draw.random() < 0.5
        if name == "axis":
            return draw.randrange(
                -rank if op.name in ("nn.softmax", "nn.layer_norm", "nn.rms_norm") else 0, rank
            )
        if name == "axes":
            return sorted(draw.sample(range(rank), draw.randint(1, min(rank, 2))))
        if name == "perm":
            return draw.sample(range(rank), rank)
        if name == "kernel":
            return [draw.randint(1, 3) for _ in range(spatial)]
        if name in ("strides", "dilations"):
            return [draw.randint(1, 2) for _ in range(spatial)]
        if name == "pads":
            return [draw.randint(0, 1) for _ in range(2 * spatial)]
        if name == "output_padding":
            return [draw.randint(0, 1) for _ in range(spatial)]
        if name in ("low", "high"):
            return [draw.choice((0, 0, 1, 2)) for _ in shape]
        if name == "sizes" and op.name == "nn.split":
            return None
        if name == "sizes":
            return [n if d < 2 else draw.randint(1, 7) for d, n in enumerate(static)]
        if name == "repeats":
            return [draw.choice((1, 1, 2)) for _ in shape]
        if name == "starts" or name == "stops" or name == "steps":
            return None
        if name == "shape" and op.name == "nn.reshape":
            return None
        if name == "block":
            return draw.choice((2, 2, 3))
        if name == "size":
            return draw.choice((1, 3, 5))
        if name in ("alpha", "beta"):
            return draw.choice((0.2, 0.5, 1.0, 0.01, 1 / 6))
        if name == "exponent":
            return draw.choice((2.0, 3.0, 0.5, -1.0, 1.0))
        if name == "epsilon":
            return draw.choice((1e-5, 1e-3))
        if name in ("min", "max", "value"):
            at = draw.choice((-1.0, 0.0, 0.7, 6.0)) if self.wild else 0.0
            return abs(at) if name == "max" else (-abs(at) if name == "min" else at)
        if name == "k":
            return draw.randint(1, 2)
        if name in CHOICES.get(op.name, {}):
            return draw.choice(CHOICES[op.name][name])
        return None

    # -- ops -----------------------------------------------------------------------

    def grow(self, name: str) -> bool:
        """Add an op of this name, if one can be drawn that verifies."""
        for _ in range(TRIES):
            before = self.block.last_op
            count = len(self.values)
            try:
                self._add(name)
                return True
            except (VerifyException, ShapeError, ValueError, IndexError, QError):
                self._take_back(before)
                del self.values[max(count, len(self.block.args)) :]
                self.values = [v for v in self.values if not _is_gone(v)]
        return False

    def _take_back(self, before: Operation | None) -> None:
        while (last := self.block.last_op) is not None and last is not before:
            last.detach()
            last.erase()

    def _add(self, name: str) -> None:
        if name.startswith("quant."):
            self._finish(self._cast(name))
            return
        op = _OPS[name]
        operands, properties = self._operands(op)
        if any(
            math.prod(abs(n) for n in s) > MOST_ELEMENTS for s in _shapes(op, operands, properties)
        ):
            raise ValueError("too large")
        self._finish(self._made(op, operands, properties))

    def _operands(self, op: type) -> tuple[list[SSAValue], dict[str, Any]]:
        special = OPERANDS.get(op.name)
        if special is not None:
            return special(self, op)
        first = self.pick(self.takes(op))
        operands = [first]
        for _ in op.get_irdl_definition().operands[1:]:
            operands.append(self._partner(op, first))
        return operands, self.properties(op, shape_of(first))

    def takes(self, op: type) -> Callable[[SSAValue], bool]:
        def accepts(value: SSAValue) -> bool:
            rank = len(shape_of(value))
            wanted = next((int(c) for c in op.name if c.isdigit()), None)
            if wanted is not None and wanted <= 3 and rank != wanted + 2:
                return False
            return rank > 0 and is_number(value)

        return accepts

    def _partner(self, op: type, first: SSAValue) -> SSAValue:
        """A second operand: a value of the same shape, or a constant that broadcasts."""
        behavior = self.ctx.behaviors.named(op.name)
        tied = behavior is not None and behavior.operand_port(0).kind is PortKind.TIED
        shape, kind = shape_of(first), quant_element(first.type)

        def accepts(value: SSAValue) -> bool:
            other = quant_element(value.type)
            alike = other == kind if tied else (other is None) == (kind is None)
            return shape_of(value) == shape and alike and is_number(value)

        fitting = [v for v in self.values if accepts(v)]
        if fitting and self.random.random() < 0.7:
            return self.random.choice(fitting)
        dims = [n if n > 0 and self.random.random() < 0.6 else 1 for n in shape]
        alike = tied or kind is None
        return self.like(element_type(first.type) if alike else UniformType(self.qparams()), dims)

    def _made(
        self, op: type, operands: Sequence[SSAValue], properties: dict[str, Any]
    ) -> Operation:
        shapes = _shapes(op, operands, properties)
        floats = [ranked(self._plain_result(op, operands, i), s) for i, s in enumerate(shapes)]
        definition = op.get_irdl_definition()
        complete = {
            n: p.default_value
            for n, p in definition.properties.items()
            if p.default_value is not None
        }
        complete.update({n: to_attribute(v) for n, v in properties.items()})
        made = op.create(operands=operands, result_types=floats, properties=complete)
        try:
            elements = self._results(made)
        except Exception:
            made.erase()
            raise
        if elements is not None:
            made.erase()
            kinds = [ranked(e, s) for e, s in zip(elements, shapes, strict=True)]
            made = op.create(operands=operands, result_types=kinds, properties=complete)
        return made

    def _plain_result(self, op: type, operands: Sequence[SSAValue], index: int) -> Attribute:
        if op.name == "nn.compare":
            return i1
        if op.name in ("nn.arg_max", "nn.arg_min") or (op.name == "nn.top_k" and index):
            return i64
        if op.name == "nn.dynamic_quantize":
            return f32 if index == 1 else IntegerType(8, Signedness.UNSIGNED)
        data = operands[1] if op.name in ("nn.select", "nn.table") else operands[0]
        return element_type(data.type)

    def _results(self, op: Operation) -> list[Attribute] | None:
        """The element types of the results as the declaration has them (None: as made)."""
        behavior = self.ctx.behaviors.get(op)
        if behavior is None:
            return None
        tied = tied_operands(op, behavior)
        given = [quant_element(op.operands[i].type) for i in tied]
        found: list[Attribute] = []
        carried: Any = None
        for index, result in enumerate(op.results):
            port = behavior.result_port(index)
            if port.kind is PortKind.PLAIN:
                found.append(element_type(result.type))
            elif port.kind is PortKind.TIED:
                if not given or any(e is None for e in given):
                    return None
                if carried is None:
                    carried = carry_all_down(op, behavior, [e.qparams for e in given if e])
                if isinstance(carried, Illegal):
                    raise ValueError(carried.reason)
                found.append(UniformType(carried[index]))
            elif quant_element(op.operands[0].type) is None:
                found.append(element_type(result.type))
            else:
                shape = shape_of(result)
                allowed = port.axes(op) if port.axes is not None else range(len(shape))
                axes = [a for a in allowed if 0 <= a < len(shape) and shape[a] > 0]
                axis = self.random.choice(axes) if axes and self.random.random() < 0.2 else None
                found.append(UniformType(self.qparams(shape, axis)))
        return found

    def _cast(self, name: str) -> Operation:
        draw = self.random
        how = draw.choice(self._roundings)
        if name == "quant.qcast":
            x = self.pick(lambda v: element_type(v.type) == f32)
            if element_type(x.type) != f32:
                raise ValueError("no float")
            made = QCastOp(x, ranked(self._quantized(x), shape_of(x)))
            if how != "half_even":
                made.attributes["quant.rounding"] = to_attribute(how)
            return made
        if name == "quant.scast" and draw.random() < 0.5:
            bits = [v for v in self.values if isinstance(v.owner, SCastOp) and not _is_code(v)]
            if bits:
                x = draw.choice(bits)
                storage = Storage.of(f"{draw.choice('iu')}{width_of(x)}")
                scale = float(np.float32(draw.choice(self._scales)))
                params = QParams.per_tensor(storage, scale, self._zero(storage))
                return SCastOp(x, ranked(UniformType(params), shape_of(x)))
        x = self.pick(_is_code)
        kind = quant_element(x.type)
        if kind is None:
            raise ValueError("no codes")
        if name == "quant.scast":
            return SCastOp(x, ranked(IntegerType(kind.qparams.storage.width), shape_of(x)))
        if name == "quant.dcast":
            return DCastOp(x, ranked(f32, shape_of(x)))
        return RescaleOp(x, ranked(self._quantized(x), shape_of(x)), rounding=Rounding(how))

    def _quantized(self, value: SSAValue) -> Attribute:
        shape = shape_of(value)
        axes = [d for d, n in enumerate(shape) if n > 0]
        if self.blocks and axes == [*range(len(shape))] and self.random.random() < 0.15:
            return UniformType(self._in_blocks(shape))
        axis = self.random.choice(axes) if axes and self.random.random() < 0.25 else None
        return UniformType(self.qparams(shape, axis))

    def _finish(self, op: Operation) -> None:
        try:
            op.verify()
            for value in op.results:
                kind = quant_element(value.type)
                if kind is not None and shape_error(value.type, kind.qparams):
                    raise ValueError("parameters that do not fit the shape")
        except Exception:
            op.erase()
            raise
        op.attributes[KEY] = to_attribute(f"op_{self._keys}")
        self._keys += 1
        if self.random.random() < self._in_floats and _can_be_float(op):
            op = self._between_casts(op)
        else:
            self.block.add_op(op)
        self.values += op.results

    def _between_casts(self, op: Operation) -> Operation:
        """dequantize, the op on floats, quantize."""
        reals: list[SSAValue] = []
        for value in op.operands:
            if quant_element(value.type) is None:
                reals.append(value)
                continue
            cast = DCastOp(value, ranked(f32, shape_of(value)))
            self.block.add_op(cast)
            reals.append(cast.result)
        kinds = [ranked(f32, shape_of(value)) for value in op.results]
        middle = type(op).create(
            operands=reals,
            result_types=kinds,
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        self.block.add_op(middle)
        last = QCastOp(middle.results[0], op.results[0].type)
        rounding = op.properties.get("rounding")
        if rounding is not None and rounding != to_attribute("half_even"):
            last.attributes["quant.rounding"] = rounding
        op.erase()
        self.block.add_op(last)
        return last

    # -- the whole -----------------------------------------------------------------

    def program(self, ops: int, names: Sequence[str] | None = None) -> ModuleOp:
        """A module with one function of about so many ops (more: constants), some dead."""
        menu = list(names or (*_OPS, *_CASTS * 6))
        if names is None and self.random.random() < 0.7:
            # Few kinds meet one another often.
            menu = [*self.random.sample(list(_OPS), 5), *_CASTS]
        for _ in range(ops):
            if self.random.random() < 0.08:
                shape = tuple(max(n, 1) for n in self._shape())
                self.values.append(self.like(self._element(shape), shape))
            self.grow(self.random.choice(menu))
        made = [v for v in self.values if isinstance(v.owner, Operation)] or self.values
        ends = [v for v in made if v.first_use is None] if self.alike else []
        returned = [
            made[-1],
            *ends,
            *self.random.sample(made, min(len(made), self.random.randint(0, 2))),
        ]
        returned = list(dict.fromkeys(returned))
        self.block.add_op(ReturnOp(*returned))
        kinds = FunctionType.from_lists(
            [a.type for a in self.block.args], [v.type for v in returned]
        )
        module = ModuleOp([FuncOp("main", kinds, Region([self.block]))])
        if self.wild and self.random.random() < 0.1:
            module = _nested(module)
        return module


def with_call(module: ModuleOp, seed: int, name: str = "called", times: int = 1) -> ModuleOp:
    """The program with some of its ops in a private function, called `name`, that it calls; and
    calls again, on the same values or on others, up to `times` times in all."""
    main = next(op for op in module.ops if isinstance(op, FuncOp))
    *ops, _ = main.body.block.ops
    choose = random.Random(seed)
    first = choose.randrange(len(ops))
    moved = ops[first : first + choose.randint(1, 8)]
    inside = set(moved)
    taken = list(dict.fromkeys(v for op in moved for v in op.operands if v.owner not in inside))
    given = [
        v for op in moved for v in op.results if any(u.operation not in inside for u in v.uses)
    ]
    block = Block(arg_types=[v.type for v in taken])
    call = CallOp(name, taken, [v.type for v in given])
    main.body.block.insert_op_before(call, moved[0])
    for old, new in zip(given, call.results, strict=True):
        for use in [use for use in old.uses if use.operation not in inside]:
            use.operation.operands[use.index] = new
    for op in moved:
        op.detach()
        block.add_op(op)
    for old, new in zip(taken, block.args, strict=True):
        for use in [use for use in old.uses if use.operation in inside]:
            use.operation.operands[use.index] = new
    block.add_op(ReturnOp(*given))
    kinds = FunctionType.from_lists([v.type for v in taken], [v.type for v in given])
    module.body.block.add_op(FuncOp(name, kinds, Region([block]), "private"))
    for _ in range(times - 1 if given else 0):
        _call_again(main, call, choose)
    return module


def _call_again(main: FuncOp, call: CallOp, choose: random.Random) -> None:
    """Call a function again at the end of `main`, which returns what that gives."""
    last = main.body.block.last_op
    assert last is not None
    values = [*main.body.block.args, *(v for op in main.body.block.ops for v in op.results)]
    taken = [choose.choice([v for v in values if v.type == o.type]) for o in call.operands]
    again = CallOp(call.callee, taken, call.result_types)
    main.body.block.insert_op_before(again, last)
    last.operands = [*last.operands, *again.results]
    main.update_function_type()


def _nested(module: ModuleOp) -> ModuleOp:
    """The function beside a module inside the module, which passes must leave alone or do too."""
    inner = module.clone()
    module.body.block.add_op(ModuleOp(list(_detached(inner))))
    return module


def _detached(module: ModuleOp) -> list[Operation]:
    ops = list(module.ops)
    for op in ops:
        op.detach()
    return ops


def width_of(value: SSAValue) -> int:
    """Bits of an integer."""
    kind = element_type(value.type)
    assert isinstance(kind, IntegerType)
    return kind.width.data


def _is_code(value: SSAValue) -> bool:
    return quant_element(value.type) is not None


def _can_be_float(op: Operation) -> bool:
    if not op.name.startswith("nn.") or op.name == "nn.table" or len(op.results) != 1:
        return False
    return all(quant_element(value.type) for value in (*op.operands, *op.results))


def _is_gone(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is None


def _shapes(op: type, operands: Sequence[SSAValue], properties: dict[str, Any]) -> list[Any]:
    definition = op.get_irdl_definition()
    values = {
        n: to_python(p.default_value)
        for n, p in definition.properties.items()
        if p.default_value is not None
    }
    values.update({n: tuple(v) if isinstance(v, list) else v for n, v in properties.items()})
    return op.infer([shape_of(v) for v in operands], values)


_OPS: dict[str, Any] = {op.name: op for op in NN.operations if op.name != "nn.constant"}
_CASTS = ("quant.qcast", "quant.dcast", "quant.rescale", "quant.scast")

NAMES: tuple[str, ...] = (*_OPS, *_CASTS)
"""Every op that programs are made of."""

REQUANTIZING = (
    *("quant.rescale",) * 16, *("nn.add", "nn.sub") * 4,
    *("nn.maximum", "nn.concat", "nn.relu") * 2,
    "quant.qcast", "quant.dcast", "nn.mul", "nn.clip", "nn.transpose", "nn.reshape", "nn.flip",
    "nn.slice", "nn.max_pool2d", "nn.avg_pool2d", "nn.reduce_mean", "nn.reduce_max", "nn.matmul",
    "nn.conv2d", "nn.fully_connected", "nn.pad", "nn.tile", "nn.split", "nn.sigmoid", "nn.table",
    "nn.leaky_relu", "nn.neg", "nn.global_avg_pool2d", "nn.minimum", "nn.abs",
)  # fmt: skip
"""Op names, some several times, of programs in which many rewrites that are not exact fire."""

MOVING = (
    *("quant.rescale",) * 14, *("nn.slice", "nn.gather", "nn.concat") * 3,
    *("nn.tile", "nn.max_pool2d", "nn.relu", "nn.maximum", "nn.reduce_max") * 2,
    "nn.transpose", "nn.reshape", "nn.flip", "nn.pad", "nn.repeat", "nn.expand", "nn.split",
    "nn.clip", "nn.minimum", "nn.select", "nn.add", "nn.sigmoid", "nn.arg_max", "nn.avg_pool2d",
)  # fmt: skip
"""Op names, some several times, of programs in which rescales may stand in many places."""


def random_program(
    seed: int,
    ops: int = 12,
    *,
    wild: bool = True,
    names: Sequence[str] | None = None,
    alike: bool = False,
    blocks: bool = False,
) -> tuple[ModuleOp, QContext]:
    """A verified program and its session."""
    ctx = new_context()
    module = Builder(seed, ctx, wild=wild, alike=alike, blocks=blocks).program(ops, names)
    verify_module(module, ctx.blobs, behaviors=ctx.behaviors)
    return module, ctx


class FloatBuilder(Builder):
    """Of ops on floats: only what takes codes whatever else it takes has them, as constants."""

    def _element(self, shape: Sequence[int] = ()) -> Attribute:
        return f32


def float_network(names: Sequence[str], seed: int) -> tuple[ModuleOp, QContext] | None:
    """A verified network of these ops in this order, on floats; all that no op takes, and every
    result of the op that is there most, is returned. None: one of them takes no floats here."""
    ctx = new_context()
    builder = FloatBuilder(seed, ctx, wild=False)
    if not all(builder.grow(name) for name in names):
        return None
    block, counted = builder.block, max(names, key=names.count)
    returned = [
        value
        for op in block.ops
        for value in op.results
        if op.name == counted or (op.name != "nn.constant" and value.first_use is None)
    ]
    block.add_op(ReturnOp(*returned))
    for argument in list(block.args):
        if argument.first_use is None:
            block.erase_arg(argument)
    kinds = FunctionType.from_lists([a.type for a in block.args], [v.type for v in returned])
    module = ModuleOp([FuncOp("main", kinds, Region([block]))])
    verify_module(module, ctx.blobs, behaviors=ctx.behaviors)
    return module, ctx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--ops", type=int, default=12)
    parser.add_argument("--mild", action="store_true", help="what integer engines can run")
    options = parser.parse_args()
    module, ctx = random_program(options.seed, options.ops, wild=not options.mild)
    print(module_text(module, ctx, inline_weights=True))


if __name__ == "__main__":
    main()
