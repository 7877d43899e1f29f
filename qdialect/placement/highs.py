"""Minimization by integer programming with HiGHS (the optional extra `solver`).

One 0/1 variable per state, one continuous variable per pair of states of a table, bound
together by the local marginal polytope (Schlesinger 1976): integral states make the pairs
integral.  One thread and a limit on nodes rather than time, so a run can be repeated.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from qdialect.placement.problem import INFINITE, Problem

_NODES = 2000


def is_available() -> bool:
    """Whether highspy is installed."""
    return find_spec("highspy") is not None


def minimize(problem: Problem, upper: int) -> tuple[list[int], bool] | None:
    """States, and whether they are proved least; None if none were found.

    `upper` is the cost of known states, which says how large a cost matters.
    """
    import highspy

    model: Any = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_max_nodes", _NODES),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.0),
    ):
        model.setOptionValue(option, value)
    # Doubles: scale so that what decides is around 1e6, and forbid what is infinite.
    scale = 1e6 / max(abs(upper), 1)

    def variable(cost: int, integral: bool) -> Any:
        forbidden = cost >= INFINITE // 2
        objective = 0.0 if forbidden else cost * scale
        kind = highspy.HighsVarType.kInteger if integral else highspy.HighsVarType.kContinuous
        return model.addVariable(lb=0.0, ub=0.0 if forbidden else 1.0, obj=objective, type=kind)

    chosen = [[variable(cost, True) for cost in costs] for costs in problem.unary]
    for states in chosen:
        model.addConstr(sum(states[1:], states[0]) == 1)
    for (u, v), table in problem.pairs.items():
        joint = [[variable(cost, False) for cost in row] for row in table]
        for state, row in zip(chosen[u], joint, strict=True):
            model.addConstr(sum(row[1:], row[0]) == state)
        for j, state in enumerate(chosen[v]):
            column = [row[j] for row in joint]
            model.addConstr(sum(column[1:], column[0]) == state)
    model.minimize()
    values = model.getSolution().col_value
    if not values or not model.getInfo().primal_solution_status:
        return None
    states = [max(range(len(row)), key=lambda s, row=row: values[row[s].index]) for row in chosen]
    return states, model.getModelStatus() == highspy.HighsModelStatus.kOptimal
