"""LSTM, GRU and plain recurrent layers: one op for each layer, weights in the order of `nn`.

PyTorch has the gates i, f, g, o (LSTM) and r, z, n (GRU) in the rows of its weights, `nn` has
i, o, f, g and z, r, n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import strings
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import Results, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.torch.read.importer import Importer

_GATES: dict[type[nn.RecurrentOp], tuple[int, ...]] = {
    nn.LstmOp: (0, 3, 1, 2),
    nn.GruOp: (1, 0, 2),
}
_ONE = Extent.of(1)


def recurrent(kind: type[nn.LstmOp | nn.GruOp]) -> Rule:
    """`lstm.input`, `gru.input`: layers one after the other, each over all steps."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if arguments.get("train") and arguments.get("dropout"):
            raise imp.unsupported("drops values at random: export the model after model.eval()")
        x = imp.value(arguments["input"])
        params: list[Ref] = arguments["params"]
        hx = arguments["hx"]
        states: list[Ref] = [hx] if isinstance(hx, Ref) else hx
        layers, dirs = int(arguments["num_layers"]), 2 if arguments["bidirectional"] else 1
        each = (4 if arguments["has_biases"] else 2) * dirs
        if not imp.is_float(arguments["input"]) or len(params) != layers * each:
            return None  # projections have more weights
        first = bool(arguments["batch_first"])
        unbatched = len(imp.extents(x)) == 2
        if unbatched:
            steps, size = imp.extents(x)
            x = imp.reshape(x, (steps, _ONE, size))
        elif first:
            x = imp.build(nn.TransposeOp, x, perm=(1, 0, 2))
        given = [_parts(imp, s, layers, dirs, unbatched) for s in states]
        last: list[list[SSAValue]] = [[] for _ in states]
        for layer in range(layers):
            weights = params[layer * each : (layer + 1) * each]
            results = _layer(imp, kind, x, weights, dirs, [part[layer] for part in given])
            if results is None:
                return None
            x = _joined(imp, results[0], dirs)
            for collected, state in zip(last, results[1:], strict=True):
                collected.append(state)
        ends = [v[0] if len(v) == 1 else imp.build(nn.ConcatOp, *v, axis=0) for v in last]
        if unbatched:
            x, ends = _squeezed(imp, x, 1), [_squeezed(imp, end, 1) for end in ends]
        elif first:
            x = imp.build(nn.TransposeOp, x, perm=(1, 0, 2))
        return [x, *ends]

    return rule


