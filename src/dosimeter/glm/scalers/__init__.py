"""What a scaler fitted on the table adds, and what it leaves at any noise."""
