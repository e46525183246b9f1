# ETA with the paper's learning rate for SegFormer-B5.
method = dict(type="eta", optimizer=dict(type="Adam", lr=7.5e-6))
