"""What `dosimeter federate` has to say: the guarantee, whom it trusts, what it leaves out; and a plan's two answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dosimeter.cli.show import number
from dosimeter.core.text import safe_list, safe_text
from dosimeter.models.federated_rows import INSIDE
from dosimeter.report.terminal import Page

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.federated.history import History
    from dosimeter.models.federated_terms import FederatedTerms
    from dosimeter.models.federated_training import Job
    from dosimeter.workflows.booking import BookingOutcome

TRUSTED = "the curator: it sees every client's update before noise; everybody else sees noised models only"
NEIGHBOURS = {
    "add-or-remove-one": "add or remove one client with all its rows",
    "replace-one": "replace one client with all its rows by another",
}
NOT_COVERED = (
    "tuning: settings chosen by looking at results on these clients' rows, and models thrown away before this one",
    "metrics: whatever is published beside the model (norms, losses, who took part, the state kept by --checkpoint)",
    "a person whose rows lie with several clients: what is hidden is one client",
    "earlier and later trainings with the same clients: each adds its own (ε, δ), and so does going on from an older "
    "copy of a checkpoint, which draws its rounds a second time",
)
ASSUMED = (
    "clients and noise are drawn afresh by the operating system, and the noise stays secret",
    "the curator follows the recipe",
)
STAMP = "SIMULATION, NOT FOR RELEASE: clients and noise were drawn from a seed"


def planned(terms: FederatedTerms, asked: bool, demo: bool) -> dict[str, Any]:
    """A plan as a plain dict; its two answers and what they cost."""
    from dosimeter.core.version import __version__

    found = terms.figure
    return {
        "schema": "dosimeter.federate-plan/2",
        "version": __version__,
        "plan": asked,
        "demo": demo,
        "clients": terms.cohort.clients,
        "per_round": terms.per_round,
        "rate": terms.cohort.rate(terms.per_round),
        "sampling": terms.cohort.in_words,
        "budget": {"epsilon": terms.budget.epsilon, "delta": terms.budget.delta},
        "found": terms.asked,
        "rounds": terms.rounds,
        "noise": terms.noise,
        "updates_expected": terms.rounds * terms.per_round,
        "noise_of_the_mean": terms.noise / terms.per_round,
        "guarantee": _guarantee(found),
        "over": terms.over,
        "remarks": list(found.remarks),
    }


def _guarantee(found: Any) -> dict[str, Any]:
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "rounds": found.rounds,
        "unit": found.unit,
        "adjacency": found.adjacency,
        "neighbours": NEIGHBOURS[found.adjacency],
        "standing": found.standing.value,
        "how": found.how,
        "trusted": TRUSTED,
    }


def facts_of(job: Job, done: History, demo: bool) -> dict[str, Any]:
    """A training as a plain dict; what stands under "internal" was not noised."""
    plan = planned(job.terms, False, demo)
    state, people = done.state, job.people
    told = {key: plan[key] for key in ("version", "demo", "clients", "per_round", "sampling", "noise", "budget")}
    score = {"of": people.tested, "share": job.task.score(state.model).accuracy} if people.tested else {}
    return {
        "schema": "dosimeter.federate/2",
        **told,
        "source": people.source,
        "simulation": state.simulation,
        "stamp": STAMP if state.simulation else "",
        "guarantee": _guarantee(done.figure),
        "rounds": state.round,
        "stopped": done.stopped,
        "model": {"widths": list(job.network.widths), "parameters": job.network.size, "classes": list(people.classes)},
        "recipe": job.recipe(),
        "rows_become": dict(people.form),
        "clip_last": state.history[-1].clip if state.history else 0.0,
        "accuracy": score,
        "by_round": _rounds(done, bool(people.tested)),
        "not_covered": [*people.unpaid, *NOT_COVERED, *people.assumed],
        "assumptions": [*ASSUMED, *done.figure.remarks],
        "remarks": [*done.figure.remarks, *people.remarks, *_remarks(job, done)],
        "internal": {
            "updates_sent": sum(entry.accepted for entry in state.history),
            "updates_refused": sum(entry.refused for entry in state.history),
            "clients_asked": [entry.sampled for entry in state.history],
            **_spread(done),
        },
        "booked": False,
        "written": [],
    }


def history_of(done: History, tested: bool) -> dict[str, Any]:
    """Each round's columns; without rows to measure on there is no accuracy and no loss."""
    return {name: values for name, values in done.columns.items() if tested or name not in ("accuracy", "loss")}


def _rounds(done: History, tested: bool) -> dict[str, Any]:
    """Columns that may be published: they follow from noised models, public rows and the recipe."""
    names = ("round", *(("accuracy",) if tested else ()), "epsilon", "per_round", "noise", "clip")
    return {name: done.columns[name].tolist() for name in names}


def _spread(done: History) -> dict[str, Any]:
    """V_c and U_s of each round, where they were looked at."""
    if not any(r.scale for r in done.rounds):
        return {}
    return {"variance": [r.variance for r in done.rounds], "scale": [r.scale for r in done.rounds]}


