"""IRFIL: reweighting that equalises the dose, and the dose through the whole reweighting."""
