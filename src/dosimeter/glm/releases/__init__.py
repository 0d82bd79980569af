"""Which noise a release gets: its scale, its shape, what it costs in accuracy, and the plan of a release."""
