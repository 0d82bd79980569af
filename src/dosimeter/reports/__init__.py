"""A result as a page, terminal text, a notebook cell or a model card: one list of sections, four renderers."""
