# ReservoirTTA for streams of single frames (docs/routing.md). To route as the paper or its code
# does: --cfg-options reservoir.preset=paper (or published_code).
reservoir = dict(preset="stream")
