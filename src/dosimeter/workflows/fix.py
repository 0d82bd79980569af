"""`dm.fix`: a linear model released with noise, so that no person's dose is above a limit."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.checks import not_negative, positive
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import is_sparse
from dosimeter.glm.releases.noise_choice import ROUNDS
from dosimeter.models.given_model_release import release_model
from dosimeter.models.linear_release import TableRelease, release_table
from dosimeter.results.linear import LinearRelease
from dosimeter.workflows.block_table import Place, block_source, refuse_given_model
from dosimeter.workflows.fix_blocks import SIMULATED, fix_blocks, refuse_memory_only
from dosimeter.workflows.model_file import fitted_model
from dosimeter.workflows.noise_name import noise_class
from dosimeter.workflows.people_table import (
    BoundsSource,
    Constants,
    FitBounds,
    as_names,
    check_reading,
    fit_bounds,
    read_people,
)
from dosimeter.workflows.released import Released

if TYPE_CHECKING:
    from dosimeter.core.accounts import PersonDoses
    from dosimeter.workflows.people_table import Names

SHAPES = ("auto", "hessian", "none")
MOST_ROUNDS = 1000


def fix(
    table: Any,
    target: str,
    *,
    model: Any = None,
    person: str | None = None,
    max_dose: float | None = None,
    scale: float | None = None,
    noise: str = "gaussian",
    l2: float | None = None,
    loss: str = "auto",
    equalise: bool = False,
    reweighting_rounds: int | None = None,
    noise_shape: str = "auto",
    categorical: Names = (),
    exclude: Names = (),
    tied: Names = (),
    not_tied: Names = (),
    bounds: BoundsSource | None = None,
    scaler: str = "total",
    missing: str = "refuse",
    impute: Constants | None = None,
    store_fisher_blocks: bool = False,
    even_if_useless: bool = False,
    simulation_seed: int | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    engine: str | None = None,
    memory: str | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scheduler: str | None = None,
) -> Released[LinearRelease]:
    """A linear model of a table, with noise on its weights such that no person's dose is above a limit.

    Parameters
    ----------
    table
        The training table: pandas, polars, pyarrow, a dict of columns, or the path of a .csv or .parquet file. A folder
        of Parquet files, a polars LazyFrame, an Arrow dataset, a mapped array and a Dask collection are read in blocks,
        and so is a .csv or .parquet file too large for `memory`.
    target
        The column that the model predicts.
    model
        A fitted model to release, or the path of its .skops or .json file: its own preprocessing and penalty. Without
        it a model is fitted here.
    person
        The column that says whose row it is. One person may have several rows. Without it each row stands alone, and
        the release cannot be booked in a ledger.
    max_dose
        Highest η that a person may have; the noise follows from it. At most 1 protects.
    scale
        A public noise scale instead. With `max_dose` it must keep within it, or nothing is released.
    noise
        "gaussian", "laplace", "gumbel" or "logistic".
    l2, loss
        Of a model that is fitted here: strength of the squared penalty (without it scikit-learn's default), and "auto"
        or the loss: "squared", "logistic", "softmax", "poisson", "negative-binomial", "gamma", "inverse-gaussian",
        "tweedie", "huber", "squared-hinge" or "squared-epsilon-insensitive".
    equalise, reweighting_rounds
        Reweight people so that their doses become more equal, in that many rounds (3 without it); for the losses
        "squared", "logistic" and "poisson".
    noise_shape
        "auto" chooses the noise that costs least, "hessian" shapes it (for the loss "squared"), "none" puts the same
        noise on all weights.
    categorical, exclude, tied, not_tied, missing, impute, delimiter, decimal
        How the table is read, as in `measure`.
    bounds, scaler
        Public bounds, or how a scaler that was fitted on the table counts, as in `measure`.
    store_fisher_blocks
        Give a ledger each person's Fisher matrix, so that totals over several releases are exact.
    even_if_useless
        Release a model although a constant prediction does better.
    simulation_seed
        Draw the noise from this seed: a simulation, not for release.
    engine, memory, checkpoint, scheduler
        Where it is computed, as in `measure`. With a checkpoint the noise is drawn once: the same call returns the same
        release.

    Returns
    -------
    Released[LinearRelease]
        `.model` is a plain scikit-learn pipeline, `.artefact` its .skops file, `.doses` what a ledger books. `.model`
        is None and `.artefact` empty if the limit is exceeded or the model is useless; `.result` says why.

    Raises
    ------
    Refusal
        No limit is stated, it cannot be kept at any noise, a column is missing, or options contradict each other.
    CannotMeasure
        The model has no leakage figure here, or scikit-learn has no estimator for its loss; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 400)
    >>> people = {"age": age, "cost": 2 * age + rng.normal(0, 5, 400)}
    >>> release = fix(people, "cost", max_dose=1.0)
    >>> release.result.dose.highest <= 1.0, type(release.model).__name__
    (True, 'Pipeline')
    """
    if max_dose is None and scale is None:
        raise Refusal(f"state a limit: {option('max_dose')}, or a public {option('scale')}")
    limit = None if max_dose is None else positive("max_dose", max_dose)
    rounds = _rounds(equalise, reweighting_rounds)
    public_scale = None if scale is None else positive("scale", scale)
    law, shape = noise_class(noise), _shape(noise_shape, equalise=bool(rounds))
    penalty = None if l2 is None else not_negative("l2", l2)
    rng = _generator(simulation_seed)
    if store_fisher_blocks and person is None:
        raise Refusal(f"{option('store_fisher_blocks')} needs persons: name the column with {option('person')}")
    codes, shared, separate = as_names(categorical), as_names(tied), as_names(not_tied)
    _refuse_sparse(table)
    place = Place(engine, memory, checkpoint, scheduler)
    if model is not None:
        refuse_given_model(table, place)
    source = None
    if model is None:
        source = block_source(table, place, delimiter=delimiter, decimal=decimal, whole=missing == "impute")
    if source is not None:
        refuse_memory_only(equalise=bool(rounds), noise_shape=shape, store_fisher_blocks=store_fisher_blocks)
        check_reading(target, person, codes, as_names(exclude), shared, separate, missing, impute or {})
        return fix_blocks(
            source,
            target,
            person,
            place=place,
            categorical=codes,
            exclude=as_names(exclude),
            tied=shared,
            not_tied=separate,
            missing=missing,
            declared=fit_bounds(bounds, target, person, codes, as_names(exclude)),
            limit=limit,
            scale=public_scale,
            law=law,
            l2=penalty,
            loss=loss,
            kind_chosen=shape == "auto" and public_scale is None,
            scaler=scaler,
            even_if_useless=even_if_useless,
            simulation_seed=simulation_seed,
            rng=rng,
        )
    if model is None:
        declared = fit_bounds(bounds, target, person, codes, as_names(exclude))
    else:
        _refuse_fit_options(loss=loss, l2=l2, bounds=bounds, categorical=codes, scaler=scaler, impute=impute or None)
        declared = FitBounds()
    people = read_people(
        table,
        target=target,
        person=person,
        categorical=tuple(dict.fromkeys([*codes, *declared.text])),
        exclude=as_names(exclude),
        tied=shared,
        not_tied=separate,
        missing=missing,
        impute=impute or {},
        model_imputes=model is not None,
        declared=declared.numbers,
        classes=declared.classes(target),
        delimiter=delimiter,
        decimal=decimal,
    )
    if model is None:
        release = release_table(
            people,
            target,
            max_dose=limit if scale is None else None,
            scale=public_scale,
            l2=penalty,
            loss=loss,
            law=law,
            reweighting_rounds=rounds,
            noise_shape=shape,
            person=person,
            categorical=codes,
            tied=shared,
            not_tied=separate,
            bounds=declared.bounds,
            own_units=declared.own_units,
            scaler=scaler,
            rng=rng,
        )
    else:
        with fitted_model(model) as estimator:
            release = release_model(
                estimator,
                people,
                target,
                max_dose=limit if scale is None else None,
                scale=public_scale,
                law=law,
                reweighting_rounds=rounds,
                noise_shape=shape,
                person=person,
                tied=shared,
                not_tied=separate,
                rng=rng,
            )
    if simulation_seed is not None:
        release = replace(release, plan=replace(release.plan, not_covered=(*release.plan.not_covered, SIMULATED)))
    within = limit is None or release.plan.counted <= limit
    useless = release.useful.worse and not even_if_useless
    result = LinearRelease.of(release, people, limit=limit, within=within).with_fields(useless=useless)
    return _released(release, result, people, store_fisher_blocks, may_leave=within and not useless)


def _released(
    release: TableRelease, result: LinearRelease, people: Any, store_fisher_blocks: bool, *, may_leave: bool
) -> Released[LinearRelease]:
    """The model's file and what a ledger needs; without them if the limit or the check of usefulness forbids it."""
    if not may_leave:
        return Released("fix", result, b"", release.release.recipe, (), b"", table=people)
    import skops.io as sio

    return Released(
        "fix",
        result,
        sio.dumps(release.model),
        release.release.recipe,
        _doses(release, store_fisher_blocks),
        release.noise_draw.tobytes(),
        model=release.model,
        table=people,
    )


