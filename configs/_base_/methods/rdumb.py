# RDumb with the paper's learning rate for SegFormer-B5: ETA, reset every 1000 images.
method = dict(type="rdumb", optimizer=dict(type="Adam", lr=7.5e-6))
