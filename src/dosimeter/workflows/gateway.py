"""`dm.Gateway`: a model that answers queries with noise, counts what each answer leaks, and refuses beyond a budget.

An answer is handed out after its transaction: the queries, the answers and each person's dose are then in the ledger.
What is killed before that was never seen; what is killed after it is counted.

The gateway keeps R with RᵀR the information of all its answers (docs/explanation/answers.md), so that a person's dose
is the joint one, ‖R J‖², and not a sum over batches. A batch books what the joint dose grows by, in whole steps of the
budget/1000 (in η²), rounded up: a person whose dose stays within the step gets no row. A ledger then holds at most 1000
rows of a person, however many answers there are. While ‖R‖² of a batch times the dose of the parameters shows that
everyone stays within their step, the joint doses are not computed at all.
"""

from __future__ import annotations

import json
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
from dosimeter.core.errors import CannotMeasure, LimitExceeded, Refusal
from dosimeter.core.noise import Density
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.release import Recipe
from dosimeter.core.text import safe_text
from dosimeter.ledger import Entry, Ledger, OverBudget
from dosimeter.models.answering_model import AnsweringModel
from dosimeter.noise_addition import add_noise, grid_of, noisy_argmax, noisy_at_least
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.tables.table import Table
from dosimeter.workflows.answers_leakage import AnswersLeakage, answer_kind

KIND = "answers"
STEPS = 1000
"""Steps of the budget in which doses are booked."""
ROUNDING = 1e-9
"""Relative margin for figures that another machine computes again: more is booked by it, and less counts as booked."""
RETRIES = 20
"""Attempts against other processes that answer under the same name."""
SPENT = "the budget of this gateway does not allow this batch: nothing was answered, and it answers nothing more"
COUNTED_OUT = "this gateway has {left} answers left and the batch has {asked} queries: nothing was answered"


