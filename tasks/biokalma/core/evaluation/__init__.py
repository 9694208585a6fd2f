"""Pure parts of how a model is measured on BioKaLMA (paper §4)."""
