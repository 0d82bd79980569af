"""`dm.attack`: an attack on simulated releases of a linear model, beside the figure that bounds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.checks import not_negative, positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.models.linear_attack import invert, presence
from dosimeter.results.attack import AttackReport
from dosimeter.workflows.answers_leakage import asked_queries
from dosimeter.workflows.noise_name import noise_class
from dosimeter.workflows.people_table import Constants, as_names, read_people

if TYPE_CHECKING:
    from dosimeter.core.noise import Density
    from dosimeter.workflows.people_table import Names

TRIALS = {"inversion": 100, "membership": 2000}
"""Kind -> releases that are simulated by default."""
MOST_TRIALS = 1_000_000


def attack(
    table: Any,
    target: str,
    *,
    kind: str = "inversion",
    column: str | None = None,
    scale: float,
    noise: str = "gaussian",
    release: str = "weights",
    queries: Any = None,
    answer: str | None = None,
    loss: str = "auto",
    l2: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    categorical: Names = (),
    exclude: Names = (),
    missing: str = "refuse",
    impute: Constants | None = None,
    delimiter: str = ",",
    decimal: str = ".",
) -> AttackReport:
    """Attack a linear model of a table, fitted here and released with noise many times. Nothing is released.

    Parameters
    ----------
    table
        The training table: pandas, polars, pyarrow, a dict of columns, or the path of a .csv or .parquet file.
    target
        The column that the model predicts.
    kind
        "inversion" guesses a column of every row; the attacker knows everything else. "membership" guesses whether a
        row took part; the attacker knows all other rows.
    column
        The column that an inversion guesses.
    scale, noise
        The noise on each released weight: "gaussian", "laplace", "gumbel" or "logistic"; membership has a figure for
        "gaussian" alone. For softmax it is on the K - 1 orthonormal contrasts between the classes. With
        `release="predictions"` it is the noise on each answer, of any of these laws.
    release, queries, answer
        "weights", or "predictions" for an attack on answers alone: the public rows that are answered, and with what, as
        in `measure`.
    loss
        "auto", or any loss that `measure` fits.
    l2
        Strength of the squared penalty on standardised columns; without it scikit-learn's default for the loss.
    trials
        Releases to simulate: 100 for an inversion, 2000 for membership.
    seed
        Of the simulation.
    categorical, exclude, missing, impute, delimiter, decimal
        How the table is read, as in `measure`.

    Returns
    -------
    AttackReport
        `.inversion` or `.membership`, with intervals and a control. `.attack_result` is the attack itself.

    Raises
    ------
    Refusal
        A column is missing, or a number is out of its range.
    CannotMeasure
        Membership has no figure for other noise than Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 60)
    >>> people = {"age": age, "ill": rng.choice(["no", "yes"], 60), "cost": 2 * age + rng.normal(0, 5, 60)}
    >>> report = attack(people, "cost", column="ill", scale=0.001, trials=20)
    >>> report.inversion.figure > 0.9
    True
    """
    if kind not in TRIALS:
        raise Refusal(f"{option('kind', safe_text(kind))}: use {' or '.join(TRIALS)}")
    if (column is None) == (kind == "inversion"):
        fault = f"{option('column')} is missing" if column is None else f"{option('column', safe_text(column))}"
        raise Refusal(f"{fault}: an inversion guesses a column, membership does not")
    count = TRIALS[kind] if trials is None else trials
    if not 2 <= count <= MOST_TRIALS:
        raise Refusal(f"{option('trials', count)}: give a whole number from 2 to {MOST_TRIALS}")
    if seed < 0:
        raise Refusal(f"{option('seed', seed)}: give a whole number, 0 or above")
    law: Any = noise_class(noise)
    codes = as_names(categorical)
    density: Density = law(positive("scale", scale))
    penalty = None if l2 is None else not_negative("l2", l2)
    rng = np.random.Generator(np.random.PCG64(seed))
    people = read_people(
        table,
        target=target,
        categorical=codes,
        exclude=as_names(exclude),
        missing=missing,
        impute=impute or {},
        delimiter=delimiter,
        decimal=decimal,
    )
    asked = asked_queries(release, queries, answer, density)
    asked = None if asked is None else replace(asked, delimiter=delimiter, decimal=decimal)
    options: dict[str, Any] = {"noise": density, "loss": loss, "l2": penalty, "trials": count, "rng": rng}
    options |= {"categorical": codes, "asked": asked}
    settings: dict[str, Any] = {"target": target, "noise": density, "trials": count}
    settings |= {} if asked is None else {"answer": asked.answer.value}
    if column is not None:
        return AttackReport.of_inversion(invert(people, target, column, **options), column, **settings)
    return AttackReport.of_membership(presence(people, target, **options), people, **settings)
