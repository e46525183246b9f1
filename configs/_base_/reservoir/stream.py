# Routing for streams of single frames: see docs/routing.md.
reservoir = dict(preset="stream")
