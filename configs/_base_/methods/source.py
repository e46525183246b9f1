# No adaptation.
method = dict(type="source")
