"""What `pate` is given: tables or ready votes on one side, a budget or a scale on the other, both checked first."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

if TYPE_CHECKING:
    from dosimeter.core.density import Density
    from dosimeter.models.label_task import LabelTask
    from dosimeter.pate.ensemble import Progress
    from dosimeter.pate.label import Labels
    from dosimeter.pate.threshold import Threshold
    from dosimeter.pate.votes import Votes
    from dosimeter.tables.table import Table


@dataclass(frozen=True)
class DroppedRows:
    """Of the private table, for a missing value or a class that is not listed. Internal: a gap is one person's."""

    rows: int = 0
    persons: int = 0
    """Those who have no row left."""


@dataclass(frozen=True, eq=False)
class VoteSet:
    """The votes, whose data they come from, and how many teachers lack a class. Internal."""

    votes: Votes
    classes: tuple[str, ...]
    keys: tuple[Any, ...]
    """(k,) the number, or the name, of each public row or query."""
    named: str
    """What a key is: "row" counts from 1, "query" from 0 as the columns of the votes do, "key" is a name."""
    source: str
    uncovered: tuple[str, ...]
    declared: bool
    """Whether the classes were listed beforehand."""
    remarks: tuple[str, ...] = ()
    ballot: LabelTask | None = None
    teacher_of: Mapping[Hashable, int] | None = None
    constant: int = 0
    lacking: int = 0
    empty: int = 0
    """Teachers without rows."""
    left_out: DroppedRows | None = None
    """None where the table was not read here."""


@dataclass(frozen=True, eq=False)
class ImportedVotes:
    """Votes made elsewhere."""

    votes: Votes
    source: str

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Queries, classes, teachers."""
        return self.votes.n_queries, self.votes.n_classes, self.votes.n_teachers

    def cast(self, **_: Any) -> VoteSet:
        """As they are."""
        notes = (
            "how the votes came about: the figures are about one teacher's vote, and about one person only where no "
            "person's rows taught two teachers",
            "earlier and later labels of the same people: each run adds its own nats",
        )
        classes = tuple(str(k) for k in range(self.votes.n_classes))
        return VoteSet(self.votes, classes, tuple(range(self.votes.n_queries)), "query", self.source, notes, True)


@dataclass(frozen=True, eq=False)
class TablesTask:
    """A private and a public table, and the teachers still to be trained."""

    ballot: LabelTask
    keys: tuple[Any, ...]
    source: str
    estimator: str
    teachers: int
    named: str = "row"
    left_out: DroppedRows = DroppedRows()
    remarks: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Queries, classes, teachers."""
        return self.ballot.n_queries, len(self.ballot.classes), self.teachers

    def cast(self, *, resume: Path | None, inputs: Sequence[Path], jobs: int, words: Any) -> VoteSet:
        """Train, from where an earlier run stopped if there is a file that says so."""
        from dosimeter.cli.environment import Stopped
        from dosimeter.files.pate_checkpoint import read_progress, write_progress

        if jobs == 0 or jobs < -1:
            raise Refusal(f"--jobs {jobs}: give a number of processes, or -1 for all cores")
        work = self.ballot.training(self.estimator, self.teachers)
        state = work.start() if resume is None or not resume.exists() else work.checked(read_progress(resume))
        again = (f"all votes were in {resume}: labels released from them before are paid for again",)
        remarks = (*(again if state.done.all() else ()), *self.ballot.columns.remarks, *self.remarks)
        try:
            for state in _watched(work.run(state, n_jobs=jobs), self.teachers, words):  # noqa: B020
                if resume is not None:
                    write_progress(resume, state, inputs=tuple(inputs))
        except KeyboardInterrupt:
            if resume is None or not resume.exists():
                raise
            raise Stopped("the same command goes on from the votes in --resume") from None
        return VoteSet(
            work.votes(state), self.ballot.classes, self.keys, self.named, self.source, self.ballot.uncovered,
            self.ballot.declared, remarks, self.ballot, work.partition.teacher_of, state.constant, state.lacking,
            state.empty, self.left_out,
        )  # fmt: skip


