"""One round with Poisson sampling: closed forms against quadrature, the distribution against dp-accounting's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dosimeter.federated.poisson_accounting import loss_distribution, with_client, without


@pytest.mark.parametrize(("q", "z"), [(0.01, 0.5), (0.3, 1.0), (0.95, 2.0)])
@pytest.mark.parametrize("epsilon", [-1.5, -0.004, 0.0, 0.2, 1.5])
def test_the_closed_forms_are_the_integral_of_the_definition(q: float, z: float, epsilon: float) -> None:
    """The integral of what exceeds e^ε times the other density; midpoints err by h² at the kink, 4e-9 here."""
    x, h = np.linspace(-14, 22, 600_000, retstep=True)
    alone, moved = (np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0, 1 / z))
    mixed = (1 - q) * alone + q * moved
    for divergence, upper, lower in ((with_client, mixed, alone), (without, alone, mixed)):
        definition = h * np.maximum(upper - math.exp(epsilon) * lower, 0).sum()
        assert divergence(np.array([epsilon]), q, z)[0] == pytest.approx(definition, abs=1e-8)


@pytest.mark.parametrize(("q", "z"), [(1e-4, 1.0), (0.01, 0.6), (0.4, 1.2), (0.999, 4.0), (1.0, 2.0)])
def test_the_distribution_is_that_of_dp_accounting(q: float, z: float) -> None:
    ours = loss_distribution(q, z, 1e-3)
    theirs = pld.from_gaussian_mechanism(z, value_discretization_interval=1e-3, sampling_prob=q)
    for rounds in (1, 15):
        a, b = (p if rounds == 1 else p.self_compose(rounds) for p in (ours, theirs))
        # Fourier transforms leave about 1e-15 on every δ.
        for delta in (1e-2, 1e-5):
            assert a.get_epsilon_for_delta(delta) == pytest.approx(b.get_epsilon_for_delta(delta), rel=1e-7, abs=1e-9)
        for epsilon in (0.0, 0.05, 1.0):
            assert a.get_delta_for_epsilon(epsilon) == pytest.approx(
                b.get_delta_for_epsilon(epsilon), rel=1e-9, abs=1e-13
            )


def test_no_loss_is_above_the_most_that_a_sampled_round_can_have() -> None:
    """Without the client the loss is at most -log(1 - q); with it at least log(1 - q)."""
    q, z = 0.25, 0.8
    edge = -math.log1p(-q)
    assert without(np.array([edge + 1e-9, 5.0]), q, z).tolist() == [0.0, 0.0]
    assert with_client(np.array([-edge - 1.0]), q, z)[0] == pytest.approx(-math.expm1(-edge - 1.0), rel=1e-15)
