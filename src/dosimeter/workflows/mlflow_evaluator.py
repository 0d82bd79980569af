"""An evaluator for MLflow: `mlflow.models.evaluate(..., evaluators="dosimeter")` logs dose and verdict of a model.

MLflow finds it by the entry point `mlflow.model_evaluator` of this package. MLflow itself is imported when it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.workflows.measure import measure

SETTINGS = ("person", "noise", "scale", "max_dose", "unit", "known_target", "sample_weight", "internal_page")
"""Keys of `evaluator_config`."""
PREFIX = "dosimeter"


class DosimeterEvaluator:
    """Measures a linear model on its training data and logs the figures to the run.

    `evaluator_config` takes `person` (one value per row, or a column of the data that the model does not read), `noise`
    and `scale` of what will be released, and `max_dose`. The data must be the training data: figures are about the
    people in it. Metrics are internal, as are all figures of people: so is then the run.

    Examples
    --------
    >>> DosimeterEvaluator.can_evaluate(model_type="regressor", evaluator_config={"scale": 0.05, "max_dose": 1.0})
    True
    >>> DosimeterEvaluator.can_evaluate(model_type="question-answering", evaluator_config={})
    False
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: Mapping[str, Any], **kwargs: Any) -> bool:
        """Whether the type of model may be linear; MLflow asks this before it evaluates."""
        return model_type in (None, "regressor", "classifier")

    def evaluate(
        self,
        *,
        model_type: str | None,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None,
        model: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Measure the model on the data, log dose and verdict to the run, and return them."""
        settings = dict(evaluator_config or {})
        unknown = [key for key in settings if key not in SETTINGS]
        if unknown:
            raise Refusal(f"evaluator_config has no key {safe_text(unknown[0])}: use {safe_list(SETTINGS, 10)}")
        if model is None or dataset.labels_data is None:
            raise Refusal("dosimeter evaluates a model on its training data: pass the model, the data and targets=")
        limit, internal_page = settings.pop("max_dose", None), settings.pop("internal_page", False)
        estimator, frame = _raw(model), dataset.features_data
        leak: Any = measure(estimator, frame, dataset.labels_data, **settings)
        result = leak.result(limit=limit)
        from mlflow import MlflowClient
        from mlflow.models import EvaluationResult

        metrics, tags = metrics_of(result), tags_of(result)
        client = MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        for name, text in tags.items():
            client.set_tag(run_id, name, text)
        client.log_text(run_id, result.to_html("external"), f"{PREFIX}/external.html")
        if internal_page:
            client.log_text(run_id, result.to_html("internal"), f"{PREFIX}/internal.html")
        return EvaluationResult(metrics=metrics, artifacts={}, run_id=run_id)


def metrics_of(result: Any) -> dict[str, float]:
    """Numbers for MLflow, which has no word for infinity: an unbounded dose is absent, and bounded is 0. Internal."""
    metrics = {f"{PREFIX}_bounded": float(result.bounded), f"{PREFIX}_people": float(result.people)}
    for name in ("highest", "typical", "worst_1_percent"):
        value = getattr(result.dose, name)
        if not isinstance(value, str) and math.isfinite(value):
            metrics[f"{PREFIX}_{name}_dose"] = float(value)
    if result.verdict is not None:
        metrics |= {f"{PREFIX}_within_limit": float(result.verdict.within)}
        metrics |= {f"{PREFIX}_people_above": float(result.verdict.above)}
    return metrics


def tags_of(result: Any) -> dict[str, str]:
    """Texts for MLflow."""
    verdict = result.verdict
    text = "no limit" if verdict is None else "within" if verdict.within else "above"
    return {
        f"{PREFIX}.verdict": text,
        f"{PREFIX}.noise": result.noise if result.bounded else "none",
        f"{PREFIX}.standing": result.standing,
        f"{PREFIX}.version": result.version,
    }


def _raw(model: Any) -> Any:
    """The estimator inside MLflow's wrapper."""
    raw = model.get_raw_model() if hasattr(model, "get_raw_model") else None
    if raw is None:
        raise Refusal("the model has no estimator inside that could be measured: log it with mlflow.sklearn")
    return raw
