"""The sections of a schema that say what is released: limits, components, a training of patients.

[release]
name = "wards-2026-11"
epsilon = 1.0                    # of each patient, for components, a training, and noise at the sites
delta = 1e-6
noise-at = "coordinator"         # or "sites": each site adds its own noise, and the coordinator sees no exact sum

[components]
components = 3                   # how many are released
mean-share = 0.1                 # of the budget, for a noisy mean

[training]
rounds = 20
architecture = "softmax"         # or "mlp" with hidden = [16]
learning-rate = 0.3
momentum = 0.5
clip = 1.0                       # of the first round; it adapts to clip-quantile
clip-quantile = 0.7
patients-per-round = 500         # on average; `federate init` chooses it and the noise for the least noise
noise-multiplier = 1.9
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dosimeter.federated.networks import Network
from dosimeter.tables.schema_values import SchemaValues

NOISES = ("gaussian", "laplace")
COORDINATOR, SITES = NOISE_AT = ("coordinator", "sites")
ARCHITECTURES = ("softmax", "mlp")
FEW = 5
"""Components by default."""
MOST_ROUNDS = 10_000


@dataclass(frozen=True)
class ReleaseTerms:
    """What is released, and the limit that all sites agreed on."""

    name: str
    max_dose: float | None = None
    """Highest η of a person at any site."""
    scale: float | None = None
    """A public noise scale instead."""
    noise: str = "gaussian"
    epsilon: float | None = None
    """Of each patient, instead of a limit on η."""
    delta: float | None = None
    noise_at: str = COORDINATOR


@dataclass(frozen=True)
class ComponentTerms:
    """Principal components of all sites' rows."""

    components: int
    mean_share: float


@dataclass(frozen=True)
class TrainingTerms:
    """A training in rounds that protects patients. All of it is public."""

    rounds: int
    architecture: str
    hidden: tuple[int, ...]
    learning_rate: float
    momentum: float
    clip: float
    clip_quantile: float
    per_round: float | None
    """m; None before `federate init`."""
    noise: float | None
    """z; None before `federate init`."""

    def network(self, inputs: int, outputs: int) -> Network:
        """What is trained; one output is a number."""
        return Network((inputs, *self.hidden, outputs), end="identity" if outputs == 1 else "softmax")


def release_terms(values: SchemaValues, kind: str) -> ReleaseTerms:
    """[release]. kind: "loss", "components", "training" or "clients"."""
    keys = ("name", "max-dose", "scale", "noise", "epsilon", "delta", "noise-at")
    table = values.known(values.tables.get("release", {}), keys, "release")
    name = values.word("[release] name", table.get("name"))
    if kind == "clients":
        values.known(table, ("name",), "release")
        return ReleaseTerms(name)
    noise_at = values.choice(table, "noise-at", "release", NOISE_AT)
    if kind == "training" and noise_at == SITES:
        raise values.source.refusal('[release] noise-at = "sites" is not for a training', "leave it out")
    if kind != "loss" or noise_at == SITES:
        return _private(values, table, name, noise_at)
    limit, scale = (values.positive(table, key, "release") if key in table else None for key in ("max-dose", "scale"))
    if (limit is None) == (scale is None):
        raise values.source.refusal("[release] needs a limit", "give max-dose or a public scale, one of the two")
    if "epsilon" in table or "delta" in table:
        remedy = 'give max-dose, or noise-at = "sites"'
        raise values.source.refusal("[release] epsilon and delta are not for noise at the coordinator", remedy)
    return ReleaseTerms(name, limit, scale, values.choice(table, "noise", "release", NOISES))


def _private(values: SchemaValues, table: Mapping[str, Any], name: str, noise_at: str) -> ReleaseTerms:
    for key in ("max-dose", "scale", "noise"):
        if key in table:
            raise values.source.refusal(f"[release] {key} is for a model with noise at the coordinator", "leave it out")
    epsilon = values.positive(table, "epsilon", "release", 1000.0)
    delta = values.positive(table, "delta", "release", 0.1)
    return ReleaseTerms(name, epsilon=epsilon, delta=delta, noise_at=noise_at)


def component_terms(values: SchemaValues, width: int) -> ComponentTerms:
    """[components] of rows of this width."""
    table = values.known(values.tables.get("components"), ("components", "mean-share"), "components")
    count = values.whole(table, "components", "components", 1, width) if "components" in table else min(FEW, width)
    share = values.number(table, "mean-share", "components") if "mean-share" in table else 0.1
    if not 0 <= share <= 0.9:
        raise values.source.refusal(f"[components] mean-share = {share:g}", "give a number from 0 to 0.9")
    return ComponentTerms(count, share)


def training_terms(values: SchemaValues, patients: int, *, complete: bool) -> TrainingTerms:
    """[training] of this many declared patients. complete: m and z are there."""
    keys = (
        "rounds", "architecture", "hidden", "learning-rate", "momentum", "clip", "clip-quantile",
        "patients-per-round", "noise-multiplier",
    )  # fmt: skip
    table = values.known(values.tables.get("training"), keys, "training")
    rounds = values.whole(table, "rounds", "training", 1, MOST_ROUNDS)
    architecture = values.choice(table, "architecture", "training", ARCHITECTURES)
    defaults = {"learning-rate": 0.3, "momentum": 0.5, "clip": 1.0, "clip-quantile": 0.7}
    settings = {key: values.number({key: table.get(key, value)}, key, "training") for key, value in defaults.items()}
    for key, least, most in (
        ("learning-rate", 0, 1e3), ("momentum", -1e-300, 0.999), ("clip", 1e-6, 1e6), ("clip-quantile", 0, 0.999),
    ):  # fmt: skip
        if not least < settings[key] <= most:
            raise values.source.refusal(f"[training] {key} = {settings[key]:g}", f"give a number up to {most:g}")
    solved = ("patients-per-round", "noise-multiplier")
    if complete and not all(key in table for key in solved):
        raise values.source.refusal("[training] has no noise-multiplier", "`dosimeter federate init` writes it")
    per_round, noise = (values.positive(table, key, "training", 1e9) if key in table else None for key in solved)
    if per_round is not None and per_round > patients:
        raise values.source.refusal(f"[training] patients-per-round = {per_round:g}", f"there are {patients} patients")
    return TrainingTerms(
        rounds,
        architecture,
        _hidden(values, table, architecture),
        settings["learning-rate"],
        settings["momentum"],
        settings["clip"],
        settings["clip-quantile"],
        per_round,
        noise,
    )


def _hidden(values: SchemaValues, table: Mapping[str, Any], architecture: str) -> tuple[int, ...]:
    if architecture == "softmax":
        if "hidden" in table:
            raise values.source.refusal("[training] hidden is for an mlp", 'give architecture = "mlp"')
        return ()
    widths = table.get("hidden", [16])
    if not isinstance(widths, list) or not 1 <= len(widths) <= 8:
        raise values.source.refusal("[training] hidden is not a list of widths", "write hidden = [16]")
    return tuple(values.whole({"hidden": width}, "hidden", "training", 1, 4096) for width in widths)
