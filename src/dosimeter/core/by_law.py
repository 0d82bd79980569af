"""What is chosen by the law of a noise: one entry for each law, and a refusal for every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from dosimeter.core.errors import CannotMeasure

Entry = TypeVar("Entry")


class ByLaw(Generic[Entry]):
    """Entries by the class of a law. A class derived from a known one may have another density: it is unknown.

    >>> from dosimeter.core.noise import Gaussian, Gumbel, Laplace
    >>> norm = ByLaw("has no norm here", {Gaussian: "2-norm", Laplace: "1-norm"})
    >>> norm[Laplace(0.5)], norm[Gaussian]
    ('1-norm', '2-norm')
    >>> norm[Gumbel(1.0)]
    Traceback (most recent call last):
    dosimeter.core.errors.CannotMeasure: Gumbel(s=1.0) has no norm here: use Gaussian, Laplace
    """

    def __init__(self, refusal: str, entries: Mapping[Any, Entry]) -> None:
        self._refusal = refusal
        self._entries: dict[type, Entry] = dict(entries)

    def __getitem__(self, law: Any) -> Entry:
        """The entry of a law, given as its class or at a scale; an unknown law is refused."""
        kind = law if isinstance(law, type) else type(law)
        if kind not in self._entries:
            name = law.__name__ if isinstance(law, type) else repr(law)
            known = ", ".join(entry.__name__ for entry in self._entries)
            raise CannotMeasure(f"{name} {self._refusal}: use {known}")
        return self._entries[kind]

    def __contains__(self, law: Any) -> bool:
        return (law if isinstance(law, type) else type(law)) in self._entries

    def __iter__(self) -> Iterator[type]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
