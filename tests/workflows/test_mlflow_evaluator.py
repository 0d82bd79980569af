"""The evaluator for MLflow: found by its entry point, and logged to real tracking stores."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dosimeter as dm
from dosimeter.workflows.mlflow_evaluator import DosimeterEvaluator, metrics_of, tags_of

ROOT = Path(__file__).resolve().parents[2]
GROUP = "mlflow.model_evaluator"
SCRIPT = """
import json, sys
import mlflow, numpy as np, pandas as pd
from sklearn.linear_model import Ridge

mlflow.set_tracking_uri(sys.argv[1])
rng = np.random.default_rng(0)
people = pd.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)})
people["y"] = people.a + rng.normal(size=50)
model = Ridge().fit(people[["a", "b"]], people.y)
with mlflow.start_run() as run:
    logged = mlflow.sklearn.log_model(model, name="model")
    mlflow.models.evaluate(
        logged.model_uri, people, targets="y", model_type="regressor", evaluators="dosimeter",
        evaluator_config={"scale": 0.1, "max_dose": 1.0, "person": [f"p{i // 2}" for i in range(50)]},
    )
stored = mlflow.get_run(run.info.run_id)
page = mlflow.artifacts.load_text(f"{stored.info.artifact_uri}/dosimeter/external.html")
print("RESULT", json.dumps([stored.data.metrics, stored.data.tags, "External edition" in page]))
"""


def people():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=50), rng.normal(size=50)
    return np.column_stack([a, b]), a + rng.normal(size=50)


@pytest.mark.parametrize("store", ["file", "sqlite"])
def test_dose_and_verdict_are_in_the_run(store, tmp_path):
    if importlib.util.find_spec("mlflow") is None:
        pytest.skip("mlflow is not installed: make mlflow runs this in an environment of its own")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]["dosimeter"]
    metadata = tmp_path / "plugin" / "dosimeter_evaluator-0.dist-info"  # as an installed package declares it
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dosimeter-evaluator\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\ndosimeter = {declared}\n")
    place = f"file://{tmp_path}/mlruns" if store == "file" else f"sqlite:///{tmp_path}/mlflow.db"
    paths = os.pathsep.join([str(ROOT / "src"), str(metadata.parent)])
    variables = {**os.environ, "PYTHONPATH": paths, "MLFLOW_ALLOW_FILE_STORE": "true"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, place], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    metrics, tags, external = json.loads(line.removeprefix("RESULT "))
    X, y = people()
    names = [f"p{i // 2}" for i in range(50)]
    leak = dm.measure(Ridge().fit(X, y), X, y, person=names, noise=dm.Gaussian(0.1))
    assert metrics["dosimeter_highest_dose"] == pytest.approx(max(leak.persons.values()), rel=1e-6)
    assert metrics["dosimeter_people_above"] == sum(eta > 1.0 for eta in leak.persons.values())
    assert tags["dosimeter.verdict"] == "above"
    assert external


def test_an_unbounded_dose_is_no_number():
    X, y = people()
    result = dm.measure(Ridge().fit(X, y), X, y).result(limit=1.0)
    metrics, tags = metrics_of(result), tags_of(result)
    assert metrics["dosimeter_bounded"] == 0.0
    assert "dosimeter_highest_dose" not in metrics
    assert (tags["dosimeter.verdict"], tags["dosimeter.noise"]) == ("above", "none")


def test_what_cannot_be_evaluated_is_refused():
    X, y = people()
    data = SimpleNamespace(features_data=X, labels_data=y)
    options = {"model_type": "regressor", "dataset": data, "run_id": "1"}
    with pytest.raises(dm.Refusal, match="max_dos"):
        DosimeterEvaluator().evaluate(**options, evaluator_config={"max_dos": 1.0}, model=object())
    with pytest.raises(dm.Refusal, match="training data"):
        DosimeterEvaluator().evaluate(**options, evaluator_config={}, model=None)
    with pytest.raises(dm.Refusal, match="no estimator inside"):
        DosimeterEvaluator().evaluate(**options, evaluator_config={}, model=object())
    assert not DosimeterEvaluator.can_evaluate(model_type="text", evaluator_config={})
