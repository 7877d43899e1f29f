"""Maps that are a sequence of simpler ones, chosen by the operand's shape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from numpy.typing import ArrayLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap, single
from qdialect.algebra.qparams.parameter_array import ParameterArray, Shape
from qdialect.algebra.qparams.parameters import Layout


class Composite(IndexMap):
    """sigma o phi_1 o .. o phi_n, step by step; intermediate grids may be of any layout.

    Exact: every step's grid is a form of the true field, and the coarsest grid of the
    last one does not depend on the way there.
    """

    @abstractmethod
    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """The single-operand maps to apply in order to an operand of `shape`."""

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The shape after all steps."""
        shape = single(in_shapes)
        for step in self.steps(shape):
            shape = step.output_shape([shape])
        return shape

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """All steps, one after the other."""
        (array,) = arrays
        for step in self.steps(array.shape):
            array = step.apply([array], fill)
        return array

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """Pulled through every step in turn."""
        (grid,) = grids
        steps = self.steps(grid.shape)
        for n, step in enumerate(steps):
            limit = layout if n == len(steps) - 1 else Layout.BLOCK
            pulled = step.pull_array([grid], limit)
            if isinstance(pulled, Illegal):
                named = pulled.code in ("axis-merge", "axis-split")
                return pulled._replace(code=self.code) if named else pulled
            grid = pulled.reduced()
        return grid

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """Pushed through every step in reverse."""
        shape = single(in_shapes)
        passed: list[tuple[IndexMap, Shape]] = []
        for step in self.steps(shape):
            passed.append((step, shape))
            shape = step.output_shape([shape])
        for step, source in reversed(passed):
            pushed = step.push_array(out, [source])
            if isinstance(pushed, Illegal):
                return pushed
            out = pushed[0].reduced()
        return [out]
