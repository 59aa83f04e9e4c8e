"""Fits the calibrations to measured runs and measures how right they are: ``make calibrate`` and ``make accuracy``."""
