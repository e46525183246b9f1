"""Compare a data set on disk with the published one. No module here knows a particular data set."""
