# BECoTTA with the paper's learning rate for SegFormer-B5. It adapts experts and gates, so a config
# also needs params = dict(_delete_=True, type="becotta", weights=FILE), with the FILE that
# `reservoir warmup` made.
method = dict(type="becotta", optimizer=dict(type="Adam", lr=6e-7))
