"""LSTM and GRU as ONNX nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.ops import shape_of

if TYPE_CHECKING:
    from qdialect.formats.onnx.write.float_ops import Call


def lstm(call: Call) -> None:
    """`LSTM`; initial states and peepholes come after the sequence lengths."""
    _write(call, "LSTM")


def gru(call: Call) -> None:
    """`GRU`."""
    reset = int(call.values["linear_before_reset"])
    _write(call, "GRU", linear_before_reset=reset or None)


def _write(call: Call, op_type: str, **attributes: int | None) -> None:
    inputs, states = call.inputs[:4], call.inputs[4:]
    call.node(
        op_type,
        *inputs,
        *(("", *states) if states else ()),
        direction=call.values["direction"],
        hidden_size=shape_of(call.op.operands[2])[2],
        **attributes,
    )
