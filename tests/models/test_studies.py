"""Studies of a consortium, up to the release: what is drawn, what is booked, and what a second run does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio

import dosimeter as dm
from dosimeter.files.consortium_journal import open_journal
from dosimeter.ledger import Ledger
from dosimeter.models.consortium_study import CoordinatorStudy
from dosimeter.models.moment_study import exact_moment, moment_regression
from tests.models.consortium import Consortium, cut, patients, schema_for
from tests.models.study_parts import COLUMNS, run, schema_with

EPSILON = {"name": "r1", "epsilon": 2.0, "delta": 1e-6}


def without_target(rows: dict[str, Any]) -> dict[str, Any]:
    return {name: column for name, column in rows.items() if name != "y"}


def booked_people(consortium: Consortium) -> list[int]:
    counts = []
    for path in consortium.ledgers:
        with Ledger.open(path) as ledger:
            counts.append([entry.people for entry in ledger.releases()])
    return [count for counts_of_site in counts for count in counts_of_site]


def people(parts: list[dict[str, Any]]) -> list[int]:
    return [len(set(part["id"])) for part in parts]


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_a_joint_fit_is_drawn_once_and_booked_at_every_site(loss: str, tmp_path: Path) -> None:
    parts = cut(patients(loss))
    consortium = Consortium(schema_for(loss), parts, tmp_path)
    first = run(consortium, tmp_path)
    again = run(consortium, tmp_path)
    assert first.artefact == again.artefact != b""
    assert (first.earlier, again.earlier) == (False, True)
    assert booked_people(consortium) == people(parts)
    model = sio.loads(first.artefact, trusted=[])
    assert len(model["model"].coef_.ravel()) == first.figures["parameters"] - 1


def test_second_moments_of_the_sites_add_up_to_those_of_the_joint_table(tmp_path: Path) -> None:
    rows = without_target(patients("squared"))
    schema = schema_with(release=EPSILON, components={"components": 2})
    consortium = Consortium(schema, cut(rows), tmp_path, budget="eps=5@1e-6")
    with open_journal(tmp_path / "state", schema.digest) as journal:
        study = CoordinatorStudy(schema, consortium.assembly, journal, print)
        products, sums, count = exact_moment(study)
    # Brute force: each row of a person with k rows weighs 1/k.
    weight = {person: 1 / rows["id"].count(person) for person in rows["id"]}
    Z = np.array(
        [
            [(age - 59) / 41, (bmi - 36) / 24, sex == "f", sex == "m", sex == "x"]
            for age, bmi, sex in zip(rows["age"], rows["bmi"], rows["sex"], strict=True)
        ],
        dtype=float,
    )
    w = np.array([weight[person] for person in rows["id"]])
    np.testing.assert_allclose(products, (Z * w[:, None]).T @ Z, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sums, w @ Z, rtol=0, atol=1e-9)
    assert count == len(set(rows["id"]))


@pytest.mark.parametrize("noise_at", ["coordinator", "sites"])
def test_components_are_released_within_the_budget_of_every_patient(noise_at: str, tmp_path: Path) -> None:
    parts = cut(without_target(patients("squared")))
    schema = schema_with(release={**EPSILON, "noise-at": noise_at}, components={"components": 2})
    consortium = Consortium(schema, parts, tmp_path, budget="eps=5@1e-6")
    outcome = run(consortium, tmp_path)
    assert outcome.figures["epsilon_cost"] <= 2.0 * (1 + 1e-9)
    assert sio.loads(outcome.artefact, trusted=[])["components"].components_.shape == (2, 5)
    assert booked_people(consortium) == people(parts)
    assert run(consortium, tmp_path).artefact == outcome.artefact
    assert booked_people(consortium) == people(parts)


def test_noise_at_three_equal_sites_is_the_root_of_three_times_that_of_one_draw(tmp_path: Path) -> None:
    """σ of a site's mean is three times that of the joint one, and the average of three has variance 9/3 of it."""
    schema = schema_with(release={**EPSILON, "noise-at": "sites"}, components={})
    consortium = Consortium(schema, cut(without_target(patients("squared"))), tmp_path, budget="eps=5@1e-6")
    assert run(consortium, tmp_path).figures["noise_ratio"] == pytest.approx(3**0.5, rel=1e-6)


