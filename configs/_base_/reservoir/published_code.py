# ReservoirTTA with the preset "published_code": see docs/fidelity.md.
reservoir = dict(preset="published_code")