def _remarks(job: Job, done: History) -> list[str]:
    told: list[str] = []
    d, m = job.network.size, job.terms.per_round
    worth = job.terms.noise * d**0.5 / m
    if worth > 1:
        told.append(
            f"the noise of a round is about {worth:.1f} times as long as the longest mean update: "
            "more clients, fewer parameters or a larger ε would help"
        )
    return told


def story(facts: dict[str, Any]) -> dict[str, Any]:
    """What goes into the model's file; nothing internal."""
    names = (
        "schema", "version", "source", "simulation", "stamp", "guarantee", "budget", "recipe", "rows_become", "model",
        "not_covered", "remarks", "booked",
    )  # fmt: skip
    public = [note for note in facts["remarks"] if not note.startswith(INSIDE)]
    return {name: facts[name] for name in names} | {"remarks": public}


def tell_plan(facts: dict[str, Any], words: Console) -> None:
    """A plan, or why the budget allows none."""
    page = Page()
    budget = facts["budget"]
    page.add("clients", f"{facts['clients']}; asked in a round: {facts['per_round']:g}, {facts['sampling']}")
    page.add("budget", f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} for the whole training")
    if facts["over"]:
        page.add("refused", f"{facts['over']}; nothing was trained, nothing was written", "red")
    else:
        rounds, noise = f"{facts['rounds']} rounds", f"noise multiplier z = {facts['noise']:.4g}"
        first, second = (rounds, noise) if facts["found"] == "rounds" else (noise, rounds)
        page.add("answer", f"{first} for {second}", "bold")
        page.add(
            "", f"z is the noise on the sum over the clip; on the mean {facts['noise_of_the_mean']:.3g} clips", "dim"
        )
        page.add("communication", f"{facts['updates_expected']:g} updates sent, on average")
        _promise(page, facts["guarantee"])
    for k, note in enumerate(facts["remarks"]):
        page.add("remarks" if k == 0 else "", safe_text(note, 600), "dim")
    page.show(words)


def _promise(page: Page, told: dict[str, Any]) -> None:
    page.add("guarantee", f"(ε, δ) = ({number(told['epsilon'])}, {told['delta']:g}) after {told['rounds']} rounds")
    page.add("", f"{told['standing']}, by {told['how']}; neighbours: {told['neighbours']}", "dim")
    if told["standing"] == "unaccounted":
        page.add("", "unaccounted: see what was counted in or read from the rows, under not covered", "yellow")
    page.add("", f"trusted: {told['trusted']}", "dim")


def tell(facts: dict[str, Any], words: Console, receipt: BookingOutcome) -> None:
    """A training, as a person reads it."""
    if facts["demo"]:
        words.print(
            f"dosimeter {facts['version']} · federate on digits that ship with scikit-learn, for a look at it\n"
        )
    page, model = Page(), facts["model"]
    if facts["simulation"]:
        page.add("simulation", STAMP, "red")
    shape = "-".join(map(str, model["widths"]))
    page.add("trained", f"{shape} ({model['parameters']} parameters) on {safe_text(facts['source'])}")
    page.add("", f"{facts['clients']} clients, {facts['per_round']:g} a round, {facts['sampling']}", "dim")
    page.add("", f"{len(model['classes'])} classes: {safe_list(model['classes'], 8)}", "dim")
    page.add(
        "rounds", f"{facts['rounds']}, noise multiplier z = {facts['noise']:.4g}; {safe_text(facts['stopped'], 200)}"
    )
    _promise(page, facts["guarantee"])
    left = max(0.0, facts["budget"]["epsilon"] - facts["guarantee"]["epsilon"])
    page.add("budget", f"ε = {facts['budget']['epsilon']:g}, of which {number(left)} is left")
    score = facts["accuracy"]
    page.add(
        "accuracy",
        f"{100 * score['share']:.1f} % on {safe_text(score['of'], 120)}"
        if score
        else "not measured: on the clients' rows it would not be private; name public rows with --test",
    )
    inside = facts["internal"]
    refused = f"; {inside['updates_refused']} were refused" if inside["updates_refused"] else ""
    page.add("internal", f"{inside['updates_sent']} updates were sent{refused}: not noised, do not publish", "dim")
    for heading in ("not_covered", "remarks"):
        for k, note in enumerate(facts[heading]):
            page.add(heading.replace("_", " ") if k == 0 else "", safe_text(note, 600), "dim")
    if receipt.refused:
        receipt.refuse(page)
    elif facts["written"]:
        page.add("written", f"{', '.join(map(safe_text, facts['written']))} ({receipt.words})")
    else:
        page.add("written", "nothing: name a file with --out model.skops")
    page.show(words)
    if facts["demo"]:
        own = "--table hospitals.csv --target readmitted --client hospital_id --epsilon 8 --out model.safetensors"
        words.print(f"\nyour own clients:  dosimeter federate {own}", soft_wrap=True)
        plan = "--clients 1000 --per-round 220 --epsilon 8 --rounds 54"
        words.print(f"before training:   dosimeter federate plan {plan}", soft_wrap=True)
