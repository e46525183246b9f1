"""Is the data set on this disk the published one? Counts, pairs, decodes, and says what to mend.

A data set is an entry of `check.layouts`; the checks know nothing of any particular one.
"""
