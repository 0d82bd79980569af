"""The kinds of problem that a fitted model can be."""

from __future__ import annotations

from dosimeter.adapters.cox_problem import CoxProblem
from dosimeter.adapters.problem import EquationsProblem, Problem

AnyProblem = Problem | EquationsProblem | CoxProblem