def cell(kind: type[nn.LstmOp | nn.GruOp]) -> Rule:
    """`lstm_cell`, `gru_cell`: a layer of one step, [batch, size] to the next states."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        x, hx = imp.value(arguments["input"]), arguments["hx"]
        states = [imp.value(state) for state in ([hx] if isinstance(hx, Ref) else hx)]
        names = ("w_ih", "w_hh", "b_ih", "b_hh")
        weights: list[Ref] = [arguments[n] for n in names if arguments.get(n) is not None]
        shapes = [imp.extents(value) for value in (x, *states)]
        if not imp.is_float(arguments["input"]) or len(weights) == 3 or {*map(len, shapes)} != {2}:
            return None
        x, *states = (
            imp.reshape(value, (_ONE, *shape))
            for value, shape in zip((x, *states), shapes, strict=True)
        )
        results = _layer(imp, kind, x, weights, 1, states)
        return None if results is None else [_squeezed(imp, value, 0) for value in results[1:]]

    return rule


def _parts(imp: Importer, state: Ref, layers: int, dirs: int, unbatched: bool) -> list[SSAValue]:
    """The first states of each layer, [dirs, batch, h]."""
    value = imp.value(state)
    if unbatched:
        count, size = imp.extents(value)
        value = imp.reshape(value, (count, _ONE, size))
    if layers == 1:
        return [value]
    return list(imp.emit(nn.SplitOp(value, axis=0, sizes=[dirs] * layers)).results)


def _layer(
    imp: Importer,
    kind: type[nn.LstmOp | nn.GruOp],
    x: SSAValue,
    weights: Sequence[Ref],
    dirs: int,
    states: Sequence[SSAValue],
) -> list[SSAValue] | None:
    arrays = [imp.array(weight) for weight in weights]
    if any(array is None for array in arrays):
        return None
    known = [_ordered(cast("NDArray[Any]", array), _GATES[kind]) for array in arrays]
    operands = [imp.constant(array, element_type(x.type)) for array in _of_layer(known, dirs)]
    properties: dict[str, Any] = {
        "direction": "bidirectional" if dirs == 2 else "forward",
        "last_states": len(kind.STATES),
    }
    if kind is nn.GruOp:
        properties["linear_before_reset"] = True
    return list(imp.emit(kind(x, *operands, *states, **properties)).results)


def _ordered(array: NDArray[Any], order: tuple[int, ...]) -> NDArray[Any]:
    """The rows of the gates in the order of `nn`."""
    import numpy as np

    parts = np.split(array, len(order))
    return np.concatenate([parts[k] for k in order])


def _of_layer(arrays: Sequence[NDArray[Any]], dirs: int) -> list[NDArray[Any]]:
    """Weights, recurrences and biases over the directions of a layer."""
    import numpy as np

    each = len(arrays) // dirs
    by_direction = [arrays[d * each : (d + 1) * each] for d in range(dirs)]
    weight = np.stack([part[0] for part in by_direction])
    recurrence = np.stack([part[1] for part in by_direction])
    if each == 4:
        bias = np.stack([np.concatenate(part[2:]) for part in by_direction])
    else:
        bias = np.zeros((dirs, 2 * weight.shape[1]), weight.dtype)
    return [weight, recurrence, bias]


def _joined(imp: Importer, y: SSAValue, dirs: int) -> SSAValue:
    """[steps, dirs, batch, h] as [steps, batch, dirs * h]."""
    steps, _, batch, hidden = imp.extents(y)
    if dirs > 1:
        y = imp.build(nn.TransposeOp, y, perm=(0, 2, 1, 3))
    return imp.reshape(y, (steps, batch, hidden * Extent.of(dirs)))


def _squeezed(imp: Importer, value: SSAValue, d: int) -> SSAValue:
    extents = imp.extents(value)
    return imp.reshape(value, [*extents[:d], *extents[d + 1 :]])


def plain(activation: str) -> Rule:
    """`rnn_tanh.input`, `rnn_relu.input` as ONNX's RNN."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if arguments.get("train") and arguments.get("dropout"):
            raise imp.unsupported("drops values at random: export the model after model.eval()")
        x = imp.value(arguments["input"])
        params = [imp.array(p) for p in arguments["params"]]
        layers, dirs = int(arguments["num_layers"]), 2 if arguments["bidirectional"] else 1
        each = (4 if arguments["has_biases"] else 2) * dirs
        shape = imp.extents(x)
        if any(p is None for p in params) or len(params) != layers * each or len(shape) != 3:
            return None
        known = cast("list[NDArray[Any]]", params)
        first = bool(arguments["batch_first"])
        x = imp.build(nn.TransposeOp, x, perm=(1, 0, 2)) if first else x
        starts = _parts(imp, cast("Ref", arguments["hx"]), layers, dirs, False)
        ends: list[SSAValue] = []
        for layer, start in enumerate(starts):
            weights = _of_layer(known[layer * each : (layer + 1) * each], dirs)
            x, end = _plain_layer(imp, x, weights, start, activation)
            x = _joined(imp, x, dirs)
            ends.append(end)
        end = ends[0] if layers == 1 else imp.build(nn.ConcatOp, *ends, axis=0)
        return [imp.build(nn.TransposeOp, x, perm=(1, 0, 2)) if first else x, end]

    return rule


def _plain_layer(
    imp: Importer,
    x: SSAValue,
    weights: Sequence[NDArray[Any]],
    start: SSAValue,
    activation: str,
) -> tuple[SSAValue, SSAValue]:
    from qdialect.ir.ops.base import ranked

    element = element_type(x.type)
    dirs, hidden = weights[1].shape[0], weights[1].shape[2]
    steps, batch, _ = imp.extents(x)
    shapes = [
        (steps, Extent.of(dirs), batch, Extent.of(hidden)),
        (Extent.of(dirs), batch, Extent.of(hidden)),
    ]
    operands = [x, *(imp.constant(array, element) for array in weights), None, start]
    first = imp.onnx(
        "RNN",
        operands,
        *(ranked(element, static(shape)) for shape in shapes),
        hidden_size=hidden,
        direction="bidirectional" if dirs == 2 else "forward",
        activations=strings([activation] * dirs),
    )
    results = cast("Any", first.owner).results
    for value, shape in zip(results, shapes, strict=True):
        imp.state(value, shape)
    return results[0], results[1]
