"""Small runs, shared by the tests of runs and of studies."""

from run_fixtures import alone, python, small

__all__ = ["alone", "python", "small"]
