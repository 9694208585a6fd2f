"""Releases: a published build as a folder that others can load, check, cite and measure on."""
