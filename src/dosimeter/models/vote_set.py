"""The votes of teachers: imported, or of teachers trained on parts of a private table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import Interrupted, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.models.label_task import OTHER_LABELS, LabelTask

if TYPE_CHECKING:
    from dosimeter.pate.ensemble import Progress
    from dosimeter.pate.votes import Votes

Watch = Callable[["Iterator[Progress]"], "Iterator[Progress]"]
"""Yields the same states of training, and shows how far it is."""


@dataclass(frozen=True)
class DroppedRows:
    """Private rows left out for a missing value or an unlisted class. Internal: a missing value is one person's."""

    rows: int = 0
    persons: int = 0
    """Persons without a row left."""


@dataclass(frozen=True, eq=False)
class VoteSet:
    """The votes, whose data they come from, and how many teachers lack a class. Internal."""

    votes: Votes
    classes: tuple[str, ...]
    keys: Sequence[Any]
    """(k,) the number, or the name, of each public row or query; a range if they are counted."""
    key_name: str
    """What a key is: "row" counts from 1, "query" from 0 as the columns of the votes do, "key" is a name."""
    source: str
    not_covered: tuple[str, ...]
    declared: bool
    """Whether the classes were listed in advance."""
    remarks: tuple[str, ...] = ()
    task: LabelTask | None = None
    """None for imported votes."""
    teacher_of: Mapping[Hashable, int] | None = None
    """Person, or place of a row, -> teacher; None for imported votes."""
    constant: int = 0
    """Teachers with one class, who always vote for it."""
    lacking: int = 0
    """Teachers that lack a class."""
    empty: int = 0
    """Teachers without rows."""
    dropped: DroppedRows | None = None
    """None for imported votes."""

    @property
    def persons_named(self) -> bool:
        """Whether teachers are assigned by the ids of persons, and not by the positions of rows."""
        return self.task is not None and self.task.persons is not None


@dataclass(frozen=True, eq=False)
class ImportedVotes:
    """Votes that were imported."""

    votes: Votes
    source: str

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Queries, classes, teachers."""
        return self.votes.n_queries, self.votes.n_classes, self.votes.n_teachers

    def cast(self, **_: Any) -> VoteSet:
        """The votes as they are."""
        notes = (
            "how the votes came about: the figures are about one teacher's vote, and about one person only if no "
            "person's rows taught two teachers",
            OTHER_LABELS,
        )
        classes = tuple(str(k) for k in range(self.votes.n_classes))
        return VoteSet(self.votes, classes, range(self.votes.n_queries), "query", self.source, notes, True)


@dataclass(frozen=True, eq=False)
class TablesTask:
    """A private and a public table, and the teachers still to be trained."""

    task: LabelTask
    keys: tuple[Any, ...]
    source: str
    estimator: str
    teachers: int
    key_name: str = "row"
    dropped: DroppedRows = DroppedRows()
    remarks: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Queries, classes, teachers."""
        return self.task.n_queries, len(self.task.classes), self.teachers

    def cast(
        self,
        *,
        checkpoint: Path | None = None,
        inputs: Sequence[Path] = (),
        jobs: int = 1,
        watch: Watch = iter,
    ) -> VoteSet:
        """Train the teachers, from the votes in the checkpoint if there is one, and let them vote."""
        from dosimeter.files.pate_checkpoint import read_progress, write_progress

        if jobs == 0 or jobs < -1:
            raise Refusal(f"{option('jobs', jobs)}: give a number of processes, or -1 for all cores")
        work = self.task.training(self.estimator, self.teachers)
        resumed = checkpoint is not None and checkpoint.exists()
        state = work.check(read_progress(checkpoint)) if checkpoint is not None and resumed else work.start()
        spent = f"all votes were in {safe_text(checkpoint, 120)}: labels released from them before are charged again"
        remarks = (*((spent,) if state.finished.all() else ()), *self.task.remarks, *self.remarks)
        try:
            for state in watch(work.run(state, n_jobs=jobs)):  # noqa: B020
                if checkpoint is not None:
                    write_progress(checkpoint, state, inputs=tuple(inputs))
        except KeyboardInterrupt:
            if checkpoint is None or not checkpoint.exists():
                raise
            raise Interrupted(f"go on with {option('resume')}") from None
        return VoteSet(
            votes=work.votes(state),
            classes=self.task.classes,
            keys=self.keys,
            key_name=self.key_name,
            source=self.source,
            not_covered=self.task.not_covered,
            declared=self.task.declared,
            remarks=remarks,
            task=self.task,
            teacher_of=work.partition.teacher_of,
            constant=state.constant,
            lacking=state.lacking,
            empty=state.empty,
            dropped=self.dropped,
        )
