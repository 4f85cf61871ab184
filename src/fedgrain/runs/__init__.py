"""One run: its config, its folder, its state, its result and the model it leaves."""
