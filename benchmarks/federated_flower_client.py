"""The client of benchmarks/federated_flower.py, in a module that Flower's workers import once."""

from __future__ import annotations

from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod

from federated_job import descend, desk

app = ClientApp(mods=[fixedclipping_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train from the model that came, and send the new one."""
    here: dict[str, Any] = desk()
    here["module"].load_state_dict(message.content["arrays"].to_torch_state_dict())
    k, t = int(context.node_config["partition-id"]), int(message.content["config"]["server-round"])
    descend(k, t)
    content = {
        "arrays": ArrayRecord(here["module"].state_dict()),
        "metrics": MetricRecord({"num-examples": here["rows"].shape[1]}),
    }
    return Message(content=RecordDict(content), reply_to=message)
