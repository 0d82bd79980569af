"""`dm.Gateway`: a model that answers queries with noise, counts what each answer leaks, and refuses beyond a budget.

An answer is handed out after its transaction: the queries, the answers and each person's dose are then in the ledger.
What is killed before that was never seen; what is killed after it is counted.

Answers are counted in a public unit (`glm.ReferenceQueries`): the amount is how many average answers of the measured
list say as much, whatever the weights are. The table enters once, when the gateway is opened. The amount that it
answers in all, the allowance, is 1/s² with s the largest dose of one such answer, divided by the budget and rounded up
to a rung of the public ladder. After that queries alone decide what is refused and when people are booked. The amount
is booked for everyone at once, in whole steps of the allowance/1000, rounded up: a ledger holds at most 1000 rows of a
person, however many answers there are (docs/explanation/answers.md).

Callers that wait while a transaction is written are answered together by the next one, and each of them returns after
it. So threads that ask for one answer each share the cost of a transaction.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Sequence
from hashlib import sha256
from types import TracebackType
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.accounts import COUNTED, Booking
from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import positive
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, LimitExceeded, Refusal, Tampered
from dosimeter.core.noise import Density
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.release import Recipe
from dosimeter.core.scale_ladder import round_up
from dosimeter.core.text import safe_text
from dosimeter.ledger import Entry, Ledger, OverBudget
from dosimeter.models.answering_model import AnsweringModel
from dosimeter.noise_addition import add_noise, grid_of, noisy_argmax, noisy_at_least
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.tables.table import Table
from dosimeter.workflows.answers_leakage import AnswersLeakage, answer_kind
from dosimeter.workflows.gateway_batch import Batch, Question, WaitingLine

KIND = "answers"
STEPS = 1000
"""Steps of the allowance in which doses are booked."""
LEAST_DOSE = 1e-140
"""Of one answer, relative to the budget: a smaller one is counted as this."""
ROUNDING = 1e-9
"""Relative margin for figures that another machine computes again: more is booked by it, and less counts as booked."""
RETRIES = 20
"""Attempts against other processes that answer under the same name."""
MOST_TOGETHER = 10_000
"""Answers of several callers in one transaction."""
SPENT = "the budget of this gateway does not allow this batch: nothing was answered, and it answers nothing more"
CLOSED = "this gateway is closed: nothing was answered"
COUNTED_OUT = "this gateway has {left} answers left and the batch has {asked} queries: nothing was answered"
NOT_A_MODEL = 'a gateway needs what dm.measure(..., release="predictions", queries=...) returned'
OLD_COPY = "the ledger was replaced by an older copy while this gateway answered: nothing was answered"


class _Spent(LimitExceeded):
    """A limit of people's doses is reached: the gateway closes."""


