"""Parquet files larger than memory: a part is a row group, which is read a block at a time.

`pre_buffer=False` and a small buffer: the defaults of pyarrow hold the whole file (notes in the explanation of blocks).
A row group is not read whole, so its size does not matter, unless a single column of it was written as one page.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.raw_block import RawBlock

BUFFER = 1 << 20
ENDINGS = (".parquet", ".pq")
FIXED_WIDTHS = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float": 4, "int32": 4, "uint32": 4}


@dataclass(frozen=True)
class ParquetPart:
    """One row group of one file, or some of its rows."""

    path: str
    group: int
    group_start: int
    """Number of the row group's first row in its file."""
    begin: int
    end: int
    """Rows of the group that belong to the part."""
    first: int
    """Number of the part's first row in the whole table."""
    columns: tuple[str, ...]
    block_rows: int
    stamp: tuple[str, int, int] = ("", 0, 0)
    """Of the file when its footer was read, as `stamp_of` gives it."""

    @property
    def rows(self) -> int:
        """Rows."""
        return self.end - self.begin

    @property
    def place(self) -> Location:
        """File and row group."""
        return Location(f"{self.path}, row group {self.group}", first=1 + self.group_start)

    def between(self, low: int, high: int) -> ParquetPart:
        """Those of its rows that have these numbers in the whole table."""
        begin = self.begin + low - self.first
        return replace(self, begin=begin, end=begin + high - low, first=low)

    def blocks(self) -> Iterator[RawBlock]:
        """Blocks of at most `block_rows` rows."""
        seen = 0
        for batch in self._batches():
            size, start = batch.num_rows, seen
            seen += size
            low, high = max(self.begin - start, 0), min(self.end - start, size)
            if low >= high:
                continue
            some = batch.slice(low, high - low)
            at = start + low
            place = Location(self.place.label, first=1 + self.group_start + at)
            # By name: pyarrow also reads the field b of a struct a if a column a.b is wanted.
            columns = {name: some.column(name) for name in self.columns}
            yield RawBlock(columns, self.first + at - self.begin, place)
            if seen >= self.end:
                return
        if seen < self.end:
            raise self.place.refusal(f"it has {seen} rows and the footer says {self.end}", DAMAGED)

    def _refuse_changed(self) -> None:
        """Refuse a file that was written again meanwhile: passes would read parts of two tables."""
        now = stamp_of(Path(self.path))
        if self.stamp[0] == now[0] and self.stamp != now:  # another computer may have a copy with another time
            raise self.place.refusal("the file was written again while it was read", "run the command again")

    def _batches(self) -> Iterator[Any]:
        parquet = pyarrow_parquet(self.place)
        try:
            with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=BUFFER) as file:
                self._refuse_changed()
                yield from file.iter_batches(
                    self.block_rows, row_groups=[self.group], columns=list(self.columns), use_threads=False
                )
        except Refusal:
            raise
        except Exception as error:  # pyarrow raises many kinds of errors
            raise damaged(error, self.place) from None


DAMAGED = "the file may be truncated; write it again"


def damaged(error: Exception, place: Location) -> Refusal:
    """The refusal of a file that pyarrow cannot read."""
    return place.refusal(f"cannot be read as Parquet ({safe_text(error, 100)})", DAMAGED)


def stamp_of(path: Path) -> tuple[str, int, int]:
    """This computer, and the file's size and time."""
    stat = path.stat()
    return platform.node(), stat.st_size, stat.st_mtime_ns


