"""What composite ops are made of: each as a small float program with named pieces.

A target may keep a composite op whole or lower it to other ops. Calibration must know
the ranges of those other ops before anybody has decided, so each composite declares its
pieces here once, by role:

    Components(roles=("matmul", "bias_add"), build=...)

`build` writes the pieces of one op and gives the value that stands for its result. The
key of a piece is the key of the op, a slash and the role (`fc1/matmul`). The last role is
the result of the composite itself and goes under the key of the op (`fc1`). An op need
not have all roles: without a bias a convolution is one piece, and no composite.

A session holds the table (`ctx.components`), so that a backend adds its own ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors.shapes import shape_of, tensor_type
from qdialect.ops import recurrent_components
from qdialect.ops.activations import ClipOp, HardSigmoidOp, HardSwishOp, SigmoidOp, TanhOp
from qdialect.ops.attention import AttentionOp
from qdialect.ops.base import KEY, NNOp
from qdialect.ops.component_keys import (
    OTHERS,
    given_keys,
    hold_keys,
    inner_keys,
    key_attribute,
    numbered,
    role_keys,
)
from qdialect.ops.constants import constant_array, constant_of, make_constant
from qdialect.ops.contraction import (
    Conv1DOp,
    Conv2DOp,
    Conv3DOp,
    ConvTranspose1DOp,
    ConvTranspose2DOp,
    ConvTranspose3DOp,
    FullyConnectedOp,
    MatMulOp,
)
from qdialect.ops.elementwise import AddOp, DivOp, MulOp, SubOp
from qdialect.ops.functions import ErfOp, ExpOp, GeluOp, PowOp, SqrtOp, SwishOp
from qdialect.ops.keys import keys_of
from qdialect.ops.normalization import BatchNormOp, LayerNormOp, LrnOp, SoftmaxOp
from qdialect.ops.recurrent import GruOp, LstmOp
from qdialect.ops.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from qdialect.ops.shapes import DYNAMIC, normalize_axes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.weights import BlobStore


@dataclass
class Pieces:
    """Where the pieces of one op are written: before the op, with keys by role."""

    op: Operation
    store: BlobStore
    keys: Mapping[str, tuple[str, ...]]
    #: the values of each role; several if pieces are repeated
    values: dict[str, list[SSAValue]] = field(default_factory=dict[str, "list[SSAValue]"])
    #: whether the float type lacks a number that the declaration asks for
    rounds_constants: bool = False

    def add(self, role: str, piece: NNOp) -> SSAValue:
        """A piece; its result by `role`, of which there may be several."""
        return self.put(role, piece, self.emit(piece))

    def put(self, role: str, piece: Operation, value: SSAValue) -> SSAValue:
        """What `piece` makes is a value of `role`."""
        self.put_keys(role, piece)
        self.values.setdefault(role, []).append(value)
        return value

    def put_keys(self, role: str, piece: Operation) -> None:
        """The keys of a role, on the op that makes its next value; numbered but the first."""
        if keys := self.keys.get(role, ()):
            count = len(self.values.get(role, ()))
            piece.attributes[KEY] = key_attribute(numbered(keys, count))
        given = inner_keys(self.op, role)
        if [*self.keys][-1:] == [role]:
            # The last piece is the op itself.
            given[OTHERS] = given_keys(self.op).get(OTHERS, ())
        hold_keys(piece, given)

    def emit(self, op: Operation) -> SSAValue:
        """An op that is no piece by itself, such as a constant; its result."""
        block = self.op.parent
        assert block is not None
        op.location = self.op.location
        block.insert_op_before(op, self.op)
        return op.results[0]

    def constant(self, array: NDArray[np.float64]) -> SSAValue:
        """A constant of the element type of the op's first operand."""
        element = tensor_type(self.op.operands[0]).element_type
        numbers = self.rounded(array, str(element))
        return self.emit(make_constant(numbers, element, self.store))

    def rounded(self, array: NDArray[np.float64], element: str) -> NDArray[np.floating]:
        """Numbers as a float type has them."""
        numbers = array.astype({"f16": "f2", "f64": "f8"}.get(element, "f4"))
        self.rounds_constants |= bool((numbers != array).any())
        return numbers

    def number(self, value: float) -> SSAValue:
        """A scalar, see `constant`."""
        import numpy as np

        return self.constant(np.array(value))

    def plain(self, value: SSAValue) -> SSAValue:
        """An operand that is floats whatever the others are, as pieces take it."""
        return value

    def array(self, value: SSAValue) -> NDArray[np.float64] | None:
        """A constant operand as float64, else None."""
        op = constant_of(value)
        return None if op is None else constant_array(op, self.store).astype("f8")


Build = Callable[[Operation, Pieces], "SSAValue | None"]


