"""What a transport does for the protocol: it carries bytes to sites and back, and knows which site sent what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Answerer = Callable[[bytes], bytes]
"""What a site does with a question; it never raises."""


class Exchange(Protocol):
    """HTTPS, Flower, or the same process.

    A transport authenticates each site, passes an answer on only under the number of the site that sent it, and refuses
    bytes beyond `most` before it holds them. It reads nothing else in a message but what `accept` says about it.
    """

    def ask(
        self, questions: Mapping[int, bytes], *, deadline: float, most: int, accept: Callable[[int, bytes], bool]
    ) -> Mapping[int, bytes]:
        """The answers that arrived within `deadline` seconds, by site; a site that did not answer is missing.

        accept: whether bytes from a site are the answer to the question that is open there; if not, the transport
        drops them and keeps waiting.
        """
        ...


@dataclass
class DirectExchange:
    """Sites in this process, for tests and simulations: the same bytes, no network.

    >>> exchange = DirectExchange({1: lambda question: question[::-1]})
    >>> exchange.ask({1: b"abc"}, deadline=1.0, most=10, accept=lambda site, data: True)
    {1: b'cba'}
    """

    sites: Mapping[int, Answerer]
    passed: list[bytes] = field(default_factory=list)
    """Everything that crossed, in both directions."""

    def ask(
        self, questions: Mapping[int, bytes], *, deadline: float, most: int, accept: Callable[[int, bytes], bool]
    ) -> dict[int, bytes]:
        """The answers of the sites that exist."""
        answers = {}
        for site, question in questions.items():
            if site in self.sites:
                answer = self.sites[site](question)
                self.passed += [question, answer]
                if len(answer) <= most and accept(site, answer):
                    answers[site] = answer
        return answers
