"""Drawing noise safely: exact, on a grid, from the operating system's bits. docs/sampling.md has the argument."""

from dosimeter.sampling.argmax import noisy_argmax, noisy_at_least
from dosimeter.sampling.fold import folded
from dosimeter.sampling.grid import grid_of
from dosimeter.sampling.mechanism import noisy
from dosimeter.sampling.release import release
from dosimeter.sampling.simulation import simulate

__all__ = ["folded", "grid_of", "noisy", "noisy_argmax", "noisy_at_least", "release", "simulate"]
