"""Drawing noise safely: exact, on a grid, from the operating system's bits. docs/sampling.md has the argument."""

from dosimeter.noise_addition.argmax import noisy_argmax, noisy_at_least
from dosimeter.noise_addition.grid import grid_of
from dosimeter.noise_addition.linear_map import folded
from dosimeter.noise_addition.mechanism import noisy
from dosimeter.noise_addition.release import release
from dosimeter.noise_addition.simulation import simulate

__all__ = ["folded", "grid_of", "noisy", "noisy_argmax", "noisy_at_least", "release", "simulate"]