@dataclass(frozen=True)
class Components:
    """The roles of a composite op, in order, and the program of its pieces.

    `present` says which of them an op has (all, unless given); one is none. `build`
    writes these, or gives None before it has written anything if it cannot tell their
    values (weights that are no constants). `sums` are roles of products that are only
    being added to: on quantized operands they stay accumulators. `inner` names the op of
    a piece that is a composite itself. `also` are other ways in which files write the op.
    """

    roles: tuple[str, ...]
    build: Build
    present: Callable[[Operation], tuple[str, ...]] | None = None
    sums: frozenset[str] = frozenset()
    inner: Mapping[str, str] = field(default_factory=dict[str, str])
    also: tuple[Build, ...] = ()

    def roles_of(self, op: Operation) -> tuple[str, ...]:
        """The roles that `op` has, in order; none if it is one piece."""
        found = self.roles if self.present is None else self.present(op)
        return found if len(found) > 1 else ()

    def inner_roles(self, op: Operation, table: Mapping[str, Components]) -> tuple[str, ...]:
        """Roles that pieces of the pieces of `op` may have, at any depth, as `role/inner`."""
        return tuple(self._below(self.roles_of(op), table, frozenset({op.name})))

    def _below(
        self, roles: Iterable[str], table: Mapping[str, Components], above: frozenset[str]
    ) -> Iterator[str]:
        for role in roles:
            kind = self.inner.get(role, "")
            if kind not in table or kind in above:
                continue
            parts = table[kind].roles[:-1]
            yield from (f"{role}/{part}" for part in parts)
            deeper = table[kind]._below(parts, table, above | {kind})
            yield from (f"{role}/{part}" for part in deeper)

    def keys_of(self, op: Operation) -> dict[str, tuple[str, ...]]:
        """The keys of every piece of `op`, by role."""
        roles = self.roles_of(op)
        return {role: keys_of(op) if role == roles[-1] else role_keys(op, role) for role in roles}


def _fully_connected(op: Operation, pieces: Pieces) -> SSAValue:
    x, weight, *bias = op.operands
    product = pieces.add("matmul", FullyConnectedOp(x, weight))
    return pieces.add("bias_add", AddOp(product, bias[0]))


def _convolution(op: Operation, pieces: Pieces) -> SSAValue:
    from qdialect.ops.views import UnsqueezeOp

    x, weight, *bias = op.operands
    kind = cast("type[NNOp]", type(op))
    product = pieces.add("conv", kind(x, weight, **cast("NNOp", op).values))
    column = pieces.emit(UnsqueezeOp(bias[0], axes=range(1, len(shape_of(x)) - 1)))
    return pieces.add("bias_add", AddOp(product, column))


def _batch_norm(op: Operation, pieces: Pieces) -> SSAValue | None:
    """(x - mean) * factor + bias, where factor = scale / sqrt(variance + epsilon)."""
    import numpy as np

    x, *vectors = op.operands
    arrays = [pieces.array(vector) for vector in vectors]
    if any(array is None for array in arrays):
        return None
    scale, bias, mean, variance = cast("list[NDArray[np.float64]]", arrays)
    epsilon: float = cast("NNOp", op).values["epsilon"]
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
    column = (-1, *(1,) * (len(shape_of(x)) - 2))
    centered = pieces.add("sub_mean", SubOp(x, pieces.constant(mean.reshape(column))))
    scaled = pieces.add("scaled", MulOp(centered, pieces.constant(factor.reshape(column))))
    return pieces.add("result", AddOp(scaled, pieces.constant(bias.reshape(column))))


def _hard_sigmoid(op: Operation, pieces: Pieces) -> SSAValue:
    values = cast("NNOp", op).values
    gate = _line(pieces, op.operands[0], values["alpha"], values["beta"])
    return pieces.add("result", ClipOp(gate, min=0.0, max=1.0))


def _hard_swish(op: Operation, pieces: Pieces) -> SSAValue:
    x = op.operands[0]
    gate = pieces.add("gate", ClipOp(_line(pieces, x, 1 / 6, 0.5), min=0.0, max=1.0))
    return pieces.add("result", MulOp(x, gate))


def _hard_swish_of_sigmoid(op: Operation, pieces: Pieces) -> SSAValue:
    x = op.operands[0]
    gate = pieces.add("gate", HardSigmoidOp(x, alpha=1 / 6, beta=0.5))
    return pieces.add("result", MulOp(x, gate))


def _hard_swish_of_relu6(op: Operation, pieces: Pieces) -> SSAValue:
    x = op.operands[0]
    gate = pieces.emit(ClipOp(pieces.emit(AddOp(x, pieces.number(3.0))), min=0.0, max=6.0))
    return pieces.add("result", MulOp(pieces.emit(MulOp(x, gate)), pieces.number(1 / 6)))


