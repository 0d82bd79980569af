"""Fitted models of other libraries, and their preprocessing, as problems that `glm` can measure."""
