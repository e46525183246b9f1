# Routing by the true domain names: for analysis only.
reservoir = dict(preset="published", router=dict(type="oracle"))
