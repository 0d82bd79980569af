"""Every verb with a result, run on made-up people through the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.cli.main import run
from dosimeter.results.result import read
from tests.fixed_noise import fixed_noise

COLUMNS = ("who", "age", "bmi", "ward", "score", "ill", "site")
BOUNDS = """
[age]
lower = 0
upper = 9999
[bmi]
lower = 0
upper = 9999
[score]
lower = 0
upper = 9999
[ward]
levels = ["north", "south"]
[ill]
levels = ["no", "yes"]
"""


def people(seed: int, n: int = 120) -> list[tuple[Any, ...]]:
    """Rows under COLUMNS: two rows a person, numbers from 1000 to 9999 with unique digits, two levels a category."""
    rng = np.random.default_rng(seed)
    age, bmi = rng.uniform(1000, 9999, n), rng.uniform(1000, 9999, n)
    score = np.clip(0.4 * age + 0.5 * bmi + rng.normal(0, 200, n), 1000, 9999)
    ill = np.where(score + rng.normal(0, 500, n) > np.median(score), "yes", "no")
    ward = rng.permutation(np.repeat(["north", "south"], n // 2))
    ids = [f"canary-{rng.integers(1 << 60):015x}" for _ in range(n // 2)]
    sites = [f"site-{rng.integers(1 << 60):015x}" for _ in range(10)]
    return [
        (ids[k // 2], *(float(f"{v[k]:.11g}") for v in (age, bmi)), ward[k], float(f"{score[k]:.11g}"), ill[k],
         sites[k % 10])
        for k in range(n)
    ]  # fmt: skip


def several_classes(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same rows with a third class of illness, for two people in six."""
    ill = COLUMNS.index("ill")
    return [(*row[:ill], "perhaps" if k // 2 % 3 == 0 else row[ill], *row[ill + 1 :]) for k, row in enumerate(rows)]


def write(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    """A .csv file of these columns of COLUMNS."""
    with path.open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(names)
        sheet.writerows([[row[COLUMNS.index(name)] for name in names] for row in rows])
    return path


LINEAR = "--target score --person who --exclude ill --exclude site"
LOGISTIC = "--target ill --exclude who --exclude site --exclude score"
POLICY = """
exact = "allow"
[data]
table = "table.csv"
target = "score"
person = "who"
exclude = ["ill", "site"]
"""
ANSWERS = "--release predictions --answer margins"
SHAPED = "--scale 50 --max-dose 1000 --noise-shape hessian"
ATTACKED = "--target score --exclude who --exclude ill --exclude site --scale 1"
CLASSES = "--target ill --exclude site --exclude score"
WRITES = {
    "fix": "model.skops",
    "fix with a scale": "model.skops",
    "fix softmax": "model.skops",
    "fix gamma": "model.skops",
    "pca": "model.skops",
    "pca open": "model.skops",
    "pate": "labels.csv",
    "federate": "model.safetensors",
}
"""Verbs that write an artefact, and its name."""


def commands(folder: Path) -> dict[str, list[str]]:
    """What is run in a folder with its tables and bounds.toml; --json, and --out, are added."""
    names = ("table.csv", "classes.csv", "public.csv", "bounds.toml")
    table, classes, public, bounds = (str(folder / name) for name in names)
    pate = f"--target ill --person who --exclude site --exclude score --public {public} --classes no,yes --teachers 12"
    return {
        "measure": ["measure", table, *LINEAR.split(), *"--scale 1 --max-dose 1000".split()],
        "measure exact": ["measure", table, *LINEAR.split()],
        "measure answers": ["measure", table, *LINEAR.split(), *ANSWERS.split(), "--queries", public, "--scale", "300"],
        "measure exact answers": ["measure", table, *LINEAR.split(), *ANSWERS.split(), "--queries", public],
        "measure logistic": ["measure", table, *LOGISTIC.split(), "--scale", "1"],
        "fix": ["fix", table, *LINEAR.split(), *"--max-dose 5".split()],
        "fix with a scale": ["fix", table, *LINEAR.split(), *SHAPED.split()],
        "fix softmax": ["fix", classes, *CLASSES.split(), *"--person who --max-dose 5 --even-if-useless".split()],
        "fix gamma": ["fix", table, *LINEAR.split(), *"--loss gamma --scale 0.5 --even-if-useless".split()],
        "attack of classes": ["attack", "inversion", classes, *CLASSES.split(),
                              *"--exclude who --scale 1 --column ward --trials 20".split()],
        "attack inversion": ["attack", "inversion", table, *ATTACKED.split(), "--column", "ward", "--trials", "20"],
        "attack answers": ["attack", "inversion", table, *ATTACKED.split(), *ANSWERS.split(), "--queries", public,
                           "--column", "ward", "--trials", "20"],
        "attack membership": ["attack", "membership", table, *ATTACKED.split(), "--trials", "50"],
        "pca": ["pca", table, *f"--person who --exclude site --bounds {bounds} --epsilon 2 --attack".split()],
        "pca open": ["pca", table, *"--person who --exclude site --not-private --epsilon 2".split()],
        "pate": ["pate", table, *pate.split(), "--budget", "2 nats", "--queries", "4"],
        "federate": ["federate", "--table", table, *"--target ill --client site --exclude who --exclude score".split(),
                     *"--epsilon 8 --rounds 3 --epochs 1".split()],
        "federate plan": ["federate", "plan", *"--clients 100 --epsilon 8".split()],
        "check": ["check", str(folder / "outgoing"), "--policy", str(folder / "policy.toml")],
        "demo": ["demo"],
    }  # fmt: skip


def prepare(folder: Path, seed: int) -> Path:
    """The tables of a folder."""
    folder.mkdir(exist_ok=True)
    write(folder / "table.csv", COLUMNS, people(seed))
    write(folder / "classes.csv", COLUMNS, several_classes(people(seed)))
    write(folder / "public.csv", ("age", "bmi", "ward"), people(99, 40))
    (folder / "bounds.toml").write_text(BOUNDS)
    (folder / "policy.toml").write_text(POLICY)
    write_regressions(folder / "outgoing", people(seed))
    return folder


def write_regressions(folder: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    """Regressions of score on other columns, as R prints them, each with its covariance."""
    folder.mkdir(exist_ok=True)
    values = {name: np.array([row[COLUMNS.index(name)] for row in rows]) for name in ("age", "bmi", "score")}
    for number, names in enumerate((("age", "bmi"), ("age",), ("bmi",))):
        X, terms = np.column_stack([np.ones(len(rows)), *(values[n] for n in names)]), ("(Intercept)", *names)
        w = np.linalg.lstsq(X, values["score"], rcond=None)[0]
        df = len(rows) - len(terms)
        V = np.sum((values["score"] - X @ w) ** 2) / df * np.linalg.inv(X.T @ X)
        parts = zip(terms, w.tolist(), np.sqrt(np.diag(V)).tolist(), strict=True)
        lines = [f"{term},{weight!r},{error!r},{df}" for term, weight, error in parts]
        (folder / f"model-{number}.csv").write_text("\n".join(["term,estimate,std.error,df.residual", *lines]) + "\n")
        matrix = [",".join([term, *map(repr, row)]) for term, row in zip(terms, V.tolist(), strict=True)]
        (folder / f"vcov-{number}.csv").write_text("\n".join([",".join(["", *terms]), *matrix]) + "\n")


def facts_of(folder: Path, name: str, more: Sequence[str] = (), check: Callable[[int], Any] | None = None) -> Any:
    """The facts that a verb printed; what it wrote is in folder/name."""
    place = folder / name.replace(" ", "-")
    place.mkdir(exist_ok=True)
    arguments = [*commands(folder)[name], *more]
    if name in WRITES:
        arguments += ["--out", str(place / WRITES[name])]
    elif name == "demo":
        arguments += ["--out", str(place)]
    code = run([*arguments, "--json", str(place / "facts.json")])
    assert code == 0, (name, code)
    return json.loads((place / "facts.json").read_text())


class Lazy(Mapping[str, Any]):
    """Verb -> a value that is made once, when it is first read."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Any]) -> None:
        self.names, self.make = tuple(names), make
        self.kept: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.kept:
            self.kept[name] = self.make(name)
        return self.kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def run_all(folder: Path) -> Lazy:
    """Verb -> what its --json wrote; a verb is run when it is first needed, with noise of its own."""

    def printed(name: str) -> Any:
        with fixed_noise(f"{folder.parent.name} {name}"):
            return facts_of(folder, name, ["-q"])

    return Lazy(list(commands(folder)), printed)


def typed(printed: Lazy) -> Lazy:
    """Verb -> the result that its JSON is."""
    return Lazy(printed.names, lambda name: read(printed[name]))
