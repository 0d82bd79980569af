"""`dm.measure`: what the weights of a linear model leak about each person in its training table [Hannun21]."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any

from dosimeter.adapters.formulas import formula_target
from dosimeter.adapters.registry import knows_its_target, measurable_adapter
from dosimeter.adapters.wrappers import unwrap
from dosimeter.core.checks import not_negative
from dosimeter.core.errors import Refusal
from dosimeter.core.face import command_or_call, option
from dosimeter.core.noise import no_noise
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import is_sparse
from dosimeter.models.answering_model import UNIT, AnsweringModel, Asked
from dosimeter.models.counts import as_source
from dosimeter.models.fit_table import fit_table
from dosimeter.models.given_model import GivenModel, measure_model
from dosimeter.models.sparse_fit import fit_sparse
from dosimeter.tables.row_arguments import names_of
from dosimeter.tables.table import Table
from dosimeter.workflows.answers_leakage import AnswersLeakage, asked_queries
from dosimeter.workflows.block_table import Place, TableSource, block_source, refuse_given_model
from dosimeter.workflows.measure_blocks import BlockLeakage, measure_blocks
from dosimeter.workflows.model_file import fitted_model, is_model, names_a_table
from dosimeter.workflows.model_leakage import ModelLeakage
from dosimeter.workflows.noise_name import noise_class
from dosimeter.workflows.passed_columns import rows_of, with_columns, with_ids_of
from dosimeter.workflows.people_table import (
    BoundsSource,
    Constants,
    Names,
    as_names,
    check_reading,
    fit_bounds,
    is_path,
    read_people,
)


def measure(
    model: Any = None,
    table: Any = None,
    y: Any = None,
    *,
    target: str | None = None,
    person: Any = None,
    noise: Any = None,
    scale: float | None = None,
    release: str = "weights",
    queries: Any = None,
    answer: str | None = None,
    loss: str = "auto",
    l2: float | None = None,
    unit: str | None = None,
    known_target: bool = False,
    categorical: Names = (),
    exclude: Names = (),
    tied: Names = (),
    not_tied: Names = (),
    bounds: BoundsSource | None = None,
    scaler: str | None = None,
    missing: str = "refuse",
    impute: Constants | None = None,
    sample_weight: Any = None,
    delimiter: str = ",",
    decimal: str = ".",
    engine: str | None = None,
    memory: str | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scheduler: str | None = None,
) -> ModelLeakage | BlockLeakage:
    """What a linear model's weights, released with noise on each, leak about every person in its training table.

    `measure(model, table, y, ...)` measures a fitted model. `measure(table, target="readmitted", ...)` fits one first.

    Parameters
    ----------
    model
        A fitted scikit-learn linear model, alone or behind a Pipeline of steps that treat rows one by one; statsmodels
        GLM results; `Coefficients`; or the path of a .skops or .json file. Without it a model is fitted here: numbers
        are standardised, labels become indicators.
    table
        The table it was trained on: pandas, polars, pyarrow, a dict of columns, a 2-D array, a scipy.sparse table, a
        list or series of texts if the model begins with a vectorizer, or the path of a .csv or .parquet file. A folder
        of Parquet files, a polars LazyFrame, an Arrow dataset and a mapped array are read in blocks, and so is a
        .csv or .parquet file too large for `memory`.
    y, target
        What the model predicts: `y` is one value per row or a column's name, `target` a column's name. One of the two;
        neither for a model that was fitted by a formula with a column on its left side.
    person
        Whose row it is: a column's name, or one value per row. One person may have several rows; their figure is of all
        their rows together. Without it each row stands alone.
    noise, scale
        The noise on each released weight: an object such as `Gaussian(0.05)`, or a name ("gaussian", "laplace",
        "gumbel", "logistic") with its scale. Without both the exact weights are released and figures are unbounded.
        With `release="predictions"` it is the noise on each answer.
    release
        "weights", or "predictions" if the model stays inside and only answers `queries`.
    queries
        The public rows that are answered: a frame with the model's columns, or the path of a .csv or .parquet file.
        Other columns are ignored. A row that is asked twice counts twice.
    answer
        What a query is answered with: "predictions" (the mean, the probability of class 1, or one for each class; the
        default), "margins", or "labels" (the class of the largest noised margin).
    loss, l2
        Of a model that is fitted here: "auto", "squared", "logistic", "poisson", "softmax" or another name in
        `glm.LOSSES`, and the strength of the squared penalty; without it scikit-learn's default for the loss.
    unit
        "sd" for η per standard deviation of a number, "raw" for η in the column's own unit. A category, and a column or
        target of two values, counts by the step from one value to another in both. By default "raw" for a given model
        and "sd" for one that is fitted here.
    known_target
        Take the target as known to the attacker: it is not counted among a row's unknowns.
    categorical, exclude
        Columns of codes that are not amounts, and columns to leave out.
    tied, not_tied
        Columns, or the target, with one value for all rows of a person. Columns that never change within a person are
        tied without being named; `not_tied` takes them for separate values, which under-reports a value that is one.
    bounds
        Public bounds and levels for a model that is fitted here: a .toml file, or column -> (lower, upper) or a list of
        levels. Nothing is then scaled by the table itself.
    scaler
        "total" measures weights folded into the columns' own units, through the mean and deviation that columns were
        standardised by; "held" takes these as public and reports what they leave at any noise. By default "total" for a
        model that is fitted here and "held" for a given one.
    missing, impute
        Missing values: "refuse", "drop" (leave the rows out), or "impute" with constants by column. A given model that
        has an imputer fills the gaps of a dataframe itself.
    sample_weight
        As it was given to the model's `fit`: a column's name, or one value per row.
    delimiter
        What separates cells in a .csv file.
    decimal
        The decimal mark of numbers in a .csv file: "." or ",".
    engine
        "memory" reads the table whole, "blocks" a few blocks at a time, "dask" on the workers of a cluster; by default
        the size of the table decides. A Dask DataFrame or Array is measured where it is.
    memory
        How much memory may be used, such as "2GB" (the default): it decides the default engine and the size of a block.
    checkpoint
        A folder for finished work of the engines "blocks" and "dask": after a stop the same call resumes.
        Workers write readings into it, so it must be shared with them.
    scheduler
        Address of the scheduler of a Dask cluster, `tls://HOST:PORT`, whose workers can read the file. By default the
        `distributed.Client` that is open.

    Returns
    -------
    ModelLeakage
        `.persons`, `.examples`, `.cells`, `.attributes`, `.group(by)`; `.result(limit=...)` is what reports are made
        of. An `AnswersLeakage` for `release="predictions"`. For a table that is read in blocks a `BlockLeakage`:
        `.result(limit=...)`, `.attributes`, `.doses()`, `.write_doses(path)`.

    Raises
    ------
    Refusal
        A column is missing, options contradict each other, or the table is not the model's.
    CannotMeasure
        The model has no leakage figure here; the message says why.

    Notes
    -----
    η is the root of the largest eigenvalue of the Fisher information matrix of the release about the unknowns of a
    person, the Fisher information loss of [Hannun21] eq. 4. An attacker who knows everything else and guesses a value
    without bias errs by at least 1/η (standard deviation).

    Examples
    --------
    >>> import numpy as np
    >>> import dosimeter as dm
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 3.0])
    >>> model = LinearRegression().fit(X, y)
    >>> leak = dm.measure(model, X, y, person=["a", "b", "b", "c"], noise=dm.Gaussian(1.0))
    >>> {person: round(eta, 3) for person, eta in leak.persons.items()}
    {'a': 1.049, 'b': 0.677, 'c': 0.409}
    """
    estimator, data = _model_and_table(model, table)
    place = Place(engine, memory, checkpoint, scheduler)
    if estimator is not None:
        refuse_given_model(data, place)
    data = as_source(data)
    source = None
    if estimator is None:
        source = block_source(data, place, delimiter=delimiter, decimal=decimal, whole=missing == "impute")
    if y is None and target is None:
        target = formula_target(estimator)
    if y is None and target is None and estimator is not None and not is_path(estimator):
        measurable_adapter(unwrap(estimator).final)  # a model that has no figure needs no target
    label = None if y is None and target is None and knows_its_target(estimator) else _target(y, target)
    reading = Reading(
        as_names(categorical),
        as_names(exclude),
        as_names(tied),
        as_names(not_tied),
        missing,
        impute,
        delimiter,
        decimal,
    )
    figures = Figures(
        _noise(noise, scale),
        counts_target=not known_target,
        unit=unit or ("sd" if estimator is None else "raw"),
        scaler=scaler or ("total" if estimator is None else "held"),
    )
    asked = asked_queries(release, queries, answer, figures.noise, blocks=source is not None, scaler=scaler)
    if asked is not None:
        asked = replace(asked, delimiter=delimiter, decimal=decimal)
    if estimator is None and is_sparse(data):
        figures = replace(figures, unit=unit or "raw", scaler=scaler or "held")
        return _measure_sparse(data, label, person, reading, figures, bounds, loss, l2, sample_weight, asked)
    if estimator is None:
        if sample_weight is not None:
            raise Refusal(f"{option('sample_weight')} is for a given model: one that is fitted here has no weights")
        penalty = None if l2 is None else not_negative("l2", l2)
        if source is not None:
            return _measure_blocks(source, place, label, person, reading, figures, bounds, loss, penalty)
        return _measure_own(data, label, person, reading, figures, bounds, loss, penalty, asked)
    for name, value in (("loss", None if loss == "auto" else loss), ("l2", l2), ("bounds", bounds)):
        if value is not None:
            raise Refusal(
                f"{option(name)} is for a model fitted here and {option('model')} has its own: leave one of the two out"
            )
    with fitted_model(estimator) as fitted:
        return _measure_given(fitted, data, label, person, reading, figures, sample_weight, asked)


@dataclass(frozen=True)
class Reading:
    """How a table is read."""

    categorical: tuple[str, ...]
    exclude: tuple[str, ...]
    tied: tuple[str, ...]
    not_tied: tuple[str, ...]
    missing: str
    impute: Constants | None
    delimiter: str
    decimal: str

    @property
    def changes_the_table(self) -> bool:
        """Whether a dataframe is not measured as it stands."""
        return bool(self.categorical or self.exclude or self.impute) or self.missing not in ("refuse", "impute")


@dataclass(frozen=True)
class Figures:
    """What is measured, and in which unit."""

    noise: Any
    counts_target: bool
    """Whether the target counts among a row's unknowns."""
    unit: str
    scaler: str


