"""Opinion 28/2024 of the European Data Protection Board on AI models, point by point.

A model counts as anonymous if two likelihoods are insignificant: that personal data of those in the training data can
be extracted from the model, and that they can be obtained through queries, by all means reasonably likely to be used.
The opinion then names what an authority looks at: design, analysis, tests against attacks, documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from dosimeter.reports.layout import Notes, Part
from dosimeter.reports.questionnaire import Evidence, Point, Questionnaire, as_table, gather, sentences

EXTRACTION = (
    "dosimeter.measurement", "dosimeter.linear-release", "dosimeter.components", "dosimeter.federated",
    "dosimeter.scan", "dosimeter.check",
)  # fmt: skip
QUERIES = ("dosimeter.answers", "dosimeter.labels")
ATTACKS = ("dosimeter.attack",)


def _attacks(evidence: Sequence[Evidence]) -> list[Part]:
    parts = sentences(evidence, ATTACKS)
    rows = []
    for e in evidence:
        for name, attack in (("inversion", e.field("inversion")), ("membership", e.field("membership", "played")),
                             ("attack beside the figure", e.field("attack"))):  # fmt: skip
            if isinstance(attack, dict) and "figure" in attack:
                interval = f"{attack['low']:.3g} to {attack['high']:.3g}"
                rows.append((name, attack["measure"], attack["figure"], interval, attack["control"]))
    return parts + as_table("Attacks", ("attack", "measure", "figure", "interval", "without the release"), rows)


def _measures(evidence: Sequence[Evidence]) -> list[Part]:
    rows = []
    for e in evidence:
        noise, on = e.field("noise"), e.field("noise_on")
        if noise is None and e.field("law") is not None:
            noise = f"{e.field('law')}, scale withheld: it was chosen from the data"
        if noise is not None and e.kind != "dosimeter.federated":
            rows.append((e.title, "noise", f"{noise}{f' on {on}' if on else ''}"))
        guarantee = e.field("guarantee")
        if isinstance(guarantee, dict) and "epsilon" in guarantee:
            text = f"ε = {guarantee['epsilon']}, δ = {guarantee.get('delta')}, {guarantee.get('neighbours', '')}"
            rows.append((e.title, "differential privacy", text.rstrip(", ")))
        limit = e.field("limit") if e.kind == "dosimeter.linear-release" else e.field("verdict", "limit")
        if limit is not None:
            rows.append((e.title, "highest dose (η) allowed", str(limit)))
    return as_table("Measures", ("result", "measure", "value"), rows)


def _means(evidence: Sequence[Evidence]) -> list[Part]:
    attackers = gather(evidence, "attacker")
    assumptions = gather(evidence, "assumptions")
    entries = [f"The attacker {text}." for text in attackers] + [f"Assumed: {text}." for text in assumptions]
    return [Notes(tuple(entries))] if entries else []


def _records(evidence: Sequence[Evidence]) -> list[Part]:
    rows = []
    for e in evidence:
        booked = e.field("booked")
        if isinstance(booked, dict):
            rows.append((e.title, "booked in the ledger", f"{booked.get('name')}, head {booked.get('head')}"))
        if e.field("artefact"):
            rows.append((e.title, "SHA-256 of the released file", str(e.field("artefact"))))
        if e.field("reproduce", "command"):
            rows.append((e.title, "command", str(e.field("reproduce", "command"))))
    return as_table("Records", ("result", "what", "value"), rows)


def _not_covered(evidence: Sequence[Evidence]) -> list[Part]:
    notes = gather(evidence, "not_covered")
    return [Notes(tuple(notes))] if notes else []


EDPB = Questionnaire(
    "Opinion 28/2024 of the European Data Protection Board, point by point",
    "Whether a model is anonymous is for its controller and the authority to say: this page claims only what was "
    "computed.",
    (
        Point(
            "Extraction from the model",
            "How likely is it that personal data of people in the training data can be extracted from the model?",
            lambda evidence: sentences(evidence, EXTRACTION),
            "Measure what the released weights say about each person, and scan the file for rows:",
            "dosimeter measure TABLE --model MODEL --scale SCALE --json result.json; dosimeter scan MODEL --data TABLE",
        ),
        Point(
            "Queries",
            "How likely is it that such data can be obtained, on purpose or not, from the model's answers?",
            lambda evidence: sentences(evidence, QUERIES),
            "Measure what the answers to public queries say about each person:",
            "dosimeter measure TABLE --release predictions --queries QUERIES --scale SCALE --json answers.json",
        ),
        Point(
            "Means reasonably likely to be used",
            "Against whom do the figures hold?",
            _means,
        ),
        Point(
            "Design and training",
            "Which measures limit what the model can hold about a person?",
            _measures,
        ),
        Point(
            "Tests against attacks",
            "Was the model tested against attribute inference, membership inference, inversion and reconstruction?",
            _attacks,
            "Play an attack beside the figure; one that fails proves nothing:",
            "dosimeter attack inversion TABLE --target TARGET --column COLUMN --scale SCALE --json attack.json",
        ),
        Point(
            "Regurgitation and exfiltration",
            "Are rows of the training data inside the file?",
            lambda evidence: sentences(evidence, ("dosimeter.scan", "dosimeter.check")),
            "Scan the file against the table:",
            "dosimeter scan MODEL --data TABLE --json scan.json",
        ),
        Point(
            "Records",
            "Which records show what was released, when and how?",
            _records,
        ),
        Point(
            "What is not covered",
            "Which choices and risks do the figures leave out?",
            _not_covered,
        ),
        Point(
            "Sources, minimisation and legal basis",
            "How were sources selected and data minimised, and on which legal basis?",
            lambda evidence: [],
            "These are facts about the controller that no computation shows.",
        ),
    ),
)
