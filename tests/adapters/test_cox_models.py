"""Fitted Cox models of statsmodels and lifelines as problems: settings, refusals, and the check of the minimum."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.cox_models import BASELINE, STRATUM, cox_columns, cox_problem, is_cox
from dosimeter.adapters.polish_cox import polish_cox

from ..glm.survival import table

pd = pytest.importorskip("pandas")
lifelines = pytest.importorskip("lifelines")
ONE = dm.Gaussian(1.0)


def frame(tied=True):
    X, time, event, strata, weight = table(tied=tied)
    out = pd.DataFrame(X, columns=["age", "dose", "stage"])
    return out.assign(time=time, event=event, site=np.array(["a", "b", "c"])[strata], copies=weight)


def columns(data):
    return {name: data[name].to_numpy() for name in data}


def phreg(data, **options):
    return PHReg(data["time"], data[["age", "dose", "stage"]], status=data["event"], **options)


def fitter(data, *, penalizer=0.0, l1_ratio=0.0, method="breslow", knots=None, **options):
    model = lifelines.CoxPHFitter(
        penalizer=penalizer, l1_ratio=l1_ratio, baseline_estimation_method=method, n_baseline_knots=knots
    )
    return model.fit(data, "time", "event", **options)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("strata", [False, True])
def test_results_of_phreg_become_their_problem(ties, strata):
    data = frame()
    results = phreg(data, ties=ties, strata=data["site"] if strata else None).fit()
    problem = cox_problem(results, columns(data))
    fit, moved = polish_cox(problem, noise=ONE)
    np.testing.assert_allclose(fit.w, results.params, rtol=1e-6)
    assert moved < 1e-4
    assert problem.names == cox_columns(results).covariates == ("age", "dose", "stage")
    assert problem.remarks == ((BASELINE, STRATUM) if strata else (BASELINE,))
    assert is_cox(results)


@pytest.mark.parametrize("penalizer", [0.0, 0.1, np.array([0.2, 0.0, 0.05])], ids=["none", "one", "each"])
@pytest.mark.parametrize("options", [{}, {"strata": "site"}, {"strata": ["site", "half"], "weights_col": "copies"}])
def test_a_fitter_of_lifelines_becomes_its_problem(penalizer, options):
    data = frame().assign(half=np.arange(40) % 2)
    used = {"age", "dose", "stage", "time", "event", options.get("weights_col"), *np.atleast_1d(options.get("strata"))}
    model = fitter(data[[name for name in data if name in used]], penalizer=penalizer, **options)
    problem = cox_problem(model, columns(data))
    fit, moved = polish_cox(problem, noise=ONE)
    np.testing.assert_allclose(fit.w, model.params_, rtol=1e-3)
    assert moved < 0.01
    assert problem.standardised == bool(np.any(penalizer))
    assert problem.names == ("age", "dose", "stage")


def test_a_fitter_that_has_converged_has_the_exact_minimum():
    data = frame()[["age", "dose", "stage", "time", "event"]]
    model = fitter(data, penalizer=0.1, fit_options={"precision": 1e-14, "r_precision": 1e-16})
    fit, moved = polish_cox(cox_problem(model, columns(data)), noise=ONE)
    np.testing.assert_allclose(fit.w, model.params_, rtol=1e-7)
    assert moved < 1e-7


def test_the_figures_of_a_fitter_are_those_of_its_refits():
    """The derivative goes through the standard deviations by which lifelines divides the columns."""
    data = frame()[["age", "dose", "stage", "time", "event"]]
    tight = {"precision": 1e-14, "r_precision": 1e-16}
    fit, _ = polish_cox(cox_problem(fitter(data, penalizer=0.3, fit_options=tight), columns(data)), noise=ONE)
    leak = glm.measure_cox(fit, ONE, include_target=False)
    for j, name in enumerate(("age", "dose", "stage")):
        ends = []
        for sign in (1, -1):
            moved = data.copy()
            moved.loc[5, name] += sign * 1e-4
            ends.append(fitter(moved, penalizer=0.3, fit_options=tight).params_.to_numpy())
        np.testing.assert_allclose(leak.cells[5, j], np.linalg.norm(ends[0] - ends[1]) / 2e-4, rtol=1e-5)


def test_a_fitter_without_events_column_and_one_with_clusters():
    data = frame()
    model = lifelines.CoxPHFitter().fit(data[["age", "dose", "stage", "time"]], "time")
    problem = cox_problem(model, columns(data))
    assert problem.event.all()
    assert cox_columns(model).event == ""
    clustered = fitter(data[["age", "dose", "stage", "time", "event", "site"]], cluster_col="site")
    assert cox_columns(clustered).aside == ("site",)
    assert cox_problem(clustered, columns(data)).names == ("age", "dose", "stage")


def test_coefficients_that_are_not_the_minimum_are_refused():
    data = frame()
    results = phreg(data).fit()
    for shift in (0.3, 5.0, 1e5):
        results = phreg(data).fit()
        results.params = results.params + shift
        with pytest.raises(dm.CannotMeasure, match="not the minimum") as refusal:
            polish_cox(cox_problem(results), noise=ONE)
        assert "\n" not in str(refusal.value)
    early = phreg(data).fit(maxiter=1, warn_convergence=False)
    with pytest.raises(dm.CannotMeasure, match="not the minimum"):
        polish_cox(cox_problem(early), noise=ONE)


def test_another_table_is_refused():
    data = frame()
    other = data.assign(age=data["age"] + (np.arange(40) == 7))
    with pytest.raises(dm.Refusal, match="age, row 7"):
        cox_problem(phreg(data).fit(), columns(other))
    with pytest.raises(dm.Refusal, match="40 rows and the frame has 30"):
        cox_problem(phreg(data).fit(), columns(data[:30]))
    model = fitter(data[["age", "dose", "stage", "time", "event"]])
    with pytest.raises(dm.Refusal, match="40 rows and the frame has 30"):
        cox_problem(model, columns(data[:30]))
    with pytest.raises(dm.Refusal, match="fitted on dose"):
        cox_problem(model, columns(data.drop(columns="dose")))
    with pytest.raises(dm.Refusal, match="does not hold its table"):
        cox_problem(model)
    with pytest.raises(dm.Refusal, match="holds text"):
        cox_problem(model, {**columns(data), "dose": np.array(["x"] * 40)})
    with pytest.raises(dm.CannotMeasure, match="not the minimum"):
        polish_cox(cox_problem(model, columns(data.assign(dose=data["dose"].to_numpy()[::-1]))), noise=ONE)


def test_arrays_without_names_are_read_from_the_results():
    X, time, event, _, _ = table()
    results = PHReg(time, X, status=event).fit()
    assert cox_problem(results, {"a": X[:, 0]}).names == ("x1", "x2", "x3")


def cannot_measure(match, model):
    with pytest.raises(dm.CannotMeasure, match=match) as refusal:
        cox_problem(model, columns(frame()))
    assert "\n" not in str(refusal.value)


def test_models_without_a_formula_are_refused_with_a_reason():
    data = frame(tied=False)
    plain = data[["age", "dose", "stage", "time", "event"]]
    cannot_measure("entry times", phreg(data, entry=np.full(40, 0.5)).fit())
    cannot_measure("fit_regularized", phreg(data).fit_regularized(alpha=0.1, L1_wt=0.0))
    cannot_measure("formula", fitter(plain, formula="age + dose"))
    cannot_measure("l1_ratio", fitter(plain, penalizer=0.1, l1_ratio=0.5))
    cannot_measure("entry", fitter(plain.assign(entry=0.5), entry_col="entry"))
    cannot_measure("spline baseline", fitter(plain, method="spline", knots=2))
    cannot_measure("not fitted", lifelines.CoxPHFitter())
    cannot_measure("not a Cox model", lifelines.KaplanMeierFitter())


def test_a_stratum_must_be_there():
    data = frame()
    model = fitter(data[["age", "dose", "stage", "time", "event", "site"]], strata="site")
    with pytest.raises(dm.Refusal, match=r"row 3 \(from 0\) has no stratum"):
        cox_problem(model, columns(data.assign(site=data["site"].where(data.index != 3, None))))


def test_a_monotone_likelihood_is_named_by_its_cause():
    data = frame(tied=False)
    results = phreg(data).fit()
    results.model.exog[:, 1] = -results.model.endog
    with pytest.raises(dm.CannotMeasure, match="no single minimum on this table: the likelihood is monotone"):
        polish_cox(cox_problem(results), noise=ONE)
    results.model.exog[:, 1] = 1.0
    with pytest.raises(dm.CannotMeasure, match="column dose is constant"):
        polish_cox(cox_problem(results), noise=ONE)
