"""The two operations of a training by many clients: a model goes out, an update comes back, and nothing else.

A client sends no metric, no number of rows and no text: an update, or a status without a body.
"""

from __future__ import annotations

from dosimeter.engines.protocol.fields import Flag, Singles
from dosimeter.engines.protocol.operations import operation

TRAIN = operation(
    "train",
    {"model": Singles(("parameters",))},
    {"update": Singles(("parameters",))},
    says="the client's update before clipping and noise, which only the curator sees",
)
ENDED = operation("training ended", {"released": Flag()}, {}, says="that it knows that the training has ended")
