"""Choosing states for many variables at least cost: the mathematics of placement.

Imports no IR.  A `Problem` has variables with a few ordered states each, a cost for each
state, and tables of costs for pairs of states.  `solve` finds states of least total cost, and
proves a lower bound (`Part.bound`).
"""

from qdialect.placement.problem import INFINITE, Part, Parts, Problem, Solution, Table
from qdialect.placement.solver import solve

__all__ = ["INFINITE", "Part", "Parts", "Problem", "Solution", "Table", "solve"]
