"""Choosing states for many variables at least cost: the mathematics of placement.

Knows nothing of IR.  A `Problem` has variables with a few ordered states each, what each
state costs, and tables of what pairs of states cost; `solve` finds states of least total
cost, with a proof (`Part.bound`) of how far from the least it can be.
"""

from qdialect.placement.problem import INFINITE, Part, Parts, Problem, Solution, Table
from qdialect.placement.solver import solve

__all__ = ["INFINITE", "Part", "Parts", "Problem", "Solution", "Table", "solve"]
