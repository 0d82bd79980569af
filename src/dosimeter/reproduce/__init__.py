"""One module per paper: each printed number beside ours."""
