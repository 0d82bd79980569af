"""How released weights move with a row's data (eq. 18 of [Hannun21]), and the `Leakage` that reads it."""
