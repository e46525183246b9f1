"""Is the data set on this disk the published one? Counts, pairs, decodes, and says what to mend.

`survey` finds the root, lists and reads the files (`file_facts` looks at each), `checks` yield
`findings`, and `outcome` sums them up. What a data set should be is its layout in `datasets`;
nothing here knows a particular one.
"""
