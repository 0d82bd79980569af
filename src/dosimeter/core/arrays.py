"""Names for the arrays that every module passes around."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
