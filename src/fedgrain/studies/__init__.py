"""Many runs: the grid, the search of learning rates, the execution, the tables."""
