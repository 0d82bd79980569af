"""The vocabulary: noise, notion, dose, release, channel, engine. Arrays and plain values only."""
