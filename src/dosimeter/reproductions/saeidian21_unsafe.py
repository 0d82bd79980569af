"""What-if values for someone who holds the votes: all internal, two of them about schemes that must not be used.

`gnmax_rdp` and related functions are the data-dependent Rényi costs of N. Papernot et al., *Scalable private learning
with PATE* (ICLR 2018): Theorem 6 with the orders of Proposition 10, q from Proposition 7.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dosimeter.core.arrays import FloatArray
from dosimeter.core.channel import maximal_leakage
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Laplace
from dosimeter.pate.leakage import leakage, win_probabilities
from dosimeter.pate.votes import check_histograms


def gnmax_rdp(counts: ArrayLike, sigma: float, orders: ArrayLike) -> FloatArray:
    """(q, o) data-dependent Rényi cost of GNMax at each order > 1. Internal: it depends on the votes.

    Theorem 6: with q >= P(the label is not the leading class) and two higher orders μ₁ >= λ, μ₂,

        (λ - 1) ε(λ) <= log((1 - q) A^(λ-1) + q B^(λ-1)),
        A = (1 - q)/(1 - (q e^ε₂)^(1 - 1/μ₂)),  B = e^ε₁/q^(1/(μ₁ - 1)),

    where q <= e^((μ₂-1) ε₂)/(μ₁/(μ₁-1) · μ₂/(μ₂-1))^μ₂; Proposition 10 takes μ₂ = σ√(-log q), μ₁ = μ₂ + 1. Never more
    than λ/σ².

    >>> gnmax_rdp([[90, 5, 5, 1]], 10.0, [64.0]).round(4)
    array([[0.64]])
    """
    return gaussian_rdp(log_q_gaussian(counts, sigma), sigma, orders)


def threshold_rdp(counts: ArrayLike, T: float, sigma: float, orders: ArrayLike) -> FloatArray:
    """(q, o) data-dependent Rényi cost of max v + N(0, σ²) >= T: two outcomes, moved by 1 instead of √2. Internal."""
    top = check_histograms(counts).max(axis=1)
    answered = log_answered(top, T, sigma)
    rarer = np.minimum(answered, special.log_ndtr((T - top) / sigma))
    return gaussian_rdp(rarer, math.sqrt(2) * sigma, orders)


def laplace_rdp(counts: ArrayLike, gamma: float, orders: ArrayLike) -> FloatArray:
    """(q, o) data-dependent Rényi cost of the Laplace vote, whose pure ε is 2γ. Internal.

    Papernot et al., ICLR 2017, Theorem 3: with q and ε = 2γ, where q < (e^ε - 1)/(e^2ε - 1),
    (λ - 1) ε(λ) <= log((1 - q) ((1 - q)/(1 - e^ε q))^(λ-1) + q e^(ε(λ-1))). Never more than λε²/2 and ε.
    """
    lam = _orders(orders)
    pure = 2 * gamma
    log_q = log_q_laplace(counts, gamma)[:, None]
    log_p = _log1mexp(log_q)
    usual = np.minimum(lam * pure**2 / 2, pure)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_a = (lam - 1) * (log_p - _log1mexp(np.minimum(log_q + pure, 0.0)))
        data_dependent = np.logaddexp(log_p + log_a, log_q + pure * (lam - 1)) / (lam - 1)
    small = log_q < math.log(math.expm1(pure)) - math.log(math.expm1(2 * pure))
    return np.where(small, np.minimum(data_dependent, usual), usual)


def gaussian_rdp(log_q: FloatArray, sigma: float, orders: ArrayLike) -> FloatArray:
    """(q, o) Theorem 6 for noise whose plain cost is λ/σ², from (q,) log q."""
    lam = _orders(orders)
    logq = np.asarray(log_q, dtype=np.float64)[:, None]
    usual = np.broadcast_to(lam / sigma**2, (len(logq), len(lam)))
    with np.errstate(all="ignore"):  # where the theorem does not apply, its values are not used
        mu2 = sigma * np.sqrt(-logq)
        mu1 = mu2 + 1
        eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
        limit = (mu2 - 1) * eps2 - mu2 * (np.log(mu1 / (mu1 - 1)) + np.log(mu2 / (mu2 - 1)))
        applies = (mu2 > 1) & (lam < mu1) & (logq <= limit) & (logq + eps2 < 0)
        log_p = _log1mexp(logq)
        log_A = log_p - _log1mexp((logq + eps2) * (1 - 1 / mu2))
        log_B = eps1 - logq / (mu1 - 1)
        data_dependent = np.logaddexp(log_p + (lam - 1) * log_A, logq + (lam - 1) * log_B) / (lam - 1)
    certain = np.isneginf(logq)
    return np.where(certain, 0.0, np.where(applies, np.fmin(data_dependent, usual), usual))


def log_q_gaussian(counts: ArrayLike, sigma: float) -> FloatArray:
    """(q,) log of Σ_{j not leading} P(N_j - N₁ >= v₁ - vⱼ), Gaussian noise, never above log(1 - 1/m)."""
    gaps = _gaps(counts)
    log_q = special.logsumexp(special.log_ndtr(-gaps / (math.sqrt(2) * sigma)), axis=1)
    return np.asarray(np.minimum(log_q, math.log1p(-1 / (gaps.shape[1] + 1))))


def log_q_laplace(counts: ArrayLike, gamma: float) -> FloatArray:
    """(q,) log Σ (2 + γΔ)/(4 e^γΔ) over the classes behind by Δ votes, never above log(1 - 1/m)."""
    gaps = gamma * _gaps(counts)
    log_q = special.logsumexp(np.log(2 + gaps) - math.log(4) - gaps, axis=1)
    return np.asarray(np.minimum(log_q, math.log1p(-1 / (gaps.shape[1] + 1))))


def log_answered(top: ArrayLike, T: float, sigma: float) -> FloatArray:
    """(q,) log P(max v + N(0, σ²) >= T)."""
    return np.asarray(special.log_ndtr((np.asarray(top, dtype=np.float64) - T) / sigma))


def unsafe_adaptive_gamma(counts: ArrayLike, budget: float, gammas: ArrayLike) -> FloatArray:
    """(q,) the largest γ of a ladder at which no teacher's leakage exceeds the budget; the least γ if there is none.

    The proposal in the conclusion of [Saeidian21], with the exact leakage instead of its bound. Not for use: the
    leakage is not monotone in γ, so a margin of a few votes turns the noise off, and γ then reveals the votes.
    """
    v, ladder = check_histograms(counts), np.sort(np.asarray(gammas, dtype=np.float64))
    if not (ladder.ndim == 1 and ladder.size and (ladder > 0).all() and np.isfinite(ladder).all()):
        raise Refusal("gammas must be a list of finite numbers > 0")
    query, voted_class = np.nonzero(v)
    others = v[query]
    others[np.arange(len(voted_class)), voted_class] -= 1
    chosen = np.full(len(v), ladder[0])
    for gamma in ladder[1:]:
        worst = np.zeros(len(v))
        np.maximum.at(worst, query, leakage(others, Laplace(1 / gamma)))
        chosen[worst <= budget] = gamma
    return chosen


def unsafe_adaptive_gamma_leakage(others: ArrayLike, budget: float, gammas: ArrayLike) -> FloatArray:
    """(q,) nats that a label leaks if γ is chosen by `unsafe_adaptive_gamma`. Internal.

    The adversary knows the rule, so γ moves with the hidden vote: log Σ_y maxⱼ P(y | v⁻ + δⱼ, γ(v⁻ + δⱼ)).

    >>> unsafe_adaptive_gamma_leakage([[53, 50, 0, 0]], 0.02, [0.02, 0.03, 5.0]).round(2)     # 0.02 was promised
    array([0.45])
    """
    leakages = []
    for v in check_histograms(others):
        with_vote = v + np.eye(len(v), dtype=np.int64)
        chosen = unsafe_adaptive_gamma(with_vote, budget, gammas)
        rows = [win_probabilities(row[None], Laplace(1 / g))[0] for row, g in zip(with_vote, chosen, strict=True)]
        leakages.append(_leakage(np.array(rows)))
    return np.array(leakages)


def unsafe_fixed_refusal_leakage(others: ArrayLike, noise: Density, T: float) -> FloatArray:
    """(q,) nats if a query is answered when max v >= T without noise on the comparison. Internal; not for use.

    >>> unsafe_fixed_refusal_leakage([[59, 40, 0, 0]], Laplace(20.0), 60).round(6)      # log 2
    array([0.693147])
    """
    leakages = []
    for v in check_histograms(others):
        with_vote = v + np.eye(len(v), dtype=np.int64)
        answered = (with_vote.max(axis=1) >= T)[:, None]
        rows = np.where(answered, win_probabilities(with_vote, noise), 0.0)
        leakages.append(_leakage(np.hstack([rows, ~answered])))
    return np.array(leakages)


def _leakage(rows: FloatArray) -> float:
    return float(maximal_leakage(rows / rows.sum(axis=1, keepdims=True)))


def _gaps(counts: ArrayLike) -> FloatArray:
    """(q, m - 1) votes by which the other classes are behind the leading one."""
    ordered = -np.sort(-check_histograms(counts), axis=1)
    return np.asarray(ordered[:, :1] - ordered[:, 1:], dtype=np.float64)


def _orders(orders: ArrayLike) -> FloatArray:
    lam = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if lam.ndim != 1 or not ((lam > 1) & np.isfinite(lam)).all():
        raise Refusal(f"Rényi orders must be finite and above 1, not {orders!r}")
    return lam


def _log1mexp(x: FloatArray) -> FloatArray:
    """log(1 - e^x), x <= 0, accurate at both ends."""
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
