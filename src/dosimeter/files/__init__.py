"""Files that are not tables: models, doses, checkpoints. Sizes and formats are checked before parsing; never pickle."""
