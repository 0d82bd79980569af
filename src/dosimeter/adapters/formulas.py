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
from dosimeter.adapters.steps.feature import Feature, Features
from dosimeter.adapters.steps.registry import Route, apply, step
from dosimeter.adapters.steps.run import Run
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text


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
    def terms(self) -> tuple[FormulaTerm, ...]:
        """The terms in the order of the design's columns, without the constant."""
        names = [str(name) for name in self.spec.column_names]
        kept = [term for term, where in self.spec.term_slices.items() if not set(names[where]) <= set(CONSTANTS)]
        parts = [self.spec.subset([term]) for term in kept]
        return tuple(
            FormulaTerm(part, _source_names(part, list(self.source_names)), _plain_column(part, term), _written(term))
            for part, term in zip(parts, kept, strict=True)
        )


@dataclass(frozen=True, eq=False)
class FormulaTerm:
    """One term of a fitted formula: some source columns in, its design columns out."""

    spec: Any
    source_names: tuple[str, ...]
    plain: str | None
    """The column of numbers that the term is, as it stands; None for any other term."""
    formula_term: str = ""
    """As the formula writes it."""

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The source columns, as scikit-learn's steps name them."""
        return self.source_names

    @property
    def n_features_in_(self) -> int:
        """Source columns."""
        return len(self.source_names)

    @property
    def learned_from_data(self) -> tuple[str, ...]:
        """What the term took from the table: levels of categories, constants such as knots."""
        if hasattr(self.spec, "get_model_matrix"):
            kinds = [str(getattr(state[0], "value", state[0])) for state in self.spec.encoder_state.values()]
            levels, constants = "categorical" in kinds, bool(self.spec.transform_state)
        else:
            infos = self.spec.factor_infos.values()
            levels = any(info.type == "categorical" for info in infos)
            constants = any(info.state.get("transforms") for info in infos)
        return (*(("the levels",) if levels else ()), *(("the constants in the formula",) if constants else ()))

    @property
    def categories(self) -> frozenset[str]:
        """The source columns whose values are levels, as in C(site), whatever their type."""
        if hasattr(self.spec, "get_model_matrix"):
            kinds = {str(f): str(getattr(state[0], "value", state[0])) for f, state in self.spec.encoder_state.items()}
            factors = [factor for factor, kind in kinds.items() if "categorical" in kind]
        else:
            factors = [factor.name() for factor, info in self.spec.factor_infos.items() if info.type == "categorical"]
        return frozenset(name for factor in factors for name in _names_in(factor) if name in self.source_names)

    def transform(self, frame: Any) -> FloatArray:
        """(k, columns of the term) of a frame with the source columns."""
        import pandas as pd

        data = frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(
            {name: np.asarray(frame[name]) for name in self.source_names}
        )  # fmt: skip
        if hasattr(self.spec, "get_model_matrix"):
            matrix = self.spec.get_model_matrix(data)
        else:
            from patsy import NAAction, dmatrix

            matrix = dmatrix(self.spec, data, NA_action=NAAction(NA_types=[]))
        return np.asarray(matrix, dtype=np.float64)


@step(
    "Formula", library="dosimeter", route=Route.CONTAINER,
    remark="columns as they stand exactly, other terms by differences; levels and knots are held fixed",
)  # fmt: skip
def read_formula(formula: Formula, features: Features, run: Run) -> Features:
    """Term by term: a column of numbers as it stands, any other term by its own transform."""
    by_name = {feature.name: feature for feature in features}
    outputs: list[Feature] = []
    for term in formula.terms:
        if term.plain is not None and by_name[term.plain].is_number:
            outputs.append(by_name[term.plain])
        else:
            outputs.extend(apply(term, tuple(by_name[name] for name in term.source_names), run))
    return tuple(outputs)


def _written(term: Any) -> str:
    """The term as the formula writes it."""
    name = getattr(term, "name", None)  # patsy's is a method
    return str(name() if callable(name) else term)


def _plain_column(spec: Any, term: Any) -> str | None:
    """The column of numbers that a term is."""
    columns = [str(name) for name in spec.column_names]
    if len(term.factors) != 1 or len(columns) != 1:
        return None
    (factor,) = term.factors
    name = str(factor.expr) if hasattr(factor, "expr") else str(factor.name())
    if not hasattr(spec, "get_model_matrix") and spec.factor_infos[factor].type != "numerical":
        return None
    return name if columns == [name] and name.isidentifier() else None


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
    used = set().union(*(_names_in(factor.name()) for factor in spec.factor_infos))
    return tuple(name for name in columns if name in used)


def _names_in(factor: str) -> set[str]:
    """The names that a factor of a formula holds, those in Q("...") too."""
    tree = ast.parse(factor, mode="eval")
    quoted = {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and node.args
        and isinstance(node.args[0], ast.Constant)
    }  # fmt: skip
    return quoted | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def formula_target(model: Any) -> str | None:
    """The column that a model fitted by a formula predicts; None for a model without a formula.

    Raises
    ------
    Refusal
        If the left side of the formula is an expression, whose values only the caller has.
    """
    fitted: Any = getattr(model, "model", None)
    formula = getattr(fitted, "formula", None)
    frame = getattr(getattr(fitted, "data", None), "frame", None)
    if frame is None or formula is None:
        return None
    name = getattr(fitted, "endog_names", None)
    columns = [str(column) for column in getattr(frame, "columns", ())]
    if isinstance(name, str) and name in columns:
        return name
    left = safe_text(str(formula).split("~")[0].strip())
    if left in columns:
        raise Refusal(
            f"the formula reads {left} as a category, so the model predicts an indicator of each of its levels: fit it "
            "on the numbers 0 and 1"
        )
    raise Refusal(f"the formula predicts {left}, which is no column of the table: pass its values with {option('y')}")
