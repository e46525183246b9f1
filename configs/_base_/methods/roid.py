# ROID* with the paper's learning rate for SegFormer-B5.
method = dict(type="roid", optimizer=dict(type="Adam", lr=7.5e-6))
