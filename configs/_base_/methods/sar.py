# SAR: SGD with momentum, as in its paper; the learning rate is that of the other methods.
method = dict(type="sar", optimizer=dict(type="SGD", lr=7.5e-6, momentum=0.9))
