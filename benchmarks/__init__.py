"""Figures, always as ratios within one run."""
