"""One registered adapter per kind of model. A new module here is found by itself; see CONTRIBUTING.md."""
