"""Cox proportional hazards: the fit, and what its weights leak."""
