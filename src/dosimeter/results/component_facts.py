"""What `dosimeter pca` has to say: the guarantee, what it costs in use, the dose of each person, a rehearsed attack."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.cli.show import number
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.pca.release import PERSON
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.report.terminal import Page, small

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.models.component_rows import Rows
    from dosimeter.pca.mechanisms import Mechanism
    from dosimeter.pca.release import PrivateComponents
    from dosimeter.workflows.booking import BookingOutcome

MEASURED_IN = {False: "half ranges", True: "own units"}
ABOUT = "moments are about the public centre: where the mean lies far from it, the first component points to the mean"
ABOUT_MEAN = "components are about a noisy mean, which took {:g} % of the budget and is in the file"
COMPARES = {
    "dose": "values of the row, near its own",
    "membership": "presence against absence, N fixed",
}
"""Under replace-one too: μ is not about one row against another, where both rows' shifts add up."""
ASSUMED = (
    "the noise is fresh, is drawn by the operating system and stays secret",
    "other releases about the same people add their own (ε, δ)",
)
PUBLIC = "names of columns, their bounds and the lists of levels are public"
ON = ("each distinct entry of the second moment", "each entry of the mean")
TAKEN = "that the bounds were known without the table is taken on your word"


def facts_of(rows: Rows, made: PrivateComponents, name: str, k: int, share: float | None) -> dict[str, Any]:
    """All of it as a plain dict; what stands under "internal" was computed from the table without protection."""
    from dosimeter.core.version import __version__

    recipe = made.release.recipe
    public = rows.declared.public
    return {
        "schema": "dosimeter.components/2",
        "version": __version__,
        "private": public,
        "mechanism": name,
        "guarantee": _guarantee(made),
        "noise": {
            "on": ON[0] if made.mechanism.share == 0 else f"{ON[0]}, and of another scale on {ON[1]}",
            "law": made.mechanism.law.__name__.lower(),
            "scale_low": float(made.scales.min()),
            "scale_high": float(made.scales.max()),
            "second_moment_reach": float(made.box.reach.max() ** 2),
            "mean_share": made.mechanism.share,
            "mean_scale": made.mean_scale,
        },
        "components": {"released": k, "columns": made.box.d, "share_of_noisy_variance": share},
        "people_public" if made.unit == PERSON else "rows_public": made.n_samples,
        "bounds": "declared" if public else "from the table: not private",
        "units": MEASURED_IN[rows.declared.own_units],
        "not_covered": [*recipe.uncovered, *([TAKEN] if public else [])],
        "assumptions": [*ASSUMED, *([PUBLIC, *made.remarks, _about(made), *_delta_remark(made)] if public else [])],
        "remarks": [*made.remarks, _about(made), *_delta_remark(made)],
        "internal": _internal(rows, made, k),
        "booked": False,
        "written": "",
    }


def _guarantee(made: PrivateComponents) -> dict[str, Any]:
    mechanism = made.mechanism
    return {
        "epsilon": float(mechanism.epsilon),
        "delta": mechanism.budget_delta,
        "neighbours": mechanism.relation,
        "unit": _unit(made),
        "costs": made.epsilon(),
        "holds": bool(made.holds),
        "standing": made.standing.value,
    }


def _unit(made: PrivateComponents) -> str:
    return "person" if made.unit == PERSON else "row"


def _about(made: PrivateComponents) -> str:
    return ABOUT_MEAN.format(100 * made.mechanism.share) if made.mechanism.share > 0 else ABOUT


def _delta_remark(made: PrivateComponents) -> list[str]:
    delta = made.mechanism.budget_delta
    if delta * made.n_samples < 1:
        return []
    many, one = ("people", "a person") if made.unit == PERSON else ("rows", "a row")
    return [f"δ = {delta:g} is not below 1 over {made.n_samples} {many}: it would allow {one} to be printed"]


def _internal(rows: Rows, made: PrivateComponents, k: int) -> dict[str, Any]:
    from dosimeter.pca.utility import explained_variance, random_subspace
    from dosimeter.results.component_figures import variance

    stage("measuring every person")
    exact = _covariance(rows, made)
    told: dict[str, Any] = {
        "clipped_share": made.clipped_share,
        "labels_outside_the_list": rows.unknown,
        "rows_left_out": rows.incomplete,
        "captured": {"k": k, "q": 0.0, "at_random": 0.0},
        **_doses(rows, made),
        **_persons(rows),
    }
    if np.any(exact):
        told["captured"] |= {
            "q": explained_variance(exact, made.components.vectors, k),
            "at_random": random_subspace(exact, k),
        }
        told["variance"] = variance(exact, made.components.vectors)
    return told


def _covariance(rows: Rows, made: PrivateComponents) -> Any:
    """(d, d) of the clipped rows about their own mean, every person of weight one where a person is the unit."""
    from dosimeter.pca.bounded_sums import root_weights

    Z = made.box.clip(rows.X).rows
    r, count = root_weights(rows.ids) if made.unit == PERSON and rows.ids is not None else (np.ones(len(Z)), len(Z))
    Y = (Z - r**2 @ Z / max(count, 1)) * r[:, None]
    return Y.T @ Y / max(count, 1)


