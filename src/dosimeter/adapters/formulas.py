"""A formula of statsmodels (patsy or formulaic) as a step before the model: source columns in, design columns out.

The formula is evaluated by its own library, with everything that it learned from the table (knots of a spline, levels)
held fixed. Its derivative is taken at each row as for any other step (`adapters/steps`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.adapters.statsmodels_design import CONSTANTS
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure


@dataclass(frozen=True, eq=False)
class Formula:
    """The right side of a fitted formula, without its constant."""

    spec: Any
    """`patsy.DesignInfo` or `formulaic.ModelSpec`."""
    source_names: tuple[str, ...]

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The source columns, as scikit-learn's steps name them."""
        return self.source_names

    @property
    def n_features_in_(self) -> int:
        """Source columns."""
        return len(self.source_names)

    @cached_property
    def _kept(self) -> FloatArray:
        return np.array([str(name) not in CONSTANTS for name in self.spec.column_names], dtype=bool)

    @property
    def learned_from_data(self) -> tuple[str, ...]:
        """What the formula took from the table: levels of categories, constants such as knots."""
        if hasattr(self.spec, "get_model_matrix"):
            kinds = [str(getattr(state[0], "value", state[0])) for state in self.spec.encoder_state.values()]
            levels, constants = "categorical" in kinds, bool(self.spec.transform_state)
        else:
            infos = self.spec.factor_infos.values()
            levels = any(info.type == "categorical" for info in infos)
            constants = any(info.state.get("transforms") for info in infos)
        return (*(("the levels",) if levels else ()), *(("the constants in the formula",) if constants else ()))

    def transform(self, frame: Any) -> FloatArray:
        """(k, columns of the formula) of a frame with the source columns."""
        import pandas as pd

        data = frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(
            {name: np.asarray(frame[name]) for name in self.source_names}
        )  # fmt: skip
        if hasattr(self.spec, "get_model_matrix"):
            matrix = self.spec.get_model_matrix(data)
        else:
            from patsy import NAAction, dmatrix

            matrix = dmatrix(self.spec, data, NA_action=NAAction(NA_types=[]))
        return np.asarray(matrix, dtype=np.float64)[:, self._kept]


def formula_of(results: Any) -> Formula | None:
    """The formula that results of statsmodels were fitted with; None if they were fitted on arrays or frames."""
    data = getattr(getattr(results, "model", None), "data", None)
    if data is None or getattr(results.model, "formula", None) is None:
        return None
    spec = getattr(data, "model_spec", None) or getattr(data, "design_info", None)  # the second up to 0.14
    if spec is None:
        return None
    names = _source_names(spec, [str(column) for column in getattr(data.frame, "columns", ())])
    if not names:
        raise CannotMeasure(
            "the formula names no column of the table it was fitted on: there is nothing that could leak"
        )
    return Formula(spec, names)


def _source_names(spec: Any, columns: list[str]) -> tuple[str, ...]:
    """The columns of the table that the right side of the formula reads, in the table's order."""
    if hasattr(spec, "required_variables"):
        used = {str(name) for name in spec.required_variables}
        return tuple(name for name in columns if name in used)
    used = set()
    for factor in spec.factor_infos:
        tree = ast.parse(factor.name(), mode="eval")
        used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        quoted = [
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and node.args
            and isinstance(node.args[0], ast.Constant)
        ]  # fmt: skip
        used |= set(map(str, quoted))
    return tuple(name for name in columns if name in used)
