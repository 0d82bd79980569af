"""Drawing noise safely: exactly, on a grid, from the operating system's bits. Proofs: docs/explanation/sampling.md."""

from dosimeter.noise_addition.argmax import noisy_argmax, noisy_at_least
from dosimeter.noise_addition.grid import grid_of
from dosimeter.noise_addition.linear_map import noisy_linear_map
from dosimeter.noise_addition.mechanism import add_noise
from dosimeter.noise_addition.release import release
from dosimeter.noise_addition.simulation import simulate

__all__ = ["add_noise", "grid_of", "noisy_argmax", "noisy_at_least", "noisy_linear_map", "release", "simulate"]