def _model_and_table(model: Any, table: Any) -> tuple[Any, Any]:
    """(model or None, table): a table alone may be the first argument."""
    if table is None:
        if model is None or is_model(model):
            raise Refusal("there is no table: pass measure(model, table, y), or measure(table, target=...)")
        return None, model
    if model is not None and not is_model(model) and (names_a_table(model) or names_of(model)):
        raise Refusal(
            command_or_call(
                "--model is a table, not a model: give a .skops file, or a .json file with bare coefficients",
                "the first of two arguments is the model, and this is a table: pass measure(table, target=...)",
            )
        )
    return model, table


def _target(y: Any, target: str | None) -> Any:
    """A column's name, or values."""
    if (y is None) == (target is None):
        if y is not None:
            raise Refusal(f"what the model predicts is named twice: pass {option('target')} or {option('y')}, not both")
        raise Refusal(f"name what the model predicts: pass {option('target')}, the name of a column, or {option('y')}")
    return y if target is None else target


def _noise(noise: Any, scale: float | None) -> Any:
    """The noise as an object; no_noise for an exact release."""
    if noise is None and scale is None:
        return no_noise
    if noise is not None and not isinstance(noise, str):
        if scale is not None:
            raise Refusal(f"{option('scale')} is for a noise by name, and {safe_text(noise)} has its own: leave it out")
        return noise
    law: Any = noise_class(noise or "gaussian")
    if scale is None:
        raise Refusal(f"{option('noise', noise)} has no scale: pass {option('scale')} as well")
    if not 0 < scale < math.inf:  # nan is no scale either
        exact = f"or leave {option('scale')} out for an exact release"
        raise Refusal(f"{option('scale', float(scale))}: give a finite number above 0, {exact}")
    return law(scale)


