"""Arrays and their checks, factors of H⁻¹, sparse tables, and largest eigenvalues: no statistics."""
