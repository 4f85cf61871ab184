"""What several commands share: their common arguments, answers as text, one progress bar."""

__all__: list[str] = []  # none: used by the commands of fedgrain
