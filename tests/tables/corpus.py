"""The corpus of bad files, read by the tests of `io` and of the command line."""

import gzip
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

GOOD = b"age,city\n31,Bern\n54,Graz\n47,Bern\n"


class Canary:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def npy_of_objects(canary: Path) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([Canary(canary)], dtype=object), allow_pickle=True)
    return out.getvalue()


def _zip(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_json", ".json"), data)
    return out.getvalue()


TABLES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("t.csv", b"", "file is empty"),
    "only a byte order mark": ("t.csv", b"\xef\xbb\xbf", "first line is empty"),
    "only blank lines": ("t.csv", b"\n\n\n", "first line is empty"),
    "header only": ("t.csv", b"age,city\n", "a header and no row"),
    "header without line end": ("t.csv", b"age,city", "a header and no row"),
    "one row": ("t.csv", b"age,city\n31,Bern\n", "only one row"),
    "semicolons": ("t.csv", b"age;city\n31;Bern\n54;Graz\n", 'pass delimiter=";"'),
    "tabs": ("t.tsv", b"age\tcity\n31\tBern\n54\tGraz\n", r'pass delimiter="\\t"'),
    "bars": ("t.txt", b"age|city\n31|Bern\n54|Graz\n", r'pass delimiter="\|"'),
    "short row": ("t.csv", b"a,b\n1,2\n3\n", r"1 cells where the header has 2 \(row 2\)"),
    "long row": ("t.csv", b"a,b\n1,2\n3,4,5\n", r"3 cells where the header has 2 \(row 2\)"),
    "blank line between": ("t.csv", b"a,b\n1,2\n\n3,4\n", r"blank line \(row 2\)"),
    "NUL byte": ("t.csv", b"a,b\n1,2\n3,\x004\n", r"NUL byte \(row 2\)"),
    "NUL in the header": ("t.csv", b"ab,c\x00d,e\n1,2,3\n3,4,5\n", "NUL byte in the header"),
    "UTF-16 little": ("t.csv", GOOD.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 big": ("t.csv", b"\xfe\xff" + GOOD.decode().encode("utf-16-be"), "UTF-16"),
    "UTF-16 unmarked": ("t.csv", GOOD.decode().encode("utf-16-le"), "UTF-16"),
    "UTF-32": ("t.csv", GOOD.decode().encode("utf-32"), "UTF-16"),
    "Latin-1": ("t.csv", "a,b\nx,1\nZürich,2\n".encode("latin-1"), r"not UTF-8 \(row 2\)"),
    "Excel's note": ("t.csv", b"sep=;\na;b\n1;2\n3;4\n", "a note for Excel .*: delete this line"),
    "delimiters at the ends": ("t.csv", b"a,b,\n1,2,\n3,4,\n", "the name of column 3 is empty: .* end of every line"),
    "row names of R": ("t.csv", b"a,b\n1,2,3\n2,4,5\n", r"3 cells where the header has 2 \(row 1\): .*row.names=FALSE"),
    "index": ("t.csv", b",a,b\n0,1,2\n1,3,4\n", r"the name of column 1 is empty: .*index=False"),
    "Latin-1 header": ("t.csv", "Größe,b\n1,1\n2,2\n".encode("latin-1"), "not UTF-8 in the header"),
    "truncated UTF-8": ("t.csv", b"a,b\nx,1\ny,\xe2\x82", r"not UTF-8 \(row 2\)"),
    "duplicate names": ("t.csv", b"a,b,a\n1,2,3\n4,5,6\n", "two columns have the same name"),
    "empty name": ("t.csv", b",b\n1,2\n3,4\n", "name of column 1 is empty"),
    "blank name": ("t.csv", b"a, ,c\n1,2,3\n3,4,5\n", "name of column 2 is empty"),
    "no header": ("t.csv", b"5.1,3.5\n4.9,3.0\n4.7,3.2\n", "first line holds numbers only"),
    "10 kB name": ("t.csv", b"a," + b"n" * 10_000 + b"\n1,2\n3,4\n", "10000 characters long"),
    "unterminated quote": ("t.csv", b'a,b\n1,2\n"3,4\n5,6\n', r"never closed \(row 2\)"),
    "unterminated quote, long": (
        "t.csv",
        b'a,b\n1,2\n"3' + b"x,4\n" * 60_000,
        r"longer than 131072 .*\(row 2\)",
    ),
    "text after a quote": ("t.csv", b'a,b\n1,2\n"3"4,5\n', r"text after a closing quote \(row 2\)"),
    "CR only": ("t.csv", GOOD.replace(b"\n", b"\r"), "carriage return without line feed"),
    "a stray CR": ("t.csv", b"a,b\n1,2\n3,4\r5\n", r"carriage return .*\(row 2\)"),
    "one endless line": ("t.csv", b"a" * (2**24 + 10), "line longer than"),
    "text in numbers": ("t.csv", b"a,b\n1,2\n2,x y\n3,4\n", r"\(row 2, column b\): 'x y'"),
    "escape in numbers": ("t.csv", b"a,b\n1,2\n2,\x1b[2J\n3,4\n", r"'\\\\x1b\[2J'"),
    "escape in a name": ("t.csv", b"\x1b[2J,b\n1,2\nx,3\n2,4\n", r"column \\x1b\[2J"),
    "missing": ("t.csv", b"a,b\n1,2\n,3\n", r"missing value \(row 2, column a\)"),
    "nan text": ("t.csv", b"a,b\n1,2\nnan,3\n", r"missing value \(row 2, column a\)"),
    "all missing": ("t.csv", b"a,b\n1,\n2,\n", r"every value is missing \(column b\)"),
    "infinite": ("t.csv", b"a,b\n1,2\n-inf,3\n", r"not finite \(row 2, column a\)"),
    "overflow": ("t.csv", b"a,b\n1,2\n1e400,3\n", r"not finite \(row 2, column a\)"),
    "integer beyond 2^53": ("t.csv", b"a,b\n1,2\n9007199254740993,3\n", r"beyond 2\^53 \(row 2, column a\)"),
    "gzip": ("t.csv", gzip.compress(GOOD), "compressed with gzip"),
    "gzip by name": ("t.csv.gz", gzip.compress(b"0" * 10**6), "unpack it first"),
    "zip": ("t.csv", _zip(a=b"0" * 10**6), "zip archive"),
    "zip by name": ("t.zip", _zip(a=GOOD), "zip archive"),
    "spreadsheet": ("t.xlsx", _zip(a=b"0"), "zip archive"),
    "old spreadsheet": ("t.xls", b"\xd0\xcf\x11\xe0" + bytes(500), "Excel"),
    "HDF5": ("t.csv", b"\x89HDF\r\n\x1a\n", "HDF5"),
    "SQLite": ("t.csv", b"SQLite format 3\0", "SQLite"),
    "Parquet named csv": ("t.csv", b"PAR1" + bytes(40) + b"PAR1", "name it .parquet"),
    "csv named Parquet": ("t.parquet", GOOD, "not a Parquet file"),
    "truncated Parquet": ("t.parquet", b"PAR1" + bytes(10), "cannot be read as Parquet"),
    "lying Parquet footer": (
        "t.parquet",
        b"PAR1" + bytes(40) + b"\xff\xff\xff\x7fPAR1",
        "cannot be read as Parquet",
    ),
    "no ending": ("table", GOOD, "a name without ending"),
    "unknown ending": ("t.dat", GOOD, "the ending .dat"),
    "hostile ending": ("t.\x1b[2J", GOOD, r"the ending .\\x1b\[2j"),
    "npy of numbers": ("t.npy", b"\x93NUMPY\x01\x00", "not opened"),
}

DANGEROUS = [
    "t.pkl",
    "t.joblib",
    "t.pt",
    "t.pth",
    "t.npy",
    "t.bin",
    "t.sav",
    "t.csv",
    "t.parquet",
    "t.txt",
    "t",
]

JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "file is empty"),
    "not JSON": (b"{", "not JSON"),
    "a list": (b"[1]", "it is not an object"),
    "unknown key": (b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": {"a": 1}, "x": 1}', "x"),
    "missing key": (b'{"loss": "squared", "l2": 0, "coef": {"a": 1}}', "it lacks intercept"),
    "unknown loss": (b'{"loss": "hinge", "l2": 0, "intercept": 0, "coef": {"a": 1}}', "use one of squared"),
    "negative ridge": (b'{"loss": "squared", "l2": -1, "intercept": 0, "coef": {"a": 1}}', "not negative"),
    "NaN": (b'{"loss": "squared", "l2": NaN, "intercept": 0, "coef": {"a": 1}}', "NaN is not a number"),
    "infinite": (b'{"loss": "squared", "l2": 0, "intercept": 1e999, "coef": {"a": 1}}', "1e999 is beyond float64"),
    "huge integer": (
        b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": {"a": 1' + b"0" * 400 + b"}}",
        "float64",
    ),
    "endless integer": (
        b'{"loss": "squared", "l2": 1' + b"0" * 9000 + b', "intercept": 0, "coef": {}}',
        "a number of 9001 digits is beyond float64",
    ),
    "boolean": (
        b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": {"a": true}}',
        "coef of a is not a number",
    ),
    "text": (b'{"loss": "squared", "l2": "0", "intercept": 0, "coef": {"a": 1}}', "l2 is not a number"),
    "no coefficient": (b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": {}}', "coef is empty"),
    "coef twice": (b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": {"a": 1, "a": 2}}', "duplicate key"),
    "coef a list": (b'{"loss": "squared", "l2": 0, "intercept": 0, "coef": [1]}', "not an object"),
    "nested deep": (b"[" * 200_000, "not JSON"),
    "Latin-1": ('{"loß": 1}'.encode("latin-1"), "not JSON in UTF-8"),
    "hostile key": (b'{"\\u001b[2J": 1}', r"\\x1b\[2J"),
    "a pickle": (pickle.dumps({"coef": 1}), "this is a pickle"),
}