@dataclass(frozen=True)
class ParquetFileFacts:
    """What the footer of a file says."""

    path: str
    groups: tuple[int, ...]
    """Rows of each row group."""
    stamp: tuple[str, int, int]


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, or the Parquet files of a folder in the order of their names."""

    label: str
    names: tuple[str, ...]
    rows: int
    row_bytes: int
    identity: str
    files: tuple[ParquetFileFacts, ...]
    partitions: tuple[str, ...] = ()
    """Columns that only the names of subfolders hold."""

    @classmethod
    def of(cls, path: str | Path, memory: int) -> ParquetSource:
        """Read the footers; refused if a file is damaged, or has other columns than the first."""
        label, paths = str(path), parquet_files(Path(path))
        files, widest, identity, row_bytes = [], 0, [], 0
        schema: Any = None
        for each in paths:
            place = Location(str(each), first=1)
            parquet = pyarrow_parquet(place)
            try:
                stamp = stamp_of(each)
                with parquet.ParquetFile(each, pre_buffer=False, buffer_size=BUFFER) as file:
                    footer, own = file.metadata, file.schema_arrow
                    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
                    files.append(ParquetFileFacts(str(each), tuple(g.num_rows for g in groups), stamp))
                    enough = memory // 4
                    widest = max(widest, *(largest_page_bytes(file, g, enough) for g in range(len(groups))), 0)
            except Exception as error:
                raise damaged(error, place) from None
            place.check_names(own.names)
            identity.append(f"{each.resolve()}:{stamp[1]}:{stamp[2]}")
            if schema is None:
                schema = own
                row_bytes = sum(FIXED_WIDTHS.get(str(field.type), 8) for field in own)
            else:
                refuse_other_schema(schema, own, place, str(paths[0]))
        if schema is None:
            raise Location(label).refusal("there is no Parquet file in this folder", "check the name")
        refuse_large_pages(widest, memory, label)
        rows = sum(sum(file.groups) for file in files)
        only_in_names = [name for name in partition_columns(Path(path), paths) if name not in schema.names]
        return cls(label, tuple(schema.names), rows, row_bytes, "|".join(identity), tuple(files), tuple(only_in_names))

    def place_of(self, row: int) -> Location:
        """File and row group of a row of the whole table."""
        first = 0
        for file in self.files:
            start = first
            for g, rows in enumerate(file.groups):
                if row < first + rows:
                    return Location(f"{file.path}, row group {g}", first=1 - start)
                first += rows
        return Location(self.label, first=1)

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[ParquetPart]:
        """One part for each row group that has rows."""
        parts, first = [], 0
        for file in self.files:
            start = 0
            for g, rows in enumerate(file.groups):
                if rows:
                    wanted = tuple(columns)
                    parts.append(ParquetPart(file.path, g, start, 0, rows, first, wanted, block_rows, file.stamp))
                start, first = start + rows, first + rows
        return parts


def parquet_files(path: Path) -> list[Path]:
    """The file, or the Parquet files of a folder and its subfolders in the order of their names.

    Names that begin with a dot or an underscore are left out: files of a run that was stopped, and bookkeeping.
    """
    if not path.is_dir():
        return [path]
    every = [each.relative_to(path) for each in path.rglob("*")]
    refuse_kept_versions(path, every)
    seen = [each for each in every if not any(part.startswith((".", "_")) for part in each.parts)]
    return sorted(path / each for each in seen if each.suffix.lower() in ENDINGS and (path / each).is_file())


def refuse_kept_versions(path: Path, every: Sequence[Path]) -> None:
    """Refuse folders of table formats that keep the files of earlier versions: their rows would count again."""
    kinds = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
    kind = next((kinds[part] for each in every for part in each.parts if part in kinds), "")
    if any(each.name.endswith(".metadata.json") and each.parent.name == "metadata" for each in every):
        kind = "Iceberg"
    if kind:
        raise Location(str(path)).refusal(
            f"this is a table of {kind}: its folder also holds rows of earlier versions",
            "write the current version as plain Parquet files",
        )


def partition_columns(path: Path, files: Sequence[Path]) -> tuple[str, ...]:
    """Columns whose values are in the names of subfolders (site=A), not in the files."""
    folders = [part for each in files for part in each.relative_to(path).parts[:-1]] if path.is_dir() else []
    return tuple(dict.fromkeys(part.partition("=")[0] for part in folders if "=" in part))


def refuse_other_schema(first: Any, other: Any, place: Location, first_path: str) -> None:
    """Refuse a file of a folder whose columns or their kinds differ from the first file's."""
    missing = [name for name in first.names if name not in other.names]
    if missing:
        raise place.refusal(f"it has no column {safe_text(missing[0])}, and {first_path} does", ONE_SCHEMA)
    if len(other.names) > len(first.names):
        spare = next(name for name in other.names if name not in first.names)
        raise place.refusal(f"it has a column {safe_text(spare)}, and {first_path} does not", ONE_SCHEMA)
    for name in first.names:
        kinds = [str(schema.field(name).type) for schema in (first, other)]
        if kinds[0] != kinds[1]:
            fault = f"values of kind {kinds[1]} here and of kind {kinds[0]} in {first_path}"
            raise place.refusal(fault, ONE_SCHEMA, column=name)


ONE_SCHEMA = "write all files of the folder with the same columns"


def largest_page_bytes(file: Any, group: int, enough: int) -> int:
    """At least the size of the largest page of a row group: its largest column, if it was written as one page.

    A row group that is small as a whole has no large column. Otherwise one row is read first: pyarrow ends the process
    if a column's entry in the footer is damaged, unless reading the column refuses it.
    """
    facts = file.metadata.row_group(group)
    if not facts.num_rows or facts.total_byte_size <= enough:
        return int(facts.total_byte_size) if facts.num_rows else 0
    next(file.iter_batches(1, row_groups=[group], use_threads=False), None)
    return max((int(facts.column(j).total_uncompressed_size) for j in range(facts.num_columns)), default=0)


def refuse_large_pages(column_bytes: int, memory: int, label: str) -> None:
    """Refuse row groups of which a single column may fill a quarter of the memory: it may be one page."""
    if column_bytes > memory // 4:
        command = (
            'python -c "import pyarrow.parquet as p, sys; f = p.ParquetFile(sys.argv[1], pre_buffer=False); w = '
            "p.ParquetWriter(sys.argv[2], f.schema_arrow); [w.write_batch(b, row_group_size=262144) for b in "
            f'f.iter_batches(262144)]; w.close()" {label} NEW.parquet'
        )
        fault = f"a row group has a column of {column_bytes >> 20} MB, too much for {option('memory')} {memory >> 20}MB"
        raise Location(label).refusal(fault, f"write it again in smaller row groups: {command}")


def pyarrow_parquet(place: Location) -> Any:
    """pyarrow.parquet, which is an extra."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        todo = "pip install 'dosimeter[parquet]'"
        raise place.refusal("reading Parquet needs pyarrow, which is not installed", todo) from None
    return parquet
