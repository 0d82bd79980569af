"""Charts for [Saeidian21], which has none: leakage against consensus, the bounds, and MNIST."""

from __future__ import annotations

import numpy as np

from dosimeter.core.noise import Laplace
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.doses import public_bound
from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reproductions.html_page import Figure
from dosimeter.reproductions.saeidian21_histograms import consensus
from dosimeter.reproductions.saeidian21_mnist import GAMMAS, QUERIES, TeacherStudy


def agreement() -> Figure:
    """Leakage of one label against the share of the first class."""
    charts = []
    for votes, classes, gamma in ((100, 4, 0.1), (249, 10, 0.05)):
        share, curves = consensus(votes, classes, gamma)
        series = [Series(name, share, values) for name, values in curves.items()]
        title = f"{votes} other votes, {classes} classes, γ = {gamma:g}"
        charts.append(chart(title, Axis("share of the first class"), Axis("nats", log=True), series))
    caption = "The other classes share the rest evenly. Exact by eq. 12; log B3 is our own bound."
    return Figure("Leakage against consensus", caption, "".join(charts))


def bounds() -> Figure:
    """log B1 over m and γ."""
    sizes = np.unique(np.geomspace(2, 1000, 40).astype(int))
    over_m = [
        Series(f"γ = {g:g}", sizes.astype(float), np.array([data_independent_bound(int(m), g) / g for m in sizes]))
        for g in (0.01, 0.1, 1.0, 3.0)
    ]
    gammas = np.geomspace(1e-3, 10, 40)
    over_g = [
        Series(f"m = {m}", gammas, np.array([data_independent_bound(m, float(g)) for g in gammas]))
        for m in (2, 10, 100)
    ]
    charts = [
        chart("Proposition 12 over m", Axis("classes m", log=True), Axis("log B1 / γ"), over_m),
        chart(
            "Proposition 12 and Theorem 13 over γ",
            Axis("γ", log=True),
            Axis("nats", log=True),
            [*over_g, Series("γ (Theorem 13)", gammas, gammas)],
        ),
    ]
    return Figure("The data-independent bounds", "log B1 rises with m to γ, and with γ to log m.", "".join(charts))


def learned(study: TeacherStudy) -> Figure:
    """What accuracy nats buy on MNIST."""
    gammas, k = np.array(GAMMAS), QUERIES
    student = [Series(f"γ = {g:g}", c.nats, c.accuracy) for g, c in study.curves.items()]
    noisy = np.array([np.mean(study.labels[g].values == study.truth) for g in GAMMAS])
    plain = np.full(len(GAMMAS), np.mean(study.votes.counts.argmax(axis=1) == study.truth))
    totals = {
        "highest at these votes, an upper bound by Lemma 5 (internal)": np.array(
            [study.doses[g].max() for g in GAMMAS]
        ),
        "k log B1 (to publish)": np.array([public_bound(k, 10, Laplace(1 / g)).nats for g in GAMMAS]),
    }
    charts = [
        chart("the student", Axis("nats, data-independent", log=True), Axis("accuracy on 8,000 images"), student),
        chart(
            "the vote",
            Axis("γ", log=True),
            Axis("share of right labels"),
            [Series("with noise", gammas, noisy), Series("plain vote", gammas, plain)],
        ),
        chart(
            f"what {k} labels leak",
            Axis("γ", log=True),
            Axis("nats", log=True),
            [Series(name, gammas, values) for name, values in totals.items()],
        ),
    ]
    return Figure(
        "MNIST, 250 teachers", "Simulated releases. 240 images per teacher; an image is a person.", "".join(charts)
    )


def people(study: TeacherStudy, gamma: float = 0.05) -> Figure:
    """The doses of 60,000 people."""
    nats = study.doses[gamma]
    edges = np.histogram_bin_edges(nats, 40)
    count = np.histogram(nats, edges)[0].astype(np.float64)
    bars = Series("people", edges, count, "bars", mark=float(np.median(nats)))
    title = f"MNIST, γ = {gamma:g}, {QUERIES} queries"
    markup = chart(title, Axis("nats, upper bound by Lemma 5"), Axis("people"), [bars])
    return Figure("Nats per person", "A person has the total of their teacher; dashed: the median. Internal.", markup)
