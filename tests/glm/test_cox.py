"""Cox models: fit, derivatives and steps against refits by the libraries, the definition, and many digits."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

import dosimeter as dm
from dosimeter import glm

from .survival import Survival, every, exact_weight, gradient, places, table

ONE = dm.Gaussian(1.0)
TIGHT = {"precision": 1e-14, "r_precision": 1e-16}
tables = pytest.mark.parametrize("survival", list(every()), ids=lambda s: s.name)
unpenalised = [s for s in every() if "sample_weight" not in s.settings]
of_statsmodels = pytest.mark.parametrize("survival", unpenalised, ids=lambda s: s.name)


def phreg(survival, X=None, time=None, event=None):
    return PHReg(
        survival.time if time is None else time,
        survival.X if X is None else X,
        status=survival.event if event is None else event,
        strata=survival.settings.get("strata"),
        ties=survival.ties,
    )


def lifelines_weights(survival, X=None):
    """params_ of a CoxPHFitter, converged to rounding."""
    pd, lifelines = pytest.importorskip("pandas"), pytest.importorskip("lifelines")
    frame = pd.DataFrame(survival.X if X is None else X).rename(columns="x{}".format)
    frame["time"], frame["event"], frame["weight"] = survival.time, survival.event, survival.weight
    options = {}
    if "strata" in survival.settings:
        frame["stratum"], options = survival.strata, {"strata": "stratum"}
    fitter = lifelines.CoxPHFitter(penalizer=survival.settings.get("l2", 0.0))
    fitter.fit(frame, "time", "event", weights_col="weight", fit_options=TIGHT, **options)
    return fitter.params_.to_numpy()


def as_lifelines(survival):
    """The same table with the settings that a CoxPHFitter has."""
    return replace(survival, settings={**survival.settings, "ties": "efron", "standardised": True})


def central(weights, X, row, column):
    """Central difference of weights(X) by one cell."""
    h = 1e-5 * max(1.0, abs(X[row, column]))
    up, down = X.copy(), X.copy()
    up[row, column] += h
    down[row, column] -= h
    return (weights(up) - weights(down)) / (2 * h)


def derivatives(survival, target="event"):
    """(n, p, m + 1) our Jacobians at noise of scale one."""
    return glm.measure_cox(survival.fit(), ONE, target=target).jacobian.dense(slice(None))


# --- the fit ---


@of_statsmodels
def test_the_fit_is_that_of_statsmodels(survival):
    fit, model = survival.fit(), phreg(survival)
    np.testing.assert_allclose(fit.w, model.fit(tol=1e-14, maxiter=100).params, rtol=1e-9)
    covariance = fit.factor.matrix @ fit.factor.matrix.T
    np.testing.assert_allclose(covariance, np.linalg.inv(-model.hessian(fit.w)), rtol=1e-8)
    assert fit.gradient_norm < 1e-8 * np.abs(survival.X).max()
    assert fit.decrement < 1e-8


@tables
def test_the_fit_is_that_of_lifelines_with_its_penalty_weights_and_strata(survival):
    survival = as_lifelines(survival)
    np.testing.assert_allclose(survival.fit().w, lifelines_weights(survival), rtol=1e-7)


def test_a_penalty_of_each_column_is_that_of_lifelines():
    X, time, event, _, _ = table()
    for l2 in (np.array([0.1, 0.0, 0.3]), np.array([0.0, 1.0, 0.0])):
        survival = Survival("", X, time, event, {"l2": l2, "standardised": True})
        np.testing.assert_allclose(survival.fit().w, lifelines_weights(survival), rtol=1e-7)


@tables
def test_the_gradient_by_the_definition_vanishes_at_the_fit(survival):
    fit = survival.fit()
    g = gradient(survival, fit.w) + fit.table.penalty * fit.w
    np.testing.assert_allclose(g, 0.0, atol=1e-9 * np.abs(survival.X).sum())


def test_the_fit_says_what_it_is():
    survival = next(every())
    fit = survival.fit()
    assert (fit.loss.name, fit.n, fit.intercept, fit.quadratic) == ("cox", 40, False, False)
    assert fit.target is glm.TargetKind.TWO_CLASSES
    assert fit.w.shape == (3,)
    assert fit.y.shape == (40,)
    assert 1.0 <= fit.condition < 1e3
    assert "40 rows" in repr(fit)


# --- derivatives by the columns ---


@tables
def test_the_jacobian_is_the_derivative_of_our_refit(survival):
    J = derivatives(survival)
    for row in (0, 7, 23, 31):
        truth = np.column_stack([central(lambda X: survival.fit(X).w, survival.X, row, j) for j in range(3)])
        np.testing.assert_allclose(J[row, :, :3], truth, rtol=1e-5, atol=1e-7 * np.abs(truth).max())


@of_statsmodels
def test_the_jacobian_is_the_derivative_of_the_refit_by_statsmodels(survival):
    J = derivatives(survival)

    def weights(X):
        return phreg(survival, X).fit(tol=1e-14, maxiter=100).params

    for row in (3, 12):
        truth = np.column_stack([central(weights, survival.X, row, j) for j in range(3)])
        np.testing.assert_allclose(J[row, :, :3], truth, rtol=1e-5, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_the_jacobian_is_the_derivative_of_the_refit_by_lifelines(k):
    survival = as_lifelines([s for s in every() if s.ties == "efron"][k])
    J = derivatives(survival)
    for row in (3, 12):
        truth = np.column_stack(
            [central(lambda X: lifelines_weights(survival, X), survival.X, row, j) for j in range(3)]
        )
        np.testing.assert_allclose(J[row, :, :3], truth, rtol=1e-5, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_a_tiny_table_agrees_with_many_digits(ties):
    x, time, event = [0.3, -1.2, 0.8, 0.1, 2.0, -0.4], [1, 2, 2, 2, 3, 4], [1, 1, 1, 0, 1, 0]
    survival = Survival("", np.array(x)[:, None], np.array(time, float), np.array(event, float), {"ties": ties})
    fit, J = survival.fit(), derivatives(survival)
    with mp.workdps(60):
        exact = [mp.mpf(v) for v in x]
        h = mp.mpf(10) ** -15
        assert abs(fit.w[0] / float(exact_weight(exact, time, event, ties)) - 1) < 1e-14
        for i in range(len(x)):
            ends = [
                exact_weight([v + s * h * (k == i) for k, v in enumerate(exact)], time, event, ties) for s in (1, -1)
            ]
            assert abs(J[i, 0, 0] / float((ends[0] - ends[1]) / (2 * h)) - 1) < 1e-12


def test_a_soft_event_moves_the_weights_as_many_digits_say():
    x, time, event = [0.3, -1.2, 0.8, 0.1, 2.0, -0.4], [1, 2, 2, 2, 3, 4], [1, 1, 1, 0, 1, 0]
    survival = Survival("", np.array(x)[:, None], np.array(time, float), np.array(event, float), {"ties": "breslow"})
    J = derivatives(survival, "event")
    with mp.workdps(60):
        exact, h = [mp.mpf(v) for v in x], mp.mpf(10) ** -15
        for i in range(len(x) - 1):
            ends = [
                exact_weight(exact, time, [mp.mpf(d) + s * h * (k == i) for k, d in enumerate(event)], "breslow")
                for s in (1, -1)
            ]
            assert abs(J[i, 0, 1] / float((ends[0] - ends[1]) / (2 * h)) - 1) < 1e-12
    assert J[5, 0, 1] == 0.0  # alone at risk: an event there says nothing


def test_a_row_that_leaves_before_the_first_event_leaks_its_outcome_alone():
    X, time, event, _, _ = table()
    time, event = time.copy(), event.copy()
    time[4], event[4] = 0.5, 0
    leak = glm.measure_cox(Survival("", X, time, event).fit(), ONE)
    assert not leak.cells[4].any()
    assert leak.labels[4] > 0
    # A penalty on standardised columns depends on every row.
    standardised = glm.fit_cox(X, time, event, l2=0.1, standardised=True)
    assert (glm.measure_cox(standardised, ONE, include_target=False).cells[4] > 0).all()


def test_the_row_of_a_weighted_table_has_the_sum_of_the_jacobians_of_its_copies():
    X, time, event, _, weight = table(tied=True)
    copies = np.repeat(np.arange(len(X)), weight.astype(int))
    one = derivatives(Survival("", X, time, event, {"ties": "breslow", "sample_weight": weight}))
    many = derivatives(Survival("", X[copies], time[copies], event[copies], {"ties": "breslow"}))
    summed = np.zeros_like(one)
    np.add.at(summed, copies, many)
    np.testing.assert_allclose(one[:, :, :3], summed[:, :, :3], rtol=1e-9, atol=1e-12)


# --- steps of the outcome ---


@tables
def test_steps_are_the_change_of_the_gradient_at_every_place_in_the_order(survival):
    fit = survival.fit()
    outcomes = glm.measure_cox(fit, ONE).jacobian.outcomes
    inverse, here = fit.factor.matrix @ fit.factor.matrix.T, gradient(survival, fit.w)
    for row in {*range(0, 40, 9), int(np.argmin(survival.time)), int(np.argmax(survival.time))}:

        def step(t, d, row=row):
            time, event = survival.time.copy(), survival.event.copy()
            time[row], event[row] = t, d
            return np.linalg.norm(inverse @ (gradient(survival, fit.w, time, event) - here))

        mine = survival.event[row]
        kept = [step(t, mine) for t in places(survival, row)]
        other = [step(t, 1 - mine) for t in places(survival, row)]
        close = dict(rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(outcomes.of("time")[row]), max(kept), **close)
        np.testing.assert_allclose(np.linalg.norm(outcomes.of("outcome")[row]), max(kept + other), **close)
        np.testing.assert_allclose(
            np.linalg.norm(outcomes.of("event")[row]), step(survival.time[row], 1 - mine), **close
        )


@of_statsmodels
def test_steps_agree_with_the_score_of_statsmodels(survival):
    fit = survival.fit()
    outcomes, model = glm.measure_cox(fit, ONE).jacobian.outcomes, phreg(survival)
    inverse = np.linalg.inv(-model.hessian(fit.w))
    for row in (2, 19):
        norms = []
        for t in places(survival, row):
            time = survival.time.copy()
            time[row] = t
            norms.append(np.linalg.norm(inverse @ (phreg(survival, time=time).score(fit.w) - model.score(fit.w))))
        np.testing.assert_allclose(np.linalg.norm(outcomes.of("time")[row]), max(norms), rtol=1e-8)
        event = survival.event.copy()
        event[row] = 1 - event[row]
        flip = inverse @ (phreg(survival, event=event).score(fit.w) - model.score(fit.w)) * (event[row] * 2 - 1)
        np.testing.assert_allclose(-outcomes.of("event")[row], flip, rtol=1e-8, atol=1e-12)


def test_the_response_to_a_step_is_linear_up_to_terms_that_vanish_with_the_table():
    """Refits by statsmodels with a changed event, against the linear response."""
    worst = []
    for n in (100, 800):
        X, time, event, _, _ = table(n)
        survival = Survival("", X, time, event)
        fit = survival.fit()
        J = glm.measure_cox(fit, ONE, target="event").jacobian.dense(slice(None))[:, :, 3]
        errors = []
        for row in range(0, n, n // 6):
            changed = event.copy()
            changed[row] = 1 - changed[row]
            refit = phreg(survival, event=changed).fit(tol=1e-14, maxiter=100).params - fit.w
            linear = J[row] * (changed[row] - event[row])
            errors.append(np.linalg.norm(refit - linear) / max(np.linalg.norm(linear), 1e-9))
        worst.append(np.median(errors))
    assert worst[0] < 0.1
    assert worst[1] < worst[0] / 4


def test_refits_with_another_time_move_the_weights_about_as_far_as_the_largest_step():
    X, time, event, _, _ = table(n=200, seed=2)
    survival = Survival("", X, time, event)
    fit = survival.fit()
    linear = glm.measure_cox(fit, ONE, target="time").labels
    for row in (0, 50, 75):
        moves, every_place = [], np.sort(places(survival, row))
        for t in (*every_place[:-20:10], *every_place[-20:]):
            moved = time.copy()
            moved[row] = t
            moves.append(np.linalg.norm(survival.fit(time=moved, start=fit.w).w - fit.w))
        assert 0.9 < max(moves) / linear[row] < 1.1


def test_a_step_to_a_tied_time_is_one_of_the_places():
    """Two rows at one time: breaking the tie either way is a step, and its figure is not zero."""
    X = np.array([[0.0], [1.0], [0.5], [0.2]])
    fit = glm.fit_cox(X, [1, 1, 2, 3], [1, 1, 1, 0], ties="efron", l2=0.1)
    before = gradient(Survival("", X, np.array([1.0, 1, 2, 3]), np.array([1, 1, 1, 0])), fit.w)
    after = gradient(Survival("", X, np.array([0.9, 1, 2, 3]), np.array([1, 1, 1, 0])), fit.w)
    breaking = np.linalg.norm(fit.factor.matrix @ fit.factor.matrix.T @ (after - before))
    assert 0 < breaking <= glm.measure_cox(fit, ONE, target="time").labels[0] + 1e-12


# --- laws ---


@tables
def test_more_unknowns_never_lower_a_figure(survival):
    leak = glm.measure_cox(survival.fit(), ONE)
    event, time = (glm.measure_cox(survival.fit(), ONE, target=part) for part in ("event", "time"))
    room = 1 + 1e-9
    assert (leak.labels * room >= np.maximum(event.labels, time.labels)).all()
    assert (leak.examples * room >= np.maximum(leak.labels, leak.without_target().examples)).all()
    assert (leak.without_target().examples * room >= leak.attribute([0, 1])).all()
    assert (leak.attribute([0, 1]) * room >= leak.cells[:, 0]).all()
    persons = np.arange(40) // 4
    groups = leak.group(persons)
    assert all(groups[k] * room >= leak.examples[persons == k].max() for k in groups)
    assert leak.dataset * room >= max(groups.values())
    assert leak.dataset * room >= leak.attributes.max()


@tables
def test_only_the_order_of_the_times_counts(survival):
    leak = glm.measure_cox(survival.fit(), ONE)
    other = glm.measure_cox(survival.fit(time=np.exp(3 * survival.time) - 7), ONE)
    np.testing.assert_allclose(other.examples, leak.examples, rtol=1e-9)


@tables
def test_neither_the_order_of_the_rows_nor_a_shift_of_the_columns_counts(survival):
    order = np.random.default_rng(3).permutation(40)
    rows = {
        name: value[order] if name in ("strata", "sample_weight") else value
        for name, value in survival.settings.items()
    }
    other = replace(
        survival, X=survival.X[order] + 100, time=survival.time[order], event=survival.event[order], settings=rows
    )
    leak = glm.measure_cox(survival.fit(), ONE)
    np.testing.assert_allclose(glm.measure_cox(other.fit(), ONE).examples, leak.examples[order], rtol=1e-8)


def test_without_ties_efron_is_breslow_except_for_steps_onto_a_tie():
    X, time, event, _, _ = table()
    one, other = (Survival("", X, time, event, {"ties": ties}).fit() for ties in ("efron", "breslow"))
    np.testing.assert_allclose(one.w, other.w, rtol=1e-12)
    for include in (True, False):
        a, b = (glm.measure_cox(f, ONE, target="event", include_target=include).examples for f in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_stratum_without_events_leaks_only_through_its_outcomes():
    X, time, event, strata, _ = table()
    event = np.where(strata == 2, 0.0, event)
    leak = glm.measure_cox(glm.fit_cox(X, time, event, strata=strata), ONE, target="event")
    assert not leak.cells[strata == 2].any()
    np.testing.assert_allclose(
        glm.fit_cox(X, time, event, strata=strata).w,
        glm.fit_cox(X[strata < 2], time[strata < 2], event[strata < 2], strata=strata[strata < 2]).w,
        rtol=1e-10,
    )


def test_an_input_map_mixes_the_columns():
    survival = next(every())
    P = np.random.default_rng(0).standard_normal((3, 2))
    plain, mapped = (
        glm.measure_cox(survival.fit(), ONE, **k).jacobian.dense(slice(None)) for k in ({}, {"input_map": P})
    )
    np.testing.assert_allclose(mapped[:, :, :2], plain[:, :, :3] @ P, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(mapped[:, :, 2], plain[:, :, 3])


def test_noise_scales_and_shapes_the_figures():
    survival = next(every())
    fit = survival.fit()
    one = glm.measure_cox(fit, ONE)
    np.testing.assert_allclose(glm.measure_cox(fit, dm.Gaussian(0.1)).examples, 10 * one.examples, rtol=1e-10)
    np.testing.assert_allclose(glm.measure_cox(fit, dm.Laplace(2.0)).examples, one.examples / 2, rtol=1e-10)
    exact = glm.measure_cox(fit, dm.no_noise)
    assert np.isinf(exact.examples).all()
    np.testing.assert_allclose(exact.unscaled_examples, one.examples, rtol=1e-12)


def test_two_releases_of_one_table_compose():
    survival = next(every())
    leaks = [glm.measure_cox(survival.fit(l2=l2), ONE) for l2 in (0.0, 0.1)]
    both = glm.compose(leaks)
    assert (both.examples >= np.maximum(leaks[0].examples, leaks[1].examples) * (1 - 1e-12)).all()
    with pytest.raises(dm.Refusal, match="same table"):
        glm.compose([leaks[0], glm.measure_cox(survival.fit(), ONE, target="event")])


# --- hard cases ---


def test_heavy_ties_agree_with_statsmodels():
    X, time, event, _, _ = table(n=200)
    survival = Survival("", X, np.ceil(time), event)
    fit = survival.fit()
    np.testing.assert_allclose(fit.w, phreg(survival).fit(tol=1e-14, maxiter=100).params, rtol=1e-9)
    assert len(np.unique(survival.time)) < 8
    inverse, here = fit.factor.matrix @ fit.factor.matrix.T, gradient(survival, fit.w)
    outcomes = glm.measure_cox(fit, ONE).jacobian.outcomes
    for row in (0, 50):
        norms = []
        for t in places(survival, row):
            moved = survival.time.copy()
            moved[row] = t
            norms.append(np.linalg.norm(inverse @ (gradient(survival, fit.w, moved) - here)))
        np.testing.assert_allclose(np.linalg.norm(outcomes.of("time")[row]), max(norms), rtol=1e-9)


def test_blocks_of_rows_do_not_change_the_steps(monkeypatch):
    survival = list(every())[-1]
    fit = survival.fit()
    plain = glm.measure_cox(fit, ONE).labels
    monkeypatch.setattr("dosimeter.glm.cox.outcome_steps.BLOCK", 40)
    np.testing.assert_allclose(glm.measure_cox(fit, ONE).labels, plain, rtol=1e-12)


def test_one_event_is_enough_if_it_lies_among_those_at_risk():
    X = np.array([[0.2], [0.0], [1.0], [-1.0], [0.4]])
    fit = glm.fit_cox(X, [1, 2, 3, 4, 5], [1, 0, 0, 0, 0])
    p = np.exp(X[:, 0] * fit.w[0])
    np.testing.assert_allclose(p @ X[:, 0] / p.sum(), 0.2, rtol=1e-10)
    assert np.isfinite(glm.measure_cox(fit, ONE).examples).all()


def test_columns_far_from_zero_and_of_unequal_size_keep_their_digits():
    X, time, event, _, _ = table()
    fit = glm.fit_cox(X, time, event)
    far = glm.fit_cox(X * [1e-6, 1e7, 1.0] + [1e-3, -1e10, 1e6], time, event)
    np.testing.assert_allclose(far.w * [1e-6, 1e7, 1.0], fit.w, rtol=1e-5)
    a, b = (glm.measure_cox(f, ONE, include_target=False).jacobian for f in (fit, far))
    np.testing.assert_allclose(a.residual, b.residual, rtol=1e-5, atol=1e-6)


def test_nearly_dependent_columns_keep_the_digits_that_many_digits_have():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(30)
    X = np.column_stack([x, x + 1e-6 * rng.standard_normal(30)])
    time, event = rng.exponential(size=30), np.ones(30)
    fit = glm.fit_cox(X, time, event)
    turned = glm.fit_cox(np.column_stack([x, (X[:, 1] - X[:, 0]) * 2**20]), time, event)
    np.testing.assert_allclose([fit.w.sum(), fit.w[1] / 2**20], turned.w, rtol=1e-6)
    assert fit.condition > 1e5


def refused(match, *arguments, **settings):
    with pytest.raises(dm.Refusal, match=match) as refusal:
        glm.fit_cox(*arguments, **settings)
    assert "\n" not in str(refusal.value)


def test_tables_without_a_minimiser_are_refused_in_one_line():
    X, time, event, strata, _ = table()
    refused("every row is censored", X, time, np.zeros(40))
    refused("column 1 is constant", np.column_stack([X[:, 0], np.full(40, 0.1)]), time, event)
    refused("column 1 is constant", np.column_stack([X[:, 0], strata]), time, event, strata=strata)
    refused("linearly dependent", np.column_stack([X, X[:, 0] - X[:, 1]]), time, event)
    refused("monotone", np.column_stack([X[:, 0], -time]), time, event)
    refused("monotone", -time[:, None], time, event, ties="breslow")
    refused("monotone", np.array([[1.0], [0.0], [0.5]]), [1, 2, 3], [1, 0, 0])
    mixed = np.column_stack([X[:, 0], -time])
    refused("monotone", mixed, time, event, l2=[0.1, 0.0])
    assert np.isfinite(glm.fit_cox(mixed, time, event, l2=[0.0, 0.1]).w).all()
    assert np.isfinite(glm.fit_cox(mixed, time, event, l2=0.01).w).all()


def test_bad_arguments_are_refused_in_one_line():
    X, time, event, _, _ = table()
    refused("event must be 1", X, time, event + 1)
    refused("finite number", X, np.where(time > 2, np.nan, time), event)
    refused("ties must be", X, time, event, ties="exact")
    refused("sample_weight of row 3 is zero", X, time, event, sample_weight=np.arange(40) != 3)
    refused("strata must have", X, time, event, strata=[1, 2])
    refused("no stratum", X, time, event, strata=np.where(time > 2, np.nan, 1.0))
    refused("l2 must be", X, time, event, l2=-1.0)
    refused("l2 must be", X, time, event, l2=[0.1, 0.1])
    refused("shape", X, time, event, start=[0.0])
    fit = glm.fit_cox(X, time, event)
    with pytest.raises(dm.Refusal, match="target must be"):
        glm.measure_cox(fit, ONE, target="hazard")
    with pytest.raises(dm.Refusal, match="input_map"):
        glm.measure_cox(fit, ONE, input_map=np.eye(2))
    with pytest.raises(dm.Refusal, match="noise must be"):
        glm.measure_cox(fit, 0.1)


def test_the_state_at_other_weights_says_how_far_off_they_are():
    X, time, event, _, _ = table()
    fit = glm.fit_cox(X, time, event)
    shift = 0.01 * fit.factor.matrix @ np.array([1.0, 0.0, 0.0])
    assert abs(glm.fit_cox_at(X, time, event, fit.w + shift).decrement / 0.01 - 1) < 0.05
    assert glm.fit_cox_at(X, time, event, fit.w).decrement < 1e-9
