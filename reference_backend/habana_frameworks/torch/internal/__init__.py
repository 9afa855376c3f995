"""What the package needs for itself: environment flags, the mode, import hooks, model folding."""
