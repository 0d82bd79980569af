"""One good file of every kind that is read, made by the program itself or by the libraries that write such files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.cli.main import run
from tests.readers.databases import book, keys
from tests.readers.mutations import JSON, NPY, NPZ, SAFETENSORS, SKOPS, TEXT, Mutation, any_bytes

N = 24
BOUNDS = """n = 24
own-units = false
[age]
lower = 20
upper = 90
centre = 50
[bmi]
lower = 10
upper = 60
[ill]
levels = ["no", "yes"]
"""
SETTINGS = """[measure]
max-dose = 1000
exclude = ["ill"]
scale = 0.5
[pca]
epsilon = 2
[ledger]
url = "nowhere.db"
"""


@dataclass(frozen=True)
class Reader:
    """A file that is read, what it is damaged with, and the command that reads it ({} is the file).

    codes: exits that are allowed; 0 where the damage is harmless. writes: files that the command may write. good: the
    exit of the whole file.
    """

    file: str
    mutate: Mutation
    command: str
    codes: tuple[int, ...] = (0, 2)
    writes: tuple[str, ...] = ()
    good: tuple[int, ...] = (0,)


MEASURE = "measure {} --target bmi --person id --exclude ill --scale 1 -q"
OWN = "measure people.csv --target bmi --person id --exclude ill --exclude site --scale 1 -q --model {}"
PATE = "pate people.csv --target ill --person id --public public.csv --classes no,yes --teachers 4 --scale 3 -q"
TRAIN = (
    "federate --table people.csv --target ill --client site --exclude id --epsilon 8 --delta 1e-3 --rounds 2 "
    "--epochs 1 --clients 6 --classes no,yes -q"
)
PATIENTS = (
    "federate --table people.csv --target bmi --unit patient --person id --site site --exclude ill --epsilon 8 "
    "--delta 1e-3 --rounds 2 --clients 14 --bounds patients.toml -q"
)
BLOCK_BOUNDS = "blocks.toml"
READERS: dict[str, Reader] = {
    "csv": Reader("people.csv", TEXT, MEASURE, (0, 2)),
    "tsv": Reader("people.tsv", TEXT, MEASURE + " --delimiter tab"),
    "parquet": Reader("people.parquet", any_bytes, MEASURE),
    "csv in blocks": Reader("people.csv", TEXT, MEASURE + " --engine blocks"),
    "csv in blocks with bounds": Reader("people.csv", TEXT, f"{MEASURE} --bounds {BLOCK_BOUNDS} --exclude site "
                                        "--missing drop --engine blocks"),
    "parquet in blocks": Reader("people.parquet", any_bytes, MEASURE + " --engine blocks"),
    "bounds of blocks": Reader(BLOCK_BOUNDS, TEXT, MEASURE.format("people.csv") + " --exclude site --bounds {} "
                               "--engine blocks"),
    "public table": Reader("public.csv", TEXT, f"{PATE} --out labels.csv", writes=("labels.csv",)),
    "skops": Reader("linear.skops", SKOPS, OWN, (0, 2, 3)),
    "coefficients": Reader("coefficients.json", JSON, OWN, (0, 2, 3)),
    "votes": Reader("votes.npy", NPY, "pate --votes {} --classes 3 --scale 5 --out labels.csv -q", (0, 2),
                    ("labels.csv",)),
    "votes so far": Reader("state.npz", NPZ, f"{PATE} --out labels.csv --checkpoint {{}} --resume", (0, 2),
                           ("labels.csv", "state.npz")),
    "checkpoint": Reader("training.npz", NPZ, f"{TRAIN} --out net.safetensors --checkpoint {{}} --resume", (0, 2),
                         ("net.safetensors", "training.npz.lock")),
    "checkpoint of patients": Reader("patients.npz", NPZ, f"{PATIENTS} --out net.safetensors --checkpoint {{}} "
                                     "--resume", (0, 2), ("net.safetensors", "patients.npz.lock")),
    "dose file": Reader("doses.json", JSON, "release fresh.skops --dose-file {} --ledger spare.db --name second -q",
                        (0, 1, 2), ("spare.db", "spare.db.keys")),
    "bounds": Reader("bounds.toml", TEXT, "pca people.csv --person id --exclude site --epsilon 2 -q --out pca.skops "
                     "--bounds {}", (0, 1, 2), ("pca.skops",)),
    "bounds of clients": Reader("clients.toml", TEXT, f"{TRAIN} --out net.safetensors --bounds {{}}", (0, 2),
                                ("net.safetensors",)),
    "settings": Reader("dosimeter.toml", TEXT, "measure people.csv --target bmi --person id -q", (0, 1, 2)),
    "ledger verify": Reader("book.db", book, "ledger verify --ledger {} -q", (0, 2, 4)),
    "ledger list": Reader("book.db", book, "ledger list --ledger {} -q", (0, 2, 4)),
    "ledger person": Reader("book.db", book, "ledger person p3 --ledger {} -q", (0, 2, 4)),
    "ledger budget": Reader("book.db", book, "ledger budget --ledger {} -q", (0, 2, 4)),
    "ledger set": Reader("book.db", book, "ledger budget fil=3 --ledger {} -q", (0, 2, 4), ("book.db", "book.db.keys")),
    "ledger compare": Reader("book.db", book, "ledger compare first third --ledger {} -q", (0, 2, 4)),
    "ledger export": Reader("book.db", book, "ledger export --ledger {} --out export.json", (0, 2, 4),
                            ("export.json",)),
    "ledger csv": Reader("book.db", book, "ledger export --ledger {} --format csv --out export.csv", (0, 2, 4),
                         ("export.csv",)),
    "ledger artefact": Reader("book.db", book, "ledger artefact first --ledger {} --out again.skops -q", (0, 2, 4),
                              ("again.skops",)),
    "ledger erase": Reader("book.db", book, "ledger erase p3 --yes --ledger {} -q", (0, 2, 4),
                           ("book.db", "book.db.keys")),
    "ledger release": Reader("book.db", book, "release fresh.skops --dose-file doses.json --ledger {} --name second -q",
                             (0, 1, 2, 4), ("book.db", "book.db.keys")),
    "ledger again": Reader("book.db", book, "release model.skops --dose-file first.json --ledger {} --name first -q",
                           (0, 1, 2, 4)),
    "keys verify": Reader("book.db.keys", keys, "ledger verify --ledger book.db -q", (0, 2, 4)),
    "keys person": Reader("book.db.keys", keys, "ledger person p3 --ledger book.db -q", (0, 2, 4)),
    "keys release": Reader("book.db.keys", keys, "release fresh.skops --dose-file doses.json --ledger book.db "
                           "--name second -q", (0, 1, 2, 4), ("book.db", "book.db.keys")),
    "keys rotate": Reader("book.db.keys", keys, "ledger keys rotate --ledger book.db -q", (0, 2, 4),
                          ("book.db.keys",)),
    "result of measure": Reader("measured.json", JSON, "report {} --out page.html -q --edition internal", (0, 2),
                                ("page.html",)),
    "result of fix": Reader("fixed.json", JSON, "report {} --out page.html --card card.md -q", (0, 2),
                            ("page.html", "card.md")),
    "result of pca": Reader("components.json", JSON, "report {} --out page.html --statistics -q", (0, 2),
                            ("page.html",)),
    "result of pate": Reader("labelled.json", JSON, "report {} --out page.html --edition internal -q", (0, 2),
                             ("page.html",)),
    "result of federate": Reader("trained.json", JSON, "report {} --out page.html --edition internal -q", (0, 2),
                                 ("page.html",)),
    "scan skops": Reader("svm.skops", SKOPS, "scan {} -q", (0, 1, 2, 3), good=(1,)),
    "scan forest": Reader("forest.skops", SKOPS, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan svm data": Reader("svm.skops", SKOPS, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan onnx": Reader("model.onnx", any_bytes, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan safetensors": Reader("st.safetensors", SAFETENSORS, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan npz": Reader("arrays.npz", NPZ, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan npy": Reader("votes.npy", NPY, "scan {} --data numbers.csv -q", (0, 1, 2, 3)),
    "scan json": Reader("facts.json", JSON, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1,)),
    "scan pickle": Reader("model.pkl", any_bytes, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1, 3)),
    "scan joblib": Reader("model.joblib", any_bytes, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1, 3)),
    "scan torch": Reader("model.pt", any_bytes, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1, 3)),
    "scan pmml": Reader("model.pmml", TEXT, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1, 3)),
    "scan rds": Reader("model.rds", any_bytes, "scan {} --data numbers.csv -q", (0, 1, 2, 3), good=(1, 3)),
    "scan its table": Reader("numbers.csv", TEXT, "scan svm.skops --data {} -q", (0, 1, 2, 3), good=(1,)),
}  # fmt: skip


def people() -> dict[str, list[Any]]:
    """Two rows a person, four a site."""
    rng = np.random.default_rng(3)
    age = rng.normal(55, 10, N).round(2)
    bmi = (0.3 * age + rng.normal(10, 2, N)).round(2)
    ill = np.where(age + rng.normal(0, 8, N) > 55, "yes", "no")
    return {
        "id": [f"p{k // 2}" for k in range(N)],
        "age": age.tolist(),
        "bmi": bmi.tolist(),
        "ill": ill.tolist(),
        "site": [f"s{k // 4}" for k in range(N)],
    }


def table(columns: dict[str, list[Any]], mark: str = ",") -> str:
    """As text."""
    rows = zip(*columns.values(), strict=True)
    return "\n".join([mark.join(columns), *(mark.join(map(str, row)) for row in rows)]) + "\n"


def made(*words: str) -> None:
    """A command that must go well."""
    with redirect_stdout(StringIO()):
        assert run(list(words)) == 0, words


def prepare(folder: Path) -> None:
    """Every sample in the folder, which is the working folder."""
    rows = people()
    (folder / "people.csv").write_text(table(rows))
    (folder / "people.tsv").write_text(table(rows, "\t"))
    (folder / "public.csv").write_text(
        table({"age": rows["age"][:6], "bmi": rows["bmi"][:6], "site": rows["site"][:6]})
    )
    (folder / "numbers.csv").write_text(table({name: rows[name] for name in ("age", "bmi", "ill")}))
    (folder / "bounds.toml").write_text(BOUNDS)
    (folder / "clients.toml").write_text("\n".join(BOUNDS.split("\n")[2:-3]))
    (folder / "patients.toml").write_text("\n".join(BOUNDS.split("\n")[2:-3]))
    (folder / BLOCK_BOUNDS).write_text("\n".join(BOUNDS.split("\n")[2:-3]))
    _tables(folder, rows)
    _models(folder, rows)
    _states(folder)
    _results(folder)
    _books(folder)
    (folder / "dosimeter.toml").write_text(SETTINGS)


def _tables(folder: Path, rows: dict[str, list[Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(rows), folder / "people.parquet")


def _models(folder: Path, rows: dict[str, list[Any]]) -> None:
    import skops.io
    from safetensors.numpy import save_file
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    X = np.array([rows["age"], rows["bmi"]]).T
    skops.io.dump(make_pipeline(StandardScaler(), Ridge(1.0)).fit(X[:, :1], X[:, 1]), folder / "linear.skops")
    skops.io.dump(make_pipeline(StandardScaler(), SVC()).fit(X, rows["ill"]), folder / "svm.skops")
    skops.io.dump(RandomForestClassifier(2, max_depth=3).fit(X, rows["ill"]), folder / "forest.skops")
    slope, start = np.polyfit(X[:, 0], X[:, 1], 1)
    whole = {"loss": "squared", "l2": 0.0, "intercept": start, "coef": {"age": slope}}
    (folder / "coefficients.json").write_text(json.dumps(whole))
    save_file({"0.weight": X.astype(np.float32), "0.bias": X[0], "k": np.arange(4)}, folder / "st.safetensors",
              {"who": "1,2\n3,4"})  # fmt: skip
    np.savez(folder / "arrays.npz", X=X, name=np.array(["a", "b"]), k=np.arange(3), c=X[:, 0])
    (folder / "model.onnx").write_bytes(_onnx(X))
    _closed(folder, X)
    nested = {
        "rows": X.tolist(),
        "by": {"a": [1, 2], "b": [3, 4]},
        "people": [{"x": 1.0, "y": None}],
        "note": "1,2\n3,4",
    }
    (folder / "facts.json").write_text(json.dumps(nested))


def _closed(folder: Path, X: Any) -> None:
    """Files that are never opened: a pickle, packed pickles, an archive of one, XML, packed bytes."""
    import gzip
    import pickle
    import zipfile
    import zlib

    pickled = pickle.dumps({"rows": X, "names": ["age", "bmi"]})
    (folder / "model.pkl").write_bytes(pickled)
    (folder / "model.joblib").write_bytes(zlib.compress(pickled))
    (folder / "model.rds").write_bytes(gzip.compress(X.astype(">f8").tobytes(), mtime=0))
    with zipfile.ZipFile(folder / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/0", X.astype("<f4").tobytes())
    rows = "".join(f"<row><age>{a}</age><bmi>{b}</bmi></row>" for a, b in X.tolist())
    (folder / "model.pmml").write_text(
        f'<?xml version="1.0"?><PMML version="4.4"><InlineTable>{rows}</InlineTable></PMML>'
    )


def _onnx(X: Any) -> bytes:
    """A graph with one tensor, by hand: dims, kind 11 (float64), name, raw numbers."""

    def field(number: int, value: bytes) -> bytes:
        assert len(value) < 2**14
        size = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
        return bytes([number << 3 | 2]) + size + value

    tensor = bytes([8, X.shape[0], 8, X.shape[1], 16, 11]) + field(8, b"rows") + field(9, X.tobytes())
    numbers = field(1, b"coefficients") + field(7, np.arange(8, dtype="<f4").tobytes())
    node = field(3, b"svm") + field(4, b"SVMClassifier") + field(5, numbers)
    return field(7, field(1, node) + field(5, tensor) + field(10, b"1,2\n3,4"))


def _states(folder: Path) -> None:
    votes = np.random.default_rng(1).integers(0, 3, (12, 5))
    np.save(folder / "votes.npy", votes)
    made(*PATE.split(), "--out", "labels.csv", "--checkpoint", "state.npz", "--json", "labelled.json")
    made(*TRAIN.split(), "--out", "net.safetensors", "--checkpoint", "training.npz", "--json", "trained.json")
    made(*PATIENTS.split(), "--out", "net.safetensors", "--checkpoint", "patients.npz")


FIX = "fix people.csv --target bmi --person id --exclude ill --scale 20 --max-dose 1e6 -q --even-if-useless"


def _results(folder: Path) -> None:
    made(*MEASURE.replace("{}", "people.csv").split(), "--json", "measured.json")
    made(*f"{FIX} --out model.skops --dose-file first.json --json fixed.json".split())
    made(*f"{FIX} --out fresh.skops --dose-file doses.json".split())
    made(
        *"pca people.csv --person id --exclude site --epsilon 2 -q --out pca.skops --bounds bounds.toml "
        "--dose-file pca.json --json components.json".split()
    )


def _books(folder: Path) -> None:
    for name in ("book.db", "spare.db"):
        made("ledger", "init", "--ledger", name, "--budget", "fil=1000", "--budget", "eps=50@1e-6", "-q")
    made(*"release pca.skops --dose-file pca.json --ledger book.db --name third -q".split())
    made(*"ledger erase p5 --yes --ledger book.db -q".split())
    made(*"release model.skops --dose-file first.json --ledger book.db --name first -q --to B".split())
    made(*f"{FIX} --store-fisher-blocks --name kept --out kept.skops --ledger book.db".split())
    for name in ("book.db", "spare.db", "book.db.keys", "spare.db.keys"):
        with closing(sqlite3.connect(name)) as connection:  # one file, nothing left in a log beside it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
