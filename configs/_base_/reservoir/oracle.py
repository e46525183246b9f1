# Routing by the true domain names: for analysis only.
reservoir = dict(k_max=16, router=dict(type="oracle"), init="mi", predict="before")
