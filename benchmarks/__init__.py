"""Figures, as medians and ratios of one run. ``python -m benchmarks`` runs all, or those that are named."""
