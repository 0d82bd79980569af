"""The gateway: every answer is booked before it is handed out, counted exactly, and refused beyond the budget."""

from __future__ import annotations

import json
import math
import os
import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from scipy.special import softmax

import dosimeter as dm
from dosimeter.core.errors import LimitExceeded, Tampered
from dosimeter.core.scale_ladder import round_up
from dosimeter.noise_addition import bits, grid_of
from tests.deadlines import PATIENCE, wait_until
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
    first = queries(60, 77) if rows is None else rows
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


def test_the_dose_of_two_batches_of_margins_is_that_of_all_their_queries_measured_at_once(ledger):
    first, second = queries(40, 1), queries(70, 2)
    gateway = dm.Gateway(measured(answer="margins", noise=dm.Gaussian(20.0)), ledger, budget=2.0)
    answers = [gateway.answer(first), gateway.answer(second)]
    joint = measured(both(first, second), answer="margins", noise=dm.Gaussian(20.0)).persons
    assert gateway.doses == pytest.approx(joint, rel=1e-9)
    assert [len(values) for values in answers] == [40, 70]
    assert [batch["answers"] for batch in batches(ledger)] == [values.tolist() for values in answers]
    # The queries are drawn as those of the list: what is booked is close to the joint dose, and never below it.
    for person, amount in booked(ledger).items():
        assert joint[person] ** 2 <= amount <= 1.6 * joint[person] ** 2 + 4.0 / 1000
    assert ledger.verify().entries == 3


@pytest.mark.parametrize("answer", ["predictions", "labels"])
def test_predictions_and_labels_are_charged_at_their_steepest(answer, ledger):
    rows = queries(30, 4)
    gateway = dm.Gateway(measured(answer=answer), ledger, budget=50.0)
    gateway.answer(rows)
    steepest = 0.25 if answer == "predictions" else 1.0
    margins = measured(rows, answer="margins").persons
    assert gateway.doses == pytest.approx({who: steepest * eta for who, eta in margins.items()}, rel=1e-9)
    exact = measured(rows, answer=answer).persons
    assert all(exact[who] <= gateway.doses[who] <= np.sqrt(amount) for who, amount in booked(ledger).items())


def test_a_repeated_query_is_charged_each_time_until_the_budget_refuses(ledger):
    one, leak = queries(1), measured(answer="margins", noise=dm.Gaussian(10.0))
    single = max(measured(one, answer="margins", noise=dm.Gaussian(10.0)).persons.values())
    gateway = dm.Gateway(leak, ledger, budget=3 * single)
    while gateway.spent * (gateway.answered + 1) <= max(1, gateway.answered):
        gateway.answer(one)
        assert gateway.highest == pytest.approx(single * np.sqrt(gateway.answered), rel=1e-9)
        assert gateway.highest <= 3 * single
    k = gateway.answered
    assert 1 <= k <= 9  # the rung takes up to half, and so does a query unlike the list
    with pytest.raises(LimitExceeded, match="nothing was answered"):
        gateway.answer(one)
    with pytest.raises(LimitExceeded, match="closed"):
        gateway.answer(queries(1, 9))
    assert len(ledger.releases()) == k
    assert max(booked(ledger).values()) <= 9 * single**2 * 1.002


def test_many_small_answers_give_a_person_few_rows(ledger):
    noise = dm.Gaussian(100.0)
    gateway = dm.Gateway(measured(noise=noise, answer="margins"), ledger, budget=5.0)
    for k in range(30):
        gateway.answer(queries(1, k))
    rows = ledger.export()["doses"]
    assert len(rows) <= 20 * math.ceil(gateway.spent * 1000) + 30  # a row for each step, or one of 0 for a batch
    assert gateway.answered == 30
    exact = measured(both(*(queries(1, k) for k in range(30))), noise=noise, answer="margins").persons
    assert gateway.doses == pytest.approx(exact, rel=1e-9)
    assert all(amount >= exact[person] ** 2 for person, amount in booked(ledger).items())


# What refusals, sizes and times tell ---------------------------------------------------------------------------------