def _measure_own(
    data: Any,
    target: Any,
    person: Any,
    reading: Reading,
    figures: Figures,
    bounds: BoundsSource | None,
    loss: str,
    l2: float | None,
    asked: Asked | None,
) -> ModelLeakage:
    """Fit a model of the table, then measure it, or its answers."""
    source, label, person_column = with_columns(data, target, person)
    declared = fit_bounds(bounds, label, person_column, reading.categorical, reading.exclude)
    table = read_people(
        source,
        target=label,
        person=person_column,
        categorical=tuple(dict.fromkeys([*reading.categorical, *declared.text])),
        exclude=reading.exclude,
        tied=reading.tied,
        not_tied=reading.not_tied,
        missing=reading.missing,
        impute=reading.impute or {},
        declared=declared.numbers,
        classes=declared.classes(label),
        delimiter=reading.delimiter,
        decimal=reading.decimal,
    )
    fit = fit_table(
        table,
        label,
        l2=l2,
        noise=figures.noise if asked is None else UNIT,
        loss=loss,
        person=person_column,
        categorical=reading.categorical,
        tied=reading.tied,
        not_tied=reading.not_tied,
        unit=figures.unit,
        include_target=figures.counts_target,
        bounds=declared.bounds,
        own_units=declared.own_units,
        scaler=figures.scaler,
        answers=asked is not None,
    )
    leak = with_ids_of(fit.leakage, source, person_column, table)
    if asked is not None:
        model = AnsweringModel.of_fit(leak, fit.encoding, reading.categorical, fit.classes)
        frame = rows_of(data, table)
        return AnswersLeakage.of_queries(model, asked, table, fit=fit, person=person, frame=frame)
    return ModelLeakage.of(leak, table, fit=fit, person=person, frame=rows_of(data, table))


