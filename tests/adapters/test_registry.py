"""The registry of models: a class is found by name, a new one is one function, an unknown one is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage import cases
from sklearn.linear_model import Ridge

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters import registry
from dosimeter.adapters.problem import Problem
from dosimeter.adapters.registry import adapter, adapters, find_adapter

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=30)


class DoubleRidge:
    """A model of another library: a ridge regression that calls its weights beta."""

    n_features_in_ = 2

    def fit(self, X, y):
        self.beta = np.linalg.solve(X.T @ X + 2.0 * np.eye(2), X.T @ y)
        return self


def test_a_model_of_another_library_is_one_registered_function(monkeypatch) -> None:
    assert list(adapters())  # all are registered
    monkeypatch.setattr(registry, "_ADAPTERS", {**registry._ADAPTERS})
    library = DoubleRidge.__module__.split(".")[0]
    with pytest.raises(dm.CannotMeasure, match="DoubleRidge"):
        dm.measure(DoubleRidge().fit(X, Y), X, Y, noise=dm.Gaussian(0.1))

    @adapter(library, "DoubleRidge", remark="exact")
    def double_ridge(model, target):
        return Problem(glm.Squared(), 2.0, False, model.beta, target.numbers(), target.weight)

    leak = dm.measure(DoubleRidge().fit(X, Y), X, Y, noise=dm.Gaussian(0.1))
    same = dm.measure(Ridge(2.0, fit_intercept=False).fit(X, Y), X, Y, noise=dm.Gaussian(0.1))
    np.testing.assert_allclose(leak.examples, same.examples, rtol=1e-9)


def test_a_class_has_one_adapter(monkeypatch) -> None:
    assert list(adapters())  # all are registered
    monkeypatch.setattr(registry, "_ADAPTERS", {**registry._ADAPTERS})
    with pytest.raises(dm.Refusal, match="has an adapter already"):

        @adapter("sklearn", "Ridge", remark="another")
        def another(model, target):
            raise AssertionError


def test_a_derived_class_is_read_as_its_base() -> None:
    class OurRidge(Ridge):
        pass

    assert find_adapter(OurRidge()) is find_adapter(Ridge())


ELSEWHERE = {"Coefficients": "tests/adapters/test_models.py", "CoxPHFitter": "benchmarks/coverage_cases.py"}
"""Classes without a case in every environment: bare numbers, and a library that is not always installed."""


def classes_without_a_case(names: list[str]) -> list[str]:
    """Adapted classes that no case of the list names as a word."""
    named = {word for name in names for word in re.findall(r"\w+", name)}
    return [cls for entry in adapters() for cls in entry.classes if cls not in named and cls not in ELSEWHERE]


def test_every_adapter_has_a_case_of_the_list_and_a_remark() -> None:
    names = [case.name for case in cases() if case.section != "refused"]
    assert all(entry.remark for entry in adapters())
    assert not classes_without_a_case(names)
    assert classes_without_a_case([name for name in names if name != "HuberRegressor"]) == ["HuberRegressor"]
    for cls, file in ELSEWHERE.items():
        assert cls in (ROOT / file).read_text(encoding="utf-8")
