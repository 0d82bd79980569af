"""Parts disjoint by person, teachers that never crash, votes that depend only on their inputs."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dosimeter.core.errors import Refusal
from dosimeter.files.pate_checkpoint import read_progress, write_progress
from dosimeter.pate.ensemble import Teachers, encode_labels
from dosimeter.pate.estimators import describe_estimator
from dosimeter.pate.partition import Partition
from tests import forked

rng = np.random.default_rng(5)
N = 240
PERSON = np.array([f"p{i // 3}" for i in range(N)])
Y = rng.integers(0, 3, N)
X = np.eye(3)[Y] + rng.normal(0, 0.4, (N, 3))
PUBLIC = np.eye(3)[rng.integers(0, 3, 20)] + rng.normal(0, 0.4, (20, 3))
MODEL = make_pipeline(StandardScaler(), LogisticRegression())


class Nearest:
    """Predicts the label of the nearest class centre: a model that is not a scikit-learn estimator."""

    def __init__(self, X, y):
        self.labels = np.unique(y)
        self.centres = np.array([X[y == label].mean(axis=0) for label in self.labels])

    def predict(self, X):
        return self.labels[np.linalg.norm(X[:, None] - self.centres, axis=2).argmin(axis=1)]


def nearest(X, y, power=1):
    return Nearest(X, y)


# ---------------------------------------------------------------------------------------------------- partitions


def test_all_rows_of_a_person_have_one_teacher_and_no_teacher_is_without_rows():
    partition = Partition.of(PERSON, 7, even=True)
    for person in set(PERSON.tolist()):
        assert len(set(partition.parts[person == PERSON].tolist())) == 1
    assert sorted(set(partition.parts.tolist())) == list(range(7))
    people = [len({p for p, t in partition.teacher_of.items() if t == k}) for k in range(7)]
    assert max(people) - min(people) <= 1
    assert sorted(np.concatenate([partition.rows(k) for k in range(7)]).tolist()) == list(range(N))


def test_the_part_of_a_person_depends_neither_on_the_order_of_rows_nor_on_the_data():
    order = rng.permutation(N)
    there, here = Partition.of(PERSON, 7).teacher_of, Partition.of(PERSON[order], 7).teacher_of
    assert there == here
    assert Partition.of(PERSON.tolist(), 7).digest == Partition.of(PERSON, 7).digest
    assert Partition.of(PERSON, 7, salt="another").digest != Partition.of(PERSON, 7).digest


def test_a_newcomer_moves_nobody_else_unless_parts_are_evened_out():
    before = Partition.of(PERSON, 5).teacher_of
    after = Partition.of([*PERSON, "newcomer"], 5).teacher_of
    assert {p: t for p, t in after.items() if p != "newcomer"} == before
    evened = Partition.of([*PERSON, "newcomer"], 5, even=True).teacher_of
    assert any(evened[p] != t for p, t in Partition.of(PERSON, 5, even=True).teacher_of.items())


def _changed_parts(before, after, n):
    """Parts whose rows differ between both tables; a row is identified by its person and its number among theirs."""

    def rows(persons, partition):
        count, part_rows = {}, [set() for _ in range(n)]
        for person, part in zip(persons, partition.parts.tolist(), strict=True):
            count[person] = count.get(person, 0) + 1
            part_rows[part].add((person, count[person]))
        return part_rows

    pairs = zip(*(rows(persons, partition) for persons, partition in (before, after)), strict=True)
    return sum(rows_before != rows_after for rows_before, rows_after in pairs)


@pytest.mark.parametrize("seed", range(8))
def test_another_person_in_the_place_of_one_changes_two_parts_at_most(seed):
    """With even parts it changes nearly all: a third of the rows then have another teacher."""
    rng, n = np.random.default_rng(seed), 20
    ids = [f"{rng.integers(1 << 40):x}" for _ in range(100) for _ in range(rng.integers(1, 4))]
    gone, come = ids[rng.integers(len(ids))], f"{rng.integers(1 << 40):x}"
    other = [come if person == gone else person for person in ids]
    fewer = [person for person in ids if person != gone]
    here = ids, Partition.of(ids, n)
    assert _changed_parts(here, (other, Partition.of(other, n)), n) <= 2
    assert _changed_parts(here, (fewer, Partition.of(fewer, n)), n) == 1
    evened = (ids, Partition.of(ids, n, even=True)), (other, Partition.of(other, n, even=True))
    if evened[0][1].teacher_of != {gone if p == come else p: t for p, t in evened[1][1].teacher_of.items()}:
        assert _changed_parts(*evened, n) > 2


def test_a_teacher_without_rows_votes_by_a_public_rule_and_is_counted():
    """Thirty people leave some of thirty hashes without a person, and nothing is refused for that."""
    persons = [f"p{i}" for i in range(30)]
    Z, y = rng.normal(0, 1, (30, 2)), np.arange(30) % 3
    work = Teachers(nearest, 30, groups=persons).training(Z, y, Z[:7], classes=[0, 1, 2])
    *_, state = work.run()
    alone = [t for t in range(30) if not len(work.partition.rows(t))]
    assert state.finished.all()
    assert state.empty == len(alone) > 0
    other = Teachers(nearest, 30, groups=persons).training(Z + 5, (y + 1) % 3, Z[:7], classes=[0, 1, 2])
    *_, again = other.run()
    np.testing.assert_array_equal(again.votes[alone], state.votes[alone])
    assert set(np.unique(state.votes[alone]).tolist()) == {0, 1, 2}
    assert "<Partition of 30 rows, 30 persons into 30 parts of 0 to" in repr(work.partition)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partition.of(PERSON, 81), "at most 80"),
        (lambda: Partition.of(PERSON, 1), "2 or more"),
        (lambda: Partition.of(PERSON, 2.0), "whole number"),
        (lambda: Partition.of(["a", None, "b"], 2), "row 1 .* has no person"),
        (lambda: Partition.of([1.0, float("nan")], 2), "row 1 .* has no person"),
        (lambda: Partition.of([["a"], ["b"]], 2), "a list cannot name a person"),
        (lambda: Partition.from_parts([0, 5], n_parts=3), "from 0 to 2"),
        (lambda: Partition.from_parts([0, 1, 0], ["a", "b", "b"]), "in parts 1 and 0"),
        (lambda: Partition.from_parts([0, 2, 2]), "part 1 has no rows"),
        (lambda: Partition.from_parts([-1, 0]), "from 0"),
        (lambda: Partition.from_parts([0, 0]), "only one part"),
        (lambda: Partition.from_parts([0.0, 1.0]), "whole number"),
        (lambda: Partition.from_parts([0, 1], ["a"]), "one part per row"),
    ],
)
def test_a_bad_partition_is_refused_in_one_line(make, message):
    with pytest.raises(Refusal, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_refusal_names_the_row_and_never_the_person():
    with pytest.raises(Refusal) as refused:
        Partition.from_parts([0, 1], ["secret name", "secret name"])
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(Partition.of(["secret name", "b"], 2))


# ------------------------------------------------------------------------------------------------------ teaching


@pytest.mark.parametrize("model", [MODEL, DecisionTreeClassifier(), nearest, partial(nearest, power=2)])
def test_each_teacher_votes_as_the_same_model_trained_alone_on_its_rows(model):
    teachers = Teachers(model, 6, groups=PERSON)
    votes, split = teachers.vote(X, Y, PUBLIC), teachers.partition(N)
    for t in range(6):
        rows = split.rows(t)
        if callable(model):
            alone = Nearest(X[rows], Y[rows])
        elif model is MODEL:
            alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[rows], Y[rows])
        else:
            alone = DecisionTreeClassifier(random_state=t).fit(X[rows], Y[rows])
        np.testing.assert_array_equal(votes.values[t], alone.predict(PUBLIC))


def test_another_persons_rows_move_one_teachers_votes_only():
    teachers = Teachers(MODEL, 6, groups=PERSON)
    moved = X.copy()
    moved[PERSON == "p11"] += 100.0
    before, after = teachers.vote(X, Y, PUBLIC), teachers.vote(moved, Y, PUBLIC)
    changed = np.flatnonzero((before.values != after.values).any(axis=1)).tolist()
    assert changed == [teachers.partition(N).teacher_of["p11"]]  # a scaler fitted on all rows would change them all


def test_votes_are_equal_whatever_the_number_of_processes():
    for model in (DecisionTreeClassifier(max_features=1), MODEL):  # a random estimator, and a deterministic one
        teachers = Teachers(model, 6, groups=PERSON)
        alone, several = (teachers.vote(X, Y, PUBLIC, n_jobs=n) for n in (1, 2))
        np.testing.assert_array_equal(alone.values, several.values)
        assert dict(alone.provenance) == dict(several.provenance)


def test_the_same_votes_come_from_a_dask_cluster():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import warnings

    import joblib

    teachers = Teachers(KNeighborsClassifier(1), 4, groups=PERSON)
    alone = teachers.vote(X, Y, PUBLIC, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the cluster's start and end
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
            ) as here,
            distributed.Client(here),
            joblib.parallel_config("dask"),
        ):
            there = teachers.vote(X, Y, PUBLIC)
    np.testing.assert_array_equal(alone.values, there.values)


def test_a_teacher_that_lacks_a_class_or_has_one_only_votes_and_is_counted():
    parts = np.repeat(np.arange(4), 60)
    y = np.concatenate([np.zeros(60), np.ones(60), np.arange(60) % 2, np.arange(60) % 3]).astype(int)
    teachers = Teachers(LogisticRegression(), 4, groups=Partition.from_parts(parts))
    *_, state = teachers.training(X, y, PUBLIC).run()
    assert (state.votes[0] == 0).all()
    assert (state.votes[1] == 1).all()
    assert (state.votes[2] <= 1).all()
    assert state.class_counts.tolist() == [1, 1, 2, 3]
    assert (state.constant, state.lacking) == (2, 3)


def test_labels_are_numbered_in_the_order_of_the_public_list():
    names = np.array(["cat", "dog", "eel"])[Y]
    by_list = Teachers(nearest, 5, groups=PERSON).vote(X, names, PUBLIC, classes=["eel", "newt", "dog", "cat"])
    by_sorting = Teachers(nearest, 5, groups=PERSON).vote(X, names, PUBLIC)
    assert (by_list.n_classes, by_sorting.n_classes) == (4, 3)
    np.testing.assert_array_equal(np.array([3, 2, 0])[by_sorting.values], by_list.values)


def test_provenance_changes_with_everything_it_describes():
    def train(X=X, Y=Y, PUBLIC=PUBLIC, model=MODEL, salt="a"):
        return Teachers(model, 5, groups=PERSON, salt=salt).training(X, Y, PUBLIC)

    base = train()
    other = make_pipeline(StandardScaler(), LogisticRegression(C=2.0))
    near, flipped = X.copy(), Y.copy()
    near[17, 1] = np.nextafter(near[17, 1], 9)
    flipped[3] = (flipped[3] + 1) % 3
    for changed, field in (
        (train(X=near), "data"),
        (train(Y=flipped), "data"),
        (train(PUBLIC=PUBLIC[:-1]), "queries"),
        (train(model=other), "estimator"),
        (train(salt="b"), "partition"),
    ):
        assert changed.digest != base.digest
        assert [k for k in base.provenance if base.provenance[k] != changed.provenance[k]] == [field]
    assert train().digest == base.digest


def another(X, y):
    return KNeighborsClassifier(3).fit(X, y)


def test_a_factory_is_identified_by_its_body_and_its_settings():
    digests = {
        Teachers(model, 5, groups=PERSON).training(X, Y, PUBLIC).digest
        for model in (
            nearest,
            another,
            partial(nearest, power=1),
            partial(nearest, power=2),
            lambda a, b: another(a, b),
        )
    }
    assert len(digests) == 5


def closed(neighbours):
    return lambda a, b: KNeighborsClassifier(neighbours).fit(a, b)


def test_a_factory_is_identified_by_its_closure_and_its_fields():
    """A state of one is stale for the other: the bodies are the same, but the votes are not."""
    pairs = [(closed(1), closed(9)), (Stubborn([0] * 20), Stubborn([1] * 20))]
    for first, second in pairs:
        works = [Teachers(model, 5, groups=PERSON).training(X, Y, PUBLIC) for model in (first, second)]
        *_, state = works[0].run()
        with pytest.raises(Refusal, match="another estimator"):
            next(works[1].run(state))
    assert describe_estimator(closed(1)) == describe_estimator(closed(1))
    assert describe_estimator(Stubborn([0])) == describe_estimator(Stubborn([0]))


def bent(power):
    return lambda a: a**power


def only(first):
    return lambda a: [first]


SETTINGS = {
    "a lambda's code": (FunctionTransformer(lambda a: a + 1), FunctionTransformer(lambda a: a + 2)),
    "a lambda's closure": (FunctionTransformer(bent(1)), FunctionTransformer(bent(2))),
    "a lambda's default": (FunctionTransformer(lambda a, p=1: a * p), FunctionTransformer(lambda a, p=2: a * p)),
    "a function in a partial": (FunctionTransformer(partial(np.clip, a_min=0)), FunctionTransformer(partial(np.clip))),
    "a library's function": (FunctionTransformer(np.abs), FunctionTransformer(np.tanh)),
    "a function among arguments": (
        FunctionTransformer(np.array, kw_args={"like": [bent(1)]}),
        FunctionTransformer(np.array, kw_args={"like": [bent(2)]}),
    ),
    "the middle of a long array": (
        FunctionTransformer(np.clip, kw_args={"a_min": np.zeros(5000)}),
        FunctionTransformer(np.clip, kw_args={"a_min": np.eye(1, 5000, 2500)[0]}),
    ),
    "a choice of columns": (
        ColumnTransformer([("one", StandardScaler(), only(0))]),
        ColumnTransformer([("one", StandardScaler(), only(1))]),
    ),
    "a random state": tuple(SGDClassifier(random_state=np.random.RandomState(seed)) for seed in (1, 2)),
}


@pytest.mark.parametrize("kind", list(SETTINGS))
def test_a_setting_whose_repr_is_an_address_is_identified_by_its_behaviour(kind):
    """The repr holds an address or an ellipsis here: with it both would share a state although their votes differ."""
    first, second = SETTINGS[kind]
    for wrap in (lambda e: e, lambda e: make_pipeline(e, LogisticRegression())):
        assert describe_estimator(wrap(first)) != describe_estimator(wrap(second))
        assert describe_estimator(wrap(clone(first))) == describe_estimator(wrap(first))
        assert " at 0x" not in describe_estimator(wrap(first))


def test_a_state_of_another_lambda_is_refused():
    works = [
        Teachers(make_pipeline(FunctionTransformer(bent), LogisticRegression()), 5, groups=PERSON).training(
            X, Y, PUBLIC
        )
        for bent in (lambda a: a, lambda a: -a)
    ]
    state = next(works[0].run(every=2))
    with pytest.raises(Refusal, match="another estimator"):
        works[1].check(state)


SAID = """
from functools import partial
import numpy as np
from sklearn.preprocessing import FunctionTransformer
from dosimeter.pate.estimators import describe_estimator

