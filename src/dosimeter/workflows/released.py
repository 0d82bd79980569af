"""What a verb that releases something returns: the result, the bytes that are sent, and what a ledger needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dosimeter.core.release import Recipe
from dosimeter.results.result import Result

if TYPE_CHECKING:
    from dosimeter.core.accounts import PersonDoses

R = TypeVar("R", bound=Result)
ZIP = b"PK\x03\x04"
"""How a .skops file begins."""


@dataclass(frozen=True, eq=False)
class Released(Generic[R]):
    """A release before it is booked and written.

    `ledger.book(released, name="june")` books it, `released.write("model.skops")` writes the artefact, and
    `dosimeter.report(released.result)` shows what may be said about it.

    Examples
    --------
    >>> import numpy as np, dosimeter as dm
    >>> rng = np.random.default_rng(0)
    >>> table = {"id": [f"p{k}" for k in range(60)], "x": rng.normal(size=60), "y": rng.normal(size=60)}
    >>> released = dm.fix(table, "y", person="id", max_dose=1.0, even_if_useless=True)
    >>> len(released.doses[0].ids), bool(released.doses[0].figures.max() <= 1.0)
    (60, True)
    """

    verb: str
    """The verb that made it."""
    result: R
    """What may be said about it; internal fields included."""
    artefact: bytes
    """What is sent. Empty if a limit kept the release back, and if it is too large to hold: then see `pieces`."""
    recipe: Recipe
    """Its public constants: kind, noise, settings."""
    doses: Sequence[PersonDoses]
    """What each person receives, for a ledger. Empty if no person was named. Internal."""
    noise_fingerprint: bytes
    """Identifies the noise draw: a second draw from the same data is a second release. Internal."""
    model: Any = None
    """The released object itself: a scikit-learn estimator, a network, labels."""
    extra_files: dict[str, bytes] = field(default_factory=dict)
    """Further files of the same release by their suffix: a network in .safetensors beside a pipeline."""
    table: Any = field(default=None, repr=False)
    """The rows it was made from, as they were read. Internal."""
    pieces: Callable[[], Iterator[bytes]] | None = field(default=None, repr=False)
    """What is sent, piece by piece, if it is too large to hold; the same bytes at every call."""

    @property
    def sha256(self) -> str:
        """Of the artefact, hex; "" if nothing was released. It ties a report to its file."""
        if self.pieces is not None:
            digest = hashlib.sha256()
            for piece in self.pieces():
                digest.update(piece)
            return digest.hexdigest()
        return hashlib.sha256(self.artefact).hexdigest() if self.artefact else ""

    def write(self, path: Any) -> None:
        """Write the artefact to a file that only its owner can read."""
        from dosimeter.core.errors import Refusal
        from dosimeter.core.text import safe_text
        from dosimeter.files.atomic import write_bytes, write_pieces

        if self.pieces is not None:
            write_pieces(path, self.pieces())
            return
        if not self.artefact:
            raise Refusal("nothing was released, so there is nothing to write: see result.verdict")
        if self.artefact.startswith(ZIP) and Path(path).suffix != ".skops":
            raise Refusal(f"{safe_text(Path(path).name)}: a released model is a .skops file")
        write_bytes(path, self.artefact)

    def write_doses(self, path: Any) -> None:
        """Write each person's dose to a file for `dm.release`, which books the artefact later. Internal."""
        from dosimeter.core.errors import Refusal
        from dosimeter.workflows.booking import write_dose_file

        if not self.artefact:
            raise Refusal("nothing was released, so there is no dose to write: see result.verdict")
        write_dose_file(Path(path), self, self.artefact)

    def with_result(self, **fields: Any) -> Released[R]:
        """The same release with some fields of its result set."""
        return replace(self, result=self.result.with_fields(**fields))

    def __repr__(self) -> str:
        empty = "nothing released" if self.pieces is None else "in pieces"
        size = f"{len(self.artefact)} bytes" if self.artefact else empty
        people = len({person for dose in self.doses for person in dose.ids})
        doses = f"doses of {people} people" if people else "no doses for a ledger"
        return f"<Released by {self.verb}: {size}, {self.recipe.noise}, {doses}>"

    def plot(self) -> Any:
        """The main chart of the result, as `result.plot()`. Internal."""
        return self.result.plot()

    def _repr_html_(self) -> str:
        return self.result._repr_html_()