def _persons(rows: Rows) -> dict[str, Any]:
    if rows.ids is None:
        return {}
    return {"people": len(rows.counts), "most_rows_of_a_person": rows.most_rows}


def _doses(rows: Rows, made: PrivateComponents) -> dict[str, Any]:
    from dosimeter.core.notion import FISHER, MEMBERSHIP
    from dosimeter.pca.fisher import measure
    from dosimeter.results.component_figures import doses

    told: dict[str, Any] = {}
    try:
        leak = measure(made, rows.X, rows.ids)
        for key, notion in (("dose", FISHER), ("membership", MEMBERSHIP)):
            dose = leak.dose(rows.ids, of="components", notion=notion)
            reading = dose.reading
            told[key] = {
                "symbol": notion.symbol,
                "compares": COMPARES[key],
                "unit": "row" if rows.ids is None else "person",
                "highest": float(reading.max()),
                "typical": float(np.median(reading)),
                "standing": dose.standing.value,
            }
            if notion is FISHER:
                told |= doses(dose, rows.ids, None if rows.incomplete else np.arange(len(rows.X)))
    except CannotMeasure as reason:
        told["membership" if "dose" in told else "dose"] = {"not_measured": str(reason)}
    return told


def rehearsed(rows: Rows, recipe: Mechanism, k: int) -> dict[str, Any]:
    """Half of the people as members, the others as strangers: the attack before and after the noise. A simulation."""
    stage("rehearsing the attack")
    from dosimeter import pca
    from dosimeter.pca.release import release
    from dosimeter.results.component_figures import by_components

    rng = np.random.Generator(np.random.PCG64(0))
    inside = _half(rows, rng)
    public = rows.declared.public
    box = rows.bounds.over(rows.X.shape[1])
    members, strangers = (box.clip(rows.X[who]).rows + box.centre for who in (inside, ~inside))
    n = None if recipe.relation == "replace-one" or rows.declared.n is None else max(1, rows.declared.n // 2)
    whose = None if rows.ids is None else [rows.ids[i] for i in np.flatnonzero(inside)]
    how: dict[str, Any] = {"bounds": rows.bounds if public else None, "n_samples": n, "private": public}
    noisy = release(members, recipe, person=whose, rng=rng, **how)
    about = pca.mean(members) if noisy.mean_scale > 0 else noisy.components.mean
    exact = pca.components(pca.second_moment(members, about), about)
    told: dict[str, Any] = {"members": int(inside.sum()), "strangers": int((~inside).sum()), "simulation": True}
    told |= {"dealt_by": "row" if rows.ids is None else "person", "interval_over": "rows, as if independent"}
    ids = None if rows.ids is None else [rows.ids[i] for i in (*np.flatnonzero(inside), *np.flatnonzero(~inside))]
    for key, found in (("before", exact), ("after", noisy.components)):
        seen = min(k, found.rank)
        result = pca.attack(found, members, strangers, rng, k=seen, groups=ids)
        band = [float(np.quantile(result.null.auc[:, seen], q)) for q in (0.025, 0.975)]
        told[key] = {**result.facts(), "null_at_k": band, "by_components": by_components(result)}
    return told


def _half(rows: Rows, rng: np.random.Generator) -> Any:
    """(n,) who is a member: half of the people, with all their rows."""
    ids: tuple[Hashable, ...] = rows.ids if rows.ids is not None else tuple(range(len(rows.X)))
    people = list(dict.fromkeys(ids))
    if len(people) < 8:
        raise Refusal(f"--attack: {len(people)} people are too few to part into members and strangers; 8 are needed")
    chosen = {people[i] for i in rng.permutation(len(people))[: len(people) // 2]}
    return np.array([i in chosen for i in ids])


def tell(facts: dict[str, Any], words: Console, receipt: BookingOutcome, *, demo: bool, wanted: bool) -> None:
    """The facts as a person reads them."""
    page = Page()
    if demo:
        words.print(
            f"dosimeter {facts['version']} · pca: 1797 handwritten digits of 64 pixels (shipped with scikit-learn)"
        )
        words.print("the bounds of a pixel, 0 to 16, are public: they are the format's\n")
    _promise(page, facts)
    _worth(page, facts["internal"], facts)
    if "attack" in facts:
        _attacked(page, facts["attack"], facts["components"]["released"])
    for heading in ("not_covered", "remarks"):
        for i, note in enumerate(facts[heading]):
            page.add(heading.replace("_", " ") if i == 0 else "", safe_text(note, 600), "dim")
    _end(page, facts, receipt, demo, wanted)
    page.show(words)
    if demo:
        own = "--epsilon 1 --bounds bounds.toml --out components.skops"
        words.print(
            "\nyour own table:  dosimeter pca people.csv --template > bounds.toml   # fill it in", soft_wrap=True
        )
        words.print(f"                 dosimeter pca people.csv {own}", soft_wrap=True)


def _promise(page: Page, facts: dict[str, Any]) -> None:
    told, found, noise = facts["guarantee"], facts["components"], facts["noise"]
    share = found["share_of_noisy_variance"]
    how = "" if share is None else f" ({share:g} of the noisy variance)"
    page.add("components", f"{found['released']} of {found['columns']}{how}, by {facts['mechanism']}")
    scale = number(noise["scale_low"])
    if noise["scale_high"] > noise["scale_low"]:
        scale = f"{scale} to {number(noise['scale_high'])}"
    page.add(
        "noise",
        f"{noise['law']}, scale {scale}, on {ON[0]} (entries up to {number(noise['second_moment_reach'])})",
    )
    if noise["mean_scale"] > 0:
        part = f"{100 * noise['mean_share']:g} % of the budget"
        page.add("", f"{noise['law']}, scale {number(noise['mean_scale'])}, on {ON[1]} ({part})")
    unit = "a person, all their rows together" if told["unit"] == "person" else "a row"
    pair = f"ε = {told['epsilon']:g}, δ = {told['delta']:g}; neighbours: {told['neighbours']}; unit: {unit}"
    if not facts["private"]:
        page.add("guarantee", f"not private: the bounds come from the table, so {pair} is not claimed", "red")
    elif told["holds"]:
        page.add("guarantee", f"{pair} ({told['standing']})")
    else:
        page.add("guarantee", f"not proved: {pair}; this noise costs ε = {number(told['costs'])}", "red")


def _worth(page: Page, inside: dict[str, Any], facts: dict[str, Any]) -> None:
    q = inside["captured"]
    page.add("internal", "the lines from here on are computed from the table without protection: do not publish", "dim")
    page.add(
        "captured variance", f"{q['q']:.3f} of what the best {q['k']} directions hold; at random {q['at_random']:.3f}"
    )
    page.add("clipped", f"{100 * inside['clipped_share']:.1f} % of the rows lay outside the bounds")
    if inside["labels_outside_the_list"]:
        page.add("", f"{inside['labels_outside_the_list']} labels are not in the public list and count as none")
    if inside["rows_left_out"]:
        kept = facts["private"] and facts["guarantee"]["neighbours"] == REPLACE
        how = "add nothing"
        if kept and "rows_public" in facts:
            how = f"count among the {facts['rows_public']} as the public centre"
        elif kept:
            how = "add nothing; a person without a complete row counts as the public centre"
        page.add("left out", f"{inside['rows_left_out']} rows with a missing or unreadable value {how}")
    if inside.get("most_rows_of_a_person", 1) > 1:
        page.add("per person", f"somebody has {inside['most_rows_of_a_person']} rows; they weigh as much as one")
    rows = []
    for key, name in (("dose", "η"), ("membership", "μ")):
        one = inside.get(key, {})
        if "not_measured" in one:
            page.add(name, safe_text(one["not_measured"], 300), "dim")
        elif one:
            rows.append((name, number(one["typical"]), number(one["highest"]), one["standing"]))
    if rows:
        page.add(f"dose per {inside['dose']['unit']}", small(("", "typical", "highest", "standing"), rows))
        page.add("", f"1/η: least error of an unbiased guess, in {facts['units']}", "dim")
    if "compares" in inside.get("membership", {}):
        meant = f"{COMPARES['membership']}: nobody tells the two apart better than AUC Φ(μ/√2)"
        page.add("", f"μ: {meant}; one {inside['membership']['unit']} against another is not in it", "dim")


def _attacked(page: Page, told: dict[str, Any], k: int) -> None:
    before, after = told["before"], told["after"]
    low, high = before["null_at_k"]
    fixed = tuple(f"{one['figure']:.3f} ± {(one['high'] - one['low']) / 2:.3f}" for one in (before, after))
    best = tuple(f"{one['maximum']:.3f} at {one['best_k']}" for one in (before, after))
    rows = [
        (f"{k} seen", *fixed, f"{low:.3f} to {high:.3f}"),
        ("all, best k", *best, f"below {max(before['null_95'], after['null_95']):.3f}"),
    ]
    page.add("attack (AUC)", small(("", "before noise", "after", "by chance"), rows))
    parts = f"{told['members']} rows as members, {told['strangers']} as strangers"
    if told["dealt_by"] == "person":
        parts += ", parted by person (± takes rows for independent: too narrow where somebody has several)"
    page.add(
        "", f"a rehearsal on halves of the table, not the release: {parts}, noise for so many; a lower bound", "dim"
    )


def _end(page: Page, facts: dict[str, Any], receipt: BookingOutcome, demo: bool, wanted: bool) -> None:
    if receipt.refused:
        receipt.refuse(page)
    elif facts["written"]:
        page.add("written", f"{safe_text(facts['written'])} ({receipt.words})")
    elif wanted:
        page.add("refused", "the stated budget is not proved for this noise; nothing was written", "red")
    elif demo:
        page.add("written", "nothing: this was a demonstration (--out FILE writes the components)")