def again(a, n=3):
    return a if n == 0 or "c" in {"a", "b", "c"} else again(a, n - 1)

def closed():
    def turn(a, n):
        return a if n == 0 else turn(a, n - 1)
    return lambda a: turn(np.abs(a), 3)

print(describe_estimator(FunctionTransformer(partial(again, n=2), kw_args={"s": {"x", "y", "z"}, "f": closed()})))
"""


def test_descriptions_are_the_same_in_every_process():
    """A set of strings has another order in each process, and a recursive function has no end."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    said = {
        subprocess.run(
            [sys.executable, "-c", SAID],
            env={**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_an_estimator_that_cannot_be_described_is_trained_and_valid_in_one_process_only():
    import threading

    from dosimeter.pate import fingerprint as description

    lock = threading.Lock()

    def guarded(a, b):
        with lock:
            return nearest(a, b)

    assert Teachers(guarded, 4, groups=PERSON).vote(X, Y, PUBLIC, n_jobs=1).n_teachers == 4
    assert description.describe(lock) == description.describe(lock) != description.describe(threading.Lock())
    assert description._PROCESS in description.describe(lock)


class Stubborn:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(self.answer)


def broken(X, y):
    raise RuntimeError("cell 12345")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Teachers(MODEL, 5, groups=PERSON).vote(X, Y[:-1], PUBLIC), "239 labels for 240 rows"),
        (lambda: Teachers(MODEL, 5, groups=PERSON[:-1]).vote(X, Y, PUBLIC), "239 persons for 240 rows"),
        (lambda: Teachers(MODEL, 241).vote(X, Y, PUBLIC), "at most 240"),
        (lambda: Teachers(MODEL, 5).vote(X, Y, PUBLIC[:, :2]), "same columns"),
        (lambda: Teachers(MODEL, 5).vote(X, Y, PUBLIC[:0]), "at least one"),
        (lambda: Teachers(MODEL, 5).vote(X[:, 0], Y, PUBLIC), "row of columns"),
        (lambda: Teachers(MODEL, 5).vote(X, np.zeros(N), PUBLIC), "only one class"),
        (lambda: Teachers(MODEL, 5).vote(X, np.where(Y == 0, np.nan, Y), PUBLIC), "has no label"),
        (lambda: Teachers(MODEL, 5).vote(X, ["a", None] * 120, PUBLIC), "missing or of mixed types"),
        (lambda: Teachers(MODEL, 5).vote([[1.0], [1.0, 2.0]], [0, 1], PUBLIC), "different lengths"),
        (lambda: Teachers(MODEL, 5).vote(np.where(X > 1, np.nan, X), Y, PUBLIC, n_jobs=2), r"trained \(ValueError\)"),
        (lambda: Teachers(MODEL, 5).vote(X, Y, PUBLIC, classes=[0, 1]), "not in the list of classes"),
        (lambda: Teachers(MODEL, 5).vote(X, Y, PUBLIC, classes=[0, 1, 2, 2]), "duplicate class"),
        (lambda: Teachers(MODEL, 3, groups=Partition.of(PERSON, 5)).vote(X, Y, PUBLIC), "into 5 parts"),
        (lambda: Teachers(DecisionTreeClassifier, 5).vote(X, Y, PUBLIC), "is a class: pass an instance"),
        (lambda: Teachers("logistic", 5).vote(X, Y, PUBLIC), "a str cannot be trained"),
        (lambda: Teachers(Stubborn([0.5] * 20), 5).vote(X, Y, PUBLIC), "not a class from 0 to 2"),
        (lambda: Teachers(Stubborn([3] * 20), 5).vote(X, Y, PUBLIC), "not a class from 0 to 2"),
        (lambda: Teachers(Stubborn([-1] * 20), 5).vote(X, Y, PUBLIC), "not a class from 0 to 2"),
        (lambda: Teachers(Stubborn(["a"] * 20), 5).vote(X, Y, PUBLIC), "not a class from 0 to 2"),
        (lambda: Teachers(Stubborn(np.eye(20)), 5).vote(X, Y, PUBLIC), "one class per query"),
        (lambda: Teachers(broken, 5).vote(X, Y, PUBLIC), r"could not be trained \(RuntimeError\)"),
        (lambda: Teachers(MODEL, 5).vote(X, Y, PUBLIC, n_jobs=0), "n_jobs=0"),
    ],
)
def test_an_untrainable_model_is_refused_in_one_line_without_the_data(make, message):
    with pytest.raises(Refusal, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert "12345" not in str(refused.value)


def test_labels_of_two_dimensions_are_refused():
    with pytest.raises(Refusal, match="one label per row"):
        encode_labels(np.zeros((3, 2)))


# ------------------------------------------------------------------------------------------------------ resuming


def test_a_state_taken_half_way_leads_to_the_same_votes():
    work = Teachers(DecisionTreeClassifier(max_features=1), 6, groups=PERSON).training(X, Y, PUBLIC)
    states = list(work.run(every=2))
    assert [int(s.finished.sum()) for s in states] == [2, 4, 6]
    *_, end = work.run(pickle.loads(pickle.dumps(states[0])), every=4)  # noqa: S301 (our own bytes)
    np.testing.assert_array_equal(end.votes, states[-1].votes)
    assert [s is states[-1] for s in work.run(states[-1])] == [True]
    with pytest.raises(Refusal, match="2 of 6 teachers have not voted"):
        work.votes(states[1])


def test_a_stale_or_damaged_state_is_refused():
    teachers = Teachers(MODEL, 6, groups=PERSON)
    work = teachers.training(X, Y, PUBLIC)
    state = next(work.run(every=3))
    for other in (teachers.training(X + 1, Y, PUBLIC), Teachers(MODEL, 5, groups=PERSON).training(X, Y, PUBLIC)):
        with pytest.raises(Refusal, match="other rows"):
            next(other.run(state))
    with pytest.raises(Refusal, match="damaged"):
        work.check(type(state)(state.votes[:, :3], state.class_counts, state.n_classes, state.digest))


SLOWLY = """
import sys, time
import numpy as np
from dosimeter.files.pate_checkpoint import write_progress
from dosimeter.pate.ensemble import Teachers
from tests.pate.test_ensemble import MODEL, PERSON, PUBLIC, X, Y

for state in Teachers(MODEL, 40, groups=PERSON).training(X, Y, PUBLIC).run(every=1):
    write_progress(sys.argv[1], state)
    time.sleep(0.05 if state.finished.sum() < 20 else 600)  # never too late to be killed
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught is POSIX")
def test_training_that_was_killed_resumes_where_it_stopped(tmp_path):
    file = tmp_path / "state.npz"
    child = forked.start(["-c", SLOWLY, str(file)])
    try:
        deadline = time.monotonic() + 400
        while not file.exists() or read_progress(file).finished.sum() < 3:
            assert child.poll() is None, "the child ended by itself"
            assert time.monotonic() < deadline, "the child did not begin"
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    work = Teachers(MODEL, 40, groups=PERSON).training(X, Y, PUBLIC)
    saved = work.check(read_progress(file))
    assert 3 <= saved.finished.sum() < 40
    later = list(work.run(saved, every=1))
    assert len(later) == 40 - saved.finished.sum()  # finished teachers are not trained again
    np.testing.assert_array_equal(later[-1].votes, Teachers(MODEL, 40, groups=PERSON).vote(X, Y, PUBLIC).values)
    write_progress(file, later[-1])
    assert read_progress(file).finished.all()
