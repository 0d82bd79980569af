"""What answers to queries leak, and attacks on them."""
