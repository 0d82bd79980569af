"""Readings written block by block to one .parquet or .csv file, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dosimeter.core.errors import Refusal
from dosimeter.files.atomic import AnyPath, atomic_file
from dosimeter.files.csv_export import csv_text


def write_reading_blocks(path: AnyPath, blocks: Iterable[Mapping[str, Any]], *, inputs: Sequence[AnyPath] = ()) -> None:
    """Columns of equal length, block after block, mode 0600."""
    write = _write_parquet if Path(path).suffix.lower() in (".parquet", ".pq") else _write_csv
    with atomic_file(path, inputs=inputs) as file:
        write(file, blocks)


def _write_csv(file: BinaryIO, blocks: Iterable[Mapping[str, Any]]) -> None:
    for k, block in enumerate(blocks):
        text = csv_text({name: values.tolist() for name, values in block.items()})
        file.write((text if k == 0 else text.split("\n", 1)[1]).encode())


def _write_parquet(file: BinaryIO, blocks: Iterable[Mapping[str, Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise Refusal("writing Parquet needs pyarrow: pip install 'dosimeter[parquet]', or name a .csv file") from None
    writer = None
    try:
        for block in blocks:
            table = pa.table({name: pa.array(values) for name, values in block.items()})
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
