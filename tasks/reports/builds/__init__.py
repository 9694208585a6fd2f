"""The page of a build: what was built and what became of every row, where rows come from, what it cost."""
