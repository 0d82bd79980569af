"""The losses of one margin and softmax, one class each."""