class Gateway:
    """Answers queries with noise, books each person's dose before an answer is handed out, and refuses beyond a budget.

    Parameters
    ----------
    model : AnswersLeakage or AnsweringModel
        What `dm.measure(..., person=..., release="predictions", queries=...)` returned: the model with its table. The
        queries should resemble those that will be asked.
    ledger : Ledger
        An open ledger. It stays open when the gateway is closed.
    noise : Noise, optional
        Independent noise on each number of an answer; for labels on each margin. By default the measured noise.
    budget : float
        Highest η of a person from all answers of this gateway. The ledger's own limits hold beside it.
    answer : {"predictions", "margins", "labels"}, optional
        What a query is answered with. By default what was measured.
    name : str
        Of the gateway in the ledger: batches are booked as NAME.00000001 and so on. A gateway that is opened again
        under its name, with the same model and noise, goes on where it stopped.
    most_answers : int, optional
        Most answers in all. Refusing by this number reveals nothing about the table.
    to : str
        Who receives the answers, for the ledger.

    Raises
    ------
    Refusal
        If there is no person column, or the name was used for another model, noise or measured list.
    CannotMeasure
        If such answers have no figure that a ledger could hold.

    Notes
    -----
    Answers are counted in units of the measured list, predictions and labels at their steepest. A refusal by the budget
    follows from the queries and from a rung of the public ladder, chosen from the table when the gateway is opened. It
    answers nothing after one. Threads may share a gateway, and processes may open one of the same name on one ledger.

    Numbers are answered on a public grid (`grid_of(noise)`) with the operating system's random bits: their last digits
    say nothing about the exact answer. A probability may lie outside 0 to 1; clip it if you need to.

    Examples
    --------
    >>> import dosimeter as dm
    >>> from tempfile import TemporaryDirectory
    >>> people = {"who": ["a", "b", "c", "d"], "age": [30, 41, 52, 68], "cost": [1.0, 2.0, 2.5, 4.5]}
    >>> leak = dm.measure(people, target="cost", person="who", release="predictions", queries={"age": [35, 50, 65]},
    ...                   noise=dm.Gaussian(2.0))
    >>> with TemporaryDirectory() as folder, dm.Ledger.create(f"{folder}/ledger.db") as ledger:
    ...     gateway = dm.Gateway(leak, ledger, budget=1.0)
    ...     answers = gateway.answer({"age": [35, 60]})
    ...     answers.shape, gateway.answered, [entry.name for entry in ledger.releases()]
    ((2,), 2, ['gateway.00000001'])
    """

    def __init__(
        self,
        model: AnswersLeakage | AnsweringModel,
        ledger: Ledger,
        noise: Any = None,
        budget: float | None = None,
        *,
        answer: str | None = None,
        name: str = "gateway",
        most_answers: int | None = None,
        to: str = "",
    ) -> None:
        if isinstance(model, AnswersLeakage):
            noise = model.noise if noise is None else noise
            answer = model.answer.value if answer is None else answer
            model = model.model
        if not isinstance(model, AnsweringModel) or model.reference is None:
            raise Refusal(NOT_A_MODEL)
        if budget is None:
            raise Refusal("a gateway needs a budget: the highest η of a person from all its answers")
        if most_answers is not None and most_answers < 1:
            raise Refusal(f"most_answers={most_answers}: give a whole number above 0, or leave it out")
        self._model, self._ledger, self._reference = model, ledger, model.reference
        self._noise = _drawable(noise)
        self._answer = answer_kind(answer)
        self._budget = positive("budget", budget)
        self._name, self._to, self._most = name, to, most_answers
        Booking(
            self._entry_name(1), Recipe(KIND, repr(self._noise)), b"-", ()
        )  # a name that no entry can have is refused
        self._ids = _people(model)
        self._lock = threading.Lock()
        self._line = WaitingLine(self._serve_group, MOST_TOGETHER)
        self._closed = False
        self._information: glm.AnswerInformation | None = None
        self._batches, self._seq = 0, 0
        self._unit_doses = self._doses_of(model.reference.information)
        largest = float(np.sqrt(self._unit_doses.max())) / self._budget
        self._allowance = round_up(max(largest * (1 + ROUNDING), LEAST_DOSE)) ** -2
        self._mark = ledger.keys.noise_mark(_fingerprint(model))
        self._load()

    # --- what users call ---

    def answer(self, queries: Any) -> Any:
        """Answer a batch: (k,) numbers or classes, or (k, classes) numbers. All of it is answered, or nothing.

        Parameters
        ----------
        queries
            A frame with the model's columns, a dict of columns, or a 2-D array.

        Returns
        -------
        ndarray
            The noised answers, booked before they are returned.

        Raises
        ------
        LimitExceeded
            If the batch would pass the budget, a limit of the ledger, or `most_answers`. Nothing is answered.
        Refusal
            If the queries do not fit the model.
        """
        table = self._model.table(queries)
        rows = self._model.encode(table)
        question = Question(table, rows, self._model.information_at_most(rows, self._noise, self._answer))
        return self._line.ask(question)

    @property
    def answered(self) -> int:
        """Answers so far, those of earlier processes included."""
        return 0 if self._information is None else self._information.answers

    @property
    def left(self) -> int | None:
        """Answers that `most_answers` still allows; None without it."""
        return None if self._most is None else max(0, self._most - self.answered)

    @property
    def spent(self) -> float:
        """Share of the allowance that is spent, 0 to 1. Queries, noise and a rung of the ladder determine it."""
        return self._amount / self._allowance

    @property
    def highest(self) -> float:
        """The highest η of a person from all answers so far, at most. Internal."""
        return max(self.doses.values(), default=0.0)

    @property
    def doses(self) -> dict[Any, float]:
        """Person -> the most that η of all answers so far can be, whatever the weights are. Internal.

        Of margins it is η itself. The ledger books more where the queries differ from the measured list.
        """
        with self._lock:
            nothing = np.zeros(len(self._ids))
            spent = nothing if self._information is None else self._doses_of(self._information)
        return dict(zip(self._ids, np.sqrt(spent).tolist(), strict=True))

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Answer nothing more. The ledger stays open."""
        with self._lock:
            self._closed = True

    def __repr__(self) -> str:
        return f"<Gateway {safe_text(self._name)}: {self.answered} {self._answer.value} answered, {self._noise}>"

    # --- inside ---

    def _serve_group(self, group: list[Question]) -> None:
        """Answer those who waited, in one transaction."""
        with self._lock:
            self._serve(group)

    def _serve(self, group: list[Question]) -> None:
        """Answer a group whole, or one by one if there is not enough left for all."""
        try:
            batch = self._booked(group)
        except LimitExceeded as refusal:
            if len(group) > 1:
                for question in group:
                    self._serve([question])
                return
            self._closed = self._closed or isinstance(refusal, _Spent)
            group[0].refuse(refusal if not isinstance(refusal, _Spent) else LimitExceeded(SPENT))
        except Exception as error:
            for question in group:
                question.refuse(error)
        else:
            batch.hand_out()

    def _booked(self, group: list[Question]) -> Batch:
        """The answers to a group, booked."""
        for _ in range(RETRIES):
            batch = self._prepare(group)
            if self._book(batch):
                return batch
            self._catch_up()  # another process answered under this name
        raise Refusal(f"{safe_text(self._name)}: too many other processes answer under this name: try again")

    def _prepare(self, group: list[Question]) -> Batch:
        """The noised answers and the amount of all answers with them; refused if that is too much."""
        if self._closed:
            raise LimitExceeded(CLOSED)
        asked = sum(question.information.answers for question in group)
        if self.left is not None and asked > self.left:
            raise LimitExceeded(COUNTED_OUT.format(left=self.left, asked=asked))
        before = [] if self._information is None else [self._information]
        total = glm.AnswerInformation.total([*before, *(question.information for question in group)])
        amount = self._reference.amount(total)
        if not amount <= self._allowance:
            raise _Spent(SPENT)
        level = max(self._level, math.ceil(amount * (1 + ROUNDING) / self._step))
        values = self._draw(np.vstack([question.rows for question in group]))
        return Batch(self._entry_name(self._batches + 1), group, values, total, amount, level)

    def _book(self, batch: Batch) -> bool:
        """Whether it was booked now; False if another process booked under the same name before."""
        try:
            receipt = self._ledger.book(self._booking(batch))
        except OverBudget:
            raise _Spent(SPENT) from None  # who, and by how much, is for the operator: see Ledger.totals
        except Refusal:
            if self._entry(batch.name) is not None:
                return False
            raise
        if not receipt.fresh:
            return False
        if receipt.seq <= self._seq:
            self._closed = True
            raise Tampered(f"{self._ledger.label}: {OLD_COPY}")
        self._information, self._amount, self._level = batch.information, batch.amount, batch.level
        self._batches, self._seq = self._batches + 1, receipt.seq
        return True

    def _booking(self, batch: Batch) -> Booking:
        amounts = (batch.level - self._level) * self._step * self._unit_doses * (1 + ROUNDING)
        # The ledger books no release without a person: one with a dose of 0 if the amount stays within its step.
        persons = np.flatnonzero(amounts > 0) if amounts.any() else np.arange(1)
        leak = self._model.parameters
        standing = leak.standing.weaker(Standing.UPPER_BOUND)
        dose = Dose(
            FISHER,
            "person",
            tuple(self._ids[i] for i in persons.tolist()),
            amounts[persons],
            standing=standing,
            measured_in=leak.measured_in,
            not_covered=leak.not_covered,
        )
        settings = {**self._settings, "queries": len(batch.values), "step": self._step}
        recipe = Recipe(KIND, repr(self._noise), settings, leak.not_covered)
        # Fresh noise of a few answers may equal earlier noise on the grid: a random mark tells the draws apart.
        return Booking(batch.name, recipe, batch.artefact, (dose,), secrets.token_bytes(32), to=self._to)

    @property
    def _settings(self) -> dict[str, str | float]:
        """What all batches of a gateway share; the model is known by a mark under the ledger's secret."""
        return {"gateway": self._name, "answer": self._answer.value, "grid": grid_of(self._noise), "model": self._mark}

    def _draw(self, rows: FloatArray) -> Any:
        """Noised answers."""
        exact = self._model.answers(rows, self._answer)
        if self._answer is not glm.Answer.LABELS:
            noised = add_noise(exact, self._noise)
            return noised[:, 0] if noised.shape[1] == 1 else noised
        classes = np.asarray(self._model.classes if self._model.classes else (0, 1))
        if exact.shape[1] == 1:
            loss: Any = self._model.fit.loss
            above = exact[:, 0] - loss.threshold
            chosen = noisy_at_least(above, self._noise, fresh_bits()).astype(np.intp)
        else:
            # The exact argmax is for whole numbers: margins in steps of the public grid, far below the noise.
            g, law = grid_of(self._noise), type(self._noise)
            in_steps: Any = law(self._noise.scale / g)  # type: ignore[call-arg]
            chosen = noisy_argmax(np.rint(exact / g), in_steps, fresh_bits())
        return classes[chosen]

    def _doses_of(self, information: glm.AnswerInformation) -> FloatArray:
        """(people,) η² of these answers together."""
        return np.asarray(self._model.leakage(information).unit_scale_eta ** 2)

    def _entry_name(self, number: int) -> str:
        return f"{self._name}.{number:08d}"

    def _entry(self, name: str) -> Entry | None:
        try:
            return self._ledger.entry(name)
        except Tampered:
            raise
        except Refusal:
            return None

    def _load(self) -> None:
        """What was answered under this name so far, from the ledger itself."""
        self._step = self._allowance / STEPS
        self._add([entry for entry in self._ledger.releases() if _is_batch(entry, self._name)])

    def _catch_up(self) -> None:
        """What other processes answered under this name since."""
        entries: list[Entry] = []
        while (entry := self._entry(self._entry_name(self._batches + len(entries) + 1))) is not None:
            entries.append(entry)
        self._add(entries)

    def _add(self, entries: Sequence[Entry]) -> None:
        """Count booked batches. What counts as booked is rounded down."""
        batches = [] if self._information is None else [self._information]
        for entry in entries:
            stored = dict(entry.recipe["settings"])
            if entry.recipe["noise"] != repr(self._noise) or any(stored.get(k) != v for k, v in self._settings.items()):
                problem = "answered with another model, noise, kind of answer or measured list of queries"
                raise Refusal(f"{safe_text(self._name)} {problem}: choose a new name")
            self._step = float(stored["step"])
            table = _queries_of(self._ledger.artefact(entry.name), self._model)
            rows = self._model.encode(table)
            batches.append(self._model.information_at_most(rows, self._noise, self._answer))
            self._batches, self._seq = max(self._batches, int(entry.name.rsplit(".", 1)[1])), entry.seq
        self._information = glm.AnswerInformation.total(batches) if batches else None
        self._amount = 0.0 if self._information is None else self._reference.amount(self._information)
        self._level = math.ceil(self._amount * (1 - ROUNDING) / self._step)


