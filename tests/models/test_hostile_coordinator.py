"""A coordinator that asks for more than was agreed: what a site answers stays within what the page on sites says."""

from __future__ import annotations

import errno
import json
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh

from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.release import Recipe
from dosimeter.engines.protocol.fields import pack, unpack
from dosimeter.engines.protocol.message import Message, read_message
from dosimeter.engines.protocol.operations import operation_named
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_fit import fit_values
from dosimeter.models.site_exposure import carriers, people_beyond
from dosimeter.models.site_memory import MOST_EXPOSED, MOST_FITS
from tests.models.consortium import Consortium, cut, patients, schema_for
from tests.models.study_parts import TARGETS, schema_with

EPSILON = {"name": "r1", "epsilon": 20.0, "delta": 1e-6}


def ask(consortium: Consortium, name: str, values: Any, number: int, site: int = 1) -> tuple[str, dict[str, Any]]:
    """(status, answer) of a site to a question that a coordinator made up."""
    operation, sizes = operation_named(name), consortium.schema.sizes
    body = pack(operation.question, values, sizes)
    question = Message(consortium.schema.digest, number, site, secrets.token_bytes(16), name, body)
    reply = read_message(consortium.desks[site].answer(question.pack()))
    assert reply.status is not None
    return reply.status.name, unpack(operation.answer, reply.body, sizes) if reply.body else {}


def point(consortium: Consortium, v: Any) -> dict[str, Any]:
    identity = np.eye(consortium.schema.sizes["p"])
    return {"basis": identity, "mixing": identity, "condition": 1.0, "v": np.asarray(v, dtype=float), "check": False}


def three_sites(folder: Path, loss: str = "logistic", parts: Any = None, **release: Any) -> Consortium:
    return Consortium(schema_for(loss, **release), parts or cut(patients(loss)), folder)


# --- how much is asked ---


