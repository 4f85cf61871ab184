"""From probabilities of nodes to a prediction, and from predictions to scores."""
