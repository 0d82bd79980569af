"""OWASP AISVS, C12.3 Differential-Privacy Safeguards, requirement by requirement."""

from __future__ import annotations

from collections.abc import Sequence

from dosimeter.reports.layout import Notes, Paragraph, Part
from dosimeter.reports.questionnaire import Evidence, Point, Questionnaire, as_table, gather

MOST_ROUNDS = 200
ACCOUNTED = ("dosimeter.federated", "dosimeter.federated-plan", "dosimeter.components", "dosimeter.labels")
LINEAR = ("dosimeter.linear-release", "dosimeter.measurement", "dosimeter.answers")


def _per_round(evidence: Sequence[Evidence]) -> list[Part]:
    parts: list[Part] = []
    for e in evidence:
        budget, guarantee = e.field("budget"), e.field("guarantee")
        if e.kind not in ACCOUNTED or not isinstance(guarantee, dict) or "epsilon" not in guarantee:
            continue
        delta = guarantee.get("delta")
        spent = f"ε = {guarantee['epsilon']} at δ = {delta} ({guarantee.get('standing', '')})"
        limit = ""
        if isinstance(budget, dict) and "epsilon" in budget:
            limit = f" The threshold is ε = {budget['epsilon']} at δ = {budget['delta']}: training stops before it."
        parts.append(Paragraph(f"{e.title}: {spent}.{limit}"))
        history = e.field("by_round")
        if isinstance(history, dict) and history.get("round") and history.get("epsilon"):
            rows = list(zip(history["round"], history["epsilon"], strict=False))[:MOST_ROUNDS]
            parts += as_table(
                "ε after each round, cumulative", ("round", "ε", "δ"), [(r, eps, delta) for r, eps in rows]
            )
    return parts


def _proofs(evidence: Sequence[Evidence]) -> list[Part]:
    chosen = [e for e in evidence if e.kind in (*ACCOUNTED, *LINEAR)]
    notes = [f"{e.title}: {e.sentence}" for e in chosen]
    notes += [f"Not covered: {text}" for text in gather(chosen, "not_covered")]
    if not notes:
        return []
    after = "Fine-tuning on private data after this release, and embeddings of it, are other releases: not covered."
    return [Notes((*notes, after))]


AISVS = Questionnaire(
    "OWASP AISVS C12.3: differential-privacy safeguards",
    "A requirement without an answer was not verified by these results.",
    (
        Point(
            "12.3.1",
            "Is the consumption of ε and δ tracked and recorded for each round of training, with an alert above the "
            "policy's threshold?",
            _per_round,
            "Only trainings with differential privacy have rounds that are accounted for:",
            "dosimeter federate --table TABLE --target TARGET --client CLIENT --epsilon 8 --out MODEL --json run.json",
        ),
        Point(
            "12.3.2",
            "Does a black-box audit estimate ε within 10 % of the declared value?",
            lambda evidence: [],
            "dosimeter.federated.audit plays such an audit in Python. Its figure is a lower bound: it refutes a claim "
            "and proves none, so that no audit comes within 10 % of a bound that is not tight.",
        ),
        Point(
            "12.3.3",
            "Do formal guarantees cover everything after training, such as fine-tunes and embeddings?",
            _proofs,
        ),
        Point(
            "12.3.4",
            "Is federated learning audited by canaries in each cycle, with the results logged?",
            lambda evidence: [],
            "dosimeter.federated.audit and audit_patients plant canaries in Python; their results are not part of a "
            "training's result.",
        ),
    ),
)
