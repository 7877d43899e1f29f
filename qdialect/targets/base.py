"""What a compilation target runs and what it costs, as data plus hooks.

A vendor ships an object of this class (or of a subclass that overrides the
hooks) under the entry-point group `qdialect.targets`.  The fields describe most
targets; a hook is for what no field can express.  Passes commit only what the target does
not refuse.

    TARGET = Target("npu", "i8 only", storages=frozenset({"i8", "i32"}), floats=False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from qdialect.algebra.qparams.domains import ANY_DOMAIN, Domain, shown
from qdialect.algebra.qparams.parameters import Layout
from qdialect.algebra.rounding import Rounding
from qdialect.algebra.sums import SUMS, SumType
from qdialect.errors import QError, UsageError
from qdialect.ir.behaviors.shield import Hook, of_type, shielded_method
from qdialect.ir.ops.base import kernels_of
from qdialect.targets.kernels import Kernel

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

    from qdialect.algebra.qparams import QParams
    from qdialect.ir.behaviors import Behavior
    from qdialect.targets.price_table import PriceTable

RESCALE = "quant.rescale"
_CONSTANT = "nn.constant"
_CASTS = ("quant.qcast", "quant.dcast", "quant.scast")


class Interface(Enum):
    """The types of arguments and results of functions for a target."""

    #: those they had before
    KEEP = "keep"
    #: floats: casts stay inside the function
    FLOAT = "float"
    #: codes: the caller quantizes and dequantizes
    INTEGER = "integer"


def _is_price(price: Any) -> bool:
    return isinstance(price, int | float) and price >= 0


def _is_finite_price(price: Any) -> bool:
    return _is_price(price) and price < inf


def _is_price_or_none(price: Any) -> bool:
    return price is None or _is_price(price)


def _is_pair_or_none(pair: Any) -> bool:
    return pair is None or (isinstance(pair, tuple) and len(cast("tuple[Any, ...]", pair)) == 2)


@dataclass(frozen=True)
class Target:
    """A target: which ops it runs on which types, and the prices of ops.

    `behaviors` override or extend the op declarations for this target.
    """

    name: str
    summary: str
    behaviors: tuple[Behavior, ...] = ()
    #: composite ops the target runs whole (not lowered)
    keep_whole: frozenset[str] = frozenset()
    #: composite ops that are quantized as their pieces although the target has floats;
    #: without floats, those are all that it does not run on integers
    in_pieces: frozenset[str] = frozenset()
    #: about so many ops may take the place of one composite: steps of a recurrent layer
    #: are written one after the other
    most_pieces: int = 16384
    #: extra passes at the named points of a pipeline (see `passes.pipelines`)
    extensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    #: storages that quantized tensors may have (`i8`, `u16`), perhaps with the qparams that go
    #: with them (`i8 zero=0|-128 scale=2^n`; see `algebra.qparams.domains`); None: all
    storages: frozenset[str] | None = None
    #: the storage that values get when a model is quantized for it
    activations: str = "u8"
    #: storages whose zero points must be 0
    symmetric: frozenset[str] = frozenset()
    #: whether parameters may differ along a dimension, and in blocks, on any tensor;
    #: where only some ports allow it, the kernels say so
    per_axis: bool = True
    per_block: bool = True
    #: whether zero points may differ along a dimension
    per_axis_zero_points: bool = True
    #: recurrent layers that quantize their input as they run, with weights in bytes
    dynamic_layers: frozenset[str] = frozenset()
    #: contractions that it runs on codes with a float result: sums times scales, rounded to none
    float_results: frozenset[str] = frozenset()
    #: whether rows picked from a table of codes are worth multiplying with scales of their own
    tables: bool = False
    #: formats that weights of float products may have (`quantizer.block_formats`); None: all
    block_weights: frozenset[str] | None = None
    #: whether there is float arithmetic; without it only casts touch floats
    floats: bool = True
    #: by op, the types it runs on: one of the rows must fit; `quant.rescale` too
    kernels: Mapping[str, tuple[Kernel, ...]] = field(default_factory=dict[str, tuple[Kernel, ...]])
    #: whether an op that is not in `kernels` runs on quantized tensors nevertheless
    runs_others: bool = True
    #: names in `nn.kernel` of kernels that it has: what names one runs as it is
    engines: frozenset[str] = frozenset()
    #: how its rescales and requantizing ops round, the preferred way first; empty: any
    roundings: tuple[Rounding, ...] = ()
    #: whether its kernels divide by scales, so that a quantize that multiplies by a reciprocal is
    #: slower than one that divides (`divide-by-scale`)
    divides: bool = False
    #: whether its integer kernels take u8 and i8 at once, weights aside
    mixes_bytes: bool = True
    #: bits, with the sign, of the integers that its rescales multiply with; None: any
    multiplier_bits: int | None = None
    #: price per element of a rescale, and of one by a power of two where that is a shift
    price: float = 1.0
    shift_price: float | None = None
    #: price per element of other elementwise ops and casts, `nn.table` among them, by op;
    #: 1 where not given, and nothing for reading bits in another way
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    interface: Interface = Interface.KEEP
    #: `boundary` of the passes in `qopt optimize` that move and fold casts: with
    #: `minimize-conversions` integer ops may become float ops where fewer elements are cast then
    boundary: Literal["preserve", "minimize-conversions"] = "preserve"

    #: what a subclass may override, and what each returns
    HOOKS: ClassVar[tuple[Hook, ...]] = (
        Hook("refuses", "a string or None", of_type(str, type(None))),
        Hook("rescale_price", "a number >= 0", _is_price),
        Hook("cast_price", "a number >= 0", _is_price),
        Hook("start_price", "a finite number >= 0", _is_finite_price),
        Hook("op_price", "a number >= 0", _is_price),
        Hook("encoding_price", "a number >= 0 or None", _is_price_or_none),
        Hook("state_price", "a number >= 0 or None", _is_price_or_none),
        Hook("state_cast_price", "a number >= 0 or None", _is_price_or_none),
        Hook("in_floats", "a bool", of_type(bool)),
        Hook("moves_axis", "a bool", of_type(bool)),
        Hook("at_load", "a bool", of_type(bool)),
        Hook("parts_bias", "a bool", of_type(bool)),
        Hook("channels", "two numbers of channels or None", _is_pair_or_none),
        Hook("should_lower", "a bool", of_type(bool)),
        Hook("should_raise", "a bool", of_type(bool)),
        Hook("rounding", "a Rounding", of_type(Rounding)),
    )

    def __init_subclass__(cls) -> None:
        # Whatever a vendor's hook does, the user learns whose it was.
        for hook in cls.HOOKS:
            if hook.name in cls.__dict__:
                setattr(cls, hook.name, shielded_method(cls, hook))

    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        """Why the target cannot run an op like `op` on these types, or None.

        Passes call this before they change anything: name and properties are those of `op`,
        and the types are those it would have.
        """
        from qdialect.ir.quant import quant_element

        params = [
            [None if e is None else e.qparams for e in map(quant_element, types)]
            for types in (operands, results)
        ]
        return self._refuses(op, params[0], params[1], operands, results)

    @cached_property
    def decides_by_op(self) -> bool:
        """Whether `refuses` depends on more than the name of an op and its qparams."""
        rows = (row for rows in self.kernels.values() for row in rows)
        return self.overrides_refuses or bool(self.engines) or any(row.limits for row in rows)

    @property
    def overrides_refuses(self) -> bool:
        """Whether a hook of a subclass may refuse what no field says."""
        return type(self).refuses is not Target.refuses

    def refuses_with(
        self,
        op: Operation,
        operand_params: Sequence[QParams | None],
        result_params: Sequence[QParams | None],
    ) -> str | None:
        """`refuses` for `op` with other qparams on the operands and results that are
        quantized; None for those that are not."""
        operands, results = ([v.type for v in values] for values in (op.operands, op.results))
        if not self.overrides_refuses:
            return self._refuses(op, operand_params, result_params, operands, results)
        from qdialect.ir.quant import UniformType, with_element

        def typed(kinds: Sequence[Attribute], qparams: Sequence[QParams | None]) -> list[Attribute]:
            pairs = zip(kinds, qparams, strict=True)
            return [kind if q is None else with_element(kind, UniformType(q)) for kind, q in pairs]

        return self.refuses(op, typed(operands, operand_params), typed(results, result_params))

    def _refuses(
        self,
        op: Operation,
        operand_params: Sequence[QParams | None],
        result_params: Sequence[QParams | None],
        operands: Sequence[Attribute],
        results: Sequence[Attribute],
    ) -> str | None:
        if self.engines and kernels_of(op) in self.engines:
            return None
        for params in dict.fromkeys((*operand_params, *result_params)):
            reason = None if params is None else self.refuses_qparams(params)
            if reason:
                return reason
        if op.name in _CASTS:
            return None
        if not self.floats:
            # Constants (of a batch norm on codes) are arithmetic at compile time.
            running = (
                kind
                for index, kind in enumerate(operands)
                if index >= len(op.operands) or not _is_constant(op.operands[index].owner)
            )
            if any(map(_is_float, (*running, *results))):
                return "no float arithmetic"
        if op.name == RESCALE and (reason := self._refuses_multiplier(op)):
            return reason
        return self._refuses_kernel(
            op.name,
            operand_params,
            result_params,
            lambda row: row.refuses_numbers(op, operands, results) if row.limits else None,
        )

    def _refuses_multiplier(self, op: Operation) -> str | None:
        from qdialect.ir.quant import RescaleOp

        bits = self.multiplier_bits
        if bits is None or not isinstance(op, RescaleOp) or op.fixed_point is None:
            return None
        needed = max(pair[0] for pair in op.fixed_point).bit_length() + 1
        return f"multipliers have {bits} bits, not {needed}" if needed > bits else None

    def _refuses_kernel(
        self,
        name: str,
        operands: Sequence[QParams | None],
        results: Sequence[QParams | None],
        numbers: Callable[[Kernel], str | None] = lambda row: None,
    ) -> str | None:
        if not any((*operands, *results)):
            return None
        rows = self.kernels.get(name)
        if rows is None:
            return None if self.runs_others else f"nothing runs '{name}' on integers"
        reasons = [row.refuses(operands, results) or numbers(row) for row in rows]
        if None in reasons:
            return None
        if not rows:
            return f"no integer kernel for '{name}'"
        if len(rows) == 1:
            return reasons[0]
        # Kernels of such types say what else is wrong.
        fit = [numbers(row) for row in rows if row.refuses(operands, results) is None]
        if fit:
            return "; ".join(dict.fromkeys(map(str, fit)))
        types = ", ".join(shown(q) for q in (*operands, *results) if q is not None)
        return f"none of its {len(rows)} kernels for '{name}' takes {types}"

    def refuses_weights(self, name: str) -> str | None:
        """Why no float product has weights of a format (`nf4`), or None."""
        if self.block_weights is None or name in self.block_weights:
            return None
        return f"'{self.name}' has no products with weights of {name}"

    def refuses_qparams(self, params: QParams) -> str | None:
        """Why no tensor on the target can have these qparams, or None."""
        storage = params.storage.spelling
        domains = self.tensor_domains.get(storage, ())
        if self.storages is not None and not domains:
            return f"has no {storage} tensors"
        if params.layout.value == "axis" and not self.per_axis:
            return "all of a tensor has one scale"
        if params.layout.value == "block" and not self.per_block:
            return "no parameters in blocks"
        reasons = [domain.refuses(params) for domain in domains if not domain.is_storage]
        if reasons and len(reasons) == len(domains) and None not in reasons:
            return reasons[0]
        if params.is_per_tensor and storage not in self.symmetric:
            return None
        zeros = set(params.zero_point_list())
        if storage in self.symmetric and zeros != {0}:
            return f"the zero point of {storage} is 0"
        if len(zeros) > 1 and not self.per_axis_zero_points:
            return "a tensor has one zero point"
        return None

    @cached_property
    def tensor_domains(self) -> Mapping[str, tuple[Domain, ...]]:
        """The domains that `storages` names, by storage; empty where it names none. Where one
        does not speak of layouts, `per_axis` and `per_block` do."""
        found: dict[str, tuple[Domain, ...]] = {}
        for text in sorted(self.storages or ()):
            domain = Domain.parse(text)
            if "per-" not in text:
                domain = replace(domain, layouts=frozenset(Layout))
            for own in domain.storages:
                single = replace(domain, storages=(own,))
                found[own.spelling] = (*found.get(own.spelling, ()), single)
        return found

    def port_domains(self, name: str, port: int, *, result: bool = False) -> tuple[Domain, ...]:
        """What a quantized operand (or result) number `port` of the ops called `name` may be,
        by kernel: each the domain of a kernel within those of tensors. Hooks may refuse more."""
        key = name, port, result
        if key not in self._port_domains:
            rows = self.kernels.get(name)
            if rows is None:
                rows = (Kernel(),) if self.runs_others else ()
            ports = (row.result(port) if result else row.operand(port) for row in rows)
            met = (domain.meet(tensor) for domain in ports for tensor in self.any_tensor)
            self._port_domains[key] = tuple(dict.fromkeys(e for e in met if e is not None))
        return self._port_domains[key]

    def check(self) -> None:
        """QError (`bad-plugin`) for kernels on tensors that there are none of."""
        for name, rows in self.kernels.items():
            for result in (False, True):
                count = max((len(r.results if result else r.operands) for r in rows), default=0)
                for port in range(count):
                    if self.port_domains(name, port, result=result):
                        continue
                    said = (r.result(port) if result else r.operand(port) for r in rows)
                    raise QError(
                        f"target '{self.name}' contradicts itself: "
                        f"{'result' if result else 'operand'} #{port} of '{name}' is "
                        f"{' or '.join(dict.fromkeys(map(str, said)))}, and tensors are "
                        f"{' or '.join(map(str, self.any_tensor))}",
                        code="bad-plugin",
                    )

    @cached_property
    def _port_domains(self) -> dict[tuple[str, int, bool], tuple[Domain, ...]]:
        found: dict[tuple[str, int, bool], tuple[Domain, ...]] = {}
        return found

    @cached_property
    def restricts(self) -> bool:
        """Whether it takes some scales, zero points or bounds of storages only."""
        stated = [domain for domains in self.tensor_domains.values() for domain in domains]
        for rows in self.kernels.values():
            for row in rows:
                stated += (*row.operand_domains, *row.result_domains)
        return any(domain.is_restricted for domain in stated)

    @cached_property
    def any_tensor(self) -> tuple[Domain, ...]:
        """What tensors may be: one of these."""
        layouts = {Layout.TENSOR}
        layouts |= {Layout.AXIS} if self.per_axis else set()
        layouts |= {Layout.BLOCK} if self.per_block else set()
        if self.storages is None:
            plain = [Domain(layouts=frozenset(layouts))]
        else:
            plain = [
                replace(domain, layouts=domain.layouts & layouts)
                for domains in self.tensor_domains.values()
                for domain in domains
            ]
        # A storage of `symmetric` has zero point 0.
        made: list[Domain] = []
        for domain in plain:
            names = {own.spelling for own in domain.storages}
            zero = domain.meet(replace(ANY_DOMAIN, zeros=((0, 0),)))
            made += [zero] if names and names <= self.symmetric and zero else [domain]
        return tuple(made)

    def sums(
        self,
        op: Operation,
        operands: Sequence[QParams | None],
        results: Sequence[QParams | None],
    ) -> SumType | None:
        """What `op` adds up products in: the weakest of its kernels that take these qparams
        (None: not known, or not quantized); None where no kernel does."""
        found: SumType | None = None
        for row in self.kernels.get(op.name, ()):
            if row.refuses(operands, results) is None and (
                not row.limits or not row.refuses_numbers(op, op.operand_types, op.result_types)
            ):
                found = row.sum_type if found is None else found.weaker(row.sum_type)
        return found

    @property
    def restricts_sums(self) -> bool:
        """Whether a kernel adds up products in less than i32."""
        return any(
            row.sum_type.weaker(SUMS) != SUMS for rows in self.kernels.values() for row in rows
        )

    def rescale_price(self, source: QParams, result: QParams) -> float:
        """Relative cost per element of one rescale; infinity if impossible."""
        if any(map(self.refuses_qparams, (source, result))):
            return inf
        if self._refuses_kernel(RESCALE, [source], [result]):
            return inf
        if self.shift_price is not None and _is_shift(source, result):
            return self.shift_price
        return self.price

    def cast_price(self, name: str, codes: QParams) -> float:
        """Relative cost per element of a quantize to `codes`, or a dequantize of them (`name`);
        infinity if impossible."""
        return inf if self.refuses_qparams(codes) else self.prices.get(name, 1.0)

    def start_price(self) -> float:
        """What one more rescale or cast costs whatever its size, in elements times price."""
        return 0.0

    def op_price(self, op: Operation) -> float:
        """Relative cost per element of an elementwise op or cast, or of one like it."""
        return self.prices.get(op.name, 0.0 if op.name == "quant.scast" else 1.0)

    def with_prices(self, prices: PriceTable) -> Target:
        """The target with prices measured on a machine; UsageError if it takes none."""
        raise UsageError(f"target '{self.name}' takes no price table", code="no-prices")

    def form_prices(self, op: Operation) -> tuple[float, float] | None:
        """Prices of an op between casts that the backend may put into one kernel,
        and of that kernel; None where it has none, or nothing was measured."""
        return None

    def encoding_price(
        self, op: Operation, products: int, activations: str, weights: str
    ) -> float | None:
        """Price of a contraction with so many products per element whose activations and weights
        have these storages (`u8`, `i8`), in the unit of `price`; None where the target has no
        such prices."""
        return None

    def state_price(self, op: Operation, state: str) -> float | None:
        """Nanoseconds that one thread takes for `op`, which is an op of a float module, in a state:

        | state | the op |
        |---|---|
        | `float` | on f32, with the fusions of the runtime |
        | `u8 i8`, `i8 i8` | on codes: storage of what varies and of weights |
        | `dynamic` | on f32, quantized as the op runs, with weights of 8 bits |

        What is part of another op's kernel in this state costs 0. Casts in front of it and behind
        it are no part (`state_cast_price`). None where the target has not measured such an op, or
        the op cannot be in this state."""
        return None

    def state_cast_price(self, name: str, elements: int) -> float | None:
        """Nanoseconds that one thread takes for a `quant.qcast` or `quant.dcast` (`name`) of so
        many elements; None where the target has not measured it."""
        return None

    def in_floats(self, op: Operation) -> bool:
        """Whether an op on codes is faster as one on floats between casts that the runtime does
        not fuse again (`form-floats`)."""
        return False

    def moves_axis(self, op: Operation) -> bool:
        """Whether an op on codes is faster with the dimension that it works along, or channels,
        last, between transposes (`softmax-last`, `channels-last`)."""
        return False

    def at_load(self, op: Operation) -> bool:
        """Whether the constant weight of a product on floats, which is codes, is to be dequantized
        when a model is loaded: where the target would do it each time that the product runs
        (`dequantize-at-load`)."""
        return False

    def parts_bias(self, op: Operation) -> bool:
        """Whether a product of dequantized codes is to be summed in integers, with its float bias
        added alone: where the target would run it on floats for that (`part-biases`)."""
        return False

    def channels(self, op: Operation) -> tuple[int, int] | None:
        """How many channels the input and the result of a convolution on codes should have
        (`widen-channels`), no fewer than they have; None where they should be as they are."""
        return None

    def should_lower(self, op: Operation) -> bool:
        """Whether a composite op is to be lowered into its components."""
        return op.name not in self.keep_whole

    def should_raise(self, op: Operation) -> bool:
        """Whether the components of a composite like `op` are to become one op: if the target
        keeps it whole or has kernels for it, or states nothing about composites; none that it
        takes in pieces, or has no kernel for."""
        if op.name in self.in_pieces or not self.kernels.get(op.name, self.runs_others):
            return False
        decides = self.keep_whole or type(self).should_lower is not Target.should_lower
        return not decides or op.name in self.kernels or not self.should_lower(op)

    def rounding(self, preferred: Rounding) -> Rounding:
        """`preferred` if the target can round so, else the way that it prefers."""
        can = not self.roundings or preferred in self.roundings
        return preferred if can else self.roundings[0]


def _is_constant(owner: Any) -> bool:
    name = getattr(owner, "name", "")
    if name == "quant.dcast":
        return _is_constant(owner.operands[0].owner)
    return name == _CONSTANT


def _is_float(kind: Attribute) -> bool:
    from xdsl.dialects.builtin import AnyFloat, TensorType

    if not isinstance(kind, TensorType):
        return False
    return isinstance(cast("TensorType[Attribute]", kind).element_type, AnyFloat)


def _is_shift(source: QParams, result: QParams) -> bool:
    above, below = source.scale_list(), result.scale_list()
    count = max(len(above), len(below))
    pairs = ((above[i % len(above)], below[i % len(below)]) for i in range(count))
    return all((a / b).hex().lstrip("-").startswith("0x1.0000000000000p") for a, b in pairs)
