"""Tables with column names: read from files or dataframes, checked, encoded as numbers, exported to scikit-learn."""
