"""A second IRFIL: fresh Newton fits, dense Jacobians, LAPACK's norms, and finite differences of the whole pipeline."""

from __future__ import annotations

import numpy as np


def _residual_and_curvature(name, m, y):
    if name == "squared":
        return m - y, np.ones_like(m)
    if name == "poisson":
        return np.exp(m) - y, np.exp(m)
    s = 1 / (1 + np.exp(-m))
    return s - y, s * (1 - s)


def _fit(Xt, y, omega, penalty, name):
    w = np.zeros(Xt.shape[1])
    for _ in range(60):
        r, a = _residual_and_curvature(name, Xt @ w, y)
        H = (Xt * (omega * a)[:, None]).T @ Xt + np.diag(penalty)
        step = np.linalg.solve(H, Xt.T @ (omega * r) + penalty * w)
        w = w - step
        if np.abs(step).max() < 1e-14:
            break
    r, a = _residual_and_curvature(name, Xt @ w, y)
    return w, (Xt * (omega * a)[:, None]).T @ Xt + np.diag(penalty), r, a


def _figures(J, columns, groups, tied, include_target):
    width = J.shape[2] - 1
    pick = list(range(width + include_target)) if columns is None else list(columns)
    if groups is None:
        return np.linalg.norm(J[:, :, pick], 2, axis=(1, 2))
    free, bound = [c for c in pick if c not in tied], [c for c in pick if c in tied]
    eta = np.empty(len(J))
    for g in np.unique(groups):
        rows = groups == g
        eta[rows] = np.linalg.norm(np.hstack([*J[rows][:, :, free], J[rows][:, :, bound].sum(axis=0)]), 2)
    return eta


def final_weights(
    X, y, name, l2, rounds, columns=None, intercept=False, start=None, groups=None, tied=(), include_target=True,
    W=None, P=None,
    target_unit=1.0, targets=None, tied_target=False,
):  # fmt: skip
    """The parameters fitted after `rounds` reweightings."""
    n, d = X.shape
    Xt = np.column_stack([X, np.ones(n)]) if intercept else X
    penalty = np.append(np.full(d, n * l2), [0.0] * intercept)
    P = np.vstack([np.eye(d) if P is None else P, np.zeros((int(intercept), d if P is None else P.shape[1]))])
    omega = np.ones(n) if start is None else start * n / start.sum()
    for _ in range(rounds):
        w, H, r, a = _fit(Xt, y, omega, penalty, name)
        inside = np.concatenate(
            [
                a[:, None, None] * Xt[:, :, None] * (P.T @ w) + r[:, None, None] * P,
                -target_unit * Xt[:, :, None],
            ],
            axis=2,
        )
        J = -omega[:, None, None] * ((np.eye(len(w)) if W is None else W) @ np.linalg.inv(H) @ inside)
        bound = (*tied, J.shape[2] - 1) if tied_target else tied
        omega = omega / _figures(J, columns, groups, bound, include_target) * (1.0 if targets is None else targets)
        omega = omega * n / omega.sum()
    return _fit(Xt, y, omega, penalty, name)[0]


def derivative(X, y, name, l2, rounds, rows, P=None, target_unit=1.0, h=2e-4, **options):
    """(rows, p, m + 1) of the whole pipeline by central differences of fourth order."""
    P_ = np.eye(X.shape[1]) if P is None else P

    def moved(i, j, s):
        A, b = X.copy(), y.copy()
        if j < P_.shape[1]:
            A[i] += s * P_[:, j]
        else:
            b[i] += s * target_unit
        return final_weights(A, b, name, l2, rounds, P=P, target_unit=target_unit, **options)

    def slope(i, j):
        return (8 * (moved(i, j, h) - moved(i, j, -h)) - (moved(i, j, 2 * h) - moved(i, j, -2 * h))) / (12 * h)

    return np.array([np.column_stack([slope(i, j) for j in range(P_.shape[1] + 1)]) for i in rows])
