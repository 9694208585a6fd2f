"""The page on which people label, audit and review, and the files of its forms."""
