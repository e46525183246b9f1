# EATA with the paper's learning rate for SegFormer-B5; its Fisher term needs source images.
method = dict(type="eata", optimizer=dict(type="Adam", lr=7.5e-6))
