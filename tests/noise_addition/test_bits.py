"""The bits come from the operating system alone, at each call; without them nothing is released."""

from __future__ import annotations

import ast
import os
import pickle
import random
import subprocess
import sys
import warnings
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import dosimeter.noise_addition
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.noise_addition import add_noise
from dosimeter.noise_addition.bits import fresh_bits

PACKAGE = Path(dosimeter.noise_addition.__file__).parent
RELEASE_PATH = ["argmax", "bits", "exact", "grid", "inverse_cdf", "linear_map", "mechanism", "multiprecision"]
SIZE = 100_000
# Two independent draws of one value fall on the same step with probability g/(2√π σ) <= 4.3e-6 at the default grid:
# 0.43 times in SIZE are due, and 25 or more have probability 1e-35.
FEW = 25


def draw() -> np.ndarray:
    return add_noise(np.zeros(SIZE), Gaussian(1.0))


def assert_unlike(draws: list[np.ndarray]) -> None:
    assert all((a == b).sum() < FEW for a, b in combinations(draws, 2))


def test_the_keystream_is_aes_256_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with the counter blocks encrypted one by one in ECB mode."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda n: key[:n])
    bits = fresh_bits()
    got = np.concatenate([bits(3), bits(0), bits(5)])  # consecutive pieces of one stream
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = ecb.update(b"".join(i.to_bytes(16, "big") for i in range(4)))
    assert got.tobytes() == np.frombuffer(blocks, "<u8").astype(np.uint64).tobytes()


def test_every_bit_of_a_word_is_fair() -> None:
    """64 counts of 2e5 fair bits; beyond 8 deviations once in 1e13 runs."""
    random_words = fresh_bits()(200_000)
    ones = np.array([int((random_words >> np.uint64(k) & np.uint64(1)).sum()) for k in range(64)])
    assert np.abs(ones - 100_000).max() < 8 * np.sqrt(50_000)


def test_two_calls_and_pickled_mechanisms_draw_differently() -> None:
    mechanism = partial(add_noise, np.zeros(SIZE), Gaussian(1.0))
    copies = [pickle.loads(pickle.dumps(mechanism)) for _ in range(2)]  # noqa: S301
    assert_unlike([mechanism(), mechanism(), *(copy() for copy in copies)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_children_draw_differently() -> None:
    draw()  # any state would exist before the fork
    assert_unlike([draw(), *(in_a_child() for _ in range(8))])


def in_a_child() -> np.ndarray:
    """What a forked child draws, through a pipe."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS threads; the child only draws and leaves
        child = os.fork()
    if child == 0:
        with os.fdopen(write_end, "wb") as out:
            out.write(draw().tobytes())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as source:
        answer = source.read()
    os.waitpid(child, 0)
    return np.frombuffer(answer)


def test_the_global_generators_of_numpy_and_python_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    for _ in range(2):
        np.random.seed(7)  # noqa: NPY002
        random.seed(7)
        draws.append(draw())
    assert_unlike(draws)

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("a release drew from a global generator")

    before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]  # noqa: NPY002
    for module, names in (
        (np.random, ("default_rng", "normal", "bytes", "random")),
        (random, ("random", "getrandbits")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, forbidden)
    draw()
    assert (np.random.get_state()[1] == before[0]).all()  # type: ignore[index]  # noqa: NPY002
    assert random.getstate() == before[1]


def test_the_global_generator_of_torch_has_no_effect() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    draws = []
    for _ in range(2):
        torch.manual_seed(7)
        draws.append(draw())
    assert_unlike(draws)


@pytest.mark.parametrize("error", [OSError("entropy source gone"), NotImplementedError("no source")])
def test_without_random_bytes_nothing_is_released(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(n: int) -> bytes:
        raise error

    monkeypatch.setattr(os, "urandom", fail)
    with pytest.raises(Refusal, match="no random bytes"):
        add_noise([1.0], Gaussian(1.0))


def test_too_few_random_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda n: bytes(n - 1))
    with pytest.raises(Refusal, match="31 random bytes"):
        add_noise([1.0], Gaussian(1.0))


@pytest.mark.parametrize("name", RELEASE_PATH)
def test_no_module_of_the_release_path_knows_another_generator(name: str) -> None:
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        assert not (isinstance(node, ast.Attribute) and node.attr in ("random", "default_rng"))
    assert not [i for i in imported if i.split(".")[0] in ("random", "secrets", "torch") or ".random" in i]
    siblings = {i.split(".")[2] for i in imported if i.startswith("dosimeter.noise_addition.")}
    assert siblings <= set(RELEASE_PATH), "the path is closed: what it imports is checked as well"


def test_every_module_is_on_the_release_path_or_named_here() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == {*RELEASE_PATH, "__init__", "release", "simulation"}


def test_the_import_is_light() -> None:
    code = "import sys, dosimeter.noise_addition; print([m for m in ('mpmath', 'cryptography') if m in sys.modules])"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