def halving(ask, steps):
    """An outsider halves the interval of the ratio of two weights by signs of enormous margins."""
    low, high = -10.0, 10.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if ask({"age": [1e12], "bmi": [1e12 * middle]})[0] > 0.5 else (low, middle)
    return (low + high) / 2


def test_enormous_queries_are_not_answered_for_nothing(ledger):
    """Such an answer is flat in the true weights: its own information is 0, and a few of them give a ratio exactly."""
    leak = measured(noise=dm.Gaussian(0.05))
    model, rng = leak.model, np.random.default_rng(0)

    def exact(rows, kind):
        return model.answers(model.read(rows), kind)[:, 0]

    def noised(rows):
        return exact(rows, dm.glm.Answer.PREDICTIONS) + rng.normal(0, 0.05, 1)

    corner = exact({"age": [0.0, 1.0, 0.0], "bmi": [0.0, 0.0, 1.0]}, dm.glm.Answer.MARGINS)
    truth = -(corner[1] - corner[0]) / (corner[2] - corner[0])
    assert halving(noised, 30) == pytest.approx(truth, abs=1e-7)  # the attack works on answers that are not counted
    far = measured({"age": [1e12], "bmi": [0.0]}, noise=dm.Gaussian(0.05))
    assert max(far.persons.values()) == 0.0  # and the figure of one of them is 0
    for answer in ("predictions", "labels"):
        gateway = dm.Gateway(leak, ledger, budget=5.0, answer=answer, name=answer)
        with pytest.raises(LimitExceeded):
            halving(gateway.answer, 30)
        assert gateway.answered == 0


def until_refused(leak, ledger, name, most=400):
    """What an outsider sees: how many queries of a fixed list are answered, and how many rows each books."""
    gateway = dm.Gateway(leak, ledger, budget=1.0, name=name)
    for k in range(most):
        try:
            gateway.answer(queries(1, k % 7))
        except LimitExceeded:
            return k
    raise AssertionError("never refused")


@pytest.mark.parametrize("answer", ["margins", pytest.param("predictions", marks=pytest.mark.slow)])
def test_a_refusal_says_nothing_of_a_cell_but_the_rung(answer, ledger):
    """Exact doses differ among neighbours, and would end the answers at a different query for each of them."""
    who_matters = max((leak := measured(answer=answer)).persons, key=leak.persons.get)
    row = int(who_matters[1:]) * 2
    ends, highest, rungs = [], [], []
    for k, shift in enumerate((-0.5, -0.2, 0.0, 0.2, 0.5)):
        moved = measured(
            table=table(age=table()["age"] + shift * np.eye(40)[row]), answer=answer, noise=dm.Gaussian(4.0)
        )
        ends.append(until_refused(moved, ledger, f"{answer}{k}"))
        highest.append(max(moved.persons.values()))
        rungs.append(round_up(math.sqrt(dm.Gateway(moved, ledger, budget=1.0, name=f"{answer}{k}")._unit_doses.max())))
    assert len(set(highest)) == 5  # an exact limit would tell them apart
    assert len(set(rungs)) == 1
    assert len(set(ends)) == 1
    assert ends[0] > 5


def test_everyone_is_booked_at_the_same_moments(ledger):
    """When people pass a step depends on the queries alone, so that neither time nor size of a booking tells who."""
    gateway = dm.Gateway(measured(), ledger, budget=20.0)
    for k in range(12):
        gateway.answer(queries(1, k))
    people = [entry.body["parts"][0]["people"] for entry in ledger.releases()]
    assert set(people) <= {1, 20}
    assert people[0] == 20


def test_a_query_with_a_level_that_the_measured_list_lacks_has_no_price(ledger):
    columns = table(40)
    columns["ward"] = np.array(["abc"[k % 3] for k in range(40)], dtype=object)
    rows = {**queries(9), "ward": ["a", "b", "a"] * 3}
    gateway = dm.Gateway(measured(rows, table=columns, l2=0.1), ledger, budget=50.0)
    assert len(gateway.answer({**queries(1), "ward": ["b"]})) == 1
    with pytest.raises(LimitExceeded):
        gateway.answer({**queries(1), "ward": ["c"]})