def _swish(op: Operation, pieces: Pieces) -> SSAValue:
    x, alpha = op.operands[0], cast("NNOp", op).values["alpha"]
    scaled = x if alpha == 1.0 else pieces.add("scaled", MulOp(x, pieces.number(alpha)))
    return pieces.add("result", MulOp(x, pieces.add("sigmoid", SigmoidOp(scaled))))


def _gelu(op: Operation, pieces: Pieces) -> SSAValue:
    x = op.operands[0]
    if cast("NNOp", op).values["approximate"] == "none":
        scaled = pieces.add("scaled", MulOp(x, pieces.number(math.sqrt(0.5))))
        gate = pieces.add("erf", ErfOp(scaled))
    else:
        square = pieces.add("square", MulOp(x, x))
        cube = pieces.add("cube", MulOp(square, x))
        weighted = pieces.add("weighted", MulOp(cube, pieces.number(0.044715)))
        inner = pieces.add("inner", AddOp(x, weighted))
        scaled = pieces.add("scaled", MulOp(inner, pieces.number(math.sqrt(2 / math.pi))))
        gate = pieces.add("tanh", TanhOp(scaled))
    shifted = pieces.add("shifted", AddOp(gate, pieces.number(1.0)))
    halved = pieces.add("halved", MulOp(x, pieces.number(0.5)))
    return pieces.add("result", MulOp(halved, shifted))


def _softmax(op: Operation, pieces: Pieces) -> SSAValue:
    """exp(x - max x) / sum of it."""
    x, axes = op.operands[0], (cast("NNOp", op).values["axis"],)
    largest = pieces.emit(ReduceMaxOp(x, axes=axes))
    powers = pieces.add("exp", ExpOp(pieces.add("sub_max", SubOp(x, largest))))
    return pieces.add("result", DivOp(powers, pieces.add("sum", ReduceSumOp(powers, axes=axes))))


def _layer_norm(op: Operation, pieces: Pieces) -> SSAValue:
    x, values = op.operands[0], cast("NNOp", op).values
    rank = len(shape_of(x))
    axes = range(values["axis"] % rank, rank)
    mean = pieces.add("mean", ReduceMeanOp(x, axes=axes))
    centered = pieces.add("centered", SubOp(x, mean))
    square = pieces.add("square", MulOp(centered, centered))
    variance = pieces.add("variance", ReduceMeanOp(square, axes=axes))
    shifted = pieces.add("shifted", AddOp(variance, pieces.number(values["epsilon"])))
    deviation = pieces.add("deviation", SqrtOp(shifted))
    normalized = pieces.add("normalized", DivOp(centered, deviation))
    scale, *bias = (pieces.plain(value) for value in op.operands[1:])
    if not bias:
        return pieces.add("result", MulOp(normalized, scale))
    return pieces.add("result", AddOp(pieces.add("scaled", MulOp(normalized, scale)), bias[0]))


_LAYER_NORM = ("mean", "centered", "square", "variance", "shifted", "deviation", "normalized")


def _layer_norm_roles(op: Operation) -> tuple[str, ...]:
    return (*_LAYER_NORM, *(("scaled", "result") if len(op.operands) > 2 else ("result",)))


def _attention(op: Operation, pieces: Pieces) -> SSAValue:
    from qdialect.ops.movement import TransposeOp

    query, key, value, *mask = op.operands
    turned = pieces.emit(TransposeOp(key, perm=(0, 1, 3, 2)))
    scores = pieces.add("qk", MatMulOp(query, turned))
    scores = pieces.add("scaled", MulOp(scores, pieces.number(cast("NNOp", op).values["scale"])))
    if mask:
        scores = pieces.add("masked", AddOp(scores, pieces.plain(mask[0])))
    return pieces.add("av", MatMulOp(pieces.add("softmax", SoftmaxOp(scores)), value))


def _attention_roles(op: Operation) -> tuple[str, ...]:
    return ("qk", "scaled", *(("masked",) if len(op.operands) > 3 else ()), "softmax", "av")


def _lrn(op: Operation, pieces: Pieces) -> SSAValue | None:
    """x * (bias + alpha * mean of squares)^-beta, the mean by a pool across channels."""
    from qdialect.ops.pooling import AVERAGE_POOLS
    from qdialect.ops.views import SqueezeOp, UnsqueezeOp

    x, values = op.operands[0], cast("NNOp", op).values
    rank, size = len(shape_of(x)), values["size"]
    if rank - 1 > len(AVERAGE_POOLS):
        return None
    before, ones, zeros = (size - 1) // 2, (1,) * (rank - 2), (0,) * (rank - 2)
    squares = pieces.emit(UnsqueezeOp(pieces.add("square", MulOp(x, x)), axes=(1,)))
    pool = AVERAGE_POOLS[rank - 2](
        squares,
        kernel=(size, *ones),
        strides=(1, *ones),
        dilations=(1, *ones),
        pads=(before, *zeros, size - 1 - before, *zeros),
        count_include_pad=True,
    )
    mean = pieces.emit(SqueezeOp(pieces.add("mean", pool), axes=(1,)))
    scaled = pieces.add("scaled", MulOp(mean, pieces.number(values["alpha"])))
    shifted = pieces.add("shifted", AddOp(scaled, pieces.number(values["bias"])))
    power = pieces.add("power", PowOp(shifted, exponent=-values["beta"]))
    return pieces.add("result", MulOp(x, power))


