"""Figures, the report and the notebooks' controls: all that draws."""