def test_equal_noise_of_two_answers_is_no_reason_to_refuse(ledger, monkeypatch):
    monkeypatch.setattr("dosimeter.workflows.gateway.add_noise", lambda exact, noise: np.zeros_like(exact))
    gateway = dm.Gateway(measured(), ledger, budget=50.0)
    assert [gateway.answer(queries(1)).tolist() for _ in range(3)] == [[0.0]] * 3


# Callers together ----------------------------------------------------------------------------------------------------


class SlowLedger:
    """A ledger whose first transaction waits for a condition, so that callers gather."""

    def __init__(self, ledger):
        self.ledger, self.gathered, self.sizes = ledger, lambda: True, []

    def __getattr__(self, name):
        return getattr(self.ledger, name)

    def book(self, booking):
        assert self.sizes or wait_until(self.gathered)
        receipt = self.ledger.book(booking)
        self.sizes.append(len(json.loads(booking.artefact)["answers"]))
        return receipt


def waiting(gateway):
    """How many callers wait for others."""
    return len(gateway._line._waiting)


def answer_of(ledger, part):
    """The booked answers to one caller's queries; refused if they are not booked."""
    for batch in batches(ledger):
        ages = batch["queries"]["age"]
        start = next((k for k in range(len(ages)) if ages[k : k + len(part["age"])] == part["age"].tolist()), None)
        if start is not None:
            return batch["answers"][start : start + len(part["age"])]
    raise AssertionError("not booked")


def test_callers_who_wait_share_a_transaction_and_return_after_it(ledger):
    slow = SlowLedger(ledger)
    gateway = dm.Gateway(measured(), slow, budget=50.0)
    parts = [queries(1 + k % 3, k) for k in range(40)]
    slow.gathered = lambda: waiting(gateway) == 39

    def ask(part):
        values = gateway.answer(part)
        return values.tolist(), answer_of(ledger, part)  # read as soon as it is handed out

    with ThreadPoolExecutor(40) as pool:
        for given, stored in pool.map(ask, parts):
            assert given == stored
    assert len(slow.sizes) < 20
    assert sum(slow.sizes) == gateway.answered == sum(len(part["age"]) for part in parts)
    again = dm.Gateway(measured(), ledger, budget=50.0)
    assert again.doses == pytest.approx(gateway.doses, rel=1e-9)


def test_one_of_a_group_that_asks_too_much_does_not_stop_those_before_it(ledger):
    slow, booking = SlowLedger(ledger), threading.Event()
    gateway = dm.Gateway(measured(), slow, budget=50.0, most_answers=12)
    slow.gathered = lambda: booking.set() or waiting(gateway) == 4
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(gateway.answer, queries(2))
        assert booking.wait(PATIENCE)
        later = []
        for k, size in enumerate((4, 50, 5, 6)):
            later.append(pool.submit(gateway.answer, queries(size, k + 1)))
            assert wait_until(lambda k=k: waiting(gateway) > k)
        assert len(first.result()) == 2
        assert [len(later[k].result()) for k in (0, 2)] == [4, 5]
        for k in (1, 3):
            with pytest.raises(LimitExceeded, match="answers left"):
                later[k].result()
    assert gateway.left == 1


def test_callers_together_who_write_one_number_as_yes_and_as_one_leave_a_gateway_that_opens_again(ledger):
    slow, booking = SlowLedger(ledger), threading.Event()
    gateway = dm.Gateway(measured(), slow, budget=1e4)
    slow.gathered = lambda: booking.set() or waiting(gateway) == 2
    asked = [queries(1), {"age": [True], "bmi": [25.0]}, {"age": [1.0], "bmi": [25.0]}]
    with ThreadPoolExecutor(3) as pool:
        answered = []
        for k, part in enumerate(asked):
            answered.append(pool.submit(gateway.answer, part))
            assert booking.wait(PATIENCE)
            assert wait_until(lambda k=k: waiting(gateway) == k)
        assert [len(each.result()) for each in answered] == [1, 1, 1]
    assert slow.sizes == [1, 2]
    again = dm.Gateway(measured(), ledger, budget=1e4)
    assert (again.answered, again.doses) == (3, pytest.approx(gateway.doses, rel=1e-9))


