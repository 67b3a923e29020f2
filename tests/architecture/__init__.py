"""Rules about the code itself: who may import whom, what is documented, how large things may grow."""
