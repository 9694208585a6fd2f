"""Sheets that people fill in, and the file forms that carry them: CSV, Label Studio, Argilla."""