def test_a_regression_of_noisy_moments_without_noise_is_ridge_regression() -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (300, 4))
    X[:, 2] = 0.3 + X @ [0.5, -0.2, 0.0, 0.1] + 0.05 * X[:, 2]
    others = [0, 1, 3]
    w, b, _ = moment_regression(X.T @ X / 300, X.mean(axis=0), 2, 0.01, 0.0)
    peer = Ridge(alpha=0.01 * 300).fit(X[:, others], X[:, 2])
    np.testing.assert_allclose(w, peer.coef_, rtol=1e-8)
    assert b == pytest.approx(peer.intercept_, rel=1e-8)


def test_a_regression_with_noise_at_the_sites_predicts_and_books_before_it_sends(tmp_path: Path) -> None:
    rows = patients("squared", n=3000)
    parts = cut(rows)
    terms = {"name": "r1", "epsilon": 50.0, "delta": 1e-6, "noise-at": "sites"}
    schema = schema_with("number", loss="squared", l2=0.001, release=terms)
    consortium = Consortium(schema, parts, tmp_path, budget="eps=100@1e-6")
    outcome = run(consortium, tmp_path)
    assert booked_people(consortium) == people(parts)
    import pandas as pd

    model = sio.loads(outcome.artefact, trusted=[])
    predicted = model.predict(pd.DataFrame({name: rows[name] for name in COLUMNS}))
    fit = np.corrcoef(predicted, rows["y"])[0, 1]
    assert fit > 0.8
    assert abs(np.mean(predicted) - np.mean(rows["y"])) < 0.5


def test_a_site_with_noise_of_its_own_answers_no_exact_sum(tmp_path: Path) -> None:
    terms = {**EPSILON, "noise-at": "sites"}
    schema = schema_with("number", loss="squared", l2=0.001, release=terms)
    consortium = Consortium(schema, cut(patients("squared")), tmp_path, budget="eps=5@1e-6")
    for operation in ("moments", "second moment", "squares of the table"):
        with pytest.raises(dm.Refusal, match="site 1 refused"):
            consortium.assembly.ask(operation)
    assert "operation of another kind of study" in consortium.said[-1]


def training_schema(target: str, **settings: Any) -> Any:
    training = {"rounds": 3, "patients-per-round": 100.0, "noise-multiplier": 1.0, **settings}
    return schema_with(target, patients=80, release={"name": "r1", "epsilon": 20.0, "delta": 1e-6}, training=training)


