# BECoTTA with the paper's learning rate for SegFormer-B5. It adapts experts and gates, so a config
# also says: params = dict(_delete_=True, type="becotta", weights=FILE), with the FILE that
# tools/warmup.py made.
method = dict(type="becotta", optimizer=dict(type="Adam", lr=6e-7))