def _doses(release: TableRelease, store_fisher_blocks: bool) -> tuple[PersonDoses, ...]:
    """η² of each person, with their Fisher matrix if asked; none without persons."""
    if release.ready.ids is None:
        return ()
    return (release.dose_with_blocks if store_fisher_blocks else release.dose,)


def _refuse_fit_options(**options: object) -> None:
    """A given model has its own loss and penalty: passed here, they would be ignored in silence."""
    defaults = {"loss": "auto", "scaler": "total"}
    for name, value in options.items():
        if value is not None and value != () and value != defaults.get(name):
            raise Refusal(
                f"{option(name)} is for a model fitted here and {option('model')} has its own: leave one of the two out"
            )


def _shape(noise_shape: str, *, equalise: bool) -> str | None:
    if noise_shape not in SHAPES:
        raise Refusal(f"{option('noise_shape', safe_text(noise_shape))}: use auto, hessian or none")
    return None if noise_shape == "none" or (noise_shape == "auto" and equalise) else noise_shape


def _rounds(equalise: bool, requested: int | None) -> int:
    """Rounds of reweighting; 0 without."""
    if requested is not None and not equalise:
        raise Refusal(f"{option('reweighting_rounds', requested)} is for {option('equalise')}: pass both")
    if requested is not None and not 1 <= requested <= MOST_ROUNDS:
        raise Refusal(f"{option('reweighting_rounds', requested)}: give a whole number from 1 to {MOST_ROUNDS}")
    return (requested or ROUNDS) if equalise else 0


def _generator(seed: int | None) -> np.random.Generator | None:
    """None draws from the operating system."""
    if seed is None:
        return None
    if seed < 0:
        raise Refusal(f"{option('simulation_seed', seed)}: give a whole number, 0 or above")
    return np.random.Generator(np.random.PCG64(seed))


def _refuse_sparse(table: Any) -> None:
    """A sparse table has no named columns, and its target is not one of them."""
    if is_sparse(table):
        raise CannotMeasure(
            "fix writes a file that predicts from named columns, and a sparse table has none: use "
            "dosimeter.estimators.PrivateLogisticRegression(max_dose=1.0).fit(X, y), PrivateRidge or "
            "PrivatePoissonRegressor, or pass a frame with names"
        )
