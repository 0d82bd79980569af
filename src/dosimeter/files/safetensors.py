"""A trained network as safetensors: weights named as in a `torch.nn.Sequential`, and a description as metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.federated.networks import Network
from dosimeter.files.atomic import AnyPath, write_bytes
from dosimeter.files.file_checks import GIBIBYTE, read_bytes, regular_file

_LARGEST_HEADER = 2**20


def write_network(
    path: AnyPath, network: Network, model: Any, description: Mapping[str, Any], *, inputs: Sequence[AnyPath] = ()
) -> None:
    """Write model (d,) as float32 tensors "0.weight" (out, in), "0.bias" (out,), "2.weight", ..., atomically.

    description: each value becomes a JSON text in the metadata of the file.
    """
    if Path(path).suffix.lower() != ".safetensors":
        raise Refusal(f"{safe_text(path, 120)}: a network is a .safetensors file: use that suffix")
    write_bytes(path, as_safetensors(network, model, description), inputs=inputs)


def as_safetensors(network: Network, model: Any, description: Mapping[str, Any]) -> bytes:
    """The bytes of the file."""
    from safetensors.numpy import save

    flat = np.asarray(model, dtype=np.float64)
    if flat.shape != (network.size,) or not np.isfinite(flat).all():
        raise Refusal(f"a network of {network.size} parameters needs that many finite numbers, not shape {flat.shape}")
    if np.abs(flat).max(initial=0.0) > np.finfo(np.float32).max:
        raise Refusal(
            f"a parameter of {np.abs(flat).max():g} does not fit into float32: "
            f"train with a smaller {option('clip')} or {option('learning_rate')}"
        )
    tensors = {}
    for k, layer in enumerate(network.layers(flat[None])):
        # Every second module of the Sequential is a ReLU, which has no weights.
        tensors[f"{2 * k}.weight"] = np.ascontiguousarray(layer.W[0].T, dtype=np.float32)
        if network.bias:
            tensors[f"{2 * k}.bias"] = np.ascontiguousarray(layer.b[0, 0], dtype=np.float32)
    metadata = {name: json.dumps(value, ensure_ascii=True, sort_keys=True) for name, value in description.items()}
    data: bytes = save(tensors, {"architecture": json.dumps(_architecture(network), sort_keys=True), **metadata})
    return data


def read_network(path: AnyPath, *, limit: int = GIBIBYTE) -> tuple[Network, FloatArray, dict[str, Any]]:
    """The network, its parameters (d,) and its description, from a file that `write_network` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    file, source = regular_file(path, limit)
    data, remedy = read_bytes(file, source), "use a network that dosimeter wrote"
    try:
        tensors, description = load(data), _metadata(data)
        form = description["architecture"]
        network = Network(tuple(form["widths"]), form["bias"], form["end"])
        parts = [part for k in range(len(network.widths) - 1) for part in _layer(tensors, network, k)]
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise source.refusal(f"not a network of dosimeter ({type(error).__name__})", remedy) from None
    if [p.size for p in parts] != _sizes(network) or any(p.dtype != np.float32 for p in parts):
        raise source.refusal("its tensors do not match its architecture", remedy)
    return network, np.concatenate([p.ravel() for p in parts]).astype(np.float64), description


def _architecture(network: Network) -> dict[str, Any]:
    return {
        "widths": list(network.widths),
        "bias": network.bias,
        "between": "relu",
        "end": network.end,
        "torch": "nn.Sequential(nn.Linear, nn.ReLU, ..., nn.Linear)",
    }


def _layer(tensors: Mapping[str, Any], network: Network, k: int) -> list[Any]:
    return [tensors[f"{2 * k}.weight"].T, *([tensors[f"{2 * k}.bias"]] if network.bias else [])]


def _sizes(network: Network) -> list[int]:
    return [size for i, o in pairwise(network.widths) for size in (i * o, *([o] if network.bias else []))]


def _metadata(data: bytes) -> dict[str, Any]:
    """The metadata, which safetensors' reader from bytes omits: eight bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    if length > min(_LARGEST_HEADER, len(data)):
        raise ValueError("header")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    return {str(name): json.loads(value) for name, value in metadata.items()}
