"""The gateway: every answer is booked before it is handed out, counted exactly, and refused beyond the budget."""

from __future__ import annotations

import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import softmax

import dosimeter as dm
from dosimeter.core.errors import LimitExceeded
from dosimeter.noise_addition import bits, grid_of
from tests.fixed_noise import _system_key
from tests.ledger.crowd import child, finish, killed

NAMES = ("age", "bmi")


def table(n=40, seed=5, **change):
    rng = np.random.default_rng(seed)
    age, bmi = rng.normal(50, 10, n), rng.normal(25, 4, n)
    columns = {"age": age, "bmi": bmi, "ill": (age + rng.normal(0, 8, n) > 50).astype(float)}
    return columns | change | {"who": np.array([f"p{i // 2}" for i in range(n)], dtype=object)}


def queries(k, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.uniform(30, 70, k), "bmi": rng.uniform(20, 32, k)}


def both(*batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in NAMES}


def measured(rows=None, noise=None, **options):
    noise = dm.Gaussian(1.0) if noise is None else noise
    first = queries(3) if rows is None else rows
    return dm.measure(
        options.pop("table", table()), target=options.pop("target", "ill"), person="who", release="predictions",
        queries=first, noise=noise, **options,
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    with dm.Ledger.create(tmp_path / "ledger.db") as opened:
        yield opened


def booked(ledger):
    """Person -> η² in the ledger."""
    return {who: ledger.person(who).totals[0].reading ** 2 for who in dict.fromkeys(table()["who"])}


def batches(ledger):
    return [json.loads(ledger.artefact(entry.name)) for entry in ledger.releases()]


def test_the_dose_of_two_batches_is_that_of_all_their_queries_measured_at_once(ledger):
    first, second = queries(4, 1), queries(7, 2)
    gateway = dm.Gateway(measured(), ledger, budget=2.0)
    answers = [gateway.answer(first), gateway.answer(second)]
    joint = measured(both(first, second)).persons
    assert gateway.doses == pytest.approx(joint, rel=1e-9)
    assert [len(values) for values in answers] == [4, 7]
    assert [batch["answers"] for batch in batches(ledger)] == [values.tolist() for values in answers]
    step = 4.0 / 1000
    for person, amount in booked(ledger).items():
        assert 0 <= amount - joint[person] ** 2 <= step * (1 + 1e-6)
    assert ledger.verify().entries == 3


def test_a_repeated_query_is_charged_each_time_until_the_budget_refuses(ledger):
    one = queries(1)
    single = max(measured(one).persons.values())
    gateway = dm.Gateway(measured(), ledger, budget=single * np.sqrt(6.5))
    for k in range(1, 7):
        gateway.answer(one)
        assert gateway.highest == pytest.approx(single * np.sqrt(k), rel=1e-9)
    entries = len(ledger.releases())
    with pytest.raises(LimitExceeded, match="nothing was answered"):
        gateway.answer(one)
    with pytest.raises(LimitExceeded, match="closed"):  # a refusal depends on the table: it is the last thing said
        gateway.answer(queries(1, 9))
    assert len(ledger.releases()) == entries == 6


def test_many_small_answers_give_a_person_few_rows(ledger):
    gateway = dm.Gateway(measured(noise=dm.Gaussian(100.0)), ledger, budget=5.0)
    for k in range(30):
        gateway.answer(queries(1, k))
    rows = ledger.export()["doses"]
    assert len(rows) < 20 + 30 + 1  # a first step for each of 20 people, and one row of 0 for each later batch
    assert gateway.answered == 30
    exact = measured(both(*(queries(1, k) for k in range(30))), noise=dm.Gaussian(100.0)).persons
    assert gateway.doses == pytest.approx(exact, rel=1e-9)
    assert all(amount >= exact[person] ** 2 for person, amount in booked(ledger).items())


def test_the_number_of_answers_is_a_budget_of_its_own(ledger):
    gateway = dm.Gateway(measured(), ledger, budget=50.0, most_answers=5)
    gateway.answer(queries(3))
    with pytest.raises(LimitExceeded, match="2 answers left and the batch has 3"):
        gateway.answer(queries(3))
    assert (gateway.left, len(gateway.answer(queries(2)))) == (2, 2)


def test_a_limit_of_the_ledger_refuses_without_a_figure(tmp_path):
    single = max(measured(queries(1)).persons.values())
    with dm.Ledger.create(tmp_path / "l.db", [f"fil={single * 1.2:.6f}"]) as ledger:
        gateway = dm.Gateway(measured(), ledger, budget=50.0)
        with pytest.raises(LimitExceeded) as refusal:
            gateway.answer(queries(40))
        assert not any(character.isdigit() for character in str(refusal.value))
        assert ledger.releases() == ()


def test_a_gateway_that_is_opened_again_goes_on_where_it_stopped(ledger):
    first, second = queries(4, 1), queries(7, 2)
    dm.Gateway(measured(), ledger, budget=2.0, name="june").answer(first)
    again = dm.Gateway(measured(), ledger, budget=2.0, name="june")
    assert again.answered == 4
    again.answer(second)
    assert again.doses == pytest.approx(measured(both(first, second)).persons, rel=1e-9)
    for change in (
        {"model": measured(noise=dm.Gaussian(1.1))},
        {"model": measured(), "answer": "margins"},
        {"model": measured(table=table(age=table()["age"] + np.eye(40)[3]))},
    ):
        with pytest.raises(dm.Refusal, match="new name"):
            dm.Gateway(change.pop("model"), ledger, budget=2.0, name="june", **change)


def test_two_gateways_of_one_name_see_each_others_answers(ledger):
    one, two = (dm.Gateway(measured(), ledger, budget=5.0) for _ in range(2))
    parts = [queries(3, k) for k in range(6)]
    for k, part in enumerate(parts):
        (one, two)[k % 2].answer(part)
    assert two.doses == pytest.approx(measured(both(*parts)).persons, rel=1e-9)
    assert len(batches(ledger)) == 6


def test_threads_share_a_gateway(ledger):
    gateway = dm.Gateway(measured(), ledger, budget=5.0)
    parts = [queries(2, k) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(gateway.answer, parts))
    stored = {json.dumps(batch["queries"], sort_keys=True): batch["answers"] for batch in batches(ledger)}
    for part, values in zip(parts, answers, strict=True):
        key = json.dumps({name: part[name].tolist() for name in NAMES}, sort_keys=True)
        assert stored[key] == values.tolist()
    assert gateway.doses == pytest.approx(measured(both(*parts)).persons, rel=1e-9)


def test_answers_of_neighbouring_tables_lie_on_one_public_grid(ledger):
    g = grid_of(dm.Gaussian(1.0))
    for name, change in (("a", {}), ("b", {"age": table()["age"] + 3 * np.eye(40)[3]})):
        leak = measured(table=table(**change))
        for answer in ("predictions", "margins"):
            values = dm.Gateway(leak, ledger, budget=50.0, name=name + answer, answer=answer).answer(queries(50))
            assert np.all(values / g == np.rint(values / g))
            assert not np.any(np.signbit(values) & (values == 0))
            assert np.abs(values / g % 2).sum() not in (0, len(values))  # the last step of the grid is noise
    public = {json.dumps(batch["queries"]) for batch in batches(ledger)}
    assert len(public) == 1  # queries stand as they were asked, not as the table standardises them


def test_labels_are_drawn_by_their_own_channel(ledger):
    columns = table(60)
    columns["stage"] = np.array(["abc"[k] for k in np.digitize(columns["age"], [45, 55])], dtype=object)
    del columns["ill"]
    leak = measured(noise=dm.Gumbel(1.0), table=columns, target="stage", answer="labels", l2=0.05)
    gateway = dm.Gateway(leak, ledger, budget=100.0)
    one = {name: np.repeat(values, 4000) for name, values in queries(1).items()}
    labels = gateway.answer(one)
    margins = leak.model.answers(leak.model.read(queries(1)), dm.glm.Answer.MARGINS)
    shares = [np.mean(labels == level) for level in "abc"]
    np.testing.assert_allclose(shares, softmax(margins[0]), atol=6 * 0.5 / np.sqrt(4000))
    two = measured(noise=dm.LogisticNoise(1.0), answer="labels")
    labels = dm.Gateway(two, ledger, budget=100.0, name="two").answer(one)
    chance = 1 / (1 + np.exp(-two.model.answers(two.model.read(queries(1)), dm.glm.Answer.MARGINS)[0, 0]))
    assert abs(np.mean(labels == 1.0) - chance) < 6 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"budget": None}, "budget"),
        ({"budget": -1.0}, "budget"),
        ({"noise": dm.no_noise}, "noise"),
        ({"noise": dm.Exponential(1.0)}, "Fisher"),
        ({"answer": "words"}, "answer"),
        ({"most_answers": 0}, "most_answers"),
        ({"name": "a/b"}, "not a name"),
        ({"model": "model.skops"}, "measure"),
    ],
)
def test_a_gateway_that_could_not_account_is_refused(options, needle, ledger):
    settings = {"model": measured(), "budget": 1.0} | options
    with pytest.raises(dm.Refusal, match=needle):
        dm.Gateway(settings.pop("model"), ledger, **settings)


