"""What changed from one build of a benchmark to another, row by row, and why."""