@pytest.mark.parametrize(
    ("loss", "target", "settings"),
    [
        ("logistic", "class", {}),
        ("logistic", "class", {"architecture": "mlp", "hidden": [4]}),
        ("squared", "number", {}),
    ],
)
def test_a_training_of_patients_is_released_and_booked(
    loss: str, target: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    parts = cut(patients(loss))
    consortium = Consortium(training_schema(target, **settings), parts, tmp_path, budget="eps=50@1e-6")
    outcome = run(consortium, tmp_path)
    assert outcome.figures["rounds"] == 3
    assert outcome.figures["epsilon_cost"] <= 20.0
    assert booked_people(consortium) == people(parts)
    assert run(consortium, tmp_path).artefact == outcome.artefact


def test_a_site_that_is_away_in_a_round_counts_as_absent_and_the_noise_stays(tmp_path: Path) -> None:
    consortium = Consortium(training_schema("class"), cut(patients("logistic")), tmp_path, budget="eps=50@1e-6")
    honest = consortium.desks[2].answer
    rounds = []

    def answer(data: bytes) -> bytes:
        if b"patient sum" in data:
            rounds.append(len(rounds))
            return b"" if len(rounds) == 2 else honest(data)
        return honest(data)

    consortium.desks[2].answer = answer  # type: ignore[method-assign]
    outcome = run(consortium, tmp_path)
    assert outcome.figures["absent"] == 1
    assert any("round 2: site 2 did not answer" in text for text in consortium.said)


def test_a_sum_that_its_patients_cannot_have_counts_as_absent(tmp_path: Path) -> None:
    from dosimeter.engines.protocol.message import Message, read_message

    consortium = Consortium(training_schema("class"), cut(patients("logistic")), tmp_path, budget="eps=50@1e-6")
    honest = consortium.desks[2].answer

    def answer(data: bytes) -> bytes:
        reply = read_message(honest(data))
        if reply.operation != "patient sum":
            return reply.pack()
        body = np.full(len(reply.body) // 8, 1 << 61, dtype="<i8").tobytes()
        return Message(*reply.names_same_question, body, reply.status).pack()

    consortium.desks[2].answer = answer  # type: ignore[method-assign]
    assert run(consortium, tmp_path).figures["absent"] == 3


def test_more_patients_than_declared_are_refused_at_the_site(tmp_path: Path) -> None:
    schema = schema_with(
        "class", patients=20, release=EPSILON,
        training={"rounds": 3, "patients-per-round": 30.0, "noise-multiplier": 5.0},
    )  # fmt: skip
    consortium = Consortium(schema, cut(patients("logistic")), tmp_path, budget="eps=50@1e-6")
    with pytest.raises(dm.Refusal, match="site 1 refused"):
        run(consortium, tmp_path)
    assert "more patients than the 20" in " ".join(consortium.said)


def test_a_no_of_one_site_stops_before_the_draw(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    with Ledger.open(consortium.ledgers[1]) as ledger:
        ledger.set_budget("fil=0.01")
    outcome = run(consortium, tmp_path)
    assert (outcome.artefact, outcome.refused) == (b"", (2,))
    assert not (tmp_path / "state" / "release.bin").exists()


def test_the_journal_of_another_study_is_refused(tmp_path: Path) -> None:
    consortium = Consortium(schema_for("logistic"), cut(patients("logistic")), tmp_path)
    run(consortium, tmp_path)
    (tmp_path / "other").mkdir()
    other = Consortium(schema_for("squared"), cut(patients("squared")), tmp_path / "other")
    with pytest.raises(dm.Refusal, match="belongs to another study"):
        run(other, tmp_path)


def test_a_noisy_moment_that_is_asked_again_is_the_same_bytes(tmp_path: Path) -> None:
    schema = schema_with(release={**EPSILON, "noise-at": "sites"}, components={})
    parts = cut(without_target(patients("squared")))
    consortium = Consortium(schema, parts, tmp_path, budget="eps=5@1e-6")
    first, second = (consortium.assembly.ask("noisy moment") for _ in range(2))
    for site in first:
        np.testing.assert_array_equal(first[site]["products"], second[site]["products"])
    assert booked_people(consortium) == people(parts)


def test_a_noisy_moment_beyond_the_limits_does_not_leave(tmp_path: Path) -> None:
    schema = schema_with(release={**EPSILON, "noise-at": "sites"}, components={})
    consortium = Consortium(schema, cut(without_target(patients("squared"))), tmp_path, budget="eps=1@1e-6")
    with pytest.raises(dm.Refusal, match="site 1 refused noisy moment"):
        consortium.assembly.ask("noisy moment")
    assert booked_people(consortium) == []
    assert "would exceed its ledger's limits" in consortium.said[-1]


@pytest.mark.parametrize(("loss", "value"), [("logistic", "no"), ("poisson", 0.0), ("poisson", 7.0), ("squared", 0.1)])
def test_a_target_that_is_the_same_everywhere_is_refused_as_on_one_machine(
    loss: str, value: Any, tmp_path: Path
) -> None:
    rows = patients(loss)
    rows["y"] = np.full(len(rows["id"]), value)
    consortium = Consortium(schema_for(loss), cut(rows), tmp_path)
    with pytest.raises(dm.Refusal):
        dm.fix(rows, target="y", person="id", loss=loss, l2=0.01, max_dose=1.0, bounds=consortium.schema.bounds)
    with pytest.raises(dm.Refusal, match="the target y has one value only at all sites"):
        run(consortium, tmp_path)
    assert booked_people(consortium) == []


def test_a_name_that_the_ledger_has_for_other_doses_is_said_at_the_site(tmp_path: Path) -> None:
    """The coordinator learns that its own terminal says why."""
    schema = schema_with(release={**EPSILON, "noise-at": "sites"}, components={})
    parts = cut(without_target(patients("squared")))
    consortium = Consortium(schema, parts, tmp_path, budget="eps=50@1e-6")
    consortium.assembly.ask("noisy moment")
    desk = consortium.desks[1]
    desk.read, desk._table = consortium._reader({**parts[0], "age": parts[0]["age"] / 2 + 20}), None
    consortium.assembly.round += 1 << 32
    with pytest.raises(dm.Refusal, match="site 1 could not compute noisy moment"):
        consortium.assembly.ask("noisy moment")
    (line,) = (line for line in consortium.said if "failed" in line)
    assert line.endswith("failed: r1 is already booked with another recipe or other doses: choose a new name")
    assert booked_people(consortium) == people(parts)


@pytest.mark.parametrize("operation", ["within limits", "noisy moment"])
def test_a_damaged_key_file_is_said_at_the_site(operation: str, tmp_path: Path) -> None:
    noisy = schema_with(release={**EPSILON, "noise-at": "sites"}, components={})
    schema = noisy if operation == "noisy moment" else schema_for("logistic", scale=1.0)
    parts = cut(patients("logistic") if schema.loss else without_target(patients("squared")))
    consortium = Consortium(schema, parts, tmp_path, budget="eps=50@1e-6")
    (tmp_path / "ledger1.db.keys").write_bytes(b"not the keys of this ledger")
    with pytest.raises(dm.Refusal, match=f"site 1 could not compute {operation}"):
        run(consortium, tmp_path)
    (line,) = (line for line in consortium.said if "failed" in line)
    assert "ledger1.db.keys: not a key file, or damaged" in line


def test_a_table_that_changes_within_a_run_stops_it_and_one_between_runs_does_not(tmp_path: Path) -> None:
    parts = cut(patients("logistic"))
    consortium = Consortium(schema_for("logistic"), parts, tmp_path)
    consortium.assembly.ask("moments")
    changed = {**parts[1], "age": parts[1]["age"] + 1.0}
    desk = consortium.desks[2]
    desk.read, desk._table = consortium._reader(changed), None
    with pytest.raises(dm.Refusal, match="site 2 refused moments"):
        consortium.assembly.ask("moments")
    assert "the table has changed within a run" in consortium.said[-1]
    assert run(consortium, tmp_path).artefact


def test_a_patient_who_joins_after_the_yes_to_a_training_stops_it(tmp_path: Path) -> None:
    parts = cut(patients("logistic"))
    consortium = Consortium(training_schema("class"), parts, tmp_path, budget="eps=50@1e-6")
    consortium.assembly.ask("within budget", {"proposal": bytes(16), "people": 240})
    desk = consortium.desks[2]
    desk.read, desk._table = consortium._reader({name: column[21:] for name, column in parts[1].items()}), None
    assembly = consortium.assembly
    assembly.round += 1 << 32
    model = np.zeros(consortium.schema.sizes["weights"])
    answers, faults = assembly.ask_present("patient sum", {"round": 0, "model": model, "clip": 1.0})
    assert set(answers) == {1, 3}
    assert "site 2 refused" in faults[2]
    assert "the table has changed since this site agreed" in consortium.said[-1] + consortium.said[-2]


def test_doses_of_components_at_the_sites_are_those_of_the_joint_table(tmp_path: Path) -> None:
    rows = without_target(patients("squared"))
    schema = schema_with(release=EPSILON, components={"components": 2})
    consortium = Consortium(schema, cut(rows), tmp_path, budget="eps=5@1e-6")
    assert run(consortium, tmp_path).artefact
    bounds = {name: dict(column) for name, column in COLUMNS.items()}
    joint = dm.components(rows, person="id", epsilon=2.0, delta=1e-6, bounds=bounds, components=2)
    _, *expected = joint.doses
    own = {"fil": {}, "mu": {}}
    for desk in consortium.desks.values():
        table = desk._checked_table()
        people = len(set(rows["id"]))
        _, *doses = desk.study.terms.person_doses(table.table, table.ids, people, of="components")
        for measured, key in zip(doses, own, strict=True):
            own[key] |= dict(zip(map(str, measured.ids), measured.figures.tolist(), strict=True))
    for dose, key in zip(expected, own, strict=True):
        assert {str(person) for person in dose.ids} == own[key].keys()
        np.testing.assert_allclose([own[key][str(p)] for p in dose.ids], dose.figures, rtol=1e-9)
    with Ledger.open(consortium.ledgers[0]) as ledger:
        accounts = {part["account"].split("|")[0] for part in ledger.releases()[0].body["parts"]}
    assert len(accounts) == 3
