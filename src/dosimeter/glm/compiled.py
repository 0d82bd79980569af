"""Machine code for the two loops that numpy is slow at in small tables: the extra `fast`, used where it is installed.

llvmlite compiles the text of programs.py, once a process, in about a tenth of a second: nothing is kept on disk, and no
first call has to wait. A row that is not solved beyond doubt is handed back, and the plain path takes it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.glm.kernel import Poles
from dosimeter.glm.programs import GRAM, SOLVE, TILE, WIDTH, source

FEWEST = 2_048
"""Tables of fewer rows take the plain path: it is done before a program would be compiled."""

KINDS = {"ptr": ctypes.c_void_p, "double": ctypes.c_double, "i64": ctypes.c_int64}


@dataclass(frozen=True)
class Table:
    """What all rows share, in the units of `Poles`."""

    poles: Poles
    sigma: float  # √D_0
    tau: float  # ‖t‖
    v0: float
    cancelled: float  # the share of its bound below which an eigenvalue is not believed
    huge: float  # the length from which a row is not tried


def wanted(n: int) -> bool:
    """Whether a table of n rows goes through the compiled programs: it is large enough, and llvmlite is there."""
    return n >= FEWEST and available()


@cache
def available() -> bool:
    """Whether llvmlite is installed and compiles the programs for this machine."""
    try:
        _programs()
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def solve(table: Table, Z: FloatArray, a: FloatArray, r: FloatArray, A: FloatArray) -> FloatArray:
    """λ₁ of each row, (m,), or UNSOLVED; Z (p, m), p >= 2, and a, r, A (m,)."""
    m, poles = Z.shape[1], table.poles
    fill = max(0, WIDTH - m)
    Z, a, r, A = (np.ascontiguousarray(_longer(x, fill) if fill else x) for x in (Z, a, r, A))
    gaps, out = poles.outer[:, 0], np.empty(m + fill)
    D = poles.floor - poles.spread * gaps
    columns = np.stack((gaps, poles.v, poles.vv, D), axis=1)
    arrays = (Z, columns, a, r, A, np.empty((len(gaps), WIDTH)), out)
    numbers = (poles.floor, poles.spread, table.sigma, table.tau, table.v0)
    sums = (float(poles.vv.sum()), float(poles.vv @ D), table.cancelled, table.huge)
    _programs().solve(*(x.ctypes.data for x in arrays), *numbers, *sums, m + fill, m + fill, len(gaps))
    return out[:m]


def gram(X: FloatArray, weight: FloatArray) -> FloatArray:
    """Xᵀ diag(weight) X, (d, d), d >= TILE; X (n, d), weight (n,)."""
    d = X.shape[1]
    starts = [*range(0, d - TILE, TILE), d - TILE]
    # The last square may overlap the one before: both then hold the same sums.
    corners = np.array([(i, j) for i in starts for j in starts if i <= j], dtype=np.int64)
    out, G = np.zeros((len(corners), TILE, TILE)), np.empty((d, d))
    X, weight = np.ascontiguousarray(X), np.ascontiguousarray(weight)
    _programs().gram(*(x.ctypes.data for x in (X, weight, corners, out)), *X.shape, len(corners))
    for (i, j), square in zip(corners.tolist(), out, strict=True):
        G[i : i + TILE, j : j + TILE] = square
        G[j : j + TILE, i : i + TILE] = square.T
    return G


def _longer(x: FloatArray, by: int) -> FloatArray:
    return np.concatenate([x, np.zeros((*x.shape[:-1], by))], axis=-1)


@dataclass(frozen=True)
class Machine:
    """Compiled functions by name."""

    engine: Any
    """Owns the code that the functions point into."""

    def function(self, name: str, arguments: dict[str, tuple[str, ...]]) -> Callable[..., None]:
        """The function, taking addresses and numbers in the order of `arguments`; it runs without Python's lock."""
        kinds = [KINDS[kind] for kind, names in arguments.items() for _ in names]
        return ctypes.CFUNCTYPE(None, *kinds)(self.engine.get_function_address(name))


def build(text: str) -> Machine:
    """The machine code of a module in LLVM's language, for this processor."""
    import llvmlite.binding as llvm  # late: it is an extra

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Machine(engine)


@dataclass(frozen=True)
class _Programs:
    machine: Machine
    solve: Callable[..., None]
    gram: Callable[..., None]


@cache
def _programs() -> _Programs:
    machine = build(source())
    return _Programs(machine, machine.function("solve", SOLVE), machine.function("gram", GRAM))
