"""Small runs, for what a model keeps of its calibration."""

from run_fixtures import alone, python, small

__all__ = ["alone", "python", "small"]