def _reduce_mean(op: Operation, pieces: Pieces) -> SSAValue:
    x, values = op.operands[0], cast("NNOp", op).values
    total = pieces.add("sum", ReduceSumOp(x, axes=values["axes"], keepdims=values["keepdims"]))
    shape = shape_of(x)
    counted = [shape[axis] for axis in normalize_axes(values["axes"], len(shape))]
    if DYNAMIC in counted:
        # The sum over a count that is known only when the model runs.
        return pieces.add("result", ReduceMeanOp(x, **values))
    return pieces.add("result", DivOp(total, pieces.number(float(math.prod(counted)))))


def _line(pieces: Pieces, x: SSAValue, slope: float, offset: float) -> SSAValue:
    """slope * x + offset, as the pieces `scaled` and `shifted`."""
    scaled = pieces.add("scaled", MulOp(x, pieces.number(slope)))
    return pieces.add("shifted", AddOp(scaled, pieces.number(offset)))


def _with_bias(product: str) -> Callable[[Operation], tuple[str, ...]]:
    return lambda op: (product, "bias_add") if len(op.operands) > 2 else (product,)


def _swish_roles(op: Operation) -> tuple[str, ...]:
    rest = ("sigmoid", "result")
    return rest if cast("NNOp", op).values["alpha"] == 1.0 else ("scaled", *rest)


_GELU = ("scaled", "erf", "shifted", "halved", "result")
_GELU_TANH = ("square", "cube", "weighted", "inner", "scaled", "tanh", *_GELU[2:])


def _gelu_roles(op: Operation) -> tuple[str, ...]:
    return _GELU if cast("NNOp", op).values["approximate"] == "none" else _GELU_TANH


COMPONENTS: Mapping[str, Components] = {
    FullyConnectedOp.name: Components(
        ("matmul", "bias_add"),
        _fully_connected,
        _with_bias("matmul"),
        sums=frozenset({"matmul"}),
    ),
    **{
        kind.name: Components(
            ("conv", "bias_add"), _convolution, _with_bias("conv"), sums=frozenset({"conv"})
        )
        for kind in (
            Conv1DOp,
            Conv2DOp,
            Conv3DOp,
            ConvTranspose1DOp,
            ConvTranspose2DOp,
            ConvTranspose3DOp,
        )
    },
    BatchNormOp.name: Components(("sub_mean", "scaled", "result"), _batch_norm),
    HardSigmoidOp.name: Components(("scaled", "shifted", "result"), _hard_sigmoid),
    HardSwishOp.name: Components(
        ("scaled", "shifted", "gate", "result"),
        _hard_swish,
        also=(_hard_swish_of_sigmoid, _hard_swish_of_relu6),
    ),
    SoftmaxOp.name: Components(("sub_max", "exp", "sum", "result"), _softmax),
    AttentionOp.name: Components(
        ("qk", "scaled", "masked", "softmax", "av"),
        _attention,
        _attention_roles,
        sums=frozenset({"qk"}),
        inner={"softmax": SoftmaxOp.name},
    ),
    LayerNormOp.name: Components(
        (*_LAYER_NORM, "scaled", "result"),
        _layer_norm,
        _layer_norm_roles,
        inner={"mean": ReduceMeanOp.name, "variance": ReduceMeanOp.name},
    ),
    LstmOp.name: Components(
        recurrent_components.LSTM_ROLES,
        recurrent_components.lstm,
        recurrent_components.lstm_roles,
        sums=frozenset({"from_input", "from_hidden"}),
    ),
    GruOp.name: Components(
        recurrent_components.GRU_ROLES,
        recurrent_components.gru,
        recurrent_components.gru_roles,
        sums=frozenset({"from_input", "from_hidden", "from_reset"}),
    ),
    LrnOp.name: Components(("square", "mean", "scaled", "shifted", "power", "result"), _lrn),
    ReduceMeanOp.name: Components(("sum", "result"), _reduce_mean, sums=frozenset({"sum"})),
    SwishOp.name: Components(("scaled", "sigmoid", "result"), _swish, _swish_roles),
    GeluOp.name: Components((*_GELU_TANH[:-3], "erf", *_GELU[2:]), _gelu, _gelu_roles),
}
"""The composite ops of the `nn` dialect."""
