"""How a model is measured on BioKaLMA (paper §4, §5)."""