def test_an_interrupt_of_the_caller_who_books_leaves_the_others_to_be_answered(ledger):
    class Interrupted(SlowLedger):
        def book(self, booking):
            if not self.sizes:
                assert wait_until(lambda: waiting(gateway) == 4)
                self.sizes.append(0)
                raise KeyboardInterrupt
            return super().book(booking)

    gateway = dm.Gateway(measured(), Interrupted(ledger), budget=50.0)
    results = {}

    def ask(k):
        try:
            results[k] = gateway.answer(queries(1, k)).tolist()
        except KeyboardInterrupt:
            results[k] = "interrupted"

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(str, results.values())).count("interrupted") == 1
    assert all(answer_of(ledger, queries(1, k)) == values for k, values in results.items() if values != "interrupted")


def test_a_failed_transaction_is_told_to_everyone_in_it(ledger):
    class Full(SlowLedger):
        def book(self, booking):
            assert self.sizes or wait_until(lambda: waiting(gateway) == 5)
            self.sizes.append(0)
            raise dm.Refusal("the ledger cannot be written (disk full)")

    gateway = dm.Gateway(measured(), Full(ledger), budget=50.0)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(gateway.answer, queries(1, k)) for k in range(6)]
    assert all("disk full" in str(one.exception()) for one in asked)
    assert gateway.answered == 0


# One ledger for several, and other copies of it ----------------------------------------------------------------------


def test_two_gateways_share_the_limit_of_one_ledger(tmp_path):
    """Their doses add in the ledger, and the sum bounds what both together leak."""
    leak = measured(answer="margins", noise=dm.Gaussian(10.0))
    with dm.Ledger.create(tmp_path / "l.db", ["fil=1"]) as ledger:
        gateways = [dm.Gateway(leak, ledger, budget=0.9, name=name) for name in ("one", "two")]

        def ask(k):
            try:
                gateways[k % 2].answer(queries(1, k))
            except LimitExceeded:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            answered = list(pool.map(ask, range(300)))
        assert not all(answered)
        everything = [{name: np.array(batch["queries"][name]) for name in NAMES} for batch in batches(ledger)]
        joint = measured(both(*everything), answer="margins", noise=dm.Gaussian(10.0)).persons
        for who, amount in booked(ledger).items():
            assert joint[who] ** 2 * (1 - 1e-9) <= amount <= 1.0
        assert ledger.verify().entries == len(ledger.releases()) + 1


