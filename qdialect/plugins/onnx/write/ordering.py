"""Comparisons, extreme elements and where they are, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.plugins.onnx.write.float_ops import Call, Writer

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
    if mode == "ne":
        call.node("Not", call.step("Equal", "equal", *call.inputs))
    elif mode in ("le", "ge") and opset < 12:
        strict = call.step("Less" if mode == "le" else "Greater", "strict", *call.inputs)
        call.node("Or", strict, call.step("Equal", "equal", *call.inputs))
    else:
        call.node(_RELATIONS[mode])


def place(op_type: str) -> Writer:
    """`nn.arg_max` and `nn.arg_min`; which of equal elements is said from opset 12 on."""

    def write(call: Call) -> None:
        v = call.values
        if v["last"] and call.exporter.opset < 12:
            raise call.exporter.unsupported(call.op, "of the last of equal elements needs opset 12")
        last = 1 if v["last"] else None
        call.node(op_type, axis=v["axis"], keepdims=int(v["keepdims"]), select_last_index=last)

    return write


def top_k(call: Call) -> None:
    """`nn.top_k` as TopK, before opset 10 with an attribute."""
    exporter, v = call.exporter, call.values
    if exporter.opset < 11 and not (v["largest"] and v["sorted"]):
        raise exporter.unsupported(call.op, "needs opset 11")
    indices = exporter.claim(call.op.results[1], exporter.output_names(call.op, call.key)[1])
    inputs, count = [call.inputs[0]], None
    if exporter.opset < 10:
        count = v["k"]
    else:
        inputs.append(call.ints(1, "k", [v["k"]]))
    exporter.graph.node(
        "TopK",
        inputs,
        [call.output, indices],
        call.key,
        axis=v["axis"],
        k=count,
        largest=None if v["largest"] else 0,
        sorted=None if v["sorted"] else 0,
    )


ORDERING: Mapping[str, Writer] = {
    "nn.compare": compare,
    "nn.arg_max": place("ArgMax"),
    "nn.arg_min": place("ArgMin"),
    "nn.top_k": top_k,
}
"""How each of these ops is written."""
