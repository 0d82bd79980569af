"""From figures to what a person reads: facts -> plain dict -> page or terminal."""