def _queries_of(artefact: bytes, model: AnsweringModel) -> Table:
    """The queries of a booked batch."""
    columns = json.loads(artefact)["queries"]
    return Table.of({name: _of_one_kind(cells) for name, cells in columns.items()}, text=model.text)


def _of_one_kind(cells: list[Any]) -> list[Any]:
    """Cells of callers who were answered together: one wrote yes or no where another wrote a number."""
    kinds = {type(cell) for cell in cells}
    return [float(cell) for cell in cells] if bool in kinds and len(kinds) > 1 and str not in kinds else cells


def _is_batch(entry: Entry, name: str) -> bool:
    """Whether an entry is a batch of this gateway."""
    recipe = entry.recipe
    return bool(recipe["kind"] == KIND and dict(recipe["settings"]).get("gateway") == name)


def _drawable(noise: Any) -> Density:
    """The noise, refused if answers with it cannot be drawn or have no figure."""
    if not isinstance(noise, Density):
        raise Refusal(f"a gateway needs independent noise such as Gaussian(0.1), not {safe_text(noise)}")
    if not noise.regular:
        raise CannotMeasure(f"{noise} has no Fisher information: use another noise")
    grid_of(noise)
    return noise


def _people(model: AnsweringModel) -> Sequence[Any]:
    """The people in the order of their figures."""
    leak = model.parameters
    if leak.ids is None:
        raise Refusal("a gateway books doses of people: say whose each row is (person=) when you measure")
    if leak.standing not in COUNTED:
        raise CannotMeasure(f"figures of this model are only {leak.standing.value}s, which a ledger does not hold")
    return tuple(dict.fromkeys(leak.ids))


def _fingerprint(model: AnsweringModel) -> bytes:
    """A digest of the fit, its table and its people. Internal: the ledger marks it under its secret."""
    digest = sha256(repr((model.fit.loss, model.columns, model.parameters.measured_in)).encode())
    reference = model.reference.root if model.reference is not None else np.empty(0)
    for part in (model.fit.w, model.parameters.design.X, model.fit.y, np.abs(reference)):
        # Six digits: another machine's BLAS has other last bits.
        digest.update((np.round(np.asarray(part, dtype=np.float64), 6) + 0.0).tobytes())
    digest.update(repr(model.parameters.ids).encode())
    return digest.digest()
