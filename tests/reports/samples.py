"""Results of each verb, small and made up, as --json writes them: every field that a page could show is there."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from dosimeter.results.result import Result, read

PROVENANCE = {
    "version": "0.1.0", "command": "dosimeter measure TABLE --target y", "python": "3.11.2",
    "libraries": {"numpy": "2.4"}, "table": "ab" * 32,
}  # fmt: skip
DISTRIBUTION = {
    "of": "η", "unit": "person", "edges": [0.1, 0.3, 1.0, 3.0], "counts": [4, 9, 2], "zero": 1, "limit": 2.0,
}  # fmt: skip
RANKED = [
    {"rank": k + 1, "row": 10 - k, "dose": 2.5 - 0.1 * k, "over_typical": 4.0 - 0.1 * k, "id": f"patient {k}"}
    for k in range(12)
]
NOTION = {"name": "Fisher information loss", "symbol": "η", "measured_in": "standard deviations"}
ATTACKED = {
    "attack": "inversion", "measure": "accuracy", "figure": 0.51, "low": 0.48, "high": 0.54, "level": 0.95,
    "control": 0.15, "beats_control": True, "standing": "lower bound",
}  # fmt: skip
STEPS = [
    {"scale": 0.1, "score": 0.52, "highest": 180.0, "typical": 48.0},
    {"scale": 1.0, "score": 0.5, "highest": 18.0, "typical": 4.8},
    {"scale": 10.0, "score": -3.0, "highest": 1.8, "typical": 0.48},
]
FRONTIER = {
    "score_name": "R²", "score_is": "expected over the noise, exact", "without_noise": 0.52, "isotropic": STEPS,
    "shaped": [{**step, "score": step["score"] + 0.01} for step in STEPS[:2]], "here": 1.0, "here_on": "isotropic",
}  # fmt: skip
RARE = {
    "group": "positive", "share": 0.02, "recall": 0.6, "recall_low": 0.5, "recall_high": 0.7, "recall_control": 0.0,
    "precision": 0.8, "precision_low": 0.7, "precision_high": 0.9, "precision_control": None,
}  # fmt: skip
BOOKED = {"name": "readmission-v3", "seq": 17, "head": "17:9f3c9f3c9f3c9f3c"}

MEASUREMENT: dict[str, Any] = {
    "schema": "dosimeter.measurement/3", "version": "0.1.0", "internal": True, "notion": NOTION,
    "standing": "unaccounted", "attacker": "knows everything else", "noise": "Gaussian(sigma=1.0)",
    "noise_on": "each released weight", "bounded": True,
    "model": {
        "loss": "squared", "l2": 0.01, "parameters": 3, "intercept": True, "target": "progression",
        "gradient_norm": 1e-12, "condition": 10.0, "score_name": "R²", "score": 0.52,
    },
    "people": 16, "rows": 32, "unknowns": "the target is counted", "unit": "person", "rows_counted": "from 1",
    "dose": {"typical": 0.6, "worst_1_percent": 2.4, "highest": 2.5, "highest_row": 10},
    "meaning": {
        "row": 10, "cell_row": 10, "column": "age", "kind": "number", "deviation": 2.6, "typical_deviation": 10.3,
        "spread": 34.6,
    },
    "groups": [
        {
            "column": "sex", "group": f"= {level}", "end": "", "people": 11, "over_median": 1.2 - k / 2, "median": 0.7,
            "worst_1_percent": 2.4, "asked": False, "by_first_row": False,
        }
        for k, level in enumerate("fm")
    ],
    "columns": [
        {
            "column": "age", "kind": "number", "over_all_rows": 3.0, "typical_deviation": 10.3, "least_deviation": 2.6,
            "spread": 34.6,
        },
        {"column": "sex", "kind": "category", "over_all_rows": 1.0, "typical": 0.6, "highest": 2.0},
    ],
    "target": {
        "column": "progression", "kind": "target", "counted": True, "typical_deviation": 50.0, "least_deviation": 9.0,
        "spread": 77.0,
    },
    "distribution": DISTRIBUTION, "ranked": RANKED,
    "strip": {
        "rows": [10, 3], "ids": ["patient 0", "patient 1"], "columns": ["age", "sex"], "kinds": ["number", "category"],
        "eta": [[2.0, 1.0], ["unbounded", 0.0]],
    },
    "not_covered": ["the mean of age"], "assumptions": ["fresh noise"], "remarks": ["loss chosen for the values"],
    "verdict": {"limit": 2.0, "above": 3, "within": False}, "frontier": FRONTIER,
    "attack": {
        **ATTACKED, "column": "age", "candidates": 8, "top_1_percent": 0.9, "others": 0.5, "simulation": True,
        "rare": RARE,
    },
    "dropped_rows": 0, "reproduce": PROVENANCE,
}  # fmt: skip
LINEAR_RELEASE: dict[str, Any] = {
    "schema": "dosimeter.linear-release/3", "version": "0.1.0", "internal": True, "notion": NOTION,
    "standing": "unaccounted", "attacker": "knows everything else", "measured_in": "standard deviations",
    "model": {"loss": "squared", "target": "progression", "l2": 0.01, "n": 32, "scale": 1.5, "shape": "hessian"},
    "law": "gaussian", "noise": "Gaussian(sigma=1.5)", "noise_on": "each released weight", "scale_from": "stated",
    "people": 16, "unit": "person",
    "dose": {"before": "unbounded", "spread_before": 4.0, "highest": 1.9, "typical": 0.5, "spread_after": 3.8},
    "score": {"name": "R²", "before": 0.52, "after": 0.5}, "limit": 2.0, "within": True, "useless": False,
    "choice": {
        "kind": "shaped", "loss_increases": {"isotropic": 8.25, "shaped": 5.5}, "left_out": {"equalised": "too large"},
    },
    "held_out": {
        "name": "R²", "base": 0.0, "without_noise": 0.47, "score": 0.43, "folds": 5, "worse": False, "limit": 2.0,
        "steps": [
            {"limit": 0.2, "why": "no scale brings the highest person to η = 0.2: the columns ..."},
            {"limit": 0.6, "scale": 5.0, "score": -0.2},
            {"limit": 2.0, "scale": 1.5, "score": 0.43},
        ],
    },
    "distribution": DISTRIBUTION,
    "ranked": RANKED, "frontier": FRONTIER, "not_covered": ["the mean of age"], "assumptions": ["fresh noise"],
    "remarks": ["loss chosen for the values"], "booked": BOOKED, "reproduce": PROVENANCE,
}  # fmt: skip


def _membership(shift: float) -> dict[str, Any]:
    return {
        **ATTACKED, "attack": "membership", "measure": "AUC", "figure": 0.7 - shift, "low": 0.6 - shift,
        "high": 0.8 - shift, "control": 0.5, "k": 2, "rank": 3, "maximum": 0.75, "best_k": 3, "null_mean": 0.5,
        "null_95": 0.6, "p_value": 0.01, "beats_chance": True, "null_at_k": [0.4, 0.6],
        "by_components": {
            "k": [1, 2, 3], "auc": [0.6, 0.7 - shift, 0.75], "null_low": [0.4, 0.4, 0.41], "null_high": [0.6, 0.6, 0.6],
        },
    }  # fmt: skip


COMPONENTS: dict[str, Any] = {
    "schema": "dosimeter.components/3", "version": "0.1.0", "private": True, "mechanism": "analyze-gauss",
    "guarantee": {
        "epsilon": 1.0, "delta": 1e-6, "neighbours": "replace-one", "unit": "row", "costs": 0.99, "holds": True,
        "standing": "upper bound",
    },
    "noise": {
        "on": "each distinct entry of the second moment", "law": "gaussian", "scale_low": 0.01, "scale_high": 0.02,
        "second_moment_reach": 4.0, "mean_share": 0.1, "mean_scale": 0.03,
    },
    "components": {"released": 2, "columns": 3, "share_of_noisy_variance": 0.9}, "rows_public": 100,
    "bounds": "declared", "units": "half ranges", "not_covered": ["how many rows a person has"],
    "assumptions": ["fresh noise"], "remarks": ["about the public centre"],
    "internal": {
        "clipped_share": 0.02, "labels_outside_the_list": 0, "rows_left_out": 0,
        "captured": {"k": 2, "q": 0.97, "at_random": 0.6},
        "variance": {
            "k": [1, 2, 3], "exact": [0.6, 0.9, 1.0], "released": [0.5, 0.88, 1.0], "at_random": [0.3, 0.6, 1.0],
        },
        "dose": {
            "symbol": "η", "compares": "values of the row", "unit": "row", "highest": 2.0, "typical": 0.4,
            "standing": "exact",
        },
        "membership": {"not_measured": "the noise is Laplace"}, "distribution": {**DISTRIBUTION, "unit": "row"},
        "ranked": RANKED, "people": 50, "most_rows_of_a_person": 3,
    },
    "attack": {
        "members": 50, "strangers": 50, "simulation": True, "dealt_by": "row",
        "interval_over": "rows, as if independent",
        "before": _membership(0.0), "after": _membership(0.15),
    },
    "booked": False, "written": "components.skops", "reproduce": PROVENANCE,
}  # fmt: skip
LABELS: dict[str, Any] = {
    "schema": "dosimeter.labels/3", "version": "0.1.0", "source": "patients.csv", "demo": False,
    "classes": ["ill", "well"],
    "publishable": {
        "nats": 4.0, "nats_per_query": 0.2, "factor": 54.6, "standing": "upper bound",
        "notion": "pointwise conditional maximal leakage", "unit": "teacher's part", "neighbours": "one teacher's part",
        "teachers": 40, "queries": 20, "refused": 1, "classes": 2, "noise": "Laplace(b=5)", "threshold": None,
        "epsilon": 6.1, "delta": 1e-5, "epsilon_standing": "upper bound", "adjacency": "replace-one",
    },
    "internal": {
        "unit": "person", "people": 400, "typical_nats": 0.02, "highest_nats": 0.4, "standing": "exact",
        "agreement_with_plain_vote": 0.93, "provenance": {"table": "cd" * 16, "teachers": 40},
        "teachers_with_one_class": 0, "teachers_lacking_a_class": 1, "rows_left_out": 0, "persons_left_out": "unknown",
        "distribution": {**DISTRIBUTION, "of": "nats", "limit": None},
        "by_query": {"nats": [0.001, 0.2, 0.05], "shown": 3, "bound": 0.2}, "by_teacher": [0.4, 0.2, 0.1],
    },
    "accuracy": {"labels": 0.92, "student": 0.9}, "public_rows": 200, "not_covered": ["the choice of the queries"],
    "assumptions": ["fresh noise"], "remarks": ["few teachers"], "booked": False, "written": ["labels.csv"],
    "reproduce": PROVENANCE,
}  # fmt: skip
PROMISE = {
    "epsilon": 7.9, "delta": 1e-5, "rounds": 3, "unit": "client", "adjacency": "add-or-remove-one",
    "neighbours": "add or remove one client", "standing": "upper bound", "how": "PLD of Poisson-sampled Gaussians",
    "trusted": "the curator",
}  # fmt: skip
TRAINED = {
    "version": "0.1.0", "demo": False, "clients": 100, "per_round": 20.0, "sampling": "by independent coins",
    "noise": 1.1, "budget": {"epsilon": 8.0, "delta": 1e-5},
}  # fmt: skip
FEDERATION: dict[str, Any] = {
    "schema": "dosimeter.federated/3", **TRAINED, "source": "hospitals.csv", "simulation": False, "stamp": "",
    "guarantee": PROMISE, "rounds": 3, "stopped": "the budget is spent",
    "model": {"widths": [4, 8, 2], "parameters": 58, "classes": ["ill", "well"]},
    "recipe": {
        "model": None, "hidden": [8], "epochs": 1, "batches": 10, "batch": 10, "rate": 0.1, "momentum": 0.0,
        "quantile": 0.5, "clip": 1.0, "simulate": None, "pool": 0, "widths": [4, 8, 2], "clients": 100,
        "sampling": "poisson", "per_round": 20.0, "noise": 1.1, "rounds": 3, "budget_epsilon": 8.0,
        "budget_delta": 1e-5,
    },
    "rows_become": {"ward": ["a", "b"]}, "clip_last": 0.9, "accuracy": {"of": "test.csv", "share": 0.8},
    "by_round": {
        "round": [1, 2, 3], "accuracy": [0.5, 0.7, 0.8], "epsilon": [4.0, 6.0, 7.9], "per_round": [20.0, 20.0, 20.0],
        "noise": [1.1, 1.1, 1.1], "clip": [1.0, 0.95, 0.9],
    },
    "not_covered": ["tuning"], "assumptions": ["K is public"], "remarks": ["rows were left out"],
    "internal": {
        "updates_sent": 61, "updates_refused": 1, "clients_asked": [19, 22, 20], "variance": [0.1, 0.05, 0.04],
        "scale": [0.01, 0.02, 0.01],
    },
    "booked": BOOKED, "written": ["model.safetensors"], "reproduce": PROVENANCE,
}  # fmt: skip
PLAN: dict[str, Any] = {
    "schema": "dosimeter.federated-plan/3", **TRAINED, "plan": True, "rate": 0.2, "found": "rounds", "rounds": 3,
    "updates_expected": 60.0, "noise_of_the_mean": 0.055, "guarantee": PROMISE, "over": "", "remarks": ["δ is small"],
    "reproduce": PROVENANCE,
}  # fmt: skip

SAMPLES = {
    "measurement": MEASUREMENT, "linear release": LINEAR_RELEASE, "components": COMPONENTS, "labels": LABELS,
    "federation": FEDERATION, "plan": PLAN,
}  # fmt: skip


def sample(name: str, **changes: Any) -> dict[str, Any]:
    """A copy of a result's JSON, some fields changed."""
    return {**deepcopy(SAMPLES[name]), **changes}


def result_of(name: str, **changes: Any) -> Any:
    """The typed result, some fields changed."""
    result: Result = read(sample(name, **changes))
    return result
