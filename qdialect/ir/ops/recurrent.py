"""Recurrent layers: LSTM and GRU over a sequence, as ONNX defines them (layout 0).

%y = nn.lstm %x, %w, %r, %b : (...) -> tensor<16x1x2x32xf32>
%z, %h = nn.gru %x, %w, %r, %b, %h0, %lengths last_states 1 : (...) -> (...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.ops.base import HALF_EVEN, TENSOR, NNOp, Values, boolean, integer
from qdialect.ir.ops.declare import Declaration, nn_op
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank

if TYPE_CHECKING:
    from qdialect.ir.behaviors import Behavior
    from qdialect.ir.ops.components import Components

DIRECTIONS = ("forward", "reverse", "bidirectional")


def _recurrent(*operands: str, last: Sequence[str]) -> Declaration:
    """The behavior of an op that takes these operands after the bias, floats but states, and gives
    `last` states after the states of all steps."""

    def declare(name: str) -> Behavior:
        plain = behaviors.PortKind.PLAIN
        return behaviors.Behavior(
            name,
            (
                behaviors.Port("input"),
                behaviors.Port("weight", axes=behaviors.axes(0, 1), channels=1),
                behaviors.Port("recurrence", axes=behaviors.axes(0, 1), channels=1),
                behaviors.Port("bias", plain),
                *(
                    behaviors.Port(
                        role, behaviors.PortKind.REQUANT if role.startswith("initial") else plain
                    )
                    for role in operands
                ),
            ),
            tuple(behaviors.Port(role) for role in ("result", *last)),
            variadic=True,
        )

    return declare


class RecurrentOp(NNOp):
    """`input` [steps, batch, in], `weight` [dirs, gates * h, in], `recurrence`
    [dirs, gates * h, h] and `bias` [dirs, 2 * gates * h]: of the weight, then of the
    recurrence. The result holds the hidden state of each step, [steps, dirs, batch, h].

    A reverse direction takes the steps from the last to the first; each of its states
    is at the step that it has just taken. States before the first step are 0 unless given, each
    [dirs, batch, h], or [dirs, 1, h] for all of the batch.

    The last operand may be `lengths` [batch] of integers: how many steps each sequence of the
    batch has. Hidden states of further steps are 0, and no state changes there.

    With `last_states` the states after the last step that each direction takes follow as results:
    1 the hidden state, [dirs, batch, h]; 2, of an LSTM, that and the cell state.
    """

    #: gates, and the names of the operands that may follow the bias
    GATES: ClassVar[int]
    STATES: ClassVar[tuple[str, ...]]
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    recurrence = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    states = var_operand_def(TENSOR)
    outputs = var_result_def(TENSOR)
    direction = prop_def(StringAttr, StringAttr("forward"))
    last_states = prop_def(IntegerAttr, integer(0))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if values["direction"] not in DIRECTIONS:
            raise ShapeError(
                f"direction must be one of {', '.join(DIRECTIONS)}, but is '{values['direction']}'"
            )
        if not 0 <= values["last_states"] <= len(cls.STATES):
            raise ShapeError(
                f"has up to {len(cls.STATES)} last states, not {values['last_states']}"
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
            "lengths": (x[1],),
        }
        names = ("input", "weight", "recurrence", "bias", *cls.operand_names(operands[4:]))
        for name, shape in zip(names, operands, strict=True):
            extents = expected[name]
            if name in cls.STATES and shape == (dirs, 1, hidden):
                continue
            if not _fits(shape, extents):
                raise ShapeError(
                    f"expects a {name} of shape {_shown(extents)}, but got {_shown(shape)}"
                )
        state = (dirs, x[1], hidden)
        return [(x[0], *state), *[state] * values["last_states"]]

    @classmethod
    def operand_names(cls, operands: Sequence[Shape]) -> tuple[str, ...]:
        """The names of operands of these shapes after the bias; ShapeError for a wrong number."""
        states, more = len(cls.STATES), operands[len(cls.STATES) :]
        if not operands:
            return ()
        named = cls._more(more)
        if len(operands) < states or named is None:
            raise ShapeError(f"expects after the bias {', '.join(cls.STATES)} or nothing")
        return (*cls.STATES, *named)

    @classmethod
    def _more(cls, operands: Sequence[Shape]) -> tuple[str, ...] | None:
        """The names of operands after the states; None for a wrong number."""
        return (("lengths",) * len(operands)) if len(operands) < 2 else None

    def operand_named(self, name: str) -> SSAValue | None:
        """The operand after the bias that has a name, if the op has it."""
        operands = self.operands[4:]
        names = self.operand_names([shape_of(value) for value in operands])
        return operands[names.index(name)] if name in names else None

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        super().verify_()
        lengths = self.operand_named("lengths")
        element = None if lengths is None else tensor_type(lengths).element_type
        if element is not None and not isinstance(element, IntegerType):
            raise VerifyException(
                f"'{self.name}' op expects lengths of integers, but got {element}"
            )


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
    from qdialect.ir.ops import recurrent_components as steps
    from qdialect.ir.ops.components import Components

    sums = frozenset({"from_input", "from_hidden"})
    return Components(
        steps.LSTM_ROLES, steps.lstm, steps.lstm_roles, sums=sums, results=steps.LSTM_LAST
    )


@nn_op(
    _recurrent("initial_h", "initial_c", "peepholes", last=("last_hidden", "last_cell")),
    pieces=_lstm_pieces,
)
class LstmOp(RecurrentOp):
    """Long short-term memory; gates i, o, f, g in the rows of the weights.

    With s the logistic function and each gate's a = x w^T + h r^T + its two biases:
    c' = s(a_f + p_f c) c + s(a_i + p_i c) tanh(a_g), h' = s(a_o + p_o c') tanh(c').
    After the bias: nothing, or `initial_h` and `initial_c`, and then perhaps `peepholes`
    p_i, p_o, p_f [dirs, 3 * h], and perhaps `lengths`.
    """

    name = "nn.lstm"
    GATES: ClassVar = 4
    STATES: ClassVar = ("initial_h", "initial_c")

    @classmethod
    def _more(cls, operands: Sequence[Shape]) -> tuple[str, ...] | None:
        if operands and len(operands[0]) == 1:
            return super()._more(operands)
        lengths = super()._more(operands[1:])
        return None if lengths is None else ("peepholes", *lengths)[: len(operands)]


def _gru_pieces() -> Components:
    from qdialect.ir.ops import recurrent_components as steps
    from qdialect.ir.ops.components import Components

    sums = frozenset({"from_input", "from_hidden", "from_reset"})
    return Components(
        steps.GRU_ROLES, steps.gru, steps.gru_roles, sums=sums, results=steps.GRU_LAST
    )


@nn_op(_recurrent("initial_h", "lengths", last=("last_hidden",)), pieces=_gru_pieces)
class GruOp(RecurrentOp):
    """Gated recurrent unit; gates z, r and the candidate in the rows of the weights.

    z = s(a_z), r = s(a_r), h' = (1 - z) n + z h. The candidate is
    n = tanh(x w^T + (r h) r_n^T + its biases) or, with `linear_before_reset`,
    n = tanh(x w^T + b_w + r (h r_n^T + b_r)). After the bias: nothing, or `initial_h`, and then
    perhaps `lengths`.
    """

    name = "nn.gru"
    GATES: ClassVar = 3
    STATES: ClassVar = ("initial_h",)
    linear_before_reset = prop_def(BoolAttr, boolean(False))
