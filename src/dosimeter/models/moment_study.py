"""Second moments at the coordinator: components with noise added once, or what sites noised themselves put together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.progress import stage
from dosimeter.core.release import Recipe, Release
from dosimeter.engines.consortium_operations import EVENT_LIMITS, MATCH, NOISY_MOMENT, SECOND_MOMENT
from dosimeter.engines.protocol.assembly import Values, add_in_order
from dosimeter.models.component_release import TAKEN
from dosimeter.models.component_rows import encoded_pipeline
from dosimeter.models.consortium_moments import MomentTerms
from dosimeter.models.consortium_study import CoordinatorStudy, Refused, StudyDraw, sites_without
from dosimeter.pca.distributed import NoisyMoment, join
from dosimeter.pca.mechanism import true_sensitivity
from dosimeter.pca.release import PrivateComponents, public_values, release_sums
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.sklearn_estimators import linear_model
from dosimeter.tables.sklearn_export import input_order, pipeline


def exact_moment(study: CoordinatorStudy) -> tuple[FloatArray, FloatArray, int]:
    """(Σ zzᵀ, Σ z, people) of all sites. Internal: without noise."""
    terms = MomentTerms(study.schema)
    stage("waiting for the sites")
    study.assembly.ask(MATCH.name)
    stage("adding second moments")
    answers = study.assembly.ask(SECOND_MOMENT.name, check=lambda site, values: terms.check(values, noisy=False))
    return add_in_order(answers, "products"), add_in_order(answers, "sums"), int(add_in_order(answers, "people"))


def prepare_components(study: CoordinatorStudy) -> StudyDraw | Refused:
    """Exact sums of all sites, the sites' yes, then noise once."""
    terms = MomentTerms(study.schema)
    products, sums, people = exact_moment(study)
    stage("asking the sites for their limits")
    question = {"proposal": study.proposal(), "people": people}
    refused = sites_without(study.assembly.ask(EVENT_LIMITS.name, question), "within")
    if refused:
        return Refused(refused)
    stage("drawing the noise")
    private = release_sums(products, sums, people, terms.mechanism, bounds=terms.bounds)
    return _components(study, terms, private, {"epsilon_cost": private.epsilon(), "people": people})


def _components(
    study: CoordinatorStudy, terms: MomentTerms, private: PrivateComponents, figures: Mapping[str, Any]
) -> StudyDraw:
    import skops.io as sio

    k = study.schema.components.components if study.schema.components else private.box.d
    model = encoded_pipeline(terms.encoding, private, k)
    recipe = private.release.recipe
    settings = {**recipe.settings, "components": k, "sites": len(study.schema.sites), "study": study.schema.study}
    return StudyDraw(
        sio.dumps(model),
        Recipe(recipe.kind, recipe.noise, settings, (*recipe.not_covered, TAKEN)),
        {
            **figures,
            "components": k,
            "columns": private.box.d,
            "explained": private.components.values[:k].tolist(),
            "not_covered": [*recipe.not_covered, TAKEN],
        },
    )


# --- noise at the sites ---


def noisy_moments(study: CoordinatorStudy) -> list[NoisyMoment]:
    """What each site sent, with the public constants that go with it."""
    terms = MomentTerms(study.schema)
    stage("waiting for the sites")
    study.assembly.ask(MATCH.name)
    stage("waiting for noisy moments")
    answers = study.assembly.ask(NOISY_MOMENT.name, check=lambda site, values: terms.check(values, noisy=True))
    return [_message(terms, values) for values in answers.values()]


def _message(terms: MomentTerms, values: Values) -> NoisyMoment:
    box, mechanism, people = terms.box, terms.mechanism, int(values["people"])
    mean = {"mean": box.centre + values["sums"]} if mechanism.share > 0 else {}
    recipe = Recipe("noisy moment", str(mechanism), {"row_norm": None if math.isinf(box.norm) else box.norm})
    released = Release({"second_moment": values["products"], **mean, **public_values(box)}, recipe)
    return NoisyMoment(
        released,
        people,
        mechanism.scales(box, people),
        mechanism,
        terms.dose(people),
        true_sensitivity(mechanism, box, people),
        mechanism.mean_scale(box, people),
    )


