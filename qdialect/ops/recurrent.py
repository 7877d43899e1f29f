"""Recurrent layers: LSTM and GRU over a sequence, as ONNX defines them (layout 0).

%y = nn.lstm %x, %w, %r, %b : (...) -> tensor<16x1x2x32xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from qdialect import behaviors
from qdialect.ops.base import HALF_EVEN, TENSOR, NNOp, Values, boolean
from qdialect.ops.declare import Declaration, nn_op
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank

if TYPE_CHECKING:
    from qdialect.behaviors import Behavior
    from qdialect.ops.components import Components

DIRECTIONS = ("forward", "reverse", "bidirectional")


def _recurrent(*states: str) -> Declaration:
    def declare(name: str) -> Behavior:
        return behaviors.Behavior(
            name,
            (
                behaviors.Port("input"),
                behaviors.Port("weight", axes=behaviors.axes(0, 1)),
                behaviors.Port("recurrence", axes=behaviors.axes(0, 1)),
                *(
                    behaviors.Port(role, behaviors.PortKind.PLAIN, axes=behaviors.no_axes)
                    for role in ("bias", *states)
                ),
            ),
            variadic=True,
        )

    return declare


class RecurrentOp(NNOp):
    """`input` [steps, batch, in], `weight` [dirs, gates * h, in], `recurrence`
    [dirs, gates * h, h] and `bias` [dirs, 2 * gates * h]: of the weight, then of the
    recurrence. The result holds the hidden state of each step, [steps, dirs, batch, h].

    A reverse direction takes the steps from the last to the first; each of its states
    is at the step that it has just taken. States before the first step are 0 unless given.
    """

    #: gates, and the names of the operands that may follow the bias
    GATES: ClassVar[int]
    STATES: ClassVar[tuple[str, ...]]
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    recurrence = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    states = var_operand_def(TENSOR)
    result = result_def(TENSOR)
    direction = prop_def(StringAttr, StringAttr("forward"))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if values["direction"] not in DIRECTIONS:
            raise ShapeError(
                f"direction must be one of {', '.join(DIRECTIONS)}, but is '{values['direction']}'"
            )
        x, weight, recurrence = operands[:3]
        for shape, name in zip(operands, ("input", "weight", "recurrence"), strict=False):
            require_rank(shape, 3, f"{'an' if name == 'input' else 'a'} {name}")
        if DYNAMIC in (*weight, *recurrence):
            raise ShapeError("expects a weight and a recurrence of static shapes")
        dirs, hidden = directions(values), recurrence[2]
        rows = cls.GATES * hidden
        expected: dict[str, Shape] = {
            "input": (x[0], x[1], weight[2]),
            "weight": (dirs, rows, weight[2]),
            "recurrence": (dirs, rows, hidden),
            "bias": (dirs, 2 * rows),
            **dict.fromkeys(cls.STATES, (dirs, x[1], hidden)),
            "peepholes": (dirs, 3 * hidden),
        }
        names = ("input", "weight", "recurrence", "bias", *cls.operand_names(len(operands) - 4))
        for name, shape in zip(names, operands, strict=True):
            if not _fits(shape, expected[name]):
                raise ShapeError(
                    f"expects a {name} of shape {_shown(expected[name])}, but got {_shown(shape)}"
                )
        return [(x[0], dirs, x[1], hidden)]

    @classmethod
    def operand_names(cls, count: int) -> tuple[str, ...]:
        """The names of `count` operands after the bias; ShapeError for a wrong number."""
        if count not in (0, len(cls.STATES)):
            raise ShapeError(f"expects after the bias {', '.join(cls.STATES)} or nothing")
        return cls.STATES[:count]


def directions(values: Values) -> int:
    """How many directions there are."""
    return 2 if values["direction"] == "bidirectional" else 1


def _fits(shape: Shape, expected: Shape) -> bool:
    return len(shape) == len(expected) and all(
        DYNAMIC in (a, b) or a == b for a, b in zip(shape, expected, strict=True)
    )


def _shown(shape: Shape) -> str:
    return "x".join("?" if n == DYNAMIC else str(n) for n in shape) or "scalar"


def _lstm_pieces() -> Components:
    from qdialect.ops import recurrent_components as steps
    from qdialect.ops.components import Components

    sums = frozenset({"from_input", "from_hidden"})
    return Components(steps.LSTM_ROLES, steps.lstm, steps.lstm_roles, sums=sums)


@nn_op(_recurrent("initial_h", "initial_c", "peepholes"), pieces=_lstm_pieces)
class LstmOp(RecurrentOp):
    """Long short-term memory; gates i, o, f, g in the rows of the weights.

    With s the logistic function and each gate's a = x w^T + h r^T + its two biases:
    c' = s(a_f + p_f c) c + s(a_i + p_i c) tanh(a_g), h' = s(a_o + p_o c') tanh(c').
    After the bias: nothing, or `initial_h` and `initial_c` [dirs, batch, h], and then
    perhaps `peepholes` p_i, p_o, p_f [dirs, 3 * h].
    """

    name = "nn.lstm"
    GATES: ClassVar = 4
    STATES: ClassVar = ("initial_h", "initial_c")

    @classmethod
    def operand_names(cls, count: int) -> tuple[str, ...]:
        if count == 3:
            return (*cls.STATES, "peepholes")
        return super().operand_names(count)


def _gru_pieces() -> Components:
    from qdialect.ops import recurrent_components as steps
    from qdialect.ops.components import Components

    sums = frozenset({"from_input", "from_hidden", "from_reset"})
    return Components(steps.GRU_ROLES, steps.gru, steps.gru_roles, sums=sums)


@nn_op(_recurrent("initial_h"), pieces=_gru_pieces)
class GruOp(RecurrentOp):
    """Gated recurrent unit; gates z, r and the candidate in the rows of the weights.

    z = s(a_z), r = s(a_r), h' = (1 - z) n + z h. The candidate is
    n = tanh(x w^T + (r h) r_n^T + its biases) or, with `linear_before_reset`,
    n = tanh(x w^T + b_w + r (h r_n^T + b_r)). After the bias: nothing, or `initial_h`.
    """

    name = "nn.gru"
    GATES: ClassVar = 3
    STATES: ClassVar = ("initial_h",)
    linear_before_reset = prop_def(BoolAttr, boolean(False))
