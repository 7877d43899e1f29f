"""Comparisons, and where the extreme elements are, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.backends.onnx.plain import Call, Writer

_RELATIONS = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def compare(call: Call) -> None:
    """`nn.compare` as Equal, Less, .., or Equal and Not."""
    mode, opset = call.values["mode"], call.exporter.opset
    if opset < 11:
        raise call.exporter.unsupported(call.op, "needs opset 11")
    if mode == "ne":
        call.node("Not", call.step("Equal", "equal", *call.inputs))
    elif mode in ("le", "ge") and opset < 12:
        strict = call.step("Less" if mode == "le" else "Greater", "strict", *call.inputs)
        call.node("Or", strict, call.step("Equal", "equal", *call.inputs))
    else:
        call.node(_RELATIONS[mode])


def place(op_type: str) -> Writer:
    """`nn.arg_max` and `nn.arg_min`; which of equal elements is told from opset 12 on."""

    def write(call: Call) -> None:
        v = call.values
        if v["last"] and call.exporter.opset < 12:
            raise call.exporter.unsupported(call.op, "of the last of equal elements needs opset 12")
        last = 1 if v["last"] else None
        call.node(op_type, axis=v["axis"], keepdims=int(v["keepdims"]), select_last_index=last)

    return write


ORDERING: Mapping[str, Writer] = {
    "nn.compare": compare,
    "nn.arg_max": place("ArgMax"),
    "nn.arg_min": place("ArgMin"),
}
"""How each of these ops is written."""