class Gateway:
    """Answers queries with noise, books each person's dose before an answer is handed out, and refuses beyond a budget.

    Parameters
    ----------
    model : AnswersLeakage or AnsweringModel
        What `dm.measure(..., person=..., release="predictions", queries=...)` returned: the model with its table.
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
        If there is no person column, or the name was used for another model or other noise.
    CannotMeasure
        If such answers have no figure that a ledger could hold.

    Notes
    -----
    A refusal by the budget depends on the table. The gateway therefore answers nothing after one, until it is opened
    again. Threads may share a gateway, and processes may open one of the same name on one ledger.

    Numbers are answered on a public grid (`grid_of(noise)`) with the operating system's random bits: their last digits
    say nothing about the exact answer. A probability may lie outside 0 to 1; clip it if you need to.

    Examples
    --------
    >>> import dosimeter as dm
    >>> from tempfile import TemporaryDirectory
    >>> people = {"who": ["a", "b", "c", "d"], "age": [30, 41, 52, 68], "cost": [1.0, 2.0, 2.5, 4.5]}
    >>> leak = dm.measure(people, target="cost", person="who", release="predictions", queries={"age": [50]},
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
        if not isinstance(model, AnsweringModel):
            raise Refusal('a gateway needs what dm.measure(..., release="predictions", queries=...) returned')
        if budget is None:
            raise Refusal("a gateway needs a budget: the highest η of a person from all its answers")
        if most_answers is not None and most_answers < 1:
            raise Refusal(f"most_answers={most_answers}: give a whole number above 0, or leave it out")
        self._model, self._ledger = model, ledger
        self._noise = _drawable(noise)
        self._answer = answer_kind(answer)
        self._budget = positive("budget", budget)
        self._name, self._to, self._most = name, to, most_answers
        Booking(
            self._entry_name(1), Recipe(KIND, repr(self._noise)), b"-", ()
        )  # a name that no entry can have is refused
        self._ids = _people(model)
        self._of_parameters = model.parameters.unit_scale_eta**2
        self._lock = threading.RLock()
        self._exhausted = False
        self._information: glm.AnswerInformation | None = None
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
        information = self._model.information(rows, self._noise, self._answer)
        with self._lock:
            for _ in range(RETRIES):
                batch = self._prepare(table, rows, information)
                if self._book(batch):
                    return batch.values
                self._load()  # another process answered under this name
            raise Refusal(f"{safe_text(self._name)}: too many other processes answer under this name: try again")

    @property
    def answered(self) -> int:
        """Answers so far, those of earlier processes included."""
        return 0 if self._information is None else self._information.answers

    @property
    def left(self) -> int | None:
        """Answers that `most_answers` still allows; None without it."""
        return None if self._most is None else max(0, self._most - self.answered)

    @property
    def highest(self) -> float:
        """The highest η of a person from all answers so far. Internal."""
        return max(self.doses.values(), default=0.0)

    @property
    def doses(self) -> dict[Any, float]:
        """Person -> η of all answers so far, exactly. Internal; the ledger holds it rounded up to a step."""
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
            self._exhausted = True

    def __repr__(self) -> str:
        return f"<Gateway {safe_text(self._name)}: {self.answered} {self._answer.value} answered, {self._noise}>"

    # --- inside ---

    def _prepare(self, table: Table, rows: FloatArray, information: glm.AnswerInformation) -> _Batch:
        """The noised answers and what they add to each person's dose; refused if that is too much."""
        if self._exhausted:
            raise LimitExceeded("this gateway is closed: nothing was answered")
        if self.left is not None and information.answers > self.left:
            raise LimitExceeded(COUNTED_OUT.format(left=self.left, asked=information.answers))
        total = information if self._information is None else self._information + information
        spent = self._at_most + information.strength * self._of_parameters
        if np.any(np.ceil(spent * (1 + ROUNDING) / self._step) > self._booked):
            spent = self._doses_of(total)
        if np.sqrt(spent.max()) > self._budget * (1 + ROUNDING):
            self._exhausted = True
            raise LimitExceeded(SPENT)
        # By the step, and by the margin: both up.
        booked = np.maximum(np.ceil(spent * (1 + ROUNDING) / self._step), self._booked)
        values, token = self._draw(rows)
        return _Batch(self._entry_name(self._batches + 1), table, values, token, total, spent, booked)

    def _book(self, batch: _Batch) -> bool:
        """Whether it was booked now; False if another process booked under the same name before."""
        try:
            receipt = self._ledger.book(self._booking(batch))
        except OverBudget:
            self._exhausted = True
            raise LimitExceeded(SPENT) from None  # who, and by how much, is for the operator: see Ledger.totals
        except Refusal:
            if any(entry.name == batch.name for entry in self._ledger.releases()):
                return False
            raise
        if not receipt.fresh:
            return False
        self._information, self._at_most, self._booked = batch.information, batch.spent, batch.booked
        self._batches += 1
        return True

    def _booking(self, batch: _Batch) -> Booking:
        grown = np.flatnonzero(batch.booked > self._booked)
        # The ledger books no release without a person: one with a dose of 0 if all doses stay within their steps.
        persons = grown if len(grown) else np.arange(1)
        amounts = (batch.booked - self._booked)[persons] * self._step
        leak = self._model.parameters
        standing = leak.standing.weaker(batch.information.standing).weaker(Standing.UPPER_BOUND)
        dose = Dose(
            FISHER,
            "person",
            tuple(self._ids[int(i)] for i in persons),
            amounts,
            standing=standing,
            measured_in=leak.measured_in,
            not_covered=leak.not_covered,
        )
        settings = {**self._settings, "queries": batch.table.n, "step": self._step}
        recipe = Recipe(KIND, repr(self._noise), settings, leak.not_covered)
        return Booking(batch.name, recipe, batch.artefact, (dose,), batch.token, to=self._to)

    @property
    def _settings(self) -> dict[str, Any]:
        """What all batches of a gateway share; the model is known by a mark under the ledger's secret."""
        return {"gateway": self._name, "answer": self._answer.value, "grid": grid_of(self._noise), "model": self._mark}

    def _draw(self, rows: FloatArray) -> tuple[Any, bytes]:
        """Noised answers, and bytes that identify their noise."""
        exact = self._model.answers(rows, self._answer)
        if self._answer is not glm.Answer.LABELS:
            noised = add_noise(exact, self._noise)
            return (noised[:, 0] if noised.shape[1] == 1 else noised), (noised - exact).tobytes()
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
        return classes[chosen], secrets.token_bytes(32)

    def _doses_of(self, information: glm.AnswerInformation) -> FloatArray:
        """(people,) η² of these answers together."""
        return np.asarray(self._model.leakage(information).unit_scale_eta ** 2)

    def _entry_name(self, number: int) -> str:
        return f"{self._name}.{number:08d}"

    def _load(self) -> None:
        """What was answered under this name so far, from the ledger itself."""
        entries = [entry for entry in self._ledger.releases() if _is_batch(entry, self._name)]
        self._information = None
        self._step = self._budget**2 / STEPS
        self._batches = len(entries)
        for entry in entries:
            recipe = entry.recipe
            stored = dict(recipe["settings"])
            if recipe["noise"] != repr(self._noise) or any(stored.get(k) != v for k, v in self._settings.items()):
                raise Refusal(
                    f"{safe_text(self._name)} answered with another model, noise or kind of answer: choose a new name"
                )
            self._step = float(stored["step"])
            table = _queries_of(self._ledger.artefact(entry.name), self._model)
            more = self._model.information(self._model.encode(table), self._noise, self._answer)
            self._information = more if self._information is None else self._information + more
        nothing = np.zeros(len(self._ids))
        self._at_most = nothing if self._information is None else self._doses_of(self._information)
        self._booked = np.ceil(self._at_most * (1 - ROUNDING) / self._step)


class _Batch:
    """A batch that was drawn and not yet handed out."""

    def __init__(
        self,
        name: str,
        table: Table,
        values: Any,
        token: bytes,
        information: glm.AnswerInformation,
        spent: FloatArray,
        booked: FloatArray,
    ) -> None:
        self.name, self.table, self.values, self.token = name, table, values, token
        self.information, self.spent, self.booked = information, spent, booked

    @property
    def artefact(self) -> bytes:
        """The queries as they were asked, and the answers: what left."""
        queries = {name: self.table[name].tolist() for name in self.table.names}
        return json.dumps({"queries": queries, "answers": self.values.tolist()}, allow_nan=False).encode()


def _queries_of(artefact: bytes, model: AnsweringModel) -> Table:
    """The queries of a booked batch."""
    columns = json.loads(artefact)["queries"]
    return Table.of(columns, text=model.text)


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
    for part in (model.fit.w, model.parameters.design.X, model.fit.y):
        # Six digits: another machine's BLAS has other last bits.
        digest.update((np.round(np.asarray(part, dtype=np.float64), 6) + 0.0).tobytes())
    digest.update(repr(model.parameters.ids).encode())
    return digest.digest()
