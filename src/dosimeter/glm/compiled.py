"""Machine code for the two loops that numpy is slow at in small tables: the extra `fast`, used where it is installed.

llvmlite compiles the text of programs.py, once a process, in about a tenth of a second: nothing is kept on disk, and no
first call has to wait. A row that is not solved beyond doubt is handed back, and the plain path takes it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.programs import MOMENTS, SOLVE, TILE, WIDTH, source
from dosimeter.glm.ritz import Poles

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


def moments(X: FloatArray, weight: FloatArray, first: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Xᵀ diag(weight) X, (d, d), and Xᵀ first, (d,), d > TILE, in one reading of X (n, d); weight, first (n,)."""
    plan = _squares(X.shape[1])
    on, off, sums = plan.diagonal, plan.other, np.zeros(plan.size)
    arrays = (*(np.ascontiguousarray(x) for x in (X, weight, first)), on, off, sums)
    *addresses, begin = (x.ctypes.data for x in arrays)
    _programs().moments(*addresses, begin, begin + 8 * len(on) * (TILE + 1) * TILE, *X.shape, len(on), len(off))
    return sums[plan.second], sums[plan.first]


@dataclass(frozen=True)
class _Squares:
    """How a (d, d) matrix is cut into squares of TILE, and where in the sums of all squares each entry lies."""

    diagonal: npt.NDArray[np.int64]  # (k, 2) first row and first column of each square
    other: npt.NDArray[np.int64]  # (k (k − 1) / 2, 2) those above the diagonal
    second: npt.NDArray[np.intp]  # (d, d)
    first: npt.NDArray[np.intp]  # (d,) of the line below each square on the diagonal
    size: int


@lru_cache(maxsize=64)
def _squares(d: int) -> _Squares:
    # The last square overlaps the one before where d is no multiple of TILE: both then hold the same sums.
    starts = [*range(0, d - TILE, TILE), d - TILE]
    diagonal, other = [(i, i) for i in starts], [(i, j) for i in starts for j in starts if i < j]
    second, first, begin = np.empty((d, d), np.intp), np.empty(d, np.intp), 0
    line = np.arange(TILE)
    for i, j in diagonal + other:
        second[j : j + TILE, i : i + TILE] = begin + line[:, None] + TILE * line
        second[i : i + TILE, j : j + TILE] = begin + TILE * line[:, None] + line
        if i == j:
            first[i : i + TILE] = begin + TILE * TILE + line
        begin += TILE * (TILE + (i == j))
    return _Squares(np.array(diagonal, np.int64), np.array(other, np.int64), second, first, begin)


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


def build(text: Callable[[bool], str]) -> Machine:
    """The machine code of text(whether AVX-512 is there), a module in LLVM's language, for this processor."""
    import llvmlite.binding as llvm  # late: it is an extra

    if llvm.llvm_version_info[0] < 17:  # it would complain on stderr before it fails
        raise RuntimeError(f"LLVM {llvm.llvm_version_info} does not know pointers without a type")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features.flatten(), opt=3)
    module = llvm.parse_assembly(text(bool(features.get("avx512f"))))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Machine(engine)


@dataclass(frozen=True)
class Programs:
    """The compiled functions of programs.py."""

    machine: Machine
    solve: Callable[..., None]
    moments: Callable[..., None]

    @classmethod
    def of(cls, machine: Machine) -> Programs:
        return cls(machine, machine.function("solve", SOLVE), machine.function("moments", MOMENTS))


@cache
def _programs() -> Programs:
    return Programs.of(build(source))