def _watched(states: Iterator[Progress], teachers: int, words: Any) -> Iterator[Progress]:
    """The states, with a bar on a terminal."""
    if not words.is_terminal or words.quiet:
        yield from states
        return
    from rich.progress import Progress as Bar

    from dosimeter.core.progress import stage

    stage("")  # the bar instead of the line
    with Bar(console=words, transient=True) as bar:
        task = bar.add_task("training teachers", total=teachers)
        for state in states:
            bar.update(task, completed=int(state.done.sum()))
            yield state


def from_votes(path: Path, classes: str | None, queries: int | None) -> ImportedVotes:
    """Votes in a file; `classes` says how many classes there are, votes or none."""
    from dosimeter.files.pate_checkpoint import read_votes
    from dosimeter.pate.votes import Votes

    if classes is None or not classes.strip().isdecimal():
        raise Refusal("--votes needs --classes and the number of classes, such as --classes 10")
    read = read_votes(path)
    if read.ndim == 2 and queries is not None:
        if not 1 <= queries <= read.shape[1]:
            raise Refusal(f"--queries {queries}: the file has votes on {read.shape[1]} queries")
        read = read[:, :queries]
    try:
        return ImportedVotes(Votes(read, int(classes)), path.name)
    except Refusal as error:
        raise Refusal(f"{safe_text(path, 120)}: {error}") from None


def from_tables(
    table: Path | None,
    public: Path | None,
    target: str | None,
    *,
    person: str | None,
    key: str | None,
    classes: str | None,
    queries: int | None,
    nominal: list[str],
    drop: list[str],
    read: Mapping[str, str],
    estimator: str,
    teachers: int,
) -> TablesTask:
    """Two tables read, or the digits without them, and the question put."""
    from dosimeter.cli.options import read as read_people
    from dosimeter.datasets import digits
    from dosimeter.models.label_task import ballot, check_classes, estimator_of

    estimator_of(estimator)  # a name that is not known is refused before anything is read
    safe_list = None if classes is None else [name.strip() for name in classes.split(",")]
    if safe_list is not None:
        check_classes(safe_list)
    gone = DroppedRows()
    if table is None or public is None or target is None:
        private, open_rows = digits.digits()
        target, source = digits.TARGET, "digits that ship with scikit-learn"
    else:
        _refuse_itself(table, public)
        how: dict[str, Any] = {"target": target, "classes": safe_list, "class_names": True}
        private = read_people(table, read["delimiter"], read["missing"], person, nominal, drop, **how)
        open_rows = _public(public, private.names, person, key, nominal, drop, read)
        gone = _left_out(table, private, person, drop, read["delimiter"])
        source = table.name
    if table is None and safe_list is None:
        safe_list = list(digits.CLASSES)
    asked = ballot(
        private, open_rows.drop([] if key is None else [key]), target,
        person=person, nominal=nominal, classes=safe_list, queries=queries,
    )  # fmt: skip
    names = asked.rows + 1 if key is None else open_rows[key]
    keys, named = tuple(names[: asked.n_queries].tolist()), "row" if key is None else "key"
    met = () if table is None else _met_again(private, asked, open_rows, person)
    return TablesTask(asked, keys, source, estimator, teachers, named, gone, met)


def _left_out(path: Path, private: Table, person: str | None, drop: Sequence[str], delimiter: str) -> DroppedRows:
    """Who is gone is not in the table that was read: the column of persons is read once more, alone."""
    from dosimeter.tables.read import read_table

    if person is None or not private.dropped:
        return DroppedRows(private.dropped, private.dropped)
    others = [name for name in dict.fromkeys([*private.names, *drop]) if name != person]
    everybody = read_table(path, delimiter=delimiter, text=[person], drop=others, missing="drop")[person]
    return DroppedRows(private.dropped, len(set(everybody.tolist()) - set(private[person].tolist())))


def _public(
    path: Path,
    used: Sequence[str],
    person: str | None,
    key: str | None,
    nominal: list[str],
    drop: list[str],
    read: Mapping[str, str],
) -> Table:
    """The public table; a column to drop that only the private one has is no mistake here."""
    from dosimeter.tables.read import read_table

    if key is not None and key in used and key != person:
        raise Refusal(f"--key {safe_text(key)} is a column that the teachers learn from: name another")
    there = drop
    if drop:
        with suppress(Refusal):  # what is wrong with the table is said below, when it is read in earnest
            names = read_table(path, delimiter=read["delimiter"], text=nominal, missing="drop").names
            there = [name for name in drop if name in names]
    text = tuple(dict.fromkeys([*nominal, *([] if key is None else [key])]))
    policy: Any = read["missing"]
    return read_table(path, delimiter=read["delimiter"], text=text, drop=there, missing=policy)


