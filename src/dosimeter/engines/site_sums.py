"""The sums of a fit as operations: which function of a block a site runs, with which parameters, and what comes back.

`glm.fit_blocks` passes functions of a block to its engine. Each of them is an entry here, under a name. The question
carries the arrays that the function was bound to; loss, encoding and rows are the site's own. Largest values of rows,
which a fit in one place also takes, do not travel: public bounds stand for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dosimeter.core.engine import Largest, RowBlock, Terms
from dosimeter.core.errors import Refusal
from dosimeter.engines.plausible import PublicBounds
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Flag, Layout, Number, Numbers
from dosimeter.engines.protocol.operations import Operation, operation
from dosimeter.glm.fitting.block_fit import curvature_weights, newton_terms, refined_gradient, table_weights
from dosimeter.glm.linalg.inverse_hessian import Factor, block_gram, column_squares
from dosimeter.glm.losses.scalar_loss import ScalarLoss

FACTOR: Layout = {"basis": Numbers(("p", "p")), "mixing": Numbers(("p", "p")), "condition": Number()}
POINT: Layout = {**FACTOR, "v": Numbers(("p",))}
VECTOR: Layout = {"sum": Numbers(("p",))}
MATRIX: Layout = {"sum": Numbers(("p", "p"))}


@dataclass(frozen=True)
class SumOperation:
    """A function of a block that sites run and whose results the coordinator adds."""

    operation: Operation
    parameters: Callable[[dict[str, Any]], Values]
    """What the function was bound to -> what travels."""
    run: Callable[[RowBlock, Values, ScalarLoss], Values]
    """At the site."""
    check: Callable[[PublicBounds, int, Values, Values], None]
    """(bounds, rows of the site, parameters, answer): refuse what no table within the bounds gives."""
    terms: Callable[[PublicBounds, Values, Values], Terms]
    """(bounds, parameters, answer) -> what the function would have returned here."""


def factor_values(factor: Factor) -> Values:
    """A factor as it travels."""
    return {"basis": factor.basis, "mixing": factor.mixing, "condition": factor.condition}


def factor_of(values: Values) -> Factor:
    """The factor that travelled."""
    return Factor(values["basis"], values["mixing"], float(values["condition"]))


# --- Newton ---


def _newton_parameters(bound: dict[str, Any]) -> Values:
    return {**factor_values(bound["factor"]), "v": bound["v"], "check": bool(bound.get("check", False))}


def _newton(block: RowBlock, values: Values, loss: ScalarLoss) -> Values:
    value, gradient, hessian, _ = newton_terms(block, factor_of(values), values["v"], loss, values["check"])
    return {"value": value, "gradient": gradient, "hessian": hessian}


def _check_newton(bounds: PublicBounds, rows: int, values: Values, answer: Values) -> None:
    if np.isfinite(answer["value"]):
        matrix = factor_of(values).matrix
        bounds.check_newton(rows, matrix, matrix @ values["v"], answer)
    elif np.any(answer["gradient"]) or np.any(answer["hessian"]):
        bounds.refuse()


def _newton_back(bounds: PublicBounds, values: Values, answer: Values) -> Terms:
    row = bounds.longest_row(factor_of(values).matrix)
    largest = Largest(np.array([row**2, bounds.target_size]))
    return float(answer["value"]), answer["gradient"], answer["hessian"], largest


NEWTON = SumOperation(
    operation(
        "newton",
        {**POINT, "check": Flag()},
        {"value": Number(may_be_infinite=True), "gradient": Numbers(("p",)), "hessian": Numbers(("p", "p"))},
        says="value, gradient and Hessian of the loss over the site's rows at the coordinator's weights, exact",
    ),
    _newton_parameters,
    _newton,
    _check_newton,
    _newton_back,
)


# --- columns and their products ---


def _weigh(values: Values, loss: ScalarLoss) -> Any:
    if "v" not in values:
        return table_weights
    return partial(curvature_weights, factor=factor_of(values), v=values["v"], loss=loss)


def _weigh_parameters(weigh: Any) -> Values:
    if weigh is table_weights:
        return {}
    return {**factor_values(weigh.keywords["factor"]), "v": weigh.keywords["v"]}


def _squares_parameters(bound: dict[str, Any]) -> Values:
    return _weigh_parameters(bound["weigh"])


def _squares(block: RowBlock, values: Values, loss: ScalarLoss) -> Values:
    p = block[0].shape[1] + 1
    return {"sum": column_squares(block, p, _weigh(values, loss))[0]}


def _check_squares(bounds: PublicBounds, rows: int, values: Values, answer: Values) -> None:
    bounds.check_sums(answer["sum"], rows * _row_weight(bounds, values) * bounds.sizes**2, least=0.0)


def _gram_parameters(bound: dict[str, Any]) -> Values:
    return {"T": bound["T"], "exact": bool(bound["exact"]), **_weigh_parameters(bound["weigh"])}


def _gram(block: RowBlock, values: Values, loss: ScalarLoss) -> Values:
    return {"sum": block_gram(block, values["T"], values["exact"], _weigh(values, loss))[0]}


def _check_gram(bounds: PublicBounds, rows: int, values: Values, answer: Values) -> None:
    z = bounds.coordinates(values["T"])
    bounds.check_symmetric(answer["sum"], rows * _row_weight(bounds, values) * np.outer(z, z))


def _row_weight(bounds: PublicBounds, values: Values) -> float:
    """The largest weight of a row."""
    return bounds.curvature(factor_of(values).matrix @ values["v"]) if "v" in values else 1.0


def _sum_back(bounds: PublicBounds, values: Values, answer: Values) -> Terms:
    return (answer["sum"],)


def _products(name: str, question: Layout, curved: str) -> tuple[SumOperation, SumOperation]:
    squares = operation(f"squares {name}", question, VECTOR, says=f"sums of squares of the encoded columns{curved}")
    gram = operation(
        f"products {name}",
        {"T": Numbers(("p", "p")), "exact": Flag(), **question},
        MATRIX,
        says=f"sums of products of the encoded columns{curved}: X'X in the coordinator's coordinates, exact",
    )
    return (
        SumOperation(squares, _squares_parameters, _squares, _check_squares, _sum_back),
        SumOperation(gram, _gram_parameters, _gram, _check_gram, _sum_back),
    )


SQUARES, PRODUCTS = _products("of the table", {}, "")
CURVED_SQUARES, CURVED_PRODUCTS = _products("at weights", POINT, ", weighted by the loss at the coordinator's weights")


# --- the last digits of a least-squares fit ---


def _refined_parameters(bound: dict[str, Any]) -> Values:
    return {**factor_values(bound["factor"]), "high": bound["high"], "low": bound["low"]}


def _refined(block: RowBlock, values: Values, loss: ScalarLoss) -> Values:
    return {"sum": refined_gradient(block, factor_of(values), values["high"], values["low"])[0]}


def _check_refined(bounds: PublicBounds, rows: int, values: Values, answer: Values) -> None:
    z = bounds.coordinates(factor_of(values).matrix)
    bounds.check_sums(answer["sum"], rows * bounds.residual(values["high"] + values["low"]) * z)


REFINED = SumOperation(
    operation(
        "refined gradient",
        {**FACTOR, "high": Numbers(("p",)), "low": Numbers(("p",))},
        VECTOR,
        says="gradient of the squared loss over the site's rows at the coordinator's weights, exact",
    ),
    _refined_parameters,
    _refined,
    _check_refined,
    _sum_back,
)

SUMS = {each.operation.name: each for each in (NEWTON, SQUARES, PRODUCTS, CURVED_SQUARES, CURVED_PRODUCTS, REFINED)}
"""Every sum of a fit, by the name of its operation."""


def sum_for(f: Callable[[Any], Terms], loss: ScalarLoss) -> tuple[SumOperation, Values]:
    """The operation of a function of a block, and its parameters; refused if sites do not offer it."""
    if not isinstance(f, partial) or f.args:
        raise Refusal("sites run functions of a fixed list, and this is not one of them")
    bound = dict(f.keywords)
    if bound.get("loss", loss) != loss:
        raise Refusal("the sites compute with the loss of the schema, and this is another one")
    weigh = bound.get("weigh", table_weights)
    at_weights = isinstance(weigh, partial) and weigh.func is curvature_weights
    if weigh is not table_weights and not at_weights:
        raise Refusal("sites weigh rows by the table or by the loss, and this is another way")
    by_function: dict[Any, SumOperation] = {
        newton_terms: NEWTON,
        refined_gradient: REFINED,
        column_squares: CURVED_SQUARES if at_weights else SQUARES,
        block_gram: CURVED_PRODUCTS if at_weights else PRODUCTS,
    }
    if f.func not in by_function:
        raise Refusal("sites run functions of a fixed list, and this is not one of them")
    chosen = by_function[f.func]
    return chosen, chosen.parameters(bound)
