# Fog -> Night -> Rain -> Snow, ten times, never reset (the paper's recurring CSC).
test_cfg = dict(type="RecurringTestLoop", rounds=10, domains=["fog", "night", "rain", "snow"])