def _public_figures(terms: MomentTerms, messages: list[NoisyMoment]) -> dict[str, Any]:
    """What noise at the sites costs: the noise on the joint moment over that of one draw at the coordinator."""
    people = sum(message.n_samples for message in messages)
    joined = join(messages)
    once = terms.mechanism.scales(terms.box, people)
    return {
        "epsilon_cost": joined.epsilon,
        "people": people,
        "noise_ratio": float(np.sqrt(joined.variances.max()) / once.max()),
    }


def prepare_noisy_components(study: CoordinatorStudy) -> StudyDraw | Refused:
    """Components of what the sites sent: post-processing."""
    terms = MomentTerms(study.schema)
    messages = noisy_moments(study)
    joined = join(messages)
    first, people = messages[0], sum(message.n_samples for message in messages)
    noise = f"{first.mechanism.law.__name__} at each site, {first.mechanism}"
    private = PrivateComponents(
        first.mechanism,
        terms.box,
        people,
        np.sqrt(joined.variances),
        first.mean_scale,
        Release(
            {"second_moment": joined.second_moment, **public_values(terms.box)},
            Recipe("principal components", noise, _settings(study, people)),
        ),
        joined.components,
        first.dose,
    )
    return _components(study, terms, private, _public_figures(terms, messages))


def _settings(study: CoordinatorStudy, people: int) -> dict[str, Any]:
    release = study.schema.release
    return {"epsilon": release.epsilon, "delta": release.delta, "unit": "person", "n_samples": people}


def prepare_noisy_model(study: CoordinatorStudy) -> StudyDraw | Refused:
    """Least squares from noisy moments: post-processing of what the sites sent."""
    import skops.io as sio

    from dosimeter.glm.losses.loss import Squared

    terms, schema = MomentTerms(study.schema), study.schema
    messages = noisy_moments(study)
    joined, people = join(messages), sum(message.n_samples for message in messages)
    shares = np.array([message.n_samples for message in messages]) / people
    mean = shares @ np.array([m.release.values["mean"] - terms.box.centre for m in messages])
    noise = float(np.sqrt(joined.variances.max()))
    j = list(terms.declared).index(schema.target)  # numbers come first, one column each
    w, b, ridge = moment_regression(joined.second_moment, mean, j, schema.l2, noise)
    target = schema.columns[schema.target]
    if not isinstance(target, Range):
        raise TypeError("the target of a regression is a number")
    half, centre = target.upper / 2 - target.lower / 2, target.middle
    encoding = type(terms.encoding)(tuple(s for s in terms.encoding.sources if s.name != schema.target))
    # The centre of a number need not be the middle of its bounds, which the pipeline subtracts.
    inner = np.delete(terms.box.centre, j)
    intercept = centre + half * (b - float(w @ inner))
    order = input_order(encoding)
    model = pipeline(encoding, linear_model(Squared(), (half * w)[order], intercept))
    settings = {**_settings(study, people), "loss": "squared", "l2": schema.l2, "ridge": ridge, "study": schema.study}
    recipe = Recipe(
        "weights", f"Gaussian at each site, on its second moment, {messages[0].mechanism}", settings, (TAKEN,)
    )
    figures = {
        **_public_figures(terms, messages),
        "ridge": ridge,
        "parameters": len(w) + 1,
        "not_covered": [TAKEN],
    }
    return StudyDraw(sio.dumps(model), recipe, figures)


def moment_regression(
    A: FloatArray, mean: FloatArray, target: int, l2: float, noise: float
) -> tuple[FloatArray, float, float]:
    """(w, b, λ): ridge regression of one column on the others from noisy second moments about a public centre.

    A: (q, q), mean: (q,), noise: the largest deviation of an entry, public. λ is at least the size of the noise's
    spectrum, 2σ√q, so that a direction of noise alone has no large weight.

    >>> w, b, ridge = moment_regression(np.array([[1.0, 2.0], [2.0, 4.0]]), np.zeros(2), 1, 1.0, 0.0)
    >>> w.tolist(), b, ridge
    ([1.0], 0.0, 1.0)
    """
    rest = [k for k in range(len(A)) if k != target]
    C = A - np.outer(mean, mean)
    ridge = max(l2, 2 * noise * math.sqrt(len(A)))
    values, vectors = np.linalg.eigh(C[np.ix_(rest, rest)])
    spread = np.maximum(values, 0.0) + ridge
    w = vectors @ ((vectors.T @ C[rest, target]) / np.maximum(spread, 1e-300))
    return w, float(mean[target] - w @ mean[rest]), ridge
