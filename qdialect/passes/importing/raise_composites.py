"""Make composite ops of their pieces: what `lower-composites` writes, and what exporters do.

    x @ w + b                                  ->  fully_connected, convolution with a bias
    matmul(x, w) + b, w a constant matrix      ->  fully_connected(x, w transposed, b)
    x * sigmoid(x)                             ->  swish
    x * hard_sigmoid(x), x * relu6(x + 3) / 6  ->  hard_swish
    x / 2 * (1 + erf(x / sqrt(2))), and with tanh  ->  gelu
    exp(x - max) / sum                         ->  softmax
    sum / count                                ->  reduce_mean
    clip(a * x + b, 0, 1)                      ->  hard_sigmoid
    x * (b + a * mean(x^2))^-c, over channels  ->  lrn
    softmax(q @ k^T * scale + mask) @ v        ->  attention
    (x - mean) * factor + b, by channel        ->  batch_norm
    (x - mean) / sqrt(variance + e) * s + b    ->  layer_norm

Which ops make up a composite says its declaration, so this follows `lower-composites`. The
new op has the key of the result, its pieces keep their keys (`nn.piece_keys`), and it has
component qparams if every piece had its own. Pieces that something else uses too stay as
they are, and so do those of a composite that the target does not run whole, if it says so.

A bias is exact in the reals, and on codes where the product is the 32-bit accumulator. The
functions are `ties` where a constant of the file is not exactly the one of the function, and
`relaxed` where the pieces are quantized and dequantized on the way, as quantizers write them:
the roundings go, and what they were to stays with the op as component qparams.

For example

    %0 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !y
    %1 = nn.add %0, %b {nn.key = "fc"} : (!y, !b) -> !y

becomes

    %1 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors import Accumulator
from qdialect.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.context import QContext
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops import AddOp, ConstantOp, NNOp, constant_array, constant_of, make_constant
from qdialect.ops.component_qparams import hold_types
from qdialect.ops.keys import KEY, PIECE_KEYS, QPARAMS
from qdialect.ops.movement import UnsqueezeOp
from qdialect.passes.importing.component_matching import Found, find
from qdialect.passes.importing.component_raising import hold, name_pieces, owner_of, unwanted
from qdialect.passes.importing.composite_probes import PROBES
from qdialect.passes.importing.raise_batch_norm import RaiseBatchNorm
from qdialect.passes.importing.raise_fully_connected import MatMulToFullyConnected
from qdialect.passes.lowering.component_plan import is_accumulator
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _Biased:
    add: Operation
    product: Operation
    acc: Accumulator
    bias: SSAValue


class RaiseBias(Rule[_Biased]):
    """op(x, w) + b = op(x, w, b)."""

    name = "raise-bias"

    def roots(self) -> Iterable[str]:
        return (AddOp.name,)

    def match(self, op: Operation) -> _Biased | None:
        for one, other in ((0, 1), (1, 0)):
            product = op.operands[one].owner
            behavior = None
            if isinstance(product, NNOp):
                behavior = self.session.behaviors.get(product)
            acc = None if behavior is None else behavior.accumulator
            if acc is None or acc.bias is None or not isinstance(product, NNOp):
                continue
            if len(product.operands) == acc.bias:
                return _Biased(op, product, acc, op.operands[other])
        return None

    def check(self, match: _Biased) -> Contract | Refusal:
        product, bias = match.product, match.bias
        if not product.results[0].has_one_use():
            return Refusal("multi-use", "the product is also used without the bias")
        if shape_of(match.add.results[0]) != shape_of(product.results[0]):
            return Refusal("shape", "the sum has another shape than the product")
        quantized = qparams_of(product.results[0]) is not None
        if quantized != (qparams_of(match.add.results[0]) is not None):
            return Refusal("mixed", "floats and codes meet in the sum")
        if quantized and not is_accumulator(product, self.session):
            return Refusal("rounded", "the product is rounded before the bias is added")
        if not quantized and qparams_of(bias) is not None:
            return Refusal("mixed", "a bias of codes on floats")
        made = self._make(match)
        if made is None:
            return Refusal("shape", "what is added is not one number per output channel")
        reason = unwanted(made[-1], self.session) or self._refusal(made[-1])
        for op in reversed(made):
            op.erase()
        return reason or in_reals(match.add)

    def _refusal(self, new: Operation) -> Refusal | None:
        try:
            new.verify_()
        except VerifyException as error:
            return Refusal("types", str(error))
        behavior = self.session.behaviors.get(new)
        assert behavior is not None
        return refuse_types(self.session, behavior, new, new.operand_types, new.result_types)

    def _make(self, match: _Biased) -> list[Operation] | None:
        """The op with a bias, and before it the vector if that has to be made."""
        product, bias = match.product, match.bias
        result = product.results[0]
        axis = match.acc.result_axis(product)
        channels = shape_of(result)[axis]
        column = (channels, *(1,) * (len(shape_of(result)) - axis - 1))
        shape = shape_of(bias)
        if channels == DYNAMIC or shape[-len(column) :] != column or prod(shape) != channels:
            return None
        made: list[Operation] = []
        if len(shape) > 1:
            vector = self._vector(bias, channels)
            if vector is None:
                return None
            if isinstance(vector, ConstantOp):
                made.append(vector)
                vector = vector.result
            bias = vector
        operands = [*product.operands, bias]
        made.append(retyped(product, operands, [match.add.results[0].type]))
        made[-1].attributes.pop(KEY, None)
        made[-1].attributes.pop(QPARAMS, None)
        if "rounding" in match.add.properties:
            made[-1].properties["rounding"] = match.add.properties["rounding"]
        roles = self.session.components[product.name].roles_of(made[-1])
        hold(made[-1], self.session, {roles[0]: product}, match.add)
        made[-1].attributes.pop(PIECE_KEYS, None)
        return made

    def _vector(self, bias: SSAValue, channels: int) -> SSAValue | ConstantOp | None:
        owner = bias.owner
        if isinstance(owner, UnsqueezeOp) and shape_of(owner.operands[0]) == (channels,):
            return owner.operands[0]
        constant, params = constant_of(bias), qparams_of(bias)
        if constant is None or (params is not None and not params.is_per_tensor):
            return None
        array = constant_array(constant, self.session.blobs).reshape(channels)
        return make_constant(array, tensor_type(bias).element_type, self.session.blobs)

    def rewrite(self, match: _Biased, rewriter: Rewriter) -> None:
        made = self._make(match)
        assert made is not None
        for op in made[:-1]:
            rewriter.insert(op, match.add, keep=constant_of(match.bias))
        rewriter.insert(made[-1], match.add, keep=match.add)
        roles = self.session.components[match.product.name].roles_of(made[-1])
        name_pieces(made[-1], self.session, match.add, {roles[0]: match.product})
        rewriter.replace(match.add, made[-1].results)


@dataclass(frozen=True)
class _Raised:
    root: Operation
    probe: NNOp
    found: Found


class RaiseFunction(Rule[_Raised]):
    """The pieces of a function of one tensor, as the function."""

    name = "raise-function"

    def roots(self) -> Iterable[str]:
        return tuple(PROBES)

    def match(self, op: Operation) -> _Raised | None:
        result = op.results[0]
        if qparams_of(result) is not None:
            return None
        for kind, types, properties in PROBES[op.name](op, self.session):
            block = Block(arg_types=types)
            try:
                probe = kind(*block.args, **properties)
            except VerifyException:
                continue  # the pieces broadcast, or have shapes that the op does not take
            block.add_op(probe)
            found = find(probe, block, result, self.session)
            if found is not None and probe.results[0].type == result.type:
                return _Raised(op, probe, found)
        return None

    def check(self, match: _Raised) -> Contract | Refusal:
        if not match.found.is_closed:
            return Refusal("multi-use", f"a piece of '{match.probe.name}' is also used elsewhere")
        if (refusal := unwanted(match.probe, self.session)) is not None:
            return refusal
        if match.found.is_rounded:
            note = "what the pieces were rounded to on the way is not applied"
            return Contract(Numerics.RELAXED, inf, note)
        if match.found.inexact:
            return Contract(Numerics.TIES, note="constants are not exactly the function's")
        return in_reals(match.root)

    def rewrite(self, match: _Raised, rewriter: Rewriter) -> None:
        probe, found, result = match.probe, match.found, match.root.results[0]
        new = type(probe).create(
            operands=found.operands, result_types=[result.type], properties=probe.properties
        )
        roles = self.session.components[probe.name].roles_of(probe)[:-1]
        pieces = {role: owner_of(found.piece(role)) for role in roles}
        hold(new, self.session, pieces, match.root)
        if roles and found.types.keys() >= set(roles):
            hold_types(new, {role: found.types[role] for role in roles})
        rewriter.insert(new, match.root, keep=match.root)
        name_pieces(new, self.session, match.root, pieces, found.others(result))
        rewriter.replace(match.root, new.results)


@dataclass(frozen=True)
class RaiseComposites(RulePass):
    """Composites of their pieces; see the module."""

    name = "raise-composites"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            MatMulToFullyConnected(session),
            RaiseBias(session),
            RaiseBatchNorm(session),
            RaiseFunction(session),
        )