def test_other_questions_under_one_round_are_counted(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    consortium.desks[1].most_questions = 3
    p = consortium.schema.sizes["p"]
    statuses = [ask(consortium, "newton", point(consortium, np.full(p, k / 10)), 7)[0] for k in range(5)]
    assert statuses == ["DONE"] * 3 + ["REFUSED"] * 2


def test_the_same_bytes_are_answered_again_and_cost_no_question(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    consortium.desks[1].most_questions = 1
    consortium.assembly.ask("match")
    question = consortium.exchange.passed[0]
    assert consortium.desks[1].answer(question) == consortium.desks[1].answer(question)
    assert read_message(consortium.desks[1].answer(question)).status.name == "DONE"  # type: ignore[union-attr]


def test_an_older_round_is_refused_also_after_a_restart_of_the_site(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    assert ask(consortium, "match", {}, 9)[0] == "DONE"
    (tmp_path / "again").mkdir()
    again = three_sites(tmp_path / "again")
    again.desks[1].folder = consortium.desks[1].folder
    assert ask(again, "match", {}, 8)[0] == "REFUSED"
    assert ask(again, "match", {}, 9)[0] == "DONE"


def test_the_state_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    """Its yes was for another release, and its questions were counted for another study."""
    consortium = three_sites(tmp_path)
    consortium.assembly.ask("match")
    (tmp_path / "other").mkdir()
    other = three_sites(tmp_path / "other", **{"max-dose": 0.5})
    other.desks[1].folder = consortium.desks[1].folder
    assert ask(other, "match", {}, 99)[0] == "REFUSED"
    assert "another study" in other.said[-1]


# --- sums that are one patient's rows ---


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_weights_at_which_one_patient_is_left_are_refused(loss: str, tmp_path: Path) -> None:
    """At a steep slope through one patient's age (logistic), or beyond all ages (Poisson), H is that patient's xxᵀ."""
    consortium = three_sites(tmp_path, loss)
    table = consortium.desks[1]._checked_table()
    X = table.block[0]
    k = int(np.argmax(X[:, 0])) if loss == "poisson" else int(np.argsort(X[:, 0])[len(X) // 2])
    v = np.zeros(consortium.schema.sizes["p"])
    v[0], v[-1] = 1e5, -1e5 * X[k, 0]
    # The attack works on the bare sum: its last row, over the constant, is the patient's row.
    from dosimeter.engines.site_sums import NEWTON
    from dosimeter.glm.losses.loss import LOSSES

    H = NEWTON.run(table.block, point(consortium, v), LOSSES[loss]())["hessian"]
    np.testing.assert_allclose(H[-1, :-1] / H[-1, -1], X[k], atol=1e-6)
    assert ask(consortium, "newton", point(consortium, v), 5) == ("REFUSED", {})
    assert "fewer than three patients" in consortium.said[-1]
    question = {name: value for name, value in point(consortium, v).items() if name != "check"}
    assert ask(consortium, "squares at weights", question, 6) == ("REFUSED", {})


def bare(consortium: Consortium, loss: str, v: Any) -> dict[str, Any]:
    """What the sum of the first site would be without its rules."""
    from dosimeter.engines.site_sums import NEWTON
    from dosimeter.glm.losses.loss import LOSSES

    with np.errstate(all="ignore"):
        return NEWTON.run(consortium.desks[1]._checked_table().block, point(consortium, v), LOSSES[loss]())


def steps_around(consortium: Consortium, slope: float) -> tuple[int, list[Any]]:
    """A patient's row, and weights that are a step just before and just behind it in age."""
    X, _, _ = consortium.desks[1]._checked_table().block
    order = np.argsort(X[:, 0])
    k = next(j for j in range(20, 40) if min(np.diff(X[order[j - 1 : j + 2], 0])) > 0.005)
    steps = []
    for low, high in ((k - 1, k), (k, k + 1)):
        v = np.zeros(consortium.schema.sizes["p"])
        v[0], v[-1] = slope, -slope * (X[order[low], 0] + X[order[high], 0]) / 2
        steps.append(v)
    return int(order[k]), steps


def test_two_steps_around_a_patient_differ_by_that_patient_and_are_refused(tmp_path: Path) -> None:
    """Each gradient is one of half the patients, and the Hessian is zero: only the difference is one row."""
    consortium = three_sites(tmp_path)
    k, steps = steps_around(consortium, 1e6)
    gradients = [bare(consortium, "logistic", v)["gradient"] for v in steps]
    row = consortium.desks[1]._checked_table().block[0][k]
    np.testing.assert_allclose(gradients[0] - gradients[1], [*row, 1.0], atol=1e-9)
    for v in steps:
        assert ask(consortium, "newton", point(consortium, v), 5) == ("REFUSED", {})


def test_a_site_ends_a_study_that_asks_again_and_again_where_few_patients_are(tmp_path: Path) -> None:
    """Whether a question is refused is one bit about where patients lie: a thousand of them would be a table."""
    consortium = three_sites(tmp_path)
    p = consortium.schema.sizes["p"]
    for k in range(MOST_EXPOSED):
        v = np.zeros(p)
        v[0], v[-1] = 1e6, 1e6 * k / 100
        assert ask(consortium, "newton", point(consortium, v), 5)[0] == "REFUSED"
    assert ask(consortium, "newton", point(consortium, np.zeros(p)), 6)[0] == "REFUSED"
    assert "this site answers no more" in consortium.said[-1]
    (tmp_path / "again").mkdir()
    again = three_sites(tmp_path / "again")
    again.desks[1].folder = consortium.desks[1].folder
    assert ask(again, "match", {}, 1 << 40)[0] == "REFUSED"


def score_at(loss: str, X: Any, y: Any, threshold: float, slope: float) -> float:
    from dosimeter.glm.blocks.block_scores import score_terms
    from dosimeter.glm.losses.loss import LOSSES

    return float(score_terms(LOSSES[loss](), slope * (X[:, 0] - threshold), y, 0.5)[0])


def test_scores_do_not_place_a_patient(tmp_path: Path) -> None:
    """Correct rows at a threshold are a count of patients beyond it: by bisection any patient's age, at any slope."""
    consortium = three_sites(tmp_path)
    X, y, _ = consortium.desks[1]._checked_table().block
    order = np.argsort(X[:, 0])
    low, high = X[order[30], 0] + 1e-9, X[order[31], 0] + 1e-9
    before = score_at("logistic", X, y, low, 1e-3)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if score_at("logistic", X, y, middle, 1e-3) == before else (low, middle)
    assert high == pytest.approx(X[order[31], 0], abs=1e-9)  # the attack works on the bare score
    d, answered = consortium.schema.sizes["d"], 0
    for k in range(40):
        question = {"coef": np.eye(d)[0] * 1e-3, "intercept": -1e-3 * k / 40, "mean": 0.5}
        answered += ask(consortium, "score", question, 5)[0] == "DONE"
    assert answered == MOST_FITS


def test_a_score_that_one_patient_carries_is_refused(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path, "poisson")
    X, y, _ = consortium.desks[1]._checked_table().block
    top = X[:, 0].max()
    # Beyond all ages the deviance is that of the oldest patient, from which the age follows.
    assert score_at("poisson", X, np.zeros_like(y), 0.0, 500.0) == pytest.approx(np.exp(500.0 * top), rel=1e-2)
    question = {"coef": np.eye(consortium.schema.sizes["d"])[0] * 500.0, "intercept": 0.0, "mean": 1.0}
    assert ask(consortium, "score", question, 5) == ("REFUSED", {})
    assert "fewer than three patients" in consortium.said[-1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [3e154, 3e-154, 1e300])
def test_coordinates_at_which_a_sum_runs_over_for_one_patient_are_refused(size: float, tmp_path: Path) -> None:
    """The square of an age times 1e154 is finite or not: each question is a bit about the oldest patient."""
    consortium = three_sites(tmp_path)
    p = consortium.schema.sizes["p"]
    T = np.eye(p)
    T[0, 0] = size
    rows = consortium.desks[1]._checked_table().block[0]
    square = (rows[:, 0] * size) ** 2
    assert not np.isfinite(square).all() or (square < 1e-290).all()
    question = {"T": T, "exact": False}
    assert ask(consortium, "products of the table", question, 5) == ("REFUSED", {})
    assert ask(consortium, "newton", {**point(consortium, np.zeros(p)), "basis": T}, 6) == ("REFUSED", {})
    assert "overflow or vanish" in consortium.said[-1]


def with_codes(n: int) -> tuple[Any, list[dict[str, Any]]]:
    """A schema whose column `code` has a level for each patient of a site, and such tables."""
    codes = [f"c{k}" for k in range(n)]
    columns = {"age": {"lower": 18, "upper": 100}, "code": {"levels": codes}, "y": TARGETS["number"]}
    rng = np.random.default_rng(5)
    parts = [
        {"id": [f"p{site}-{k}" for k in range(n)], "age": rng.uniform(20, 95, n), "code": np.array(codes),
         "y": rng.normal(size=n)} for site in range(3)
    ]  # fmt: skip
    return schema_with("number", columns=columns, loss="squared", l2=0.1, release={"name": "r1", "scale": 1.0}), parts


def test_a_column_that_numbers_the_rows_is_refused_at_the_site(tmp_path: Path) -> None:
    """With it XᵀX holds every patient's age: an indicator times the age is that age."""
    schema, parts = with_codes(30)
    consortium = Consortium(schema, parts, tmp_path)
    assert ask(consortium, "match", {}, 1) == ("NO_MATCH", {})
    assert "30 patients make up more than 0.5 of an exact sum" in consortium.said[-1]
    consortium.desks[2].largest_share = 1.0
    p = consortium.schema.sizes["p"]
    status, answer = ask(consortium, "products of the table", {"T": np.eye(p), "exact": False}, 2, site=2)
    assert status == "DONE"
    # The codes of the levels are public: with the constant they are a basis, so XᵀX alone gives every age.
    X = consortium.desks[2]._checked_table().block[0]
    ages = np.linalg.solve(np.column_stack([X[:, 1:], np.ones(30)]).T, answer["sum"][1:, 0])
    np.testing.assert_allclose(ages, X[:, 0], atol=1e-9)


@pytest.mark.parametrize(("with_level", "status"), [(1, "NO_MATCH"), (2, "NO_MATCH"), (3, "DONE")])
def test_a_level_that_one_or_two_patients_have_keeps_a_site_out(with_level: int, status: str, tmp_path: Path) -> None:
    rows = patients("squared", n=300)
    rows["id"] = [f"p{k}" for k in range(300)]
    rows["sex"] = np.array(["x"] * with_level + ["f", "m"] * ((300 - with_level) // 2) + ["f"] * (with_level % 2))
    consortium = three_sites(tmp_path, "squared", cut(rows))
    consortium.desks[1].read = consortium._reader(rows)
    assert ask(consortium, "match", {}, 1)[0] == status


def test_more_columns_than_rows_keep_a_site_out(tmp_path: Path) -> None:
    columns = {f"x{j}": {"lower": -1, "upper": 1} for j in range(20)}
    rng = np.random.default_rng(2)
    part = {"id": [f"p{k}" for k in range(15)], "y": rng.normal(size=15)}
    part |= {name: rng.uniform(-1, 1, 15) for name in columns}
    tables = {"loss": "squared", "l2": 0.1, "release": {"name": "r1", "scale": 1.0}}
    schema = schema_with("number", columns={**columns, "y": TARGETS["number"]}, **tables)
    consortium = Consortium(schema, [part] * 3, tmp_path)
    assert ask(consortium, "match", {}, 1)[0] == "NO_MATCH"
    assert "15 patients" in consortium.said[-1]


def test_a_patients_share_is_the_largest_over_all_combinations_of_columns() -> None:
    rng = np.random.default_rng(0)
    X, people = rng.normal(size=(40, 4)), rng.integers(0, 15, 40)
    X[7] *= 30
    share = {}
    for i in range(15):
        own = X[people == i]
        share[i] = float(eigh(own.T @ own, X.T @ X, eigvals_only=True)[-1]) if len(own) else 0.0
        for c in rng.normal(size=(200, 4)):
            assert ((own @ c) ** 2).sum() / ((X @ c) ** 2).sum() <= share[i] + 1e-12
    for limit in (0.1, 0.3, 0.5, 0.9):
        assert people_beyond(X, people, limit) == sum(each > limit for each in share.values())


def test_equal_parts_of_k_patients_rest_on_k() -> None:
    people = np.repeat(np.arange(7), 3)
    assert carriers(np.ones(21), people) == pytest.approx(7.0)
    assert carriers(np.where(people == 2, 1.0, 0.0), people) == pytest.approx(1.0)
    assert carriers(np.full(21, 1e-320), people) == pytest.approx(7.0)


@pytest.mark.parametrize(("changed", "status"), [(1, "REFUSED"), (9, "REFUSED"), (12, "DONE")])
def test_a_table_that_changed_in_few_patients_is_not_summed_again(changed: int, status: str, tmp_path: Path) -> None:
    """The coordinator starts a run whenever it likes: the difference of two sums over 52 and 51 patients is one row."""
    rows = {**patients("logistic"), "id": [f"p{k}" for k in range(240)]}
    consortium = three_sites(tmp_path, parts=cut(rows))
    first = ask(consortium, "moments", {}, 1 << 32)[1]
    desk, part = consortium.desks[1], cut(rows)[0]
    kept = {name: column[changed:] for name, column in part.items()}
    desk.read, desk._table = consortium._reader(kept), None
    assert ask(consortium, "match", {}, 2 << 32)[0] == "DONE"
    answered, second = ask(consortium, "moments", {}, (2 << 32) + 1)
    assert answered == status
    if answered == "DONE":  # what the difference would be
        ages = first["rows"] * first["means"][0] - second["rows"] * second["means"][0]
        assert ages == pytest.approx(part["age"][:changed].sum())
    same = {name: column[::-1] for name, column in part.items()}  # the same patients in another order
    desk.read, desk._table = consortium._reader(same), None
    assert ask(consortium, "moments", {}, 3 << 32)[0] == "DONE"


def test_a_table_is_compared_with_all_whose_sums_have_left_not_with_the_last_one(tmp_path: Path) -> None:
    """All, then without 12 patients, then without one: the first and the third differ by that patient."""
    rows = {**patients("logistic"), "id": [f"p{k}" for k in range(240)]}
    consortium = three_sites(tmp_path, parts=cut(rows))
    desk, part = consortium.desks[1], cut(rows)[0]
    statuses, sums = [], []
    for run, changed in enumerate((0, 12, 1, 12, 0), start=1):
        kept = {name: column[changed:] for name, column in part.items()}
        desk.read, desk._table = consortium._reader(kept), None
        status, answer = ask(consortium, "moments", {}, run << 32)
        statuses.append(status)
        sums.append(answer)
    assert statuses == ["DONE", "DONE", "REFUSED", "DONE", "DONE"]
    assert (desk.folder / "table.json").stat().st_mode & 0o077 == 0


# --- doses and ledgers ---


def fitted(consortium: Consortium) -> tuple[dict[str, Any], float]:
    fit, totals, _, engine = consortium.fit()
    return fit_values(fit, totals), consortium.scale(fit, totals, engine)


def test_the_most_exposed_dose_cannot_be_found_by_bisection(tmp_path: Path) -> None:
    """A rung is the exact dose if the coordinator may scale the fit as often as it likes."""
    consortium = three_sites(tmp_path)
    values, _ = fitted(consortium)
    answered = 0
    for k in range(60):
        changed = {**values, "factor_mixing": values["factor_mixing"] * (1 + k / 100)}
        answered += ask(consortium, "scale needed", changed, 1 << 40)[0] == "DONE"
    assert answered == MOST_FITS
    assert ask(consortium, "scale needed", values, 1 << 40)[0] == "DONE"  # asked before: answered again


def test_a_coordinator_that_is_killed_before_every_draw_asks_at_the_same_fit(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    for k in range(MOST_FITS + 3):
        values, scale = fitted(consortium)
        question = {**values, "proposal": secrets.token_bytes(16), "scale": scale, "chosen": True}
        assert ask(consortium, "within limits", question, (k + 2) << 32) == ("DONE", {"within": True})
        consortium.assembly.round = (k + 2) << 32


def test_a_scale_that_is_no_rung_and_one_that_was_not_agreed_are_refused(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    question = {**values, "proposal": bytes(16), "chosen": True}
    assert ask(consortium, "within limits", {**question, "scale": scale * 1.01}, 1 << 40)[0] == "REFUSED"
    assert ask(consortium, "within limits", {**question, "scale": scale}, 1 << 40) == ("DONE", {"within": True})


BAD_FITS: dict[str, Any] = {
    "a factor beyond all bounds": lambda v: {"factor_mixing": np.full_like(v["factor_mixing"], 1e200)},
    "weights beyond all bounds": lambda v: {"w": np.full_like(v["w"], 1e308)},
    "rows that no hospital has": lambda v: {"rows": 10**10},
    "a target that hardly varies": lambda v: {"target_squares": v["target_squares"] * 1e-4},
    "fewer rows than this site has": lambda v: {"rows": 5},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", BAD_FITS)
def test_a_fit_that_cannot_be_that_of_all_sites_gives_no_dose(kind: str, tmp_path: Path) -> None:
    consortium = three_sites(tmp_path, "squared")
    values, scale = fitted(consortium)
    bad = {**values, **BAD_FITS[kind](values)}
    assert ask(consortium, "scale needed", bad, 1 << 40)[0] in ("REFUSED", "FAILED")
    question = {**bad, "proposal": bytes(16), "scale": scale, "chosen": True}
    assert ask(consortium, "within limits", question, 1 << 40)[0] in ("REFUSED", "FAILED")
    assert not (tmp_path / "site1" / "pending.json").exists()


def recipe_at(scale: float) -> str:
    """A recipe that names the noise of this scale, as it travels."""
    return json.dumps({"kind": "k", "noise": str(Gaussian(scale)), "settings": {}, "not_covered": []})


RECIPES = [
    {"kind": 5, "noise": "n", "settings": {}, "not_covered": []},
    {"kind": "k", "noise": ["n"], "settings": {}, "not_covered": []},
    {"kind": "k", "noise": "n", "settings": {}, "not_covered": [{"a": 1}]},
    {"kind": "k", "noise": "n", "settings": {"a": [1]}, "not_covered": []},
    {"kind": "k", "noise": "n", "settings": {"a": float("nan")}, "not_covered": []},
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_that_the_ledger_could_not_read_again_is_not_booked(recipe: Any, tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    proposal = {"proposal": secrets.token_bytes(16)}
    ask(consortium, "within limits", {**values, **proposal, "scale": scale, "chosen": True}, 1 << 40)
    draw = {**proposal, "artefact": b"m", "recipe": json.dumps(recipe), "fingerprint": secrets.token_bytes(32)}
    assert ask(consortium, "book", draw, 1 << 40)[0] in ("REFUSED", "FAILED")
    with Ledger.open(consortium.ledgers[0]) as ledger:
        assert ledger.releases() == ()


def test_a_recipe_is_words_and_constants() -> None:
    for arguments in ((5, "n"), ("k", 5), ("k", "n", {3: 1}), ("k", "n", {}, (1,))):
        with pytest.raises(Refusal, match="in words"):
            Recipe(*arguments)  # type: ignore[arg-type]


def test_nothing_is_booked_that_was_not_agreed_to(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    recipe = recipe_at(scale)
    draw = {"proposal": bytes(16), "artefact": b"m", "recipe": recipe, "fingerprint": secrets.token_bytes(32)}
    assert ask(consortium, "book", draw, 1 << 40)[0] == "REFUSED"
    ask(consortium, "within limits", {**values, "proposal": b"a" * 16, "scale": scale, "chosen": True}, 1 << 40)
    assert ask(consortium, "book", draw, 1 << 40)[0] == "REFUSED"
    assert ask(consortium, "book", {**draw, "proposal": b"a" * 16}, 1 << 40) == ("DONE", {"booked": True})


def test_a_ledger_names_no_other_noise_than_the_one_whose_doses_it_holds(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    proposal = {"proposal": secrets.token_bytes(16)}
    ask(consortium, "within limits", {**values, **proposal, "scale": scale, "chosen": True}, 1 << 40)
    draw = {**proposal, "artefact": b"m", "recipe": recipe_at(100 * scale), "fingerprint": secrets.token_bytes(32)}
    assert ask(consortium, "book", draw, 1 << 40)[0] == "REFUSED"
    with Ledger.open(consortium.ledgers[0]) as ledger:
        assert ledger.releases() == ()


def test_a_scale_that_was_chosen_from_the_data_is_not_booked_as_a_public_one(tmp_path: Path) -> None:
    """Its doses would stand in the ledger as exact, although the choice is not covered."""
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    question = {**values, "proposal": bytes(16), "scale": scale, "chosen": False}
    assert ask(consortium, "within limits", question, 1 << 40)[0] == "REFUSED"


def test_a_locked_ledger_stops_the_booking_and_the_same_question_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dosimeter.ledger.database.LOCK_TIMEOUT", 1)
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    proposal = {"proposal": secrets.token_bytes(16)}
    ask(consortium, "within limits", {**values, **proposal, "scale": scale, "chosen": True}, 1 << 40)
    recipe = recipe_at(scale)
    draw = {**proposal, "artefact": b"m", "recipe": recipe, "fingerprint": secrets.token_bytes(32)}
    other = sqlite3.connect(consortium.ledgers[0], isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        assert ask(consortium, "book", draw, 1 << 40)[0] == "FAILED"
        assert "ledger1.db: another writer has locked the ledger" in consortium.said[-1]
    finally:
        other.close()
    assert ask(consortium, "book", draw, 1 << 40) == ("DONE", {"booked": True})
    with Ledger.open(consortium.ledgers[0]) as ledger:
        assert len(ledger.releases()) == 1


def test_a_disk_without_room_is_said_at_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consortium = three_sites(tmp_path)

    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dosimeter.files.atomic.tempfile.mkstemp", full)
    assert ask(consortium, "match", {}, 7)[0] == "FAILED"
    assert consortium.said[-1].startswith("match: failed: ")
    assert consortium.said[-1].endswith("asked.json: the disk is full: free some space")


def test_a_ledger_that_fills_up_between_the_yes_and_the_booking_books_nothing(tmp_path: Path) -> None:
    consortium = three_sites(tmp_path)
    values, scale = fitted(consortium)
    proposal = {"proposal": secrets.token_bytes(16)}
    ask(consortium, "within limits", {**values, **proposal, "scale": scale, "chosen": True}, 1 << 40)
    with Ledger.open(consortium.ledgers[0]) as ledger:
        ledger.set_budget("fil=0.001")
    recipe = recipe_at(scale)
    draw = {**proposal, "artefact": b"m", "recipe": recipe, "fingerprint": secrets.token_bytes(32)}
    assert ask(consortium, "book", draw, 1 << 40) == ("DONE", {"booked": False})
    with Ledger.open(consortium.ledgers[0]) as ledger:
        assert ledger.releases() == ()


# --- rounds ---


def training(folder: Path, per_round: float) -> Consortium:
    terms = {"rounds": 3, "patients-per-round": per_round, "noise-multiplier": 5.0}
    schema = schema_with("class", patients=80, release=EPSILON, training=terms)
    return Consortium(schema, cut(patients("logistic")), folder, budget="eps=50@1e-6")


def test_a_site_sums_at_one_model_for_a_round(tmp_path: Path) -> None:
    consortium = training(tmp_path, 240.0)
    model = np.zeros(consortium.schema.sizes["weights"])
    ask(consortium, "within budget", {"proposal": bytes(16), "people": 240}, 1)
    first = {"round": 1, "model": model, "clip": 1.0}
    assert ask(consortium, "patient sum", first, 2)[0] == "DONE"
    assert ask(consortium, "patient sum", first, 3)[0] == "DONE"  # asked again after a kill
    for other in ({**first, "model": model + 1}, {**first, "clip": 2.0}, {**first, "round": 0}):
        assert ask(consortium, "patient sum", other, 4)[0] == "REFUSED"
    assert ask(consortium, "patient sum", {**first, "round": 2, "model": model + 1}, 5)[0] == "DONE"


def test_a_round_that_is_asked_again_has_the_same_draw_also_after_a_restart(tmp_path: Path) -> None:
    """Sums of many draws at one model differ by a few patients' updates; with one draw there is nothing to subtract."""
    consortium = training(tmp_path, 120.0)
    model = np.zeros(consortium.schema.sizes["weights"])
    ask(consortium, "within budget", {"proposal": bytes(16), "people": 240}, 1)
    sums = []
    for k in range(6):
        if k == 3:
            (tmp_path / "again").mkdir()
            again = training(tmp_path / "again", 120.0)
            again.desks[1].folder = consortium.desks[1].folder
            consortium = again
        status, answer = ask(consortium, "patient sum", {"round": 0, "model": model, "clip": 1.0}, 2 + k)
        assert status == "DONE"
        sums.append(answer["steps"].tobytes())
    assert len(set(sums)) == 1
    other = ask(consortium, "patient sum", {"round": 1, "model": model, "clip": 1.0}, 9)[1]["steps"].tobytes()
    assert other != sums[0]
    kept = consortium.desks[1].folder / "round.sum"
    assert kept.stat().st_mode & 0o077 == 0


def test_a_rate_at_which_few_are_drawn_here_is_refused(tmp_path: Path) -> None:
    """The sum of one drawn patient is that patient's update."""
    consortium = training(tmp_path, 12.0)
    assert ask(consortium, "within budget", {"proposal": bytes(16), "people": 240}, 1)[0] == "REFUSED"
    assert "fewer than 10 patients would be drawn" in consortium.said[-1]
