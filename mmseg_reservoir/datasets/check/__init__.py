"""Compare a data set on disk with its published layout."""
