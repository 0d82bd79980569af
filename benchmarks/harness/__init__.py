"""What `make bench` is made of: the registry of rows, the clock, the reference, the page, the peers' environments."""
