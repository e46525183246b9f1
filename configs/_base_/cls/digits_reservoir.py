# ReservoirTTA with the paper's settings. Styles are taken at half size: a quarter of the time.
reservoir = dict(preset="default", style=dict(size=(16, 16)), calibration=dict(batches=100))
