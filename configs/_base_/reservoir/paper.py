# ReservoirTTA with the preset "paper": see docs/fidelity.md.
reservoir = dict(preset="paper")
