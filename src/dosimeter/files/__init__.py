"""Files that are not tables: networks, doses, checkpoints. Size and format are checked before parsing; never pickle."""