def _refuse_itself(table: Path, public: Path) -> None:
    """The noise protects the private rows from the labels, and not from being the public rows themselves."""
    with suppress(OSError):  # a file that is not there is refused when it is read
        if table.samefile(public):
            raise Refusal(f"--public {safe_text(public.name)} is the private table itself: name a table of public rows")


def _met_again(private: Table, asked: LabelTask, open_rows: Table, person: str | None) -> tuple[str, ...]:
    """Remarks where public rows are private ones, or public names those of private persons. Internal."""
    import numpy as np

    known = {row.tobytes() for row in np.ascontiguousarray(asked.X)}
    same = sum(row.tobytes() in known for row in np.ascontiguousarray(asked.public))
    remarks = []
    if same:
        remarks.append(
            f"{same} of {len(asked.public)} public rows are rows of the private table too, in all columns that the "
            "teachers learn from: if they are private, what stands beside the labels is not protected"
        )
    if person is not None and person in open_rows.names:
        both = set(map(str, open_rows[person].tolist())) & set(map(str, private[person].tolist()))
        if both:
            remarks.append(
                f"{len(both)} of the public table's {safe_text(person)} are persons of the private table too"
            )
    return tuple(remarks)


@dataclass(frozen=True)
class VoteNoise:
    """The noise and the threshold, from public constants alone; `over` says why nothing may be released."""

    noise: Density
    threshold: Threshold | None
    over: str = ""


def how(
    law: type[Density], limit: float | None, scale: float | None, T: float | None, sizes: tuple[int, int, int]
) -> VoteNoise:
    """The least noise of this law within the limit (nats), or the public scale, checked against it."""
    from dosimeter.pate.budget import plan
    from dosimeter.pate.doses import published
    from dosimeter.pate.threshold import free_threshold

    k, m, teachers = sizes
    if T is not None and not 0 < T <= teachers:
        raise Refusal(f"--threshold {T:g}: with {teachers} teachers give a number of votes from 1 to {teachers}")
    if scale is None and limit is not None:
        noise = plan(limit, k, m, law=law).noise
    else:
        made: Any = law
        noise = made(scale)
    threshold = None if T is None else free_threshold(T, noise, m)
    spent = published(k, m, noise, threshold=threshold).nats
    if limit is not None and spent > limit:
        why = f"{k} queries with {noise!r} may give away {spent:.4g} nats, above the budget of {limit:g}"
        return VoteNoise(noise, threshold, f"refused: {why}; nothing was written")
    return VoteNoise(noise, threshold)


def as_sheet(cast: VoteSet, labels: Labels) -> bytes:
    """The labels as they leave: a public row's name and its label, nothing else; "" where none was given."""
    from dosimeter.files.csv_export import sheet

    names = ["" if value < 0 else cast.classes[value] for value in labels.values.tolist()]
    return sheet({cast.named: cast.keys, "label": names}).encode("utf-8")


def from_sheet(cast: VoteSet, labels: Labels, data: bytes) -> Labels:
    """The labels that a sheet of these public rows holds, under the recipe of `labels`."""
    import numpy as np

    from dosimeter.core.release import Release
    from dosimeter.files.csv_export import sheet

    # A sheet guards names that begin like formulas: read back, a class is known by its guarded name.
    safe_list = _cells(sheet({"label": cast.classes}))
    place = {name: k for k, (name,) in enumerate(safe_list)}
    told = [place.get(row[1], -1) for row in _cells(data.decode("utf-8"))]
    if len(told) != len(cast.keys):
        raise Refusal(f"the labels booked under this name are {len(told)} and not {len(cast.keys)}: take another name")
    return replace(labels, release=Release({"labels": np.array(told, dtype=np.float64)}, labels.release.recipe))


def _cells(text: str) -> list[list[str]]:
    """The rows of a sheet below its header."""
    import csv
    import io

    return list(csv.reader(io.StringIO(text, newline="")))[1:]