def test_rows_without_people_are_refused(ledger):
    columns = table()
    del columns["who"]
    leak = dm.measure(columns, target="ill", release="predictions", queries=queries(1), noise=dm.Gaussian(1.0))
    with pytest.raises(dm.Refusal, match="person="):
        dm.Gateway(leak, ledger, budget=1.0)


def answer_on(place, leak, log):
    """Answer batch after batch, each written down as soon as it is handed out."""
    bits._key = _system_key  # a fork would draw its parent's noise
    with dm.Ledger.open(place) as ledger, open(log, "ab", buffering=0) as file:
        gateway = dm.Gateway(leak, ledger, budget=1000.0)
        for k in range(60):
            values = gateway.answer(queries(2, 1000 * os.getpid() + k))
            file.write(json.dumps(values.tolist()).encode() + b"\n")


def survive(tmp_path, kills):
    """Kill processes that answer, at random moments; then compare what was seen with what was booked."""
    place, leak, seen = tmp_path / "ledger.db", measured(noise=dm.Gaussian(50.0)), tmp_path / "seen"
    dm.Ledger.create(place).close()
    start = time.perf_counter()
    assert finish(child(lambda: answer_on(place, leak, seen), tmp_path / "log")) == 0
    length, rng, landed = time.perf_counter() - start, random.Random(3), 0
    while landed < kills:
        landed += killed(lambda: answer_on(place, leak, seen), rng.uniform(0.02, 0.9) * length, tmp_path / "log")
    with dm.Ledger.open(place) as ledger:
        assert ledger.verify().entries == len(ledger.releases()) + 1
        stored = [json.dumps(batch["answers"]) for batch in batches(ledger)]
        handed_out = seen.read_text().splitlines()
        assert len(set(handed_out)) == len(handed_out)
        assert set(handed_out) <= set(stored)
        # A batch that was booked and never seen is counted; there is at most one for each kill.
        assert len(stored) - len(handed_out) <= kills
        again = dm.Gateway(leak, ledger, budget=1000.0)
        assert again.answered == 2 * len(stored)
        for person, amount in booked(ledger).items():
            assert amount >= again.doses[person] ** 2 * (1 - 1e-6)


def test_no_answer_is_handed_out_unbooked_however_often_it_is_killed(tmp_path):
    survive(tmp_path, 4)


@pytest.mark.slow
def test_no_answer_is_handed_out_unbooked_in_fifty_kills(tmp_path):
    survive(tmp_path, 50)
