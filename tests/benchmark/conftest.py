from run_fixtures import alone, python, small

__all__ = ["alone", "python", "small"]
