"""What import functions use: the values of the graph, on top of what builds ops.

Every value has its name in the program.  Parameters, buffers and constants become ops when
something first reads them as a value; what only serves as qparams never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, SSAValue

from qdialect.ir.context import QContext
from qdialect.ir.quant import UniformType, element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.program import Node, Program, Ref, Weight
from qdialect.plugins.torch.read.builder import Builder
from qdialect.plugins.torch.read.sizes import reshaped, run_time_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.torch.read.chosen import Scale


class Importer(Builder):
    """The state of one import; import functions use its methods."""

    def __init__(self, ctx: QContext, program: Program) -> None:
        super().__init__(ctx, program)
        #: values of the graph by their names
        self.values: dict[str, SSAValue] = {}
        #: numbers that the program computes, by their names
        self.numbers: dict[str, Extent] = dict(program.graph.numbers)
        #: tensors known at import: those of the program, and what is computed of them
        self.weights: dict[str, Weight] = {}
        #: those that are parameters, whose names are the model's
        self.parameters: set[str] = set()
        #: names of values that something reads
        self.read: set[str] = set()
        #: their names as users know them
        self.paths: dict[str, str] = {}
        #: quantization parameters that the program chooses as it runs, by the names of their parts
        self.chosen: dict[str, Scale] = {}

    def value(self, argument: Any, element: Attribute | None = None) -> SSAValue:
        """A tensor, as it was computed or as a constant; a number as a tensor of rank 0 of type
        `element`, or of the type that PyTorch gives it.

        InputError (`invalid-torch`) for a name that nothing defines.
        """
        if isinstance(argument, Ref):
            if argument.name in self.values:
                return self.values[argument.name]
            if argument.name in self.weights:
                return self._weight(argument.name)
            if argument.name in self.numbers:
                return run_time_number(self, self.numbers[argument.name])
            raise self.invalid(f"reads '{argument.name}', which nothing defines")
        return self.scalar(argument, element)

    def _weight(self, name: str) -> SSAValue:
        weight = self.weights[name]
        self.values[name] = self.constant(
            weight.array, self.element_of(weight.code), self.paths.get(name)
        )
        self.known_extents[self.values[name]] = tuple(map(Extent.of, weight.array.shape))
        return self.values[name]

    def quantized_constant(self, name: str, element: UniformType) -> SSAValue:
        """A tensor known now, of stored integers, as a constant of a quantized type."""
        weight = self.weights[name]
        place = ("quantized", name, element)
        if place not in self.constants:
            params = element.qparams
            inside = weight.array.size == 0 or (
                params.storage.min <= int(weight.array.min())
                and int(weight.array.max()) <= params.storage.max
            )
            if not inside:
                raise self.invalid(
                    f"'{self.paths.get(name, name)}' has codes outside of "
                    f"[{params.storage.min}, {params.storage.max}]"
                )
            value = self.constant(weight.array, element, self.paths.get(name))
            self.known_extents[value] = tuple(map(Extent.of, weight.array.shape))
            self.constants[place] = value
        return self.constants[place]

    def extents_of(self, argument: Ref) -> tuple[Extent, ...]:
        """The extents of a tensor, which need not be a value yet."""
        if argument.name in self.values:
            return self.extents(self.values[argument.name])
        weight = self.weights.get(argument.name)
        if weight is not None:
            return tuple(map(Extent.of, weight.array.shape))
        return self.shape(argument.name)

    def array(self, argument: Any) -> NDArray[Any] | None:
        """A tensor that is known now, or a number as an array; None for what only a run gives."""
        import numpy as np

        if isinstance(argument, Ref):
            weight = self.weights.get(argument.name)
            return None if weight is None else weight.array
        return None if argument is None else np.array(argument)

    def number(self, argument: Any) -> Extent | None:
        """An integer argument, of which a symbol may be part; None for anything else."""
        if isinstance(argument, Ref):
            return self.numbers.get(argument.name)
        return Extent.of(argument) if isinstance(argument, int) else None

    def integer(self, argument: Any) -> int | None:
        """An integer argument that is a number, not a symbol."""
        extent = self.number(argument)
        return None if extent is None else extent.number

    def reads(self, node: Node, position: int) -> bool:
        """Whether something reads a result of a node."""
        names = node.names
        return position < len(names) and names[position] in self.read

    def has_type(self, argument: Any, name: str) -> bool:
        """Whether a tensor has the element type that the program says another one has."""
        return isinstance(argument, Ref) and self.kind(argument) == self.element(name)

    def is_float(self, argument: Any) -> bool:
        """Whether a tensor is of floats that `nn` computes on (not codes, not integers)."""
        return isinstance(argument, Ref) and self.kind(argument) in FLOATS

    def kind(self, argument: Ref) -> Attribute | None:
        """The element type of a tensor as it is now (a quantized one has a quantized type)."""
        if argument.name in self.values:
            return element_type(self.values[argument.name].type)
        if argument.name in self.program.graph.tensors:
            return self.element(argument.name)
        return None

    def reshape(self, value: SSAValue, target: Sequence[Extent]) -> SSAValue:
        """The same elements under another shape, which may have symbols."""
        return reshaped(self, value, tuple(target))
