"""A noise by its name."""

from __future__ import annotations

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.noise import NOISES, Density
from dosimeter.core.text import safe_text


def noise_class(name: str) -> type[Density]:
    """The class of a noise.

    >>> noise_class("laplace").__name__
    'Laplace'
    """
    if name not in NOISES:
        # A law without Fisher information is known, and refused later for that reason: it is not suggested.
        usable = [known for known, law in NOISES.items() if law.regular]
        raise Refusal(f"{option('noise', safe_text(name))}: use {', '.join(usable)}")
    return NOISES[name]
