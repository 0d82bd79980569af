"""Rounds over an exchange: who is drawn, what is kept before what leaves, and what counts as absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.engines.client_operations import TRAIN
from dosimeter.engines.client_rounds import ClientRounds
from dosimeter.engines.protocol.exchange import DirectExchange
from dosimeter.engines.protocol.fields import pack, unpack
from dosimeter.engines.protocol.message import OVERHEAD, Message, Status, read_message
from dosimeter.federated import Constant, Curator, FixedClip, PoissonSampling, PrivacyBudget
from dosimeter.federated.state import State
from dosimeter.files.federated_checkpoint import read_state
from dosimeter.ledger import Ledger
from dosimeter.models.client_desk import ClientDesk, client_rows
from dosimeter.models.client_training import client_terms_of, network_digest, train_over_network
from dosimeter.tables.bounds_file import bounds_of
from dosimeter.workflows.federated_release import release as released_model
from tests.engines.clients import COLUMNS, SECTION, agreed, write_rows

D, K, STUDY = 3, 6, bytes(32)
SIZES = {"parameters": D}
Answer = Callable[[Message], bytes]


def curator(m: float = K, *, epsilon: float = 50.0, z: float = 2.0) -> Curator:
    return Curator(PoissonSampling(K), Constant(m, z), PrivacyBudget(epsilon, 1e-3), FixedClip(1.0))


def sends(update: Any) -> Answer:
    return lambda question: question.answer(Status.DONE, pack(TRAIN.answer, {"update": update}, SIZES)).pack()


def exchange_of(answers: Mapping[int, Answer]) -> DirectExchange:
    def answerer(answer: Answer) -> Callable[[bytes], bytes]:
        return lambda data: answer(read_message(data))

    return DirectExchange({number: answerer(answer) for number, answer in answers.items()})


def rounds_of(recipe: Curator, exchange: Any, keep: Any = lambda state, rounds: None) -> ClientRounds:
    return ClientRounds(recipe, exchange, STUDY, 5.0, keep)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.federated.curator.add_noise", lambda values, noise: values)


@pytest.mark.usefixtures("noiseless")
def test_the_sum_is_over_those_who_answered_and_the_divisor_is_the_declared_m() -> None:
    """One of six clients is there: the mean moves by a sixth of its clipped update."""
    recipe = curator()
    history = rounds_of(recipe, exchange_of({2: sends([3.0, 0.0, 4.0])})).run(recipe.start(np.zeros(D)), 1)
    np.testing.assert_allclose(history.state.model, np.array([0.6, 0.0, 0.8]) / K, atol=1e-6)
    assert (history.rounds[0].sampled, history.rounds[0].accepted) == (K, 1)


HOSTILE: dict[str, Answer] = {
    "not a number": lambda q: q.answer(Status.DONE, np.full(D, np.nan, "<f4").tobytes()).pack(),
    "infinite": lambda q: q.answer(Status.DONE, np.full(D, np.inf, "<f4").tobytes()).pack(),
    "1e300 in eight bytes": lambda q: q.answer(Status.DONE, np.full(D, 1e300).tobytes()).pack(),
    "too short": lambda q: q.answer(Status.DONE, bytes(4 * D - 4)).pack(),
    "too long": lambda q: q.answer(Status.DONE, bytes(4 * D + 4)).pack(),
    "100 MB": lambda q: q.answer(Status.DONE, bytes(100 << 20)).pack(),
    "failed": lambda q: q.answer(Status.FAILED).pack(),
    "another round": lambda q: Message(q.study, 9, q.site, q.ticket, q.operation, bytes(4 * D), Status.DONE).pack(),
    "no ticket": lambda q: Message(q.study, q.round, q.site, bytes(16), q.operation, bytes(4 * D), Status.DONE).pack(),
    "other study": lambda q: Message(bytes([1] * 32), q.round, q.site, q.ticket, q.operation, b"", Status.DONE).pack(),
    "other client": lambda q: Message(q.study, q.round, 3, q.ticket, q.operation, bytes(4 * D), Status.DONE).pack(),
    "a question": lambda q: q.pack(),
    "nothing": lambda q: b"",
    "a pickle": lambda q: b"\x80\x04\x95",
}  # fmt: skip


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_client_sends_counts_as_absent(kind: str) -> None:
    recipe = curator()
    exchange = exchange_of({1: HOSTILE[kind], 2: sends([0.3, 0.0, 0.0])})
    history = rounds_of(recipe, exchange).run(recipe.start(np.zeros(D)), 1)
    np.testing.assert_allclose(history.state.model, [0.3 / K, 0.0, 0.0], atol=1e-7)
    assert history.rounds[0].accepted == 1


@pytest.mark.usefixtures("noiseless")
def test_a_client_cannot_answer_with_another_clients_ticket() -> None:
    tickets: dict[int, bytes] = {}

    def first(question: Message) -> bytes:
        tickets[1] = question.ticket
        return b""

    def second(question: Message) -> bytes:
        stolen = Message(
            question.study, question.round, 1, tickets[1], TRAIN.name, np.ones(D, "<f4").tobytes(), Status.DONE
        )
        return stolen.pack()

    recipe = curator()
    history = rounds_of(recipe, exchange_of({1: first, 2: second})).run(recipe.start(np.zeros(D)), 1)
    assert history.rounds[0].accepted == 0
    assert not history.state.model.any()


def test_a_round_without_participants_asks_nobody_and_is_paid_for() -> None:
    class Nobody:
        def ask(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("somebody was asked")

    recipe = curator(1e-9)
    history = rounds_of(recipe, Nobody()).run(recipe.start(np.zeros(D)), 3)
    assert [entry.sampled for entry in history.rounds] == [0, 0, 0]
    assert sum(part.rounds for part in history.state.spent) == 3


def test_the_draw_is_over_the_roster_and_not_over_who_is_online() -> None:
    """With m = K/2 a client that is never there is drawn in about half of the rounds, like everybody."""
    states: list[State] = []
    recipe = curator(K / 2, z=50.0)
    run = rounds_of(recipe, exchange_of({1: sends(np.zeros(D))}), lambda state, rounds: states.append(state))
    run.run(recipe.start(np.zeros(D)), 60)
    drawn = np.bincount(np.concatenate([state.participants for state in states if state.is_open]), minlength=K)
    assert (drawn > 8).all()
    assert (drawn < 52).all()  # five standard deviations


def test_nobody_is_asked_before_the_state_is_kept_and_no_model_leaves_before_it_is_kept() -> None:
    events: list[tuple[str, Any]] = []
    inner = exchange_of({k: sends(np.full(D, 0.1)) for k in range(1, K + 1)})

    class Watched:
        def ask(self, questions: Mapping[int, bytes], **options: Any) -> Any:
            body = read_message(next(iter(questions.values()))).body
            events.append(("ask", unpack(TRAIN.question, body, SIZES)["model"]))
            return inner.ask(questions, **options)

    recipe = curator()
    keep = lambda state, rounds: events.append(("open" if state.is_open else "closed", state.model))  # noqa: E731
    rounds_of(recipe, Watched(), keep).run(recipe.start(np.zeros(D)), 3)
    assert [name for name, _ in events] == ["open", "ask", "closed"] * 3
    for before, asked in zip(events[0::3], events[1::3], strict=True):
        np.testing.assert_array_equal(asked[1], before[1].astype(np.float32))


def test_the_budget_is_checked_before_anybody_is_asked() -> None:
    exchange = exchange_of({1: sends(np.zeros(D))})
    recipe = curator(epsilon=1.5, z=2.0)
    history = rounds_of(recipe, exchange).run(recipe.start(np.zeros(D)), 50)
    assert "is not opened" in history.stop_reason
    assert len(exchange.passed) == 2 * history.state.round
    assert history.figure.epsilon <= 1.5


class Killed(BaseException):
    """The process ends here."""


class Federation:
    """Clients with tables in this process, and a coordinator that is killed at a chosen step."""

    def __init__(self, folder: Path, clients: int = 3) -> None:
        self.folder, (self.job, self.study) = folder, agreed(clients, rounds=3)
        self.models: dict[int, set[bytes]] = {}
        self.asked: dict[int, set[int]] = {}
        self.desks, columns = {}, bounds_of(COLUMNS).columns
        for k in range(1, clients + 1):
            place = folder / f"client{k}"
            place.mkdir()
            write_rows(place / "rows.csv", k)
            read = lambda place=place: client_rows(place / "rows.csv", columns, "ill")  # noqa: E731
            self.desks[k] = ClientDesk(self.study, k, self.job, read, place, lambda text: None)

    def ask(self, questions: Mapping[int, bytes], **options: Any) -> Any:
        for number, data in questions.items():
            question = read_message(data)
            if question.operation == TRAIN.name:
                self.models.setdefault(question.round, set()).add(question.body)
                self.asked.setdefault(question.round, set()).add(number)
        self.step("asked")
        answers = DirectExchange({k: desk.answer for k, desk in self.desks.items()}).ask(questions, **options)
        self.step("answered")
        return answers

    steps = 0
    killed_at = -1

    def step(self, name: str) -> None:
        self.steps += 1
        if self.steps == self.killed_at:
            raise Killed(name)

    def train(self, killed_at: int = -1) -> Any:
        self.steps, self.killed_at = 0, killed_at
        return train_over_network(
            self.job, self, study=self.study, checkpoint=self.folder / "state.npz", deadline=5.0,
            progress=lambda entry: self.step("kept"),
        )  # fmt: skip


def test_killed_at_every_step_no_round_is_noised_twice_and_none_is_forgotten(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    for k in range(1, 20):
        try:
            history = federation.train(killed_at=k % 3 + 1)
        except Killed:
            continue
        break
    assert {t: len(models) for t, models in federation.models.items()} == {0: 1, 1: 1, 2: 1}
    assert sum(part.rounds for part in history.state.spent) == history.state.round == 3
    assert read_state(tmp_path / "state.npz", network_digest(federation.job, federation.study)).same_as(history.state)


def test_a_finished_training_asks_nobody_again(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    first = federation.train()
    federation.desks.clear()
    again = federation.train(killed_at=1)
    assert again.state.same_as(first.state)
    assert "3 were in the checkpoint" in again.stop_reason


def test_another_schema_does_not_go_on_from_the_checkpoint(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    federation.train()
    federation.study = bytes(32)
    with pytest.raises(Refusal, match="another training"):
        federation.train()


def test_a_plan_over_the_budget_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    federation.job, _ = agreed(3, **{"noise-multiplier": 2.0, "epsilon": 1})
    with pytest.raises(Refusal, match="the budget is 1"):
        federation.train()
    assert not federation.models


def test_the_release_is_a_pipeline_of_declared_columns_and_an_event_for_every_client(tmp_path: Path) -> None:
    """The coordinator has no row: the file follows from the noised model and from what was agreed."""
    federation = Federation(tmp_path)
    history = federation.train()
    release = released_model(federation.job, history, pipeline=True, booked_as="r1")
    assert release.result.guarantee.standing == "upper bound"
    assert release.result.guarantee.rounds == 3
    (events,) = release.doses
    assert list(events.ids) == ["client1", "client2", "client3"]
    rows = {"age": [30.0, 90.0], "ward": ["a", "b"]}
    answers = release.model.predict(pd.DataFrame(rows))
    X = np.array([[(30 - 59) / 41, 1.0, 0.0], [(90 - 59) / 41, 0.0, 1.0]])
    W, b = history.state.model[:6].reshape(3, 2), history.state.model[6:]
    assert list(answers) == [["no", "yes"][k] for k in (X @ W + b).argmax(axis=1)]
    with Ledger.create(tmp_path / "ledger.db", ["eps=9@1e-3"]) as ledger:
        ledger.book(release, name="r1")
        assert len(ledger.releases()) == 1


# --- the client's desk ---


@pytest.fixture
def desk(tmp_path: Path) -> ClientDesk:
    return Federation(tmp_path).desks[1]


def question(desk: ClientDesk, number: int, fill: float = 0.0, **changed: Any) -> bytes:
    body = pack(TRAIN.question, {"model": np.full(desk.sizes["parameters"], fill)}, desk.sizes)
    facts = {"study": desk.study, "round": number, "site": 1, "ticket": bytes(16), "operation": "train", "body": body}
    return Message(**{**facts, **changed}).pack()  # type: ignore[arg-type]


def status(desk: ClientDesk, data: bytes) -> Status | None:
    reply = desk.answer(data)
    return read_message(reply).status if reply else None


def test_an_answer_holds_the_update_and_nothing_else(desk: ClientDesk) -> None:
    reply = desk.answer(question(desk, 0))
    assert status(desk, question(desk, 0)) is Status.DONE
    assert len(reply) <= OVERHEAD + 4 * desk.sizes["parameters"]
    assert len(read_message(reply).body) == 4 * desk.sizes["parameters"]


@pytest.mark.parametrize(
    "changed",
    [{"study": bytes(32)}, {"site": 2}, {"operation": "newton"}, {"body": b"short"}, {"status": Status.DONE}],
)
def test_a_client_answers_nothing_but_the_agreed_question(desk: ClientDesk, changed: dict[str, Any]) -> None:
    reply = desk.answer(question(desk, 0, **changed))
    assert not read_message(reply).body
    assert read_message(reply).status is Status.REFUSED


def test_a_client_refuses_an_older_round_a_second_model_and_a_round_too_many(desk: ClientDesk) -> None:
    assert status(desk, question(desk, 1)) is Status.DONE
    assert status(desk, question(desk, 0)) is Status.REFUSED
    assert status(desk, question(desk, 1, 0.5)) is Status.REFUSED
    assert status(desk, question(desk, 1)) is Status.DONE  # a coordinator that came back asks the same again
    assert status(desk, question(desk, 3)) is Status.REFUSED
    assert status(desk, b"no message") is None


def test_a_client_remembers_its_rounds_over_a_restart(tmp_path: Path, desk: ClientDesk) -> None:
    status(desk, question(desk, 1))
    again = ClientDesk(desk.study, 1, desk.job, desk.read, desk.folder, lambda text: None)
    assert status(again, question(desk, 0)) is Status.REFUSED
    assert status(again, question(desk, 1, 0.5)) is Status.REFUSED
    assert status(again, question(desk, 1)) is Status.DONE


def test_no_cell_of_the_table_is_said_at_the_client_or_sent(desk: ClientDesk) -> None:
    lines: list[str] = []
    desk.say = lines.append
    (desk.folder / "rows.csv").write_text("age,ward,ill\nCANARY,a,CANARY\n")
    reply = desk.answer(question(desk, 0))
    assert read_message(reply).status is Status.REFUSED
    assert b"CANARY" not in reply
    assert "CANARY" not in " ".join(lines)
    desk.read = lambda: 1 / 0  # type: ignore[return-value]
    assert status(desk, question(desk, 1)) is Status.FAILED


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilom": 3}, "did you mean epsilon"),
        ({"rounds": 0}, "rounds"),
        ({"epsilon": True}, "epsilon"),
        ({"noise-multiplier": 0}, "noise-multiplier"),
        ({"hidden": "64"}, "hidden"),
        ({"architecture": 3}, "architecture"),
        ({"learning-rate": "fast"}, "learning-rate"),
        ({"clip": 1e9}, "clip"),
    ],
)
def test_a_section_that_makes_no_sense_is_refused_in_one_line(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message) as refusal:
        client_terms_of(SECTION | changed, Location("schema.toml"))
    assert "\n" not in str(refusal.value)


def test_noise_and_rounds_must_be_agreed() -> None:
    section = {key: value for key, value in SECTION.items() if key != "noise-multiplier"}
    with pytest.raises(Refusal, match="federate plan"):
        client_terms_of(section, Location("schema.toml"))
