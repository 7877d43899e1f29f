"""Ops that pick, repeat and rearrange elements as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdialect.ir.ops import shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write.float_ops import Call, Writer


def axes(op_type: str) -> Writer:
    """Squeeze and Unsqueeze: axes are an input from opset 13 on."""

    def write(call: Call) -> None:
        listed = list(call.values["axes"])
        if call.exporter.opset >= 13:
            call.node(op_type, call.inputs[0], call.ints(1, "axes", listed))
        else:
            call.node(op_type, axes=listed)

    return write


def expand(call: Call) -> None:
    """`nn.expand` as Expand."""
    call.node("Expand", call.inputs[0], call.ints(1, "shape", list(call.values["shape"])))


def tile(call: Call) -> None:
    """`nn.tile` as Tile."""
    call.node("Tile", call.inputs[0], call.ints(1, "repeats", list(call.values["repeats"])))


def repeat(call: Call) -> None:
    """`nn.repeat` as one Gather per repeated dimension."""
    shape = shape_of(call.op.operands[0])
    repeated = [(d, n) for d, n in enumerate(call.values["repeats"]) if n != 1]
    source = call.inputs[0]
    for number, (axis, count) in enumerate(repeated, 1):
        if shape[axis] == DYNAMIC:
            raise call.exporter.unsupported(call.op, "repeats a dimension of unknown extent")
        last = number == len(repeated)
        target = call.output if last else call.exporter.graph.tensor(f"{call.output}_axis{axis}")
        indices = [i for i in range(shape[axis]) for _ in range(count)]
        named = call.exporter.graph.ints(f"{call.key}_indices{axis}", indices)
        name = call.key if last else f"{call.key}_axis{axis}"
        call.exporter.graph.node("Gather", [source, named], [target], name, axis=axis)
        source = target
    if not repeated:
        call.node("Identity")


def flip(call: Call) -> None:
    """`nn.flip` as a Slice that steps backwards."""
    listed = list(call.values["axes"])
    if not listed:
        call.node("Identity")
        return
    inputs = [
        call.ints(1, "starts", [-1] * len(listed)),
        call.ints(2, "ends", [-(2**63)] * len(listed)),
        call.ints(3, "axes", listed),
        call.ints(4, "steps", [-1] * len(listed)),
    ]
    call.node("Slice", call.inputs[0], *inputs)


def split(call: Call) -> None:
    """`nn.split` as Split: sizes are an input from opset 13 on.

    Of floats, parts that are codes are quantized one by one.
    """
    exporter, v = call.exporter, call.values
    names = exporter.output_names(call.op, call.key)
    parts = list(zip(call.op.results[1:], names[1:], strict=True))
    on_floats = call.inputs[0] != exporter.tensor(call.op.operands[0])
    casts = [on_floats and quant_element(result.type) is not None for result, _ in parts]
    rest = [
        exporter.graph.tensor(f"{name}_real") if cast else exporter.claim(result, name)
        for (result, name), cast in zip(parts, casts, strict=True)
    ]
    inputs, attributes = [call.inputs[0]], dict[str, Any](axis=v["axis"])
    if exporter.opset >= 13:
        inputs.append(call.ints(1, "split", list(v["sizes"])))
    else:
        attributes["split"] = v["sizes"]
    exporter.graph.node("Split", inputs, [call.output, *rest], call.key, **attributes)
    for (result, name), real, cast in zip(parts, rest, casts, strict=True):
        if cast:
            exporter.quantize(real, result, name, f"{name}_QuantizeLinear")


def depth_to_space(call: Call) -> None:
    """`nn.depth_to_space` as DepthToSpace; the mode exists from opset 11 on."""
    v = call.values
    if v["mode"] != "DCR" and call.exporter.opset < 11:
        raise call.exporter.unsupported(call.op, "in mode CRD needs opset 11")
    mode = v["mode"] if call.exporter.opset >= 11 else None
    call.node("DepthToSpace", blocksize=v["block"], mode=mode)


def space_to_depth(call: Call) -> None:
    """`nn.space_to_depth` as SpaceToDepth, which is DCR."""
    v = call.values
    if v["mode"] != "DCR":
        raise call.exporter.unsupported(call.op, "in mode CRD has no ONNX form")
    call.node("SpaceToDepth", blocksize=v["block"])


def resize(call: Call) -> None:
    """`nn.resize_nearest` and `nn.resize_linear` as Resize."""
    import numpy as np

    v, exporter = call.values, call.exporter
    if exporter.opset < 11:
        raise exporter.unsupported(call.op, "needs opset 11")
    absent = ""
    if exporter.opset < 13:
        absent = exporter.graph.array(f"{call.key}_roi", np.zeros(0, np.float32))
    if v.get("sizes") is not None:
        inputs = [absent, absent, call.ints(3, "sizes", list(v["sizes"]))]
    else:
        factors = np.array(v["scales"], np.float32)
        inputs = [absent, exporter.graph.array(call.param(2, "scales"), factors)]
    call.node(
        "Resize",
        call.inputs[0],
        *inputs,
        coordinate_transformation_mode=v["coordinates"],
        mode="nearest" if "nearest" in v else "linear",
        nearest_mode=v.get("nearest"),
    )


def gather(call: Call) -> None:
    """`nn.gather` as Gather."""
    call.node("Gather", axis=call.values["axis"])


def select(call: Call) -> None:
    """`nn.select` as Where."""
    call.node("Where")


def insert(call: Call) -> None:
    """`nn.insert` as ScatterND over the leading dimensions up to the last it does not fill,
    or as a Concat of what is before, the update and what is after. An unknown extent that
    both have is taken for one: a Concat fails where it is not."""
    import numpy as np

    v, exporter = call.values, call.exporter
    shape, update = (shape_of(operand) for operand in call.op.operands)
    whole = [
        n == m and start == 0 and step == 1
        for n, m, start, step in zip(shape, update, v["starts"], v["steps"], strict=True)
    ]
    if all(whole) and DYNAMIC not in update:
        call.node("Identity", call.inputs[1])
        return
    numbered = max((d + 1 for d, fills in enumerate(whole) if not fills), default=len(whole))
    if DYNAMIC not in update[:numbered] and exporter.opset >= 11:
        stretches = list(zip(update, v["starts"], v["steps"], strict=True))[:numbered]
        places = [start + step * np.arange(count) for count, start, step in stretches]
        indices = np.stack(np.meshgrid(*places, indexing="ij"), -1).astype(np.int64)
        named = exporter.graph.array(call.param(1, "indices"), indices)
        call.node("ScatterND", call.inputs[0], named, call.inputs[1])
        return
    axis = numbered - 1
    if not all(whole[:axis]) or v["steps"][axis] != 1 or update[axis] == DYNAMIC:
        raise exporter.unsupported(call.op, "inserts an update of unknown extent")
    end = v["starts"][axis] + update[axis]
    parts = [
        _part(call, "before", axis, 0, v["starts"][axis]),
        call.inputs[1],
        _part(call, "after", axis, end, 2**63 - 1),
    ]
    call.node("Concat", *parts, axis=axis)


def _part(call: Call, name: str, axis: int, start: int, stop: int) -> str:
    ints = call.exporter.graph.ints
    lists = (("starts", start), ("ends", stop), ("axes", axis))
    named = [ints(f"{call.key}_{name}_{what}", [value]) for what, value in lists]
    if call.exporter.opset < 10:
        raise call.exporter.unsupported(call.op, "needs opset 10")
    return call.step("Slice", name, call.inputs[0], *named)


INDEXING: Mapping[str, Writer] = {
    "nn.squeeze": axes("Squeeze"),
    "nn.unsqueeze": axes("Unsqueeze"),
    "nn.expand": expand,
    "nn.tile": tile,
    "nn.repeat": repeat,
    "nn.flip": flip,
    "nn.split": split,
    "nn.gather": gather,
    "nn.select": select,
    "nn.insert": insert,
    "nn.depth_to_space": depth_to_space,
    "nn.space_to_depth": space_to_depth,
    "nn.resize_nearest": resize,
    "nn.resize_linear": resize,
}
"""How each op is written (an `nn.im2col` has no ONNX form)."""