def _measure_sparse(
    data: Any,
    target: Any,
    person: Any,
    reading: Reading,
    figures: Figures,
    bounds: BoundsSource | None,
    loss: str,
    l2: float | None,
    sample_weight: Any,
    asked: Asked | None,
) -> ModelLeakage:
    """Fit a model of a sparse table on its columns as they are, then measure it."""
    for name, value in (("bounds", bounds), ("sample_weight", sample_weight)):
        if value is not None:
            raise Refusal(f"{option(name)} is not for a sparse table that is fitted here: leave it out or pass a model")
    model = fit_sparse(data, target, loss, None if l2 is None else not_negative("l2", l2))
    return _measure_given(model, data, target, person, reading, figures, None, asked)


def _measure_blocks(
    source: TableSource,
    place: Place,
    target: Any,
    person: Any,
    reading: Reading,
    figures: Figures,
    bounds: BoundsSource | None,
    loss: str,
    l2: float | None,
) -> BlockLeakage:
    """Fit a model of a table in blocks, then measure it."""
    for name, value in (("target", target), ("person", person)):
        if value is not None and not isinstance(value, str):
            raise Refusal(f"{option(name)}: the table is read in blocks: name a column of it instead of values")
    check_reading(
        target, person, reading.categorical, reading.exclude, reading.tied, reading.not_tied, reading.missing,
        reading.impute or {},
    )  # fmt: skip
    return measure_blocks(
        source,
        target,
        person,
        place=place,
        categorical=reading.categorical,
        exclude=reading.exclude,
        tied=reading.tied,
        not_tied=reading.not_tied,
        missing=reading.missing,
        declared=fit_bounds(bounds, target, person, reading.categorical, reading.exclude),
        noise=figures.noise,
        loss=loss,
        l2=l2,
        unit=figures.unit,
        include_target=figures.counts_target,
        scaler=figures.scaler,
    )


def _measure_given(
    model: Any,
    data: Any,
    target: Any,
    person: Any,
    reading: Reading,
    figures: Figures,
    sample_weight: Any,
    asked: Asked | None,
) -> ModelLeakage:
    """A dataframe is measured as it stands, unless an option of reading asks for more; a file is read first."""

    def measured_on(frame: Any, label: Any, ids: Any) -> GivenModel:
        return measure_model(
            model,
            frame,
            label,
            person=ids,
            noise=figures.noise if asked is None else UNIT,
            tied=reading.tied,
            not_tied=reading.not_tied,
            include_target=figures.counts_target,
            unit=figures.unit,
            sample_weight=sample_weight,
            scaler=figures.scaler,
            answers=asked is not None,
        )

    if not is_path(data) and not reading.changes_the_table:
        measured = measured_on(data, target, person)
        leak = measured.leakage
        table = data if isinstance(data, Table) else measured.table
        if asked is not None:
            return AnswersLeakage.of_queries(AnsweringModel.of_given(measured), asked, table, person=person)
        return ModelLeakage.of(leak, table, person=person)
    if target is None:
        raise Refusal("a model that takes its target from the frame is measured on that frame as it is: leave out "
                      "the options that change it")  # fmt: skip
    source, label, person_column = with_columns(data, target, person)
    table = read_people(
        source,
        target=label,
        person=person_column,
        categorical=reading.categorical,
        exclude=reading.exclude,
        tied=reading.tied,
        not_tied=reading.not_tied,
        missing=reading.missing,
        impute=reading.impute or {},
        model_imputes=True,
        delimiter=reading.delimiter,
        decimal=reading.decimal,
    )
    measured = measured_on(table, label, person_column)
    leak = with_ids_of(measured.leakage, source, person_column, table)
    frame = rows_of(data, table)
    if asked is not None:
        answering = AnsweringModel.of_given(replace(measured, leakage=leak))
        return AnswersLeakage.of_queries(answering, asked, table, person=person, frame=frame)
    return ModelLeakage.of(leak, table, person=person, frame=frame)