def restore(source, target):
    """A copy of a database put into another one, as `.restore` of SQLite does: in place, in one transaction."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.mark.parametrize("files", [(".db",), (".db", ".db.keys")], ids=["ledger", "ledger and keys"])
def test_a_gateway_notices_that_its_ledger_became_an_older_copy(files, tmp_path):
    with dm.Ledger.create(tmp_path / "l.db") as ledger:
        gateway = dm.Gateway(measured(), ledger, budget=50.0)
        gateway.answer(queries(1))
        for end in files:
            restore(tmp_path / f"l{end}", tmp_path / f"old{end}")
        for k in range(3):
            gateway.answer(queries(1, k))
        for end in files:
            restore(tmp_path / f"old{end}", tmp_path / f"l{end}")
        with pytest.raises(Tampered, match="older copy"):
            gateway.answer(queries(1))
        with pytest.raises(dm.Refusal):
            gateway.answer(queries(1))


def test_a_gateway_does_not_answer_into_a_file_that_is_gone(tmp_path):
    with dm.Ledger.create(tmp_path / "l.db") as ledger:
        gateway = dm.Gateway(measured(), ledger, budget=50.0)
        gateway.answer(queries(1))
        restore(tmp_path / "l.db", tmp_path / "old.db")
        os.replace(tmp_path / "old.db", tmp_path / "l.db")
        with pytest.raises(Tampered, match="another file was put in its place"):
            gateway.answer(queries(1))
        os.remove(tmp_path / "l.db")
        with pytest.raises(dm.Refusal, match="removed"):
            gateway.answer(queries(1))
    assert not (tmp_path / "l.db").exists()


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
    first, second, leak = queries(4, 1), queries(7, 2), measured(answer="margins", noise=dm.Gaussian(9.0))
    dm.Gateway(leak, ledger, budget=2.0, name="june").answer(first)
    again = dm.Gateway(leak, ledger, budget=2.0, name="june")
    assert again.answered == 4
    again.answer(second)
    joint = measured(both(first, second), answer="margins", noise=dm.Gaussian(9.0)).persons
    assert again.doses == pytest.approx(joint, rel=1e-9)
    dm.Gateway(measured(), ledger, budget=9.0, name="june2").answer(first)
    for change in (
        {"model": measured(queries(60, 78))},
        {"model": measured(noise=dm.Gaussian(1.1))},
        {"model": measured(), "answer": "margins"},
        {"model": measured(table=table(age=table()["age"] + np.eye(40)[3]))},
    ):
        with pytest.raises(dm.Refusal, match="new name"):
            dm.Gateway(change.pop("model"), ledger, budget=9.0, name="june2", **change)


def test_two_gateways_of_one_name_see_each_others_answers(ledger):
    leak = measured(answer="margins", noise=dm.Gaussian(20.0))
    one, two = (dm.Gateway(leak, ledger, budget=5.0) for _ in range(2))
    parts = [queries(3, k) for k in range(6)]
    for k, part in enumerate(parts):
        (one, two)[k % 2].answer(part)
    joint = measured(both(*parts), answer="margins", noise=dm.Gaussian(20.0)).persons
    assert two.doses == pytest.approx(joint, rel=1e-9)
    assert len(batches(ledger)) == 6
    for person, amount in booked(ledger).items():  # taking turns does not book anything twice
        assert joint[person] ** 2 <= amount <= 25.0 * two.spent + 2 * 25.0 / 1000


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
    gateway = dm.Gateway(leak, ledger, budget=10_000.0)
    one = {name: np.repeat(values, 4000) for name, values in queries(1).items()}
    labels = gateway.answer(one)
    margins = leak.model.answers(leak.model.read(queries(1)), dm.glm.Answer.MARGINS)
    shares = [np.mean(labels == level) for level in "abc"]
    np.testing.assert_allclose(shares, softmax(margins[0]), atol=6 * 0.5 / np.sqrt(4000))
    two = measured(noise=dm.LogisticNoise(1.0), answer="labels")
    labels = dm.Gateway(two, ledger, budget=10_000.0, name="two").answer(one)
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


THREADS = 4


def answer_on(place, leak, log):
    """Four threads answer batch after batch, each written down as soon as it is handed out."""
    bits._key = _system_key  # a fork would draw its parent's noise
    with dm.Ledger.open(place) as ledger, open(log, "ab", buffering=0) as file:
        gateway = dm.Gateway(leak, ledger, budget=1000.0)

        def ask(k):
            values = gateway.answer(queries(2, 1000 * os.getpid() + k))
            file.write(json.dumps(values.tolist()).encode() + b"\n")

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(ask, range(100)))


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
        booked_answers = [batch["answers"] for batch in batches(ledger)]
        assert max(map(len, booked_answers)) > 2  # some were booked together
        stored = {json.dumps(values[k : k + 2]) for values in booked_answers for k in range(0, len(values), 2)}
        handed_out = seen.read_text().splitlines()
        assert len(set(handed_out)) == len(handed_out)
        assert set(handed_out) <= stored
        # What was booked and never seen is counted; it is at most what the threads of each kill were waiting for.
        assert len(stored) - len(handed_out) <= THREADS * kills
        again = dm.Gateway(leak, ledger, budget=1000.0)
        assert again.answered == 2 * len(stored)
        for person, amount in booked(ledger).items():
            assert amount >= again.doses[person] ** 2 * (1 - 1e-6)


def test_no_answer_is_handed_out_unbooked_however_often_it_is_killed(tmp_path):
    survive(tmp_path, 4)


@pytest.mark.slow
def test_no_answer_is_handed_out_unbooked_in_fifty_kills(tmp_path):
    survive(tmp_path, 50)
