# Routing by the true domain names: for analysis only.
reservoir = dict(router=dict(type="oracle"))
